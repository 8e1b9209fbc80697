/* stall_input.c - are the batches there in time?
 *
 * A rank waits for input while its device idles and its host is in a data phase.  Where its peers wait
 * just as long it is the job's input: an input-stall, priced by the replay with that much less
 * waiting.  Where they do not it is that rank's: a straggler, layer data.  Both sides are medians of
 * peers, so that one slow loader is not the job's, and a slow storage is nobody's rank.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/stall_parts.h"
#include "judge/straggler.h"

/* A long wait needs few steps, a short one many; `share` is a multiple of the threshold. */
static const struct rule {
    uint32_t steps;
    double shares;
} rules[] = {
    { 3, 3 },
    { 6, 1.7 },
    { 12, 1 },
};

#define SUSPECTS_MAX 32

static int64_t part_input(const struct rank_split *split)
{
    return split->host_ns[LOCKSTEP_PHASE_DATA];
}

static int64_t part_compute(const struct rank_split *split)
{
    return split->compute_ns;
}

static int64_t part_transfer(const struct rank_split *split)
{
    return split->transfer_ns;
}

static int64_t part_faults(const struct rank_split *split)
{
    return split->major_faults * 1000000; /* parts are told in millions */
}

void stall_input_fini(struct stall_input *input)
{
    free(input->level_ns);
    *input = (struct stall_input){ 0 };
}

/* ---- how long peers wait ---- */

struct member {
    uint32_t group, rank;
    int64_t ns;
};

static int member_compare(const void *a, const void *b)
{
    const struct member *left = a, *right = b;

    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    if (left->ns != right->ns)
        return left->ns < right->ns ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static bool input_room(struct stall_input *input, uint32_t world)
{
    int64_t *grown;

    if (input->world >= world)
        return true;
    grown = realloc(input->level_ns, world * sizeof(*grown));
    if (!grown)
        return false;
    input->level_ns = grown;
    input->world = world;
    return true;
}

/* Sets what each rank's median peer waited in the newest step; returns the most of them.  The lower
 * median: of two, one that waits is not the job.
 */
static double levels_fill(struct court *court, const struct past_step *past)
{
    struct stall_input *input = &court->stall->input;
    CLEAN(free_clean)
    struct member *member = malloc(court->model.world * sizeof(*member));
    uint32_t count = 0;
    int64_t most = 0;

    if (!member || !input_room(input, court->model.world))
        return 0;
    memset(input->level_ns, 0, court->model.world * sizeof(*input->level_ns));
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (past->split[rank].present)
            member[count++] = (struct member){ court->model.rank[rank].peers, rank,
                                               part_input(&past->split[rank]) };
    }
    qsort(member, count, sizeof(*member), member_compare);
    for (uint32_t from = 0, to; from < count; from = to) {
        int64_t level;

        for (to = from + 1; to < count && member[to].group == member[from].group;)
            to++;
        level = member[from + (to - from - 1) / 2].ns;
        most = MAX(most, level);
        for (uint32_t i = from; i < to; i++)
            input->level_ns[member[i].rank] = level;
    }
    return (double)most / 1e6;
}

static double newest_most_ms(const struct court *court, const struct past_step *past)
{
    int64_t most = 0;

    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (past->split[rank].present)
            most = MAX(most, part_input(&past->split[rank]));
    }
    return (double)most / 1e6;
}

/* `back` 0 is the newest; NULL when there are not so many. */
static const struct stall_level *level_back(const struct stall_input *input, uint32_t back)
{
    if (back >= input->count || back >= STALL_STEPS)
        return NULL;
    return &input->level[(input->count - 1 - back) % STALL_STEPS];
}

static double level_median(const struct stall_input *input, uint32_t steps, double *period_ms)
{
    double value[STALL_STEPS], period[STALL_STEPS];
    uint32_t count = 0;

    for (; count < steps && level_back(input, count); count++) {
        value[count] = level_back(input, count)->ms;
        period[count] = level_back(input, count)->period_ms;
    }
    *period_ms = median_f64(period, count);
    return median_f64(value, count);
}

