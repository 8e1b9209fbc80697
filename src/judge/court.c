/* court.c - one whole step after the other through split, history, replay and the judges. */
#include "judge/court.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/crash/crash.h"
#include "judge/crash/crash_parts.h"
#include "judge/ledger.h"
#include "judge/slow/regress.h"
#include "judge/slow/stall.h"
#include "judge/slow/sync.h"
#include "judge/step/clock.h"
#include "judge/step/learn.h"
#include "judge/stuck/hang.h"
#include "judge/wrong/corrupt.h"

#define LEARN_RANKS 64 /* a step teaches from at most so many ranks */

int court_init(struct court *court, const char *run)
{
    int result;

    *court = (struct court){ 0 };
    thresholds_default(&court->limits);
    snprintf(court->model.run, sizeof(court->model.run), "%s", run);
    result = splitter_create(&court->splitter);
    if (result == 0)
        result = program_create(&court->program);
    if (result == 0)
        result = ledger_book_create(&court->book);
    if (result == 0)
        result = corrupt_book_create(&court->corrupt);
    if (result == 0)
        result = regress_create(&court->regress);
    if (result == 0)
        result = hang_create(&court->hang);
    if (result == 0)
        result = stall_create(&court->stall);
    if (result == 0)
        result = sync_create(&court->sync);
    if (result < 0)
        court_fini(court);
    return result;
}

void court_fini(struct court *court)
{
    for (uint32_t i = 0; i < court->docket.count; i++)
        free(court->docket.entry[i]);
    splitter_destroy(court->splitter);
    program_destroy(court->program);
    ledger_book_destroy(court->book);
    corrupt_book_destroy(court->corrupt);
    regress_destroy(court->regress);
    hang_destroy(court->hang);
    stall_destroy(court->stall);
    sync_destroy(court->sync);
    history_fini(&court->history);
    model_fini(&court->model);
    *court = (struct court){ 0 };
}

/* Other processes, perhaps elsewhere: what was typical of the ones before says nothing of them. */
static void forget_steps(struct court *court)
{
    history_reset(&court->history);
    corrupt_attempt(court->corrupt);
    hang_attempt(court);
    stall_attempt(court->stall);
    sync_attempt(court);
    for (uint32_t i = 0; i < court->model.nodes; i++)
        court->model.node[i].level = 0;
}

void court_anew(struct court *court, uint32_t world, int64_t mono_ns)
{
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        struct model_rank *at = &court->model.rank[rank];

        if (!hang_is_gone(court, rank))
            continue;
        at->seen = false;
        at->from_ring = at->ring + 1;
    }
    court->notes = 0;
    crash_anew(court);
    forget_steps(court);
    ledger_anew(court->book, world, mono_ns);
}

void court_attempt(struct court *court, uint32_t attempt, int64_t mono_ns)
{
    uint32_t before = court->model.attempt;

    if (attempt > court->model.attempt) {
        crash_restarted(court, attempt);
        court->exits = court->tolds = court->notes = 0;
        crash_left_clear(court);
        court->crash_told = court->failed = false;
        forget_steps(court);
    }
    court->model.attempt = MAX(attempt, court->model.attempt);
    if (court->model.attempt > before && model_forget(&court->model)) {
        splitter_clear(court->splitter);
        program_clear(court->program);
    }
    ledger_attempt(court->book, attempt, mono_ns);
}

/* ---- the docket ---- */

struct entry *court_open_entry(struct court *court, unsigned kind, unsigned layer, uint32_t rank)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];
        const struct verdict *verdict = &entry->verdict;

        if (!entry->open || verdict->kind != kind ||
            (layer < LAYER_COUNT && verdict->layer != layer))
            continue;
        if (rank == MODEL_NONE)
            return entry;
        for (uint32_t at = 0; at < MIN(verdict->rank_count, VERDICT_RANKS); at++) {
            if (verdict->rank[at] == rank)
                return entry;
        }
    }
    return NULL;
}

struct entry *court_group_entry(struct court *court, unsigned kind, const char *group)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];

        if (entry->open && entry->verdict.kind == kind && strcmp(entry->verdict.group, group) == 0)
            return entry;
    }
    return NULL;
}

static struct entry *docket_get(struct docket *docket, const char *id)
{
    for (uint32_t i = 0; i < docket->count; i++) {
        if (strcmp(docket->entry[i]->verdict.id, id) == 0)
            return docket->entry[i];
    }
    return NULL;
}

/* Makes room: of those that are over and said, the one that has been so for longest goes.  Should it come
 * again, it has the same id and begins anew.
 */
static bool docket_forget(struct docket *docket)
{
    uint32_t oldest = docket->count;

    for (uint32_t i = 0; i < docket->count; i++) {
        const struct entry *entry = docket->entry[i];

        if (!entry->open && !entry->changed &&
            (oldest == docket->count ||
             entry->verdict.until_real_ns < docket->entry[oldest]->verdict.until_real_ns))
            oldest = i;
    }
    if (oldest == docket->count)
        return false;
    free(docket->entry[oldest]);
    docket->count--;
    memmove(docket->entry + oldest, docket->entry + oldest + 1,
            (docket->count - oldest) * sizeof(docket->entry[0]));
    return true;
}

