/* learn.h - which ops of a class wait for which, from the steps seen so far.
 *
 * Within a line order is given.  Across lines we only know what programs of this kind do
 * (a communication op follows the compute launched before it and what was sent since, a
 * compute span may wait for communication launched before it, the host sometimes waits for
 * everything) and keep of that what no step has contradicted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STEP_LEARN_H
#define LOCKSTEP_JUDGE_STEP_LEARN_H

#include "judge/step/model.h"
#include "judge/thresholds.h"

/* Half-precision times and thread wake-ups blur what came first. */
static inline int64_t learn_tolerance_ns(int64_t total_ns)
{
    return 50000 + total_ns / 2048;
}

void learn_step(struct model_class *class, const struct fact_step *step,
                const struct thresholds *limits);

#endif
