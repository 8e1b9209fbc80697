/* stall_pause.c - what stops the devices only now and then: checkpoints, evaluations, rare long waits for
 * input.
 *
 * A planned pause of the usual length is no fault.  One is reported as a stall when it takes many times
 * what the run's own earlier ones took, or when all of them together cost more than a share of the
 * time.  Between two pauses nothing can be seen of it, so an open verdict stays until the next one says
 * that all is as usual, or has not come for long.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/slow/stall/stall_private.h"

#define STARVED_STEPS 8
#define LEAST_PAUSES 4 /* whose share of the time is judged */

enum reason {
    REASON_NONE,
    REASON_LONGER, /* than the usual one */
    REASON_SHARE,  /* of the time, all together */
    REASON_LONG    /* by itself: a wait that nobody plans */
};

static const struct pause_kind {
    unsigned phase, layer;
    uint8_t verdict;
    bool planned; /* it is meant to be: has a usual length */
    size_t share; /* threshold: of the time */
    const char *group, *one, *many;
    const char *cause[4]; /* by reason */
} kinds[STALL_PAUSES] = {
    [PAUSE_CHECKPOINT] = { LOCKSTEP_PHASE_CHECKPOINT,
                           LAYER_CHECKPOINT,
                           VERDICT_CHECKPOINT_STALL,
                           true,
                           offsetof(struct thresholds, verdict_clear_cost),
                           "checkpoint",
                           "the checkpoint",
                           "checkpoints",
                           { "", "a checkpoint takes many times as long as usual",
                             "checkpoints take a large share of the time", "" } },
    [PAUSE_EVAL] = { LOCKSTEP_PHASE_EVAL,
                     LAYER_USER_CODE,
                     VERDICT_INPUT_STALL,
                     true,
                     offsetof(struct thresholds, eval_cost_share),
                     "evaluation",
                     "the evaluation",
                     "evaluations",
                     { "", "an evaluation leaves the devices idle many times longer than usual",
                       "evaluations leave the devices idle for a large share of the time", "" } },
    [PAUSE_INPUT] = { LOCKSTEP_PHASE_DATA,
                      LAYER_DATA,
                      VERDICT_INPUT_STALL,
                      false,
                      offsetof(struct thresholds, verdict_least_cost),
                      "input",
                      "the wait for a batch",
                      "waits for a batch",
                      { "", "", "some batches arrive very late", "a batch arrived very late" } },
};

struct pause_event { /* one pause, as all ranks tell it */
    double most_ms, median_ms;
    double usual_ms;  /* of those before it; 0: not known */
    double period_ms; /* of a step without one */
    uint32_t alone;   /* ranks that were much longer in it than the median; 0: all are alike */
};

static double stall_phase_ms(const struct past_step *past, uint32_t rank, unsigned phase)
{
    return past->split[rank].present ? (double)past->split[rank].host_ns[phase] / 1e6 : 0;
}

static bool stall_is_alone(const struct past_step *past, uint32_t rank, unsigned phase,
                           const struct pause_event *event)
{
    return stall_phase_ms(past, rank, phase) > (event->most_ms + event->median_ms) / 2;
}

static double stall_usual_ms(const struct stall_pause *pause)
{
    double value[STALL_USUAL];
    uint32_t count = MIN(pause->usuals, STALL_USUAL);

    memcpy(value, pause->usual_ms, count * sizeof(*value));
    return median_f64(value, count);
}

/* False: no rank pauses in the newest step. */
static bool event_read(const struct judge_state *judge, const struct pause_kind *kind,
                       const struct stall_pause *pause, struct pause_event *ret)
{
    const struct past_step *past = history_back(&judge->history, 0);
    CLEAN(free_clean) double *value = NULL;
    uint32_t count = 0;

    *ret = (struct pause_event){ .period_ms = history_period_ms(&judge->history, HISTORY_STEPS) };
    for (uint32_t rank = 0; rank < judge->model.world; rank++)
        ret->most_ms = MAX(ret->most_ms, stall_phase_ms(past, rank, kind->phase));
    if (ret->most_ms < judge->limits.verdict_least_time ||
        (!kind->planned && ret->most_ms < ret->period_ms))
        return false;
    value = malloc(judge->model.world * sizeof(*value));
    for (uint32_t rank = 0; value && rank < judge->model.world; rank++) {
        if (past->split[rank].present)
            value[count++] = stall_phase_ms(past, rank, kind->phase);
    }
    ret->median_ms = median_f64(value, count);
    ret->usual_ms = stall_usual_ms(pause);
    for (uint32_t rank = 0; ret->median_ms < ret->most_ms / 2 && rank < judge->model.world; rank++)
        ret->alone += stall_is_alone(past, rank, kind->phase, ret);
    return true;
}

