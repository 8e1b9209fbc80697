/* crash_point.c - the checkpoint from which a job that crashed can continue.
 *
 * Each rank notes when its part of a checkpoint was read back from the disk and found right.  A point counts once all ranks have
 * noted it: a restart takes no other.  Ranks that saved it in different steps have saved something that never was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "judge/crash/crash_private.h"

#define POINT_CONTINUES "the job can continue from the checkpoint of step "
#define POINT_NONE "no checkpoint is verified by all ranks: that of step "

/* Exactly as the Python package writes it. */
static bool crash_point_parse(const char *text, uint64_t *ret_step, uint64_t *ret_saved_in)
{
    char again[128];

    if (sscanf(text, CRASH_POINT, ret_step, ret_saved_in) != 2)
        return false;
    snprintf(again, sizeof(again), CRASH_POINT_TEXT, *ret_step, *ret_saved_in);
    return strcmp(again, text) == 0;
}

/* Of those that are known, one that it may replace: the oldest. */
static struct judge_point *crash_point_of(struct judge_state *judge, uint64_t step)
{
    struct judge_point *oldest = &judge->point[0];

    for (size_t i = 0; i < COUNT(judge->point); i++) {
        if (judge->point[i].ranks && judge->point[i].step == step)
            return &judge->point[i];
        if (!judge->point[i].ranks || (oldest->ranks && judge->point[i].step < oldest->step))
            oldest = &judge->point[i];
    }
    return oldest;
}

/* ---- ranks that saved it in different steps ---- */

static bool crash_point_agrees(const struct judge_point *point)
{
    return point->side[1].ranks == 0;
}

/* The lowest ranks are named, in their order: notes of ranks come in any order, and must make the same verdict. */
static void crash_side_add(struct point_side *side, uint64_t saved_in, uint32_t rank)
{
    uint32_t at = MIN(side->ranks, POINT_NAMED);

    if (!side->ranks)
        side->saved_in = saved_in;
    side->ranks++;
    if (at == POINT_NAMED && rank > side->rank[at - 1])
        return;
    for (at = MIN(at, POINT_NAMED - 1); at && side->rank[at - 1] > rank; at--)
        side->rank[at] = side->rank[at - 1];
    side->rank[at] = rank;
}

static void crash_sides_sort(const struct judge_point *point, const struct point_side **ret_most,
                             const struct point_side **ret_least)
{
    const struct point_side *side = point->side;
    bool first = side[0].ranks > side[1].ranks ||
                 (side[0].ranks == side[1].ranks && side[0].rank[0] < side[1].rank[0]);

    *ret_most = &side[first ? 0 : 1];
    *ret_least = &side[first ? 1 : 0];
}

/* In the order of their numbers; `other` may be NULL. */
static void crash_sides_name(const struct judge_state *judge, const struct point_side *side,
                             const struct point_side *other, struct verdict *draft)
{
    uint32_t count = MIN(side->ranks, POINT_NAMED),
             others = other ? MIN(other->ranks, POINT_NAMED) : 0, i = 0, k = 0;

    while (i < count || k < others) {
        bool from_side = k == others || (i < count && side->rank[i] < other->rank[k]);

        judge_state_add_rank(judge, draft, from_side ? side->rank[i++] : other->rank[k++]);
    }
}

/* Every checksum of such a checkpoint is right, and no step of the training ever had these parameters.  The fewer ranks are
 * named; if both sides are equal in number, all of them, since nothing shows which step was meant.
 */
static void crash_point_accuse(struct judge_state *judge, const struct judge_point *point)
{
    const struct point_side *most, *least;
    struct verdict draft = { .kind = VERDICT_CORRUPTION, .layer = LAYER_CHECKPOINT };
    bool fresh;

    crash_sides_sort(point, &most, &least);
    crash_sides_name(judge, least, most->ranks == least->ranks ? most : NULL, &draft);
    draft.confidence = most->ranks == least->ranks ? 0.7 : 0.9;
    draft.since_step = MIN(most->saved_in, least->saved_in);
    draft.since_real_ns = judge_state_step_real_ns(judge, draft.since_step);
    snprintf(draft.cause, sizeof(draft.cause), "ranks saved one checkpoint in different steps");
    verdict_because(&draft, "note",
                    "checkpoint of step %" PRIu64 ": %" PRIu32 " of %" PRIu32
                    " ranks saved it in step %" PRIu64 ", rank %" PRIu32 " in step %" PRIu64,
                    point->step, most->ranks, point->ranks, most->saved_in, least->rank[0],
                    least->saved_in);
    verdict_because(&draft, "note",
                    "its checksums are right, but its parts belong to different steps; do not "
                    "continue from it");
    judge_state_find(judge, &draft, &fresh);
}

