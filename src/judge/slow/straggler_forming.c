/* straggler_forming.c - a rank whose work grows step by step, reported before it costs much.
 *
 * It is a verdict of its own, of low confidence, and not a note beside others: its id is that of the
 * straggler it becomes, so that the fault is one verdict from the first sign on, and what acts on
 * verdicts leaves it alone while it is not sure.  Three times ten steps must grow alike: one jump is
 * no trend.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/price.h"
#include "judge/slow/signals.h"
#include "judge/state.h"

#define THIRD 10
#define WINDOW (3 * THIRD)
#define COSTS 0.03   /* of a step: what is foretold */
#define FORMING 3    /* a straggler that forms has this part of the least excess of one */
#define ALIKE 2      /* times that one of both rises may be the other: a jump is no trend */
#define HORIZON 1000 /* steps: what is further ahead nobody can tell */

struct trend {
    double third_ms[3];
    double ms_per_step;
    double steps; /* until it costs COSTS */
};

static double straggler_value_ms(const struct judge_state *judge, enum series series, uint32_t rank,
                                 uint32_t back)
{
    const struct past_step *past = history_back(&judge->history, back);

    return (double)(series == SERIES_COMPUTE ? past->compute_ms : past->excess_ms)[rank];
}

static double straggler_third_ms(const struct judge_state *judge, enum series series, uint32_t rank,
                                 uint32_t which)
{
    double value[THIRD];

    for (uint32_t i = 0; i < THIRD; i++)
        value[i] = straggler_value_ms(judge, series, rank, which * THIRD + i);
    return median_f64(value, THIRD);
}

/* By how many of its own deviations the series grows, as the line that fits it best does: where nothing grows, so many are as
 * rare as an alarm of the sequential test with a bar of half their square.  Noise that lasts for some steps looks like growth: it is
 * that of means of what remains beside the line.
 */
static double straggler_slope_deviations(const struct judge_state *judge, enum series series,
                                         uint32_t rank, double least_noise)
{
    double middle = (WINDOW - 1) / 2.0, mean = 0, slope = 0, across = 0;
    float off[WINDOW];

    for (uint32_t i = 0; i < WINDOW; i++)
        mean += straggler_value_ms(judge, series, rank, i) / WINDOW;
    for (uint32_t i = 0; i < WINDOW; i++) {
        across += (i - middle) * (i - middle);
        slope += (middle - i) * (straggler_value_ms(judge, series, rank, i) - mean);
    }
    slope /= across;
    for (uint32_t i = 0; i < WINDOW; i++)
        off[i] = (float)(straggler_value_ms(judge, series, rank, i) - mean - slope * (middle - i));
    return slope * sqrt(across) / MAX(least_noise, detect_noise(off, WINDOW));
}

/* The noise of so few steps is not known well: as Student's distribution has it, that makes what is rare less rare. */
static double forming_bar(double bar)
{
    return sqrt((WINDOW - 2) * expm1(2 * bar / (WINDOW - 2)));
}

static bool trend_find(const struct judge_state *judge, enum series series, uint32_t rank,
                       struct trend *ret)
{
    const struct history *history = &judge->history;
    double newest =
        MAX(straggler_value_ms(judge, series, rank, 0), straggler_value_ms(judge, series, rank, 1));
    double least, one, two;
    struct trend trend;

    /* Almost all ranks end here: the newest steps of one that has grown are seldom low. */
    if (newest < judge->limits.verdict_least_time / FORMING)
        return false;
    least = signals_least_ms(judge, rank, THIRD) / FORMING;
    if (newest < least)
        return false;
    for (uint32_t i = 0; i < 3; i++)
        trend.third_ms[2 - i] = straggler_third_ms(judge, series, rank, i);
    one = trend.third_ms[1] - trend.third_ms[0];
    two = trend.third_ms[2] - trend.third_ms[1];
    trend.ms_per_step = (one + two) / (2 * THIRD);
    if (one <= 0 || two <= 0 || one > ALIKE * two || two > ALIKE * one || trend.third_ms[2] < least)
        return false;
    trend.steps =
        (COSTS * history_period_ms(history, THIRD) - trend.third_ms[2]) / trend.ms_per_step -
        THIRD / 2.0;
    *ret = trend;
    return trend.steps > 0 && trend.steps < HORIZON &&
           straggler_slope_deviations(judge, series, rank, least / 6) >
               forming_bar(judge_state_rule(judge, 2 * judge->model.world, 0).bar);
}

static void forming_accuse(struct judge_state *judge, uint32_t rank, enum series series,
                           const struct trend *trend)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct verdict draft = signal_draft(judge, SIGNAL_TREND, &(struct confidence){ .rank = rank });
    struct tracked_verdict *tracked;
    bool fresh;

    if (series == SERIES_COMPUTE)
        draft.layer = LAYER_GPU;
    judge_state_add_rank(judge, &draft, rank);
    snprintf(draft.cause, sizeof(draft.cause), "forming: its work grows by %.3f ms per step",
             trend->ms_per_step);
    draft.since_step = history_back(&judge->history, WINDOW - 1)->step;
    verdict_because(
        &draft, "ring",
        "%s exceeds that of its peers by %.2f, %.2f and %.2f ms in three windows of %d steps",
        signal_table[series].what, trend->third_ms[0], trend->third_ms[1], trend->third_ms[2],
        THIRD);
    verdict_because(&draft, "forecast", "at this rate it costs %.0f %% of a step by step %llu",
                    100 * COSTS, (unsigned long long)(past->step + (uint64_t)trend->steps));
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked)
        tracked->recurs = true;
}

static void forming_judge(struct judge_state *judge, uint32_t rank)
{
    struct tracked_verdict *open =
        judge_state_open_verdict(judge, VERDICT_STRAGGLER, LAYER_COUNT, rank);
    const struct history *history = &judge->history;
    struct trend trend;

    if (open) {
        double now = MAX(history_excess_ms(history, SERIES_LOCAL, rank, THIRD),
                         history_excess_ms(history, SERIES_COMPUTE, rank, THIRD));

        if (open->recurs && now > DETECT_KEEP * signals_least_ms(judge, rank, THIRD) / FORMING) {
            open->seen_step = history_back(history, 0)->step;
            open->step_seconds = MAX(0, price_rank_ms(judge, rank)) / 1e3;
        }
        return;
    }
    if (trend_find(judge, SERIES_COMPUTE, rank, &trend))
        forming_accuse(judge, rank, SERIES_COMPUTE, &trend);
    else if (trend_find(judge, SERIES_LOCAL, rank, &trend))
        forming_accuse(judge, rank, SERIES_LOCAL, &trend);
}

static void forming_step(struct judge_state *judge)
{
    const struct past_step *past = history_back(&judge->history, 0);

    if (judge->history.count < WINDOW + judge->limits.verdict_warm_up)
        return;
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        if (judge->verdicts.tracked[i]->open &&
            judge->verdicts.tracked[i]->verdict.layer == LAYER_CPU)
            return; /* who gets less and less cpu is slower and slower */
    }
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (past->split[rank].present)
            forming_judge(judge, rank);
    }
}

const struct judge judge_straggler_forming = { .name = "straggler forming",
                                               .step = forming_step,
                                               .remedy = price_remedy_ranks };
