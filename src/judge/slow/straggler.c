/* straggler.c - finds the rank that the others wait for.
 *
 * In lockstep training a slow rank does not look slow: it is the others whose steps
 * stretch, inside the collective.  So a rank is suspected when its *local* work (device
 * compute, and host time that leaves the device idle) exceeds that of its peers step after
 * step, and blamed when the replay says that the step would be shorter had it worked
 * as they do.  Peers come before the rank's own past: a whole job may slow down for
 * good reasons, such as longer sequences.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/straggler_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/confidence.h"
#include "judge/median.h"
#include "judge/price.h"
#include "judge/slow/signals.h"
#include "wire/names.h"

struct phase_sums { /* ms, by phase */
    double own[LOCKSTEP_PHASE_COUNT], peers[LOCKSTEP_PHASE_COUNT];
    uint32_t steps, peer_steps;
};

static void phase_sums_add(struct phase_sums *sums, const struct model *model,
                           const struct past_step *past, uint32_t rank)
{
    sums->steps++;
    for (uint32_t other = 0; other < model->world; other++) {
        double *sum = other == rank ? sums->own : sums->peers;

        if (model->rank[other].peers != model->rank[rank].peers || !past->split[other].present)
            continue;
        for (unsigned phase = 0; phase < LOCKSTEP_PHASE_COUNT; phase++)
            sum[phase] += (double)past->split[other].host_ns[phase] / 1e6;
        sums->peer_steps += other != rank;
    }
}

unsigned straggler_longest_phase(const struct judge_state *judge, uint32_t rank, uint32_t steps,
                                 straggler_counts *counts, double *own_ms, double *peers_ms)
{
    uint32_t window = history_window(&judge->history, steps);
    struct phase_sums sums = { 0 };
    unsigned longest = 0;

    for (uint32_t back = 0; back < window; back++) {
        const struct past_step *past = history_back(&judge->history, back);

        if (!counts || counts(judge, past, rank))
            phase_sums_add(&sums, &judge->model, past, rank);
    }
    for (unsigned phase = 0; phase < LOCKSTEP_PHASE_COUNT; phase++) {
        sums.own[phase] /= sums.steps ? sums.steps : 1;
        sums.peers[phase] /= sums.peer_steps ? sums.peer_steps : 1;
        if (sums.own[phase] - sums.peers[phase] > sums.own[longest] - sums.peers[longest])
            longest = phase;
    }
    *own_ms = sums.own[longest];
    *peers_ms = sums.peers[longest];
    return longest;
}

static bool straggler_in_one_phase(const struct judge_state *judge, uint32_t rank, uint32_t steps,
                                   double excess)
{
    double own, peers;

    straggler_longest_phase(judge, rank, steps, NULL, &own, &peers);
    return own - peers > judge->limits.straggler_one_phase * excess;
}

/* ---- the verdict ---- */

static unsigned straggler_layer_of(const struct judge_state *judge, uint32_t rank, uint32_t steps,
                                   double excess)
{
    const struct history *history = &judge->history;

    if (signals_is_starved(judge, rank, steps))
        return LAYER_CPU;
    if (history_excess_ms(history, SERIES_COMPUTE, rank, steps) >
        judge->limits.verdict_explains * excess)
        return LAYER_GPU;
    /* Without device times a phase is the device's as much as the host's.  What makes one phase longer
     * is code; what makes all of them longer may be either.
     */
    if (history->host_view && !straggler_in_one_phase(judge, rank, steps, excess))
        return LAYER_UNKNOWN;
    return LAYER_USER_CODE;
}

