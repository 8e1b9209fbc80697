/* straggler_kinds.c - stragglers that come and go: a rank every so often, or another rank each time.
 *
 * A rank that is slow in every fifth step is never slow for long, so its median hides it; a fault that
 * moves from rank to rank has no rank at all.  Both are found by counting the steps of the window in
 * which somebody was far from his peers.  Each is one verdict however often it comes back.
 *
 * Among thousands of ranks somebody is slow in every step, and somebody often by chance.  So a rank must be
 * slow more often than the others' slowness makes likely for any of them, and a slowness that
 * moves must be more than so many ranks have every day, or than this run had before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/confidence.h"
#include "judge/price.h"
#include "judge/slow/straggler.h"
#include "wire/names.h"

struct slow_step { /* a rank was slow in a step of the window */
    uint32_t rank, back;
};

struct hits {
    struct slow_step *list; /* by rank, then from the oldest step on */
    uint32_t count, room;
    uint32_t runs; /* how often that began, on ranks that are not suspected */
    uint32_t window;
};

struct pattern { /* of a rank over the window */
    uint32_t rank;
    uint32_t hits, runs;  /* steps in which it was slow; how often that began */
    uint64_t first, last; /* such steps */
    uint32_t gap, gaps;   /* between its first two beginnings, and how many are like that */
    uint64_t began;       /* the newest beginning */
    int64_t began_ns;
    double excess_ms, compute_ms, starved_ms; /* means over its hits */
};

static uint32_t straggler_window_of(const struct judge_state *judge)
{
    uint32_t count = judge->history.count, warm = (uint32_t)judge->limits.verdict_warm_up;

    return count <= warm ? 0 : MIN(count - warm, HISTORY_STEPS);
}

static bool is_hit(const struct judge_state *judge, const struct past_step *past, uint32_t rank)
{
    const struct rank_split *split = &past->split[rank];
    double least = MAX(judge->limits.straggler_hit_share * (double)past->typical_ms[rank],
                       judge->limits.straggler_least_excess);
    double noises = judge->limits.straggler_hit_noises;
    /* Without a cpu anybody is slow now and then; the judge of cpus tells whose fault that is. */
    double starved = (double)split_starved_ns(split) / 1e6;
    double local = (double)past->excess_ms[rank] - starved;
    double compute = (double)past->compute_ms[rank] - starved;

    return local > MAX(least, noises * judge->history.noise_ms[SERIES_LOCAL]) ||
           compute > MAX(least, noises * judge->history.noise_ms[SERIES_COMPUTE]);
}

static void hits_fini(struct hits *hits)
{
    free(hits->list);
}

static int hit_compare(const void *a, const void *b)
{
    const struct slow_step *left = a, *right = b;

    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    return left->back > right->back ? -1 : left->back < right->back;
}

static bool hits_add(struct hits *hits, uint32_t rank, uint32_t back)
{
    if (!ARRAY_FIT(hits->list, hits->room, hits->count + 1))
        return false;
    hits->list[hits->count++] = (struct slow_step){ rank, back };
    return true;
}

static bool hits_gather(const struct judge_state *judge, uint32_t window, struct hits *ret)
{
    ret->window = window;
    for (uint32_t back = window; back-- > 0;) {
        const struct past_step *past = history_back(&judge->history, back);

        for (uint32_t i = 0; i < past->far_count; i++) {
            if (is_hit(judge, past, past->far[i]) && !hits_add(ret, past->far[i], back))
                return false;
        }
    }
    if (ret->count) /* else there is no list either */
        qsort(ret->list, ret->count, sizeof(*ret->list), hit_compare);
    return true;
}

/* What holds up a process for tens of milliseconds is in several short steps, and is one episode. */
static bool pattern_begins(const struct judge_state *judge, const struct pattern *pattern,
                           const struct past_step *past)
{
    return pattern->runs == 0 ||
           (double)(past->begin_ns - pattern->began_ns) >= judge->limits.verdict_look * 1e6;
}

static void pattern_add(struct pattern *pattern, const struct past_step *past, bool begins)
{
    const struct rank_split *split = &past->split[pattern->rank];

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
        pattern->began_ns = past->begin_ns;
    }
    pattern->last = past->step;
    pattern->excess_ms +=
        (double)MAX(past->excess_ms[pattern->rank], past->compute_ms[pattern->rank]);
    pattern->compute_ms += (double)past->compute_ms[pattern->rank];
    pattern->starved_ms += (double)(split->delay_ns + split->throttled_ns) / 1e6;
}

