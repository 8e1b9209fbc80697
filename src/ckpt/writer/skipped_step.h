/* skipped_step.h - a step that this rank does not save, although the others may.
 *
 * They would wait for its part in vain.  They do not learn it at once: a program may wait until there is room, and save the step after
 * all.  One that saves another step, or ends, does not come back to it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_WRITER_SKIPPED_STEP_H
#define LOCKSTEP_CKPT_WRITER_SKIPPED_STEP_H

#include "ckpt/writer/message.h"

struct skipped_step {
    int dir_fd; /* of all points; -1: no step is being skipped */
    struct message_skip what;
    int64_t until_ns; /* then the other ranks learn of it */
};

/* The trainer skips it; `dir_fd` belongs to the caller.  `commit_s`: for how long the others would wait. */
void skipped_step_take(struct skipped_step *skipped, const struct message_skip *what, int dir_fd,
                       uint32_t commit_s);
/* The trainer saves a step. */
void skipped_step_settle(struct skipped_step *skipped, uint64_t saved_step);
/* Tells the others if it is time; returns the nanoseconds until it will be, INT64_MAX if no step is being skipped. */
int64_t skipped_step_look(struct skipped_step *skipped);
/* Tells the others now, if a step is being skipped. */
void skipped_step_tell(struct skipped_step *skipped);

#endif
