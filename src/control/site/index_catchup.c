/* index_catchup.c - requests that wait for the index, in order of arrival.
 *
 * A request waits for a limited part of each log, so a log that grows as fast as it is read, or that was never read,
 * does not delay it forever.  Reading for one request also serves the requests behind it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/index_catchup.h"

#include "control/site/site_private.h"
#include "core/clean.h"
#include "core/time.h"

#define TURN_NS (10 * NS_PER_MS)
#define RUN_FRAMES 50000         /* of one log, for one question ... */
#define ALL_NS (500 * NS_PER_MS) /* ... and time for a question about all runs */

static struct site_run *catchup_run(struct site *site, const struct catchup *catchup)
{
    if (catchup->run[0])
        return catchup->at == 0 ? site_find(site, catchup->run) : NULL;
    return catchup->at < site->runs && catchup->spent_ns < ALL_NS ? site->run[catchup->at] : NULL;
}

/* True: it can be answered.  `frames`: how many may still be read in this turn. */
static bool catchup_read(struct site *site, struct catchup *catchup, size_t *frames,
                         int64_t until_ns)
{
    struct site_run *run;

    while ((run = catchup_run(site, catchup))) {
        int64_t begin_ns = time_mono_ns();
        size_t count;

        if (catchup->frames >= RUN_FRAMES || !run_index_is_behind(run, begin_ns)) {
            catchup->at++;
            catchup->frames = 0;
            continue;
        }
        if (*frames == 0 || begin_ns >= until_ns)
            return false;
        count = run_index(run, *frames);
        *frames -= count;
        catchup->frames += count;
        catchup->spent_ns += time_mono_ns() - begin_ns;
    }
    return true;
}

static void catchup_on_turn(void *arg, int64_t now_ns)
{
    struct site *site = arg;
    int64_t until_ns = time_mono_ns() + TURN_NS;
    size_t frames = CATCHUP_TURN_FRAMES;

    (void)now_ns;
    site_index_mend(site);
    while (site->asking && time_mono_ns() < until_ns &&
           catchup_read(site, site->asking, &frames, until_ns)) {
        struct catchup *first = site->asking;

        site->asking = first->next;
        first->done(first->arg);
    }
    if (site->asking)
        loop_timer_set(site->loop, &site->catchup, time_mono_ns());
}

bool catchup_ask(struct site *site, struct catchup *catchup)
{
    struct catchup **last = &site->asking;
    size_t none = 0;

    catchup->next = NULL;
    catchup->at = catchup->frames = 0;
    catchup->spent_ns = 0;
    if (catchup_read(site, catchup, &none, 0))
        return true;
    while (*last)
        last = &(*last)->next;
    *last = catchup;
    site->catchup.fn = catchup_on_turn;
    site->catchup.arg = site;
    loop_timer_set(site->loop, &site->catchup, time_mono_ns());
    return false;
}

void catchup_drop(struct site *site, struct catchup *catchup)
{
    struct catchup **at = &site->asking;

    while (*at && *at != catchup)
        at = &(*at)->next;
    if (*at)
        *at = catchup->next;
}
