/* straggler_kinds.c - stragglers that come and go: a rank every so often, or another rank each time.
 *
 * A rank that is slow in every fifth step is never slow for long, so its median hides it; a fault that
 * moves from rank to rank has no rank at all.  Both are found by counting the steps of the window in
 * which somebody was far from his peers.  Each is one verdict however often it comes back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/court.h"

#define WARM_UP 2        /* the first steps of an attempt are never typical */
#define LEAST_WINDOW 24  /* before so many steps nothing is told apart */
#define LIMIT_SHARE 0.12 /* of the peers' work, and ... */
#define LIMIT_NOISES                                                                               \
    8                 /* ... of one step's noise: as for those that are slow three times in a row */
#define HIT_SHARE 0.6 /* of the steps: who is slow in more is not a straggler now and then */
#define STAY_RUNS 2
#define GROUP "no rank in particular"

struct pattern {          /* of a rank over the window */
    uint32_t hits, runs;  /* steps in which it was slow; how often that began */
    uint64_t first, last; /* such steps */
    uint32_t gap, gaps;   /* between its first two beginnings, and how many are like that */
    uint64_t began;       /* the newest beginning */
    double excess_ms, compute_ms, starved_ms; /* means over its hits */
};

static uint32_t window_of(const struct court *court)
{
    uint32_t count = court->history.count;

    return count <= WARM_UP ? 0 : MIN(count - WARM_UP, HISTORY_STEPS);
}

static bool is_hit(const struct court *court, const struct past_step *past, uint32_t rank)
{
    const struct rank_split *split = &past->split[rank];
    double least =
        MAX(LIMIT_SHARE * (double)past->typical_ms[rank], court->limits.straggler_least_excess);
    double local = (double)past->excess_ms[rank], compute = (double)past->compute_ms[rank];
    double starved = (double)(split->delay_ns + split->throttled_ns) / 1e6;
    bool hit = local > MAX(least, LIMIT_NOISES * court->history.noise_ms[SERIES_LOCAL]) ||
               compute > MAX(least, LIMIT_NOISES * court->history.noise_ms[SERIES_COMPUTE]);

    /* Without a cpu anybody is slow now and then; the judge of cpus tells whose fault that is. */
    return hit && starved < court->limits.straggler_cpu_share * MAX(local, compute);
}

static void pattern_add(struct pattern *pattern, const struct past_step *past, uint32_t rank,
                        bool begins)
{
    const struct rank_split *split = &past->split[rank];

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
    pattern->excess_ms += (double)MAX(past->excess_ms[rank], past->compute_ms[rank]);
    pattern->compute_ms += (double)past->compute_ms[rank];
    pattern->starved_ms += (double)(split->delay_ns + split->throttled_ns) / 1e6;
}

static struct pattern pattern_of(const struct court *court, uint32_t rank, uint32_t window)
{
    struct pattern pattern = { 0 };
    bool before = false;

    for (uint32_t back = window; back-- > 0;) {
        const struct past_step *past = history_back(&court->history, back);
        bool hit = is_hit(court, past, rank);

        if (hit)
            pattern_add(&pattern, past, rank, !before);
        before = hit;
    }
    if (pattern.hits) {
        pattern.excess_ms /= pattern.hits;
        pattern.compute_ms /= pattern.hits;
        pattern.starved_ms /= pattern.hits;
    }
    return pattern;
}

static bool is_regular(const struct pattern *pattern)
{
    return pattern->runs >= 4 && pattern->gaps + 1 == pattern->runs;
}

static double cost_ms(struct court *court, uint32_t rank)
{
    CLEAN(free_clean) uint8_t *flag = calloc(court->model.world, 1);

    if (!flag)
        return -1;
    flag[rank] = 1;
    return court_cost_ms(court, flag);
}

/* ---- one rank, now and then ---- */

static void recurring_accuse(struct court *court, uint32_t rank, const struct pattern *pattern,
                             uint32_t window, double cost)
{
    struct verdict draft = { .kind = VERDICT_STRAGGLER, .confidence = 0.75 };
    bool gpu = pattern->compute_ms > 0.5 * pattern->excess_ms, fresh;
    struct entry *entry;

    draft.layer = gpu ? LAYER_GPU : court->history.host_view ? LAYER_UNKNOWN : LAYER_USER_CODE;
    court_add_rank(court, &draft, rank);
    draft.since_step = pattern->first;
    draft.since_real_ns = court_step_real_ns(court, draft.since_step);
    draft.seconds_per_step = cost * pattern->hits / window / 1e3;
    if (court->history.host_view)
        draft.confidence = 0.6;
    if (is_regular(pattern))
        snprintf(draft.cause, sizeof(draft.cause), "intermittent: slow in every step of %u",
                 pattern->gap);
    else
        snprintf(draft.cause, sizeof(draft.cause), "intermittent: slow in %u of %u steps",
                 pattern->hits, window);
    verdict_because(&draft, "ring",
                    "%s %.1f ms more than its peers' in %u of %u steps, %u times anew",
                    gpu ? "device compute" : "local work", pattern->excess_ms, pattern->hits,
                    window, pattern->runs);
    verdict_because(&draft, "replay", "the step of %.1f ms would be %.1f ms shorter without it",
                    (double)history_back(&court->history, 0)->measured_ns / 1e6, cost);
    verdict_rule_out(&draft, LAYER_CPU, "without a cpu %.1f ms in these steps",
                     pattern->starved_ms);
    entry = court_find(court, &draft, &fresh);
    if (entry)
        entry->recurs = true;
}