static void straggler_describe(struct judge_state *judge, struct verdict *draft, uint32_t rank,
                               uint32_t steps, double excess)
{
    const struct history *history = &judge->history;
    const struct model *model = &judge->model;
    bool gpu = draft->layer == LAYER_GPU;
    split_part *part = gpu ? split_compute_ns : split_local_ns;
    double own = history_part_ms(history, rank, steps, part), theirs;
    uint32_t peers;

    theirs = history_peers_ms(history, model, rank, steps, part, &peers);
    verdict_because(draft, "ring",
                    "%s %.1f ms, median of %u peer%s %.1f ms over %u steps (peers: %s)",
                    signal_table[gpu ? SIGNAL_COMPUTE : SIGNAL_WORK].what, own, peers,
                    peers == 1 ? "" : "s", theirs, steps, peer_basis_name(model->rank[rank].basis));
    if (draft->layer != LAYER_GPU) {
        unsigned phase = straggler_longest_phase(judge, rank, steps, NULL, &own, &theirs);

        verdict_because(draft, "ring", "%s in %s: %.1f ms, peer median %.1f ms",
                        history->host_view ? "host time" : "device idle while the host is",
                        name_of_phase(phase), own, theirs);
    }
    price_because(draft, history_period_ms(history, steps), "this rank were as fast as its peers");
    own = history_starved_ms(history, rank, steps);
    theirs = history_peers_starved_ms(history, model, rank, steps);
    if (draft->layer == LAYER_CPU)
        verdict_because(draft, "schedstat",
                        "runnable but waiting for a CPU %.1f ms per step, peer median %.1f ms", own,
                        theirs);
    else
        verdict_rule_out(draft, LAYER_CPU,
                         "waits %.1f ms per step for a CPU, peer median %.1f ms, of %.1f ms excess",
                         own, theirs, excess);
    own = history_part_ms(history, rank, steps, split_input_ns);
    theirs = history_peers_ms(history, model, rank, steps, split_input_ns, &peers);
    verdict_rule_out(draft, LAYER_DATA, "input wait %.1f ms, peer median %.1f ms", own, theirs);
    own = history_part_ms(history, rank, steps, split_transfer_ns);
    theirs = history_peers_ms(history, model, rank, steps, split_transfer_ns, &peers);
    verdict_rule_out(draft, LAYER_FABRIC, "transfer %.1f ms, peer median %.1f ms", own, theirs);
}

static const char *straggler_cause_of(unsigned layer, bool host_view)
{
    switch (layer) {
    case LAYER_GPU:
        return signal_table[SIGNAL_COMPUTE].cause;
    case LAYER_CPU:
        return "its threads wait for a CPU";
    case LAYER_UNKNOWN:
        return "all its work takes longer than on its peers; device times are not observed";
    default:
        return host_view ? "its host code takes longer than on its peers"
                         : signal_table[SIGNAL_WORK].cause;
    }
}

static uint64_t first_slow_step(const struct judge_state *judge, uint32_t rank, double limit_ms)
{
    uint64_t first = history_back(&judge->history, 0)->step;

    for (uint32_t back = 0; back < HISTORY_STEPS; back++) {
        const struct past_step *past = history_back(&judge->history, back);

        if (!past || (double)MAX(past->excess_ms[rank], past->compute_ms[rank]) < limit_ms)
            break;
        first = past->step;
    }
    return first;
}

/* Where others on its node wait for a CPU as well, the node is short of them, and which rank that delays is chance: it is the same
 * fault as cpu.c finds where it came later, and the same verdict.
 */
static void straggler_add_ranks(struct judge_state *judge, struct verdict *draft, uint32_t rank,
                                uint32_t steps)
{
    double own = history_starved_ms(&judge->history, rank, steps) -
                 SIGNALS_BLUR * history_starved_error_ms(&judge->history, rank, steps);
    double others = signals_neighbours_ms(judge, rank, steps);

    if (draft->layer != LAYER_CPU || others < 0 || others < own / 2) {
        judge_state_add_rank(judge, draft, rank);
        return;
    }
    for (uint32_t other = 0; other < judge->model.world; other++) {
        if (judge->model.rank[other].node == judge->model.rank[rank].node)
            judge_state_add_rank(judge, draft, other);
    }
    snprintf(draft->cause, sizeof(draft->cause), "%s", signal_table[SIGNAL_CPU].cause);
}

