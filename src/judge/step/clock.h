/* clock.h - one clock for all nodes, from the collectives themselves.
 *
 * No member leaves a synchronising collective before the last member enters it.  So each
 * instance bounds the offset between any two members' clocks from both sides, and the
 * intersection over the last steps holds it for certain.  Within that, members leave at nearly
 * the same time; where one side always comes last, one of the bounds is far off and their middle
 * means nothing.  Wall clocks, which NTP usually keeps together, are believed where they agree
 * with that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STEP_CLOCK_H
#define LOCKSTEP_JUDGE_STEP_CLOCK_H

#include "judge/step/model.h"

/* Sets every node's offset to the first node's clock.  One node: nothing to do.  Wall clocks further than
 * `wall_ns` from what collectives say are not believed.
 */
void clock_align(struct model *model, const struct job_step *job_step, int64_t wall_ns);

#endif
