/* imbalance.c - no node is at fault: the work is split unevenly.
 *
 * Two ways: sequences of different lengths (what tokens and squared lengths explain moves with the
 * data, not with the rank), and a pipeline stage that is heavier than the others on all its
 * ranks.  The cost is what an even split would give back.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/court.h"
#include "judge/median.h"

/* A stage is heavier by design, so a few steps show it; a slight difference needs more of them, to
 * be sure that it is not noise.  How much it costs depends on where the stage is: in a pipeline of
 * one-forward-one-backward the first stage has slack while the others fill up, and one that is
 * 1.25 times as heavy may cost less than 2 % of the step, the last one three times that.
 */
#define DATA_STEPS 6
#define STAGE_STEPS 4
#define STAGE_SLIGHT_STEPS 12

/* ---- lengths ---- */

/* How long the others wait for the rank with the most work, by lengths alone. */
static double data_cost_ms(const struct court *court)
{
    const struct history *history = &court->history;
    double value[DATA_STEPS];

    for (uint32_t back = 0; back < DATA_STEPS; back++) {
        const struct past_step *past = history_back(history, back);
        double most = 0;

        for (uint32_t rank = 0; rank < court->model.world; rank++)
            most = MAX(most, (double)past->length_ms[rank]);
        value[back] = most; /* length_ms is over the mean already */
    }
    return median_f64(value, DATA_STEPS);
}

static void data_accuse(struct court *court, double cost_ms)
{
    const struct history *history = &court->history;
    const struct past_step *past = history_back(history, 0);
    struct verdict draft = { .kind = VERDICT_IMBALANCE, .layer = LAYER_DATA, .confidence = 0.9 };
    double least = 1e300, most = 0;
    bool fresh;

    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (!past->split[rank].present)
            continue;
        least = MIN(least, past->split[rank].tokens);
        most = MAX(most, past->split[rank].tokens);
    }
    snprintf(draft.cause, sizeof(draft.cause), "sequences of uneven length");
    draft.since_step = history_back(history, DATA_STEPS - 1)->step;
    draft.since_real_ns = court_step_real_ns(court, draft.since_step);
    draft.seconds_per_step = cost_ms / 1e3;
    verdict_because(&draft, "ring",
                    "tokens and squared lengths explain %.0f %% of the spread in device compute",
                    100 * history->explained);
    verdict_because(&draft, "ring", "tokens a rank in step %llu: %.0f to %.0f",
                    (unsigned long long)past->step, least, most);
    verdict_because(&draft, "replay", "an even split would save %.1f ms of %.1f ms a step", cost_ms,
                    history_period_ms(history, DATA_STEPS));
    verdict_rule_out(&draft, LAYER_GPU, "the slow rank changes with the data");
    court_find(court, &draft, &fresh);
}

static void data_step(struct court *court)
{
    const struct history *history = &court->history;
    struct entry *open = court_open_entry(court, VERDICT_IMBALANCE, LAYER_DATA, MODEL_NONE);
    const struct thresholds *limits = &court->limits;
    double scale = open ? limits->imbalance_stay_share : 1, cost;

    if (history->count < DATA_STEPS + 2 ||
        history->explained < limits->imbalance_data_explained * scale)
        return;
    cost = data_cost_ms(court);
    if (cost < limits->imbalance_data_share * scale * history_period_ms(history, DATA_STEPS))
        return;
    if (open) {
        open->seen_step = history_back(history, 0)->step;
        open->step_seconds = cost / 1e3;
    } else {
        data_accuse(court, cost);
    }
}

/* ---- stages ---- */

static int64_t compute_part(const struct rank_split *split)
{
    return split->compute_ns;
}

struct stages {
    uint32_t count, steps; /* looked at the last so many */
    double *work_ms; /* by stage: lower median over its ranks, so that one slow rank of two is not a
                      * heavy stage */
    double mean_ms;
    uint32_t heaviest;
};