static void levels_put(struct court *court, const struct past_step *past)
{
    struct stall_input *input = &court->stall->input;
    double period = (double)past->measured_ns / 1e6, base;
    struct stall_level fresh = { .step = past->step, .period_ms = period };
    uint32_t steps = (uint32_t)court->limits.verdict_base_steps;

    input->newest_ms = newest_most_ms(court, past);
    fresh.ms = input->newest_ms;
    if (fresh.ms > court->limits.input_cost_share * court->limits.input_stay_share * period)
        fresh.ms = levels_fill(court, past);
    else if (input_room(input, court->model.world))
        memset(input->level_ns, 0, court->model.world * sizeof(*input->level_ns));
    input->level[input->count++ % STALL_STEPS] = fresh;
    if (input->count < (uint32_t)court->limits.verdict_warm_up + steps)
        return;
    base = level_median(input, steps, &period);
    if (input->base_ms < 0 || base < input->base_ms)
        input->base_ms = base;
}

/* ---- the job's input ---- */

/* What the newest step lost to it: with the peers' median wait taken from everybody. */
static double job_cost_ms(struct court *court)
{
    const struct stall_input *input = &court->stall->input;
    int64_t shorter;

    if (!court->program_ready || !court->whole)
        return -1;
    shorter =
        program_shorter_ns(court->program, court->whole, LOCKSTEP_PHASE_DATA, input->level_ns);
    return MAX(0, (double)(program_replayed_ns(court->program) - shorter) / 1e6);
}

/* Hosts without a cpu are late with everything, also with batches. */
static bool is_starved(const struct court *court, uint32_t steps, double level_ms)
{
    double starved = 0, period = history_period_ms(&court->history, steps);

    for (uint32_t node = 0; node < court->model.nodes; node++) {
        struct node_typical now = history_node(&court->history, node, steps, steps / 2);
        double typical =
            node < court->history.nodes ? MAX(0, court->history.typical[node].pressure) : 0;

        starved = MAX(starved, (now.pressure - typical) * period);
    }
    return starved > court->limits.input_cpu_share * level_ms;
}

static const struct rule *job_rule(const struct court *court, bool *always)
{
    const struct stall_input *input = &court->stall->input;
    const struct thresholds *limits = &court->limits;

    for (size_t i = 0; i < COUNT(rules); i++) {
        double period, level = level_median(input, rules[i].steps, &period), least = 1e300, limit;
        bool risen = input->base_ms >= 0 && level > limits->input_times * input->base_ms;
        double share = risen                      ? limits->input_cost_share * rules[i].shares
                       : court->history.host_view ? limits->input_host_share
                                                  : limits->input_always_share;

        if (input->count < rules[i].steps + (uint32_t)limits->verdict_warm_up)
            return NULL;
        if (!risen && i + 1 < COUNT(rules))
            continue; /* nothing to compare it with: only after many steps */
        limit = share * period;
        for (uint32_t back = 0; back < rules[i].steps; back++)
            least = MIN(least, level_back(input, back)->ms);
        *always = !risen;
        if (level > limit && least > limit / 2 && !is_starved(court, rules[i].steps, level))
            return &rules[i];
    }
    return NULL;
}

static uint64_t job_since(const struct stall_input *input, double least_ms)
{
    uint64_t first = level_back(input, 0)->step;

    for (uint32_t back = 0; level_back(input, back); back++) {
        if (level_back(input, back)->ms < least_ms)
            break;
        first = level_back(input, back)->step;
    }
    return first;
}

static uint32_t job_waiting(const struct court *court, double least_ms)
{
    const struct past_step *past = history_back(&court->history, 0);
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < court->model.world; rank++)
        count +=
            past->split[rank].present && (double)part_input(&past->split[rank]) / 1e6 > least_ms;
    return count;
}

