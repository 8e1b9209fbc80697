/* core_steps.c - keeps a step until all ranks have sent theirs, then passes it to the judges.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "control/core_private.h"
#include "core/clean.h"
#include "core/time.h"

#define PENDING_RANKS 4194304    /* ranks in all waiting steps: a huge world stays bounded */
#define PENDING_BYTES (1u << 30) /* ... and memory, where there are more than ... */
#define PENDING_LEAST 8          /* ... so many */
#define PATIENCE_STEPS 4         /* so many newer complete steps: the missing ranks will not come */
#define PATIENCE_NS (10 * NS_PER_S) /* ... nor after so long, if no step is complete any more */

void core_steps_clear(struct core *core)
{
    for (uint32_t i = 0; i < core->pendings; i++)
        step_wait_fini(&core->pending[i]);
    core->pendings = 0;
    core->pending_bytes = 0;
}

void core_steps_give_up(struct core *core)
{
    core->counts.steps_partial += core->pendings;
    core_steps_clear(core);
}

static uint32_t core_pending_room(const struct core *core)
{
    uint32_t room = MIN(CORE_PENDING_MAX, PENDING_RANKS / MAX(1, core->judge.model.world));

    if (core->pending_bytes > PENDING_BYTES)
        room = MIN(room, core->pendings);
    return MAX(PENDING_LEAST, room);
}

/* The waiting step with this number, made where it belongs; NULL: no room or memory. */
static struct step_wait *core_pending_get(struct core *core, uint64_t step)
{
    uint32_t at = core->pendings;

    while (at > 0 && core->pending[at - 1].step > step)
        at--;
    if (at > 0 && core->pending[at - 1].step == step)
        return &core->pending[at - 1];
    if (core->pendings >= core_pending_room(core))
        return NULL;
    memmove(core->pending + at + 1, core->pending + at,
            (core->pendings - at) * sizeof(*core->pending));
    if (step_wait_init(&core->pending[at], core->judge.model.world, step,
                       core->judge.model.attempt) < 0) {
        memmove(core->pending + at, core->pending + at + 1,
                (core->pendings - at) * sizeof(*core->pending));
        return NULL;
    }
    core->pendings++;
    core->pending_bytes += core->pending[at].bytes;
    return &core->pending[at];
}

static void core_pending_drop_first(struct core *core)
{
    core->pending_bytes -= core->pending[0].bytes;
    step_wait_fini(&core->pending[0]);
    core->pendings--;
    memmove(core->pending, core->pending + 1, core->pendings * sizeof(*core->pending));
}

int core_feed_step(struct core *core, struct reader in)
{
    struct model *model = &core->judge.model;
    struct model_shape *shape = model_shape_get(model, fact_step_shape(in));
    CLEAN(fact_step_fini) struct fact_step fact = { 0 };
    struct step_wait *job_step;
    int result;

    if (!shape) /* one of a former attempt may have been forgotten, and is too late to matter */
        return fact_step_head_get(in, &fact) == 0 && fact.attempt < model->attempt ? 0 : -EPROTO;
    result = fact_step_get(in, &shape->fact, &fact);
    if (result < 0)
        return result;
    if (fact.rank >= model->world)
        return -EPROTO;
    policy_step(core->policy, fact.attempt, fact.step + 1); /* this one has ended */
    if (fact.attempt != model->attempt || fact.step + 1 <= core->done_step ||
        fact.ring < model->rank[fact.rank].from_ring)
        return 0; /* too late to matter */
    job_step = core_pending_get(core, fact.step);
    if (!job_step && core->pendings >= core_pending_room(core)) {
        if (fact.step < core->pending[0].step)
            return 0; /* it would be the next to go */
        core->counts.steps_partial++;
        core->done_step = core->pending[0].step + 1;
        core_pending_drop_first(core);
        job_step = core_pending_get(core, fact.step);
    }
    if (!job_step)
        return -ENOMEM;
    if (step_wait_has(job_step, fact.rank))
        return 0; /* it came twice */
    shape->attempt = fact.attempt;
    core->pending_bytes -= job_step->bytes;
    result = step_wait_add(job_step, &fact, shape);
    core->pending_bytes += job_step->bytes;
    return result;
}

/* ---- judging ---- */

static bool core_is_complete(const struct core *core, const struct step_wait *job_step)
{
    return job_step->have >= core->judge.model.world - MAX(core->unseen, core->away);
}

/* Complete steps newer than the oldest waiting one. */
static uint32_t core_newer_job_step(const struct core *core)
{
    uint32_t count = 0;

    for (uint32_t i = 1; i < core->pendings; i++)
        count += core_is_complete(core, &core->pending[i]);
    return count;
}

/* Ranks that are missing from a step because nothing was ever seen of them: they could not open a
 * ring, say.  The others can still be compared; an unseen rank is never named.
 */
static uint32_t core_never_seen(const struct core *core, const struct step_wait *job_step)
{
    const struct model *model = &core->judge.model;
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < model->world; rank++)
        count += !step_wait_has(job_step, rank) &&
                 (!model->rank[rank].seen || model->rank[rank].attempt != model->attempt);
    return count;
}

static bool core_is_given_up(const struct core *core, const struct step_wait *job_step,
                             int64_t now_ns)
{
    return core_newer_job_step(core) >= PATIENCE_STEPS || now_ns - job_step->waits_ns > PATIENCE_NS;
}

/* Passes a step to the judges; `numbers`: only its numbers (losses, digests), since it is not complete. */
static void core_judge_step(struct core *core, struct step_wait *wait, bool numbers)
{
    struct job_step job_step;

    if (step_wait_job_step(wait, &job_step) < 0)
        return;
    if (numbers)
        judge_state_numbers(&core->judge, &job_step);
    else if (judge_state_step(&core->judge, &job_step) == 0 && core->watch)
        core->watch(core->watch_arg, &core->judge, &job_step);
    job_step_fini(&job_step);
}

void core_steps_judge(struct core *core, int64_t now_ns)
{
    for (uint32_t i = 0; i < core->pendings; i++) {
        if (core->pending[i].waits_ns == 0)
            core->pending[i].waits_ns = now_ns;
    }
    while (core->pendings > 0) {
        struct step_wait *job_step = &core->pending[0];

        if (!core_is_complete(core, job_step)) {
            if (!core_is_given_up(core, job_step, now_ns))
                return;
            core->unseen = core_never_seen(core, job_step);
            if (core_is_complete(core, job_step))
                continue; /* all are here that ever will be */
            core->counts.steps_partial++;
            if (job_step->bare) /* steps of ranks without numbers were merged, and never come */
                core_judge_step(core, job_step, true);
        } else if (job_step->torn) { /* a rank's ops are missing: nothing can be compared */
            core->counts.steps_partial++;
        } else if (job_step->bare) {
            core->counts.steps_partial++;
            core_judge_step(core, job_step, true);
        } else {
            core->counts.steps_complete++;
            core_judge_step(core, job_step, false);
        }
        core->done_step = job_step->step + 1;
        core_pending_drop_first(core);
    }
}
