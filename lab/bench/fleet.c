/* fleet.c - steps of a job in which the replicas of a rank meet again and again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/fleet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"
#include "lockstep/probe.h"
#include "wire/frame.h"

#define TRANSFER_NS (100 * NS_PER_US)
#define LAUNCH_NS (5 * NS_PER_US)
#define GAP_NS (100 * NS_PER_US) /* from step to step */
#define NOISE 0.01
#define SLOW 1.3
#define WORLD_COMM 0x30000
#define STREAM_COMPUTE 1
#define STREAM_REDUCE 2

static uint32_t fleet_ops_in(const struct fleet *fleet, uint32_t block)
{
    return fleet->ops * (block + 1) / FLEET_BLOCKS - fleet->ops * block / FLEET_BLOCKS;
}

static uint32_t fleet_items_of(const struct fleet *fleet)
{
    return FLEET_BLOCKS + fleet->ops + 1;
}

static int fleet_make_shape(struct fleet *fleet, uint32_t place)
{
    struct fact_shape *shape = &fleet->shape[place];

    shape->item = calloc(fleet_items_of(fleet), sizeof(*shape->item));
    if (!shape->item)
        return -ENOMEM;
    for (uint32_t block = 0; block < FLEET_BLOCKS; block++) {
        shape->item[shape->count++] = (struct shape_item){
            .kind = ITEM_SPAN, .what = LOCKSTEP_PHASE_BACKWARD, .stream = STREAM_COMPUTE, .count = 1
        };
        for (uint32_t op = 0; op < fleet_ops_in(fleet, block); op++)
            shape->item[shape->count++] = (struct shape_item){ .kind = ITEM_COLL,
                                                               .what = LOCKSTEP_OP_ALL_REDUCE,
                                                               .stream = STREAM_REDUCE,
                                                               .count = 1,
                                                               .comm = 0x20000 + place,
                                                               .bytes = 1 << 20 };
    }
    shape->item[shape->count++] = (struct shape_item){ .kind = ITEM_COLL,
                                                       .what = LOCKSTEP_OP_ALL_REDUCE,
                                                       .stream = STREAM_REDUCE,
                                                       .count = 1,
                                                       .comm = WORLD_COMM,
                                                       .bytes = 8 };
    shape_hash(shape);
    return 0;
}

int fleet_init(struct fleet *fleet, uint32_t nodes, uint32_t ops, int64_t step_ns)
{
    int result = 0;

    *fleet =
        (struct fleet){ .nodes = nodes, .ops = ops, .step_ns = step_ns, .slow_rank = UINT32_MAX };
    fleet->time = calloc(fleet_items_of(fleet), sizeof(*fleet->time));
    if (!fleet->time)
        result = -ENOMEM;
    for (uint32_t place = 0; place < FLEET_NODE_RANKS && result == 0; place++)
        result = fleet_make_shape(fleet, place);
    if (result < 0)
        fleet_fini(fleet);
    return result;
}

void fleet_fini(struct fleet *fleet)
{
    for (uint32_t place = 0; place < FLEET_NODE_RANKS; place++)
        fact_shape_fini(&fleet->shape[place]);
    free(fleet->time);
    fleet->time = NULL;
}

static void fleet_put_frame(struct buf *out, uint16_t type, uint64_t sender, uint64_t boot,
                            uint64_t number, const struct buf *payload)
{
    struct frame frame = { .type = type,
                           .version = FRAME_VERSION,
                           .sender = sender,
                           .boot = boot,
                           .number = number,
                           .payload = payload->data,
                           .payload_bytes = payload->size };

    frame_put(out, &frame);
}

static uint64_t fleet_node_sender(uint32_t node)
{
    char name[32];

    snprintf(name, sizeof(name), "agent-n%u", node);
    return hash64(0, name, strlen(name));
}

