/* stall_start.c - how long an attempt took until its first step.
 *
 * Slow starts are the rule: images are pulled, libraries are read, models are compiled.  It is reported only
 * when one rank comes so late that all others wait for it, or when the whole start takes longer than
 * anyone plans for, or many times as long as in the attempt before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/ledger.h"
#include "judge/median.h"
#include "judge/slow/stall/stall_private.h"
#include "wire/names.h"

void stall_start_attempt(struct stall *stall)
{
    if (stall->birth)
        memset(stall->birth, 0, stall->births * sizeof(*stall->birth));
}

/* It meets the others, or is in an operation with them: that is their time, not its own. */
static bool stall_birth_waits(const struct fact_beat *beat)
{
    bool waits = beat->phase == LOCKSTEP_PHASE_COMM_INIT;

    for (uint32_t i = 0; i < beat->ops; i++)
        waits |= beat->op[i].started;
    return waits;
}

/* What a rank does until its first step comes only with its beats: once a second, the innermost phase. */
void stall_start_beat(struct judge_state *judge, const struct fact_beat *beat)
{
    struct stall *stall = judge->stall;
    uint32_t world = judge->model.world;
    const struct beat_storage *seen =
        beat->phase == LOCKSTEP_PHASE_DATA         ? &beat->storage[BEAT_STORAGE_DATA]
        : beat->phase == LOCKSTEP_PHASE_CHECKPOINT ? &beat->storage[BEAT_STORAGE_CHECKPOINT]
                                                   : NULL;
    struct stall_birth *birth;
    int64_t most_ns = (int64_t)(judge->limits.beat_fresh * 1e9);
    float took;

    if (stall->started || beat->step != UINT64_MAX || beat->rank >= world ||
        beat->phase >= LOCKSTEP_PHASE_COUNT)
        return;
    if (!ARRAY_FIT_ZERO(stall->birth, stall->births, world))
        return;
    birth = &stall->birth[beat->rank];
    took = birth->beat_ns ? (float)MIN(beat->mono_ns - birth->beat_ns, most_ns) / 1e9f
                          : (float)MIN(beat->phase_age_ns, most_ns) / 1e9f;
    birth->beat_ns = beat->mono_ns;
    if (took <= 0 || stall_birth_waits(beat))
        return;
    birth->seconds[beat->phase] += took;
    if (seen && seen->looks)
        birth->storage += took * (float)seen->waits / (float)seen->looks;
}

struct start_reason {
    unsigned phase;
    double seconds, storage;
};

/* The phase that took longest, but for meeting the others: that is waiting for them.  False: not seen, or less
 * than what is to be explained.
 */
static bool reason_of(const struct judge_state *judge, uint32_t rank, double late,
                      struct start_reason *ret)
{
    const struct stall *stall = judge->stall;

    *ret = (struct start_reason){ 0 };
    for (unsigned phase = 0; rank < stall->births && phase < LOCKSTEP_PHASE_COUNT; phase++) {
        if (phase == LOCKSTEP_PHASE_COMM_INIT ||
            (double)stall->birth[rank].seconds[phase] <= ret->seconds)
            continue;
        ret->phase = phase;
        ret->seconds = (double)stall->birth[rank].seconds[phase];
        ret->storage = (double)stall->birth[rank].storage;
    }
    return ret->seconds > 0 && ret->seconds >= judge->limits.verdict_explains * late;
}

static unsigned reason_layer(const struct start_reason *reason)
{
    bool files = reason->phase == LOCKSTEP_PHASE_DATA || reason->phase == LOCKSTEP_PHASE_CHECKPOINT;

    if (files && 2 * reason->storage > reason->seconds)
        return LAYER_STORAGE;
    switch (reason->phase) {
    case LOCKSTEP_PHASE_DATA:
        return LAYER_DATA;
    case LOCKSTEP_PHASE_CHECKPOINT:
        return LAYER_CHECKPOINT;
    case LOCKSTEP_PHASE_COMPILE:
        return LAYER_FRAMEWORK;
    case LOCKSTEP_PHASE_INIT: /* all that a program does before it trains: whose it is cannot be told */
        return LAYER_UNKNOWN;
    default:
        return LAYER_USER_CODE;
    }
}

static void start_describe(const struct judge_state *judge, struct verdict *draft, uint32_t rank,
                           double late)
{
    struct start_reason reason;

    if (!reason_of(judge, rank, late, &reason))
        return;
    draft->layer = (uint8_t)reason_layer(&reason);
    verdict_because(draft, "beat", "rank %u was in %s for %.1f s of that%s", rank,
                    name_of_phase(reason.phase), reason.seconds,
                    draft->layer == LAYER_STORAGE ? ", most of it waiting for storage in the kernel"
                                                  : "");
}

struct start { /* seconds from the attempt's begin to a rank's first step */
    double median, most;
    uint32_t last; /* the rank that came last */
};

