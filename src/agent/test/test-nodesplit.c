/* test-nodesplit.c - ops of ranks on one node: who waited, and how long a step is held for that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/ring/hold.h"
#include "agent/ring/nodesplit.h"
#include "core/clean.h"
#include "core/rand.h"
#include "lockstep/probe.h"

#define RANKS 8
#define OPS 600
#define ITEMS 40
#define MS INT64_C(1000000)

static void destroy(struct nodesplit **split)
{
    nodesplit_destroy(*split);
}

static void announce(struct nodesplit *split, uint64_t id, uint32_t size, uint32_t rank,
                     uint32_t index)
{
    nodesplit_comm(split, &(struct fact_comm){
                              .rank = rank, .attempt = 1, .id = id, .size = size, .index = index });
}

/* One rank's step: its ops in order of launch, and items of which every fifth is a single op. */
struct rank {
    struct split_op op[OPS];
    uint32_t ops;
    uint64_t keys[4], messages;
    int64_t wanted[ITEMS]; /* waiting, by the reference */
    struct item_time time[ITEMS];
    struct fact_step step;
};

struct scene {
    struct rand rand;
    uint32_t ranks;
    struct rank rank[RANKS];
    struct shape_item item[ITEMS];
    struct fact_shape shape;
};

static void scene_set(struct scene *scene, uint32_t ranks, uint64_t seed)
{
    *scene = (struct scene){ .rand = { seed }, .ranks = ranks };
    for (uint32_t i = 0; i < ITEMS; i++)
        scene->item[i] = (struct shape_item){ .kind = ITEM_COLL, .count = i % 5 ? 8 : 1 };
    scene->shape = (struct fact_shape){ .count = ITEMS, .item = scene->item };
    for (uint32_t i = 0; i < RANKS; i++)
        scene->rank[i].step = (struct fact_step){
            .rank = i, .attempt = 1, .step = 7, .count = ITEMS, .time = scene->rank[i].time
        };
}

static struct split_op *add(struct scene *scene, uint32_t rank, uint8_t kind, uint8_t what,
                            uint64_t comm)
{
    struct rank *self = &scene->rank[rank];
    struct split_op *op = &self->op[self->ops++];

    assert_true(self->ops <= OPS);
    *op = (struct split_op){ .kind = kind, .what = what, .comm = comm, .ended = true };
    op->item = rand_below(&scene->rand, ITEMS);
    op->merged = op->item % 5 != 0;
    op->key = kind == ITEM_COLL ? self->keys[comm]++ : self->messages++;
    op->start_ns = 1000 * MS + rand_below(&scene->rand, 1000000);
    op->end_ns = op->start_ns + rand_below(&scene->rand, 1000000);
    return op;
}

static bool waits_for_all(uint8_t what) /* said again here, on purpose */
{
    return what == LOCKSTEP_OP_ALL_REDUCE || what == LOCKSTEP_OP_REDUCE_SCATTER ||
           what == LOCKSTEP_OP_ALL_GATHER || what == LOCKSTEP_OP_ALL_TO_ALL ||
           what == LOCKSTEP_OP_BARRIER;
}

/* The reference: all members of one meeting, side by side. */
static void want(struct scene *scene, struct split_op **op, const uint32_t *rank, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int64_t stay = op[i]->end_ns - op[i]->start_ns, shortest = stay, late = 0, wait;

        for (uint32_t j = 0; j < count; j++) {
            shortest = MIN(shortest, op[j]->end_ns - op[j]->start_ns);
            late = MAX(late, op[j]->start_ns - op[i]->start_ns);
        }
        wait = MIN(late, stay);
        if (op[i]->what == LOCKSTEP_OP_SEND && late > stay)
            wait = 0;
        if (op[i]->kind == ITEM_COLL && waits_for_all(op[i]->what))
            wait = stay - shortest;
        scene->rank[rank[i]].wanted[op[i]->item] += wait;
    }
}

/* Communicator 1 has all ranks, 2 the even ones, 3 all in reverse order. */
static uint32_t members_of(const struct scene *scene, uint64_t comm, uint32_t *rank)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < scene->ranks; i++) {
        if (comm != 2 || i % 2 == 0)
            rank[count++] = comm == 3 ? scene->ranks - 1 - i : i;
    }
    return count;
}

