/* replay_graph.c - ops become nodes that follow at most two others, or a meet's givers.
 *
 * A meet stands for the latest arrival of those that give.  It follows what they follow,
 * so that arrivals need no nodes of their own: a member that gives is not held by the others,
 * one that only waits does not hold them, and one that does both follows the meet alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/map.h"
#include "judge/replay/replay_program.h"

#define NOT_YET UINT64_MAX

/* Lines and meets have numbers of the caller's choosing: a plain table when they are
 * small, as they nearly always are, a map when they are not.
 */
struct table {
    uint64_t *direct;
    struct map map;
};

static void table_fini(struct table *table)
{
    free(table->direct);
    map_fini(&table->map);
}

static int table_init(struct table *table, uint32_t highest, size_t count)
{
    size_t size = ((size_t)highest + 1) * sizeof(*table->direct);

    if (highest / 4 > count + 256)
        return 0;
    table->direct = malloc(size);
    if (!table->direct)
        return -ENOMEM;
    memset(table->direct, 0xff, size);
    return 0;
}

static uint64_t *table_place(struct table *table, uint32_t key)
{
    if (table->direct)
        return &table->direct[key];
    return map_put(&table->map, key, NOT_YET);
}

struct survey {
    uint32_t highest_line, highest_meet;
    size_t in_meets; /* ops */
};

static int survey_ops(struct survey *survey, const struct replay_op *op, size_t count,
                      struct err *err)
{
    /* An op may need two nodes besides its own, and half a meet; slots lie within 31 bits. */
    if (count >= UINT32_MAX / 8)
        return err_set(err, -EINVAL, "%zu ops are more than a replay can hold", count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < COUNT(op[i].dep); k++) {
            if (op[i].dep[k] != REPLAY_NONE && op[i].dep[k] >= count)
                return err_set(err, -EINVAL, "op %zu depends on op %u, but there are only %zu", i,
                               op[i].dep[k], count);
        }
        survey->highest_line = MAX(survey->highest_line, op[i].line);
        if (op[i].meet == REPLAY_NONE)
            continue;
        if (op[i].role < REPLAY_WAITS || op[i].role > REPLAY_BOTH)
            return err_set(err, -EINVAL, "op %zu has no role %u in meet %u", i, op[i].role,
                           op[i].meet);
        survey->highest_meet = MAX(survey->highest_meet, op[i].meet);
        survey->in_meets++;
    }
    return 0;
}

/* The members of each meet, one meet after the other. */
struct meets {
    uint32_t *first; /* by meet, and one more at the end: index in member */
    uint32_t *member;
    size_t count;
};

static void meets_fini(struct meets *meets)
{
    free(meets->first);
    free(meets->member);
}

/* Numbers from 0 without gaps for the meets of more than one member, in the order of their
 * second members.  `number` is set by op; REPLAY_NONE: alone.
 */
static int meets_number(struct meets *meets, const struct replay_op *op, size_t count,
                        uint32_t highest, uint32_t *number)
{
    CLEAN(table_fini) struct table table = { 0 };
    const uint64_t paired = UINT64_C(1) << 32; /* else the place holds the first member */

    if (table_init(&table, highest, count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint64_t *place;

        number[i] = REPLAY_NONE;
        if (op[i].meet == REPLAY_NONE)
            continue;
        place = table_place(&table, op[i].meet);
        if (!place)
            return -ENOMEM;
        if (*place == NOT_YET) {
            *place = i;
            continue;
        }
        if (*place < paired) {
            number[*place] = (uint32_t)meets->count;
            *place = paired | meets->count++;
        }
        number[i] = (uint32_t)*place;
    }
    return 0;
}

/* `number` has room for every op, and is free again afterwards. */
static int meets_init(struct meets *meets, const struct replay_op *op, size_t count,
                      const struct survey *survey, uint32_t *number)
{
    if (survey->in_meets < 2)
        return 0;
    meets->member = malloc(survey->in_meets * sizeof(*meets->member));
    if (!meets->member || meets_number(meets, op, count, survey->highest_meet, number) < 0)
        return -ENOMEM;
    meets->first = calloc(meets->count + 2, sizeof(*meets->first));
    if (!meets->first)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        if (number[i] != REPLAY_NONE)
            meets->first[number[i] + 2]++;
    }
    for (size_t i = 2; i < meets->count + 2; i++)
        meets->first[i] += meets->first[i - 1];
    for (size_t i = 0; i < count; i++) { /* moves first[m + 1] to where meet m ends */
        if (number[i] != REPLAY_NONE)
            meets->member[meets->first[number[i] + 1]++] = (uint32_t)i;
    }
    return 0;
}

/* Returns a new node that ends with the later of the two.  Once memory fails, the graph
 * stays failed and what is returned means nothing.
 */
static uint32_t graph_later(struct replay_graph *graph, uint32_t a, uint32_t b)
{
    if (graph->failed)
        return 0;
    if (!ARRAY_FIT(graph->pred, graph->room, graph->count + 1)) {
        graph->failed = true;
        return 0;
    }
    graph->pred[graph->count][0] = a;
    graph->pred[graph->count][1] = b;
    return (uint32_t)graph->count++;
}