bool crash_restored_note(struct judge_state *judge, const struct fact_note *fact)
{
    char again[64];
    uint64_t step;

    if (sscanf(fact->text, CRASH_RESTORED "%" SCNu64, &step) != 1)
        return false;
    snprintf(again, sizeof(again), CRASH_RESTORED "%" PRIu64, step);
    if (strcmp(again, fact->text) != 0)
        return false;
    judge->restored.known = true;
    judge->restored.attempt = fact->attempt;
    judge->restored.step = step;
    return true;
}

bool crash_point_note(struct judge_state *judge, const struct fact_note *fact)
{
    struct judge_point *point;
    uint64_t step, saved_in;

    if (!crash_point_parse(fact->text, &step, &saved_in))
        return false;
    point = crash_point_of(judge, step);
    if (point->ranks && point->step > step) /* it is older than all that are known */
        return true;
    if (!point->ranks || point->step != step || point->attempt != fact->attempt ||
        point->ranks >= judge->model.world)
        *point = (struct judge_point){ .step = step, .attempt = fact->attempt };
    crash_side_add(&point->side[point->ranks && saved_in != point->side[0].saved_in], saved_in,
                   fact->rank);
    point->ranks++;
    if (point->ranks == judge->model.world && !crash_point_agrees(point))
        crash_point_accuse(judge, point);
    return true;
}

void crash_points_restart(struct judge_state *judge)
{
    for (size_t i = 0; i < COUNT(judge->point); i++) {
        if (judge->point[i].ranks < judge->model.world)
            judge->point[i].ranks = 0;
    }
}

void crash_point_describe(const struct judge_state *judge, struct verdict *draft)
{
    const struct judge_point *best = NULL, *partly = NULL;
    uint64_t lost;

    for (size_t i = 0; i < COUNT(judge->point); i++) {
        const struct judge_point *point = &judge->point[i];

        if (!point
                 ->ranks) /* nobody noted one here; without a step, nobody knows the world either */
            continue;
        if (point->ranks >= judge->model.world && crash_point_agrees(point) &&
            (!best || point->step > best->step))
            best = point;
        if (point->ranks < judge->model.world && (!partly || point->step > partly->step))
            partly = point;
    }
    if (!best) {
        if (partly)
            verdict_because(draft, "note", POINT_NONE "%" PRIu64 " by %" PRIu32 " of %" PRIu32,
                            partly->step, partly->ranks, judge->model.world);
        return;
    }
    lost = judge->last_step - MIN(judge->last_step, best->side[0].saved_in);
    verdict_because(draft, "note",
                    POINT_CONTINUES "%" PRIu64 ", which all ranks have verified; %" PRIu64
                                    " complete step%s after it %s lost",
                    best->step, lost, lost == 1 ? "" : "s", lost == 1 ? "is" : "are");
}

/* Complete steps behind it that were lost; false: no rank has noted in which step it was saved. */
static bool crash_point_lost(const struct judge_state *judge, uint64_t step, uint64_t since,
                             uint64_t *ret)
{
    for (size_t i = 0; i < COUNT(judge->point); i++) {
        const struct judge_point *point = &judge->point[i];

        if (!point->ranks || point->step != step)
            continue;
        *ret = since - MIN(since, point->side[0].saved_in + 1);
        return true;
    }
    return false;
}

/* It is known better now: writers of checkpoints outlive their ranks, and verify what no rank can note any more; and a launcher or a
 * person may choose another one.
 */
void crash_point_continued(const struct judge_state *judge, struct verdict *verdict)
{
    uint64_t expected, step = judge->restored.step, lost;

    if (!judge->restored.known || judge->restored.attempt != judge->model.attempt)
        return;
    for (uint32_t i = 0; i < verdict->because_count; i++) {
        char *what = verdict->because[i].what;
        size_t room = sizeof(verdict->because[i].what);
        bool none = sscanf(what, POINT_NONE "%" SCNu64, &expected) == 1;

        if (!none && (sscanf(what, POINT_CONTINUES "%" SCNu64, &expected) != 1 || expected == step))
            continue;
        snprintf(what, room, "the job continued from the checkpoint of step %" PRIu64 "%s", step,
                 none              ? ""
                 : step > expected ? ", a newer one than all ranks had noted"
                                   : ", an older one than all ranks had noted");
        if (crash_point_lost(judge, step, verdict->since_step, &lost))
            snprintf(what + strlen(what), room - strlen(what),
                     "; %" PRIu64 " complete step%s after it %s lost", lost, lost == 1 ? "" : "s",
                     lost == 1 ? "is" : "are");
    }
}
