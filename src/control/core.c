/* core.c - takes each kind of frame; at a tick runs the judges and emits verdicts, decisions and the ledger.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/core_private.h"
#include "core/clean.h"
#include "core/time.h"
#include "judge/crash/crash.h"
#include "judge/ledger.h"
#include "judge/slow/stall/stall.h"
#include "judge/slow/sync.h"
#include "judge/stuck/hang.h"
#include "judge/wrong/corrupt.h"
#include "wire/ring.h"
#include "wire/save_note.h"

#define LEDGER_NS (5 * NS_PER_S)
#define AFTER_ATTEMPT_NS                                                                           \
    (150 * NS_PER_MS) /* the agents' last frames come this much after its end */

int core_create(const char *run, struct core **ret)
{
    struct core *core = calloc(1, sizeof(*core));
    int result;

    if (!core)
        return -ENOMEM;
    result = judge_state_init(&core->judge, run);
    if (result < 0) {
        free(core);
        return result;
    }
    result = policy_create(run, &core->policy);
    if (result < 0)
        core_destroy(core);
    else
        *ret = core;
    return result;
}

void core_watch_steps(struct core *core, core_watch *watch, void *arg)
{
    core->watch = watch;
    core->watch_arg = arg;
}

void core_destroy(struct core *core)
{
    if (!core)
        return;
    core_steps_clear(core);
    judge_state_fini(&core->judge);
    policy_destroy(core->policy);
    map_fini(&core->seen);
    run_facts_fini(&core->facts);
    buf_fini(&core->early);
    free(core);
}

size_t core_bytes(const struct core *core)
{
    return sizeof(*core) + judge_state_bytes(&core->judge) + policy_bytes(core->policy) +
           map_bytes(&core->seen) + run_facts_bytes(&core->facts) + core->early.room +
           core->pending_bytes;
}

void core_counts(const struct core *core, struct core_counts *ret)
{
    *ret = core->counts;
    ret->unfit_steps = core->judge.unfit_steps;
}

void core_report_open(struct core *core)
{
    for (uint32_t i = 0; i < core->judge.verdicts.count; i++)
        core->judge.verdicts.tracked[i]->changed |= core->judge.verdicts.tracked[i]->open;
}

double core_verdict_cost(const struct core *core, const char *id)
{
    for (uint32_t i = 0; i < core->judge.verdicts.count; i++) {
        const struct tracked_verdict *tracked = core->judge.verdicts.tracked[i];

        if (tracked->open && strcmp(tracked->verdict.id, id) == 0)
            return tracked->verdict.gpu_seconds;
    }
    return -1;
}

void core_ledger(const struct core *core, struct ledger *ret)
{
    ledger_read(core->judge.book, ret);
}

const struct thresholds *core_thresholds(const struct core *core)
{
    return &core->judge.limits;
}

static int core_feed_hello(struct core *core, struct reader in)
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

static int core_feed_ring(struct core *core, struct reader in)
{
    struct fact_ring fact;
    int result = fact_ring_get(in, &fact);

    if (result < 0)
        return result;
    if (fact.rank >= MODEL_RANKS_MAX || fact.world > MODEL_RANKS_MAX)
        return -E2BIG;
    if (!core->run_known) /* no launcher: the first ring begins the run */
        core_world_begin(core, MAX(fact.world, fact.rank + 1), fact.open_ns);
    core_attempt_reach(core, fact.attempt);
    if (fact.attempt > core->judge.model.attempt)
        core_attempt_begin(core, fact.attempt, fact.open_ns);
    if (core_workers_restarted(core, &fact))
        core_workers_restart(core, &fact);
    core->unseen = 0; /* this one, or all of a larger world, may come after all */
    result = core_world_grow(core);
    fact.world = core->judge.model.world; /* not what it says */
    return result < 0 ? result : model_ring(&core->judge.model, &fact);
}

