/* nodesplit.c - joins the ops of communicators inside the node and computes their waiting times.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/ring/nodesplit.h"

#include <stdlib.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "lockstep/probe.h"

struct gathering { /* one collective, or one message */
    int64_t shortest_ns, last_arrival_ns;
    uint32_t size, joined;
    bool bad; /* one of them has no end, or is too many */
};

struct generation {
    struct map at; /* meeting → place in gathering */
    struct gathering *gathering;
    uint32_t count, room;
    bool merged; /* a merged step has joined */
};

struct home { /* a communicator that this node has members of */
    uint32_t size, here;
};

struct nodesplit {
    struct map at;    /* (attempt, communicator) → place in home */
    struct map index; /* (attempt, communicator, rank) → the rank's index */
    struct map seat;  /* (attempt, communicator, index): taken */
    struct home *home;
    uint32_t homes, room;
    struct generation now, before;
    int64_t turned_ns;
};

struct nodesplit *nodesplit_create(void)
{
    return calloc(1, sizeof(struct nodesplit));
}

static void generation_fini(struct generation *generation)
{
    map_fini(&generation->at);
    free(generation->gathering);
    *generation = (struct generation){ 0 };
}

void nodesplit_destroy(struct nodesplit *split)
{
    if (!split)
        return;
    map_fini(&split->at);
    map_fini(&split->index);
    map_fini(&split->seat);
    free(split->home);
    generation_fini(&split->now);
    generation_fini(&split->before);
    free(split);
}

bool nodesplit_busy(const struct nodesplit *split)
{
    return split->now.merged || split->before.merged;
}

void nodesplit_turn(struct nodesplit *split, int64_t now_ns)
{
    if (now_ns - split->turned_ns < NODESPLIT_KEEP_NS)
        return;
    split->turned_ns = now_ns;
    generation_fini(&split->before);
    split->before = split->now;
    split->now = (struct generation){ 0 };
}

/* ---- who is here ---- */

static uint64_t nodesplit_comm_key(uint32_t attempt, uint64_t comm)
{
    return hash64_u64(attempt, comm);
}

static struct home *home_put(struct nodesplit *split, uint64_t key, uint32_t size)
{
    const uint64_t *at = map_get(&split->at, key);

    if (at)
        return &split->home[*at];
    if (!ARRAY_FIT(split->home, split->room, (size_t)split->homes + 1) ||
        !map_put(&split->at, key, split->homes))
        return NULL;
    split->home[split->homes] = (struct home){ .size = size };
    return &split->home[split->homes++];
}

void nodesplit_comm(struct nodesplit *split, const struct fact_comm *comm)
{
    uint64_t key = nodesplit_comm_key(comm->attempt, comm->id), *seat;
    struct home *home = home_put(split, key, comm->size);

    if (!home || !map_put(&split->index, hash64_u64(key, comm->rank), comm->index))
        return;
    seat = map_put(&split->seat, hash64_u64(key, comm->index), UINT64_MAX);
    if (!seat)
        return;
    if (*seat == UINT64_MAX)
        home->here++;
    else if (*seat != comm->rank)
        home->size = UINT32_MAX; /* two ranks say they are the same member: nobody knows */
    if (home->size != comm->size)
        home->size = UINT32_MAX;
    *seat = comm->rank;
}

/* The communicator's home when all its members are here. */
static const struct home *home_complete(const struct nodesplit *split, uint64_t key)
{
    const uint64_t *at = map_get(&split->at, key);

    if (!at || split->home[*at].here != split->home[*at].size)
        return NULL;
    return &split->home[*at];
}

/* ---- meetings ---- */

static struct gathering *gathering_get(const struct nodesplit *split, uint64_t meeting)
{
    const uint64_t *at = map_get(&split->now.at, meeting);

    if (at)
        return &split->now.gathering[*at];
    at = map_get(&split->before.at, meeting);
    return at ? &split->before.gathering[*at] : NULL;
}

static struct gathering *gathering_put(struct nodesplit *split, uint64_t meeting, uint32_t size)
{
    struct generation *now = &split->now;
    struct gathering *known = gathering_get(split, meeting);
    uint64_t *at;

    if (known || now->count == NODESPLIT_MEETINGS_MAX)
        return known;
    if (!ARRAY_FIT(now->gathering, now->room, (size_t)now->count + 1))
        return NULL;
    at = map_put(&now->at, meeting, now->count);
    if (!at)
        return NULL;
    now->gathering[now->count] =
        (struct gathering){ .shortest_ns = INT64_MAX, .last_arrival_ns = INT64_MIN, .size = size };
    return &now->gathering[now->count++];
}

