/* stall.h - devices that idle because the job waits: for input, a checkpoint, a start, an evaluation.
 *
 * What repeats is held against its own past, so this keeps more than the history's last steps: earlier
 * checkpoints and evaluations, long waits, and how often ranks were seen waiting for storage.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_STALL_H
#define LOCKSTEP_JUDGE_SLOW_STALL_H

#include "judge/state.h"

struct save_note;

int stall_create(struct stall **ret);
void stall_destroy(struct stall *stall);
size_t stall_bytes(const struct stall *stall); /* of memory, about */
void stall_beat(struct judge_state *judge, const struct fact_beat *beat);
/* stall_write.c: a rank's note of a save. */
void stall_save(struct judge_state *judge, uint32_t rank, const struct save_note *save);
void stall_attempt(struct stall *stall); /* a new one begins: nothing is comparable */

#endif