void fleet_launch(const struct fleet *fleet, const char *run, uint64_t boot, struct buf *out)
{
    uint64_t sender = hash64(0, "launcher", 8);
    struct fact_hello hello = { .kind = SENDER_LAUNCHER,
                                .version = LOCKSTEP_VERSION,
                                .node = "n0",
                                .mono_ns = time_mono_ns(),
                                .real_ns = time_real_ns() };
    struct fact_run fact = { .event = RUN_BEGIN,
                             .ranks = fleet->nodes * FLEET_NODE_RANKS,
                             .culprit = -1,
                             .mono_ns = hello.mono_ns,
                             .real_ns = hello.real_ns };
    CLEAN(buf_fini) struct buf payload = { 0 };

    snprintf(hello.run, sizeof(hello.run), "%s", run);
    fact_hello_put(&payload, &hello);
    fleet_put_frame(out, FRAME_HELLO, sender, boot, 0, &payload);
    for (uint64_t i = 0; i < 2; i++) {
        payload.size = 0;
        fact.event = i ? RUN_ATTEMPT_BEGIN : RUN_BEGIN;
        fact_run_put(&payload, &fact);
        fleet_put_frame(out, FRAME_RUN, sender, boot, 1 + i, &payload);
    }
}

static void fleet_put_rank(const struct fleet *fleet, uint32_t node, uint32_t place, uint64_t boot,
                           uint64_t *number, struct buf *out)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    uint64_t sender = fleet_node_sender(node);
    uint32_t rank = node * FLEET_NODE_RANKS + place;
    struct fact_ring ring = { .rank = rank,
                              .world = fleet->nodes * FLEET_NODE_RANKS,
                              .pid = 1000 + place,
                              .open_ns = time_mono_ns() };
    struct fact_comm comm = {
        .rank = rank, .id = 0x20000 + place, .size = fleet->nodes, .index = node
    };

    snprintf(ring.node, sizeof(ring.node), "n%u", node);
    fact_ring_put(&payload, &ring);
    fleet_put_frame(out, FRAME_RING, sender, boot, (*number)++, &payload);
    payload.size = 0;
    fact_comm_put(&payload, &comm);
    fleet_put_frame(out, FRAME_COMM, sender, boot, (*number)++, &payload);
    payload.size = 0;
    comm = (struct fact_comm){ .rank = rank, .id = WORLD_COMM, .size = ring.world, .index = rank };
    fact_comm_put(&payload, &comm);
    fleet_put_frame(out, FRAME_COMM, sender, boot, (*number)++, &payload);
    payload.size = 0;
    fact_shape_put(&payload, &fleet->shape[place]);
    fleet_put_frame(out, FRAME_SHAPE, sender, boot, (*number)++, &payload);
}

void fleet_hello(const struct fleet *fleet, uint32_t node, const char *run, uint64_t boot,
                 uint64_t *number, struct buf *out)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_hello hello = { .kind = SENDER_AGENT,
                                .version = LOCKSTEP_VERSION,
                                .mono_ns = time_mono_ns(),
                                .real_ns = time_real_ns() };

    snprintf(hello.run, sizeof(hello.run), "%s", run);
    snprintf(hello.node, sizeof(hello.node), "n%u", node);
    fact_hello_put(&payload, &hello);
    fleet_put_frame(out, FRAME_HELLO, fleet_node_sender(node), boot, (*number)++, &payload);
    for (uint32_t place = 0; place < FLEET_NODE_RANKS; place++)
        fleet_put_rank(fleet, node, place, boot, number, out);
}

/* ---- steps ---- */

static int64_t fleet_compute_ns(const struct fleet *fleet, uint32_t rank, uint64_t step,
                                uint32_t block)
{
    uint64_t random = (step * FLEET_BLOCKS + block) * UINT64_C(0x9e3779b97f4a7c15) +
                      rank * UINT64_C(0xbf58476d1ce4e5b9);
    double base = (double)(fleet->step_ns - fleet->ops * TRANSFER_NS) / FLEET_BLOCKS;

    random = (random ^ (random >> 31)) * UINT64_C(0x94d049bb133111eb);
    base *= 1 + NOISE * (double)(random >> 40) / (double)(1 << 24);
    if (rank == fleet->slow_rank && step >= fleet->slow_from)
        base *= SLOW;
    return (int64_t)base;
}