static bool start_read(const struct judge_state *judge, struct start *ret)
{
    const struct past_step *past = history_back(&judge->history, 0);
    int64_t began = ledger_began_ns(judge->book);
    CLEAN(free_clean) double *value = malloc((judge->model.world + 1) * sizeof(*value));
    uint32_t count = 0;

    *ret = (struct start){ 0 };
    for (uint32_t rank = 0; value && rank < judge->model.world; rank++) {
        double took = (double)(past->split[rank].begin_ns - began) / 1e9;

        if (!past->split[rank].present)
            continue;
        if (took > ret->most) {
            ret->most = took;
            ret->last = rank;
        }
        value[count++] = took;
    }
    ret->median = median_f64(value, count);
    return count > 0 && began > 0 && ret->median > 0;
}

static void stall_late_accuse(struct judge_state *judge, const struct start *start)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct verdict draft = signal_draft(judge, SIGNAL_FIRST_STEP, NULL);
    double late = start->most - start->median;
    int64_t began = ledger_began_ns(judge->book);
    bool fresh;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        double took = (double)(past->split[rank].begin_ns - began) / 1e9;

        if (past->split[rank].present && took > start->median + late / 2)
            judge_state_add_rank(judge, &draft, rank);
    }
    draft.since_step = past->step;
    draft.seconds_per_step = late;
    verdict_because(&draft, "ring",
                    "rank %u began its first step %.1f s after the attempt started, the median "
                    "rank after %.1f s",
                    start->last, start->most, start->median);
    start_describe(judge, &draft, start->last, late);
    verdict_rule_out(&draft, LAYER_FABRIC,
                     "the other ranks had begun their first step and waited for it");
    judge_state_find(judge, &draft, &fresh);
}

/* Seconds of its own that a rank was seen to need. */
static double stall_birth_seconds(const struct stall_birth *birth)
{
    double sum = 0;

    for (unsigned phase = 0; phase < LOCKSTEP_PHASE_COUNT; phase++)
        sum += (double)birth->seconds[phase];
    return sum;
}

static bool stall_births_read(const struct judge_state *judge, struct start *ret)
{
    const struct stall *stall = judge->stall;
    uint32_t world = judge->model.world;
    CLEAN(free_clean) double *value = malloc((world + 1) * sizeof(*value));

    *ret = (struct start){ 0 };
    if (!value || stall->births < world || world < 2)
        return false;
    for (uint32_t rank = 0; rank < world; rank++) {
        if (!stall->birth[rank].beat_ns)
            return false; /* one that was not seen may be the one */
        value[rank] = stall_birth_seconds(&stall->birth[rank]);
        if (value[rank] > ret->most) {
            ret->most = value[rank];
            ret->last = rank;
        }
    }
    ret->median = median_f64(value, world);
    return true;
}

/* Ranks that meet before their first step begin it together: who was waited for shows in what each did of its
 * own until then.
 */
static void stall_births_accuse(struct judge_state *judge, const struct start *start)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct verdict draft = signal_draft(judge, SIGNAL_BIRTH, NULL);
    double late = start->most - start->median;
    bool fresh;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (stall_birth_seconds(&judge->stall->birth[rank]) > start->median + late / 2)
            judge_state_add_rank(judge, &draft, rank);
    }
    draft.since_step = past->step;
    draft.seconds_per_step = late;
    verdict_because(&draft, "beat",
                    "rank %u was busy with its own start-up for %.1f s, the median rank for %.1f "
                    "s; the other ranks waited for it",
                    start->last, start->most, start->median);
    start_describe(judge, &draft, start->last, late);
    judge_state_find(judge, &draft, &fresh);
}

static void stall_long_accuse(struct judge_state *judge, const struct start *start, double usual)
{
    const struct past_step *past = history_back(&judge->history, 0);
    struct verdict draft = signal_draft(judge, SIGNAL_START, NULL);
    bool fresh;

    snprintf(draft.group, sizeof(draft.group), "start-up");
    if (usual > 0)
        snprintf(draft.cause, sizeof(draft.cause), "start-up takes many times as long as before");
    draft.since_step = past->step;
    draft.seconds_per_step = start->median - usual;
    verdict_because(&draft, "ring",
                    "the median rank began its first step %.1f s after the attempt started, the "
                    "last rank after %.1f s",
                    start->median, start->most);
    if (usual > 0)
        verdict_because(&draft, "ring", "in the previous attempt it took %.1f s", usual);
    else
        verdict_because(&draft, "ring", "the limit is %.0f s", judge->limits.startup_most);
    start_describe(judge, &draft, start->last, start->median - usual);
    judge_state_find(judge, &draft, &fresh);
}

void stall_start_step(struct judge_state *judge)
{
    const struct thresholds *limits = &judge->limits;
    struct stall *stall = judge->stall;
    double before = stall->start_seconds;
    struct start start, births;

    if (stall->started)
        return;
    stall->started = true;
    if (!start_read(judge, &start))
        return;
    stall->start_seconds = start.median;
    if (start.most - start.median > limits->wait_long)
        stall_late_accuse(judge, &start);
    else if (stall_births_read(judge, &births) && births.most - births.median > limits->wait_long)
        stall_births_accuse(judge, &births);
    else if (start.median > limits->startup_most)
        stall_long_accuse(judge, &start, 0);
    else if (before > 0 && start.median > limits->verdict_times * before &&
             start.median - before > limits->wait_long)
        stall_long_accuse(judge, &start, before);
}
