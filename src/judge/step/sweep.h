/* sweep.h - one rank's step from begin to end, each moment put where it belongs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STEP_SWEEP_H
#define LOCKSTEP_JUDGE_STEP_SWEEP_H

#include "judge/step/split.h"

struct sweep_step {
    const struct model_class *class;
    const struct item_time *time;
    const struct meeting *meeting; /* number 0 */
    const uint32_t *number;        /* of the rank's items */
    int64_t begin_ns;              /* common clock */
    int64_t total_ns;
    bool split; /* times of merged ops have their waiting */
};

/* Adds the parts to *split. */
void sweep_rank(const struct sweep_step *step, struct rank_split *split);

#endif
