/* order_poll.h - keeps a long poll for the orders of a run, or of a node, open.
 *
 * Nothing here waits: the answers come from the caller's loop.  If the controller does not respond, it is asked again with
 * growing pauses.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ORDERS_ORDER_POLL_H
#define LOCKSTEP_ACT_ORDERS_ORDER_POLL_H

#include <stdbool.h>

#include "base/loop.h"
#include "base/net/client.h"
#include "base/net/token.h"
#include "core/err.h"
#include "wire/decision.h"

struct order_poll;

struct order_poll_settings {
    struct loop *loop;
    struct client *client;     /* its timeout is 30 s or more: the controller answers after 25 s */
    const char *run;           /* NULL: of a node */
    const char *node;          /* NULL: of a run */
    const struct token *token; /* of that run or node, the caller's; "" until it is known */
    /* An order, possibly one that came before.  -errno: it comes again.  Of one to START, decided_real_ns has the time since boot at
     * which the controller was asked: it was valid after that.
     */
    int (*take)(void *arg, const struct decision *order);
    /* With each answer for a node: the checks of which the site is at fault.  NULL: not needed. */
    void (*site_faults)(void *arg, const char (*name)[FACT_NAME], size_t count);
    void *arg;
};

int order_poll_create(const struct order_poll_settings *settings, struct order_poll **ret);
/* NULL is fine.  Its client must be closed before the loop goes on. */
void order_poll_destroy(struct order_poll *poll);
const struct err *order_poll_trouble(const struct order_poll *poll); /* text "": none */

#endif