/* ---- is it one? ---- */

static bool stall_is_longer(const struct pause_event *event, double times, double steps)
{
    return event->usual_ms > 0 && event->most_ms > times * event->usual_ms &&
           event->most_ms - event->usual_ms > steps * event->period_ms;
}

/* Of the time since the first of the last pauses ended, how much they took, each as long as the median
 * one: a few that were too long are another matter.
 */
static double pause_share(const struct stall_pause *pause, double *lost_ms, uint64_t *steps)
{
    uint32_t count = (uint32_t)MIN(pause->count, STALL_USUAL);
    const struct stall_event *first, *last;
    double span, value[STALL_USUAL];

    *lost_ms = 0;
    *steps = 1;
    if (count < LEAST_PAUSES)
        return 0;
    first = &pause->event[(pause->count - count) % STALL_USUAL];
    last = &pause->event[(pause->count - 1) % STALL_USUAL];
    for (uint32_t i = 0; i < count; i++)
        value[i] = pause->event[(pause->count - count + i) % STALL_USUAL].ms;
    *lost_ms = (count - 1) * median_f64(value, count);
    *steps = MAX(1, last->step - first->step);
    span = (double)(last->end_ns - first->end_ns) / 1e6;
    return span > 0 ? *lost_ms / span : 0;
}

/* Hosts without a cpu are late with everything.  The kernel's word may come a few steps later, or earlier. */
static bool pause_is_starved(const struct judge_state *judge, const struct pause_kind *kind,
                             const struct pause_event *event)
{
    const struct past_step *past = history_back(&judge->history, 0);

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (stall_phase_ms(past, rank, kind->phase) >= event->most_ms)
            return history_starved_ms(&judge->history, rank, STARVED_STEPS) * STARVED_STEPS >
                   judge->limits.verdict_explains * (event->most_ms - event->usual_ms);
    }
    return false;
}

static enum reason stall_reason_of(const struct judge_state *judge, const struct pause_kind *kind,
                                   struct stall_pause *pause, const struct pause_event *event)
{
    const struct thresholds *limits = &judge->limits;
    double stay = pause->hot ? DETECT_KEEP : 1, lost;
    double share = *(const double *)((const char *)limits + kind->share);
    uint64_t steps;
    bool few = pause->usuals < limits->verdict_warm_up;
    /* Before a few are known, one that is longer beyond any doubt. */
    double clear = few ? limits->checkpoint_clear_times * limits->checkpoint_clear_times
                       : limits->checkpoint_clear_times;
    bool longer = kind->planned && stall_is_longer(event, few ? clear : limits->verdict_times,
                                                   few ? 1 : limits->checkpoint_least_steps);

    pause->slow = longer ? pause->slow + 1 : 0;
    if (pause_is_starved(judge, kind, event))
        return REASON_NONE;
    if (longer && (pause->slow >= 2 || pause->hot || stall_is_longer(event, clear, 1)))
        return REASON_LONGER;
    if (pause_share(pause, &lost, &steps) > share * stay)
        return REASON_SHARE;
    if (!kind->planned && event->most_ms > 1e3 * limits->wait_long)
        return REASON_LONG;
    return REASON_NONE;
}

/* ---- the verdict ---- */

/* What the step lost: to all of the pause, or to what it was longer than usual. */
static double event_cost_ms(struct judge_state *judge, const struct pause_kind *kind,
                            const struct pause_event *event, enum reason reason)
{
    const struct past_step *past = history_back(&judge->history, 0);
    double usual = reason == REASON_LONGER ? event->usual_ms : 0;
    CLEAN(free_clean) int64_t *less = calloc(judge->model.world, sizeof(*less));
    int64_t shorter;

    if (!less || !judge->program_ready || !judge->job_step)
        return event->most_ms - usual;
    for (uint32_t rank = 0; rank < judge->model.world; rank++)
        less[rank] = MAX(0, (int64_t)(1e6 * (stall_phase_ms(past, rank, kind->phase) - usual)));
    shorter = program_shorter_ns(judge->program, judge->job_step, kind->phase, less);
    return MAX(0, (double)(program_replayed_ns(judge->program) - shorter) / 1e6);
}

