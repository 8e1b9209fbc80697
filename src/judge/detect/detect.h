/* detect.h - has a series of durations risen?  One sequential test for every kind of slowness.
 *
 * A series is what one unit (a rank, a link, the job) takes in each step.  The test adds up by how much it exceeds its
 * reference, in deviations of its noise (CUSUM), and raises an alarm when the sum passes a bar.  The bar follows from the
 * number of false alarms that a site accepts, so that the test needs no window and no count of bad steps: a large rise is
 * found in three steps, a small one later, and none much later than the bound 2·ln(steps between false alarms) / rise²
 * that no test can beat.
 *
 * What lasts, what comes every few steps and what wanders adds up alike.  One step alone never suffices.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_DETECT_DETECT_H
#define LOCKSTEP_JUDGE_DETECT_DETECT_H

#include <stdbool.h>
#include <stdint.h>

#define DETECT_SHIFTS 4 /* rises that the test is best at, in deviations */
#define DETECT_PAST 64  /* steps that tell what is usual */
#define DETECT_DELAY 16 /* steps after which one that raised no alarm is usual */
#define DETECT_LEAST 8  /* steps before anything is known */
#define DETECT_KEEP 0.5 /* part of the least rise below which it is over */

/* The bar for `alarms` false ones in a job and week, all `series` of it together. */
double detect_bar(double alarms, double series, double period_seconds);

struct detect {                    /* all zero: begin */
    double sum[DETECT_SHIFTS];     /* the evidence; 0: none */
    double excess[DETECT_SHIFTS];  /* in deviations, summed since there is evidence */
    uint32_t steps[DETECT_SHIFTS]; /* ... and in so many steps */
};

/* The next step exceeds its reference by so many deviations.  Returns the mean excess since the rise began, in deviations,
 * if there is an alarm; else 0.
 */
double detect_step(struct detect *detect, double deviations, double bar);

/* The same where one step may add `most` to the evidence: the less, the more often such steps are seen anyway. */
double detect_step_most(struct detect *detect, double deviations, double bar, double most);
/* Steps that bear the alarm: the shortest time, since noise before it makes others longer; UINT32_MAX: there is none. */
uint32_t detect_since(const struct detect *detect, double bar);

/* The same for what is there or not in a step, such as one that is far too long: what comes every few steps, or moves. */
struct detect_hits { /* all zero: begin */
    double sum;
    uint32_t hits, steps; /* since there is evidence */
};

/* A share `usual` of steps are hits anyway; `rate`: the share that the test is best at, above the usual one and below 1.
 * Returns whether there is an alarm.
 */
bool detect_hits_step(struct detect_hits *hits, bool hit, double usual, double rate, double bar);

/* The deviation of single steps that makes means of several steps vary as they do: steps are not independent of each
 * other, and some are far longer than others.  By the block bootstrap: how much do means of neighbouring steps vary?
 */
double detect_noise(const float *value, uint32_t count);

/* What a rise of a series must be to count. */
struct detect_rule {
    double least; /* a rise by less is none, whatever the noise */
    double bar;   /* detect_bar() */
    uint32_t
        look_steps; /* so many steps are one observation: what disturbs one of them disturbs all; 0: 1 */
    double noise; /* typical of series like this one (detect_kin_noise()); 0: not known */
};

/* Noise of the series of one kind together.  The first steps of one series show little of noise that lasts: of thousands of series,
 * some look quiet in them by chance, and whatever comes next is a rise.  What is typical of all of them is known at once.
 */
struct detect_kin { /* all zero: begin */
    double log_sum;
    uint32_t series;
};
void detect_kin_add(struct detect_kin *kin, double noise); /* not above 0: nothing is known of it */
double detect_kin_noise(
    const struct detect_kin
        *kin); /* the geometric mean: a few wild ones do not count; 0: not known */

/* A series that is held against its own past, observation by observation. */
struct detect_past {
    struct detect test, fall;
    float usual[DETECT_PAST];   /* ring */
    float newest[DETECT_DELAY]; /* ring; of them it is not known yet whether they are usual */
    uint32_t usuals, count;     /* ever put */
    uint32_t hold; /* so many of the newest will never be usual: they were learnt, or were a rise */
    double mean, noise; /* of the usual ones */
    double block_sum, block_mean,
        block_square; /* of blocks of usual ones: the newest, and how they vary */
    uint32_t block_steps, blocks;
    double sum; /* of the steps of the next observation: */
    uint32_t summed;
    uint32_t since; /* observations since the rise began */
    bool risen;
};

/* The next step. */
void detect_past_put(struct detect_past *past, double value, const struct detect_rule *rule);
/* Begins with what was usual of a series like this one before. */
void detect_past_begin(struct detect_past *past, double mean, double noise);
bool detect_past_known(const struct detect_past *past);
/* One of the newest observations; `back` 0 is the newest, below detect_past_kept(). */
double detect_past_back(const struct detect_past *past, uint32_t back);
uint32_t detect_past_kept(const struct detect_past *past);
double detect_past_now(const struct detect_past *past, uint32_t count); /* mean of the last ones */
/* Of single observations; 0: not known. */
double detect_past_noise(const struct detect_past *past);
/* By how much it has risen since that began, as far as observations are kept: the median, or, where most of them are as
 * usual, the mean.
 */
double detect_past_rise(const struct detect_past *past, double least);
/* Is a value more than what is usual and its noise explain? */
bool detect_past_is_high(const struct detect_past *past, double value, double least);

#endif
