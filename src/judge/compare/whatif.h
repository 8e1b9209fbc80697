/* whatif.h - what a job lost to stragglers, by running its trace again with other durations.
 *
 * A plan is the trace as programs for replay.h, one per step, each op with its traced duration (of
 * communication: the transfer alone, from the last arrival to the end) and its ideal one: what its kind
 * typically takes over all steps and workers, the mean of compute, the median of transfers.
 *
 *   S       = step time without launch delays / step time with every op ideal
 *   waste   = 1 - 1/S
 *   launch  = traced step time / step time without launch delays; what the model does not explain
 *   S_X     = step time with all but X ideal / ideal, X one kind, worker, stage or data-parallel index
 *   M_W     = share of the lost time that is gone when the worst 3 % of the workers are ideal
 *   M_S     = ... when the last pipeline stage is
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_COMPARE_WHATIF_H
#define LOCKSTEP_JUDGE_COMPARE_WHATIF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "judge/replay/replay.h"
#include "wire/lanes.h"
#include "wire/optrace.h"

enum whatif_by {
    WHATIF_KIND,
    WHATIF_WORKER,
    WHATIF_STAGE,
    WHATIF_DP,
    WHATIF_BY_COUNT
};

struct whatif_worker {
    uint32_t rank, stage, dp;
};

struct whatif_plan_step {
    int64_t step, traced_ns;
    size_t first, count;   /* its ops */
    struct replay *replay; /* NULL: the same program as the step before */
};

struct whatif_plan {
    struct whatif_plan_step *step;
    size_t steps, count; /* count: all ops */
    struct replay_op *op;
    int64_t *traced_ns, *ideal_ns;    /* by op */
    uint32_t *label[WHATIF_BY_COUNT]; /* by op; labels are 0 ... labels[by]-1 */
    size_t labels[WHATIF_BY_COUNT];
    struct whatif_worker *worker; /* by label */
    char (*kind)[32];             /* names by label */
    uint64_t unpaired;            /* sends and receives whose other side is not in the trace */
};

/* Under the dependencies of pipeline- and data-parallel training (whatif_pipeline.c says them).  -EINVAL:
 * what is wrong with the trace; -ELOOP: its ops wait for each other in a circle; -ENOMEM.
 */
int whatif_plan_pipeline(const struct optrace *trace, struct whatif_plan *ret, struct err *err);
/* Of profiler traces, without knowledge of the program (whatif_lanes.c says how). */
int whatif_plan_lanes(const struct lanes *lanes, struct whatif_plan *ret, struct err *err);
void whatif_plan_fini(struct whatif_plan *plan);

struct whatif_times { /* seconds */
    int64_t step;
    double traced, no_delay, ideal;
};

struct whatif_share {
    double without, only; /* mean step time: these made ideal; all others made ideal */
    double share, added;  /* of the lost time: gone without them; there with them alone */
};

struct whatif {
    struct whatif_times *step, mean;
    size_t steps;
    double S, waste, launch;
    double *S_of[WHATIF_BY_COUNT];                 /* by label */
    double *S_of_step[WHATIF_BY_COUNT];            /* [label * steps + step]; NULL of workers */
    struct whatif_share worst_workers, last_stage; /* M_W and M_S are their shares */
    uint32_t *worst;                               /* labels of those workers, the worst first */
    size_t worst_count;
};

int whatif_run(const struct whatif_plan *plan, struct whatif *ret); /* -ENOMEM */
void whatif_fini(struct whatif *whatif);

#endif