static void straggler_draft(struct judge_state *judge, uint32_t rank, uint32_t steps,
                            double cost_ms, struct verdict *draft)
{
    double excess = signals_excess_ms(judge, rank, steps);
    const struct confidence basis = { .margin =
                                          MAX(1, excess / signals_least_ms(judge, rank, steps)),
                                      .rank = rank };

    *draft = signal_draft(judge, SIGNAL_WORK, &basis);
    draft->since_step = first_slow_step(judge, rank, excess / 3);
    draft->seconds_per_step = cost_ms / 1e3;
    draft->layer = (uint8_t)straggler_layer_of(judge, rank, steps, excess);
    snprintf(draft->cause, sizeof(draft->cause), "%s",
             straggler_cause_of(draft->layer, judge->history.host_view));
    straggler_add_ranks(judge, draft, rank, steps);
    if (draft->layer == LAYER_GPU)
        snprintf(draft->device, sizeof(draft->device), "the device of rank %u", rank);
    straggler_describe(judge, draft, rank, steps, excess);
}

/* The first steps of a fault are few, and other things happen in them, too: more of them may correct the layer and the
 * evidence, and one that came and went may stay.
 */
static void straggler_reconsider(struct judge_state *judge, struct tracked_verdict *open,
                                 uint32_t rank, uint32_t steps)
{
    struct verdict *verdict = &open->verdict, draft;

    if (!open->recurs && open->steps != 8 && open->steps != 16 && open->steps != 32)
        return;
    straggler_draft(judge, rank, open->recurs ? steps : (uint32_t)open->steps,
                    verdict->seconds_per_step * 1e3, &draft);
    if (draft.rank_count != verdict->rank_count)
        return; /* one or all of its node: what was said first stays */
    open->changed |= draft.layer != verdict->layer || open->recurs;
    open->recurs = false;
    verdict->layer = draft.layer;
    verdict->confidence = draft.confidence;
    memcpy(verdict->cause, draft.cause, sizeof(draft.cause));
    memcpy(verdict->device, draft.device, sizeof(draft.device));
    memcpy(verdict->because, draft.because, sizeof(draft.because));
    memcpy(verdict->ruled_out, draft.ruled_out, sizeof(draft.ruled_out));
    verdict->because_count = draft.because_count;
    verdict->ruled_out_count = draft.ruled_out_count;
    verdict->shorter_if = draft.shorter_if;
}

/* ---- all of them together ---- */

#define SUSPECTS_MAX 32 /* that are priced by replays of their own */

struct straggler_suspect {
    uint32_t rank;
    uint32_t steps;                 /* it has been slow for so many; 0: it comes and goes */
    struct straggler_pattern comes; /* ... so */
    struct tracked_verdict *open;
    double excess_ms;
};

struct straggler_suspects {
    struct straggler_suspect list[SUSPECTS_MAX];
    uint32_t count;
    uint8_t *
        who; /* by rank: its place in the list; SUSPECTS_MAX: slow, but another judge's; PRICE_NOBODY */
};

/* Keeps those with the largest excess. */
static void suspects_add(struct straggler_suspects *suspects, const struct straggler_suspect *fresh)
{
    uint32_t least = 0;

    if (suspects->count < SUSPECTS_MAX) {
        suspects->who[fresh->rank] = (uint8_t)suspects->count;
        suspects->list[suspects->count++] = *fresh;
        return;
    }
    for (uint32_t i = 1; i < suspects->count; i++) {
        if (suspects->list[i].excess_ms < suspects->list[least].excess_ms)
            least = i;
    }
    if (suspects->list[least].excess_ms >= fresh->excess_ms)
        return;
    suspects->who[suspects->list[least].rank] = PRICE_NOBODY;
    suspects->who[fresh->rank] = (uint8_t)least;
    suspects->list[least] = *fresh;
}

/* Its own open verdict, and the one about several ranks that names it. */
static struct tracked_verdict *suspect_verdict(struct judge_state *judge, uint32_t rank,
                                               const struct tracked_verdict **several)
{
    *several = NULL;
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (!tracked->open || tracked->verdict.kind != VERDICT_STRAGGLER ||
            !verdict_names_rank(&tracked->verdict, rank))
            continue;
        if (tracked->verdict.rank_count == 1)
            return tracked;
        *several = tracked;
    }
    return NULL;
}

