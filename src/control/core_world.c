/* core_world.c - attempts of a run, and the ranks that take part in them.
 *
 * Arrays by rank are as long as the world, and a frame of 60 bytes may claim any world.  So a world is accepted only as far
 * as its ranks have sent something (model_room()); frames of ranks beyond that are kept as they came until it grows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>

#include "control/core_private.h"
#include "core/clean.h"
#include "core/time.h"
#include "judge/crash/crash.h"
#include "judge/ledger.h"
#include "judge/stuck/hang.h"

#define WORLD_ROOM 1024        /* ranks that a world has room for before more have sent something */
#define EARLY_BYTES (8u << 20) /* of frames of ranks beyond that */
#define ANNOUNCED_NS NS_PER_S  /* agents have reported the end of an attempt by then */

/* Judges what is known of the attempt before: there may have been no tick since. */
void core_attempt_begin(struct core *core, uint32_t attempt, int64_t mono_ns)
{
    if (!core->announced || attempt > core->announced)
        policy_attempt(core->policy, attempt, mono_ns + core->judge.mono_to_real_ns);
    core->announced = 0;
    if (attempt > core->judge.model.attempt) {
        core_steps_judge(core, mono_ns);
        crash_judge(&core->judge, mono_ns, true);
        core_steps_give_up(core);
        core->unseen = core->away = 0;
        core->done_step = 0;
        core->attempt_end_ns = 0;
    }
    judge_state_attempt(&core->judge, attempt, mono_ns);
}

void core_attempt_reach(struct core *core, uint32_t attempt)
{
    if (core->announced && attempt >= core->announced)
        core_attempt_begin(core, core->announced, core->announced_ns);
}

/* The launcher starts the next attempt at once, and is faster than the agents: their last steps, and what ranks said at
 * their end, may come after it.  So the attempt begins for the judges with the first fact of it, or when none has come for a
 * while; for the policy at once, since what the launcher can still do is about the new one.
 */
void core_attempt_announce(struct core *core, uint32_t attempt, int64_t mono_ns)
{
    if (attempt < core->announced) /* an old word that comes late */
        return;
    core_attempt_reach(core, attempt); /* no fact came of the one before it */
    if (attempt <= core->judge.model.attempt) {
        core_attempt_begin(core, attempt, mono_ns);
        return;
    }
    policy_attempt(core->policy, attempt, mono_ns + core->judge.mono_to_real_ns);
    core->announced = attempt;
    core->announced_ns = mono_ns;
}

void core_attempt_tick(struct core *core, int64_t now_ns, bool last)
{
    if (core->announced && (last || now_ns - core->announced_ns > ANNOUNCED_NS))
        core_attempt_begin(core, core->announced, core->announced_ns);
}

/* A rank whose process has ended opens a ring again, and the attempt is the same: something within the job
 * has restarted its worker, as elastic launchers restart all of them.
 */
bool core_workers_restarted(const struct core *core, const struct fact_ring *fact)
{
    const struct model *model = &core->judge.model;
    const struct model_rank *rank = fact->rank < model->world ? &model->rank[fact->rank] : NULL;

    return rank && rank->seen && rank->attempt == fact->attempt &&
           model->attempt == fact->attempt && fact->ring > rank->ring &&
           hang_is_gone(&core->judge, fact->rank);
}

void core_workers_restart(struct core *core, const struct fact_ring *fact)
{
    uint32_t world = MAX(fact->world, fact->rank + 1);

    core_steps_judge(core, fact->open_ns);
    crash_judge(&core->judge, fact->open_ns, true);
    core_steps_give_up(core);
    core->done_step = 0;
    policy_steps_again(core->policy);
    judge_state_workers_restarted(&core->judge, world, fact->open_ns);
    core->away = core->judge.model.world - MIN(world, core->judge.model.world);
}

static uint32_t core_world_room(const struct core *core)
{
    return MAX(core->judge.model.world,
               model_room(core->claimed, (uint32_t)core->seen.used, WORLD_ROOM));
}

int core_world_feed(struct core *core, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    uint32_t rank = reader_get_u32(&in);
    struct fact_ring ring;

    if (in.bad || rank >= MODEL_RANKS_MAX)
        return 0;
    if (frame->type == FRAME_RING) {
        in = reader_of(frame->payload, frame->payload_bytes);
        if (fact_ring_get(in, &ring) < 0 || ring.world > MODEL_RANKS_MAX)
            return 0;
        core->claimed = MAX(core->claimed, MAX(ring.world, rank + 1));
    }
    return rank >= core->claimed || map_put(&core->seen, rank, 1) ? 0 : -ENOMEM;
}

void core_world_begin(struct core *core, uint32_t ranks, int64_t mono_ns)
{
    core->claimed = MAX(core->claimed, ranks);
    core->ledger_ranks = ranks;
    core->run_known = true;
    core->begin_ns = mono_ns;
    ledger_run(core->judge.book, MIN(ranks, core_world_room(core)), mono_ns);
}

/* Whether it is of a rank that a ring has claimed, but for which the arrays have no room yet. */
bool core_frame_is_early(const struct core *core, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    uint32_t rank, world = core->judge.model.world;

    switch (frame->type) {
    case FRAME_STEP:
        reader_get_u64(&in); /* the shape */
        break;
    case FRAME_RING:
    case FRAME_EXIT:
        world = core_world_room(core); /* this frame may make it accepted */
        break;
    case FRAME_BEAT:
    case FRAME_STACK:
    case FRAME_NOTE:
    case FRAME_METHOD:
        break;
    default:
        return false;
    }
    rank = reader_get_u32(&in);
    return !in.bad && rank >= world && rank < core->claimed;
}

int core_early_keep(struct core *core, const struct frame *frame)
{
    if (core->early.size + FRAME_HEADER_BYTES + frame->payload_bytes > EARLY_BYTES)
        return 0; /* lost: most of the claimed world never sends anything */
    frame_put(&core->early, frame);
    return core->early.failed ? -ENOMEM : 0;
}

/* The world has grown: feeds the earlier facts of its ranks. */
static int core_early_feed(struct core *core)
{
    CLEAN(buf_fini) struct buf early = core->early;
    int result = 0;

    core->early = (struct buf){ 0 };
    for (size_t at = 0; at < early.size && result != -ENOMEM;) {
        struct frame frame;
        int64_t size = frame_get(early.data + at, early.size - at, &frame, NULL);

        if (size <= 0)
            break;
        result = core_feed_frame(core, &frame);
        core->counts.malformed += result < 0;
        at += (size_t)size;
    }
    return result == -ENOMEM ? result : 0;
}

/* Waiting steps were made for the smaller world. */
int core_world_grow(struct core *core)
{
    uint32_t world = core_world_room(core);
    int result;

    if (world <= core->judge.model.world)
        return 0;
    core_steps_clear(core);
    result = model_resize(&core->judge.model, world);
    if (result == 0)
        result = ledger_grow(core->judge.book, MIN(core->ledger_ranks, world));
    return result < 0 ? result : core_early_feed(core);
}
