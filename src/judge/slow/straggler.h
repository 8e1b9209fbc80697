/* straggler.h - what other judges ask the judge of stragglers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_STRAGGLER_H
#define LOCKSTEP_JUDGE_SLOW_STRAGGLER_H

#include "judge/state.h"

/* Its own work has been longer than its peers' for long enough; it need not cost anything. */
bool straggler_suspects(const struct judge_state *judge, uint32_t rank);

/* Where devices tell their collectives alone: did the others wait for it there of late?  True where they tell more. */
bool straggler_is_waited_for(const struct judge_state *judge, uint32_t rank);

#endif
