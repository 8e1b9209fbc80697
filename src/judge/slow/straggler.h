/* straggler.h - what other judges ask the judge of stragglers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_STRAGGLER_H
#define LOCKSTEP_JUDGE_SLOW_STRAGGLER_H

#include "judge/state.h"

/* How much longer than its peers it works, without the time that all ranks of its node wait longer for a CPU, where that is
 * a large part of it.
 */
double straggler_own_work_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps);

/* The phase in which the host holds up the device most, against its peers, over those of the last steps that count; NULL:
 * all do.
 */
typedef bool straggler_counts(const struct judge_state *judge, const struct past_step *past,
                              uint32_t rank);
unsigned straggler_longest_phase(const struct judge_state *judge, uint32_t rank, uint32_t steps,
                                 straggler_counts *counts, double *own_ms, double *peers_ms);

/* Where devices tell their collectives alone: did the others wait for it there of late?  True where they tell more. */
bool straggler_is_waited_for(const struct judge_state *judge, uint32_t rank);

#endif
