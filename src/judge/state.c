/* state.c - one whole step after the other through split, history, replay and the judges.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/crash/crash.h"
#include "judge/crash/crash_private.h"
#include "judge/ledger.h"
#include "judge/price.h"
#include "judge/slow/regress.h"
#include "judge/slow/signals.h"
#include "judge/slow/stall/stall.h"
#include "judge/slow/sync.h"
#include "judge/step/clock.h"
#include "judge/step/learn.h"
#include "judge/stuck/hang.h"
#include "judge/wrong/corrupt.h"

#define LEARN_RANKS 64       /* a step teaches from at most so many ranks */
#define LEAST_CONFIDENCE 0.5 /* of a verdict about slowness */

int judge_state_init(struct judge_state *judge, const char *run)
{
    int result;

    *judge = (struct judge_state){ 0 };
    thresholds_default(&judge->limits);
    snprintf(judge->model.run, sizeof(judge->model.run), "%s", run);
    result = splitter_create(&judge->splitter);
    if (result == 0)
        result = program_create(&judge->program);
    if (result == 0)
        result = ledger_book_create(&judge->book);
    if (result == 0)
        result = corrupt_book_create(&judge->corrupt);
    if (result == 0)
        result = regress_create(&judge->regress);
    if (result == 0)
        result = hang_create(&judge->hang);
    if (result == 0)
        result = stall_create(&judge->stall);
    if (result == 0)
        result = signals_create(&judge->signals);
    if (result == 0)
        result = sync_create(&judge->sync);
    if (result < 0)
        judge_state_fini(judge);
    return result;
}

void judge_state_fini(struct judge_state *judge)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++)
        free(judge->verdicts.tracked[i]);
    splitter_destroy(judge->splitter);
    program_destroy(judge->program);
    ledger_book_destroy(judge->book);
    corrupt_book_destroy(judge->corrupt);
    regress_destroy(judge->regress);
    hang_destroy(judge->hang);
    stall_destroy(judge->stall);
    signals_destroy(judge->signals);
    sync_destroy(judge->sync);
    history_fini(&judge->history);
    model_fini(&judge->model);
    *judge = (struct judge_state){ 0 };
}

size_t judge_state_bytes(const struct judge_state *judge)
{
    return model_bytes(&judge->model) + splitter_bytes(judge->splitter) +
           program_bytes(judge->program) + history_bytes(&judge->history) +
           judge->verdicts.count * sizeof(struct tracked_verdict) + ledger_book_bytes(judge->book) +
           corrupt_book_bytes(judge->corrupt) + hang_bytes(judge->hang) +
           stall_bytes(judge->stall) + signals_bytes(judge->signals) + sync_bytes(judge->sync);
}

/* Other processes, perhaps elsewhere: what was typical of the ones before says nothing of them. */
static void state_forget_steps(struct judge_state *judge)
{
    history_reset(&judge->history);
    corrupt_attempt(judge->corrupt);
    hang_attempt(judge);
    stall_attempt(judge->stall);
    signals_attempt(judge->signals);
    sync_attempt(judge);
    for (uint32_t i = 0; i < judge->model.nodes; i++)
        judge->model.node[i].level = 0;
}

void judge_state_workers_restarted(struct judge_state *judge, uint32_t world, int64_t mono_ns)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        struct model_rank *at = &judge->model.rank[rank];

        if (!hang_is_gone(judge, rank))
            continue;
        at->seen = false;
        at->from_ring = at->ring + 1;
    }
    judge->notes = 0;
    crash_workers_restarted(judge);
    state_forget_steps(judge);
    ledger_workers_restarted(judge->book, world, mono_ns);
}

void judge_state_attempt(struct judge_state *judge, uint32_t attempt, int64_t mono_ns)
{
    uint32_t before = judge->model.attempt;

    if (attempt > judge->model.attempt) {
        crash_restarted(judge, attempt);
        judge->exits = judge->launcher_exits = judge->notes = 0;
        crash_left_clear(judge);
        judge->crash_reported = judge->failed = false;
        state_forget_steps(judge);
    }
    judge->model.attempt = MAX(attempt, judge->model.attempt);
    if (judge->model.attempt > before && model_forget(&judge->model)) {
        splitter_clear(judge->splitter);
        program_clear(judge->program);
    }
    ledger_attempt(judge->book, attempt, mono_ns);
}

