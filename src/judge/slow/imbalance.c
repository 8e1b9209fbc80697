/* imbalance.c - no node is at fault: the work is split unevenly.
 *
 * Two ways: sequences of different lengths (what tokens and squared lengths explain moves with the
 * data, not with the rank), and a pipeline stage that is heavier than the others on all its
 * ranks.  The cost is what an even split would give back.  That may be little where a stage has slack
 * that the others have not, so whether a stage is worth a word is decided by what its weight does to
 * the step: were it no heavier than the others.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/price.h"
#include "judge/slow/signals.h"

/* ---- lengths ---- */

/* The larger the share of the step that uneven work costs, the fewer steps show it: a third of them where it is three times the
 * least.  One step more or less matters little, so there are three rules.
 */
#define RULES 3
static const double rule_shares[RULES] = { 3, 1.7, 1 };

static uint32_t imbalance_rule_steps(const struct judge_state *judge, int rule)
{
    return (uint32_t)ceil(judge->limits.imbalance_steps / rule_shares[rule]);
}

/* How much shorter steps would be with even lengths. */
static double imbalance_data_cost_ms(const struct judge_state *judge, uint32_t steps)
{
    double value[HISTORY_STEPS];

    for (uint32_t back = 0; back < steps; back++)
        value[back] = history_back(&judge->history, back)->uneven_ms;
    return median_f64(value, steps);
}

/* Over so many steps it is worth a word; 0: it is not. */
static uint32_t imbalance_data_shown(const struct judge_state *judge, double scale, double *cost_ms)
{
    const struct history *history = &judge->history;

    for (int rule = 0; rule < RULES; rule++) {
        uint32_t steps = imbalance_rule_steps(judge, rule);

        if (history->count < steps + (uint32_t)judge->limits.verdict_warm_up)
            return 0;
        *cost_ms = imbalance_data_cost_ms(judge, steps);
        if (*cost_ms >= rule_shares[rule] * signal_least(judge, SIGNAL_LENGTHS) * scale *
                            history_period_ms(history, steps))
            return steps;
    }
    return 0;
}

/* ---- a rank that has more work in every step: an expert that is asked for more, a shard that is longer ---- */

#define MORE 1.1 /* than the median of the ranks */
#define LONG                                                                                       \
    12 /* in so many steps: of lengths that change from step to step no rank has more in all of them */

/* The median of tokens, or of squared lengths: rows that an exchange brings are among these. */
static double imbalance_middle(const struct past_step *past, uint32_t world, bool squares,
                               double *scratch)
{
    uint32_t used = 0;

    for (uint32_t rank = 0; rank < world; rank++) {
        if (past->split[rank].present)
            scratch[used++] = squares ? past->split[rank].squares : past->split[rank].tokens;
    }
    return used ? median_f64(scratch, used) : 0;
}

static void imbalance_more_step(const struct past_step *past, uint32_t world, double *least,
                                double *scratch)
{
    double tokens = imbalance_middle(past, world, false, scratch);
    double squares = imbalance_middle(past, world, true, scratch);

    for (uint32_t rank = 0; rank < world; rank++) {
        const struct rank_split *split = &past->split[rank];
        double share = split->present && tokens > 0 ? split->tokens / tokens : 0;

        if (split->present && squares > 0)
            share = MAX(share, split->squares / squares);
        least[rank] = MIN(least[rank], share);
    }
}

/* None where most ranks have more. */
static bool imbalance_name_ranks(struct judge_state *judge, struct verdict *draft)
{
    uint32_t world = judge->model.world, named = 0;
    CLEAN(free_clean) double *least = malloc(2 * world * sizeof(*least));

    if (!least || judge->history.count < LONG)
        return false;
    for (uint32_t rank = 0; rank < world; rank++)
        least[rank] = 1e300;
    for (uint32_t back = 0; back < LONG; back++)
        imbalance_more_step(history_back(&judge->history, back), world, least, least + world);
    for (uint32_t rank = 0; rank < world; rank++)
        named += least[rank] >= MORE;
    if (named == 0 || 2 * named > world)
        return false;
    for (uint32_t rank = 0; rank < world; rank++) {
        if (least[rank] >= MORE)
            judge_state_add_rank(judge, draft, rank);
    }
    return true;
}