/* `rank` MODEL_NONE: of all. */
static unsigned input_layer(const struct court *court, struct verdict *draft, uint32_t rank,
                            double faults)
{
    struct stall_files seen;

    if (stall_waits_for_storage(court, rank, &seen)) {
        verdict_because(draft, "beat",
                        "seen waiting for storage in the kernel in %.0f %% of looks at its input",
                        (double)(100 * seen.waits / seen.looks));
        return LAYER_STORAGE;
    }
    if (faults < court->limits.stall_major_faults)
        return LAYER_DATA;
    verdict_because(draft, "schedstat", "%.0f major page faults a step: it reads from storage",
                    faults);
    return LAYER_STORAGE;
}

static void job_say_why(const struct court *court, struct verdict *draft, const struct rule *rule,
                        bool always, double cost_ms)
{
    const struct stall_input *input = &court->stall->input;
    double period, level = level_median(input, rule->steps, &period);
    char before[48] = "since the first steps";

    if (!always)
        snprintf(before, sizeof(before), "%.1f ms before", MAX(0, input->base_ms));
    verdict_because(draft, "ring",
                    "%s for the next batch %.1f ms a step on the median rank, %s: "
                    "%.0f %% of steps of %.1f ms, over %u steps",
                    court->history.host_view ? "hosts wait" : "devices idle", level, before,
                    100 * level / MAX(period, 1e-3), period, rule->steps);
    verdict_because(draft, "ring", "%u of %u ranks wait so, none alone",
                    job_waiting(court, level / 2), court->model.world);
    if (cost_ms >= 0)
        verdict_because(draft, "replay",
                        "each step of %.1f ms would be %.1f ms shorter with batches there in time",
                        period, cost_ms);
    verdict_rule_out(draft, LAYER_CPU, "without a cpu %.1f ms a step",
                     stall_typical_ms(court, rule->steps, stall_starved_ns));
    verdict_rule_out(draft, LAYER_GPU, "device compute %.1f ms, on no rank more than on its peers",
                     stall_typical_ms(court, rule->steps, part_compute));
    verdict_rule_out(draft, LAYER_FABRIC, "transfer %.1f ms",
                     stall_typical_ms(court, rule->steps, part_transfer));
}

static const char *job_cause(unsigned layer)
{
    return layer == LAYER_STORAGE ? "batches come late, from a slow storage"
                                  : "batches come later than the devices need them";
}

/* What a rank waits for is seen once a second, its waiting after a few steps: the layer may come later. */
static void layer_settle(const struct court *court, struct entry *entry, uint32_t rank)
{
    struct verdict *verdict = &entry->verdict;

    if (verdict->layer != LAYER_DATA)
        return;
    verdict->layer = (uint8_t)input_layer(court, verdict, rank, 0);
    if (verdict->layer != LAYER_STORAGE)
        return;
    if (verdict->kind == VERDICT_INPUT_STALL)
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", job_cause(verdict->layer));
    entry->changed = true;
}

static void job_accuse(struct court *court, const struct rule *rule, bool always, double cost_ms)
{
    const struct stall_input *input = &court->stall->input;
    struct verdict draft = { .kind = VERDICT_INPUT_STALL, .confidence = always ? 0.85 : 0.92 };
    double period, level = level_median(input, rule->steps, &period);
    bool fresh;

    snprintf(draft.group, sizeof(draft.group), "input");
    draft.layer = (uint8_t)input_layer(court, &draft, MODEL_NONE,
                                       stall_typical_ms(court, rule->steps, part_faults));
    snprintf(draft.cause, sizeof(draft.cause), "%s", job_cause(draft.layer));
    if (cost_ms < 0)
        draft.confidence = 0.6; /* the replay does not fit: nothing but the waiting is known */
    if (court->history.host_view)
        draft.confidence = MIN(draft.confidence, 0.7);
    draft.since_step = job_since(input, level / 2);
    draft.since_real_ns = court_step_real_ns(court, draft.since_step);
    draft.seconds_per_step = (cost_ms >= 0 ? cost_ms : level) / 1e3;
    job_say_why(court, &draft, rule, always, cost_ms);
    court_find(court, &draft, &fresh);
}

