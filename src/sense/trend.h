/* trend.h - a number over the last quarter of an hour: where does it go?
 *
 * For leading indicators: what is still within its limits but will not stay there.  Findings from it have the severity
 * "info", so they explain no verdict; their text ends with the forecast.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_TREND_H
#define LOCKSTEP_SENSE_TREND_H

#include <stdbool.h>
#include <stdint.h>

#define TREND_POINTS 32 /* half a minute apart */
#define TREND_CODE 4096 /* of findings: no other condition of the same device has it */

struct sense_trend {
    unsigned count;
    struct trend_point {
        int64_t at_ns, value;
    } point[TREND_POINTS]; /* oldest first */
    int64_t total;         /* for trend_grow() */
};

/* false: the last point is too new, and nothing was added. */
bool trend_add(struct sense_trend *trend, int64_t now_ns, int64_t value);
/* Adds to a sum, whose points these are: events that are counted. */
bool trend_grow(struct sense_trend *trend, int64_t now_ns, int64_t events);

/* When the number will be `limit`, if it goes on falling as it did; false: it does not fall, or too little is known. */
bool trend_falls_to(const struct sense_trend *trend, int64_t limit, int64_t *in_ns);
/* Were there twice as many events in the second half of the time as in the first, and at least `least`? */
struct trend_rise {
    int64_t before, after; /* events in each half */
    int64_t half_ns;
};
bool trend_rises(const struct sense_trend *trend, int64_t least, struct trend_rise *ret);

#endif