/* Of the rank whose hits begin at `from`; *next: where the next one's do. */
static struct pattern pattern_of(const struct judge_state *judge, const struct hits *hits,
                                 uint32_t from, uint32_t *next)
{
    struct pattern pattern = { .rank = hits->list[from].rank };
    uint32_t at;

    for (at = from; at < hits->count && hits->list[at].rank == pattern.rank; at++) {
        const struct past_step *past = history_back(&judge->history, hits->list[at].back);
        bool apart = at == from || hits->list[at - 1].back != hits->list[at].back + 1;

        pattern_add(&pattern, past, apart && pattern_begins(judge, &pattern, past));
    }
    pattern.excess_ms /= pattern.hits;
    pattern.compute_ms /= pattern.hits;
    pattern.starved_ms /= pattern.hits;
    *next = at;
    return pattern;
}

/* How likely it is at most that one of so many ranks begins to be slow so often by chance alone. */
static double straggler_chance_of(const struct judge_state *judge, const struct hits *hits,
                                  uint32_t runs)
{
    double world = judge->model.world, rate = judge->limits.straggler_everyday, mean, odds = 1;

    rate = MAX(rate, (double)hits->runs / (world * hits->window));
    mean = rate * hits->window;
    if (mean >= runs)
        return 1;
    for (uint32_t i = 1; i <= runs; i++) /* Poisson's, and what follows it is a geometric series */
        odds *= mean / i;
    return MIN(1, world * odds / (1 - mean / (runs + 1)));
}

static bool straggler_is_regular(const struct pattern *pattern)
{
    return pattern->runs >= 4 && pattern->gaps + 1 == pattern->runs;
}

/* ---- one rank, now and then ---- */

