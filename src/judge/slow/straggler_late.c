/* straggler_late.c - the rank that enters every collective last, where devices report nothing else.
 *
 * A device that reports its collectives and no other work (NCCL) does not show how long a rank's own work was: while a rank
 * waits for another its own work is not observed.  But the device's clock shows which rank the others wait for.  Where one
 * communicator of all ranks is all there is, no rank is late because of another: the last one is the cause.
 * With more of them a rank may be late because it waited in another one; then this judge gives no verdict.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/price.h"
#include "judge/slow/signals.h"
#include "judge/slow/straggler_private.h"
#include "judge/state.h"

/* How long a rank waited for others in this step, in several collectives at a time once; -1: that does not tell who was
 * late.
 */
static double straggler_waited_ms(const struct judge_state *judge, const struct job_step *job_step,
                                  uint32_t rank)
{
    const struct model_shape *shape = job_step->shape_of[rank];
    const uint32_t *number = split_numbers(judge->splitter, rank);
    const struct meeting *meeting = split_meeting_base(judge->splitter);
    int64_t waited_ns = 0, until_ns = 0;

    for (uint32_t i = 0; i < shape->fact.count; i++) {
        const struct shape_item *item = &shape->fact.item[i];
        const struct item_time *time = &job_step->step_of[rank].time[i];
        int64_t wait_ns;

        if (item->kind == ITEM_PHASE)
            continue;
        if (item->kind != ITEM_COLL || shape->comm[i] == MODEL_NONE ||
            judge->model.comm[shape->comm[i]].size != judge->model.world)
            return -1;
        if (!op_synchronises(item->what))
            continue; /* a broadcast: all wait for one, whoever else is late */
        if (number[i] == MODEL_NONE || meeting[number[i]].members != judge->model.world)
            return -1;
        wait_ns = time->end_ns - time->start_ns - meeting[number[i]].shortest_ns;
        if (item->count > 1 && job_step->step_of[rank].flags & STEP_SPLIT && time->wait_ns >= 0)
            wait_ns = time->wait_ns;
        waited_ns += MAX(0, time->start_ns + wait_ns - MAX(time->start_ns, until_ns));
        until_ns = MAX(until_ns, time->start_ns + wait_ns);
    }
    return (double)waited_ns / 1e6;
}

/* The last one of this step, and how much longer the others waited. */
static bool late_look(const struct judge_state *judge, struct late_look *ret)
{
    const struct job_step *job_step = judge->job_step;
    uint32_t world = judge->model.world, last = 0;
    CLEAN(free_clean) double *waited = calloc(world + 1, sizeof(*waited));
    double own;

    if (!waited || world < 2)
        return false;
    for (uint32_t rank = 0; rank < world; rank++) {
        if (!job_step->shape_of[rank] || !job_step->shape_of[rank]->class->device_ops ||
            job_step->step_of[rank].flags & (STEP_UNFINISHED | STEP_TORN))
            return false;
        waited[rank] = straggler_waited_ms(judge, job_step, rank);
        if (waited[rank] < 0)
            return false;
        if (waited[rank] < waited[last])
            last = rank;
    }
    own = waited[last];
    ret->rank = last;
    ret->step = job_step->step;
    ret->step_ms =
        (double)(job_step->step_of[last].duration_ns + job_step->step_of[last].tail_ns) / 1e6;
    waited[last] = waited[world - 1];
    ret->waited_ms = median_f64(waited, world - 1);
    ret->own_ms = own;
    return true;
}

#define BACKING 3 /* steps: as few as the judge of stragglers needs */

bool straggler_is_waited_for(const struct judge_state *judge, uint32_t rank)
{
    const struct late_looks *looks = &judge->late_looks;
    double late_ms = 0, step_ms = 0;

    if (judge->known != EVIDENCE_TIMES || looks->count == 0)
        return true; /* not such a device, or its collectives do not tell */
    for (uint32_t i = 0; i < MIN(BACKING, looks->count); i++) {
        const struct late_look *look = &looks->look[(looks->count - 1 - i) % LATE_STEPS_MAX];

        if (look->rank != rank)
            return false;
        late_ms += look->waited_ms - look->own_ms;
        step_ms += look->step_ms;
    }
    return late_ms >= signal_least(judge, SIGNAL_ARRIVAL) * step_ms;
}

static void late_draft(const struct judge_state *judge, const struct late_looks *looks,
                       double late_ms, double step_ms, struct verdict *draft)
{
    const struct late_look *newest = &looks->look[(looks->count - 1) % LATE_STEPS_MAX];
    uint32_t steps = (uint32_t)judge->limits.straggler_late_steps;
    const struct late_look *first = &looks->look[(looks->count - steps) % LATE_STEPS_MAX];

    *draft = signal_draft(judge, SIGNAL_ARRIVAL, NULL);
    draft->since_step = first->step;
    draft->seconds_per_step = late_ms / 1e3;
    judge_state_add_rank(judge, draft, newest->rank);
    verdict_because(
        draft, "ring",
        "other ranks wait for it %.1f ms of each %.1f ms step in collectives; it waits %.1f ms",
        newest->waited_ms, step_ms, newest->own_ms);
    verdict_because(draft, "ring", "it was the last rank in each of %u steps, by device clocks",
                    steps);
    verdict_rule_out(draft, LAYER_FABRIC,
                     "only waiting before the last rank enters is counted, not the transfer");
}

static void late_step(struct judge_state *judge)
{
    struct late_looks *looks = &judge->late_looks;
    uint32_t steps = (uint32_t)judge->limits.straggler_late_steps;
    struct late_look *fresh = &looks->look[looks->count % LATE_STEPS_MAX];
    double late_ms = 0, step_ms = 0;
    struct tracked_verdict *open;
    struct verdict draft;
    bool is_new;

    if (judge->known == EVIDENCE_WORK || !late_look(judge, fresh)) {
        looks->count = 0;
        return;
    }
    looks->count++;
    if (looks->count < steps || judge->history.count <= judge->limits.verdict_warm_up + steps)
        return;
    for (uint32_t i = 0; i < steps; i++) {
        const struct late_look *look = &looks->look[(looks->count - 1 - i) % LATE_STEPS_MAX];

        if (look->rank != fresh->rank)
            return;
        late_ms += (look->waited_ms - look->own_ms) / steps;
        step_ms += look->step_ms / steps;
    }
    if (late_ms < judge->limits.verdict_least_time ||
        late_ms < signal_least(judge, SIGNAL_ARRIVAL) * step_ms)
        return;
    open = judge_state_open_verdict(judge, VERDICT_STRAGGLER, LAYER_COUNT, fresh->rank);
    if (open) {
        open->seen_step = judge->job_step->step;
        if (strcmp(open->verdict.cause, signal_table[SIGNAL_ARRIVAL].cause) == 0)
            open->step_seconds = late_ms / 1e3;
        return;
    }
    late_draft(judge, looks, late_ms, step_ms, &draft);
    judge_state_find(judge, &draft, &is_new);
}

const struct judge judge_straggler_late = { .name = "straggler-late",
                                            .step = late_step,
                                            .evidence = EVIDENCE_NONE,
                                            .remedy = price_remedy_ranks };
