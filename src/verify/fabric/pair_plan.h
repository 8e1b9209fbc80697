/* pair_plan.h - which pairs of nodes are measured at the same time.
 *
 * Rounds of disjoint pairs: in a round no node is in two pairs, so that only the fabric is shared.  First inside leafs, then each leaf
 * with each other one, all of its nodes at once, so that uplinks carry what they are made for.  At most PAIR_PLAN_ROUNDS rounds
 * whatever the number of nodes, unless the full tournament is asked for.
 *
 * Reads no clock, file or socket.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_PAIR_PLAN_H
#define LOCKSTEP_VERIFY_FABRIC_PAIR_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "judge/links/slow_links.h"

#define PAIR_PLAN_ROUNDS 24
#define PAIR_PLAN_INSIDE 8 /* of them inside leafs, where there are several leafs */

struct plan_pair {
    uint32_t a, b;
};

struct plan_round {
    size_t first, count; /* in pair[] */
};

struct pair_plan {
    struct plan_pair *pair;
    size_t pairs, pair_room;
    struct plan_round *round;
    size_t rounds, round_room;
};

/* -ENOMEM.  Nodes without a leaf are taken for one leaf. */
int pair_plan_make(const struct slow_links_shape *shape, bool full, struct pair_plan *ret);
void pair_plan_fini(struct pair_plan *plan);

/* For a plan that is made by hand. */
int pair_plan_round(struct pair_plan *plan); /* begins a round */
int pair_plan_add(struct pair_plan *plan, uint32_t a, uint32_t b);
/* Adds the pair to the first round from `first` on in which neither node is in use, or to a new one; `most` rounds in all.
 * -ENOSPC: there is no room left.
 */
int pair_plan_place(struct pair_plan *plan, size_t first, size_t most, uint32_t a, uint32_t b);

/* The bounds of a test: what is printed before it begins. */
struct plan_cost {
    double seconds, bytes; /* at most, of all nodes together */
};
struct plan_cost pair_plan_cost(const struct pair_plan *plan, double seconds_each,
                                double bytes_per_second, uint32_t rails);

#endif
