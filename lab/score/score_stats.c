/* score_stats.c - exact bounds by halving an interval: a few microseconds, no tables.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/score_stats.h"

#include <math.h>
#include <stdlib.h>

#include "judge/median.h"

#define DOUBT 0.05
#define HALVINGS 60

/* Chance of `good` or more of `trials` when each is good with chance `share`; 0 < share < 1. */
static double stats_binomial_tail(uint32_t good, uint32_t trials, double share)
{
    double sum = 0;

    for (uint32_t i = good; i <= trials; i++)
        sum += exp(lgamma(trials + 1.0) - lgamma(i + 1.0) - lgamma(trials - i + 1.0) +
                   i * log(share) + (trials - i) * log1p(-share));
    return sum;
}

double stats_share_low95(uint32_t good, uint32_t trials)
{
    double low = 0, high = 1;

    if (good == 0 || good > trials)
        return 0;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;

        if (stats_binomial_tail(good, trials, middle) < DOUBT)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Chance of at most `events` where `expected` are. */
static double stats_poisson_head(uint32_t events, double expected)
{
    double sum = 0;

    for (uint32_t i = 0; i <= events; i++)
        sum += exp(i * log(expected) - expected - lgamma(i + 1.0));
    return sum;
}

double stats_events_high95(uint32_t events)
{
    double low = events > 0 ? events : 1e-9, high = 2.0 * events + 10;

    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;

        if (stats_poisson_head(events, middle) > DOUBT)
            low = middle;
        else
            high = middle;
    }
    return high;
}

double stats_quantile(double *value, uint32_t count, double at)
{
    if (count == 0)
        return 0;
    qsort(value, count, sizeof(*value), order_f64);
    return value[(uint32_t)(at * (count - 1) + 0.5)];
}