/* Of those who are alone with it, only they: the others write a little, on sound storage, and are soon done. */
static struct stall_files stall_seen_of(const struct judge_state *judge,
                                        const struct stall_pause *pause,
                                        const struct verdict *about)
{
    struct stall_files sum = { 0 };
    uint32_t named = MIN(about->rank_count, VERDICT_RANKS);

    for (uint32_t rank = 0; rank < MIN(pause->seen_room, judge->model.world); rank++) {
        bool counts = named == 0;

        for (uint32_t i = 0; i < named && !counts; i++)
            counts = about->rank[i] == rank;
        if (!counts)
            continue;
        sum.looks += pause->seen[rank].looks;
        sum.waits += pause->seen[rank].waits;
        sum.most = MAX(sum.most, pause->seen[rank].waits);
    }
    return sum;
}

static void pause_describe_storage(struct verdict *verdict, const struct stall_files *seen)
{
    if (seen->waits > 0)
        verdict_because(verdict, "beat", "waits for storage in the kernel in %.0f of %.0f samples",
                        (double)seen->waits, (double)seen->looks);
}

static void pause_describe(const struct judge_state *judge, struct verdict *draft,
                           const struct pause_kind *kind, const struct stall_pause *pause,
                           const struct pause_event *event, enum reason reason)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct stall_files seen = stall_seen_of(judge, pause, draft);
    double lost, share;
    uint64_t steps;

    if (reason == REASON_LONGER)
        verdict_because(draft, "ring",
                        "%s after step %llu left devices idle for %.1f ms, the previous %u for "
                        "%.1f ms (median): %.1f times as long",
                        kind->one, (unsigned long long)past->step, event->most_ms,
                        (unsigned)MIN(pause->usuals, STALL_USUAL), event->usual_ms,
                        event->most_ms / event->usual_ms);
    else
        verdict_because(draft, "ring",
                        "%s in step %llu left devices idle for %.1f ms, as long as %.1f steps",
                        kind->one, (unsigned long long)past->step, event->most_ms,
                        event->most_ms / MAX(event->period_ms, 1e-3));
    share = pause_share(pause, &lost, &steps);
    if (share > 0)
        verdict_because(draft, "ring", "%s took %.1f %% of the time over the last %llu steps",
                        kind->many, 100 * share, (unsigned long long)steps);
    if (event->alone)
        verdict_because(draft, "ring", "%u rank%s affected; the median rank took %.1f ms",
                        event->alone, event->alone == 1 ? " is" : "s are", event->median_ms);
    else
        verdict_because(draft, "ring", "all ranks are affected alike; the median rank took %.1f ms",
                        event->median_ms);
    pause_describe_storage(draft, &seen);
    verdict_rule_out(draft, LAYER_CPU, "waits %.1f ms for a CPU in the last steps (median)",
                     stall_typical_ms(judge, 3, split_starved_ns));
}

/* A step may be judged before the beats come that tell what its ranks waited for. */
static void stall_renew_layer(const struct judge_state *judge, const struct stall_pause *pause,
                              struct tracked_verdict *tracked)
{
    struct stall_files seen = stall_seen_of(judge, pause, &tracked->verdict);

    if (tracked->verdict.layer == LAYER_STORAGE || !stall_waits(judge, &seen))
        return;
    tracked->verdict.layer = LAYER_STORAGE;
    pause_describe_storage(&tracked->verdict, &seen);
    tracked->changed = true;
}

static void stall_draft_who(const struct judge_state *judge, struct verdict *draft,
                            const struct pause_kind *kind, const struct pause_event *event)
{
    const struct past_step *past = history_back(&judge->history, 0);

    if (!event->alone) {
        snprintf(draft->group, sizeof(draft->group), "%s", kind->group);
        return;
    }
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (stall_is_alone(past, rank, kind->phase, event))
            judge_state_add_rank(judge, draft, rank);
    }
    if (!kind->planned)
        draft->kind = VERDICT_STRAGGLER; /* not the job's input, but these ranks' */
}

static void pause_accuse(struct judge_state *judge, const struct pause_kind *kind,
                         struct stall_pause *pause, const struct pause_event *event,
                         enum reason reason, double cost_ms)
{
    static const enum signal_id signal[] = { [REASON_LONGER] = SIGNAL_PAUSE,
                                             [REASON_SHARE] = SIGNAL_PAUSES,
                                             [REASON_LONG] = SIGNAL_LONG_WAIT };
    struct verdict draft = signal_draft(judge, signal[reason], NULL);
    uint64_t now = history_back(&judge->history, 0)->step, steps;
    struct stall_files seen;
    struct tracked_verdict *tracked;
    double lost;
    bool fresh;