/* What an op follows, each once; then 0s. */
static void replay_op_preds(const struct replay_op *op, uint64_t line_before, uint32_t pred[3])
{
    size_t n = 0;

    pred[0] = pred[1] = pred[2] = 0;
    if (line_before != NOT_YET)
        pred[n++] = (uint32_t)line_before + 1;
    for (size_t k = 0; k < COUNT(op->dep); k++) {
        uint32_t node = op->dep[k] + 1;

        if (op->dep[k] != REPLAY_NONE && node != pred[0] && node != pred[1])
            pred[n++] = node;
    }
}

static int graph_add_ops(struct replay_graph *graph, uint32_t highest_line)
{
    CLEAN(table_fini) struct table lines = { 0 };

    if (table_init(&lines, highest_line, graph->op_count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < graph->op_count; i++) {
        uint64_t *before = table_place(&lines, graph->op[i].line);
        uint32_t p[3];

        if (!before)
            return -ENOMEM;
        replay_op_preds(&graph->op[i], *before, p);
        *before = i;
        if (p[2] != 0)
            p[0] = graph_later(graph, p[0], p[1]);
        if (graph->failed)
            return -ENOMEM;
        graph->pred[i + 1][0] = p[0];
        graph->pred[i + 1][1] = p[2] ? p[2] : p[1];
    }
    return 0;
}

/* First what the givers follow first, then what they follow second: neighbours stay so. */
static size_t graph_add_givers(struct replay_graph *graph, const uint32_t *member, size_t count,
                               size_t at)
{
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < count; i++) {
            uint32_t pred = graph->pred[member[i] + 1][k];

            if (pred != 0 && graph->op[member[i]].role & REPLAY_GIVES)
                graph->giver[at++] = pred;
        }
    }
    return at;
}

/* Who only waits follows the meet and its own arrival, so that has to be one node. */
static void graph_add_waiters(struct replay_graph *graph, const uint32_t *member, size_t count,
                              uint32_t meet)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t *pred = graph->pred[member[i] + 1];
        uint32_t arrival;

        if (!(graph->op[member[i]].role & REPLAY_WAITS))
            continue;
        graph->waits[member[i]] = meet;
        if (graph->op[member[i]].role & REPLAY_GIVES || pred[1] == 0)
            continue;
        arrival = graph_later(graph, pred[0], pred[1]); /* may move pred */
        graph->pred[member[i] + 1][0] = arrival;
        graph->pred[member[i] + 1][1] = 0;
    }
}

static int graph_add_meets(struct replay_graph *graph, const struct meets *meets)
{
    size_t at = 0;

    graph->giver =
        malloc((meets->count ? meets->first[meets->count] : 0) * 2 * sizeof(*graph->giver) + 1);
    graph->giver_from = calloc(meets->count + 1, sizeof(*graph->giver_from));
    if (!graph->giver || !graph->giver_from)
        return -ENOMEM;
    for (size_t i = 0; i < meets->count; i++) {
        const uint32_t *member = meets->member + meets->first[i];
        size_t count = meets->first[i + 1] - meets->first[i], from = at;
        size_t node = graph->op_count + 1 + i;

        at = graph_add_givers(graph, member, count, from);
        graph->giver_from[i + 1] = (uint32_t)at;
        if (at - from <= 2) {
            graph->pred[node][0] = at - from > 0 ? graph->giver[from] : 0;
            graph->pred[node][1] = at - from > 1 ? graph->giver[from + 1] : 0;
        }
        graph_add_waiters(graph, member, count, (uint32_t)node);
        if (graph->failed)
            return -ENOMEM;
    }
    return 0;
}

static int graph_alloc(struct replay_graph *graph)
{
    size_t named = 1 + graph->op_count + graph->meet_count;

    graph->room = named + named / 8;
    graph->pred = malloc(graph->room * sizeof(*graph->pred));
    if (!graph->pred)
        return -ENOMEM;
    graph->count = named;
    memset(graph->pred[0], 0, sizeof(graph->pred[0]));
    memset(graph->waits, 0, graph->op_count * sizeof(*graph->waits));
    return 0;
}

int replay_graph_init(struct replay_graph *graph, const struct replay_op *op, size_t count,
                      struct err *err)
{
    CLEAN(meets_fini) struct meets meets = { 0 };
    struct survey survey = { 0 };
    int r = survey_ops(&survey, op, count, err);

    *graph = (struct replay_graph){ .op = op, .op_count = count };
    if (r < 0)
        return r;
    graph->waits = malloc(count * sizeof(*graph->waits) + 1);
    if (!graph->waits || meets_init(&meets, op, count, &survey, graph->waits) < 0)
        return err_nomem(err);
    graph->meet_count = meets.count;
    if (graph_alloc(graph) < 0 || graph_add_ops(graph, survey.highest_line) < 0 ||
        graph_add_meets(graph, &meets) < 0)
        return err_nomem(err);
    return 0;
}

void replay_graph_fini(struct replay_graph *graph)
{
    free(graph->pred);
    free(graph->waits);
    free(graph->giver);
    free(graph->giver_from);
    *graph = (struct replay_graph){ 0 };
}
