/* postmortem_frontier.c - ranks whose device stopped inside a collective.
 *
 * In an all-reduce every member needs every other: once one member has completed it, all have sent their data.  A rank that
 * has not completed it therefore does not wait for another rank; its own device stopped, whatever its host enqueued
 * later.  Only the oldest incomplete op of a rank counts: the ops behind it wait for the device.
 *
 * One case looks alike and is asked first: a process that is stopped in the middle of a ring transfer leaves its neighbour
 * waiting for its data, while ranks further along the ring have completed the op.  There the open op is the neighbour's
 * newest, because its host waits for it, and the stopped process left no dump.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"

static bool postmortem_needs_every_member(const char *name)
{
    static const char *const names[] = { "all_reduce", "allreduce",  "all_gather",     "allgather",
                                         "barrier",    "all_to_all", "reduce_scatter", "alltoall" };

    for (size_t i = 0; i < COUNT(names); i++) {
        if (strstr(name, names[i]))
            return true;
    }
    return false;
}

/* Index of its oldest op that is not complete; DUMP_NONE: there is none, or it cannot be compared. */
static uint32_t postmortem_oldest_open(const struct scene *scene, uint32_t rank)
{
    const struct dump_rank *of = &scene->dumps->rank[rank];

    for (uint32_t i = 0; i < of->ops; i++) {
        const struct dump_op *op = &of->op[i];

        if (scene_op_pending(scene, rank, i) == OP_OVER)
            continue;
        return op->peer == DUMP_NONE && op->seq != DUMP_UNKNOWN &&
                       !scene->circle[op->group].pairs &&
                       postmortem_needs_every_member(scene->dumps->what[op->what].name)
                   ? i
                   : DUMP_NONE;
    }
    return DUMP_NONE;
}

/* A member of the group that has completed the op; DUMP_NONE. */
static uint32_t postmortem_completed_by(const struct scene *scene, const struct dump_op *op)
{
    const struct circle *circle = &scene->circle[op->group];

    for (uint32_t m = 0; m < circle->count; m++) {
        const struct seat *seat = &circle->seat[m];

        if (seat->known && seat->completed != DUMP_UNKNOWN && seat->completed >= op->seq)
            return seat->rank;
    }
    return DUMP_NONE;
}

/* A neighbour in the ring of the group that left no dump; DUMP_NONE. */
static uint32_t postmortem_silent_neighbour(const struct scene *scene, uint32_t group,
                                            uint32_t rank)
{
    const struct circle *circle = &scene->circle[group];
    const struct seat *seat = scene_seat(scene, group, rank);
    uint32_t at = seat ? (uint32_t)(seat - circle->seat) : 0;
    uint32_t around[2] = { (at + circle->count - 1) % circle->count, (at + 1) % circle->count };

    for (size_t i = 0; seat && i < COUNT(around); i++) {
        uint32_t other = circle->seat[around[i]].rank;

        if (other != rank && scene->dumps->rank[other].left == DUMP_NOTHING)
            return other;
    }
    return DUMP_NONE;
}

int inquest_frontier(struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;
    int result = 0;

    for (uint32_t r = 0; r < scene->dumps->ranks && scene->states && result == 0; r++) {
        uint32_t at = postmortem_oldest_open(scene, r), by, neighbour;
        const struct dump_op *op = at == DUMP_NONE ? NULL : &scene->dumps->rank[r].op[at];

        by = op ? postmortem_completed_by(scene, op) : DUMP_NONE;
        if (by == DUMP_NONE)
            continue;
        neighbour =
            at == scene->last[r] ? postmortem_silent_neighbour(scene, op->group, r) : DUMP_NONE;
        if (neighbour != DUMP_NONE) {
            inquest->excused[r] = true;
            result = inquest_suspect(inquest, (struct postmortem_suspect){ .rank = neighbour,
                                                                           .group = op->group,
                                                                           .waiters = 1,
                                                                           .transfer = true,
                                                                           .by = r });
        } else {
            result = inquest_suspect(inquest,
                                     (struct postmortem_suspect){
                                         .rank = r, .group = op->group, .device = true, .by = by });
        }
    }
    return result;
}
