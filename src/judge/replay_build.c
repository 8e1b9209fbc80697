/* replay_build.c - puts the nodes of a graph in an order to run them, and finds what lines up.
 *
 * The order is by level (the longest way from the start), within a level by number.  So when
 * ops that do the same on different ranks are given next to each other, they stay so, their
 * predecessors too, and they become one block.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/replay_program.h"

#define BLOCK_MIN 8 /* shorter runs of neighbours are cheaper as a list */

#define LEVEL_NEW 0           /* not looked at */
#define LEVEL_OPEN UINT32_MAX /* on the stack: what it follows has no level yet */

/* The stack from `from` on is a circle: each entry follows the one above it, the last one
 * the first.  At least one of two nodes in a row is an op, since only ops follow trees.
 */
static int levels_circle(const struct replay_op *op, size_t op_count, const uint32_t *stack,
                         size_t from, size_t depth, struct err *err)
{
    uint32_t found[2] = { 0 };
    size_t n = 0;

    for (size_t i = from; i < depth; i++) {
        if (stack[i] >= 1 && stack[i] <= op_count) {
            if (n < COUNT(found))
                found[n] = stack[i] - 1;
            n++;
        }
    }
    if (n == 1)
        return err_set(err, -ELOOP, "op %u on line %u waits for itself", found[0],
                       op[found[0]].line);
    return err_set(err, -ELOOP,
                   "op %u on line %u waits for itself by way of op %u on line %u (%zu ops in the "
                   "circle)",
                   found[0], op[found[0]].line, found[1], op[found[1]].line, n);
}

/* Puts on the stack what the topmost node still needs, or gives that node its level.
 * Returns the new depth; 0 with *circle set to where a circle begins.
 */
static size_t levels_step(const struct replay_graph *graph, uint32_t *level, uint32_t *stack,
                          size_t depth, uint32_t *circle)
{
    uint32_t node = stack[depth - 1];
    uint32_t highest = 0;

    for (size_t k = 0; k < 2; k++) {
        uint32_t pred = graph->pred[node][k];

        if (level[pred] == LEVEL_OPEN) {
            *circle = pred;
            return 0;
        }
        if (level[pred] == LEVEL_NEW) {
            level[pred] = LEVEL_OPEN;
            stack[depth] = pred;
            return depth + 1;
        }
        highest = MAX(highest, level[pred]);
    }
    level[node] = highest + 1;
    return depth - 1;
}

/* Depth first with a stack of its own; every node is on it at most once. */
static int levels_init(const struct replay_graph *graph, uint32_t *level, uint32_t *stack,
                       const struct replay_op *op, size_t op_count, struct err *err)
{
    memset(level, 0, graph->count * sizeof(*level));
    level[0] = 1;
    for (size_t i = 1; i < graph->count; i++) {
        size_t depth = 0;

        if (level[i] == LEVEL_NEW) {
            level[i] = LEVEL_OPEN;
            stack[depth++] = (uint32_t)i;
        }
        while (depth > 0) {
            uint32_t circle = 0;
            size_t next = levels_step(graph, level, stack, depth, &circle);

            if (circle != 0) {
                size_t from = depth - 1;

                while (stack[from] != circle)
                    from--;
                return levels_circle(op, op_count, stack, from, depth, err);
            }
            depth = next;
        }
    }
    return 0;
}

/* From levels to slots, in place: a counting sort. */
static int levels_to_slots(uint32_t *level, size_t count)
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

static int replay_place_nodes(struct replay *replay, const struct replay_graph *graph,
                              const uint32_t *slot)
{
    replay->node = malloc(graph->count * sizeof(*replay->node));
    if (!replay->node)
        return -ENOMEM;
    for (size_t i = 0; i < graph->count; i++) {
        replay->node[slot[i]] = (struct replay_node){
            .a = slot[graph->pred[i][0]],
            .b = slot[graph->pred[i][1]],
            .op = i >= 1 && i <= replay->op_count ? (uint32_t)i - 1 : REPLAY_NONE,
        };
    }
    replay->slot_count = graph->count;
    return 0;
}

/* `last` and `arrival`: what a run has to look at after its nodes. */
static int replay_find_ends(struct replay *replay, const struct replay_graph *graph,
                            const uint32_t *slot)
{
    CLEAN(free_clean) uint8_t *followed = calloc(replay->slot_count, 1);
    size_t waiting = 0;

    if (!followed)
        return -ENOMEM;
    replay->last_count = replay->slot_count;
    for (size_t i = 1; i < replay->slot_count; i++) {
        replay->last_count -= !followed[replay->node[i].a];
        followed[replay->node[i].a] = 1;
        replay->last_count -= !followed[replay->node[i].b];
        followed[replay->node[i].b] = 1;
    }
    for (size_t i = 0; i < replay->op_count; i++)
        waiting += graph->waits[i];
    replay->last = malloc(replay->last_count * sizeof(*replay->last) + 1);
    replay->arrival = malloc(waiting * sizeof(*replay->arrival) + 1);
    if (!replay->last || !replay->arrival)
        return -ENOMEM;
    replay->last_count = 0;
    for (size_t i = 0; i < replay->slot_count; i++) {
        if (!followed[i])
            replay->last[replay->last_count++] = (uint32_t)i;
    }
    for (size_t i = 0; i < replay->op_count; i++) {
        if (graph->waits[i])
            replay->arrival[replay->arrival_count++] =
                (struct replay_arrival){ .op = (uint32_t)i, .slot = slot[graph->arrive[i]] };
    }
    return 0;
}

