/* detect_sim.c - delays against the bound, and false alarms against what was asked for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/noise/detect_sim.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/clean.h"
#include "core/rand.h"
#include "judge/detect/detect.h"

#define WEEK_S (7 * 86400.0)
#define RUNS_MAX 4096
#define LEAST_STEPS 3  /* an alarm rests on so many, as one odd step is nothing */
#define SOUND_STEPS 64 /* before the rise */
#define ALARMS 0.1     /* in a job and week: what a site accepts by default */
#define LEAST 1e-3     /* any rise counts */
#define ASKED 20       /* alarms, for the count: enough to see that there are more */

static const uint32_t unit_counts[] = { 8, 256, 16384 };
static const double noises[] = { 0.02, 0.05, 0.1 };

static int sim_order(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* ---- delays ---- */

static uint32_t sim_steps_to_alarm(struct rand *rand, double rise, double bar)
{
    struct detect detect = { 0 };
    uint32_t step = 1;

    for (int i = 0; i < SOUND_STEPS; i++)
        detect_step(&detect, rand_normal(rand), bar);
    while (detect_step(&detect, rise + rand_normal(rand), bar) == 0)
        step++;
    return step;
}

static void sim_delay(const struct detect_sim_settings *settings, struct rand *rand,
                      struct detect_sim_delay *ret)
{
    double bar = detect_bar(ALARMS, ret->units, settings->step_s), steps[RUNS_MAX];
    double rise = ret->rise / ret->noise;
    uint32_t runs = MAX(1, MIN(settings->runs, RUNS_MAX));

    for (uint32_t run = 0; run < runs; run++) {
        steps[run] = sim_steps_to_alarm(rand, rise, bar);
        ret->mean += steps[run] / runs;
    }
    qsort(steps, runs, sizeof(*steps), sim_order);
    ret->p90 = steps[(runs - 1) * 9 / 10];
    ret->bound = MAX(LEAST_STEPS, 2 * bar / (rise * rise));
}

/* ---- false alarms ---- */

/* Steps that are independent of each other, or that are alike for some steps and now and then far longer, as those of hosts are. */
static double sim_noise(struct rand *rand, bool rough, double *lasts)
{
    if (!rough)
        return rand_normal(rand);
    *lasts = 0.8 * *lasts + 0.6 * rand_normal(rand);
    return 0.7 * *lasts + 0.7 * rand_normal(rand) +
           (rand_below(rand, 200) == 0 ? pow(1 - rand_unit(rand), -1 / 2.5) : 0);
}

struct sim_unit {
    struct detect_past past;
    double lasts;
};

/* Each unit is a series that is held against its own past, as nodes and links are. */
static int sim_alarms(const struct detect_sim_settings *settings, struct rand *rand, bool rough,
                      struct detect_sim_alarms *ret)
{
    uint64_t steps = MAX(DETECT_PAST * 2, settings->steps / ret->units);
    struct detect_rule rule = { .least = LEAST, .look_steps = 1 };
    CLEAN(free_clean) struct sim_unit *unit = calloc(ret->units, sizeof(*unit));

    if (!unit)
        return -ENOMEM;
    ret->weeks = (double)steps * settings->step_s / WEEK_S;
    ret->asked = ASKED;
    rule.bar = detect_bar(ret->asked / ret->weeks, ret->units, settings->step_s);
    for (uint64_t step = 0; step < steps; step++) {
        struct detect_kin kin = { 0 };

        for (uint32_t i = 0; i < ret->units; i++) {
            bool before = unit[i].past.risen;

            detect_past_put(&unit[i].past, 100 + 5 * sim_noise(rand, rough, &unit[i].lasts), &rule);
            ret->raised += unit[i].past.risen && !before;
            detect_kin_add(&kin, detect_past_noise(&unit[i].past));
        }
        rule.noise = detect_kin_noise(&kin);
    }
    return 0;
}

int detect_sim_run(const struct detect_sim_settings *settings, struct detect_sim *ret)
{
    struct rand rand = { settings->seed };

    *ret = (struct detect_sim){ .good = true };
    for (size_t many = 0; many < COUNT(unit_counts); many++) {
        for (size_t noise = 0; noise <= COUNT(noises); noise++) {
            struct detect_sim_delay *row = &ret->delay[ret->delays++];

            /* A tenth slower; and what costs 3 %, in the usual noise. */
            *row = (struct detect_sim_delay){ .rise = noise < COUNT(noises) ? 0.1 : 0.03,
                                              .noise = noise < COUNT(noises) ? noises[noise] : 0.05,
                                              .units = unit_counts[many] };
            sim_delay(settings, &rand, row);
            ret->good = ret->good && row->mean <= DETECT_SIM_LATE * row->bound;
        }
        for (int rough = 0; rough < 2; rough++) {
            struct detect_sim_alarms *row = &ret->alarms[ret->alarm_rows++];

            *row =
                (struct detect_sim_alarms){ .noise = rough ? "correlated, heavy tails" : "normal",
                                            .units = unit_counts[many] };
            if (sim_alarms(settings, &rand, rough, row) < 0)
                return -ENOMEM;
            ret->good = ret->good && row->raised <= row->asked;
        }
    }
    return 0;
}
