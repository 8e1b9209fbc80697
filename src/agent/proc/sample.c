/* sample.c - totals at a step's borders from samples that were taken at other times.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/sample.h"

#include <errno.h>

#include "core/clean.h"

void samples_put(struct samples *samples, const struct sample *sample)
{
    const struct sample *last = &samples->ring[(samples->count + SAMPLES - 1) % SAMPLES];
    struct sample put = *sample;

    if (samples->count) {
        if (put.time_ns <= last->time_ns)
            return;
        put.cpu_ns = MAX(put.cpu_ns, last->cpu_ns);
        put.run_delay_ns = MAX(put.run_delay_ns, last->run_delay_ns);
        put.throttled_ns = MAX(put.throttled_ns, last->throttled_ns);
        put.major_faults = MAX(put.major_faults, last->major_faults);
    }
    samples->ring[samples->count++ % SAMPLES] = put;
}

static int64_t sample_between(int64_t from, int64_t to, double share)
{
    return from + (int64_t)((double)(to - from) * share + 0.5);
}

int samples_at(const struct samples *samples, int64_t time_ns, struct sample *ret)
{
    uint64_t oldest = samples->count > SAMPLES ? samples->count - SAMPLES : 0;
    const struct sample *before, *after = NULL;
    double share;

    for (uint64_t i = samples->count; i > oldest; i--) {
        before = &samples->ring[(i - 1) % SAMPLES];
        if (before->time_ns <= time_ns) {
            if (!after) {
                *ret = *before;
                return before->time_ns == time_ns;
            }
            share =
                (double)(time_ns - before->time_ns) / (double)(after->time_ns - before->time_ns);
            ret->time_ns = time_ns;
            ret->cpu_ns = sample_between(before->cpu_ns, after->cpu_ns, share);
            ret->run_delay_ns = sample_between(before->run_delay_ns, after->run_delay_ns, share);
            ret->throttled_ns = sample_between(before->throttled_ns, after->throttled_ns, share);
            ret->major_faults = sample_between(before->major_faults, after->major_faults, share);
            return 1;
        }
        after = before;
    }
    return samples->count ? -ENODATA : 0;
}