static struct entry *job_entry(struct court *court)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];

        if (entry->open && entry->verdict.kind == VERDICT_INPUT_STALL &&
            strcmp(entry->verdict.group, "input") == 0)
            return entry;
    }
    return NULL;
}

static void job_step(struct court *court)
{
    const struct stall_input *input = &court->stall->input;
    const struct thresholds *limits = &court->limits;
    struct entry *open = job_entry(court);
    const struct rule *rule;
    double period, level, cost;
    bool always;

    if (open) {
        level = level_median(input, 5, &period);
        if (level < limits->input_cost_share * limits->input_stay_share * period)
            return;
        layer_settle(court, open, MODEL_NONE);
        cost = job_cost_ms(court);
        open->seen_step = history_back(&court->history, 0)->step;
        open->step_seconds = (cost >= 0 ? cost : level_back(input, 0)->ms) / 1e3;
        return;
    }
    if (level_back(input, 0)->ms <
        limits->input_cost_share * limits->input_stay_share * level_back(input, 0)->period_ms)
        return;
    rule = job_rule(court, &always);
    if (!rule)
        return;
    cost = job_cost_ms(court);
    if (cost < 0 || cost > limits->input_cost_share / 2 * level_back(input, 0)->period_ms)
        job_accuse(court, rule, always, cost);
}

/* ---- one rank's input ---- */

/* How much longer than its peers' median it waited, in the last steps: the median, and the least. */
static double rank_excess_ms(const struct court *court, uint32_t rank, uint32_t steps)
{
    uint32_t peers;
    double theirs =
        history_peers_ms(&court->history, &court->model, rank, steps, part_input, &peers);
    double least = 1e300;

    if (peers == 0)
        return 0; /* nobody to compare it with: the job's input */
    for (uint32_t back = 0; back < steps && history_back(&court->history, back); back++) {
        const struct rank_split *split = &history_back(&court->history, back)->split[rank];

        least = MIN(least, split->present ? (double)part_input(split) / 1e6 - theirs : 0);
    }
    return MIN(history_part_ms(&court->history, rank, steps, part_input) - theirs, 2 * least);
}

static bool rank_is_starved(const struct court *court, uint32_t rank, uint32_t steps, double excess)
{
    uint32_t peers;
    double own = history_part_ms(&court->history, rank, steps, stall_starved_ns);

    return own - history_peers_ms(&court->history, &court->model, rank, steps, stall_starved_ns,
                                  &peers) >
           court->limits.input_cpu_share * excess;
}

static const struct rule *rank_rule(const struct court *court, uint32_t rank)
{
    for (size_t i = 0; i < COUNT(rules); i++) {
        double limit = court->limits.input_cost_share * rules[i].shares *
                       history_period_ms(&court->history, rules[i].steps);
        double excess;

        if (court->history.count < rules[i].steps + (uint32_t)court->limits.verdict_warm_up)
            return NULL;
        excess = rank_excess_ms(court, rank, rules[i].steps);
        if (excess > limit && !rank_is_starved(court, rank, rules[i].steps, excess))
            return &rules[i];
    }
    return NULL;
}

