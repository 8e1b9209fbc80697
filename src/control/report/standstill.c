/* standstill.c - the newest progress of each rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/standstill.h"

#include <errno.h>

#include "core/clean.h"
#include "core/time.h"
#include "lockstep/probe.h"

/* As the judge of hangs has them by default: judge/thresholds.c. */
#define STILL_LEAST_NS (10 * (int64_t)NS_PER_S)
#define STILL_STEPS 3
#define STILL_NAMED_NS (600 * (int64_t)NS_PER_S)
#define STILL_NAMED                                                                                \
    (1u << LOCKSTEP_PHASE_INIT | 1u << LOCKSTEP_PHASE_COMM_INIT | 1u << LOCKSTEP_PHASE_COMPILE |   \
     1u << LOCKSTEP_PHASE_CHECKPOINT | 1u << LOCKSTEP_PHASE_EVAL)

void standstill_fini(struct standstill *still)
{
    map_fini(&still->advanced);
    map_fini(&still->newest);
    *still = (struct standstill){ 0 };
}

static void standstill_attempt(struct standstill *still, uint32_t attempt)
{
    if (attempt <= still->attempt)
        return;
    standstill_fini(still);
    still->attempt = attempt;
}

int standstill_beat(struct standstill *still, const struct fact_beat *beat)
{
    uint64_t *advanced, *newest;
    bool moved = beat->advanced;

    standstill_attempt(still, beat->attempt);
    if (beat->attempt != still->attempt)
        return 0;
    advanced = map_put(&still->advanced, beat->rank, (uint64_t)beat->mono_ns);
    if (!advanced)
        return -ENOMEM;
    newest = map_put(&still->newest, beat->rank, 0);
    if (!newest)
        return -ENOMEM;
    for (uint32_t i = 0; i < beat->ops; i++)
        moved |= beat->op[i].advanced;
    if (moved)
        *advanced = (uint64_t)beat->mono_ns;
    *newest = (uint64_t)beat->mono_ns;
    if ((beat->phases | 1u << (beat->phase & 31)) & STILL_NAMED)
        still->named = true;
    else if (moved)
        still->named = false; /* in lockstep nobody is in one for long while others go on */
    return 0;
}

void standstill_step(struct standstill *still, const struct fact_step *step)
{
    standstill_attempt(still, step->attempt);
    if (step->attempt != still->attempt || step->flags & STEP_UNFINISHED)
        return;
    still->steps++;
    still->longest_ns = MAX(still->longest_ns, step->duration_ns + step->tail_ns);
}

int64_t standstill_ns(const struct standstill *still, uint32_t ranks)
{
    int64_t limit_ns = MAX(STILL_LEAST_NS, STILL_STEPS * still->longest_ns), least_ns = INT64_MAX;

    if (still->named)
        limit_ns = STILL_NAMED_NS;
    if (still->newest.used < ranks || ranks == 0 || still->steps < (uint64_t)ranks * STILL_STEPS)
        return 0;
    for (size_t i = 0; i < still->newest.size; i++) {
        const struct map_slot *slot = &still->newest.slot[i];
        const uint64_t *advanced = slot->used ? map_get(&still->advanced, slot->key) : NULL;

        if (advanced)
            least_ns = MIN(least_ns, (int64_t)(slot->value - *advanced));
    }
    return least_ns >= limit_ns ? least_ns : 0;
}
