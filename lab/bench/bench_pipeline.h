/* bench_pipeline.h - the step of a large training job as a replay program.
 *
 * Pipeline stages with the one-forward-one-backward schedule, replicated for data parallelism.  A
 * tensor-parallel group moves as one and is one line.  Every transfer between stages is
 * an op on a line of its own; at the end each stage's replicas meet in a reduce-scatter, and
 * the optimizer follows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_BENCH_PIPELINE_H
#define LOCKSTEP_LAB_BENCH_BENCH_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/rand.h"
#include "judge/replay/replay.h"

struct pipeline_shape {
    uint32_t stages, replicas, micro_batches;
    bool by_rank; /* op after op of one replica, then the next; else the replicas side by side */
};

struct pipeline_times { /* ns, before jitter */
    int64_t forward, backward, transfer, reduce, optimizer;
    double jitter; /* deviation, as a part of the mean */
};

struct pipeline {
    struct replay_op *op;
    int64_t *duration;
    size_t count;
    size_t compute_count; /* of them forwards and backwards */
};

int pipeline_init(struct pipeline *pipeline, const struct pipeline_shape *shape,
                  const struct pipeline_times *times, struct rand *rand); /* -ENOMEM */
void pipeline_fini(struct pipeline *pipeline);

#endif
