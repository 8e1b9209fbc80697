/* replay_program.h - a program as replay_build.c compiles it and replay.c runs it.
 *
 * A node ends at the later of two earlier nodes, plus a duration.  Every op is one node; a
 * third predecessor makes a further node without duration, and so does a meet, which
 * follows what its givers follow, however many that are.  Nodes lie in slots in an order
 * in which predecessors come first, level by level, so that a level needs only what is still
 * in the cache.  Slot 0 ends at 0 and stands for "nothing before".
 *
 * Neighbours that do the same, each with its own predecessors next to one another, are one
 * block: no index is read for them, only times.  What does not line up is a block that
 * lists its nodes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_REPLAY_REPLAY_PROGRAM_H
#define LOCKSTEP_JUDGE_REPLAY_REPLAY_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "judge/replay/replay.h"

struct replay_node {
    uint32_t a, b; /* slots */
    uint32_t op;   /* whose duration; REPLAY_NONE: none */
};

enum replay_kind {
    REPLAY_LIST,   /* a: index of the first node in `node` */
    REPLAY_BESIDE, /* node i follows slots a+i and b+i, and is op+i */
    REPLAY_SHARED, /* node i follows slots a+i and b */
    REPLAY_FANOUT, /* node i follows slots a and b */
    REPLAY_MEETS,  /* node i follows the spans of meet a+i */
    REPLAY_COLUMN, /* node i follows the spans of meet a, each moved on by i */
};

struct replay_block {
    uint32_t kind;
    uint32_t count;
    uint32_t a, b, op; /* op REPLAY_NONE: the nodes have no durations */
};

struct replay_blocks {
    struct replay_block *block;
    size_t count, room;
    struct replay_node *node; /* those of lists */
    size_t node_count;
};

struct replay_span { /* slots first, first + step, … */
    uint32_t first, step, count;
};

struct replay {
    size_t op_count;
    size_t slot_count; /* with slot 0 */
    struct replay_blocks run;
    struct replay_blocks arrive; /* of ops that wait for peers; nothing follows these */
    struct replay_span *span;
    size_t span_count, span_room;
    uint32_t *meet; /* in the order of the run, and one more at the end: index in span */
    size_t meet_count;
    uint32_t *last; /* slots that nobody follows: the step ends with the latest of them */
    size_t last_count;
};

/* Before the nodes have slots: node 0 is "nothing before", node 1+i is op i, then come the
 * meets, then those without a name.
 */
struct replay_graph {
    const struct replay_op *op;
    size_t op_count, meet_count;
    size_t count, room;   /* nodes */
    uint32_t (*pred)[2];  /* by node: what it follows, peers aside */
    uint32_t *waits;      /* by op: the node of the meet it waits for; 0: none */
    uint32_t *giver;      /* the nodes that meets follow */
    uint32_t *giver_from; /* by meet, and one more at the end: index in giver */
    bool failed;          /* no memory */
};

int replay_graph_init(struct replay_graph *graph, const struct replay_op *op, size_t count,
                      struct err *err);
void replay_graph_fini(struct replay_graph *graph);

/* A meet of few is a node like others; only one that follows more than two is wide.  Returns
 * its number, or -1.
 */
static inline int64_t replay_graph_wide(const struct replay_graph *graph, size_t node)
{
    size_t meet = node - graph->op_count - 1;

    if (node <= graph->op_count || meet >= graph->meet_count ||
        graph->giver_from[meet + 1] - graph->giver_from[meet] <= 2)
        return -1;
    return (int64_t)meet;
}

/* What a node that is not wide follows, peers included. */
static inline void replay_graph_follows(const struct replay_graph *graph, size_t node,
                                        uint32_t follows[2])
{
    uint32_t meet = node >= 1 && node <= graph->op_count ? graph->waits[node - 1] : 0;

    follows[0] = graph->pred[node][0];
    follows[1] = graph->pred[node][1];
    if (meet != 0 && graph->op[node - 1].role & REPLAY_GIVES) {
        follows[0] = meet; /* which follows what this op does */
        follows[1] = 0;
    } else if (meet != 0) {
        follows[1] = meet; /* its own arrival is one node, see replay_graph.c */
    }
}

/* Gives each node its slot: `slot` has room for graph->count.  -ELOOP, -ENOMEM. */
int replay_order(const struct replay_graph *graph, uint32_t *slot, struct err *err);

#endif
