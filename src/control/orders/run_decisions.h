/* run_decisions.h - the newest decisions of a run, and what became of them.
 *
 * An order is a decision in the state ORDERED.  Orders have numbers, in the order in which the log has them, from 1 on; the same
 * log gives the same numbers.  An order is given out once it is on disk: after a crash no other decision can have
 * its number.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_ORDERS_RUN_DECISIONS_H
#define LOCKSTEP_CONTROL_ORDERS_RUN_DECISIONS_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/decision.h"
#include "wire/frame.h"

#define RUN_DECISIONS_KEPT 32
#define RUN_OUTCOMES_BYTES (16u << 20) /* more: those of the oldest decisions go */

struct run_decision;

struct run_decisions {
    struct run_decision *kept[RUN_DECISIONS_KEPT]; /* oldest first */
    size_t count;
    size_t
        outcome_bytes; /* of all outcomes: what a run reports must not use up the memory of others */
    uint64_t orders;   /* number of the newest */
    uint64_t on_disk;  /* the same of those that are on disk */
};

void run_decisions_fini(struct run_decisions *decisions);
/* A frame of the log.  `own`: the controller wrote it.  Out of memory: a decision or outcome less. */
void run_decisions_frame(struct run_decisions *decisions, const struct frame *frame, bool own);

void run_decisions_synced(struct run_decisions *decisions);          /* all is on disk */
bool run_decisions_need_sync(const struct run_decisions *decisions); /* some order is not */

/* Orders after that number which are still to be carried out.  A number that was never given counts as 0.  *ret_count: how many. */
struct json_object *run_decisions_orders(const struct run_decisions *decisions, uint64_t after,
                                         int64_t now_real_ns, size_t *ret_count);
/* One of them, as an executor reads it. */
struct json_object *run_decisions_order_json(const struct decision *decision, uint64_t number);
/* Those for one request or verdict; `of` NULL: all. */
struct json_object *run_decisions_json(const struct run_decisions *decisions, const char *of);

#endif
