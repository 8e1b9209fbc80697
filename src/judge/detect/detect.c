/* detect.c - the sequential test, and what is usual in a series.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/detect/detect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

/* A test for one rise is within a third of the best for rises from 0.7 to 2 times that. */
static const double shifts[DETECT_SHIFTS] = { 0.2, 0.5, 1.25, 3 };

#define LEAST_STEPS 3  /* that an alarm rests on: one that is far off says nothing about the next */
#define FLOOR 6        /* noise is at least this part of the least rise: durations are rounded */
#define BLOCK 16       /* steps whose mean is one value of the noise that lasts */
#define BLOCKS 256     /* that count */
#define BLOCKS_LEAST 2 /* before they are trusted */
#define BLOCKS_KIN 32  /* before a series is known better by itself than by its kin */
#define BLUR 2         /* deviations by which the mean of the usual steps may be too low */

double detect_bar(double alarms, double series, double period_seconds)
{
    double week = 7 * 24 * 3600;

    return log(MAX(10, MAX(1, series) * DETECT_SHIFTS * week /
                           (MAX(1e-4, period_seconds) * MAX(1e-9, alarms))));
}

double detect_step_most(struct detect *detect, double deviations, double bar, double most)
{
    double found = 0;

    for (int i = 0; i < DETECT_SHIFTS; i++) {
        double more = shifts[i] * (deviations - shifts[i] / 2);

        detect->sum[i] += MIN(more, most);
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

double detect_step(struct detect *detect, double deviations, double bar)
{
    return detect_step_most(detect, deviations, bar, bar / LEAST_STEPS);
}

bool detect_hits_step(struct detect_hits *hits, bool hit, double usual, double rate, double bar)
{
    hits->sum += hit ? log(rate / usual) : log((1 - rate) / (1 - usual));
    if (hits->sum <= 0) {
        *hits = (struct detect_hits){ 0 };
        return false;
    }
    hits->sum = MIN(hits->sum, 2 * bar);
    hits->hits += hit;
    hits->steps++;
    return hits->sum >= bar;
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
    /* Few blocks show less than there is.  Twice the factor was tried: a rise soon after the first steps is found late.  What lasts
     * longer than these steps shows in detect_past_learn_block().
     */
    return sqrt(MAX(single, together) * (1 + 4.0 * block / count));
}

/* ---- a series and its own past ---- */

void detect_kin_add(struct detect_kin *kin, double noise)
{
    if (!(noise > 0))
        return;
    kin->log_sum += log(noise);
    kin->series++;
}

double detect_kin_noise(const struct detect_kin *kin)
{
    return kin->series > 0 ? exp(kin->log_sum / kin->series) : 0;
}

bool detect_past_known(const struct detect_past *past)
{
    return past->usuals >= DETECT_LEAST;
}

uint32_t detect_past_kept(const struct detect_past *past)
{
    return MIN(past->count, DETECT_DELAY);
}

double detect_past_back(const struct detect_past *past, uint32_t back)
{
    return (double)past->newest[(past->count - 1 - back) % DETECT_DELAY];
}

/* What is kept shows little of what lasts for many steps, and a series goes on for weeks: means of its blocks tell more the more
 * there are.
 */
static void detect_past_learn_block(struct detect_past *past, double value)
{
    double mean, off;

    past->block_sum += value / BLOCK;
    if (++past->block_steps < BLOCK)
        return;
    mean = past->block_sum;
    off = mean - past->block_mean;
    if (past->blocks > 0)
        past->block_square +=
            (BLOCK * off * off / 2 - past->block_square) / MIN(past->blocks, BLOCKS);
    past->blocks++;
    past->block_mean = mean;
    past->block_sum = 0;
    past->block_steps = 0;
}

static void detect_past_learn(struct detect_past *past, float value)
{
    uint32_t count;

    detect_past_learn_block(past, (double)value);

    past->usual[past->usuals++ % DETECT_PAST] = value;
    count = MIN(past->usuals, DETECT_PAST);
    if (count < DETECT_LEAST)
        return;
    past->mean = 0;
    for (uint32_t i = 0; i < count; i++)
        past->mean += (double)past->usual[i] / count;
    if (past->usuals % DETECT_PAST == 0 || past->usuals < DETECT_PAST)
        past->noise = detect_noise(past->usual, count); /* while they lie in the order of time */
    if (past->blocks > BLOCKS_LEAST)
        past->noise = MAX(past->noise, sqrt(past->block_square));
}

void detect_past_begin(struct detect_past *past, double mean, double noise)
{
    *past = (struct detect_past){ .mean = mean, .noise = noise, .usuals = DETECT_LEAST };
    for (uint32_t i = 0; i < DETECT_LEAST; i++)
        past->usual[i] = (float)(i % 2 ? mean + noise : mean - noise);
    past->hold = DETECT_DELAY;
}

double detect_past_now(const struct detect_past *past, uint32_t count)
{
    uint32_t used = MIN(count, detect_past_kept(past));
    double sum = 0;

    for (uint32_t i = 0; i < used; i++)
        sum += detect_past_back(past, i);
    return used ? sum / used : 0;
}

static int detect_order(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

double detect_past_rise(const struct detect_past *past, double least)
{
    uint32_t count = MIN(past->since, detect_past_kept(past));
    double sorted[DETECT_DELAY], median;

    if (!past->risen || count == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = detect_past_back(past, i);
    qsort(sorted, count, sizeof(*sorted), detect_order);
    median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2 - past->mean;
    return median >= DETECT_KEEP * least ? median : detect_past_now(past, count) - past->mean;
}

bool detect_past_is_high(const struct detect_past *past, double value, double least)
{
    return detect_past_known(past) &&
           value - past->mean > MAX(DETECT_KEEP * least, BLUR * past->noise);
}

uint32_t detect_since(const struct detect *detect, double bar)
{
    uint32_t since = UINT32_MAX;

    for (int i = 0; i < DETECT_SHIFTS; i++) {
        if (detect->sum[i] >= bar)
            since = MIN(since, detect->steps[i]);
    }
    return since;
}

/* A rise is found, and what came before it was as usual: no alarm can come of it any more.  Without it little would be known of
 * a series that rises soon.
 */
static void detect_past_learn_before(struct detect_past *past, uint32_t hold)
{
    uint32_t kept = detect_past_kept(past);

    for (uint32_t back = MIN(kept, DETECT_DELAY - hold); back > 0 && back >= past->since; back--)
        detect_past_learn(past, (float)detect_past_back(past, back - 1));
}

double detect_past_noise(const struct detect_past *past)
{
    return detect_past_known(past) ? past->noise : 0;
}

/* The more is known of a series, the less counts what is typical of its kin. */
static double detect_past_noise_by(const struct detect_past *past, const struct detect_rule *rule)
{
    double known = MIN(1, (double)past->blocks / BLOCKS_KIN);
    double noise = MAX(past->noise, known * past->noise + (1 - known) * rule->noise);

    return MAX(noise, rule->least / FLOOR);
}

/* A known series: is this a rise, a fall, or one more that is usual? */
static void detect_past_test(struct detect_past *past, double value, const struct detect_rule *rule)
{
    double noise = detect_past_noise_by(past, rule);
    double blur = BLUR / sqrt(MIN(past->usuals, DETECT_PAST));
    double off = (value - past->mean) / noise;
    double found = detect_step(&past->test, off - blur, rule->bar);
    uint32_t hold = past->hold;

    if (past->hold > 0)
        past->hold--;
    else if (!past->risen && found == 0) /* what grows slowly soon ceases to be learnt */
        detect_past_learn(past, past->newest[past->count % DETECT_DELAY]);
    if (past->risen) {
        past->since++;
    } else if (found > 0 && found * noise >= rule->least) {
        past->risen = true;
        past->since = detect_since(&past->test, rule->bar);
        detect_past_learn_before(past, hold);
    }
    if (detect_step(&past->fall, -off - blur, rule->bar) * noise >= rule->least) {
        past->usuals = past->blocks = 0; /* what is usual now is learnt anew */
        past->block_steps = 0;
        past->block_sum = past->block_square = 0;
        past->test = past->fall = (struct detect){ 0 };
    }
}

void detect_past_put(struct detect_past *past, double value, const struct detect_rule *rule)
{
    past->sum += value;
    if (++past->summed < rule->look_steps)
        return;
    value = past->sum / past->summed;
    past->sum = 0;
    past->summed = 0;
    if (detect_past_known(past)) {
        detect_past_test(past, value, rule);
    } else {
        detect_past_learn(past, (float)value);
        past->hold = DETECT_DELAY;
    }
    past->newest[past->count++ % DETECT_DELAY] = (float)value;
    if (past->risen &&
        detect_past_now(past, DETECT_DELAY / 2) - past->mean < DETECT_KEEP * rule->least) {
        past->risen = false;
        past->hold = DETECT_DELAY;
        past->test = (struct detect){ 0 };
    }
}