static struct verdict imbalance_data_draft(struct judge_state *judge, uint32_t steps,
                                           double cost_ms)
{
    const struct history *history = &judge->history;
    const struct past_step *past = history_back(history, 0);
    struct verdict draft = signal_draft(judge, SIGNAL_LENGTHS, NULL);
    double least = 1e300, most = 0;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (!past->split[rank].present)
            continue;
        least = MIN(least, past->split[rank].tokens);
        most = MAX(most, past->split[rank].tokens);
    }
    draft.since_step = history_back(history, steps - 1)->step;
    draft.seconds_per_step = cost_ms / 1e3;
    verdict_because(
        &draft, "ring",
        "tokens and squared sequence lengths explain %.0f %% of the spread in device compute",
        100 * history->explained);
    verdict_because(&draft, "ring", "tokens per rank in step %llu: %.0f to %.0f",
                    (unsigned long long)past->step, least, most);
    price_because(&draft, history_period_ms(history, steps), "sequences were split evenly");
    if (imbalance_name_ranks(judge, &draft))
        verdict_rule_out(&draft, LAYER_GPU, "the work of the named ranks follows their tokens");
    else
        verdict_rule_out(&draft, LAYER_GPU, "the slow rank changes with the data");
    return draft;
}

/* Who has more is known later than that some have. */
static void imbalance_data_go_on(struct judge_state *judge, struct tracked_verdict *open,
                                 uint32_t steps, double cost_ms)
{
    struct verdict draft;

    open->seen_step = history_back(&judge->history, 0)->step;
    open->step_seconds = cost_ms / 1e3;
    if (open->verdict.rank_count || open->steps % LONG != 0)
        return;
    draft = imbalance_data_draft(judge, steps, cost_ms);
    if (draft.rank_count)
        judge_state_renew(open, &draft);
}

static void imbalance_data_step(struct judge_state *judge)
{
    const struct history *history = &judge->history;
    struct tracked_verdict *open =
        judge_state_open_verdict(judge, VERDICT_IMBALANCE, LAYER_DATA, MODEL_NONE);
    double scale = open ? DETECT_KEEP : 1, cost;
    struct verdict draft;
    uint32_t steps;
    bool fresh;

    if (history->explained < judge->limits.verdict_explains * scale)
        return;
    steps = imbalance_data_shown(judge, scale, &cost);
    if (steps == 0)
        return;
    if (open) {
        imbalance_data_go_on(judge, open, steps, cost);
        return;
    }
    draft = imbalance_data_draft(judge, steps, cost);
    judge_state_find(judge, &draft, &fresh);
}

/* ---- stages ---- */

struct stages {
    uint32_t count, steps; /* looked at the last so many */
    double *work_ms; /* by stage: lower median over its ranks, so that one slow rank of two is not a
                      * heavy stage */
    double mean_ms;
    uint32_t heaviest;
};

/* Over the last steps.  False: some stage was not seen. */
static bool stages_weigh(const struct judge_state *judge, struct stages *stages, uint32_t steps)
{
    const struct model *model = &judge->model;
    CLEAN(free_clean) double *value = malloc(model->world * sizeof(*value));

    stages->steps = steps;
    stages->mean_ms = 0;
    stages->heaviest = 0;
    for (uint32_t stage = 0; stage < stages->count; stage++) {
        uint32_t used = 0;

        for (uint32_t rank = 0; value && rank < model->world; rank++) {
            if (model->rank[rank].has_layout && model->rank[rank].at[LAYOUT_PP] == stage)
                value[used++] = history_part_ms(&judge->history, rank, steps, split_compute_ns);
        }
        if (!used)
            return false;
        stages->work_ms[stage] = median_f64(value, used);
        stages->mean_ms += stages->work_ms[stage] / stages->count;
        if (stages->work_ms[stage] > stages->work_ms[stages->heaviest])
            stages->heaviest = stage;
    }
    return true;
}

static bool stages_differ(const struct judge_state *judge, struct stages *stages, uint32_t steps,
                          double share)
{
    return judge->history.count > steps && stages_weigh(judge, stages, steps) &&
           stages->work_ms[stages->heaviest] >= (1 + share) * stages->mean_ms;
}

static bool stages_are_uneven(const struct judge_state *judge, struct stages *stages)
{
    for (int rule = 0; rule < RULES; rule++) {
        if (stages_differ(judge, stages, imbalance_rule_steps(judge, rule),
                          rule_shares[rule] * signal_least(judge, SIGNAL_STAGE)))
            return true;
    }
    return false;
}

/* A rank that became slow is not the design of its stage; where it is alone there, only the straggler's
 * verdict tells them apart.
 */
static bool imbalance_stage_has_straggler(struct judge_state *judge, uint32_t stage)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (judge->model.rank[rank].at[LAYOUT_PP] == stage &&
            judge_state_open_verdict(judge, VERDICT_STRAGGLER, LAYER_COUNT, rank))
            return true;
    }
    return false;
}