static void straggler_recurring_accuse(struct judge_state *judge, uint32_t rank,
                                       const struct pattern *pattern, uint32_t window, double cost)
{
    const struct confidence basis = { .best = judge->history.host_view ? 0.6 : 0.75, .rank = rank };
    struct verdict draft = { .kind = VERDICT_STRAGGLER,
                             .confidence = confidence_of(judge, &basis) };
    bool gpu = pattern->compute_ms > judge->limits.straggler_gpu_share * pattern->excess_ms;
    double own_ms, peers_ms; /* of the newest step, which is a slow one */
    unsigned phase = straggler_longest_phase(judge, rank, 1, &own_ms, &peers_ms);
    bool in_phase =
        own_ms - peers_ms > judge->limits.straggler_one_phase *
                                (double)history_back(&judge->history, 0)->excess_ms[rank];
    bool fresh;
    struct tracked_verdict *tracked;

    draft.layer = (uint8_t)(gpu                                     ? LAYER_GPU
                            : judge->history.host_view && !in_phase ? LAYER_UNKNOWN
                                                                    : LAYER_USER_CODE);
    judge_state_add_rank(judge, &draft, rank);
    draft.since_step = pattern->first;
    draft.since_real_ns = judge_state_step_real_ns(judge, draft.since_step);
    draft.seconds_per_step = cost * pattern->hits / window / 1e3;
    if (straggler_is_regular(pattern))
        snprintf(draft.cause, sizeof(draft.cause), "intermittent: slow about every %u steps",
                 pattern->gap);
    else
        snprintf(draft.cause, sizeof(draft.cause), "intermittent: slow in %u of %u steps",
                 pattern->hits, window);
    verdict_because(
        &draft, "ring",
        "%s %.1f ms longer than on its peers in %u of %u steps, in %u separate episodes",
        gpu ? "device compute" : "local work", pattern->excess_ms, pattern->hits, window,
        pattern->runs);
    if (!gpu && in_phase && phase)
        verdict_because(&draft, "ring",
                        "host time in %s in the newest of them: %.1f ms, peers %.1f ms",
                        name_of_phase(phase), own_ms, peers_ms);
    price_because(&draft, history_period_ms(&judge->history, window),
                  "this rank were as fast as its peers");
    if (pattern->starved_ms < judge->limits.straggler_cpu_share * pattern->excess_ms)
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

static void recurring_judge(struct judge_state *judge, const struct hits *hits,
                            const struct pattern *pattern)
{
    const struct past_step *past = history_back(&judge->history, 0);
    const struct thresholds *limits = &judge->limits;
    uint32_t rank = pattern->rank, window = hits->window;
    struct tracked_verdict *open =
        judge_state_open_verdict(judge, VERDICT_STRAGGLER, LAYER_COUNT, rank);
    bool now = pattern->last == past->step;
    double cost;

    if (open) {
        if (!open->recurs || pattern->runs < limits->straggler_recurs_stay)
            return;
        open->seen_step = past->step;
        open->step_seconds = now ? MAX(0, price_rank_ms(judge, rank)) / 1e3 : 0;
        return;
    }
    if (!now || pattern->runs < limits->straggler_recurs ||
        pattern->hits > limits->straggler_recurs_most * window ||
        straggler_chance_of(judge, hits, pattern->runs) > limits->straggler_chance)
        return;
    cost = price_rank_ms(judge, rank);
    if (cost * pattern->hits / window >
        limits->straggler_cost_share * history_period_ms(&judge->history, window))
        straggler_recurring_accuse(judge, rank, pattern, window, cost);
}

static void recurring_step(struct judge_state *judge, struct hits *hits)
{
    for (uint32_t at = 0, next; at < hits->count; at = next) {
        struct pattern pattern = pattern_of(judge, hits, at, &next);

        if (pattern.runs < judge->limits.straggler_recurs)
            hits->runs += pattern.runs;
    }
    for (uint32_t at = 0, next; at < hits->count; at = next) {
        struct pattern pattern = pattern_of(judge, hits, at, &next);

        recurring_judge(judge, hits, &pattern);
    }
}

/* ---- another rank each time ---- */

struct migration {
    uint32_t steps, ranks; /* steps with a slow rank; ranks that were it */
    uint32_t most;         /* steps of the one that was it most often */
    uint64_t first;
    double excess_ms;
    char list[96]; /* the newest of them */
};

/* The slowest rank of each step of the window; MODEL_NONE: there was none. */
static void straggler_slowest_find(const struct judge_state *judge, const struct hits *hits,
                                   uint32_t slowest[HISTORY_STEPS])
{
    for (uint32_t back = 0; back < HISTORY_STEPS; back++)
        slowest[back] = MODEL_NONE;
    for (uint32_t i = 0; i < hits->count; i++) {
        const struct slow_step *hit = &hits->list[i];
        const float *excess_ms = history_back(&judge->history, hit->back)->excess_ms;
        uint32_t *at = &slowest[hit->back];

        if (*at == MODEL_NONE || excess_ms[hit->rank] > excess_ms[*at])
            *at = hit->rank;
    }
}

static struct migration migration_of(const struct judge_state *judge, const struct hits *hits)
{
    uint32_t slowest[HISTORY_STEPS];
    struct migration found = { 0 };
    size_t used = 0;

    straggler_slowest_find(judge, hits, slowest);
    for (uint32_t back = hits->window; back-- > 0;) {
        const struct past_step *past = history_back(&judge->history, back);
        uint32_t times = 0, before = 0;

        if (slowest[back] == MODEL_NONE)
            continue;
        for (uint32_t other = 0; other < hits->window; other++) {
            times += slowest[other] == slowest[back];
            before += other > back && slowest[other] == slowest[back];
        }
        if (found.steps++ == 0)
            found.first = past->step;
        found.ranks += before == 0;
        found.most = MAX(found.most, times);
        found.excess_ms += (double)past->excess_ms[slowest[back]];
        if (back < 8 && used + 16 < sizeof(found.list))
            used += (size_t)snprintf(found.list + used, sizeof(found.list) - used, "%s%u",
                                     used ? ", " : "", slowest[back]);
    }
    found.excess_ms /= MAX(1, found.steps);
    return found;
}

/* Whether so many steps with a slow rank are more than a job of this size has every day, or than this one
 * had before.
 */
static bool straggler_is_news(const struct judge_state *judge, const struct migration *found,
                              uint32_t window)
{
    const struct thresholds *limits = &judge->limits;
    double share = (double)found->steps / window, past = judge->history.hit_share;
    double noises = limits->straggler_migrates_noises;

    if (limits->straggler_everyday * judge->model.world <= share / 2)
        return true;
    /* share > past + noises × deviation, squared */
    return past >= 0 && share > past &&
           (share - past) * (share - past) >
               noises * noises * MAX(past * (1 - past), 1.0 / window) / window;
}

/* Whether over so many steps it moves from rank to rank. */
static bool kind_migrates(const struct judge_state *judge, const struct migration *found,
                          uint32_t steps)
{
    const struct thresholds *limits = &judge->limits;

    return found->ranks >= limits->straggler_migrates_ranks &&
           found->most <= limits->straggler_migrates_most * found->steps &&
           found->steps >= limits->straggler_migrates * steps &&
           straggler_is_news(judge, found, steps);
}

/* Whether it does so since it began, if not over the whole window yet.  Where few ranks take turns one may well
 * have every second: nobody is named until more steps tell.
 */
static bool straggler_may_migrate(const struct judge_state *judge, const struct migration *found)
{
    uint64_t newest = history_back(&judge->history, 0)->step;

    return found->steps > 0 && kind_migrates(judge, found, (uint32_t)(newest - found->first + 1));
}

/* What the run had before the window: the step that has just left it counts. */
static void straggler_past_share_update(struct judge_state *judge, const struct hits *hits)
{
    struct history *history = &judge->history;
    bool hit = false;

    if (history->count <= HISTORY_STEPS + judge->limits.verdict_warm_up ||
        judge_state_group_verdict(judge, VERDICT_STRAGGLER, STRAGGLER_MIGRATES))
        return; /* what is a fault does not become usual */
    for (uint32_t i = 0; i < hits->count && !hit; i++)
        hit = hits->list[i].back == hits->window - 1;
    if (history->hit_share < 0)
        history->hit_share = hit; /* replaced below, as the first ones count for more */
    history->hit_share +=
        ((double)hit - history->hit_share) /
        MIN(judge->limits.straggler_migrates_past, history->count - HISTORY_STEPS);
}

static void migration_accuse(struct judge_state *judge, const struct migration *found,
                             uint32_t window, double cost)
{
    struct verdict draft = { .kind = VERDICT_STRAGGLER,
                             .layer = LAYER_UNKNOWN,
                             .since_step = found->first };
    struct tracked_verdict *tracked;
    bool fresh;

    draft.confidence =
        confidence_of(judge, &(struct confidence){ .best = 0.6, .against = AGAINST_OTHERS });
    snprintf(draft.group, sizeof(draft.group), STRAGGLER_MIGRATES);
    snprintf(draft.cause, sizeof(draft.cause), "migrating: a different rank is slow each time");
    draft.since_real_ns = judge_state_step_real_ns(judge, draft.since_step);
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

/* False: whatever there is, it is not that. */
static bool migration_judge(struct judge_state *judge, const struct hits *hits)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct tracked_verdict *open =
        judge_state_group_verdict(judge, VERDICT_STRAGGLER, STRAGGLER_MIGRATES);
    struct migration found = migration_of(judge, hits);
    double cost;

    if (!kind_migrates(judge, &found, hits->window))
        return straggler_may_migrate(judge, &found);
    cost = past->replayed_ns > 0 ? (double)(past->replayed_ns - past->ideal_ns) / 1e6 : -1;
    if (open) {
        open->seen_step = past->step;
        open->step_seconds = MAX(0, cost) / 1e3;
        return true;
    }
    if (cost > judge->limits.straggler_cost_share * history_period_ms(&judge->history, 5)) {
        migration_accuse(judge, &found, hits->window, cost);
        open = judge_state_group_verdict(judge, VERDICT_STRAGGLER, STRAGGLER_MIGRATES);
        if (open)
            migration_merge(judge, open);
    }
    return true;
}

static void kinds_step(struct judge_state *judge)
{
    CLEAN(hits_fini) struct hits hits = { 0 };
    const struct thresholds *limits = &judge->limits;
    uint32_t window = straggler_window_of(judge);

    history_mark_far(&judge->history, limits->straggler_hit_share, limits->straggler_least_excess);
    if (window < limits->straggler_recurs_window ||
        (judge->history.lengths_vary &&
         judge->history.count < limits->straggler_least_history + 3) ||
        !hits_gather(judge, window, &hits))
        return;
    if (!migration_judge(judge, &hits))
        recurring_step(judge, &hits);
    straggler_past_share_update(judge, &hits);
}

const struct judge judge_straggler_kinds = { .name = "straggler kinds", .step = kinds_step };
