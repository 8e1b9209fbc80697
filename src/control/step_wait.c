/* step_wait.c - steps of single ranks, kept until the step is complete.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/step_wait.h"

#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"

int step_wait_init(struct step_wait *wait, uint32_t world, uint64_t step, uint32_t attempt)
{
    size_t words = world / 64 + 1;

    *wait = (struct step_wait){ .step = step, .attempt = attempt, .world = world };
    wait->came = calloc(words, sizeof(*wait->came));
    wait->bytes = words * sizeof(*wait->came);
    return wait->came ? 0 : -ENOMEM;
}

void step_wait_fini(struct step_wait *wait)
{
    for (uint32_t i = 0; wait->one && i < wait->have; i++)
        fact_step_fini(&wait->one[i].step);
    free(wait->one);
    free(wait->came);
    *wait = (struct step_wait){ 0 };
}

bool step_wait_has(const struct step_wait *wait, uint32_t rank)
{
    return rank < wait->world && wait->came[rank / 64] >> rank % 64 & 1;
}

int step_wait_add(struct step_wait *wait, struct fact_step *fact, struct model_shape *shape)
{
    uint32_t room = wait->room;

    if (!ARRAY_FIT(wait->one, wait->room, wait->have + 1))
        return -ENOMEM;
    wait->bytes += (wait->room - room) * sizeof(*wait->one);
    wait->one[wait->have++] = (struct step_came){ *fact, shape };
    wait->came[fact->rank / 64] |= UINT64_C(1) << fact->rank % 64;
    wait->bytes += (fact->count + 1) * sizeof(*fact->time);
    wait->torn |= (fact->flags & STEP_TORN) != 0;
    wait->bare |= (fact->flags & STEP_BARE) != 0;
    fact->time = NULL; /* given away */
    return 0;
}

int step_wait_job_step(struct step_wait *wait, struct job_step *ret)
{
    struct job_step job_step;
    int result = job_step_init(&job_step, wait->world, wait->step, wait->attempt);

    if (result < 0)
        return result;
    job_step.have = wait->have;
    job_step.torn = wait->torn;
    job_step.bare = wait->bare;
    job_step.waits_ns = wait->waits_ns;
    for (uint32_t i = 0; i < wait->have; i++) {
        job_step.step_of[wait->one[i].step.rank] = wait->one[i].step;
        job_step.shape_of[wait->one[i].step.rank] = wait->one[i].shape;
    }
    free(TAKE(wait->one));
    *ret = job_step;
    return 0;
}