/* Over the last steps.  False: some stage was not seen. */
static bool stages_weigh(const struct court *court, struct stages *stages, uint32_t steps)
{
    const struct model *model = &court->model;
    CLEAN(free_clean) double *value = malloc(model->world * sizeof(*value));

    stages->steps = steps;
    stages->mean_ms = 0;
    stages->heaviest = 0;
    for (uint32_t stage = 0; stage < stages->count; stage++) {
        uint32_t used = 0;

        for (uint32_t rank = 0; value && rank < model->world; rank++) {
            if (model->rank[rank].has_layout && model->rank[rank].at[LAYOUT_PP] == stage)
                value[used++] = history_part_ms(&court->history, rank, steps, compute_part);
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

static bool stages_differ(const struct court *court, struct stages *stages, uint32_t steps,
                          double heavier)
{
    return court->history.count > steps && stages_weigh(court, stages, steps) &&
           stages->work_ms[stages->heaviest] >= heavier * stages->mean_ms;
}

/* A rank that became slow is not the design of its stage; where it is alone there, only the straggler's
 * verdict tells them apart.
 */
static bool stage_has_straggler(struct court *court, uint32_t stage)
{
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (court->model.rank[rank].at[LAYOUT_PP] == stage &&
            court_open_entry(court, VERDICT_STRAGGLER, LAYER_COUNT, rank))
            return true;
    }
    return false;
}

static void stage_accuse(struct court *court, const struct stages *stages, double cost_ms)
{
    const struct model *model = &court->model;
    struct verdict draft = { .kind = VERDICT_IMBALANCE,
                             .layer = LAYER_USER_CODE,
                             .confidence = 0.9 };
    bool fresh;

    for (uint32_t rank = 0; rank < model->world; rank++) {
        if (model->rank[rank].at[LAYOUT_PP] == stages->heaviest)
            court_add_rank(court, &draft, rank);
    }
    snprintf(draft.group, sizeof(draft.group), "pipeline stage %u", stages->heaviest);
    snprintf(draft.cause, sizeof(draft.cause), "stage %u of %u has more work than the others",
             stages->heaviest, stages->count);
    draft.since_step = history_back(&court->history, stages->steps - 1)->step;
    draft.since_real_ns = court_step_real_ns(court, draft.since_step);
    draft.seconds_per_step = cost_ms / 1e3;
    verdict_because(
        &draft, "ring", "device compute of stage %u %.1f ms, mean stage %.1f ms over %u steps",
        stages->heaviest, stages->work_ms[stages->heaviest], stages->mean_ms, stages->steps);
    verdict_because(&draft, "replay",
                    "an even split of the stages would save %.1f ms of %.1f ms a step", cost_ms,
                    history_period_ms(&court->history, stages->steps));
    verdict_rule_out(&draft, LAYER_GPU, "all replicas of the stage take as long");
    court_find(court, &draft, &fresh);
}

/* What the step would take with every stage's device work brought to the mean. */
static double stage_cost_ms(struct court *court, const struct stages *stages)
{
    CLEAN(free_clean) double *scale = malloc(court->model.world * sizeof(*scale));

    if (!scale || !court->program_ready)
        return -1;
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        uint32_t stage = court->model.rank[rank].at[LAYOUT_PP];

        scale[rank] =
            stage < stages->count ? stages->mean_ms / MAX(1e-3, stages->work_ms[stage]) : 1;
    }
    return (double)(program_replayed_ns(court->program) -
                    program_scaled_ns(court->program, scale)) /
           1e6;
}

static void stage_step(struct court *court)
{
    const struct history *history = &court->history;
    struct entry *open = court_open_entry(court, VERDICT_IMBALANCE, LAYER_USER_CODE, MODEL_NONE);
    CLEAN(free_clean) double *work = NULL;
    const struct thresholds *limits = &court->limits;
    struct stages stages = { 0 };
    double cost;

    if (court->model.world == 0 || !court->model.rank[0].has_layout)
        return;
    stages.count = court->model.rank[0].size[LAYOUT_PP];
    if (stages.count < 2)
        return;
    stages.work_ms = work = calloc(stages.count, sizeof(*work));
    if (!work)
        return;
    if (open) {
        if (!stages_differ(court, &stages, STAGE_STEPS,
                           1 + (limits->imbalance_stage_slightly - 1) *
                                   limits->imbalance_stay_share))
            return;
        open->seen_step = history_back(history, 0)->step;
        cost = stage_cost_ms(court, &stages);
        if (cost >= 0)
            open->step_seconds = cost / 1e3;
        return;
    }
    if (!stages_differ(court, &stages, STAGE_STEPS, limits->imbalance_stage_heavier) &&
        !stages_differ(court, &stages, STAGE_SLIGHT_STEPS, limits->imbalance_stage_slightly))
        return;
    if (stage_has_straggler(court, stages.heaviest))
        return;
    cost = stage_cost_ms(court, &stages);
    if (cost > limits->imbalance_stage_share * history_period_ms(history, stages.steps))
        stage_accuse(court, &stages, cost);
}

static void imbalance_step(struct court *court)
{
    data_step(court);
    stage_step(court);
}

const struct judge judge_imbalance = { .name = "imbalance", .step = imbalance_step };
