/* lengths.h - how much of the difference between ranks is only the length of their sequences.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STEP_LENGTHS_H
#define LOCKSTEP_JUDGE_STEP_LENGTHS_H

#include "judge/step/history.h"

/* Sets length_ms of the newest step, up to a constant for each group of peers, and the history's
 * `explained` and `lengths_vary`.  -ENOMEM.
 */
int lengths_explain(struct history *history, const struct model *model,
                    const struct thresholds *limits);

#endif
