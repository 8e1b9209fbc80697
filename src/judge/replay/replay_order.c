/* replay_order.c - an order in which everything comes after what it follows.
 *
 * By level (the longest way from the start), within a level by number.  So when ops that do
 * the same on different ranks are given next to each other, they stay so, and their
 * predecessors too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/replay/replay_program.h"

#define LEVEL_NEW 0           /* not looked at */
#define LEVEL_OPEN UINT32_MAX /* on the stack: what it follows has no level yet */

/* Depth first with a stack of its own; every node is on it at most once. */
struct order_walk {
    const struct replay_graph *graph;
    uint32_t *level; /* by node */
    uint32_t *stack;
    size_t depth;
    struct {
        uint32_t looked, highest; /* givers looked at so far, and their highest level */
    } * meet;
    uint32_t circle; /* a node that was met again while open; 0: none */
};

static void walk_fini(struct order_walk *walk)
{
    free(walk->stack);
    free(walk->meet);
}

/* Has this one a level?  If not, it goes on the stack. */
static bool walk_look(struct order_walk *walk, uint32_t node, uint32_t *highest)
{
    uint32_t level = walk->level[node];

    if (level == LEVEL_NEW) {
        walk->level[node] = LEVEL_OPEN;
        walk->stack[walk->depth++] = node;
        return false;
    }
    if (level == LEVEL_OPEN) {
        walk->circle = node;
        return false;
    }
    *highest = MAX(*highest, level);
    return true;
}

static bool walk_look_wide(struct order_walk *walk, size_t meet, uint32_t *highest)
{
    const uint32_t *giver = walk->graph->giver + walk->graph->giver_from[meet];
    uint32_t count = walk->graph->giver_from[meet + 1] - walk->graph->giver_from[meet];

    while (walk->meet[meet].looked < count) {
        if (!walk_look(walk, giver[walk->meet[meet].looked], &walk->meet[meet].highest))
            return false;
        walk->meet[meet].looked++;
    }
    *highest = walk->meet[meet].highest;
    return true;
}

/* Gives the topmost node its level, or puts on the stack what it still needs. */
static void walk_step(struct order_walk *walk)
{
    uint32_t node = walk->stack[walk->depth - 1];
    int64_t wide = replay_graph_wide(walk->graph, node);
    uint32_t highest = 0, follows[2];

    if (wide >= 0) {
        if (!walk_look_wide(walk, (size_t)wide, &highest))
            return;
    } else {
        replay_graph_follows(walk->graph, node, follows);
        if (!walk_look(walk, follows[0], &highest) || !walk_look(walk, follows[1], &highest))
            return;
    }
    walk->level[node] = highest + 1;
    walk->depth--;
}

/* From the node met again to the top, each entry of the stack follows the one above it, and the
 * last the first.  At least one of them is an op, since meets follow ops.
 */
static int walk_error(const struct order_walk *walk, struct err *err)
{
    const struct replay_op *op = walk->graph->op;
    uint32_t found[2] = { 0 };
    size_t n = 0, from = walk->depth - 1;

    while (walk->stack[from] != walk->circle)
        from--;
    for (size_t i = from; i < walk->depth; i++) {
        if (walk->stack[i] > walk->graph->op_count)
            continue;
        if (n < COUNT(found))
            found[n] = walk->stack[i] - 1;
        n++;
    }
    if (n == 1)
        return err_set(err, -ELOOP, "op %u on line %u waits for itself", found[0],
                       op[found[0]].line);
    return err_set(err, -ELOOP,
                   "op %u on line %u waits for itself by way of op %u on line %u (%zu ops in a "
                   "circle)",
                   found[0], op[found[0]].line, found[1], op[found[1]].line, n);
}

static int walk_all(struct order_walk *walk, struct err *err)
{
    memset(walk->level, 0, walk->graph->count * sizeof(*walk->level));
    walk->level[0] = 1;
    for (uint32_t node = 1; node < walk->graph->count; node++) {
        if (walk->level[node] != LEVEL_NEW)
            continue;
        walk->level[node] = LEVEL_OPEN;
        walk->stack[walk->depth++] = node;
        while (walk->depth > 0) {
            walk_step(walk);
            if (walk->circle != 0)
                return walk_error(walk, err);
        }
    }
    return 0;
}

/* From levels to slots, in place: a counting sort. */
static int order_by_level(uint32_t *level, size_t count)
{
    CLEAN(free_clean) uint32_t *next = NULL;
    uint32_t highest = 0;

    for (size_t i = 0; i < count; i++)
        highest = MAX(highest, level[i]);
    next = calloc((size_t)highest + 2, sizeof(*next));
    if (!next)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        next[level[i] + 1]++;
    for (size_t i = 1; i < (size_t)highest + 2; i++)
        next[i] += next[i - 1];
    for (size_t i = 0; i < count; i++)
        level[i] = next[level[i]]++;
    return 0;
}

int replay_order(const struct replay_graph *graph, uint32_t *slot, struct err *err)
{
    CLEAN(walk_fini) struct order_walk walk = { .graph = graph, .level = slot };
    int r;

    walk.stack = malloc(graph->count * sizeof(*walk.stack));
    walk.meet = calloc(graph->meet_count + 1, sizeof(*walk.meet));
    if (!walk.stack || !walk.meet)
        return err_nomem(err);
    r = walk_all(&walk, err);
    return r == 0 && order_by_level(slot, graph->count) < 0 ? err_nomem(err) : r;
}