static struct entry *docket_add(struct docket *docket)
{
    struct entry *entry;

    if (docket->count == DOCKET_MAX && !docket_forget(docket)) {
        docket->refused++;
        return NULL;
    }
    entry = calloc(1, sizeof(*entry));
    if (entry)
        docket->entry[docket->count++] = entry;
    return entry;
}

/* The one that is judged now, or that was judged last. */
static uint64_t newest_step(const struct court *court)
{
    const struct past_step *past = history_back(&court->history, 0);

    if (court->whole)
        return court->whole->step;
    return past ? past->step : court->last_step;
}

struct entry *court_find(struct court *court, struct verdict *draft, bool *fresh)
{
    struct entry *entry;

    snprintf(draft->run, sizeof(draft->run), "%s", court->model.run);
    verdict_identify(draft);
    entry = docket_get(&court->docket, draft->id);
    *fresh = !entry || !entry->open;
    if (!entry)
        entry = docket_add(&court->docket);
    if (!entry)
        return NULL;
    if (*fresh) {
        struct verdict before = entry->verdict;

        draft->decided_step = newest_step(court);
        draft->decided_real_ns = 0; /* set when it is said */
        entry->verdict = *draft;
        if (before.id[0]) { /* the same fault again: it goes on from where it first was */
            entry->verdict.since_step = before.since_step;
            entry->verdict.since_real_ns = before.since_real_ns;
            entry->reopened++;
        }
        entry->open = entry->changed = true;
        entry->step_seconds = draft->seconds_per_step;
        if (draft->decided_step > draft->since_step) { /* it took these steps to be sure */
            uint64_t before_sure = draft->decided_step - draft->since_step;

            entry->steps += before_sure;
            entry->cost_seconds += (double)before_sure * draft->seconds_per_step;
        }
    }
    entry->seen_step = newest_step(court);
    return entry;
}

void court_add_rank(const struct court *court, struct verdict *draft, uint32_t rank)
{
    uint32_t node = rank < court->model.world ? court->model.rank[rank].node : MODEL_NONE;
    const char *name = node < court->model.nodes ? court->model.node[node].name : "";

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

static int64_t earliest_begin(const struct court *court, const struct whole *whole)
{
    int64_t first = INT64_MAX;

    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (whole->shape_of[rank])
            first = MIN(first, whole_begin(&court->model, whole, rank));
    }
    return first;
}

int64_t court_step_real_ns(const struct court *court, uint64_t step)
{
    if (court->whole && court->whole->bare && court->whole->step == step)
        return earliest_begin(court, court->whole) + court->mono_to_real_ns;
    for (uint32_t back = 0; back < HISTORY_STEPS; back++) {
        const struct past_step *past = history_back(&court->history, back);

        if (past && past->step == step)
            return past->begin_ns + court->mono_to_real_ns;
    }
    return 0;
}

/* Before any step has aligned the clocks of nodes, their wall clocks do. */
int64_t court_run_ns(const struct court *court, uint32_t rank, int64_t mono_ns)
{
    const struct model *model = &court->model;
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

double court_cost_ms(struct court *court, const uint8_t *flag)
{
    if (!court->program_ready)
        return -1;
    return (double)(program_replayed_ns(court->program) -
                    program_without_ns(court->program, flag)) /
           1e6;
}

void court_merge(struct court *court, struct entry *entry, struct entry *into)
{
    const struct past_step *past = history_back(&court->history, 0);
    struct verdict *verdict = &into->verdict;

    verdict_because(&entry->verdict, "merged", "it was part of %s: %s", verdict->id,
                    verdict->cause);
    entry->open = false;
    entry->changed = into->changed = true;
    entry->verdict.until_real_ns = past ? past->begin_ns + court->mono_to_real_ns : 0;
    if (verdict->echo_count < VERDICT_LINES) {
        struct verdict_line *line = &verdict->echo[verdict->echo_count++];

        snprintf(line->what, sizeof(line->what), "rank %u was named alone since step %llu (%s)",
                 entry->verdict.rank[0], (unsigned long long)entry->verdict.since_step,
                 entry->verdict.id);
        snprintf(line->source, sizeof(line->source), "merged");
    }
}

/* How long nobody has to see it until it is over.  One that has come back several times will come back
 * again: it stays open longer each time, so that it is not told over and over.
 */
static uint64_t entry_patience(const struct court *court, const struct entry *entry)
{
    uint32_t most = (uint32_t)court->limits.verdict_flaps_most;
    uint32_t often = entry->reopened > 1 ? MIN(entry->reopened - 1, most) : 0;

    return (uint64_t)court->limits.verdict_close_after << often;
}

/* Verdicts that no judge has found again for some steps are over; open ones grow dearer, but not by what a hang
 * has cost, which is that verdict's.
 */
static void docket_age(struct court *court, const struct past_step *past)
{
    uint64_t again = past->step + (uint64_t)court->limits.verdict_after_restart;
    bool hung = ledger_was_hung(court->book, court, past);

    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];

        if (!entry->open || entry->verdict.kind == VERDICT_CRASH ||
            entry->verdict.kind == VERDICT_HANG || entry->verdict.kind == VERDICT_DESYNC)
            continue;
        if (past->step < entry->seen_step && again < entry->seen_step)
            entry->seen_step = again; /* a restart went back further */
        if (past->step > entry->seen_step + entry_patience(court, entry)) {
            entry->open = false;
            entry->changed = true;
            entry->verdict.until_real_ns = past->begin_ns + court->mono_to_real_ns;
        } else if (past->step == entry->seen_step && !hung) {
            entry->steps++;
            entry->cost_seconds += entry->step_seconds;
            entry->verdict.seconds_per_step = entry->cost_seconds / (double)entry->steps;
            entry->verdict.gpu_seconds = entry->cost_seconds * court->model.world;
        }
    }
}

