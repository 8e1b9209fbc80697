/* core.c - collects a step until all ranks have sent theirs, then calls the judges.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/step_wait.h"
#include "core/clean.h"
#include "core/map.h"
#include "core/time.h"
#include "judge/crash/crash.h"
#include "judge/ledger.h"
#include "judge/slow/stall.h"
#include "judge/slow/sync.h"
#include "judge/state.h"
#include "judge/stuck/hang.h"

#define PENDING_MAX 256             /* steps that wait for ranks ... */
#define PENDING_RANKS 4194304       /* ... and ranks in all of them: a huge world stays bounded */
#define PENDING_BYTES (1u << 30)    /* ... and memory, where there are more than ... */
#define PENDING_LEAST 8             /* ... so many */
#define WORLD_ROOM 1024             /* ranks that a world has room for, before more have spoken */
#define EARLY_BYTES (8u << 20)      /* of frames of ranks beyond that */
#define PATIENCE_STEPS 4            /* so many newer whole steps: the missing ranks will not come */
#define PATIENCE_NS (10 * NS_PER_S) /* ... nor after so long, if no step is whole any more */
#define LEDGER_NS (5 * NS_PER_S)
#define AFTER_ATTEMPT_NS                                                                           \
    (150 * NS_PER_MS) /* the agents' last frames come this much after its end */

struct core {
    core_watch *watch; /* NULL: none */
    void *watch_arg;
    struct judge_state judge;
    struct core_counts counts;
    struct step_wait pending[PENDING_MAX]; /* ordered by step, oldest first */
    uint32_t pendings;
    size_t pending_bytes;
    uint64_t done_step;    /* steps up to here have been judged in this attempt; plus one */
    uint32_t claimed;      /* the largest reported world */
    struct map heard;      /* ranks that opened a ring or ended: so many of it are believed in */
    struct buf early;      /* frames of ranks beyond the world that is believed in so far */
    uint32_t ledger_ranks; /* that the run began with */
    bool run_known;
    uint32_t away;   /* ranks that are in no world since all began anew with a smaller one */
    uint32_t unseen; /* ranks that have left no ring in this attempt, and are not waited for */
    int64_t attempt_end_ns; /* of this attempt; 0: it goes on */
    int64_t end_ns;         /* of the run; 0: it goes on */
    int64_t exit_ns;        /* newest end of a rank, by the run's clock; 0: none */
    int64_t ledger_ns;
};

int core_create(const char *run, struct core **ret)
{
    struct core *core = calloc(1, sizeof(*core));
    int result;

    if (!core)
        return -ENOMEM;
    result = judge_state_init(&core->judge, run);
    if (result < 0)
        free(core);
    else
        *ret = core;
    return result;
}

void core_watch_steps(struct core *core, core_watch *watch, void *arg)
{
    core->watch = watch;
    core->watch_arg = arg;
}

static void pending_clear(struct core *core)
{
    for (uint32_t i = 0; i < core->pendings; i++)
        step_wait_fini(&core->pending[i]);
    core->pendings = 0;
    core->pending_bytes = 0;
}

void core_destroy(struct core *core)
{
    if (!core)
        return;
    pending_clear(core);
    judge_state_fini(&core->judge);
    map_fini(&core->heard);
    buf_fini(&core->early);
    free(core);
}

size_t core_bytes(const struct core *core)
{
    return sizeof(*core) + judge_state_bytes(&core->judge) + map_bytes(&core->heard) +
           core->early.room + core->pending_bytes;
}

void core_counts(const struct core *core, struct core_counts *ret)
{
    *ret = core->counts;
    ret->unfit_steps = core->judge.unfit_steps;
}

void core_tell(struct core *core)
{
    for (uint32_t i = 0; i < core->judge.verdicts.count; i++)
        core->judge.verdicts.tracked[i]->changed |= core->judge.verdicts.tracked[i]->open;
}

void core_ledger(const struct core *core, struct ledger *ret)
{
    ledger_read(core->judge.book, ret);
}

const struct thresholds *core_thresholds(const struct core *core)
{
    return &core->judge.limits;
}

bool core_node_clock(const struct core *core, const char *node, int64_t *offset_ns,
                     int64_t *error_ns)
{
    const struct model *model = &core->judge.model;

    for (uint32_t i = 0; i < model->nodes; i++) {
        if (!model->node[i].aligned || strcmp(model->node[i].name, node) != 0)
            continue;
        *offset_ns = model->node[i].offset_ns;
        *error_ns = model->node[i].error_ns;
        return true;
    }
    return false;
}

