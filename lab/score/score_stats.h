/* score_stats.h - what a count of trials is worth: bounds, and quantiles of what was measured.
 *
 * Bounds are exact and one-sided (Clopper–Pearson for shares, Garwood for rates): with 95 % confidence
 * the truth is not beyond them, however few the trials and also when all of them went well.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_SCORE_STATS_H
#define LOCKSTEP_LAB_SCORE_SCORE_STATS_H

#include <stdint.h>

/* Least share that still gives `good` or more of `trials` in one of twenty tries; 0 without trials. */
double stats_share_low95(uint32_t good, uint32_t trials);
/* Most events to be expected where `events` were seen. */
double stats_events_high95(uint32_t events);
/* Sorts the values.  0 without any. */
double stats_quantile(double *value, uint32_t count, double at);

#endif