static void rank_say_why(struct court *court, struct verdict *draft, uint32_t rank, uint32_t steps,
                         double cost_ms)
{
    const struct history *history = &court->history;
    const struct model *model = &court->model;
    uint32_t peers;
    double theirs = history_peers_ms(history, model, rank, steps, part_input, &peers);

    verdict_because(draft, "ring",
                    "rank %u: %s for its next batch %.1f ms a step, median of %u peer%s %.1f ms "
                    "over %u steps (peers: %s)",
                    rank, history->host_view ? "the host waits" : "the device idles",
                    history_part_ms(history, rank, steps, part_input), peers, peers == 1 ? "" : "s",
                    theirs, steps, rung_name(model->rank[rank].rung));
    verdict_because(draft, "replay",
                    "each step of %.1f ms would be %.1f ms shorter with it as its peers",
                    history_period_ms(history, steps), cost_ms);
    theirs = history_peers_ms(history, model, rank, steps, part_compute, &peers);
    verdict_rule_out(draft, LAYER_GPU, "device compute %.1f ms, peers %.1f ms",
                     history_part_ms(history, rank, steps, part_compute), theirs);
    theirs = history_peers_ms(history, model, rank, steps, stall_starved_ns, &peers);
    verdict_rule_out(draft, LAYER_CPU, "without a cpu %.1f ms a step, peers %.1f ms",
                     history_part_ms(history, rank, steps, stall_starved_ns), theirs);
    theirs = history_peers_ms(history, model, rank, steps, part_transfer, &peers);
    verdict_rule_out(draft, LAYER_FABRIC, "transfer %.1f ms, peers %.1f ms",
                     history_part_ms(history, rank, steps, part_transfer), theirs);
}

struct suspects { /* ranks that came under suspicion in this step, named together */
    uint32_t rank[SUSPECTS_MAX], count;
    const struct rule *rule;
    uint8_t *flag;
};

/* What they cost.  Behind somebody who is slow for another reason they cost nothing alone, nor does that one behind
 * them: as straggler.c does, the mean of "they alone" and "they as the last that are left slow" counts.
 */
static double ranks_cost_ms(struct court *court, const struct suspects *suspects)
{
    CLEAN(free_clean) uint8_t *others = calloc(court->model.world, 1);
    double own = court_cost_ms(court, suspects->flag), without, all;
    bool any = false;

    for (uint32_t rank = 0; others && rank < court->model.world; rank++) {
        others[rank] = !suspects->flag[rank] && straggler_suspects(court, rank);
        any |= others[rank] != 0;
    }
    if (own < 0 || !any)
        return own;
    without = court_cost_ms(court, others);
    for (uint32_t rank = 0; rank < court->model.world; rank++)
        others[rank] |= suspects->flag[rank];
    all = court_cost_ms(court, others);
    return (own + MAX(0, all - without)) / 2;
}

static void ranks_accuse(struct court *court, const struct suspects *suspects)
{
    struct verdict draft = { .kind = VERDICT_STRAGGLER, .confidence = 0.93 };
    uint32_t steps = suspects->rule->steps, back = 0;
    double cost = ranks_cost_ms(court, suspects), excess;
    bool fresh;

    if (cost < court->limits.straggler_cost_share * history_period_ms(&court->history, 5))
        return; /* hidden behind others, or not known */
    for (uint32_t i = 0; i < suspects->count; i++)
        court_add_rank(court, &draft, suspects->rank[i]);
    draft.layer = (uint8_t)input_layer(
        court, &draft, suspects->rank[0],
        history_part_ms(&court->history, suspects->rank[0], steps, part_faults));
    snprintf(draft.cause, sizeof(draft.cause), "its batches come late, those of its peers do not");
    if (court->history.host_view)
        draft.confidence = MIN(draft.confidence, 0.7);
    excess = rank_excess_ms(court, suspects->rank[0], steps);
    draft.since_step = history_back(&court->history, 0)->step;
    for (; history_back(&court->history, back); back++) {
        const struct past_step *past = history_back(&court->history, back);

        if ((double)part_input(&past->split[suspects->rank[0]]) / 1e6 < excess / 2)
            break;
        draft.since_step = past->step;
    }
    draft.since_real_ns = court_step_real_ns(court, draft.since_step);
    draft.seconds_per_step = cost / 1e3;
    for (uint32_t i = 0; i < MIN(suspects->count, 3); i++)
        rank_say_why(court, &draft, suspects->rank[i], steps, cost);
    court_find(court, &draft, &fresh);
}