/* ---- facts ---- */

static void judge_pending(struct core *core, int64_t now_ns);

/* What is known of the attempt before is judged first: there may have been no tick since. */
static void attempt_begin(struct core *core, uint32_t attempt, int64_t mono_ns)
{
    if (attempt > core->judge.model.attempt) {
        judge_pending(core, mono_ns);
        crash_judge(&core->judge, mono_ns, true);
        core->counts.steps_partial += core->pendings;
        pending_clear(core);
        core->unseen = core->away = 0;
        core->done_step = 0;
        core->attempt_end_ns = 0;
    }
    judge_state_attempt(&core->judge, attempt, mono_ns);
}

/* A rank whose process has ended opens a ring again, and the attempt is the same: its worker was begun anew by somebody
 * within the job, as elastic launchers do with all of them.
 */
static bool workers_restarted(const struct core *core, const struct fact_ring *fact)
{
    const struct model *model = &core->judge.model;
    const struct model_rank *rank = fact->rank < model->world ? &model->rank[fact->rank] : NULL;

    return rank && rank->seen && rank->attempt == fact->attempt &&
           model->attempt == fact->attempt && fact->ring > rank->ring &&
           hang_is_gone(&core->judge, fact->rank);
}

static void workers_restart(struct core *core, const struct fact_ring *fact)
{
    uint32_t world = MAX(fact->world, fact->rank + 1);

    judge_pending(core, fact->open_ns);
    crash_judge(&core->judge, fact->open_ns, true);
    core->counts.steps_partial += core->pendings;
    pending_clear(core);
    core->done_step = 0;
    judge_state_workers_restarted(&core->judge, world, fact->open_ns);
    core->away = core->judge.model.world - MIN(world, core->judge.model.world);
}

/* ---- the world ----
 *
 * Arrays by rank are as long as the world, and a frame of 60 bytes may tell of any world.  So one is believed in as far as
 * ranks of it have spoken (model_room()); what ranks beyond that tell is kept as it came, until it is.
 */

static uint32_t world_room(const struct core *core)
{
    return MAX(core->judge.model.world,
               model_room(core->claimed, (uint32_t)core->heard.used, WORLD_ROOM));
}

/* Who opens a ring or ends is a rank of the world, and may be the one that makes others believed in. */
static int world_feed(struct core *core, const struct frame *frame)
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
    return rank >= core->claimed || map_put(&core->heard, rank, 1) ? 0 : -ENOMEM;
}

static void ledger_begin(struct core *core, uint32_t ranks, int64_t mono_ns)
{
    core->claimed = MAX(core->claimed, ranks);
    core->ledger_ranks = ranks;
    core->run_known = true;
    ledger_run(core->judge.book, MIN(ranks, world_room(core)), mono_ns);
}

