/* detect.c - the sequential test, and what is usual in a series.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/detect/detect.h"

#include <math.h>
#include <string.h>

#include "core/clean.h"

/* A test for one rise is within a third of the best for rises from 0.7 to 2 times that. */
static const double shifts[DETECT_SHIFTS] = { 0.2, 0.5, 1.25, 3 };

#define LEAST_STEPS 3 /* that an alarm rests on: one that is far off says nothing about the next */
#define FLOOR 6       /* noise is at least this part of the least rise: durations are rounded */
#define BLUR 2        /* deviations by which the mean of the usual steps may be too low */
#define KEEP 0.5      /* part of the least rise below which it is over */

double detect_bar(double alarms, double series, double period_seconds)
{
    double week = 7 * 24 * 3600;

    return log(MAX(10, MAX(1, series) * DETECT_SHIFTS * week /
                           (MAX(1e-4, period_seconds) * MAX(1e-9, alarms))));
}

double detect_step(struct detect *detect, double deviations, double bar)
{
    double found = 0;

    for (int i = 0; i < DETECT_SHIFTS; i++) {
        double more = shifts[i] * (deviations - shifts[i] / 2);

        detect->sum[i] += MIN(more, bar / LEAST_STEPS);
        if (detect->sum[i] <= 0) {
            detect->sum[i] = detect->excess[i] = 0;
            detect->steps[i] = 0;
            continue;
        }
        detect->sum[i] = MIN(detect->sum[i], 2 * bar);
        detect->excess[i] += deviations;
        detect->steps[i]++;
        if (detect->sum[i] >= bar && detect->steps[i] >= LEAST_STEPS)
            found = MAX(found, detect->excess[i] / detect->steps[i]);
    }
    return found;
}

double detect_noise(const float *value, uint32_t count)
{
    uint32_t block = 1, blocks;
    double mean = 0, single = 0, together = 0, sum = 0;

    if (count < 4)
        return 0;
    while (block * block * block <
           15 * count) /* blocks grow with the third root of what there is */
        block++;
    block = MIN(block, count);
    blocks = count - block + 1;
    for (uint32_t i = 0; i < count; i++)
        mean += (double)value[i] / count;
    for (uint32_t i = 0; i < count; i++) {
        double off = (double)value[i] - mean;

        single += off * off / (count - 1);
        sum += off;
        if (i >= block)
            sum -= (double)value[i - block] - mean;
        if (i + 1 >= block)
            together += sum * sum / block / blocks;
    }
    /* Few blocks show less than there is. */
    return sqrt(MAX(single, together) * (1 + 4.0 * block / count));
}

bool detect_past_known(const struct detect_past *past)
{
    return past->usuals >= DETECT_LEAST;
}

static void detect_past_learn(struct detect_past *past, float value)
{
    uint32_t count;

    past->usual[past->usuals++ % DETECT_PAST] = value;
    count = MIN(past->usuals, DETECT_PAST);
    if (count < DETECT_LEAST)
        return;
    past->mean = 0;
    for (uint32_t i = 0; i < count; i++)
        past->mean += (double)past->usual[i] / count;
    if (past->usuals % DETECT_PAST == 0 || past->usuals < DETECT_PAST)
        past->noise = detect_noise(past->usual, count); /* while they lie in the order of time */
}

double detect_past_now(const struct detect_past *past, uint32_t steps)
{
    uint32_t count = MIN(MIN(steps, past->count), DETECT_DELAY);
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += (double)past->newest[(past->count - 1 - i) % DETECT_DELAY];
    return count ? sum / count : 0;
}

void detect_past_put(struct detect_past *past, double value, double least, double bar)
{
    bool known = detect_past_known(past);
    float *place = &past->newest[past->count % DETECT_DELAY];

    if (known) {
        double noise = MAX(past->noise, least / FLOOR);
        double blur = BLUR / sqrt(MIN(past->usuals, DETECT_PAST));
        double found = detect_step(&past->test, (value - past->mean) / noise - blur, bar);

        if (past->hold > 0)
            past->hold--;
        else if (!past->risen && found == 0)
            detect_past_learn(past, *place);
        if (found * noise >= least)
            past->risen = true;
    } else {
        detect_past_learn(past, (float)value);
        past->hold = DETECT_DELAY;
    }
    *place = (float)value;
    past->count++;
    if (past->risen && detect_past_now(past, DETECT_DELAY / 2) - past->mean < KEEP * least) {
        past->risen = false;
        past->hold = DETECT_DELAY;
        past->test = (struct detect){ 0 };
    }
}
