/* progress.c - a step far enough ahead that no rank has begun it when an order arrives.
 *
 * What is known of a rank's step is old when it is read: the agent reports it, and the order takes time to reach the
 * ranks.  So the step lies ahead by as many steps as the job can take meanwhile, at the fastest pace of the last windows,
 * and some more.  If the estimate was wrong, a rank reports that it is past the step, and the next estimate is larger.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/policy_private.h"

#define WINDOW_NS (2 * NS_PER_S)     /* over which a pace is measured, at least */
#define REPORT_NS NS_PER_S           /* agents report at least so often */
#define DELAY_LEAST_NS NS_PER_S      /* of an order, before one was observed */
#define AHEAD_MAX_NS (60 * NS_PER_S) /* a job that stands still would push it away for ever */
#define STEPS_LEAST 3                /* one is open, one may begin at any moment */

void progress_attempt(struct progress *progress)
{
    int64_t delay_ns = progress->delay_ns;

    *progress = (struct progress){ .delay_ns = delay_ns };
}

void progress_step(struct progress *progress, uint64_t step)
{
    if (progress->any && step <= progress->newest)
        return;
    progress->any = true;
    progress->newest = step;
}

/* The longest counts, and fades. */
void progress_delay(struct progress *progress, int64_t delay_ns)
{
    delay_ns = MIN(MAX(delay_ns, (int64_t)0), AHEAD_MAX_NS);
    progress->delay_ns = MAX(progress->delay_ns / 4 * 3, delay_ns);
}

static void progress_window_end(struct progress *progress, int64_t now_ns)
{
    uint64_t steps = progress->newest - progress->from;

    memmove(progress->window + 1, progress->window,
            sizeof(progress->window) - sizeof(progress->window[0]));
    progress->window[0] = MAX((now_ns - progress->from_ns) / (int64_t)MIN(steps, UINT32_MAX), 1);
    progress->from = progress->newest;
    progress->from_ns = now_ns;
}

void progress_tick(struct progress *progress, int64_t now_ns)
{
    if (!progress->any)
        return;
    if (!progress->seen_ns || progress->newest > progress->seen) {
        progress->seen = progress->newest;
        progress->seen_ns = now_ns;
    }
    if (!progress->from_ns) {
        progress->from = progress->newest;
        progress->from_ns = now_ns;
    } else if (now_ns - progress->from_ns >= WINDOW_NS && progress->newest > progress->from) {
        progress_window_end(progress, now_ns);
    }
}

/* Of the fastest window.  Before the first one a step takes at least as long as none has ended. */
static int64_t progress_step_ns(const struct progress *progress, int64_t now_ns)
{
    int64_t least = 0, since_ns = now_ns - progress->from_ns;

    for (size_t i = 0; i < COUNT(progress->window); i++) {
        if (progress->window[i] && (!least || progress->window[i] < least))
            least = progress->window[i];
    }
    if (!least && since_ns >= WINDOW_NS && progress->newest == progress->from)
        least = since_ns;
    return least;
}

/* A delay that was observed is covered as it is; renewals double only what was assumed, or one launcher that stood still
 * for ten seconds would push the step away by minutes. */
bool progress_target(const struct progress *progress, int64_t now_ns, unsigned renewals,
                     uint64_t *ret, int64_t *ret_ns)
{
    int64_t each_ns = progress->any && progress->from_ns ? progress_step_ns(progress, now_ns) : 0,
            known_ns, ahead_ns;
    uint64_t steps;

    if (!each_ns)
        return false;
    known_ns = now_ns - progress->seen_ns + REPORT_NS;
    ahead_ns = MIN(known_ns + DELAY_LEAST_NS, AHEAD_MAX_NS) << MIN(renewals, 8u);
    ahead_ns = MAX(ahead_ns, MIN(known_ns + progress->delay_ns, AHEAD_MAX_NS));
    steps = (uint64_t)(ahead_ns / each_ns) + ((uint64_t)STEPS_LEAST << MIN(renewals, 8u));
    if (__builtin_add_overflow(progress->newest, steps, ret) || *ret == DECISION_NO_STEP)
        return false; /* a number that no step has */
    *ret_ns = (int64_t)MIN(steps, UINT32_MAX) * MIN(each_ns, 3600 * NS_PER_S);
    return true;
}
