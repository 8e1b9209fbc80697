/* replay_build.c - puts the nodes of a graph into their slots and finds what lines up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/replay/replay_program.h"

#define BLOCK_MIN 8 /* shorter runs of neighbours are cheaper as a list */

#define NODE_MEET (REPLAY_NONE - 1) /* in place of an op: a wide meet, and a is its number */

static int replay_blocks_add(struct replay_blocks *blocks, struct replay_block block)
{
    struct replay_block *last = blocks->count ? &blocks->block[blocks->count - 1] : NULL;

    /* Lists and meets go on where the ones before ended. */
    if (last && last->kind == block.kind &&
        (block.kind == REPLAY_LIST || block.kind == REPLAY_MEETS)) {
        last->count += block.count;
        return 0;
    }
    if (!ARRAY_FIT(blocks->block, blocks->room, blocks->count + 1))
        return -ENOMEM;
    blocks->block[blocks->count++] = block;
    return 0;
}

/* How nodes line up: both predecessors stay or move on by one, the op moves on by one (or
 * there is none), and none follows slot `limit` or one after it.
 */
static struct replay_block replay_block_find(const struct replay_node *n, size_t most,
                                             uint32_t limit)
{
    uint32_t step_a = most > 1 && n[1].a == n[0].a + 1;
    uint32_t step_b = most > 1 && n[1].b == n[0].b + 1;
    uint32_t step_op = n->op != REPLAY_NONE, i = 1;
    struct replay_block block = { .a = n->a, .b = n->b, .op = n->op };

    while (i < most && n[i].a == n->a + i * step_a && n[i].b == n->b + i * step_b &&
           n[i].op == n->op + i * step_op && n[i].a < limit && n[i].b < limit)
        i++;
    block.count = i;
    block.kind = REPLAY_FANOUT;
    if (step_a || step_b)
        block.kind = step_a && step_b ? REPLAY_BESIDE : REPLAY_SHARED;
    if (step_b && !step_a) { /* the one that stays is b */
        block.a = n->b;
        block.b = n->a;
    }
    return block;
}

/* Adds the nodes from `at` on that line up.  Those that stay in lists move down in `node`.
 * Returns how many, or -ENOMEM.
 */
static int64_t replay_blocks_add_nodes(struct replay_blocks *blocks, struct replay_node *node,
                                       size_t at, size_t count, uint32_t limit)
{
    struct replay_block block = replay_block_find(&node[at], count - at, limit);

    if (block.count < BLOCK_MIN) {
        memmove(&node[blocks->node_count], &node[at], block.count * sizeof(*node));
        block.kind = REPLAY_LIST;
        block.a = (uint32_t)blocks->node_count;
        blocks->node_count += block.count;
    }
    return replay_blocks_add(blocks, block) < 0 ? -ENOMEM : (int64_t)block.count;
}

/* From the slots of a meet's givers to spans of equal steps. */
static int build_meet(struct replay *replay, const struct replay_graph *graph, uint32_t meet,
                      const uint32_t *slot)
{
    const uint32_t *giver = graph->giver + graph->giver_from[meet];
    size_t count = graph->giver_from[meet + 1] - graph->giver_from[meet];

    for (size_t i = 0; i < count;) {
        struct replay_span span = { .first = slot[giver[i]], .count = 1 };

        if (!ARRAY_FIT(replay->span, replay->span_room, replay->span_count + 1))
            return -ENOMEM;
        if (i + 1 < count)
            span.step = slot[giver[i + 1]] - span.first;
        while (i + span.count < count &&
               slot[giver[i + span.count]] == span.first + span.step * span.count)
            span.count++;
        replay->span[replay->span_count++] = span;
        i += span.count;
    }
    replay->meet[++replay->meet_count] = (uint32_t)replay->span_count;
    return 0;
}

/* Does meet b follow what meet a follows, moved on by `by`? */
static bool replay_meet_moved(const struct replay *replay, size_t a, size_t b, uint32_t by)
{
    const struct replay_span *x = replay->span + replay->meet[a];
    const struct replay_span *y = replay->span + replay->meet[b];
    size_t count = replay->meet[a + 1] - replay->meet[a];

    if (replay->meet[b + 1] - replay->meet[b] != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (x[i].first + by != y[i].first || x[i].step != y[i].step || x[i].count != y[i].count)
            return false;
    }
    return true;
}

/* Adds the newest meet, as one more of a column if it is. */
static int build_meet_block(struct replay *replay)
{
    struct replay_blocks *run = &replay->run;
    struct replay_block *last = run->count ? &run->block[run->count - 1] : NULL;
    struct replay_block block = { REPLAY_MEETS, 1, (uint32_t)replay->meet_count - 1, 0,
                                  REPLAY_NONE };

    if (last && last->kind == REPLAY_MEETS && replay_meet_moved(replay, block.a - 1, block.a, 1)) {
        run->count -= --last->count == 0; /* it begins one */
        block = (struct replay_block){ REPLAY_COLUMN, 2, block.a - 1, 0, REPLAY_NONE };
    } else if (last && last->kind == REPLAY_COLUMN &&
               replay_meet_moved(replay, last->a, block.a, last->count)) {
        last->count++;
        block.count = 0;
    }
    if (block.count != 1) /* the column's first says it all */
        replay->span_count = replay->meet[--replay->meet_count];
    return block.count ? replay_blocks_add(run, block) : 0;
}