/* A message's key is its own rank's, so both sides count those of their pair in the step. */
static uint64_t nodesplit_message_of(const struct nodesplit *split, const struct fact_step *step,
                                     const struct split_op *op, uint64_t comm, struct map *ordinal)
{
    const uint64_t *self = map_get(&split->index, hash64_u64(comm, step->rank));
    bool send = op->what == LOCKSTEP_OP_SEND;
    uint64_t pair, *count;

    if (!self)
        return 0;
    pair = send ? *self << 32 | op->peer : (uint64_t)op->peer << 32 | *self;
    pair = hash64_u64(hash64_u64(comm, pair), step->step);
    count = map_put(ordinal, hash64_u64(pair, send), 0);
    return count ? hash64_u64(pair, (*count)++ << 1 | 1) : 0;
}

static void nodesplit_op_join(struct nodesplit *split, const struct fact_step *step,
                              struct split_op *op, struct map *ordinal)
{
    uint64_t comm = nodesplit_comm_key(step->attempt, op->comm);
    const struct home *home = home_complete(split, comm);
    bool message = op->kind == ITEM_P2P;
    struct gathering *gathering = NULL;

    op->meeting = 0;
    if (home)
        op->meeting = message ? nodesplit_message_of(split, step, op, comm, ordinal)
                              : hash64_u64(comm, op->key << 1);
    if (op->meeting)
        gathering = gathering_put(split, op->meeting, message ? 2 : home->size);
    if (!gathering) {
        op->meeting = 0;
        return;
    }
    gathering->shortest_ns = MIN(gathering->shortest_ns, op->end_ns - op->start_ns);
    gathering->last_arrival_ns = MAX(gathering->last_arrival_ns, op->start_ns);
    gathering->joined++;
    gathering->bad |= !op->ended || gathering->joined > gathering->size;
}

bool nodesplit_join(struct nodesplit *split, const struct fact_step *step, struct split_op *op,
                    uint32_t ops)
{
    CLEAN(map_fini) struct map ordinal = { 0 };
    bool wanted = false;

    for (uint32_t i = 0; i < ops; i++) {
        nodesplit_op_join(split, step, &op[i], &ordinal);
        split->now.merged |= op[i].merged;
        wanted |= op[i].merged && op[i].meeting;
    }
    return wanted;
}

bool nodesplit_ready(const struct nodesplit *split, const struct split_op *op, uint32_t ops,
                     uint32_t *from)
{
    for (; *from < ops; (*from)++) {
        const struct split_op *at = &op[*from];
        const struct gathering *gathering =
            at->merged && at->meeting ? gathering_get(split, at->meeting) : NULL;

        if (gathering && !gathering->bad && gathering->joined < gathering->size)
            return false;
    }
    return true;
}

/* As the judge has it for ops that come singly. */
static int64_t nodesplit_op_wait_ns(const struct nodesplit *split, const struct split_op *op)
{
    const struct gathering *gathering = op->meeting ? gathering_get(split, op->meeting) : NULL;
    int64_t stay = op->end_ns - op->start_ns, late;

    if (!gathering || gathering->bad || gathering->joined < gathering->size)
        return -1;
    if (op->kind == ITEM_COLL && op_synchronises(op->what))
        return stay - gathering->shortest_ns;
    late = gathering->last_arrival_ns - op->start_ns;
    if (op->kind == ITEM_P2P && op->what == LOCKSTEP_OP_SEND && late > stay)
        return 0; /* it left before the receiver came: it did not wait */
    return MAX(0, MIN(late, stay));
}

void nodesplit_sum(const struct nodesplit *split, const struct split_op *op, uint32_t ops,
                   const struct fact_shape *shape, struct fact_step *step)
{
    for (uint32_t i = 0; i < shape->count; i++)
        step->time[i].wait_ns = item_has_wait(&shape->item[i]) ? 0 : -1;
    for (uint32_t i = 0; i < ops; i++) {
        int64_t *sum = &step->time[op[i].item].wait_ns;
        int64_t wait = *sum < 0 ? -1 : nodesplit_op_wait_ns(split, &op[i]);

        *sum = wait < 0 ? -1 : *sum + wait;
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        if (step->time[i].wait_ns >= 0)
            step->flags |= STEP_SPLIT;
    }
}