/* Nobody goes on before the last replica has come, so a block begins for all at once. */
static void fleet_meet(const struct fleet *fleet, uint64_t step, struct fleet_meeting *ret)
{
    ret->step = step + 1;
    ret->length_ns = 0;
    for (uint32_t place = 0; place < FLEET_NODE_RANKS; place++) {
        int64_t at = 0;

        for (uint32_t block = 0; block < FLEET_BLOCKS; block++) {
            int64_t longest = 0;

            for (uint32_t node = 0; node < fleet->nodes; node++)
                longest = MAX(
                    longest, fleet_compute_ns(fleet, node * FLEET_NODE_RANKS + place, step, block));
            at += longest + fleet_ops_in(fleet, block) * TRANSFER_NS;
            ret->end_ns[place][block] = at;
        }
        ret->length_ns = MAX(ret->length_ns, at);
    }
    ret->length_ns += TRANSFER_NS;
}

/* Steps come in their order, but for agents that are a few behind. */
static const struct fleet_meeting *bench_fleet_meeting(struct fleet *fleet, uint64_t step)
{
    struct fleet_meeting *at = &fleet->meeting[step % FLEET_KEPT];
    const struct fleet_meeting *before = &fleet->meeting[(step + FLEET_KEPT - 1) % FLEET_KEPT];

    if (at->step == step + 1)
        return at;
    fleet_meet(fleet, step, at);
    at->begin_ns = step && before->step == step ? before->begin_ns + before->length_ns + GAP_NS : 0;
    return at;
}

static void fleet_rank_times(const struct fleet *fleet, const struct fleet_meeting *met,
                             uint32_t rank, uint64_t step)
{
    uint32_t place = rank % FLEET_NODE_RANKS, item = 0;
    int64_t at = 0, launch = 0;

    for (uint32_t block = 0; block < FLEET_BLOCKS; block++) {
        int64_t end = met->end_ns[place][block],
                ready = at + fleet_compute_ns(fleet, rank, step, block);
        uint32_t ops = fleet_ops_in(fleet, block);

        fleet->time[item++] = (struct item_time){ launch += LAUNCH_NS, at, ready, -1 };
        for (uint32_t op = 0; op < ops; op++) {
            int64_t until = end - (int64_t)(ops - op - 1) * TRANSFER_NS;

            fleet->time[item++] = (struct item_time){ launch += LAUNCH_NS, ready, until, -1 };
            ready = until;
        }
        at = end;
    }
    fleet->time[item] = (struct item_time){ launch + LAUNCH_NS, at, met->length_ns, -1 };
}

static void fleet_put_beat(uint32_t rank, uint64_t step, int64_t now_ns, struct buf *payload)
{
    struct fact_beat beat = {
        .rank = rank, .mono_ns = now_ns, .state = 'R', .step = step, .advanced = true
    };

    fact_beat_put(payload, &beat);
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
void fleet_step(struct fleet *fleet, uint32_t node, uint64_t step, int64_t begin_ns, uint64_t boot,
                uint64_t *number, struct buf *out)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    const struct fleet_meeting *met = bench_fleet_meeting(fleet, step);
    uint64_t sender = fleet_node_sender(node);

    for (uint32_t place = 0; place < FLEET_NODE_RANKS; place++) {
        uint32_t rank = node * FLEET_NODE_RANKS + place;
        struct fact_step fact = { .rank = rank,
                                  .step = step,
                                  .shape = fleet->shape[place].hash,
                                  .begin_ns = begin_ns + met->begin_ns,
                                  .count = fleet_items_of(fleet),
                                  .time = fleet->time };

        fleet_rank_times(fleet, met, rank, step);
        fact.duration_ns = fleet->time[fact.count - 1].end_ns;
        fact.tail_ns = met->length_ns + GAP_NS - fact.duration_ns;
        payload.size = 0;
        fact_step_put(&payload, &fact, &fleet->shape[place]);
        fleet_put_frame(out, FRAME_STEP, sender, boot, (*number)++, &payload);
        payload.size = 0;
        fleet_put_beat(rank, step, fact.begin_ns + fact.duration_ns, &payload);
        fleet_put_frame(out, FRAME_BEAT, sender, boot, (*number)++, &payload);
    }
}

void fleet_beats(uint32_t node, uint64_t step, int64_t now_ns, uint64_t boot, uint64_t *number,
                 struct buf *out)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    for (uint32_t place = 0; place < FLEET_NODE_RANKS; place++) {
        payload.size = 0;
        fleet_put_beat(node * FLEET_NODE_RANKS + place, step, now_ns, &payload);
        fleet_put_frame(out, FRAME_BEAT, fleet_node_sender(node), boot, (*number)++, &payload);
    }
}
