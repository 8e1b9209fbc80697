/* test-core-budget.c - what facts make the core keep: by what was brought, never by what was claimed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "control/core.h"
#include "control/test/lab_frames.h"
#include "core/clean.h"
#include "core/time.h"

#define MOST 262144

static size_t held(void) /* 0 under a sanitizer's allocator */
{
    return mallinfo2().uordblks + mallinfo2().hblkhd;
}

static void feed(struct core *core, uint16_t type, const struct buf *payload)
{
    const struct frame fact = { .type = type,
                                .version = FRAME_VERSION,
                                .payload = payload->data,
                                .payload_bytes = payload->size };

    core_feed(core, &fact, NULL);
}

static void take_output(void *arg, uint16_t type, const struct buf *payload)
{
    (void)arg;
    (void)type;
    (void)payload;
}

static void tick(struct core *core, int64_t ms)
{
    core_tick(core, &(struct fact_tick){ .mono_ns = ms * NS_PER_MS, .real_ns = ms * NS_PER_MS }, 0,
              take_output, NULL);
}

static void ring(struct core *core, uint32_t rank, uint32_t world)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    fact_ring_put(
        &payload,
        &(struct fact_ring){ .rank = rank, .world = world, .attempt = 1, .node = "n", .pid = 7 });
    feed(core, FRAME_RING, &payload);
}

static void ended(struct core *core, uint32_t rank)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    fact_exit_put(&payload, &(struct fact_exit){ .rank = rank,
                                                 .attempt = 1,
                                                 .mono_ns = NS_PER_S,
                                                 .status = 9,
                                                 .text = "killed by signal 9 (SIGKILL)" });
    feed(core, FRAME_EXIT, &payload);
}

static void beat(struct core *core, uint32_t rank)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    fact_beat_put(&payload, &(struct fact_beat){
                                .rank = rank, .attempt = 1, .mono_ns = NS_PER_S, .state = 'S' });
    feed(core, FRAME_BEAT, &payload);
}

static void step(struct core *core, uint32_t rank, uint64_t number)
{
    static struct shape_item item = { .kind = ITEM_SPAN, .what = 2, .stream = 1, .count = 1 };
    struct fact_shape shape = { .count = 1, .item = &item };
    struct item_time time[2] = { { .start_ns = 1000, .end_ns = 2000 } };
    CLEAN(buf_fini) struct buf payload = { 0 };

    shape_hash(&shape);
    fact_shape_put(&payload, &shape);
    feed(core, FRAME_SHAPE, &payload);
    payload.size = 0;
    fact_step_put(&payload,
                  &(struct fact_step){ .rank = rank,
                                       .attempt = 1,
                                       .step = number,
                                       .shape = shape.hash,
                                       .begin_ns = (int64_t)number * NS_PER_MS,
                                       .duration_ns = NS_PER_MS,
                                       .count = 1,
                                       .time = time },
                  &shape);
    feed(core, FRAME_STEP, &payload);
}

static void members_that_are_only_claimed_cost_nothing(void **state)
{
    struct core *core;
    size_t before, bytes;

    (void)state;
    assert_int_equal(core_create("test", &core), 0);
    before = held();
    bytes = core_bytes(core);
    for (uint64_t id = 1; id <= 3000; id++) {
        CLEAN(buf_fini) struct buf payload = { 0 };

        fact_comm_put(&payload,
                      &(struct fact_comm){ .attempt = 1, .id = id, .size = MOST, .name = "world" });
        feed(core, FRAME_COMM, &payload);
    }
    assert_true(core_bytes(core) - bytes < 3000 * 1000);
    assert_true(held() - before < 3000 * 1000); /* they were 234 KB, and took 3.1 GB */
    core_destroy(core);
}

static void ranks_that_are_only_claimed_cost_little(void **state)
{
    struct core *core;
    size_t before;

    (void)state;
    assert_int_equal(core_create("test", &core), 0);
    before = held();
    ring(core, 0, MOST);
    for (uint64_t number = 0; number < 200; number++)
        step(core, 0, number);
    beat(core, 0);
    ended(core, MOST - 1);
    step(core, MOST - 1, 3);
    for (int64_t ms = 1000; ms < 60000; ms += 1000) /* the others never come: it is judged alone */
        tick(core, ms);
    assert_true(held() - before < 16 << 20); /* 75 MB for each step that waited, 200 of them */
    assert_true(core_bytes(core) < 16 << 20);
    core_destroy(core);
}

static void a_rank_beyond_what_is_believed_is_heard_when_it_is(void **state)
{
    const uint32_t world = 8192;
    struct core_counts counts;
    struct ledger ledger;
    struct core *core;

    (void)state;
    assert_int_equal(core_create("test", &core), 0);
    ring(core, world - 1, world);
    step(core, world - 1, 0);
    ring(core, 0, world);
    core_ledger(core, &ledger);
    assert_int_equal(ledger.ranks, 1024);
    for (uint32_t rank = 1; rank < world / 16; rank++)
        ring(core, rank, world);
    core_ledger(core, &ledger);
    assert_int_equal(ledger.ranks, world); /* as if it had been believed from the beginning */
    for (uint32_t rank = world / 16; rank < world - 1; rank++)
        ring(core, rank, world);
    for (uint32_t rank = 0; rank < world - 1; rank++)
        step(core, rank, 0);
    tick(core, 1000);
    core_counts(core, &counts);
    assert_int_equal(counts.steps_complete, 1); /* with the one that came before anybody else */
    assert_int_equal(counts.malformed, 0);
    core_destroy(core);
}

static void what_a_core_says_that_it_holds_is_what_it_holds(void **state)
{
    struct lab_config config = lab_plain;
    struct lab_frames begin = { 0 };
    struct core *core;
    struct lab *lab;
    size_t before, counted, has;

    (void)state;
    config.dp = 64;
    lab = lab_create(&config);
    lab_frames_begin(&begin, lab);
    before = held();
    assert_int_equal(core_create("test", &core), 0);
    for (size_t i = 0; i < begin.count; i++)
        feed(core, begin.frame[i].type,
             &(struct buf){ .data = begin.frame[i].payload, .size = begin.frame[i].bytes });
    for (int i = 0; i < 60; i++) {
        struct lab_frames frames = { 0 };

        lab_step(lab);
        lab_frames_step(&frames, lab);
        for (size_t k = 0; k < frames.count; k++)
            feed(core, frames.frame[k].type,
                 &(struct buf){ .data = frames.frame[k].payload, .size = frames.frame[k].bytes });
        lab_frames_fini(&frames);
        tick(core, 1000 + i);
    }
    has = held() - before;
    counted = core_bytes(core);
    print_message("%zu bytes, said to be %zu\n", has, counted);
    assert_true(counted > 1 << 20);
    if (held()) {
        assert_true(counted < 2 * has);
        assert_true(has < 2 * counted);
    }
    core_destroy(core);
    lab_frames_fini(&begin);
    lab_destroy(lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_that_are_only_claimed_cost_nothing),
        cmocka_unit_test(ranks_that_are_only_claimed_cost_little),
        cmocka_unit_test(a_rank_beyond_what_is_believed_is_heard_when_it_is),
        cmocka_unit_test(what_a_core_says_that_it_holds_is_what_it_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