/* Whether the verdict about several ranks says all there is to say: on a node without CPUs a rank may be slow by its own
 * work as well.
 */
static bool suspect_is_covered(const struct judge_state *judge, uint32_t rank,
                               const struct tracked_verdict *several, uint32_t steps)
{
    double own = 1 - judge->limits.verdict_explains;

    return steps == 0 || several->verdict.layer != LAYER_CPU ||
           signals_own_work_ms(judge, rank, steps) < own * signals_excess_ms(judge, rank, steps);
}

static void suspects_gather(struct judge_state *judge, struct straggler_suspects *suspects)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        struct straggler_suspect fresh = { .rank = rank };
        const struct tracked_verdict *several;

        fresh.steps = signals_slow_steps(judge, rank);
        fresh.open = suspect_verdict(judge, rank, &several);
        if (several && !fresh.open && suspect_is_covered(judge, rank, several, fresh.steps)) {
            suspects->who[rank] = SUSPECTS_MAX;
            continue;
        }
        if (signals_comes_and_goes(judge, rank) || (fresh.open && fresh.open->recurs)) {
            fresh.comes = straggler_pattern(judge, rank);
            if (straggler_wavers(&fresh.comes))
                fresh.steps = 0;
        }
        fresh.excess_ms = signals_excess_ms(judge, rank, 1);
        if (fresh.steps || fresh.comes.hits)
            suspects_add(suspects, &fresh);
    }
    /* Those whose batches come late are another judge's, but hold up the step as much. */
    for (uint32_t rank = 0; suspects->count && rank < judge->model.world; rank++) {
        if (suspects->who[rank] == PRICE_NOBODY && signals_is_marked(judge, rank))
            suspects->who[rank] = SUSPECTS_MAX;
    }
}

static void suspect_judge(struct judge_state *judge, const struct straggler_suspect *suspect,
                          double cost_ms, double least_ms)
{
    struct tracked_verdict *open = suspect->open;
    struct verdict draft;
    bool fresh;

    if (suspect->steps == 0) {
        straggler_comes(judge, &suspect->comes, open, cost_ms, least_ms);
    } else if (open) {
        if (cost_ms >= 0)
            open->step_seconds = cost_ms / 1e3;
        open->seen_step = history_back(&judge->history, 0)->step;
        straggler_reconsider(judge, open, suspect->rank, suspect->steps);
    } else if (cost_ms > least_ms && straggler_is_waited_for(judge, suspect->rank)) {
        straggler_draft(judge, suspect->rank, suspect->steps, cost_ms, &draft);
        if (draft.layer == LAYER_USER_CODE &&
            cost_ms <= signals_pair_times(judge, suspect->rank) * least_ms)
            return;
        if (draft.layer == LAYER_CPU || draft.layer == LAYER_GPU ||
            !signals_may_be_starved(judge, suspect->rank, suspect->steps))
            judge_state_find(judge, &draft, &fresh);
    }
}

static void straggler_step(struct judge_state *judge)
{
    CLEAN(free_clean) uint8_t *who = malloc(judge->model.world + 1);
    struct straggler_suspects suspects = { .who = who };
    double least =
        signal_least(judge, SIGNAL_WORK) * history_period_ms(&judge->history, HISTORY_STEPS);
    struct price price;

    if (!who)
        return;
    memset(who, PRICE_NOBODY, judge->model.world);
    suspects_gather(judge, &suspects);
    if (suspects.count) {
        price_ranks(judge, who, SUSPECTS_MAX + 1, &price);
        for (uint32_t i = 0; i < suspects.count; i++)
            suspect_judge(judge, &suspects.list[i], price.all_ms < 0 ? -1 : price.cost_ms[i],
                          least);
    }
    straggler_moves(judge);
}

const struct judge judge_straggler = { .name = "straggler",
                                       .step = straggler_step,
                                       .evidence = EVIDENCE_TIMES,
                                       .remedy = price_remedy_ranks };
