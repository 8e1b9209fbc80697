/* postmortem_states.c - which ops are incomplete.
 *
 * Some recorders store it for each op.  If all ops are "scheduled", it follows from what the ranks entered: a
 * collective that a member has not entered is incomplete, and so may be any op that follows such an op on the device
 * of a member.  All others are complete: a rank without any incomplete op stopped by itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"

static bool postmortem_is_newest_here(const struct scene *scene, const struct circle *circle,
                                      uint32_t group)
{
    for (uint32_t m = 0; m < circle->count; m++) {
        uint32_t r = circle->seat[m].rank;

        if (scene->last[r] != DUMP_NONE && scene->dumps->rank[r].op[scene->last[r]].group == group)
            return true;
    }
    return false;
}

bool circle_all_known(const struct circle *circle)
{
    for (uint32_t m = 0; m < circle->count; m++) {
        if (!circle->seat[m].known)
            return false;
    }
    return true;
}

/* Up to which number a group's ops can be over: everybody known has entered them.  With a member unknown, the newest
 * are taken for open where somebody did nothing after them.
 */
static int64_t postmortem_entered_by_all(const struct scene *scene, uint32_t group)
{
    const struct circle *circle = &scene->circle[group];

    if (circle->slowest < circle->furthest || circle_all_known(circle) ||
        !postmortem_is_newest_here(scene, circle, group))
        return circle->slowest;
    return circle->furthest - 1;
}

bool scene_op_is_collective(const struct scene *scene, const struct dump_op *op)
{
    return op->peer == DUMP_NONE && op->seq != DUMP_UNKNOWN && !scene->circle[op->group].pairs;
}

/* Behind an op that is not over nothing of a rank is certain to be over.  Returns whether a limit sank. */
static bool postmortem_sink_behind(const struct scene *scene, uint32_t rank, int64_t *limit)
{
    const struct dump_rank *of = &scene->dumps->rank[rank];
    bool open = false, sank = false;

    for (size_t i = 0; i < of->ops; i++) {
        const struct dump_op *op = &of->op[i];

        if (!scene_op_is_collective(scene, op)) {
            open |= op->peer != DUMP_NONE && scene_op_pending(scene, rank, i) != OP_OVER;
            continue;
        }
        open |= op->seq > limit[op->group];
        if (open && op->seq <= limit[op->group]) {
            limit[op->group] = op->seq - 1;
            sank = true;
        }
    }
    return sank;
}

static void postmortem_seats_pending(struct scene *scene, const int64_t *limit)
{
    for (uint32_t g = 0; g < scene->dumps->groups; g++) {
        struct circle *circle = &scene->circle[g];

        for (uint32_t m = 0; m < circle->count && !circle->pairs; m++)
            circle->seat[m].pending = circle->seat[m].known && circle->seat[m].entered > limit[g];
    }
}

static enum pending postmortem_op_pending(const struct scene *scene, const struct dump_op *op,
                                          int64_t entered, int64_t limit)
{
    if (!scene_op_is_collective(scene, op) || op->seq <= limit)
        return OP_OVER;
    return op->seq > entered ? OP_OPEN : OP_MAYBE;
}

static void postmortem_ops_pending(struct scene *scene, const int64_t *entered,
                                   const int64_t *limit)
{
    for (uint32_t r = 0; r < scene->dumps->ranks; r++) {
        const struct dump_rank *of = &scene->dumps->rank[r];

        for (size_t i = 0; i < of->ops; i++) {
            const struct dump_op *op = &of->op[i];

            if (op->peer == DUMP_NONE)
                scene->pending[scene->first_op[r] + i] =
                    !scene->states
                        ? postmortem_op_pending(scene, op, entered[op->group], limit[op->group])
                    : scene_over(scene, r, op) ? OP_OVER
                                               : OP_OPEN;
        }
    }
}

int scene_infer(struct scene *scene)
{
    size_t groups = scene->dumps->groups;
    CLEAN(free_clean) int64_t *entered = calloc(groups + 1, sizeof(*entered));
    CLEAN(free_clean) int64_t *limit = calloc(groups + 1, sizeof(*limit));
    bool sank = !scene->states;

    if (!entered || !limit)
        return -ENOMEM;
    for (uint32_t g = 0; g < groups; g++) {
        struct circle *circle = &scene->circle[g];

        circle->all_known = circle_all_known(circle);
        entered[g] = circle->open_after = postmortem_entered_by_all(scene, g);
        limit[g] = circle->all_known ? entered[g] : MIN(entered[g], circle->furthest - 1);
    }
    while (sank) { /* ends: each time a limit sinks below one more op */
        sank = false;
        for (uint32_t r = 0; r < scene->dumps->ranks; r++)
            sank |= postmortem_sink_behind(scene, r, limit);
    }
    if (!scene->states)
        postmortem_seats_pending(scene, limit);
    postmortem_ops_pending(scene, entered, limit);
    return 0;
}

enum pending scene_op_pending(const struct scene *scene, uint32_t rank, size_t op)
{
    return scene->pending[scene->first_op[rank] + op];
}
