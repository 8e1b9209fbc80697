/* lanes.h - what ranks computed and when they communicated, from profiler traces.
 *
 * Each rank has its own clock; the judge aligns them by the ends of collectives.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_LANES_H
#define LOCKSTEP_WIRE_LANES_H

#include <stddef.h>
#include <stdint.h>

#define LANES_KINDS 32
#define LANES_COMPUTE 0 /* a kind; the others are collectives */

struct lane_op {
    int64_t step, start_ns, duration_ns;
    uint64_t group; /* of a collective: which communicator, the same number on all its members */
    uint32_t rank, kind;
};

struct lane_span { /* how long the device of a rank had work, in a trace with device kernels */
    int64_t total_ns, busy_ns;
    int64_t input_ns; /* the host waited for its data loader */
    uint32_t rank;
};

struct lanes {
    struct lane_op *op;
    size_t count, room;
    struct lane_span *span;
    size_t spans, span_room;
    uint32_t world; /* ranks of the job, as the traces say; 0: not said */
    char kind[LANES_KINDS][32];
    uint32_t kinds; /* names in use; kind 0 is "compute" */
};

int lanes_add(struct lanes *lanes, const struct lane_op *op);          /* -ENOMEM */
int lanes_add_span(struct lanes *lanes, const struct lane_span *span); /* -ENOMEM */
uint32_t lanes_kind(struct lanes *lanes,
                    const char *name); /* the last one when there are too many */
void lanes_fini(struct lanes *lanes);

#endif