/* Of a rank that was reported, but has no place in the arrays yet. */
static bool frame_is_early(const struct core *core, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    uint32_t rank, world = core->judge.model.world;

    switch (frame->type) {
    case FRAME_STEP:
        reader_get_u64(&in); /* the shape */
        break;
    case FRAME_RING:
    case FRAME_EXIT:
        world = world_room(core); /* it may be believed in by this one */
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

static int early_keep(struct core *core, const struct frame *frame)
{
    if (core->early.size + FRAME_HEADER_BYTES + frame->payload_bytes > EARLY_BYTES)
        return 0; /* lost: the reported world does not arrive */
    frame_put(&core->early, frame);
    return core->early.failed ? -ENOMEM : 0;
}

static int feed_frame(struct core *core, const struct frame *frame);

/* The world has grown: feeds the earlier facts of its ranks. */
static int early_feed(struct core *core)
{
    CLEAN(buf_fini) struct buf early = core->early;
    int result = 0;

    core->early = (struct buf){ 0 };
    for (size_t at = 0; at < early.size && result != -ENOMEM;) {
        struct frame frame;
        int64_t size = frame_get(early.data + at, early.size - at, &frame, NULL);

        if (size <= 0)
            break;
        result = feed_frame(core, &frame);
        core->counts.malformed += result < 0;
        at += (size_t)size;
    }
    return result == -ENOMEM ? result : 0;
}

/* A step that waits for all ranks was made for the world as it was. */
static int world_grow(struct core *core)
{
    uint32_t world = world_room(core);
    int result;

    if (world <= core->judge.model.world)
        return 0;
    pending_clear(core);
    result = model_resize(&core->judge.model, world);
    if (result == 0)
        result = ledger_grow(core->judge.book, MIN(core->ledger_ranks, world));
    return result < 0 ? result : early_feed(core);
}

static int feed_hello(struct core *core, struct reader in)
{
    struct fact_hello fact;
    int result = fact_hello_get(in, &fact);
    uint32_t node;

    if (result < 0 || fact.kind != SENDER_AGENT)
        return result;
    node = model_node(&core->judge.model, fact.node);
    if (node == MODEL_NONE)
        return -ENOMEM;
    core->judge.model.node[node].real_ns = fact.real_ns - fact.mono_ns;
    return 0;
}

static int feed_ring(struct core *core, struct reader in)
{
    struct fact_ring fact;
    int result = fact_ring_get(in, &fact);

    if (result < 0)
        return result;
    if (fact.rank >= MODEL_RANKS_MAX || fact.world > MODEL_RANKS_MAX)
        return -E2BIG;
    if (!core->run_known) /* no launcher: the first ring begins the run */
        ledger_begin(core, MAX(fact.world, fact.rank + 1), fact.open_ns);
    if (fact.attempt > core->judge.model.attempt)
        attempt_begin(core, fact.attempt, fact.open_ns);
    if (workers_restarted(core, &fact))
        workers_restart(core, &fact);
    core->unseen = 0; /* this one, or all of a larger world, may come after all */
    result = world_grow(core);
    fact.world = core->judge.model.world; /* not what it says */
    return result < 0 ? result : model_ring(&core->judge.model, &fact);
}

static int feed_comm(struct core *core, struct reader in)
{
    struct fact_comm fact;
    int result = fact_comm_get(in, &fact);

    return result < 0 ? result : model_comm(&core->judge.model, &fact);
}

static int feed_shape(struct core *core, struct reader in)
{
    CLEAN(fact_shape_fini) struct fact_shape fact = { 0 };
    int result = fact_shape_get(in, &fact);

    return result < 0 ? result : model_shape(&core->judge.model, &fact);
}

static uint32_t pending_room(const struct core *core)
{
    uint32_t room = MIN(PENDING_MAX, PENDING_RANKS / MAX(1, core->judge.model.world));

    if (core->pending_bytes > PENDING_BYTES)
        room = MIN(room, core->pendings);
    return MAX(PENDING_LEAST, room);
}

/* The waiting step with this number, made where it belongs; NULL: no room or memory. */
static struct step_wait *pending_get(struct core *core, uint64_t step)
{
    uint32_t at = core->pendings;

    while (at > 0 && core->pending[at - 1].step > step)
        at--;
    if (at > 0 && core->pending[at - 1].step == step)
        return &core->pending[at - 1];
    if (core->pendings >= pending_room(core))
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

static void pending_drop_first(struct core *core)
{
    core->pending_bytes -= core->pending[0].bytes;
    step_wait_fini(&core->pending[0]);
    core->pendings--;
    memmove(core->pending, core->pending + 1, core->pendings * sizeof(*core->pending));
}

static int feed_step(struct core *core, struct reader in)
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
    if (fact.attempt != model->attempt || fact.step + 1 <= core->done_step ||
        fact.ring < model->rank[fact.rank].from_ring)
        return 0; /* too late to matter */
    job_step = pending_get(core, fact.step);
    if (!job_step && core->pendings >= pending_room(core)) {
        if (fact.step < core->pending[0].step)
            return 0; /* it would be the next to go */
        core->counts.steps_partial++;
        core->done_step = core->pending[0].step + 1;
        pending_drop_first(core);
        job_step = pending_get(core, fact.step);
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

static int feed_exit(struct core *core, struct reader in)
{
    const struct model *model = &core->judge.model;
    struct fact_exit fact;
    int result = fact_exit_get(in, &fact);
    uint32_t node;

    if (result == 0)
        result = world_grow(core);
    if (result < 0)
        return result;
    crash_exit(&core->judge, &fact);
    node = fact.rank < model->world ? model->rank[fact.rank].node : MODEL_NONE;
    core->exit_ns =
        MAX(core->exit_ns, fact.mono_ns + (node < model->nodes ? model->node[node].offset_ns : 0));
    return 0;
}

static int feed_setting(struct core *core, struct reader in)
{
    struct fact_setting fact;
    int result = fact_setting_get(in, &fact);

    return result < 0 ? result : thresholds_set(&core->judge.limits, fact.name, fact.value, NULL);
}

static int feed_beat(struct core *core, struct reader in)
{
    struct fact_beat fact;
    int result = fact_beat_get(in, &fact);

    if (result < 0)
        return result;
    stall_beat(&core->judge, &fact);
    crash_beat(&core->judge, &fact);
    return hang_beat(&core->judge, &fact);
}

static int feed_stack(struct core *core, struct reader in)
{
    struct fact_stack fact;
    int result = fact_stack_get(in, &fact);

    return result < 0 ? result : hang_stack(&core->judge, &fact);
}

static int feed_note(struct core *core, struct reader in)
{
    struct fact_note fact;
    int result = fact_note_get(in, &fact);

    if (result == 0)
        crash_note(&core->judge, &fact);
    return result;
}

static int feed_method(struct core *core, struct reader in)
{
    struct fact_method fact;
    int result = fact_method_get(in, &fact);

    return result < 0 ? result : sync_method(&core->judge, &fact);
}

static int feed_gap(struct core *core, struct reader in)
{
    struct fact_gap fact;
    int result = fact_gap_get(in, &fact);

    if (result < 0)
        return result;
    core->counts.gap_records += fact.records;
    if (fact.step_from != UINT64_MAX)
        core->counts.gap_steps += fact.step_to - fact.step_from + 1;
    return 0;
}

static int feed_run(struct core *core, struct reader in)
{
    struct fact_run fact;
    int result = fact_run_get(in, &fact);

    if (result < 0)
        return result;
    if (core->judge.mono_to_real_ns == 0 && fact.real_ns) /* no tick has come yet */
        core->judge.mono_to_real_ns = fact.real_ns - fact.mono_ns;
    switch (fact.event) {
    case RUN_BEGIN:
        if (fact.ranks > 0 && fact.ranks <= MODEL_RANKS_MAX && !core->run_known) {
            ledger_begin(core, fact.ranks, fact.mono_ns);
            result = world_grow(core);
        }
        break;
    case RUN_ATTEMPT_BEGIN:
        attempt_begin(core, fact.attempt, fact.mono_ns);
        break;
    case RUN_ATTEMPT_END:
        if (fact.attempt == core->judge.model.attempt)
            core->attempt_end_ns = fact.mono_ns;
        ledger_attempt_end(core->judge.book, fact.attempt, fact.mono_ns, fact.status == 0);
        if (fact.attempt == core->judge.model.attempt && fact.status != 0 &&
            !fact_run_stopped(&fact))
            crash_failed(&core->judge);
        break;
    default:
        core->end_ns = fact.mono_ns;
    }
    return result;
}

static int feed_frame(struct core *core, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    int result = 0;

    if (frame_is_early(core, frame))
        return early_keep(core, frame);
    switch (frame->type) {
    case FRAME_HELLO:
        result = feed_hello(core, in);
        break;
    case FRAME_RING:
        result = feed_ring(core, in);
        break;
    case FRAME_COMM:
        result = feed_comm(core, in);
        break;
    case FRAME_SHAPE:
        result = feed_shape(core, in);
        break;
    case FRAME_STEP:
        result = feed_step(core, in);
        break;
    case FRAME_BEAT:
        result = feed_beat(core, in);
        break;
    case FRAME_STACK:
        result = feed_stack(core, in);
        break;
    case FRAME_EXIT:
        result = feed_exit(core, in);
        break;
    case FRAME_NOTE:
        result = feed_note(core, in);
        break;
    case FRAME_METHOD:
        result = feed_method(core, in);
        break;
    case FRAME_GAP:
        result = feed_gap(core, in);
        break;
    case FRAME_RUN:
        result = feed_run(core, in);
        break;
    case FRAME_SETTING:
        result = feed_setting(core, in);
        break;
    default: /* its own, or of a later version */
        break;
    }
    return result;
}

int core_feed(struct core *core, const struct frame *frame, struct err *err)
{
    int result = 0;

    if (frame->version != FRAME_VERSION) {
        core->counts.malformed++;
        return err_set(err, -EPROTO, "frame %llu of type %u: version %u, this program reads %u",
                       (unsigned long long)frame->number, frame->type, frame->version,
                       FRAME_VERSION);
    }
    if (frame->type == FRAME_RING || frame->type == FRAME_EXIT)
        result = world_feed(core, frame);
    if (result == 0)
        result = feed_frame(core, frame);
    core->counts.frames++;
    if (result < 0) {
        core->counts.malformed++;
        err_set(err, result, "frame %llu of type %u: %s", (unsigned long long)frame->number,
                frame->type, result == -EPROTO ? "malformed or out of place" : strerror(-result));
    }
    return result;
}

/* When nobody told its end, it was that of its last rank: what came after is nobody's time. */
static int64_t run_end_ns(const struct core *core, int64_t now_ns)
{
    if (core->end_ns)
        return core->end_ns;
    return core->exit_ns ? MIN(core->exit_ns, now_ns) : now_ns;
}

/* ---- judging ---- */

static bool core_is_whole(const struct core *core, const struct step_wait *job_step)
{
    return job_step->have >= core->judge.model.world - MAX(core->unseen, core->away);
}

/* Whole steps newer than the oldest waiting one. */
static uint32_t newer_job_step(const struct core *core)
{
    uint32_t count = 0;

    for (uint32_t i = 1; i < core->pendings; i++)
        count += core_is_whole(core, &core->pending[i]);
    return count;
}

/* Ranks that are missing from a step because nothing was ever seen of them: they could not open a
 * ring, say.  The others can still be compared; an unseen rank is never named.
 */
static uint32_t never_seen(const struct core *core, const struct step_wait *job_step)
{
    const struct model *model = &core->judge.model;
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < model->world; rank++)
        count += !step_wait_has(job_step, rank) &&
                 (!model->rank[rank].seen || model->rank[rank].attempt != model->attempt);
    return count;
}

static bool is_given_up(const struct core *core, const struct step_wait *job_step, int64_t now_ns)
{
    return newer_job_step(core) >= PATIENCE_STEPS || now_ns - job_step->waits_ns > PATIENCE_NS;
}

/* Lays a step before the judges; of one that is not whole only its numbers. */
static void judge_step(struct core *core, struct step_wait *wait, bool numbers)
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

static void judge_pending(struct core *core, int64_t now_ns)
{
    for (uint32_t i = 0; i < core->pendings; i++) {
        if (core->pending[i].waits_ns == 0)
            core->pending[i].waits_ns = now_ns;
    }
    while (core->pendings > 0) {
        struct step_wait *job_step = &core->pending[0];

        if (!core_is_whole(core, job_step)) {
            if (!is_given_up(core, job_step, now_ns))
                return;
            core->unseen = never_seen(core, job_step);
            if (core_is_whole(core, job_step))
                continue; /* all are here that ever will be */
            core->counts.steps_partial++;
            if (job_step->bare) /* those who have no numbers to tell were merged, and never come */
                judge_step(core, job_step, true);
        } else if (job_step->torn) { /* a rank's ops are missing: nothing can be compared */
            core->counts.steps_partial++;
        } else if (job_step->bare) {
            core->counts.steps_partial++;
            judge_step(core, job_step, true);
        } else {
            core->counts.steps_whole++;
            judge_step(core, job_step, false);
        }
        core->done_step = job_step->step + 1;
        pending_drop_first(core);
    }
}

static void emit_verdicts(struct core *core, int64_t real_ns, core_emit *emit, void *arg)
{
    struct verdict_table *verdicts = &core->judge.verdicts;

    for (uint32_t i = 0; i < verdicts->count; i++) {
        CLEAN(buf_fini) struct buf payload = { 0 };

        if (!verdicts->tracked[i]->changed)
            continue;
        verdicts->tracked[i]->changed = false;
        if (verdicts->tracked[i]->verdict.decided_real_ns == 0)
            verdicts->tracked[i]->verdict.decided_real_ns = real_ns;
        verdict_put(&payload, &verdicts->tracked[i]->verdict);
        emit(arg, FRAME_VERDICT, &payload);
    }
}

static void emit_ledger(struct core *core, core_emit *emit, void *arg)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct ledger ledger;

    ledger_read(core->judge.book, &ledger);
    ledger_put(&payload, &ledger);
    emit(arg, FRAME_LEDGER, &payload);
}

void core_tick(struct core *core, const struct fact_tick *now, int last, core_emit *emit, void *arg)
{
    core->judge.mono_to_real_ns = now->real_ns - now->mono_ns;
    judge_pending(core, now->mono_ns);
    if (!core->attempt_end_ns)
        hang_judge(&core->judge, now->mono_ns);
    crash_judge(
        &core->judge, now->mono_ns,
        last || (core->attempt_end_ns && now->mono_ns - core->attempt_end_ns > AFTER_ATTEMPT_NS));
    if (last) {
        core->counts.steps_partial += core->pendings;
        pending_clear(core);
        judge_state_end(&core->judge, run_end_ns(core, now->mono_ns));
    }
    emit_verdicts(core, now->real_ns, emit, arg);
    if (last || now->mono_ns - core->ledger_ns >= LEDGER_NS) {
        core->ledger_ns = now->mono_ns;
        emit_ledger(core, emit, arg);
    }
}