static void add_collective(struct scene *scene, uint64_t comm)
{
    struct split_op *op[RANKS];
    uint32_t rank[RANKS], count = members_of(scene, comm, rank);
    uint8_t what = (uint8_t)(1 + rand_below(&scene->rand, LOCKSTEP_OP_OTHER));

    for (uint32_t i = 0; i < count; i++)
        op[i] = add(scene, rank[i], ITEM_COLL, what, comm);
    want(scene, op, rank, count);
}

static void add_message(struct scene *scene)
{
    uint32_t from = rand_below(&scene->rand, scene->ranks);
    uint32_t to = (from + 1 + rand_below(&scene->rand, scene->ranks - 1)) % scene->ranks;
    struct split_op *op[2] = { add(scene, from, ITEM_P2P, LOCKSTEP_OP_SEND, 3),
                               add(scene, to, ITEM_P2P, LOCKSTEP_OP_RECV, 3) };

    op[0]->peer = scene->ranks - 1 - to; /* their places in communicator 3 */
    op[1]->peer = scene->ranks - 1 - from;
    want(scene, op, (const uint32_t[]){ from, to }, 2);
}

static void announce_all(struct scene *scene, struct nodesplit *split)
{
    for (uint64_t comm = 1; comm <= 3; comm++) {
        uint32_t rank[RANKS], count = members_of(scene, comm, rank);

        for (uint32_t i = 0; i < count; i++)
            announce(split, comm, count, rank[i], i);
    }
}

static bool join(struct scene *scene, struct nodesplit *split, uint32_t rank)
{
    struct rank *self = &scene->rank[rank];

    return nodesplit_join(split, &self->step, self->op, self->ops);
}

static bool ready(const struct scene *scene, const struct nodesplit *split, uint32_t rank)
{
    uint32_t from = 0;

    return nodesplit_ready(split, scene->rank[rank].op, scene->rank[rank].ops, &from);
}

static void sum(struct scene *scene, const struct nodesplit *split, uint32_t rank)
{
    struct rank *self = &scene->rank[rank];

    nodesplit_sum(split, self->op, self->ops, &scene->shape, &self->step);
}

static void sums_are_those_of_the_single_ops(void **state)
{
    static struct scene scene;

    (void)state;
    for (uint64_t seed = 0; seed < 70; seed++) {
        CLEAN(destroy) struct nodesplit *split = nodesplit_create();

        scene_set(&scene, 2 + (uint32_t)(seed % 7), seed);
        announce_all(&scene, split);
        for (int i = 0; i < 250; i++) {
            if (rand_below(&scene.rand, 3))
                add_collective(&scene, 1 + rand_below(&scene.rand, 3));
            else
                add_message(&scene);
        }
        for (uint32_t i = 0; i < scene.ranks; i++) {
            assert_true(join(&scene, split, (i + (uint32_t)seed) % scene.ranks));
            assert_int_equal(ready(&scene, split, (uint32_t)seed % scene.ranks),
                             i + 1 == scene.ranks);
        }
        for (uint32_t rank = 0; rank < scene.ranks; rank++) {
            sum(&scene, split, rank);
            assert_true(scene.rank[rank].step.flags & STEP_SPLIT);
            for (uint32_t i = 0; i < ITEMS; i++)
                assert_int_equal(scene.rank[rank].time[i].wait_ns,
                                 i % 5 ? scene.rank[rank].wanted[i] : -1);
        }
    }
}

static void without_a_member_nothing_is_said(void **state)
{
    static struct scene scene;
    CLEAN(destroy) struct nodesplit *split = nodesplit_create();

    (void)state;
    scene_set(&scene, 3, 1);
    announce_all(&scene, split);
    for (int i = 0; i < 200; i++)
        add_collective(&scene, 1);
    assert_true(join(&scene, split, 0));
    assert_true(join(&scene, split, 2));
    assert_false(ready(&scene, split, 0));
    sum(&scene, split, 0);
    assert_false(scene.rank[0].step.flags & STEP_SPLIT);
    for (uint32_t i = 0; i < ITEMS; i++)
        assert_int_equal(scene.rank[0].time[i].wait_ns, -1);
    join(&scene, split, 1);
    assert_true(ready(&scene, split, 0));
}

