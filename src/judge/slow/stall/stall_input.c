/* stall_input.c - are the batches there in time?
 *
 * A rank waits for input while its device idles and its host is in a data phase.  Where its peers wait
 * just as long it is the job's input: an input-stall, priced by the replay with that much less
 * waiting.  Where they do not it is that rank's: a straggler, layer data (stall_input_rank.c).  Both sides are medians of
 * peers, so that one slow loader is not taken for the job's input, and a slow storage names no rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/price.h"
#include "judge/slow/stall/stall_private.h"

#define RISEN_LOOKS 3
#define ALWAYS_LOOKS 12
#define ALWAYS_TIMES                                                                               \
    2 /* the least that counts, where no earlier step shows that the wait can be shorter */

const struct stall_rule stall_input_rules[STALL_INPUT_RULES] = {
    { 3, 3 },
    { 6, 1.7 },
    { 12, 1 },
};

uint32_t stall_steps(const struct judge_state *judge, const struct stall_rule *rule)
{
    return history_looks(&judge->history, rule->looks);
}

int64_t stall_faults(const struct rank_split *split)
{
    return split->major_faults * 1000000; /* parts are told in millions */
}

void stall_input_fini(struct stall_input *input)
{
    free(input->level_ns);
    *input = (struct stall_input){ 0 };
}

/* ---- how long peers wait ---- */

struct input_member {
    uint32_t group, rank;
    int64_t ns;
};