static bool is_ours(const struct entry *entry)
{
    return entry->open && entry->verdict.kind == VERDICT_STRAGGLER &&
           (entry->verdict.layer == LAYER_DATA || entry->verdict.layer == LAYER_STORAGE);
}

/* Open verdicts of ours that still hold. */
static void ranks_stay(struct court *court)
{
    double limit = court->limits.input_cost_share * court->limits.input_stay_share *
                   history_period_ms(&court->history, 5);

    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];
        CLEAN(free_clean) uint8_t *flag = NULL;
        double cost, most = 0;

        if (!is_ours(entry) || !(flag = calloc(court->model.world, 1)))
            continue;
        for (uint32_t at = 0; at < MIN(entry->verdict.rank_count, VERDICT_RANKS); at++) {
            uint32_t rank = entry->verdict.rank[at];

            if (rank >= court->model.world)
                continue;
            flag[rank] = 1;
            most = MAX(most, rank_excess_ms(court, rank, 5));
        }
        if (most < limit)
            continue;
        layer_settle(court, entry, entry->verdict.rank[0]);
        cost = court_cost_ms(court, flag);
        entry->seen_step = history_back(&court->history, 0)->step;
        if (cost >= 0)
            entry->step_seconds = cost / 1e3;
    }
}

/* Some verdict names it already.  One on a whole node without cpus does not count: its ranks may wait for
 * batches as well, and rank_is_starved() keeps the two apart.
 */
static bool is_named(const struct court *court, uint32_t rank)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        const struct entry *entry = court->docket.entry[i];
        const struct verdict *verdict = &entry->verdict;

        if (!entry->open || verdict->kind != VERDICT_STRAGGLER ||
            (verdict->layer == LAYER_CPU && verdict->rank_count > 1))
            continue;
        for (uint32_t at = 0; at < MIN(verdict->rank_count, VERDICT_RANKS); at++) {
            if (verdict->rank[at] == rank)
                return true;
        }
    }
    return false;
}

/* The rule that its input breaks; NULL: none. */
static const struct rule *rank_broken(const struct court *court, uint32_t rank)
{
    const struct past_step *past = history_back(&court->history, 0);
    const struct stall_input *input = &court->stall->input;
    const struct rank_split *split = &past->split[rank];
    double least = court->limits.input_cost_share * (double)past->measured_ns / 2e6;

    if (!split->present || past->measured_ns <= 0 || input->newest_ms < least ||
        input->world < court->model.world ||
        (double)(part_input(split) - input->level_ns[rank]) / 1e6 < least)
        return NULL;
    return rank_rule(court, rank);
}

bool stall_suspects(const struct court *court, uint32_t rank)
{
    return rank_broken(court, rank) != NULL;
}

static void ranks_step(struct court *court)
{
    CLEAN(free_clean) uint8_t *flag = NULL;
    struct suspects suspects = { 0 };

    ranks_stay(court);
    suspects.flag = flag = calloc(court->model.world, 1);
    for (uint32_t rank = 0; flag && rank < court->model.world; rank++) {
        const struct rule *rule = rank_broken(court, rank);

        if (!rule || suspects.count == SUSPECTS_MAX || is_named(court, rank))
            continue;
        suspects.rule = suspects.rule ? suspects.rule : rule;
        suspects.rank[suspects.count++] = rank;
        flag[rank] = 1;
    }
    if (suspects.count)
        ranks_accuse(court, &suspects);
}

void stall_input_step(struct court *court)
{
    const struct past_step *past = history_back(&court->history, 0);

    if (past->measured_ns <= 0)
        return;
    levels_put(court, past);
    job_step(court);
    ranks_step(court);
}