static void a_communicator_that_spans_nodes_is_left_alone(void **state)
{
    static struct scene scene;
    CLEAN(destroy) struct nodesplit *split = nodesplit_create();
    struct split_op *op[2];

    (void)state;
    scene_set(&scene, 2, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        announce(split, 1, 4, rank, rank); /* two more are elsewhere */
        announce(split, 2, 2, rank, rank);
        op[rank] = add(&scene, rank, ITEM_COLL, LOCKSTEP_OP_ALL_REDUCE, 1);
        op[rank]->item = 1;
        op[rank]->merged = true;
    }
    assert_false(join(&scene, split, 0)); /* nothing to wait for */
    assert_true(ready(&scene, split, 0));
    for (uint32_t rank = 0; rank < 2; rank++) {
        op[rank] = add(&scene, rank, ITEM_COLL, LOCKSTEP_OP_ALL_REDUCE, 2);
        op[rank]->item = 2;
        op[rank]->merged = true;
    }
    want(&scene, op, (const uint32_t[]){ 0, 1 }, 2);
    for (uint32_t rank = 0; rank < 2; rank++)
        assert_true(join(&scene, split, rank));
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_true(ready(&scene, split, rank));
        sum(&scene, split, rank);
        assert_int_equal(scene.rank[rank].time[1].wait_ns, -1);
        assert_int_equal(scene.rank[rank].time[2].wait_ns, scene.rank[rank].wanted[2]);
    }
}

static void an_op_without_an_end_hides_only_its_own_item(void **state)
{
    static struct scene scene;
    CLEAN(destroy) struct nodesplit *split = nodesplit_create();

    (void)state;
    scene_set(&scene, 4, 3);
    announce_all(&scene, split);
    for (int i = 0; i < 200; i++)
        add_collective(&scene, 1);
    scene.rank[2].op[50].ended = false;
    for (uint32_t rank = 0; rank < 4; rank++)
        join(&scene, split, rank);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_true(ready(&scene, split, rank));
        sum(&scene, split, rank);
        for (uint32_t i = 0; i < ITEMS; i++)
            assert_int_equal(scene.rank[rank].time[i].wait_ns,
                             i % 5 && i != scene.rank[rank].op[50].item ? scene.rank[rank].wanted[i]
                                                                        : -1);
    }
}

static void what_has_joined_is_forgotten_in_time(void **state)
{
    static struct scene scene;
    CLEAN(destroy) struct nodesplit *split = nodesplit_create();

    (void)state;
    scene_set(&scene, 2, 4);
    announce_all(&scene, split);
    for (int i = 0; i < 300; i++) /* so that each item has some */
        add_collective(&scene, 1);
    nodesplit_turn(split, 5 * NODESPLIT_KEEP_NS);
    join(&scene, split, 0);
    assert_true(nodesplit_busy(split));
    nodesplit_turn(split, 6 * NODESPLIT_KEEP_NS);
    assert_false(ready(&scene, split, 0)); /* still there, for the other one to meet */
    join(&scene, split, 1);
    assert_true(ready(&scene, split, 0));
    nodesplit_turn(split, 7 * NODESPLIT_KEEP_NS);
    nodesplit_turn(split, 8 * NODESPLIT_KEEP_NS);
    assert_false(nodesplit_busy(split));
    sum(&scene, split, 0);
    assert_false(scene.rank[0].step.flags & STEP_SPLIT);
}

/* ---- holding ---- */

/* A step of one collective in one merged item, or not merged; key 0 … */
static struct assembled fact_of(uint32_t rank, uint64_t key, bool merged)
{
    struct assembled fact = { .kind = ASSEMBLED_STEP };

    fact.step = (struct fact_step){ .rank = rank, .attempt = 1, .step = key, .count = 1 };
    fact.step.time = calloc(1, sizeof(*fact.step.time));
    fact.shape.item = calloc(1, sizeof(*fact.shape.item));
    fact.op = calloc(1, sizeof(*fact.op));
    assert_true(fact.step.time && fact.shape.item && fact.op);
    fact.shape.item[0] = (struct shape_item){ .kind = ITEM_COLL, .count = merged ? 2 : 1 };
    fact.op[0] = (struct split_op){ .kind = ITEM_COLL,
                                    .what = LOCKSTEP_OP_ALL_REDUCE,
                                    .comm = 1,
                                    .key = key,
                                    .ended = true,
                                    .merged = merged,
                                    .end_ns = (1 + rank) * MS };
    fact.shape.count = fact.ops = 1;
    return fact;
}

