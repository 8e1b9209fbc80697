/* stamp_clock.c - how far the device's clock is ahead of the host's, and how fast that changes.
 *
 * Of each second the smallest difference counts: it is the launch that the least delayed.  A line below all of them is the
 * offset; its slope is that of the first and the last, once they are far enough apart for a launch more or less not to matter.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "core/time.h"
#include "probe/stamp.h"

#define WINDOW_NS ((uint64_t)NS_PER_S)
#define SLOPE_NS (2 * NS_PER_S) /* apart */
#define DRIFT_MAX 1e-3          /* no two clocks of a machine differ by more */

void stamp_clock_put(struct stamp_clock *clock, uint64_t host_ns, uint64_t device_ns)
{
    struct stamp_window *at = &clock->window[clock->newest];
    int64_t offset_ns = (int64_t)(device_ns - host_ns);

    if (at->host_ns && host_ns - clock->begun_ns >= WINDOW_NS) {
        clock->newest = (clock->newest + 1) % STAMP_WINDOWS;
        at = &clock->window[clock->newest];
        at->host_ns = 0;
    }
    if (!at->host_ns)
        clock->begun_ns = host_ns;
    if (!at->host_ns || offset_ns < at->offset_ns)
        *at = (struct stamp_window){ host_ns, offset_ns };
}

static double stamp_clock_drift(const struct stamp_window *first, const struct stamp_window *last)
{
    double apart = (double)(last->host_ns - first->host_ns), drift;

    if (apart < (double)SLOPE_NS)
        return 0;
    drift = (double)(last->offset_ns - first->offset_ns) / apart;
    return drift < -DRIFT_MAX || drift > DRIFT_MAX ? 0 : drift;
}

bool stamp_clock_get(const struct stamp_clock *clock, struct ring_clock *ret)
{
    const struct stamp_window *last = &clock->window[clock->newest], *first = last;
    double drift, lowest;

    if (!last->host_ns)
        return false;
    for (uint32_t back = 1; back < STAMP_WINDOWS; back++) {
        const struct stamp_window *at =
            &clock->window[(clock->newest + STAMP_WINDOWS - back) % STAMP_WINDOWS];

        if (at->host_ns && at->host_ns < first->host_ns)
            first = at;
    }
    drift = stamp_clock_drift(first, last);
    lowest = 0;
    for (uint32_t i = 0; i < STAMP_WINDOWS; i++) {
        const struct stamp_window *at = &clock->window[i];
        double above; /* the line through the newest */

        if (!at->host_ns || (drift == 0 && at != last && at != first))
            continue;
        above = (double)(at->offset_ns - last->offset_ns) +
                drift * (double)(int64_t)(last->host_ns - at->host_ns);
        lowest = MIN(lowest, above);
    }
    *ret = (struct ring_clock){ .offset_ns = last->offset_ns + (int64_t)lowest,
                                .drift = (int64_t)(drift * 4294967296.0),
                                .at_ns = (int64_t)last->host_ns };
    return true;
}
