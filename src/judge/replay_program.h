/* replay_program.h - a program as replay_build.c compiles it and replay.c runs it.
 *
 * A node ends at the later of two earlier nodes, plus a duration.  Every op is one node;
 * a third predecessor, an arrival that others wait for, and the latest arrival of a meet
 * are further nodes without duration.  Nodes lie in slots in an order in which both
 * predecessors come first, level by level, so that a level needs only what is still in the
 * cache.  Slot 0 ends at 0 and stands for "nothing before".
 *
 * Neighbours that do the same, each with its own predecessors next to one another, are one
 * block: no index is read for them, only times.  What does not line up is a block that
 * lists its nodes.
 */
#ifndef LOCKSTEP_JUDGE_REPLAY_PROGRAM_H
#define LOCKSTEP_JUDGE_REPLAY_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "judge/replay.h"

struct replay_node {
    uint32_t a, b; /* slots */
    uint32_t op;   /* whose duration; REPLAY_NONE: none */
};

enum replay_kind {
    REPLAY_LIST,   /* a: index of the first node in `node` */
    REPLAY_BESIDE, /* node i follows slots a+i and b+i, and is op+i */
    REPLAY_SHARED, /* node i follows slots a+i and b */
    REPLAY_FANOUT, /* node i follows slots a and b */
};

struct replay_block {
    uint32_t kind;
    uint32_t count;
    uint32_t a, b, op; /* op REPLAY_NONE: the nodes have no durations */
};

struct replay_arrival { /* of an op that waits for peers */
    uint32_t op, slot;
};

struct replay {
    size_t op_count;
    size_t slot_count; /* with slot 0 */
    struct replay_block *block;
    size_t block_count;
    struct replay_node *node;
    size_t node_count; /* only those in lists */
    struct replay_arrival *arrival;
    size_t arrival_count;
    uint32_t *last; /* slots that nobody follows: the step ends with the latest of them */
    size_t last_count;
};

/* Before the nodes have slots: node i follows pred[i][0] and pred[i][1]; node 0 is "nothing
 * before", node 1+i is op i, the rest have no duration.
 */
struct replay_graph {
    uint32_t (*pred)[2];
    size_t count, room;
    bool failed;
    uint32_t *arrive; /* by op: the node of its arrival; only for members of a meet */
    uint8_t *waits;   /* by op: it has to wait for peers */
};

int replay_graph_init(struct replay_graph *graph, const struct replay_op *op, size_t count,
                      struct err *err);
void replay_graph_fini(struct replay_graph *graph);

#endif
