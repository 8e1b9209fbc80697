/* clock.c - bounds per step, kept for some steps (clocks drift), intersected.
 *
 * The node of the first rank has the run's clock.  Nodes that share a collective with it are level 1, those
 * that share one with them level 2, and so on; a node is bounded only by lower levels, and
 * their errors widen its bounds, so that no estimate ever confirms itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/step/clock.h"

#include <stdlib.h>

#include "core/clean.h"

#define BOUND_LOW (INT64_MIN / 4)
#define BOUND_HIGH (INT64_MAX / 4)
#define LEVELS_MAX 8

struct reference { /* of one meeting: members of lower levels, on the common clock */
    int64_t last_start_ns, first_end_ns; /* not later, not earlier than the true ones */
    int64_t end_ns;                      /* mean over members */
    uint32_t members;
};

struct clock {
    struct model *model;
    const struct job_step *job_step;
    struct reference *reference;
    int64_t wall_ns;
    uint32_t slot, level, first;
};

typedef void member_visit(struct clock *clock, struct reference *reference, uint32_t node,
                          const struct item_time *time, int64_t begin_ns);

/* Calls `visit` for each member of each collective that tells something. */
static void clock_each_member(struct clock *clock, member_visit *visit)
{
    const struct model *model = clock->model;

    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = clock->job_step->shape_of[rank];
        uint32_t node = model->rank[rank].node;

        for (uint32_t i = 0; shape && node < model->nodes && i < shape->clocks; i++) {
            const struct fact_step *step = &clock->job_step->step_of[rank];
            uint32_t item = shape->clock[i];
            size_t at = (size_t)shape->comm[item] * CLOCK_INSTANCES + shape->ordinal[item];

            visit(clock, &clock->reference[at], node, &step->time[item], step->begin_ns);
        }
    }
}

static bool clock_is_known(const struct clock *clock, uint32_t node)
{
    return node == 0 ||
           (clock->model->node[node].level > 0 && clock->model->node[node].level < clock->level &&
            clock->model->node[node].aligned);
}

static void clock_visit_known(struct clock *clock, struct reference *reference, uint32_t node,
                              const struct item_time *time, int64_t begin_ns)
{
    const struct model_node *at = &clock->model->node[node];
    int64_t begin = begin_ns + at->offset_ns;

    if (!clock_is_known(clock, node))
        return;
    reference->last_start_ns = MAX(reference->last_start_ns, begin + time->start_ns - at->error_ns);
    reference->first_end_ns = MIN(reference->first_end_ns, begin + time->end_ns + at->error_ns);
    reference->members++; /* a running mean: the sum would not fit */
    reference->end_ns += (begin + time->end_ns - reference->end_ns) / reference->members;
}

static void clock_visit_bound(struct clock *clock, struct reference *reference, uint32_t node,
                              const struct item_time *time, int64_t begin_ns)
{
    struct model_node *at = &clock->model->node[node];
    struct clock_bound *bound = &at->bound[clock->slot];
    int64_t start = begin_ns + time->start_ns, end = begin_ns + time->end_ns;

    if (node == clock->first || reference->members == 0)
        return;
    if (at->level == 0)
        at->level = clock->level;
    if (at->level != clock->level)
        return;
    bound->low_ns = MAX(bound->low_ns, reference->last_start_ns - end);
    bound->high_ns = MIN(bound->high_ns, reference->first_end_ns - start);
    bound->ends++;
    bound->end_ns += (reference->end_ns - end - bound->end_ns) / bound->ends;
}

static void clock_bound_clear(struct clock_bound *bound)
{
    *bound = (struct clock_bound){ .low_ns = BOUND_LOW, .high_ns = BOUND_HIGH };
}