/* ---- the verdict table ---- */

struct tracked_verdict *judge_state_open_verdict(struct judge_state *judge, unsigned kind,
                                                 unsigned layer, uint32_t rank)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        const struct verdict *verdict = &tracked->verdict;

        if (!tracked->open || verdict->kind != kind ||
            (layer < LAYER_COUNT && verdict->layer != layer))
            continue;
        if (rank == MODEL_NONE)
            return tracked;
        for (uint32_t at = 0; at < MIN(verdict->rank_count, VERDICT_RANKS); at++) {
            if (verdict->rank[at] == rank)
                return tracked;
        }
    }
    return NULL;
}

struct tracked_verdict *judge_state_group_verdict(struct judge_state *judge, unsigned kind,
                                                  const char *group)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && tracked->verdict.kind == kind &&
            strcmp(tracked->verdict.group, group) == 0)
            return tracked;
    }
    return NULL;
}

static struct tracked_verdict *state_verdict_table_get(struct verdict_table *verdicts,
                                                       const char *id)
{
    for (uint32_t i = 0; i < verdicts->count; i++) {
        if (strcmp(verdicts->tracked[i]->verdict.id, id) == 0)
            return verdicts->tracked[i];
    }
    return NULL;
}

/* Makes room: of those that are over and said, the one that has been so for longest goes.  Should it come
 * again, it has the same id and begins anew.
 */
static bool state_verdict_table_forget(struct verdict_table *verdicts)
{
    uint32_t oldest = verdicts->count;

    for (uint32_t i = 0; i < verdicts->count; i++) {
        const struct tracked_verdict *tracked = verdicts->tracked[i];

        if (!tracked->open && !tracked->changed &&
            (oldest == verdicts->count ||
             tracked->verdict.until_real_ns < verdicts->tracked[oldest]->verdict.until_real_ns))
            oldest = i;
    }
    if (oldest == verdicts->count)
        return false;
    free(verdicts->tracked[oldest]);
    verdicts->count--;
    memmove(verdicts->tracked + oldest, verdicts->tracked + oldest + 1,
            (verdicts->count - oldest) * sizeof(verdicts->tracked[0]));
    return true;
}

static struct tracked_verdict *state_verdict_table_add(struct verdict_table *verdicts)
{
    struct tracked_verdict *tracked;

    if (verdicts->count == VERDICT_TABLE_MAX && !state_verdict_table_forget(verdicts)) {
        verdicts->refused++;
        return NULL;
    }
    tracked = calloc(1, sizeof(*tracked));
    if (tracked)
        verdicts->tracked[verdicts->count++] = tracked;
    return tracked;
}

/* The one that is judged now, or that was judged last. */
static uint64_t state_newest_step(const struct judge_state *judge)
{
    const struct past_step *past = history_back(&judge->history, 0);

    if (judge->job_step)
        return judge->job_step->step;
    return past ? past->step : judge->last_step;
}

/* Whoever is told that a job is slow will look for the reason: that is for what is more likely true than not.  What ends
 * a job or spoils its results is told in any case.
 */
static bool state_is_too_unsure(const struct verdict *draft)
{
    switch (draft->kind) {
    case VERDICT_STRAGGLER:
    case VERDICT_IMBALANCE:
    case VERDICT_SYNC_STALL:
    case VERDICT_INPUT_STALL:
    case VERDICT_CHECKPOINT_STALL:
    case VERDICT_STARTUP_STALL:
    case VERDICT_REGRESSION:
        return draft->confidence < LEAST_CONFIDENCE;
    default:
        return false;
    }
}