/* How the nodes from `at` on line up: both predecessors stay or move on by one, the op moves
 * on by one (or there is none), and none follows another of them.
 */
static struct replay_block block_find(const struct replay *replay, size_t at)
{
    const struct replay_node *n = &replay->node[at];
    size_t most = replay->slot_count - at, count = 1;
    uint32_t step_a, step_b, step_op = n->op != REPLAY_NONE;
    struct replay_block block = { .a = n->a, .b = n->b, .op = n->op };

    if (most > 1) {
        step_a = n[1].a == n[0].a + 1;
        step_b = n[1].b == n[0].b + 1;
        while (count < most && n[count].a == n->a + count * step_a &&
               n[count].b == n->b + count * step_b && n[count].op == n->op + count * step_op &&
               n[count].a < at && n[count].b < at)
            count++;
        block.kind = step_a && step_b   ? REPLAY_BESIDE
                     : step_a || step_b ? REPLAY_SHARED
                                        : REPLAY_FANOUT;
        if (step_b && !step_a) { /* the one that stays is b */
            block.a = n->b;
            block.b = n->a;
        }
    }
    block.count = (uint32_t)count;
    return block;
}

static int replay_add_block(struct replay *replay, size_t *room, struct replay_block block)
{
    if (replay->block_count == *room) {
        size_t more = *room + *room / 2 + 16;
        void *grown = realloc(replay->block, more * sizeof(*replay->block));

        if (!grown)
            return -ENOMEM;
        replay->block = grown;
        *room = more;
    }
    replay->block[replay->block_count++] = block;
    return 0;
}

/* From nodes in slots to blocks.  Nodes that stay in lists move down in `node`. */
static int replay_find_blocks(struct replay *replay)
{
    size_t room = 0;
    size_t at = 1;

    while (at < replay->slot_count) {
        struct replay_block block = block_find(replay, at);
        struct replay_block *before =
            replay->block_count ? &replay->block[replay->block_count - 1] : NULL;

        if (block.count < BLOCK_MIN) {
            memmove(&replay->node[replay->node_count], &replay->node[at],
                    block.count * sizeof(*replay->node));
            block.kind = REPLAY_LIST;
            block.a = (uint32_t)replay->node_count;
            replay->node_count += block.count;
        }
        at += block.count;
        if (block.kind == REPLAY_LIST && before && before->kind == REPLAY_LIST)
            before->count += block.count;
        else if (replay_add_block(replay, &room, block) < 0)
            return -ENOMEM;
    }
    return 0;
}

static void replay_trim(struct replay *replay)
{
    void *node = realloc(replay->node, (replay->node_count + 1) * sizeof(*replay->node));
    void *block = realloc(replay->block, (replay->block_count + 1) * sizeof(*replay->block));

    if (node)
        replay->node = node;
    if (block)
        replay->block = block;
}

static void replay_clean(struct replay **replay)
{
    replay_destroy(*replay);
}

int replay_create(const struct replay_op *op, size_t count, struct replay **ret, struct err *err)
{
    CLEAN(replay_clean) struct replay *replay = calloc(1, sizeof(*replay));
    CLEAN(replay_graph_fini) struct replay_graph graph = { 0 };
    CLEAN(free_clean) uint32_t *slot = NULL;
    CLEAN(free_clean) uint32_t *stack = NULL;
    int r = replay ? replay_graph_init(&graph, op, count, err) : -ENOMEM;

    if (r < 0)
        return r;
    replay->op_count = count;
    slot = malloc(graph.count * sizeof(*slot));
    stack = malloc(graph.count * sizeof(*stack));
    if (!slot || !stack)
        return err_set(err, -ENOMEM, "no memory for a replay of %zu ops", count);
    r = levels_init(&graph, slot, stack, op, count, err);
    if (r < 0)
        return r;
    if (levels_to_slots(slot, graph.count) < 0 || replay_place_nodes(replay, &graph, slot) < 0 ||
        replay_find_ends(replay, &graph, slot) < 0 || replay_find_blocks(replay) < 0)
        return err_set(err, -ENOMEM, "no memory for a replay of %zu ops", count);
    replay_trim(replay);
    *ret = TAKE(replay);
    return 0;
}

void replay_destroy(struct replay *replay)
{
    if (!replay)
        return;
    free(replay->block);
    free(replay->node);
    free(replay->arrival);
    free(replay->last);
    free(replay);
}