static int build_run(struct replay *replay, const struct replay_graph *graph, const uint32_t *slot)
{
    void *trimmed;

    replay->meet = calloc(graph->meet_count + 1, sizeof(*replay->meet));
    if (!replay->meet)
        return -ENOMEM;
    for (size_t at = 1; at < replay->slot_count;) {
        struct replay_node node = replay->run.node[at];
        int64_t done = 1;

        if (node.op == NODE_MEET) {
            if (build_meet(replay, graph, node.a, slot) < 0 || build_meet_block(replay) < 0)
                return -ENOMEM;
        } else {
            done = replay_blocks_add_nodes(&replay->run, replay->run.node, at, replay->slot_count,
                                           (uint32_t)at);
        }
        if (done < 0)
            return -ENOMEM;
        at += (size_t)done;
    }
    trimmed = realloc(replay->run.node, (replay->run.node_count + 1) * sizeof(*replay->run.node));
    if (trimmed)
        replay->run.node = trimmed;
    return 0;
}

/* In the memory that the nodes of the run will have: fresh pages are a third of the cost of
 * compiling.
 */
static int build_arrivals(struct replay *replay, const struct replay_graph *graph,
                          const uint32_t *slot)
{
    struct replay_blocks *arrive = &replay->arrive;
    struct replay_node *node = replay->run.node;
    size_t count = 0;

    for (size_t i = 0; i < graph->op_count; i++) {
        const uint32_t *pred = graph->pred[i + 1];

        if (graph->waits[i] != 0)
            node[count++] = (struct replay_node){ slot[pred[0]], slot[pred[1]], (uint32_t)i };
    }
    for (size_t at = 0; at < count;) {
        int64_t done = replay_blocks_add_nodes(arrive, node, at, count, UINT32_MAX);

        if (done < 0)
            return -ENOMEM;
        at += (size_t)done;
    }
    arrive->node = malloc(arrive->node_count * sizeof(*node) + 1);
    if (!arrive->node)
        return -ENOMEM;
    memcpy(arrive->node, node, arrive->node_count * sizeof(*node));
    return 0;
}

/* Puts the nodes into their slots and marks the slots that somebody follows. */
static void build_nodes(struct replay *replay, const struct replay_graph *graph,
                        const uint32_t *slot, uint8_t *followed)
{
    for (size_t i = 1; i < graph->count; i++) {
        int64_t wide = replay_graph_wide(graph, i);
        struct replay_node node = { .a = (uint32_t)wide, .op = NODE_MEET };
        uint32_t follows[2];

        if (wide < 0) {
            replay_graph_follows(graph, i, follows);
            node.a = slot[follows[0]];
            node.b = slot[follows[1]];
            node.op = i <= graph->op_count ? (uint32_t)i - 1 : REPLAY_NONE;
            followed[node.a] = followed[node.b] = 1;
        }
        replay->run.node[slot[i]] = node;
    }
    for (size_t i = 0; graph->meet_count && i < graph->giver_from[graph->meet_count]; i++)
        followed[slot[graph->giver[i]]] = 1;
}

static int build_last(struct replay *replay, const uint8_t *followed)
{
    size_t count = 0;

    for (size_t i = 0; i < replay->slot_count; i++)
        count += !followed[i];
    replay->last = malloc(count * sizeof(*replay->last) + 1);
    if (!replay->last)
        return -ENOMEM;
    for (size_t i = 0; i < replay->slot_count; i++) {
        if (!followed[i])
            replay->last[replay->last_count++] = (uint32_t)i;
    }
    return 0;
}

static int build(struct replay *replay, const struct replay_op *op, size_t count, struct err *err)
{
    CLEAN(replay_graph_fini) struct replay_graph graph = { 0 };
    CLEAN(free_clean) uint32_t *slot = NULL;
    CLEAN(free_clean) uint8_t *followed = NULL;
    int r = replay_graph_init(&graph, op, count, err);

    if (r < 0)
        return r;
    replay->op_count = count;
    replay->slot_count = graph.count;
    replay->run.node = malloc(graph.count * sizeof(*replay->run.node));
    slot = malloc(graph.count * sizeof(*slot));
    followed = calloc(graph.count, 1);
    if (!replay->run.node || !slot || !followed)
        return err_nomem(err);
    r = replay_order(&graph, slot, err);
    if (r < 0)
        return r;
    if (build_arrivals(replay, &graph, slot) < 0)
        return err_nomem(err);
    build_nodes(replay, &graph, slot, followed);
    if (build_last(replay, followed) < 0 || build_run(replay, &graph, slot) < 0)
        return err_nomem(err);
    return 0;
}

static void replay_clean(struct replay **replay)
{
    replay_destroy(*replay);
}

int replay_create(const struct replay_op *op, size_t count, struct replay **ret, struct err *err)
{
    CLEAN(replay_clean) struct replay *replay = calloc(1, sizeof(*replay));
    int r = replay ? build(replay, op, count, err) : err_nomem(err);

    if (r == -ENOMEM)
        return err_set(err, r, "no memory for a replay of %zu ops", count);
    if (r < 0)
        return r;
    *ret = TAKE(replay);
    return 0;
}

void replay_destroy(struct replay *replay)
{
    if (!replay)
        return;
    free(replay->run.block);
    free(replay->run.node);
    free(replay->arrive.block);
    free(replay->arrive.node);
    free(replay->span);
    free(replay->meet);
    free(replay->last);
    free(replay);
}