static void clock_bounds_join(const struct model_node *node, struct clock_bound *all)
{
    clock_bound_clear(all);
    for (int i = 0; i < CLOCK_STEPS; i++) {
        const struct clock_bound *bound = &node->bound[i];

        if (!bound->ends)
            continue;
        all->low_ns = MAX(all->low_ns, bound->low_ns);
        all->high_ns = MIN(all->high_ns, bound->high_ns);
        all->ends++;
        all->end_ns += (bound->end_ns - all->end_ns) / all->ends;
    }
}

static void clock_node_settle(const struct clock *clock, struct model_node *node)
{
    const struct model_node *first = &clock->model->node[clock->first];
    struct clock_bound all;

    clock_bounds_join(node, &all);
    if (all.low_ns > all.high_ns) { /* it drifted or was set: only the newest step counts */
        for (uint32_t i = 0; i < CLOCK_STEPS; i++) {
            if (i != clock->slot)
                clock_bound_clear(&node->bound[i]);
        }
        clock_bounds_join(node, &all);
    }
    if (!all.ends || all.low_ns > all.high_ns)
        return; /* nothing bounds it, or the times themselves are wrong */
    if (node->real_ns && first->real_ns) {
        int64_t wall = node->real_ns - first->real_ns;

        if (wall - all.end_ns < clock->wall_ns && all.end_ns - wall < clock->wall_ns)
            all.end_ns = wall;
    }
    node->offset_ns = MAX(all.low_ns, MIN(all.high_ns, all.end_ns));
    node->error_ns = MAX(node->offset_ns - all.low_ns, all.high_ns - node->offset_ns);
    node->aligned = true;
}

/* One level: what lower ones say about its nodes.  False: no node is that far away. */
static bool clock_level_align(struct clock *clock, size_t meetings)
{
    bool any = false;

    for (size_t i = 0; i < meetings; i++)
        clock->reference[i] =
            (struct reference){ .last_start_ns = INT64_MIN, .first_end_ns = INT64_MAX };
    clock_each_member(clock, clock_visit_known);
    clock_each_member(clock, clock_visit_bound);
    for (uint32_t node = 0; node < clock->model->nodes; node++) {
        if (clock->model->node[node].level != clock->level)
            continue;
        clock_node_settle(clock, &clock->model->node[node]);
        any = true;
    }
    return any;
}

static bool clock_all_done(const struct clock *clock)
{
    for (uint32_t node = 0; node < clock->model->nodes; node++) {
        uint32_t level = clock->model->node[node].level;

        if (node == clock->first)
            continue;
        if (level == 0 || level > clock->level)
            return false;
    }
    return true;
}

static uint32_t clock_first_node(const struct model *model, const struct job_step *job_step)
{
    uint32_t rank = 0;

    while (rank < model->world && !job_step->shape_of[rank])
        rank++;
    return rank < model->world ? model->rank[rank].node : MODEL_NONE;
}

void clock_align(struct model *model, const struct job_step *job_step, int64_t wall_ns)
{
    const size_t meetings = (size_t)model->comms * CLOCK_INSTANCES;
    struct clock clock = { .model = model, .job_step = job_step, .wall_ns = wall_ns };
    CLEAN(free_clean) struct reference *reference = NULL;
    struct model_node *first;

    if (model->nodes < 2 || meetings == 0)
        return;
    reference = malloc(meetings * sizeof(*reference));
    if (!reference)
        return;
    clock.reference = reference;
    clock.slot = (uint32_t)(job_step->step % CLOCK_STEPS);
    clock.first = clock_first_node(model, job_step);
    if (clock.first >= model->nodes)
        return;
    first = &model->node[clock.first];
    first->offset_ns = first->error_ns = first->level = 0;
    first->aligned = true;
    for (uint32_t node = 0; node < model->nodes; node++)
        clock_bound_clear(&model->node[node].bound[clock.slot]);
    for (clock.level = 1; clock.level <= LEVELS_MAX; clock.level++) {
        if (!clock_level_align(&clock, meetings) || clock_all_done(&clock))
            break;
    }
}
