/* interval.c - how often to save: the interval that loses the least time.
 *
 * Saves too often cost time, saves too rarely lose work with each failure.  J. T. Daly, "A higher order estimate of the optimum
 * checkpoint interval for restart dumps" (2006): with d the time of a save and M the mean time between failures, the work
 * between two saves is best sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 18M) - d, and M if d is 2M or more.  A save that is written
 * behind the training costs little, so the optimum may be shorter than the disk needs to write it: then the disk decides.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "lockstep/ckpt.h"

/* Newton's way: the library needs libc only, and the square root is in libm. */
static double interval_root(double value)
{
    double root = value > 1 ? value : 1;

    if (value <= 0)
        return 0;
    for (int i = 0; i < 600; i++) {
        double next = (root + value / root) / 2;

        if (next >= root)
            return root;
        root = next;
    }
    return root;
}

static double interval_daly(double save_s, double failure_s)
{
    double ratio = save_s / (2 * failure_s);

    if (ratio >= 1)
        return failure_s + save_s;
    return interval_root(2 * save_s * failure_s) * (1 + interval_root(ratio) / 3 + ratio / 9);
}

static bool interval_valid(double seconds)
{
    return seconds >= 0 && seconds <= 1e12; /* false for NaN */
}

static double interval_share(double part)
{
    return part < 1 ? part : 1;
}

static const char *interval_text(double seconds, char *out, size_t room)
{
    if (seconds >= 36000)
        snprintf(out, room, "%.1f h", seconds / 3600);
    else if (seconds >= 600)
        snprintf(out, room, "%.0f min", seconds / 60);
    else
        snprintf(out, room, "%.*f s", seconds < 10 ? 2 : 0, seconds);
    return out;
}

static void interval_explain(const struct lockstep_ckpt_costs *costs, double daly_s,
                             struct lockstep_ckpt_interval *ret)
{
    char daly[32], save[32], write[32], failure[32], interval[32];

    interval_text(daly_s, daly, sizeof(daly));
    interval_text(costs->save_s, save, sizeof(save));
    interval_text(costs->write_s, write, sizeof(write));
    interval_text(costs->failure_s, failure, sizeof(failure));
    interval_text(ret->interval_s, interval, sizeof(interval));
    if (costs->write_s > daly_s)
        snprintf(ret->why, sizeof(ret->why),
                 "a save every %s: the disk needs %s to write one, although %s would be the best "
                 "for saves "
                 "of %s and a failure every %s",
                 interval, write, daly, save, failure);
    else
        snprintf(ret->why, sizeof(ret->why),
                 "a save every %s: the least loss for saves of %s and a failure every %s", interval,
                 save, failure);
}

int lockstep_ckpt_interval(const struct lockstep_ckpt_costs *costs,
                           struct lockstep_ckpt_interval *ret)
{
    struct lockstep_ckpt_costs given = { .size = 0 };
    struct lockstep_ckpt_interval made = { .size = sizeof(made) };
    double daly_s;

    if (!costs || costs->size < sizeof(size_t) || !ret || ret->size < sizeof(size_t))
        return -EINVAL;
    memcpy(&given, costs, MIN(costs->size, sizeof(given)));
    if (!interval_valid(given.save_s) || !interval_valid(given.write_s) ||
        !interval_valid(given.failure_s) || !interval_valid(given.restart_s) ||
        !interval_valid(given.step_s) || given.failure_s <= 0)
        return -EINVAL;
    daly_s = interval_daly(given.save_s, given.failure_s);
    made.interval_s = MAX(daly_s, given.write_s);
    if (given.step_s > 0) {
        double steps = made.interval_s / given.step_s;

        made.steps = steps >= 1 ? (uint64_t)MIN(steps + 0.5, 1e18) : 1;
        if (given.write_s > (double)made.steps * given.step_s) /* never rounded below it */
            made.steps++;
        made.interval_s = (double)made.steps * given.step_s;
    }
    if (made.interval_s > 0)
        made.save_share = interval_share(given.save_s / made.interval_s);
    made.rework_share = interval_share((made.interval_s / 2 + given.write_s) / given.failure_s);
    made.restart_share = interval_share(given.restart_s / given.failure_s);
    interval_explain(&given, daly_s, &made);
    made.size = MIN(ret->size, sizeof(made));
    memcpy(ret, &made, made.size);
    return 0;
}
