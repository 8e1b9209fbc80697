/* trend.c - points of a number, and what they foretell.
 *
 * A straight line is fitted to a number that falls.  Counted events are compared between the halves of the time: errors of
 * memory and links that grow from few to many do so over minutes to hours, and a single burst in the past is no trend.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/trend.h"

#include <string.h>

#include "core/time.h"

#define STEP_NS (30 * NS_PER_S)
#define LEAST_POINTS 6

bool trend_add(struct sense_trend *trend, int64_t now_ns, int64_t value)
{
    if (trend->count && now_ns - trend->point[trend->count - 1].at_ns < STEP_NS)
        return false;
    if (trend->count == TREND_POINTS) {
        memmove(trend->point, trend->point + 1, sizeof(trend->point) - sizeof(*trend->point));
        trend->count--;
    }
    trend->point[trend->count++] = (struct trend_point){ now_ns, value };
    return true;
}

bool trend_grow(struct sense_trend *trend, int64_t now_ns, int64_t events)
{
    trend->total += events;
    return trend_add(trend, now_ns, trend->total);
}

bool trend_falls_to(const struct sense_trend *trend, int64_t limit, int64_t *in_ns)
{
    const struct trend_point *first = trend->point, *last;
    double n = trend->count, x = 0, y = 0, xx = 0, xy = 0, slope;

    if (trend->count < LEAST_POINTS)
        return false;
    last = &trend->point[trend->count - 1];
    for (unsigned i = 0; i < trend->count; i++) {
        double at = (double)(trend->point[i].at_ns - first->at_ns) / 1e9;
        double value = (double)trend->point[i].value;

        x += at;
        y += value;
        xx += at * at;
        xy += at * value;
    }
    slope = (n * xy - x * y) / (n * xx - x * x);
    if (!(slope < 0))
        return false;
    *in_ns = last->value <= limit ? 0 : (int64_t)((double)(last->value - limit) / -slope * 1e9);
    return true;
}

bool trend_rises(const struct sense_trend *trend, int64_t least, struct trend_rise *ret)
{
    const struct trend_point *middle, *last;

    if (trend->count < 2 * LEAST_POINTS)
        return false;
    middle = &trend->point[trend->count / 2];
    last = &trend->point[trend->count - 1];
    *ret = (struct trend_rise){ middle->value - trend->point[0].value, last->value - middle->value,
                                last->at_ns - middle->at_ns };
    return ret->before > 0 && ret->after >= least && ret->after >= 2 * ret->before;
}