struct tracked_verdict *judge_state_find(struct judge_state *judge, struct verdict *draft,
                                         bool *fresh)
{
    struct tracked_verdict *tracked;

    *fresh = false;
    if (state_is_too_unsure(draft))
        return NULL;
    if (draft->since_real_ns == 0)
        draft->since_real_ns = judge_state_step_real_ns(judge, draft->since_step);
    snprintf(draft->run, sizeof(draft->run), "%s", judge->model.run);
    verdict_identify(draft);
    tracked = state_verdict_table_get(&judge->verdicts, draft->id);
    *fresh = !tracked || !tracked->open;
    if (!tracked)
        tracked = state_verdict_table_add(&judge->verdicts);
    if (!tracked)
        return NULL;
    if (*fresh) {
        struct verdict before = tracked->verdict;

        draft->decided_step = state_newest_step(judge);
        draft->decided_real_ns = 0; /* set when it is said */
        tracked->verdict = *draft;
        if (before.id[0]) { /* the same fault again: it goes on from where it first was */
            tracked->verdict.since_step = before.since_step;
            tracked->verdict.since_real_ns = before.since_real_ns;
            tracked->reopened++;
        }
        tracked->open = tracked->changed = true;
        tracked->step_seconds = draft->seconds_per_step;
        if (draft->decided_step > draft->since_step) { /* it took these steps to be sure */
            uint64_t before_sure = draft->decided_step - draft->since_step;

            tracked->steps += before_sure;
            tracked->cost_seconds += (double)before_sure * draft->seconds_per_step;
            tracked->period_seconds +=
                (double)before_sure * history_period_ms(&judge->history, HISTORY_STEPS) / 1e3;
        }
    }
    tracked->seen_step = state_newest_step(judge);
    if (*fresh)
        tracked->by = judge->looks;
    return tracked;
}

void judge_state_renew(struct tracked_verdict *tracked, const struct verdict *draft)
{
    struct verdict before = tracked->verdict, *verdict = &tracked->verdict;

    *verdict = *draft;
    memcpy(verdict->id, before.id, sizeof(before.id));
    memcpy(verdict->run, before.run, sizeof(before.run));
    verdict->since_step = before.since_step;
    verdict->since_real_ns = before.since_real_ns;
    verdict->decided_step = before.decided_step;
    verdict->decided_real_ns = before.decided_real_ns;
    verdict->gpu_seconds = before.gpu_seconds;
    tracked->changed = true;
}

void judge_state_add_rank(const struct judge_state *judge, struct verdict *draft, uint32_t rank)
{
    uint32_t node = rank < judge->model.world ? judge->model.rank[rank].node : MODEL_NONE;
    const char *name = node < judge->model.nodes ? judge->model.node[node].name : "";

    if (draft->rank_count < VERDICT_RANKS)
        draft->rank[draft->rank_count] = rank;
    draft->rank_count++;
    for (uint32_t i = 0; i < MIN(draft->node_count, VERDICT_NODES); i++) {
        if (strcmp(draft->node[i], name) == 0)
            return;
    }
    if (!name[0])
        return;
    if (draft->node_count < VERDICT_NODES)
        snprintf(draft->node[draft->node_count], sizeof(draft->node[0]), "%s", name);
    draft->node_count++;
}

static int64_t state_earliest_begin(const struct judge_state *judge,
                                    const struct job_step *job_step)
{
    int64_t first = INT64_MAX;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (job_step->shape_of[rank])
            first = MIN(first, job_step_begin(&judge->model, job_step, rank));
    }
    return first;
}

int64_t judge_state_step_real_ns(const struct judge_state *judge, uint64_t step)
{
    if (judge->job_step && judge->job_step->bare && judge->job_step->step == step)
        return state_earliest_begin(judge, judge->job_step) + judge->mono_to_real_ns;
    for (uint32_t back = 0; back < HISTORY_STEPS; back++) {
        const struct past_step *past = history_back(&judge->history, back);

        if (past && past->step == step)
            return past->begin_ns + judge->mono_to_real_ns;
    }
    return 0;
}

/* Before any step has aligned the clocks of nodes, their wall clocks do. */
int64_t judge_state_run_ns(const struct judge_state *judge, uint32_t rank, int64_t mono_ns)
{
    const struct model *model = &judge->model;
    uint32_t at = rank < model->world ? model->rank[rank].node : MODEL_NONE;
    uint32_t first = model->world ? model->rank[0].node : MODEL_NONE;

    if (at >= model->nodes || first >= model->nodes || at == first)
        return mono_ns;
    if (model->node[at].aligned)
        return mono_ns + model->node[at].offset_ns;
    if (model->node[at].real_ns && model->node[first].real_ns)
        return mono_ns + model->node[at].real_ns - model->node[first].real_ns;
    return mono_ns;
}