static void put(struct hold *hold, struct nodesplit *split, uint32_t rank, uint64_t key,
                int64_t now_ns)
{
    struct assembled fact = fact_of(rank, key, true);

    hold_put(hold, split, &fact, now_ns);
    assert_int_equal(fact.kind, ASSEMBLED_NONE);
}

static struct nodesplit *two_ranks(void)
{
    struct nodesplit *split = nodesplit_create();

    assert_non_null(split);
    announce(split, 1, 2, 0, 0);
    announce(split, 1, 2, 1, 1);
    return split;
}

static void a_step_waits_for_its_peer_and_no_longer_than_its_time(void **state)
{
    CLEAN(destroy) struct nodesplit *split = two_ranks();
    struct hold hold[2] = { 0 };
    struct assembled fact = { 0 };

    (void)state;
    put(&hold[1], split, 1, 0, 0);
    put(&hold[1], split, 1, 1, 10);
    assert_false(hold_take(&hold[1], split, HOLD_NS - 1, &fact));
    put(&hold[0], split, 0, 0, 20);
    assert_true(hold_take(&hold[1], split, 30, &fact));
    assert_int_equal(fact.step.step, 0);
    assert_true(fact.step.flags & STEP_SPLIT);
    assert_int_equal(fact.step.time[0].wait_ns, MS);
    assembled_fini(&fact);
    assert_false(hold_take(&hold[1], split, HOLD_NS + 9, &fact));
    assert_true(hold_take(&hold[1], split, HOLD_NS + 10, &fact));
    assert_int_equal(fact.step.step, 1);
    assert_false(fact.step.flags & STEP_SPLIT);
    assembled_fini(&fact);
    assert_false(hold_take(&hold[1], split, INT64_MAX, &fact));
    hold_fini(&hold[0]);
}

static void what_was_not_merged_goes_at_once_and_still_joins(void **state)
{
    CLEAN(destroy) struct nodesplit *split = two_ranks();
    struct hold small = { 0 }, merged = { 0 };
    struct assembled fact = fact_of(0, 0, false);

    (void)state;
    hold_put(&small, split, &fact, 0);
    assert_int_equal(fact.kind, ASSEMBLED_STEP);
    assert_int_equal(small.count, 0);
    assembled_fini(&fact);
    put(&merged, split, 1, 0, 0);
    assert_true(hold_take(&merged, split, 0, &fact));
    assert_int_equal(fact.step.time[0].wait_ns, MS);
    assembled_fini(&fact);
}

static void nothing_overtakes_a_held_step_but_notes(void **state)
{
    CLEAN(destroy) struct nodesplit *split = two_ranks();
    struct hold hold = { 0 };
    struct assembled note = { .kind = ASSEMBLED_NOTE }, gap = { .kind = ASSEMBLED_GAP };
    struct assembled small = fact_of(0, 2, false), fact = { 0 };
    const enum assembled_kind order[] = { ASSEMBLED_STEP, ASSEMBLED_GAP, ASSEMBLED_STEP };

    (void)state;
    put(&hold, split, 0, 1, 0);
    hold_put(&hold, split, &note, 0);
    assert_int_equal(note.kind, ASSEMBLED_NOTE);
    hold_put(&hold, split, &gap, 0);
    hold_put(&hold, split, &small, 0);
    assert_int_equal(gap.kind + small.kind, ASSEMBLED_NONE);
    for (uint64_t i = 0; i < COUNT(order); i++) {
        assert_true(hold_take(&hold, split, i ? 0 : HOLD_NS, &fact));
        assert_int_equal(fact.kind, order[i]);
        assembled_fini(&fact);
    }
    for (uint64_t i = 0; i < HOLD_FACTS; i++) {
        assert_false(hold_is_full(&hold));
        put(&hold, split, 0, 10 + i, 0);
    }
    assert_true(hold_is_full(&hold));
    hold_fini(&hold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_single_ops),
        cmocka_unit_test(without_a_member_nothing_is_said),
        cmocka_unit_test(a_communicator_that_spans_nodes_is_left_alone),
        cmocka_unit_test(an_op_without_an_end_hides_only_its_own_item),
        cmocka_unit_test(what_has_joined_is_forgotten_in_time),
        cmocka_unit_test(a_step_waits_for_its_peer_and_no_longer_than_its_time),
        cmocka_unit_test(what_was_not_merged_goes_at_once_and_still_joins),
        cmocka_unit_test(nothing_overtakes_a_held_step_but_notes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