static int member_compare(const void *a, const void *b)
{
    const struct input_member *left = a, *right = b;

    if (left->group != right->group)
        return left->group < right->group ? -1 : 1;
    if (left->ns != right->ns)
        return left->ns < right->ns ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* What a rank waited for its batch, and would have waited: while it waits for a rank whose batch is later still, its own
 * loader goes on.  That counts only where its own batches are late, and never for more than the latest batch of all.
 */
static int64_t stall_late_ns(const struct judge_state *judge, const struct past_step *past,
                             uint32_t rank)
{
    const struct stall_input *input = &judge->stall->input;
    const struct thresholds *limits = &judge->limits;
    int64_t own = split_input_ns(&past->split[rank]);
    double usual = input->past.mean * 1e6;
    double late = MAX(limits->verdict_times * usual,
                      usual + limits->verdict_least_cost * (double)past->measured_ns);

    if (!detect_past_known(&input->past) || (double)own <= late)
        return own;
    return MAX(own, MIN(own + past->split[rank].wait_ns, (int64_t)(input->newest_ms * 1e6)));
}

/* Sets what each rank's median peer waited in the newest step; returns the most of them.  The lower
 * median: of two, one that waits is not the job.
 */
static double stall_levels_fill(struct judge_state *judge, const struct past_step *past)
{
    struct stall_input *input = &judge->stall->input;
    CLEAN(free_clean)
    struct input_member *member = malloc(judge->model.world * sizeof(*member));
    uint32_t count = 0;
    int64_t most = 0;

    if (!member || !ARRAY_FIT(input->level_ns, input->world, judge->model.world))
        return 0;
    memset(input->level_ns, 0, judge->model.world * sizeof(*input->level_ns));
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (past->split[rank].present)
            member[count++] = (struct input_member){ judge->model.rank[rank].peers, rank,
                                                     stall_late_ns(judge, past, rank) };
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

static double stall_newest_most_ms(const struct judge_state *judge, const struct past_step *past)
{
    int64_t most = 0;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (past->split[rank].present)
            most = MAX(most, split_input_ns(&past->split[rank]));
    }
    return (double)most / 1e6;
}

/* `back` 0 is the newest; NULL when there are not so many. */
static const struct stall_level *stall_level_back(const struct stall_input *input, uint32_t back)
{
    if (back >= input->count || back >= STALL_STEPS)
        return NULL;
    return &input->level[(input->count - 1 - back) % STALL_STEPS];
}

static double stall_level_median(const struct stall_input *input, uint32_t steps, double *period_ms)
{
    double value[STALL_STEPS], period[STALL_STEPS];
    uint32_t count = 0;

    for (; count < steps && stall_level_back(input, count); count++) {
        value[count] = stall_level_back(input, count)->ms;
        period[count] = stall_level_back(input, count)->period_ms;
    }
    *period_ms = median_f64(period, count);
    return median_f64(value, count);
}

static void stall_levels_put(struct judge_state *judge, const struct past_step *past)
{
    struct stall_input *input = &judge->stall->input;
    const struct thresholds *limits = &judge->limits;
    double period = (double)past->measured_ns / 1e6;
    struct detect_rule rule = signal_rule(judge, SIGNAL_INPUT, 1);
    struct stall_level fresh = { .step = past->step, .period_ms = period };

    input->newest_ms = stall_newest_most_ms(judge, past);
    fresh.ms = input->newest_ms;
    if (fresh.ms > limits->verdict_least_cost * DETECT_KEEP * period)
        fresh.ms = stall_levels_fill(judge, past);
    else if (ARRAY_FIT(input->level_ns, input->world, judge->model.world))
        memset(input->level_ns, 0, judge->model.world * sizeof(*input->level_ns));
    input->level[input->count++ % STALL_STEPS] = fresh;
    if (input->count > (uint32_t)limits->verdict_warm_up)
        detect_past_put(&input->past, fresh.ms, &rule);
}

/* ---- the job's input ---- */

/* What the newest step lost to it: with the peers' median wait taken from everybody. */
static double stall_job_cost_ms(struct judge_state *judge)
{
    const struct stall_input *input = &judge->stall->input;
    int64_t shorter;

    if (!judge->program_ready || !judge->job_step)
        return -1;
    shorter =
        program_shorter_ns(judge->program, judge->job_step, LOCKSTEP_PHASE_DATA, input->level_ns);
    return MAX(0, (double)(program_replayed_ns(judge->program) - shorter) / 1e6);
}

/* Hosts without a cpu are late with everything, also with batches.  Where the wait was there from the first steps on, so may
 * have been what is typical of the node.
 */
static bool input_is_starved(const struct judge_state *judge, uint32_t steps, double level_ms,
                             bool always)
{
    double starved = 0, period = history_period_ms(&judge->history, steps);

    for (uint32_t node = 0; node < judge->model.nodes; node++) {
        struct node_typical now = history_node(&judge->history, node, steps, steps / 2);
        double typical = node < judge->history.nodes && !always
                             ? MAX(0, judge->history.typical[node].pressure)
                             : 0;

        starved = MAX(starved, (now.pressure - typical) * period);
    }
    return starved > judge->limits.verdict_explains * level_ms;
}

/* Over so many steps the job waits too long; 0: it does not.  Where it always did no earlier step shows that it can be
 * shorter: that takes more steps and a larger share.
 */
static uint32_t stall_job_steps(const struct judge_state *judge, bool *always)
{
    const struct stall_input *input = &judge->stall->input;
    double least = signal_least(judge, SIGNAL_INPUT), period, level;
    uint32_t steps;

    *always = !input->past.risen;
    steps = history_looks(&judge->history, *always ? ALWAYS_LOOKS : RISEN_LOOKS);
    if (input->count < steps + (uint32_t)judge->limits.verdict_warm_up)
        return 0;
    if (*always)
        least *= ALWAYS_TIMES;
    level = stall_level_median(input, steps, &period);
    if (level - (*always ? 0 : input->past.mean) < least * period)
        return 0;
    for (uint32_t back = 0; back < steps; back++) {
        if (stall_level_back(input, back)->ms < least * period / 2)
            return 0;
    }
    return input_is_starved(judge, steps, level, *always) ? 0 : steps;
}

static uint64_t stall_job_since(const struct stall_input *input, double least_ms)
{
    uint64_t first = stall_level_back(input, 0)->step;

    for (uint32_t back = 0; stall_level_back(input, back); back++) {
        if (stall_level_back(input, back)->ms < least_ms)
            break;
        first = stall_level_back(input, back)->step;
    }
    return first;
}

static uint32_t stall_job_waiting(const struct judge_state *judge, double least_ms)
{
    const struct past_step *past = history_back(&judge->history, 0);
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < judge->model.world; rank++)
        count += past->split[rank].present &&
                 (double)split_input_ns(&past->split[rank]) / 1e6 > least_ms;
    return count;
}

unsigned stall_input_layer(const struct judge_state *judge, struct verdict *draft, uint32_t rank,
                           double faults)
{
    struct stall_files seen;

    if (stall_waits_for_storage(judge, rank, &seen)) {
        verdict_because(draft, "beat",
                        "waits for storage in the kernel in %.0f %% of samples of its input",
                        (double)(100 * seen.waits / seen.looks));
        return LAYER_STORAGE;
    }
    if (faults < judge->limits.stall_major_faults)
        return LAYER_DATA;
    verdict_because(draft, "schedstat", "%.0f major page faults per step: it reads from storage",
                    faults);
    return LAYER_STORAGE;
}