    draft.kind = kind->verdict;
    snprintf(draft.cause, sizeof(draft.cause), "%s", kind->cause[reason]);
    stall_draft_who(judge, &draft, kind, event);
    seen = stall_seen_of(judge, pause, &draft);
    draft.layer = (uint8_t)(stall_waits(judge, &seen) ? LAYER_STORAGE : kind->layer);
    draft.since_step = now;
    if (reason == REASON_LONGER && pause->slow >= 2)
        draft.since_step = pause->slow_since;
    if (reason == REASON_SHARE) {
        pause_share(pause, &lost, &steps);
        draft.since_step = now - MIN(now, steps);
    }
    draft.seconds_per_step =
        cost_ms / 1e3 / (double)(pause->count > 1 ? MAX(1, pause->every) : 1); /* amortised */
    pause_describe(judge, &draft, kind, pause, event, reason);
    tracked = judge_state_find(judge, &draft, &fresh);
    if (!tracked)
        return;
    tracked->step_seconds = cost_ms / 1e3;
    snprintf(pause->id, sizeof(pause->id), "%s", tracked->verdict.id);
}

/* ---- step by step ---- */

static struct tracked_verdict *pause_open_verdict(const struct judge_state *judge,
                                                  const struct stall_pause *pause)
{
    for (uint32_t i = 0; pause->hot && i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && strcmp(tracked->verdict.id, pause->id) == 0)
            return tracked;
    }
    return NULL;
}

static void event_note(const struct judge_state *judge, struct stall_pause *pause,
                       const struct pause_event *event)
{
    const struct past_step *past = history_back(&judge->history, 0);
    const struct stall_event *before =
        pause->count ? &pause->event[(pause->count - 1) % STALL_USUAL] : NULL;

    if (before)
        pause->every = past->step - MIN(past->step, before->step);
    pause->event[pause->count++ % STALL_USUAL] = (struct stall_event){
        .step = past->step, .end_ns = past->begin_ns + past->measured_ns, .ms = event->most_ms
    };
}

static void pause_step(struct judge_state *judge, const struct pause_kind *kind,
                       struct stall_pause *pause)
{
    uint64_t now = history_back(&judge->history, 0)->step;
    struct tracked_verdict *open = pause_open_verdict(judge, pause);
    struct pause_event event;
    enum reason reason;

    if (open) {
        stall_renew_layer(judge, pause, open);
        stall_write_renew(judge, open);
    }
    if (!event_read(judge, kind, pause, &event)) {
        uint64_t last = pause->count ? pause->event[(pause->count - 1) % STALL_USUAL].step : now;

        if (open && now - MIN(now, last) <= 2 * MAX(1, pause->every)) { /* the next one will tell */
            open->seen_step = now;
            open->step_seconds = 0;
        }
        return;
    }
    event_note(judge, pause, &event);
    reason = stall_reason_of(judge, kind, pause, &event);
    if (pause->slow == 1)
        pause->slow_since = now;
    if (reason != REASON_NONE) {
        double cost = event_cost_ms(judge, kind, &event, reason);

        if (open) {
            open->seen_step = now;
            open->step_seconds = cost / 1e3;
        } else {
            pause_accuse(judge, kind, pause, &event, reason, cost);
        }
    }
    pause->hot = reason != REASON_NONE;
    if (pause->slow == 0) /* the slow ones do not become usual by being many */
        pause->usual_ms[pause->usuals++ % STALL_USUAL] = event.most_ms;
    if (pause->seen)
        memset(pause->seen, 0, pause->seen_room * sizeof(*pause->seen));
}

void stall_pause_step(struct judge_state *judge)
{
    for (int i = 0; i < STALL_PAUSES; i++)
        pause_step(judge, &kinds[i], &judge->stall->pause[i]);
}

void stall_pause_beat(struct judge_state *judge, const struct fact_beat *beat)
{
    for (int i = 0; i < STALL_PAUSES && beat->rank < judge->model.world; i++) {
        struct stall_pause *pause = &judge->stall->pause[i];
        const struct beat_storage *storage =
            kinds[i].phase == LOCKSTEP_PHASE_CHECKPOINT ? &beat->storage[BEAT_STORAGE_CHECKPOINT]
            : kinds[i].phase == LOCKSTEP_PHASE_DATA     ? &beat->storage[BEAT_STORAGE_DATA]
                                                        : NULL;
        struct stall_files seen = { 0 };

        if (storage && storage->looks)
            seen = (struct stall_files){ .looks = storage->looks, .waits = storage->waits };
        else if (kinds[i].phase == beat->phase) /* an agent that does not look */
            seen = (struct stall_files){ .looks = 1, .waits = beat->state == 'D' };
        if (seen.looks == 0 ||
            !stall_files_room(&pause->seen, &pause->seen_room, judge->model.world))
            continue;
        pause->seen[beat->rank].looks += seen.looks;
        pause->seen[beat->rank].waits += seen.waits;
    }
}
