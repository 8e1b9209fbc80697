/* order_json.h - reads the answer of GET /api/v1/orders.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ORDERS_ORDER_JSON_H
#define LOCKSTEP_ACT_ORDERS_ORDER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/decision.h"
#include "wire/finding.h"

#define ORDERS_MAX 64 /* of one answer */

struct order_list {
    struct decision order[ORDERS_MAX];
    size_t count;
    uint64_t next;                                 /* what to ask for next: orders after this one */
    bool ended;                                    /* the run is over */
    char site_fault[CHECK_SITE_FAULTS][FACT_NAME]; /* of a node: names of checks */
    size_t site_faults;
};

/* -EPROTO: not such an answer. */
int order_list_parse(const void *data, size_t size, struct order_list *ret, struct err *err);

#endif
