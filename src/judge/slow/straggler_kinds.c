/* straggler_kinds.c - stragglers that come and go: a rank every so often, or another rank each time.
 *
 * A rank that is slow in every fifth step is never slow for long, so its median hides it; a fault that
 * moves from rank to rank has no rank at all.  Both are found by how often a rank is far from its peers (signals.c).
 * Each is one verdict however often it comes back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/confidence.h"
#include "judge/median.h"
#include "judge/price.h"
#include "judge/slow/signals.h"
#include "judge/slow/straggler_private.h"
#include "wire/names.h"

#define MOVES_RANKS 3 /* that must take turns: two that are slow may be two faults */

static double straggler_off_ms(const struct past_step *past, uint32_t rank)
{
    return (double)MAX(past->excess_ms[rank], past->compute_ms[rank]);
}

static void straggler_pattern_add(struct straggler_pattern *pattern, const struct past_step *past,
                                  bool begins)
{
    if (pattern->hits++ == 0)
        pattern->first = past->step;
    if (begins) {
        uint32_t gap = (uint32_t)(past->step - pattern->began);

        if (pattern->runs == 1)
            pattern->gap = gap;
        if (pattern->runs > 0 && gap + 1 >= pattern->gap && gap <= pattern->gap + 1)
            pattern->gaps++;
        pattern->runs++;
        pattern->began = past->step;
    }
    pattern->last = past->step;
    pattern->excess_ms += straggler_off_ms(past, pattern->rank);
    pattern->compute_ms += (double)past->compute_ms[pattern->rank];
    pattern->starved_ms += (double)split_starved_ns(&past->split[pattern->rank]) / 1e6;
}

struct straggler_pattern straggler_pattern(const struct judge_state *judge, uint32_t rank)
{
    const struct history *history = &judge->history;
    struct straggler_pattern pattern = { .rank = rank,
                                         .window = history_window(history, HISTORY_STEPS) };
    double hit_ms[HISTORY_STEPS], middle;
    bool before = false;

    for (uint32_t back = pattern.window; back-- > 0;) {
        const struct past_step *past = history_back(history, back);
        bool far = past->split[rank].present && signals_is_far(judge, past, rank);

        pattern.mean_ms += straggler_off_ms(past, rank) / pattern.window;
        if (far) {
            hit_ms[pattern.hits] = straggler_off_ms(past, rank);
            straggler_pattern_add(&pattern, past, !before);
        }
        pattern.span += pattern.hits > 0;
        before = far;
    }
    if (pattern.hits == 0)
        return pattern;
    pattern.excess_ms /= pattern.hits;
    pattern.compute_ms /= pattern.hits;
    pattern.starved_ms /= pattern.hits;
    middle = median_f64(hit_ms, pattern.hits); /* one that is far longer than the others is one */
    for (uint32_t back = 0; back < pattern.span; back++)
        pattern.slow += straggler_off_ms(history_back(history, back), rank) > DETECT_KEEP * middle;
    return pattern;
}

bool straggler_wavers(const struct straggler_pattern *pattern)
{
    return pattern->hits > 0 && 4 * pattern->slow <= 3 * pattern->span;
}

static bool straggler_is_regular(const struct straggler_pattern *pattern)
{
    return pattern->runs >= 4 && pattern->gaps + 1 == pattern->runs;
}

/* ---- one rank, now and then ---- */

static void straggler_comes_accuse(struct judge_state *judge,
                                   const struct straggler_pattern *pattern, double cost_ms)
{
    uint32_t rank = pattern->rank, window = pattern->window;
    struct verdict draft = signal_draft(judge, SIGNAL_HITS, &(struct confidence){ .rank = rank });
    bool gpu = pattern->compute_ms > judge->limits.verdict_explains * pattern->excess_ms;
    double own_ms, peers_ms;
    unsigned phase =
        straggler_longest_phase(judge, rank, window, signals_is_far, &own_ms, &peers_ms);
    bool in_phase = own_ms - peers_ms > judge->limits.straggler_one_phase * pattern->excess_ms;
    bool fresh;
    struct tracked_verdict *tracked;

    draft.layer = (uint8_t)(gpu                                     ? LAYER_GPU
                            : judge->history.host_view && !in_phase ? LAYER_UNKNOWN
                                                                    : LAYER_USER_CODE);
    judge_state_add_rank(judge, &draft, rank);
    draft.since_step = pattern->first;
    draft.seconds_per_step = cost_ms / 1e3;
    if (straggler_is_regular(pattern))
        snprintf(draft.cause, sizeof(draft.cause), "intermittent: slow about every %u steps",
                 pattern->gap);
    else
        snprintf(draft.cause, sizeof(draft.cause), "intermittent: slow in %u of %u steps",
                 pattern->hits, window);
    verdict_because(
        &draft, "ring",
        "%s %.1f ms longer than on its peers in %u of %u steps, in %u separate episodes",
        signal_table[gpu ? SIGNAL_COMPUTE : SIGNAL_HITS].what, pattern->excess_ms, pattern->hits,
        window, pattern->runs);
    if (!gpu && in_phase && phase)
        verdict_because(&draft, "ring", "host time in %s in these steps: %.1f ms, peers %.1f ms",
                        name_of_phase(phase), own_ms, peers_ms);
    price_because(&draft, history_period_ms(&judge->history, window),
                  "this rank were as fast as its peers");
    if (pattern->starved_ms < judge->limits.verdict_explains * pattern->excess_ms)
        verdict_rule_out(&draft, LAYER_CPU, "waits %.1f ms for a CPU in these steps",
                         pattern->starved_ms);
    else
        verdict_because(&draft, "schedstat",
                        "waits for a CPU for %.1f ms of these %.1f ms, as it has more to do",
                        pattern->starved_ms, pattern->excess_ms);
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked)
        tracked->recurs = true;
}

