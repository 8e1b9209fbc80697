/* program.h - a whole step as a replay program, and questions to it.
 *
 * Ranks of one class have the same ops at the same places, so "as its peers do" is a
 * median over the peers' durations at one place.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_REPLAY_PROGRAM_H
#define LOCKSTEP_JUDGE_REPLAY_PROGRAM_H

#include "judge/step/model.h"
#include "judge/step/split.h"

struct program;

int program_create(struct program **ret);
void program_destroy(struct program *program);
size_t program_bytes(const struct program *program); /* of memory, about */
void program_clear(struct program *program);         /* the next step builds it anew */

/* Loads a step: the program is built anew only when the structure has changed.  The step must
 * have been split just before.  -ELOOP and the like: this step cannot be replayed.
 */
int program_load(struct program *program, const struct model *model,
                 const struct job_step *job_step, const struct splitter *splitter);

/* The step's period: from the last rank's begin to the last rank's end. */
int64_t program_measured_ns(const struct program *program); /* as it was */
int64_t program_replayed_ns(struct program *program);       /* replay of the measured durations */
bool program_fits(struct program *program); /* the two within the share that was set */
void program_fit_share(struct program *program, double share); /* of the measured period */

/* Period had every rank done its local work as its peers typically do. */
int64_t program_ideal_ns(struct program *program);
/* Period had these ranks done so: flag[rank] != 0. */
int64_t program_without_ns(struct program *program, const uint8_t *flag);
/* Period with each rank's device spans made longer or shorter by scale[rank]. */
int64_t program_scaled_ns(struct program *program, const double *scale);
/* Period with each rank's time in a phase of its host's shorter by up to less_ns[rank].  `whole` is the
 * step that was loaded, here and below.
 */
int64_t program_shorter_ns(struct program *program, const struct job_step *job_step, unsigned phase,
                           const int64_t *less_ns);
/* Period with each transfer as this says; it is given the rank's item and how long it really was. */
typedef int64_t program_transfer(void *arg, const struct model_shape *shape, uint32_t rank,
                                 uint32_t item, int64_t ns);
int64_t program_transfers_ns(struct program *program, const struct job_step *job_step,
                             program_transfer *transfer, void *arg);
/* Several such questions at once: begin, make as many of them as are wanted, and run. */
void program_trial_begin(struct program *program);
void program_trial_without(struct program *program, const uint8_t *flag);
void program_trial_shorter(struct program *program, const struct job_step *job_step, unsigned phase,
                           const int64_t *less_ns);
void program_trial_transfers(struct program *program, const struct job_step *job_step,
                             program_transfer *transfer, void *arg);
int64_t program_trial_ns(struct program *program);
/* First-order cost of each rank's local excess over its peers, by one backward pass. */
void program_costs_ns(struct program *program, int64_t *cost_ns);

#endif
