/* stall.c - what the devices of a job wait for when no rank holds up the others.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/stall/stall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/price.h"
#include "judge/slow/stall/stall_private.h"

#define FADE                                                                                       \
    0.8F /* of the weight of earlier samples of a loader remains after a second: about five seconds count */

int stall_create(struct stall **ret)
{
    struct stall *stall = calloc(1, sizeof(*stall));

    if (!stall)
        return -ENOMEM;
    *ret = stall;
    return 0;
}

void stall_destroy(struct stall *stall)
{
    if (!stall)
        return;
    stall_input_fini(&stall->input);
    free(stall->files);
    for (int i = 0; i < STALL_PAUSES; i++)
        free(stall->pause[i].seen);
    free(stall->birth);
    free(stall->writes.seconds);
    free(stall);
}

size_t stall_bytes(const struct stall *stall)
{
    size_t bytes = sizeof(*stall) + stall->births * sizeof(*stall->birth) +
                   stall->files_room * sizeof(*stall->files) +
                   stall->input.world * sizeof(*stall->input.level_ns) +
                   stall->writes.room * sizeof(*stall->writes.seconds);

    for (int i = 0; i < STALL_PAUSES; i++)
        bytes += stall->pause[i].seen_room * sizeof(*stall->pause[i].seen);
    return bytes;
}

void stall_attempt(struct stall *stall)
{
    stall->input.count =
        0; /* what was typical, and what is usual below, stays: it is the same job */
    stall->started = false;
    stall_start_attempt(stall);
    stall->writes =
        (struct stall_writes){ .seconds = stall->writes.seconds, .room = stall->writes.room };
    for (int i = 0; i < STALL_PAUSES; i++) {
        stall->pause[i].count = 0;
        stall->pause[i].slow = 0;
        stall->pause[i].hot = false; /* the next one will tell, if one comes */
    }
}

bool stall_files_room(struct stall_files **files, uint32_t *room, uint32_t world)
{
    return ARRAY_FIT_ZERO(*files, *room, world);
}

bool stall_waits(const struct judge_state *judge, const struct stall_files *seen)
{
    return (double)seen->most >= judge->limits.storage_looks && 2 * seen->waits >= seen->looks;
}

static void stall_files_beat(struct judge_state *judge, const struct fact_beat *beat)
{
    const struct beat_storage *seen = &beat->storage[BEAT_STORAGE_DATA];
    struct stall *stall = judge->stall;
    uint32_t world = judge->model.world;
    float fade;

    if (beat->rank >= world || (!stall->files && seen->waits == 0))
        return;
    if (!stall_files_room(&stall->files, &stall->files_room, world))
        return;
    fade = FADE;
    stall->files[beat->rank].looks = fade * stall->files[beat->rank].looks + (float)seen->looks;
    stall->files[beat->rank].waits = fade * stall->files[beat->rank].waits + (float)seen->waits;
}

bool stall_waits_for_storage(const struct judge_state *judge, uint32_t rank,
                             struct stall_files *seen)
{
    const struct stall *stall = judge->stall;

    *seen = (struct stall_files){ 0 };
    for (uint32_t i = 0; i < stall->files_room; i++) {
        if (rank != MODEL_NONE && i != rank)
            continue;
        seen->looks += stall->files[i].looks;
        seen->waits += stall->files[i].waits;
        seen->most = MAX(seen->most, stall->files[i].waits);
    }
    return stall_waits(judge, seen);
}

void stall_beat(struct judge_state *judge, const struct fact_beat *beat)
{
    if (beat->attempt != judge->model.attempt)
        return;
    stall_pause_beat(judge, beat);
    stall_files_beat(judge, beat);
    stall_start_beat(judge, beat);
}

double stall_typical_ms(const struct judge_state *judge, uint32_t steps, split_part *part)
{
    uint32_t world = judge->model.world, stride = world / 257 + 1, used = 0;
    double value[257];

    for (uint32_t rank = 0; rank < world && used < COUNT(value); rank += stride) {
        if (history_back(&judge->history, 0)->split[rank].present)
            value[used++] = history_part_ms(&judge->history, rank, steps, part);
    }
    return median_f64(value, used);
}

static void stall_step(struct judge_state *judge)
{
    stall_start_step(judge);
    stall_input_step(judge);
    stall_pause_step(judge);
    stall_write_step(judge);
}

/* Pauses are not the steps': what one costs is told by itself. */
static bool stall_remedy(struct judge_state *judge, const struct tracked_verdict *tracked)
{
    const struct stall_input *input = &judge->stall->input;

    if (tracked->verdict.kind != VERDICT_INPUT_STALL)
        return price_remedy_ranks(judge, tracked);
    if (strcmp(tracked->verdict.group, "input") != 0 || input->world < judge->model.world)
        return false;
    program_trial_shorter(judge->program, judge->job_step, LOCKSTEP_PHASE_DATA, input->level_ns);
    return true;
}

const struct judge judge_stall = {
    .name = "stall", .step = stall_step, .evidence = EVIDENCE_TIMES, .remedy = stall_remedy
};
