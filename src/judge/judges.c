/* judges.c - the list of judges, in the order in which they look.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/state.h"

extern const struct judge judge_corrupt, judge_cpu, judge_imbalance, judge_regress, judge_stall,
    judge_signals, judge_straggler, judge_straggler_forming, judge_straggler_late, judge_sync;

const struct judge *const judges[] = {
    &judge_signals,        /* what all others ask */
    &judge_cpu,            /* before stragglers: starved ranks look like stragglers */
    &judge_imbalance,      /* before stragglers: what the work explains is nobody's fault */
    &judge_straggler_late, /* before the next: where only collectives are told, it asks who came last */
    &judge_straggler,
    &judge_straggler_forming,
    &judge_stall, /* what is left: the job itself waits */
    &judge_sync,
    &judge_corrupt, /* asks nothing about time */
    &judge_regress, /* last: what no other verdict explains */
    NULL,
};