static int core_feed_comm(struct core *core, struct reader in)
{
    struct fact_comm fact;
    int result = fact_comm_get(in, &fact);

    return result < 0 ? result : model_comm(&core->judge.model, &fact);
}

static int core_feed_shape(struct core *core, struct reader in)
{
    CLEAN(fact_shape_fini) struct fact_shape fact = { 0 };
    int result = fact_shape_get(in, &fact);

    return result < 0 ? result : model_shape(&core->judge.model, &fact);
}

static int core_feed_exit(struct core *core, struct reader in)
{
    const struct model *model = &core->judge.model;
    struct fact_exit fact;
    int result = fact_exit_get(in, &fact);
    uint32_t node;

    if (result == 0)
        result = core_world_grow(core);
    if (result < 0)
        return result;
    core_attempt_reach(core, fact.attempt);
    /* On several nodes the launcher that reports the attempts may be heard of later than one whose rank has ended at once. */
    if (fact.attempt > core->judge.model.attempt)
        core_attempt_begin(core, fact.attempt, fact.mono_ns);
    crash_exit(&core->judge, &fact);
    node = fact.rank < model->world ? model->rank[fact.rank].node : MODEL_NONE;
    core->exit_ns =
        MAX(core->exit_ns, fact.mono_ns + (node < model->nodes ? model->node[node].offset_ns : 0));
    return 0;
}

static int core_feed_setting(struct core *core, struct reader in)
{
    struct fact_setting fact;
    int result = fact_setting_get(in, &fact);

    return result < 0 ? result : thresholds_set(&core->judge.limits, fact.name, fact.value, NULL);
}

static int core_feed_beat(struct core *core, struct reader in)
{
    struct fact_beat fact;
    int result = fact_beat_get(in, &fact);

    if (result < 0)
        return result;
    if (fact.step != RING_NO_STEP)
        policy_step(core->policy, fact.attempt, fact.step);
    stall_beat(&core->judge, &fact);
    crash_beat(&core->judge, &fact);
    return hang_beat(&core->judge, &fact);
}

static int core_feed_stack(struct core *core, struct reader in)
{
    struct fact_stack fact;
    int result = fact_stack_get(in, &fact);

    return result < 0 ? result : hang_stack(&core->judge, &fact);
}

static int core_feed_note(struct core *core, struct reader in)
{
    struct save_note save;
    struct fact_note fact;
    int result = fact_note_get(in, &fact);

    if (result < 0)
        return result;
    if (corrupt_saved_note(&core->judge, &fact))
        return 0;
    if (!save_note_parse(fact.text, &save)) {
        crash_note(&core->judge, &fact);
    } else if (fact.attempt == core->judge.model.attempt) {
        corrupt_save(&core->judge, fact.rank, &save);
        stall_save(&core->judge, fact.rank, &save);
    }
    return 0;
}

static int core_feed_method(struct core *core, struct reader in)
{
    struct fact_method fact;
    int result = fact_method_get(in, &fact);

    return result < 0 ? result : sync_method(&core->judge, &fact);
}

static int core_feed_gap(struct core *core, struct reader in)
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

static int core_feed_run(struct core *core, struct reader in)
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
            core_world_begin(core, fact.ranks, fact.mono_ns);
            result = core_world_grow(core);
        }
        break;
    case RUN_ATTEMPT_BEGIN:
        core_attempt_announce(core, fact.attempt, fact.mono_ns);
        break;
    case RUN_ATTEMPT_END:
        core_attempt_reach(core, fact.attempt);
        if (fact.attempt == core->judge.model.attempt)
            core->attempt_end_ns = fact.mono_ns;
        policy_attempt_ended(core->policy, fact.attempt);
        ledger_attempt_end(core->judge.book, fact.attempt, fact.mono_ns, fact.status == 0);
        if (fact.attempt == core->judge.model.attempt && fact.status != 0 &&
            !fact_run_stopped(&fact)) {
            crash_failed(&core->judge);
            policy_attempt_failed(core->policy, fact.attempt, fact.real_ns);
        }
        break;
    default:
        core->end_ns = fact.mono_ns;
    }
    return result;
}