static void recurring_judge(struct court *court, uint32_t rank, const struct pattern *pattern,
                            uint32_t window)
{
    const struct past_step *past = history_back(&court->history, 0);
    struct entry *open = court_open_entry(court, VERDICT_STRAGGLER, LAYER_COUNT, rank);
    bool now = pattern->hits && pattern->last == past->step;
    double cost;

    if (open) {
        if (!open->recurs || pattern->runs < STAY_RUNS)
            return;
        open->seen_step = past->step;
        open->step_seconds = now ? MAX(0, cost_ms(court, rank)) / 1e3 : 0;
        return;
    }
    if (!now || pattern->runs < court->limits.straggler_recurs ||
        pattern->hits > HIT_SHARE * window)
        return;
    cost = cost_ms(court, rank);
    if (cost * pattern->hits / window >
        court->limits.straggler_cost_share * history_period_ms(&court->history, window))
        recurring_accuse(court, rank, pattern, window, cost);
}

/* ---- another rank each time ---- */

struct migration {
    uint32_t steps, ranks; /* steps with a slow rank; ranks that were it */
    uint32_t most;         /* steps of the one that was it most often */
    uint64_t first;
    double excess_ms;
    char list[96]; /* the newest of them */
};

static struct migration migration_of(const struct court *court, uint32_t window, uint32_t *hits)
{
    struct migration found = { 0 };
    size_t used = 0;

    for (uint32_t back = window; back-- > 0;) {
        const struct past_step *past = history_back(&court->history, back);
        uint32_t worst = MODEL_NONE;

        for (uint32_t rank = 0; rank < court->model.world; rank++) {
            if (is_hit(court, past, rank) &&
                (worst == MODEL_NONE || past->excess_ms[rank] > past->excess_ms[worst]))
                worst = rank;
        }
        if (worst == MODEL_NONE)
            continue;
        if (found.steps++ == 0)
            found.first = past->step;
        found.ranks += hits[worst]++ == 0;
        found.most = MAX(found.most, hits[worst]);
        found.excess_ms += (double)past->excess_ms[worst];
        if (back < 8 && used + 16 < sizeof(found.list))
            used += (size_t)snprintf(found.list + used, sizeof(found.list) - used, "%s%u",
                                     used ? ", " : "", worst);
    }
    found.excess_ms /= MAX(1, found.steps);
    return found;
}

static bool migrates(const struct court *court, const struct migration *found, uint32_t window)
{
    return found->ranks >= 3 && found->most * 2 <= found->steps &&
           found->steps >= court->limits.straggler_migrates * window;
}

static struct entry *migration_entry(const struct court *court)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];

        if (entry->open && entry->verdict.kind == VERDICT_STRAGGLER &&
            strcmp(entry->verdict.group, GROUP) == 0)
            return entry;
    }
    return NULL;
}

static void migration_accuse(struct court *court, const struct migration *found, uint32_t window,
                             double cost)
{
    struct verdict draft = { .kind = VERDICT_STRAGGLER,
                             .layer = LAYER_UNKNOWN,
                             .confidence = 0.6,
                             .since_step = found->first };
    struct entry *entry;
    bool fresh;

    snprintf(draft.group, sizeof(draft.group), GROUP);
    snprintf(draft.cause, sizeof(draft.cause), "migrating: another rank is slow each time");
    draft.since_real_ns = court_step_real_ns(court, draft.since_step);
    draft.seconds_per_step = cost / 1e3;
    verdict_because(&draft, "ring",
                    "in %u of %u steps a rank takes %.1f ms more than its peers, %u ranks in turn",
                    found->steps, window, found->excess_ms, found->ranks);
    verdict_because(&draft, "ring", "in the newest steps: %s", found->list);
    if (court->history.explained > 0 || court->history.lengths_vary)
        verdict_rule_out(&draft, LAYER_DATA, "lengths do not explain it");
    entry = court_find(court, &draft, &fresh);
    if (entry)
        entry->recurs = true;
}

static bool migration_judge(struct court *court, uint32_t window)
{
    const struct past_step *past = history_back(&court->history, 0);
    CLEAN(free_clean) uint32_t *hits = calloc(court->model.world, sizeof(*hits));
    struct entry *open = migration_entry(court);
    struct migration found;
    double cost;

    if (!hits)
        return false;
    found = migration_of(court, window, hits);
    if (!migrates(court, &found, window))
        return false;
    cost = past->replayed_ns > 0 ? (double)(past->replayed_ns - past->ideal_ns) / 1e6 : -1;
    if (open) {
        open->seen_step = past->step;
        open->step_seconds = MAX(0, cost) / 1e3;
    } else if (cost > court->limits.straggler_cost_share * history_period_ms(&court->history, 5)) {
        migration_accuse(court, &found, window, cost);
    }
    return true;
}

/* A node that is short of cpus makes all of its ranks slow now and then. */
static bool is_short_of_cpus(const struct court *court)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        const struct entry *entry = court->docket.entry[i];

        if (entry->open && entry->verdict.layer == LAYER_CPU)
            return true;
    }
    return false;
}

static void kinds_step(struct court *court)
{
    uint32_t window = window_of(court);

    if (window < LEAST_WINDOW || is_short_of_cpus(court) ||
        (court->history.lengths_vary &&
         court->history.count < court->limits.straggler_least_history + 3))
        return;
    if (migration_judge(court, window))
        return;
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        struct pattern pattern = pattern_of(court, rank, window);

        if (pattern.hits > 0)
            recurring_judge(court, rank, &pattern, window);
    }
}

const struct judge judge_straggler_kinds = { .name = "straggler kinds", .step = kinds_step };