static void imbalance_stage_accuse(struct judge_state *judge, const struct stages *stages)
{
    const struct stage_looks *looks = &judge->stage_looks;
    const struct model *model = &judge->model;
    struct verdict draft = signal_draft(judge, SIGNAL_STAGE, NULL);
    bool fresh;

    for (uint32_t rank = 0; rank < model->world; rank++) {
        if (model->rank[rank].at[LAYOUT_PP] == stages->heaviest)
            judge_state_add_rank(judge, &draft, rank);
    }
    snprintf(draft.group, sizeof(draft.group), "pipeline stage %u", stages->heaviest);
    snprintf(draft.cause, sizeof(draft.cause), "stage %u of %u has more work than the others",
             stages->heaviest, stages->count);
    draft.since_step = history_back(&judge->history, stages->steps - 1)->step;
    draft.seconds_per_step = MAX(0, looks->even_ms) / 1e3;
    verdict_because(&draft, "ring",
                    "device compute of stage %u: %.1f ms, mean of all stages %.1f ms over %u steps",
                    stages->heaviest, stages->work_ms[stages->heaviest], stages->mean_ms,
                    stages->steps);
    price_because(&draft, history_period_ms(&judge->history, stages->steps),
                  "the work of the stages were split evenly");
    verdict_rule_out(&draft, LAYER_GPU, "all replicas of the stage take equally long");
    judge_state_find(judge, &draft, &fresh);
}

/* By how much the step would have been shorter with each stage's device work brought to `wanted`; jitter may
 * make it longer, so less than nothing is an answer, too.
 */
static double imbalance_stage_gain_ms(struct judge_state *judge, const struct stages *stages,
                                      const double *wanted, double *scale)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        uint32_t stage = judge->model.rank[rank].at[LAYOUT_PP];

        scale[rank] = stage < stages->count ? wanted[stage] / MAX(1e-3, stages->work_ms[stage]) : 1;
    }
    return (double)(program_replayed_ns(judge->program) -
                    program_scaled_ns(judge->program, scale)) /
           1e6;
}

static void imbalance_looks_add(struct judge_state *judge, const struct stages *stages,
                                double *scale, double *wanted)
{
    struct stage_looks *looks = &judge->stage_looks;
    double share = 1.0 / MIN(looks->count + 1, DETECT_PAST);
    double heavy = stages->work_ms[stages->heaviest];
    double others = (stages->mean_ms * stages->count - heavy) / (stages->count - 1);

    looks->count++;
    memcpy(wanted, stages->work_ms, stages->count * sizeof(*wanted));
    wanted[stages->heaviest] = others;
    looks->as_others_ms +=
        share * (imbalance_stage_gain_ms(judge, stages, wanted, scale) - looks->as_others_ms);
    for (uint32_t stage = 0; stage < stages->count; stage++)
        wanted[stage] = stages->mean_ms;
    looks->even_ms +=
        share * (imbalance_stage_gain_ms(judge, stages, wanted, scale) - looks->even_ms);
}

/* Looks at the newest step while some stage is heavier than the others; else begins anew. */
static void imbalance_stage_look(struct judge_state *judge, struct stages *stages, double share)
{
    CLEAN(free_clean) double *scale = malloc((judge->model.world + stages->count) * sizeof(*scale));
    struct stage_looks *looks = &judge->stage_looks;

    if (!stages_differ(judge, stages, imbalance_rule_steps(judge, 0), share)) {
        looks->count = 0;
        return;
    }
    if (looks->count == 0 || looks->stage != stages->heaviest)
        *looks = (struct stage_looks){ .stage = stages->heaviest };
    if (scale && judge->program_ready)
        imbalance_looks_add(judge, stages, scale, scale + judge->model.world);
}

static void imbalance_stage_step(struct judge_state *judge)
{
    const struct history *history = &judge->history;
    struct tracked_verdict *open =
        judge_state_open_verdict(judge, VERDICT_IMBALANCE, LAYER_USER_CODE, MODEL_NONE);
    CLEAN(free_clean) double *work = NULL;
    const struct stage_looks *looks = &judge->stage_looks;
    struct stages stages = { 0 };

    if (judge->model.world == 0 || !judge->model.rank[0].has_layout)
        return;
    stages.count = judge->model.rank[0].size[LAYOUT_PP];
    if (stages.count < 2)
        return;
    stages.work_ms = work = calloc(stages.count, sizeof(*work));
    if (!work)
        return;
    imbalance_stage_look(judge, &stages,
                         signal_least(judge, SIGNAL_STAGE) * (open ? DETECT_KEEP : 1));
    if (looks->count == 0)
        return;
    if (open) {
        open->seen_step = history_back(history, 0)->step;
        open->step_seconds = MAX(0, looks->even_ms) / 1e3;
        return;
    }
    if (!stages_are_uneven(judge, &stages))
        return;
    if (stages.heaviest != looks->stage || imbalance_stage_has_straggler(judge, stages.heaviest))
        return;
    if (looks->as_others_ms >
        signal_least(judge, SIGNAL_STAGE) * history_period_ms(history, stages.steps))
        imbalance_stage_accuse(judge, &stages);
}

static void imbalance_step(struct judge_state *judge)
{
    imbalance_data_step(judge);
    imbalance_stage_step(judge);
}

const struct judge judge_imbalance = { .name = "imbalance", .step = imbalance_step };
