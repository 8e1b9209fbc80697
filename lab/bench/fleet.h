/* fleet.h - the frames of a made-up job on very many nodes, as its agents would write them.
 *
 * Every process that plays some of the agents makes the same job from the same numbers, so they
 * need to exchange nothing.  Nodes have 8 ranks; each rank's replicas, one a node, meet in `ops`
 * all-reduces a step, so every op crosses nodes, and all ranks in one at its end.  Compute has noise, and one rank may be slow.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_FLEET_H
#define LOCKSTEP_LAB_BENCH_FLEET_H

#include <stdint.h>

#include "core/buf.h"
#include "wire/facts.h"

#define FLEET_NODE_RANKS 8
#define FLEET_BLOCKS 50
#define FLEET_KEPT 64

struct fleet {
    uint32_t nodes, ops;
    int64_t step_ns;    /* of a healthy step, about */
    uint32_t slow_rank; /* UINT32_MAX: none */
    uint64_t slow_from; /* this step on */
    struct fact_shape shape[FLEET_NODE_RANKS];
    struct fleet_meeting {
        uint64_t step;    /* plus one; 0: none */
        int64_t begin_ns; /* of the step, after the first one's */
        int64_t length_ns;
        int64_t end_ns[FLEET_NODE_RANKS][FLEET_BLOCKS]; /* when the replicas have met */
    } meeting[FLEET_KEPT]; /* of the newest steps: agents are not all at the same one */
    struct item_time *time;
};

int fleet_init(struct fleet *fleet, uint32_t nodes, uint32_t ops, int64_t step_ns); /* -ENOMEM */
void fleet_fini(struct fleet *fleet);

/* All append frames to `out` and count on in *number, the node's own. */
void fleet_launch(const struct fleet *fleet, const char *run, uint64_t boot, struct buf *out);
void fleet_hello(const struct fleet *fleet, uint32_t node, const char *run, uint64_t boot,
                 uint64_t *number, struct buf *out);
/* A step of the node's ranks, and a beat of each.  The first step of all began at `begin_ns`. */
void fleet_step(struct fleet *fleet, uint32_t node, uint64_t step, int64_t begin_ns, uint64_t boot,
                uint64_t *number, struct buf *out);
/* A beat of each of the node's ranks, in the middle of a step. */
void fleet_beats(uint32_t node, uint64_t step, int64_t now_ns, uint64_t boot, uint64_t *number,
                 struct buf *out);

#endif