static void stall_job_describe(const struct judge_state *judge, struct verdict *draft,
                               uint32_t steps, bool always, double cost_ms)
{
    const struct stall_input *input = &judge->stall->input;
    double period, level = stall_level_median(input, steps, &period);
    char before[48] = "since the first steps";

    if (!always)
        snprintf(before, sizeof(before), "%.1f ms before", input->past.mean);
    verdict_because(draft, "ring",
                    "%s for the next batch %.1f ms per step on the median rank, %s: %.0f %% of "
                    "each %.1f ms step, over %u steps",
                    judge->history.host_view ? "hosts wait" : "devices wait", level, before,
                    100 * level / MAX(period, 1e-3), period, steps);
    verdict_because(draft, "ring", "%u of %u ranks wait; none stands out",
                    stall_job_waiting(judge, level / 2), judge->model.world);
    if (cost_ms >= 0)
        price_because(draft, period, "batches were ready in time");
    verdict_rule_out(draft, LAYER_CPU, "the median rank waits %.1f ms per step for a CPU",
                     stall_typical_ms(judge, steps, split_starved_ns));
    verdict_rule_out(draft, LAYER_GPU,
                     "device compute %.1f ms; no rank takes longer than its peers",
                     stall_typical_ms(judge, steps, split_compute_ns));
    verdict_rule_out(draft, LAYER_FABRIC, "transfer %.1f ms",
                     stall_typical_ms(judge, steps, split_transfer_ns));
}

static const char *stall_job_cause(unsigned layer)
{
    return layer == LAYER_STORAGE ? "batches arrive late because storage is slow"
                                  : signal_table[SIGNAL_INPUT].cause;
}

/* What a rank waits for is seen once a second, its waiting after a few steps: the layer may come later. */
void stall_layer_settle(const struct judge_state *judge, struct tracked_verdict *tracked,
                        uint32_t rank)
{
    struct verdict *verdict = &tracked->verdict;

    if (verdict->layer != LAYER_DATA)
        return;
    verdict->layer = (uint8_t)stall_input_layer(judge, verdict, rank, 0);
    if (verdict->layer != LAYER_STORAGE)
        return;
    if (verdict->kind == VERDICT_INPUT_STALL)
        snprintf(verdict->cause, sizeof(verdict->cause), "%s", stall_job_cause(verdict->layer));
    tracked->changed = true;
}

static void stall_job_accuse(struct judge_state *judge, uint32_t steps, bool always, double cost_ms)
{
    const struct stall_input *input = &judge->stall->input;
    struct verdict draft = signal_draft(judge, always ? SIGNAL_INPUT_ALWAYS : SIGNAL_INPUT,
                                        &(struct confidence){ .unpriced = cost_ms < 0 });
    double period, level = stall_level_median(input, steps, &period);
    bool fresh;

    snprintf(draft.group, sizeof(draft.group), "input");
    draft.layer = (uint8_t)stall_input_layer(judge, &draft, MODEL_NONE,
                                             stall_typical_ms(judge, steps, stall_faults));
    snprintf(draft.cause, sizeof(draft.cause), "%s", stall_job_cause(draft.layer));
    draft.since_step = stall_job_since(input, level / 2);
    draft.seconds_per_step = (cost_ms >= 0 ? cost_ms : level) / 1e3;
    stall_job_describe(judge, &draft, steps, always, cost_ms);
    judge_state_find(judge, &draft, &fresh);
}

static struct tracked_verdict *stall_job_tracked(struct judge_state *judge)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && tracked->verdict.kind == VERDICT_INPUT_STALL &&
            strcmp(tracked->verdict.group, "input") == 0)
            return tracked;
    }
    return NULL;
}

static void stall_job_step(struct judge_state *judge)
{
    const struct stall_input *input = &judge->stall->input;
    const struct thresholds *limits = &judge->limits;
    struct tracked_verdict *open = stall_job_tracked(judge);
    uint32_t steps;
    double period, level, cost;
    bool always;

    if (open) {
        level = stall_level_median(input, 5, &period);
        if (level < limits->verdict_least_cost * DETECT_KEEP * period)
            return;
        stall_layer_settle(judge, open, MODEL_NONE);
        cost = stall_job_cost_ms(judge);
        open->seen_step = history_back(&judge->history, 0)->step;
        open->step_seconds = (cost >= 0 ? cost : stall_level_back(input, 0)->ms) / 1e3;
        return;
    }
    if (stall_level_back(input, 0)->ms <
        limits->verdict_least_cost * DETECT_KEEP * stall_level_back(input, 0)->period_ms)
        return;
    steps = stall_job_steps(judge, &always);
    if (steps == 0)
        return;
    cost = stall_job_cost_ms(judge);
    if (cost < 0 || cost > limits->verdict_least_cost / 2 * stall_level_back(input, 0)->period_ms)
        stall_job_accuse(judge, steps, always, cost);
}

void stall_input_step(struct judge_state *judge)
{
    const struct past_step *past = history_back(&judge->history, 0);

    if (past->measured_ns <= 0)
        return;
    stall_levels_put(judge, past);
    stall_job_step(judge);
    stall_ranks_step(judge);
}
