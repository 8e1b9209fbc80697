/* step_wait.h - an incomplete step: the ranks that have sent theirs, and one bit for each missing rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_STEP_WAIT_H
#define LOCKSTEP_CONTROL_STEP_WAIT_H

#include "judge/step/model.h"

struct step_wait {
    uint64_t step;
    uint32_t attempt, world, have, room;
    bool torn, bare;  /* as struct job_step has them */
    int64_t waits_ns; /* since when, by the caller's clock */
    uint64_t *came;   /* bits by rank */
    struct step_came {
        struct fact_step step;
        struct model_shape *shape;
    } * one;      /* in the order in which they came */
    size_t bytes; /* of memory */
};

int step_wait_init(struct step_wait *wait, uint32_t world, uint64_t step, uint32_t attempt);
void step_wait_fini(struct step_wait *wait);
bool step_wait_has(const struct step_wait *wait, uint32_t rank);
/* Takes the fact's times.  The rank is below the world, and has not come yet.  -ENOMEM. */
int step_wait_add(struct step_wait *wait, struct fact_step *fact, struct model_shape *shape);
/* By rank, for the judges; what has come is given away, the rest of *wait stays.  -ENOMEM. */
int step_wait_job_step(struct step_wait *wait, struct job_step *ret);

#endif
