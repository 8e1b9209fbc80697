/* replay_graph.c - ops become nodes that follow at most two others.
 *
 * The max over many is a tree of nodes; a member of a meet that only gives is not held by
 * the others, one that only waits does not hold them.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/map.h"
#include "judge/replay_program.h"

#define NOT_YET UINT64_MAX

/* Lines and meets have numbers of the caller's choosing: a plain table when they are
 * small, as they nearly always are, a map when they are not.
 */
struct table {
    uint64_t *direct;
    size_t size;
    struct map map;
};

static void table_fini(struct table *table)
{
    free(table->direct);
    map_fini(&table->map);
}

static int table_init(struct table *table, uint32_t highest, size_t count)
{
    if (highest / 4 > count + 256)
        return 0;
    table->size = (size_t)highest + 1;
    table->direct = malloc(table->size * sizeof(*table->direct));
    if (!table->direct)
        return -ENOMEM;
    memset(table->direct, 0xff, table->size * sizeof(*table->direct));
    return 0;
}

static uint64_t *table_place(struct table *table, uint32_t key)
{
    if (table->direct)
        return &table->direct[key];
    return map_put(&table->map, key, NOT_YET);
}

/* The members of each meet, one meet after the other. */
struct meets {
    uint32_t *of_op; /* by op: number from 0 without gaps; REPLAY_NONE: alone */
    uint32_t *first; /* by meet, and one more at the end: index in member */
    uint32_t *member;
    size_t count;
};

static void meets_fini(struct meets *meets)
{
    free(meets->of_op);
    free(meets->first);
    free(meets->member);
}

static int graph_check(const struct replay_op *op, size_t count, struct err *err)
{
    /* Each op may need two nodes for its arrival and one in its meet's tree. */
    if (count >= UINT32_MAX / 4)
        return err_set(err, -EINVAL, "%zu ops are more than a replay can hold", count);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < COUNT(op[i].dep); k++) {
            if (op[i].dep[k] != REPLAY_NONE && op[i].dep[k] >= count)
                return err_set(err, -EINVAL, "op %zu depends on op %u, but there are only %zu", i,
                               op[i].dep[k], count);
        }
        if (op[i].meet != REPLAY_NONE && (op[i].role < REPLAY_WAITS || op[i].role > REPLAY_BOTH))
            return err_set(err, -EINVAL, "op %zu has no role %u in meet %u", i, op[i].role,
                           op[i].meet);
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
    if (graph->count == graph->room) {
        size_t room = graph->room + graph->room / 2;
        void *grown = realloc(graph->pred, room * sizeof(*graph->pred));

        if (!grown) {
            graph->failed = true;
            return 0;
        }
        graph->pred = grown;
        graph->room = room;
    }
    graph->pred[graph->count][0] = a;
    graph->pred[graph->count][1] = b;
    return (uint32_t)graph->count++;
}

static int graph_alloc(struct replay_graph *graph, size_t count)
{
    graph->room = count + count / 8 + 16;
    graph->pred = malloc(graph->room * sizeof(*graph->pred));
    graph->arrive = calloc(count + 1, sizeof(*graph->arrive));
    graph->waits = calloc(count + 1, sizeof(*graph->waits));
    if (!graph->pred || !graph->arrive || !graph->waits)
        return -ENOMEM;
    graph->count = count + 1;
    memset(graph->pred, 0, graph->count * sizeof(*graph->pred));
    return 0;
}

/* The nodes an op follows by itself, each once.  Returns how many. */
static size_t op_preds(const struct replay_op *op, uint64_t line_before, uint32_t pred[3])
{
    size_t n = 0;

    if (line_before != NOT_YET)
        pred[n++] = (uint32_t)line_before + 1;
    for (size_t k = 0; k < COUNT(op->dep); k++) {
        uint32_t node = op->dep[k] + 1;

        if (op->dep[k] == REPLAY_NONE || (n > 0 && pred[0] == node) || (n > 1 && pred[1] == node))
            continue;
        pred[n++] = node;
    }
    return n;
}

/* What each op follows, peers aside.  A member of a meet gets a node for its arrival where
 * its arrival is not simply the end of another op.
 */