struct detect_rule judge_state_rule(const struct judge_state *judge, double series, double share)
{
    double period_ms = history_period_ms(&judge->history, HISTORY_STEPS);
    uint32_t look = MAX(1, judge->history.look_steps);

    return (struct detect_rule){ .least = share * period_ms,
                                 .bar = detect_bar(judge->limits.detect_false_alarms, series,
                                                   look * period_ms / 1e3),
                                 .look_steps = look };
}

void judge_state_merge(struct judge_state *judge, struct tracked_verdict *tracked,
                       struct tracked_verdict *into)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct verdict *verdict = &into->verdict;

    verdict_because(&tracked->verdict, "merged", "merged into %s: %s", verdict->id, verdict->cause);
    tracked->open = false;
    tracked->changed = into->changed = true;
    tracked->verdict.until_real_ns = past ? past->begin_ns + judge->mono_to_real_ns : 0;
    if (verdict->echo_count < VERDICT_LINES) {
        struct verdict_line *line = &verdict->echo[verdict->echo_count++];

        snprintf(line->what, sizeof(line->what), "rank %u had its own verdict since step %llu (%s)",
                 tracked->verdict.rank[0], (unsigned long long)tracked->verdict.since_step,
                 tracked->verdict.id);
        snprintf(line->source, sizeof(line->source), "merged");
    }
}

/* How long nobody has to see it until it is over.  One that has come back several times will come back
 * again: it stays open longer each time, so that it is not told over and over.
 */
static uint64_t state_tracked_patience(const struct judge_state *judge,
                                       const struct tracked_verdict *tracked)
{
    uint32_t most = (uint32_t)judge->limits.verdict_flaps_most;
    uint32_t often = tracked->reopened > 1 ? MIN(tracked->reopened - 1, most) : 0;

    return (uint64_t)judge->limits.verdict_steps << often;
}

/* Verdicts that no judge has found again for some steps are over; open ones grow dearer, but not by what a hang
 * has cost, which is that verdict's.
 */
static void state_verdict_table_age(struct judge_state *judge, const struct past_step *past)
{
    uint64_t again = past->step + 2 * (uint64_t)judge->limits.verdict_steps;
    bool hung = ledger_was_hung(judge->book, judge, past);

    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (!tracked->open || tracked->verdict.kind == VERDICT_CRASH ||
            tracked->verdict.kind == VERDICT_HANG || tracked->verdict.kind == VERDICT_DESYNC ||
            tracked->verdict.kind == VERDICT_NODE_FAULT) /* no step says how a node is */
            continue;
        if (past->step < tracked->seen_step && again < tracked->seen_step)
            tracked->seen_step = again; /* a restart went back further */
        if (past->step > tracked->seen_step + state_tracked_patience(judge, tracked)) {
            tracked->open = false;
            tracked->changed = true;
            tracked->verdict.until_real_ns = past->begin_ns + judge->mono_to_real_ns;
        } else if (past->step == tracked->seen_step && !hung) {
            tracked->steps++;
            tracked->cost_seconds += tracked->step_seconds;
            tracked->period_seconds += (double)past->measured_ns / 1e9;
            tracked->verdict.seconds_per_step = tracked->cost_seconds / (double)tracked->steps;
            price_renew(&tracked->verdict, 1e3 * tracked->period_seconds / (double)tracked->steps);
            tracked->verdict.gpu_seconds = tracked->cost_seconds * judge->model.world;
        }
    }
}

void judge_state_end(struct judge_state *judge, int64_t mono_ns)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        if (judge->verdicts.tracked[i]->open)
            judge->verdicts.tracked[i]->changed = true; /* its last cost */
    }
    ledger_end(judge->book, mono_ns);
}

/* ---- a step ---- */

