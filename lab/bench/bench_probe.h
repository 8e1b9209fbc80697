/* bench_probe.h - what a mark costs the training process beyond reading the clock.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_BENCH_PROBE_H
#define LOCKSTEP_LAB_BENCH_BENCH_PROBE_H

#include <stdint.h>

#include "core/err.h"

#define BENCH_PROBE_BATCH 1000u /* marks, or clock reads, between two looks at the clock */
#define BENCH_PROBE_BAR_NS 15.0

struct bench_probe_plan {
    uint32_t batches; /* of marks, and as many of clock reads, in turn */
    uint32_t cold;    /* single marks with a cold cache */
};

struct bench_probe_cost { /* nanoseconds per mark, less the median clock read of the same run */
    double p50_ns, p99_ns;
    double clock_p50_ns;
};

struct bench_probe_nccl { /* nanoseconds per collective, as told by NCCL to a profiler plugin */
    double p50_ns, p99_ns;
    double floor_p50_ns; /* the same calls to a plugin that does nothing */
};

struct bench_probe_result {
    struct bench_probe_cost one, two; /* one thread; two at a time, each on its own communicator */
    double cold_p50_ns;               /* the lane's lines evicted from all caches */
    struct bench_probe_nccl nccl;
};

/* Opens a ring of its own in a directory of its own and removes both.  -errno. */
int bench_probe_run(const struct bench_probe_plan *plan, struct bench_probe_result *ret,
                    struct err *err);

#endif
