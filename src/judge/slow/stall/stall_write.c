/* stall_write.c - which rank and disk a checkpoint waited for.
 *
 * Ranks that wait for a checkpoint wait until the slowest of them has written its part: their pauses are alike, and nothing in them
 * shows whose disk was slow.  The ranks' notes do: each has what its own part took.  They come after the pause was judged, so an open
 * verdict gets its evidence then.
 *
 * Saves that are skipped delay nothing, but then the disk is slower than the training saves, and a crash loses more than was planned.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/median.h"
#include "judge/slow/stall/stall_private.h"

#define WRITE_NOT_NOTED (-1.0)
#define WRITE_TIMES 2.0  /* of what the median of the others took: beyond it one rank is slow */
#define WRITE_LEAST 0.05 /* seconds beyond it, or it is noise */
#define WRITE_SHARE 0.5  /* of a pause: what took more than that was the cause of it */
#define SKIPS_LEAST 2    /* points in a row before which saves were skipped */

/* ---- the point ---- */

static void write_point_end(const struct judge_state *judge, struct stall_writes *writes)
{
    CLEAN(free_clean) double *value = malloc(judge->model.world * sizeof(*value));
    uint64_t before = writes->done.skipped;
    uint32_t others = 0;

    writes->done = writes->point;
    writes->skips = writes->known && writes->point.skipped > before ? writes->skips + 1 : 0;
    writes->newly_skipped =
        writes->known ? writes->point.skipped - MIN(before, writes->point.skipped) : 0;
    writes->known = true;
    for (uint32_t rank = 0; value && rank < judge->model.world; rank++) {
        if (rank != writes->done.slowest)
            value[others++] = writes->seconds[rank];
    }
    writes->done.median_s = others ? median_f64(value, others) : 0;
}

/* Most of the pause in which it was saved went into writing: both of the rank that took longest. */
static bool write_was_the_pause(const struct stall *stall, const struct write_point *point)
{
    const struct stall_pause *pause = &stall->pause[PAUSE_CHECKPOINT];

    for (uint64_t i = 0; i < MIN(pause->count, STALL_USUAL); i++) {
        const struct stall_event *event = &pause->event[i];

        if (event->step <= point->saved_in + 1 && point->saved_in <= event->step + 1)
            return point->most_s * 1e3 > WRITE_SHARE * event->ms;
    }
    return false;
}

static bool write_is_alone(const struct write_point *point)
{
    return point->median_s > 0 && point->most_s > WRITE_TIMES * point->median_s &&
           point->most_s - point->median_s > WRITE_LEAST;
}

static void write_describe(const struct write_point *point, struct verdict *verdict)
{
    const char *disk = point->disk[0] ? point->disk : "a disk that is not known";
    double megabytes = (double)point->bytes / 1e6;

    if (point->ranks == 1)
        verdict_because(verdict, "note",
                        "checkpoint of step %" PRIu64 ": writing %.3g MB to %s took %.3g s",
                        point->step, megabytes, disk, point->most_s);
    else
        verdict_because(verdict, "note",
                        "checkpoint of step %" PRIu64 ": rank %" PRIu32 " took %.3g s to write "
                        "%.3g MB to %s, the others %.3g s (median)",
                        point->step, point->slowest, point->most_s, megabytes, disk,
                        point->median_s);
}

/* ---- verdicts ---- */

static bool write_names(const struct verdict *verdict, uint32_t rank)
{
    for (uint32_t i = 0; i < MIN(verdict->rank_count, VERDICT_RANKS); i++) {
        if (verdict->rank[i] == rank)
            return true;
    }
    return false;
}

void stall_write_renew(const struct judge_state *judge, struct tracked_verdict *tracked)
{
    struct stall_writes *writes = &judge->stall->writes;
    struct verdict *verdict = &tracked->verdict;
    const struct write_point *point = &writes->done;

    if (!writes->known || writes->reported || point->saved_in + 1 < verdict->since_step ||
        verdict->kind != VERDICT_CHECKPOINT_STALL)
        return;
    writes->reported = true;
    write_describe(point, verdict);
    if (write_is_alone(point)) {
        verdict->layer = LAYER_STORAGE;
        if (!write_names(verdict, point->slowest))
            judge_state_add_rank(judge, verdict, point->slowest);
    } else if (write_was_the_pause(judge->stall, point)) {
        verdict->layer = LAYER_STORAGE;
    }
    tracked->changed = true;
}

static void write_accuse_skips(struct judge_state *judge, struct stall_writes *writes)
{
    const struct write_point *point = &writes->done;
    struct verdict draft = signal_draft(judge, SIGNAL_SKIPS, NULL);
    struct tracked_verdict *tracked;
    bool fresh;

    snprintf(draft.group, sizeof(draft.group), "checkpoint");
    if (write_is_alone(point))
        judge_state_add_rank(judge, &draft, point->slowest);
    draft.since_step = point->saved_in;
    verdict_because(&draft, "note",
                    "%" PRIu64
                    " saves were skipped since the checkpoint before that of step %" PRIu64
                    ", and others before that one",
                    writes->newly_skipped, point->step);
    write_describe(point, &draft);
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked)
        snprintf(writes->verdict, sizeof(writes->verdict), "%s", tracked->verdict.id);
}

void stall_write_step(struct judge_state *judge)
{
    const struct stall_writes *writes = &judge->stall->writes;

    for (uint32_t i = 0; writes->verdict[0] && i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && strcmp(tracked->verdict.id, writes->verdict) == 0)
            tracked->seen_step = history_back(&judge->history, 0)->step;
    }
}

/* No rank has noted this one. */
static void write_point_begin(struct stall_writes *writes, uint32_t world, uint64_t step)
{
    writes->point = (struct write_point){ .step = step };
    for (uint32_t rank = 0; rank < world; rank++)
        writes->seconds[rank] = WRITE_NOT_NOTED;
}

void stall_save(struct judge_state *judge, uint32_t rank, const struct save_note *save)
{
    struct stall_writes *writes = &judge->stall->writes;
    struct write_point *point = &writes->point;
    double seconds = (double)save->write_us / 1e6;

    if (rank >= judge->model.world ||
        !ARRAY_FIT_ZERO(writes->seconds, writes->room, judge->model.world))
        return;
    if (!point->ranks || point->step != save->step || point->ranks >= judge->model.world)
        write_point_begin(writes, judge->model.world, save->step);
    if (writes->seconds[rank] >= 0) /* twice: it does not stand for a rank that has not come */
        return;
    point->ranks++;
    point->skipped += save->skipped;
    point->saved_in = MAX(point->saved_in, save->saved_in);
    writes->seconds[rank] = seconds;
    if (point->ranks == 1 || seconds > point->most_s) {
        point->most_s = seconds;
        point->slowest = rank;
        point->bytes = save->bytes;
        snprintf(point->disk, sizeof(point->disk), "%s", save->disk);
    }
    if (point->ranks < judge->model.world)
        return;
    write_point_end(judge, writes);
    writes->reported = false;
    if (writes->skips >= SKIPS_LEAST)
        write_accuse_skips(judge, writes);
    else if (writes->skips == 0)
        writes->verdict[0] = '\0';
}