void straggler_comes(struct judge_state *judge, const struct straggler_pattern *pattern,
                     struct tracked_verdict *open, double cost_ms, double least_ms)
{
    uint64_t now = history_back(&judge->history, 0)->step;
    bool far = pattern->last == now;

    if (open) {
        if (!open->recurs ||
            pattern->mean_ms < DETECT_KEEP * signals_least_ms(judge, pattern->rank, HISTORY_STEPS))
            return;
        open->seen_step = now;
        open->step_seconds = far ? MAX(0, cost_ms) / 1e3 : 0;
        return;
    }
    /* Where it moves, a rank of its own is one that has more of it than all others. */
    if (2 * pattern->hits <= pattern->window &&
        judge_state_group_verdict(judge, VERDICT_STRAGGLER, STRAGGLER_MIGRATES))
        return;
    cost_ms *= (double)pattern->hits / pattern->window; /* of a step, on average */
    if (far && pattern->runs > 1 && cost_ms > signals_pair_times(judge, pattern->rank) * least_ms &&
        signals_comes_and_goes(judge, pattern->rank) &&
        pattern->mean_ms > signals_least_ms(judge, pattern->rank, HISTORY_STEPS))
        straggler_comes_accuse(judge, pattern, cost_ms);
}

/* ---- another rank each time ---- */

struct migration {
    uint32_t steps, ranks; /* steps with a slow rank; ranks that were it */
    uint32_t most;         /* steps of the one that was it most often */
    uint64_t first;
    double excess_ms;
    char list[96]; /* the newest of them */
};

static struct migration migration_of(const struct judge_state *judge)
{
    uint32_t window = history_window(&judge->history, HISTORY_STEPS);
    struct migration found = { 0 };
    size_t used = 0;

    for (uint32_t back = window; back-- > 0;) {
        const struct past_step *past = history_back(&judge->history, back);
        uint32_t rank = signals_slowest(judge, back), times = 0, before = 0;

        if (rank == MODEL_NONE)
            continue;
        for (uint32_t other = 0; other < window; other++) {
            times += signals_slowest(judge, other) == rank;
            before += other > back && signals_slowest(judge, other) == rank;
        }
        if (found.steps++ == 0)
            found.first = past->step;
        found.ranks += before == 0;
        found.most = MAX(found.most, times);
        found.excess_ms += (double)past->excess_ms[rank];
        if (back < 8 && used + 16 < sizeof(found.list))
            used += (size_t)snprintf(found.list + used, sizeof(found.list) - used, "%s%u",
                                     used ? ", " : "", rank);
    }
    found.excess_ms /= MAX(1, found.steps);
    return found;
}

static void migration_accuse(struct judge_state *judge, const struct migration *found,
                             uint32_t window, double cost)
{
    struct verdict draft = signal_draft(judge, SIGNAL_MOVES, NULL);
    struct tracked_verdict *tracked;
    bool fresh;

    draft.since_step = found->first;
    snprintf(draft.group, sizeof(draft.group), STRAGGLER_MIGRATES);
    draft.seconds_per_step = cost / 1e3;
    verdict_because(
        &draft, "ring",
        "in %u of %u steps one rank takes %.1f ms longer than its peers; %u ranks take turns",
        found->steps, window, found->excess_ms, found->ranks);
    verdict_because(&draft, "ring", "slow ranks in the newest steps: %s", found->list);
    if (judge->history.explained > 0 || judge->history.lengths_vary)
        verdict_rule_out(&draft, LAYER_DATA, "sequence lengths do not explain it");
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked)
        tracked->recurs = true;
}

/* Ranks that were named before it was clear that others are slow in turn: that was the same fault. */
static void migration_merge(struct judge_state *judge, struct tracked_verdict *into)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && tracked->verdict.kind == VERDICT_STRAGGLER &&
            tracked->verdict.rank_count == 1 &&
            tracked->verdict.since_step >= into->verdict.since_step)
            judge_state_merge(judge, tracked, into);
    }
}

void straggler_moves(struct judge_state *judge)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct tracked_verdict *open =
        judge_state_group_verdict(judge, VERDICT_STRAGGLER, STRAGGLER_MIGRATES);
    double cost = past->replayed_ns > 0 ? (double)(past->replayed_ns - past->ideal_ns) / 1e6 : 0;
    uint32_t window = history_window(&judge->history, HISTORY_STEPS);
    struct migration found;
    uint32_t slowest;

    if (!signals_job_is_uneven(judge))
        return;
    found = migration_of(judge);
    if (found.ranks < MOVES_RANKS || 2 * found.most > found.steps)
        return; /* whatever there is, it is not that */
    if (open) {
        open->seen_step = past->step;
        open->step_seconds = cost / 1e3;
        return;
    }
    /* The cost is that of the newest step: of a step on average it is less. */
    cost = MIN(cost, found.excess_ms) * found.steps / window;
    slowest = signals_slowest(judge, 0);
    if (slowest == MODEL_NONE || cost <= signals_pair_times(judge, slowest) *
                                             signal_least(judge, SIGNAL_MOVES) *
                                             history_period_ms(&judge->history, window))
        return;
    migration_accuse(judge, &found, window, cost);
    open = judge_state_group_verdict(judge, VERDICT_STRAGGLER, STRAGGLER_MIGRATES);
    if (open)
        migration_merge(judge, open);
}