int core_feed_frame(struct core *core, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    int result = 0;

    if (core_frame_is_early(core, frame))
        return core_early_keep(core, frame);
    switch (frame->type) {
    case FRAME_HELLO:
        result = core_feed_hello(core, in);
        break;
    case FRAME_RING:
        result = core_feed_ring(core, in);
        break;
    case FRAME_COMM:
        result = core_feed_comm(core, in);
        break;
    case FRAME_SHAPE:
        result = core_feed_shape(core, in);
        break;
    case FRAME_STEP:
        result = core_feed_step(core, in);
        break;
    case FRAME_BEAT:
        result = core_feed_beat(core, in);
        break;
    case FRAME_STACK:
        result = core_feed_stack(core, in);
        break;
    case FRAME_EXIT:
        result = core_feed_exit(core, in);
        break;
    case FRAME_NOTE:
        result = core_feed_note(core, in);
        break;
    case FRAME_METHOD:
        result = core_feed_method(core, in);
        break;
    case FRAME_GAP:
        result = core_feed_gap(core, in);
        break;
    case FRAME_RUN:
        result = core_feed_run(core, in);
        break;
    case FRAME_SETTING:
        result = core_feed_setting(core, in);
        break;
    case FRAME_REQUEST:
        result = core_feed_request(core, in);
        break;
    case FRAME_POLICY:
        result = core_feed_policy(core, in);
        break;
    case FRAME_MEMBER:
        result = core_feed_member(core, in);
        break;
    case FRAME_MEANS:
        result = core_feed_means(core, in);
        break;
    default: /* else its own, or of a later version */
        if (run_facts_has(frame->type))
            result = core_feed_known(core, frame);
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
        result = core_world_feed(core, frame);
    if (result == 0)
        result = core_feed_frame(core, frame);
    core->counts.frames++;
    if (result < 0) {
        core->counts.malformed++;
        err_set(err, result, "frame %llu of type %u: %s", (unsigned long long)frame->number,
                frame->type, result == -EPROTO ? "malformed or out of place" : strerror(-result));
    }
    return result;
}

/* If nobody reported the end of the run, it ended with its last rank. */
static int64_t core_run_end_ns(const struct core *core, int64_t now_ns)
{
    if (core->end_ns)
        return core->end_ns;
    return core->exit_ns ? MIN(core->exit_ns, now_ns) : now_ns;
}

static void core_emit_verdicts(struct core *core, int64_t real_ns, core_emit *emit, void *arg)
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
        policy_verdict(core->policy, &verdicts->tracked[i]->verdict);
    }
}

static void core_emit_ledger(struct core *core, core_emit *emit, void *arg)
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
    core->over_ns = last ? core_run_end_ns(core, now->mono_ns) : 0;
    core_attempt_tick(core, now->mono_ns, last);
    core_steps_judge(core, now->mono_ns);
    if (!core->attempt_end_ns)
        hang_judge(&core->judge, now->mono_ns);
    if (last || !crash_awaits_loss(&core->judge, now->mono_ns, policy_loss_ns(core->policy)))
        crash_judge(&core->judge, now->mono_ns,
                    last || (core->attempt_end_ns &&
                             now->mono_ns - core->attempt_end_ns > AFTER_ATTEMPT_NS));
    if (last) {
        core_steps_give_up(core);
        judge_state_end(&core->judge, core_run_end_ns(core, now->mono_ns));
    }
    core_join_findings(core, now->real_ns, last != 0);
    core_emit_verdicts(core, now->real_ns, emit, arg);
    core_emit_decisions(core, now, last, emit, arg);
    if (last || now->mono_ns - core->ledger_ns >= LEDGER_NS) {
        core->ledger_ns = now->mono_ns;
        core_emit_ledger(core, emit, arg);
    }
}