void court_end(struct court *court, int64_t mono_ns)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        if (court->docket.entry[i]->open)
            court->docket.entry[i]->changed = true; /* its last cost */
    }
    ledger_end(court->book, mono_ns);
}

/* ---- a step ---- */

static void step_learn(struct court *court, const struct whole *whole)
{
    uint32_t world = court->model.world, stride = world / LEARN_RANKS + 1;

    /* Another residue each step, so that in time all ranks teach. */
    for (uint32_t rank = (uint32_t)(whole->step % stride); rank < world; rank += stride) {
        if (whole->shape_of[rank] && !(whole->step_of[rank].flags & (STEP_UNFINISHED | STEP_TORN)))
            learn_step(whole->shape_of[rank]->class, &whole->step_of[rank], &court->limits);
    }
    for (uint32_t rank = 0; rank < world; rank++) {
        if (whole->shape_of[rank] && !whole->shape_of[rank]->ended)
            whole->shape_of[rank]->ended =
                !(whole->step_of[rank].flags & (STEP_UNFINISHED | STEP_TORN));
    }
}

static void step_replay(struct court *court, const struct whole *whole, struct past_step *past)
{
    court->program_ready = false;
    program_fit_share(court->program, court->limits.replay_fit_share);
    if (program_load(court->program, &court->model, whole, court->splitter) == 0) {
        past->measured_ns = program_measured_ns(court->program);
        court->program_ready = court->known != NEEDS_NOTHING && program_fits(court->program);
    }
    if (court->program_ready) {
        past->replayed_ns = program_replayed_ns(court->program);
        past->ideal_ns = program_ideal_ns(court->program);
    } else {
        court->unfit_steps++;
    }
}

static bool step_has(const struct court *court, const struct whole *whole, uint32_t flag)
{
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (whole->shape_of[rank] && whole->step_of[rank].flags & flag)
            return true;
    }
    return false;
}

/* What a judge may need at most. */
static enum judge_needs step_known(const struct court *court, const struct whole *whole)
{
    if (step_has(court, whole, STEP_AHEAD))
        return NEEDS_NOTHING;
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (whole->shape_of[rank] && whole->shape_of[rank]->class->device_ops)
            return NEEDS_TIMES;
    }
    return NEEDS_WORK;
}

int court_step(struct court *court, struct whole *whole)
{
    struct past_step *past = history_next(&court->history, court->model.world, whole->step);
    int result;

    if (!past)
        return -ENOMEM;
    clock_align(&court->model, whole, (int64_t)(court->limits.clock_wall * 1e6));
    if (court->model.peers_stale)
        model_peers(&court->model, whole);
    step_learn(court, whole);
    result = split_step(court->splitter, &court->model, whole, past->split);
    if (result < 0)
        return result;
    past->begin_ns = earliest_begin(court, whole);
    court->history.host_view = step_has(court, whole, STEP_HOST_VIEW);
    court->known = step_known(court, whole);
    step_replay(court, whole, past);
    result = history_judge(&court->history, &court->model, &court->limits);
    if (result < 0)
        return result;
    court->whole = whole;
    for (int i = 0; judges[i]; i++)
        if (judges[i]->needs >= court->known)
            judges[i]->step(court);
    court->whole = NULL;
    hang_step(court, whole);
    court->stepped = true;
    court->last_step = past->step;
    docket_age(court, past);
    ledger_step(court->book, court, past);
    crash_recovered(court, past);
    return 0;
}

void court_numbers(struct court *court, struct whole *whole)
{
    court->whole = whole;
    corrupt_numbers(court);
    court->whole = NULL;
    ledger_bare(court->book, court, whole);
}

bool court_left_unseen(const struct court *court, uint32_t rank)
{
    for (uint32_t i = 0; i < court->lefts; i++) {
        if (court->left[i].rank == rank && court->left[i].status == -1)
            return true;
    }
    return false;
}