static void state_step_learn(struct judge_state *judge, const struct job_step *job_step)
{
    uint32_t world = judge->model.world, stride = world / LEARN_RANKS + 1;

    /* Another residue each step, so that in time all ranks teach. */
    for (uint32_t rank = (uint32_t)(job_step->step % stride); rank < world; rank += stride) {
        if (job_step->shape_of[rank] &&
            !(job_step->step_of[rank].flags & (STEP_UNFINISHED | STEP_TORN)))
            learn_step(job_step->shape_of[rank]->class, &job_step->step_of[rank], &judge->limits);
    }
    for (uint32_t rank = 0; rank < world; rank++) {
        if (job_step->shape_of[rank] && !job_step->shape_of[rank]->ended)
            job_step->shape_of[rank]->ended =
                !(job_step->step_of[rank].flags & (STEP_UNFINISHED | STEP_TORN));
    }
}

static void state_step_replay(struct judge_state *judge, const struct job_step *job_step,
                              struct past_step *past)
{
    judge->program_ready = false;
    program_fit_share(judge->program, judge->limits.replay_fit_share);
    if (program_load(judge->program, &judge->model, job_step, judge->splitter) == 0) {
        past->measured_ns = program_measured_ns(judge->program);
        judge->program_ready = judge->known != EVIDENCE_NONE && program_fits(judge->program);
    }
    if (judge->program_ready) {
        past->replayed_ns = program_replayed_ns(judge->program);
        past->ideal_ns = program_ideal_ns(judge->program);
    } else {
        judge->unfit_steps++;
    }
}

static bool state_step_has(const struct judge_state *judge, const struct job_step *job_step,
                           uint32_t flag)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (job_step->shape_of[rank] && job_step->step_of[rank].flags & flag)
            return true;
    }
    return false;
}

/* What a judge may need at most. */
static enum evidence_level state_step_known(const struct judge_state *judge,
                                            const struct job_step *job_step)
{
    /* A wait in an operation without times would look like the rank's own work. */
    if (state_step_has(judge, job_step, STEP_AHEAD | STEP_UNTIMED))
        return EVIDENCE_NONE;
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (job_step->shape_of[rank] && job_step->shape_of[rank]->class->device_ops)
            return EVIDENCE_TIMES;
    }
    return EVIDENCE_WORK;
}

int judge_state_step(struct judge_state *judge, struct job_step *job_step)
{
    struct past_step *past = history_next(&judge->history, judge->model.world, job_step->step);
    int result;

    if (!past)
        return -ENOMEM;
    clock_align(&judge->model, job_step, (int64_t)(judge->limits.clock_wall * 1e6));
    if (judge->model.peers_stale)
        model_peers(&judge->model, job_step);
    state_step_learn(judge, job_step);
    result = split_step(judge->splitter, &judge->model, job_step, past->split);
    if (result < 0)
        return result;
    past->begin_ns = state_earliest_begin(judge, job_step);
    judge->history.host_view = state_step_has(judge, job_step, STEP_HOST_VIEW);
    judge->known = state_step_known(judge, job_step);
    state_step_replay(judge, job_step, past);
    result = history_judge(&judge->history, &judge->model, &judge->limits);
    if (result < 0)
        return result;
    judge->job_step = job_step;
    for (int i = 0; judges[i]; i++) {
        judge->looks = judges[i];
        if (judges[i]->evidence >= judge->known)
            judges[i]->step(judge);
    }
    judge->looks = NULL;
    price_verdicts(judge);
    judge->job_step = NULL;
    hang_step(judge, job_step);
    judge->stepped = true;
    judge->last_step = past->step;
    state_verdict_table_age(judge, past);
    ledger_step(judge->book, judge, past);
    crash_recovered(judge, past);
    return 0;
}

void judge_state_numbers(struct judge_state *judge, struct job_step *job_step)
{
    judge->job_step = job_step;
    corrupt_numbers(judge);
    judge->job_step = NULL;
    ledger_bare(judge->book, judge, job_step);
}

bool judge_state_left_unseen(const struct judge_state *judge, uint32_t rank)
{
    for (uint32_t i = 0; i < judge->left_count; i++) {
        if (judge->left[i].rank == rank && judge->left[i].status == -1)
            return true;
    }
    return false;
}
