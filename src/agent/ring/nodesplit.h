/* nodesplit.h - waiting times of communicators inside the node, op by op.
 *
 * Merged ops lose their single times, and thereby the rank that was last.  The agent has all these times on one
 * clock: for communicators whose members are all on this node it knows the waiting time of each op, and a merged
 * item carries the sum.  Steps join as they are read, in any order; joined steps are kept for at least
 * NODESPLIT_KEEP_NS.  Pure: time is passed in.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_RING_NODESPLIT_H
#define LOCKSTEP_AGENT_RING_NODESPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/facts.h"

#define NODESPLIT_KEEP_NS INT64_C(1000000000)
#define NODESPLIT_MEETINGS_MAX (1u << 18) /* within that time; further ones are not split */

struct split_op { /* in the order of launch */
    uint8_t kind, what;
    bool ended, merged; /* merged: its item stands for others, too */
    uint32_t peer, item;
    uint64_t comm, key;
    int64_t start_ns, end_ns; /* the node's monotonic clock */
    uint64_t meeting;         /* set by nodesplit_join(); 0: none that this node can see whole */
};

struct nodesplit;
struct nodesplit *nodesplit_create(void); /* NULL: no memory */
void nodesplit_destroy(struct nodesplit *split);

/* A rank of this node is a member. */
void nodesplit_comm(struct nodesplit *split, const struct fact_comm *comm);
/* The ops of a step meet those of other ranks.  Returns true when there are sums to wait for. */
bool nodesplit_join(struct nodesplit *split, const struct fact_step *step, struct split_op *op,
                    uint32_t ops);
/* Have all met whose sums are wanted?  *from: where to look first, 0 at first. */
bool nodesplit_ready(const struct nodesplit *split, const struct split_op *op, uint32_t ops,
                     uint32_t *from);
/* Sets the step's waiting as far as it is known, and STEP_SPLIT if any is. */
void nodesplit_sum(const struct nodesplit *split, const struct split_op *op, uint32_t ops,
                   const struct fact_shape *shape, struct fact_step *step);
/* Some rank's steps have been merged lately: those of all others must join, too. */
bool nodesplit_busy(const struct nodesplit *split);
void nodesplit_turn(struct nodesplit *split, int64_t now_ns); /* forgets what is old */

#endif