static int graph_add_ops(struct replay_graph *graph, const struct replay_op *op, size_t count,
                         const struct meets *meets)
{
    CLEAN(table_fini) struct table lines = { 0 };
    uint32_t highest = 0;

    for (size_t i = 0; i < count; i++)
        highest = MAX(highest, op[i].line);
    if (table_init(&lines, highest, count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint64_t *before = table_place(&lines, op[i].line);
        uint32_t p[3] = { 0 };
        bool member = meets->of_op[i] != REPLAY_NONE;
        size_t n;

        if (!before)
            return -ENOMEM;
        n = op_preds(&op[i], *before, p);
        *before = i;
        if (n == 3) {
            p[0] = graph_later(graph, p[0], p[1]);
            p[1] = p[2];
        }
        if (member && n >= 2) {
            p[0] = graph_later(graph, p[0], p[1]);
            p[1] = 0;
        }
        if (graph->failed)
            return -ENOMEM;
        graph->arrive[i] = member ? p[0] : 0;
        graph->pred[i + 1][0] = p[0];
        graph->pred[i + 1][1] = p[1];
    }
    return 0;
}

/* Halves a list of nodes until one is left, in such a way that neighbours in the list
 * follow neighbours.
 */
static uint32_t graph_latest(struct replay_graph *graph, uint32_t *node, size_t count)
{
    while (count > 1) {
        size_t half = (count + 1) / 2;

        for (size_t i = 0; i + half < count; i++)
            node[i] = graph_later(graph, node[i], node[i + half]);
        count = half;
    }
    return node[0];
}

static int graph_add_meet(struct replay_graph *graph, const struct replay_op *op,
                          const uint32_t *member, size_t count, uint32_t *giver)
{
    size_t givers = 0, waiters = 0;
    uint32_t latest;

    for (size_t i = 0; i < count; i++) {
        if (op[member[i]].role & REPLAY_GIVES)
            giver[givers++] = graph->arrive[member[i]];
        waiters += (op[member[i]].role & REPLAY_WAITS) != 0;
    }
    if (givers == 0 || waiters == 0)
        return 0;
    latest = graph_latest(graph, giver, givers);
    if (graph->failed)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint32_t *pred = graph->pred[member[i] + 1];

        if (!(op[member[i]].role & REPLAY_WAITS))
            continue;
        graph->waits[member[i]] = 1;
        /* Who gives too is among the latest's reasons. */
        pred[0] = op[member[i]].role & REPLAY_GIVES ? latest : graph->arrive[member[i]];
        pred[1] = op[member[i]].role & REPLAY_GIVES ? 0 : latest;
    }
    return 0;
}

static int graph_add_meets(struct replay_graph *graph, const struct replay_op *op,
                           const struct meets *meets)
{
    CLEAN(free_clean) uint32_t *giver = NULL;
    size_t most = 0;

    for (size_t i = 0; i < meets->count; i++)
        most = MAX(most, meets->first[i + 1] - meets->first[i]);
    giver = malloc((most + 1) * sizeof(*giver));
    if (!giver)
        return -ENOMEM;
    for (size_t i = 0; i < meets->count; i++) {
        size_t members = meets->first[i + 1] - meets->first[i];

        if (members > 1 &&
            graph_add_meet(graph, op, meets->member + meets->first[i], members, giver) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int meets_number(struct meets *meets, const struct replay_op *op, size_t count)
{
    CLEAN(table_fini) struct table numbers = { 0 };
    uint32_t highest = 0;

    for (size_t i = 0; i < count; i++) {
        if (op[i].meet != REPLAY_NONE)
            highest = MAX(highest, op[i].meet);
    }
    if (table_init(&numbers, highest, count) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        uint64_t *number;

        meets->of_op[i] = REPLAY_NONE;
        if (op[i].meet == REPLAY_NONE)
            continue;
        number = table_place(&numbers, op[i].meet);
        if (!number)
            return -ENOMEM;
        if (*number == NOT_YET)
            *number = meets->count++;
        meets->of_op[i] = (uint32_t)*number;
    }
    return 0;
}

static int meets_init(struct meets *meets, const struct replay_op *op, size_t count)
{
    size_t members = 0;

    meets->of_op = malloc((count + 1) * sizeof(*meets->of_op));
    if (!meets->of_op || meets_number(meets, op, count) < 0)
        return -ENOMEM;
    meets->first = calloc(meets->count + 2, sizeof(*meets->first));
    if (!meets->first)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        if (meets->of_op[i] != REPLAY_NONE) {
            meets->first[meets->of_op[i] + 2]++;
            members++;
        }
    }
    for (size_t i = 2; i < meets->count + 2; i++)
        meets->first[i] += meets->first[i - 1];
    meets->member = malloc((members + 1) * sizeof(*meets->member));
    if (!meets->member)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) { /* shifts first[m + 1] to where m ends */
        if (meets->of_op[i] != REPLAY_NONE)
            meets->member[meets->first[meets->of_op[i] + 1]++] = (uint32_t)i;
    }
    return 0;
}

int replay_graph_init(struct replay_graph *graph, const struct replay_op *op, size_t count,
                      struct err *err)
{
    CLEAN(meets_fini) struct meets meets = { 0 };
    int r = graph_check(op, count, err);

    if (r < 0)
        return r;
    *graph = (struct replay_graph){ 0 };
    if (graph_alloc(graph, count) < 0 || meets_init(&meets, op, count) < 0 ||
        graph_add_ops(graph, op, count, &meets) < 0 || graph_add_meets(graph, op, &meets) < 0) {
        replay_graph_fini(graph);
        return err_set(err, -ENOMEM, "no memory for a replay of %zu ops", count);
    }
    return 0;
}

void replay_graph_fini(struct replay_graph *graph)
{
    free(graph->pred);
    free(graph->arrive);
    free(graph->waits);
    *graph = (struct replay_graph){ 0 };
}
