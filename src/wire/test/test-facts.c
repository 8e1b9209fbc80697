/* Facts come back as they were put, and bad bytes are refused.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/rand.h"
#include "wire/facts.h"
#include "wire/frame.h"
#include "wire/verdict.h"

static void halves_are_close_and_ordered(void **state)
{
    int64_t before = -1;

    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        int64_t ns = half_to_ns((uint16_t)half);

        assert_true(ns > before);
        assert_int_equal(half_from_ns(ns), half);
        before = ns;
    }
    for (int64_t ns = 1000; ns < INT64_C(1000000000000); ns = ns * 101 / 100 + 7) {
        int64_t back = half_to_ns(half_from_ns(ns));

        assert_true(llabs(back - ns) <= ns / 4096 + 63);
    }
    assert_int_equal(half_from_ns(-5), 0);
    assert_int_equal(half_from_ns(INT64_MAX), UINT16_MAX);
}

static void sizes_round_to_an_eighth_of_an_octave(void **state)
{
    (void)state;
    assert_int_equal(bytes_round(0), 0);
    assert_int_equal(bytes_round(15), 15);
    assert_int_equal(bytes_round(1000), 1024); /* steps of 64 there */
    assert_int_equal(bytes_round(950), 960);
    for (uint64_t bytes = 16; bytes < UINT64_C(1) << 50; bytes = bytes * 9 / 8 + 1) {
        uint64_t rounded = bytes_round(bytes);

        assert_true(rounded >= bytes - bytes / 15 && rounded <= bytes + bytes / 15);
        assert_int_equal(bytes_round(rounded), rounded);
    }
}

static struct fact_shape make_shape(struct rand *rand, uint32_t count)
{
    struct fact_shape shape = { .count = count, .item = calloc(count, sizeof(*shape.item)) };

    for (uint32_t i = 0; i < count; i++) {
        shape.item[i] = (struct shape_item){
            .kind = (uint8_t)(1 + rand_below(rand, 4)),
            .what = (uint8_t)(1 + rand_below(rand, 10)),
            .stream = (uint16_t)rand_below(rand, 4),
            .count = 1,
            .comm = rand_below(rand, 3) + 1,
            .bytes = bytes_round(rand_u64(rand) >> 40),
        };
    }
    shape_hash(&shape);
    return shape;
}

static struct fact_step make_step(struct rand *rand, const struct fact_shape *shape)
{
    struct fact_step step = {
        .rank = 3,
        .step = 41,
        .shape = shape->hash,
        .count = shape->count,
        .begin_ns = 12345678901,
        .duration_ns = 1000000000,
        .metric_set = 1u << 3 | 1u << 4,
        .metric = { [3] = 512, [4] = 9e9 },
        .digest_parts = 2,
        .digest = { 5, 6 },
        .time = calloc(shape->count, sizeof(*step.time)),
    };
    int64_t at = 0;

    for (uint32_t i = 0; i < shape->count; i++) {
        at += rand_below(rand, 2000000);
        step.time[i].enqueue_ns = step.time[i].start_ns = at;
        if (shape->item[i].kind != ITEM_PHASE)
            step.time[i].start_ns += rand_below(rand, 80000000);
        step.time[i].end_ns = step.time[i].start_ns + rand_below(rand, 5000000);
    }
    return step;
}

static void a_step_keeps_its_times(void **state)
{
    struct rand rand = { 7 };
    struct fact_shape shape = make_shape(&rand, 500), copy;
    struct fact_step step = make_step(&rand, &shape), back;
    struct buf bytes = { 0 };

    (void)state;
    fact_shape_put(&bytes, &shape);
    assert_int_equal(fact_shape_get(reader_of(bytes.data, bytes.size), &copy), 0);
    assert_memory_equal(copy.item, shape.item, 500 * sizeof(*copy.item));
    bytes.size = 0;
    fact_step_put(&bytes, &step, &shape);
    assert_int_equal(fact_step_shape(reader_of(bytes.data, bytes.size)), shape.hash);
    assert_int_equal(fact_step_get(reader_of(bytes.data, bytes.size), &copy, &back), 0);
    assert_true(back.metric[3] == 512);
    assert_int_equal(back.digest[1], 6);
    for (int i = 0; i < 500; i++) { /* rounding does not add up along the step */
        assert_true(llabs(back.time[i].enqueue_ns - step.time[i].enqueue_ns) < 1000);
        assert_true(llabs(back.time[i].end_ns - step.time[i].end_ns) < 25000);
    }
    for (size_t cut = 0; cut < bytes.size; cut++) {
        struct fact_step torn;

        assert_int_equal(fact_step_get(reader_of(bytes.data, cut), &copy, &torn), -EPROTO);
    }
    fact_step_fini(&back);
    fact_step_fini(&step);
    fact_shape_fini(&copy);
    fact_shape_fini(&shape);
    buf_fini(&bytes);
}

/* Its shape still says what its ops were; how long they took is gone. */
static void a_bare_step_keeps_its_numbers(void **state)
{
    struct shape_item item[3] = { { .kind = ITEM_SPAN, .what = 2, .count = 1 },
                                  { .kind = ITEM_SPAN, .what = 2, .count = 1 },
                                  { .kind = ITEM_SPAN, .what = 3, .count = 1 } };
    struct fact_shape shape = { .count = 3, .item = item };
    struct buf bytes = { 0 };
    struct fact_step put = { .rank = 3,
                             .step = 41,
                             .duration_ns = 9000000,
                             .flags = STEP_BARE | STEP_SPLIT,
                             .metric_set = 2,
                             .metric = { 0, 1.5 },
                             .digest_parts = 4,
                             .digest_part = 1,
                             .digest = { 7, 8 },
                             .own_ns = 5000000 };
    struct fact_step got = { 0 };

    (void)state;
    shape_hash(&shape);
    put.shape = shape.hash;
    fact_step_put(&bytes, &put, &shape);
    assert_int_equal(fact_step_get(reader_of(bytes.data, bytes.size), &shape, &got), 0);
    assert_int_equal(got.count, 0);
    assert_int_equal(got.digest[1], 8);
    assert_true(got.metric[1] == 1.5);
    assert_int_equal(fact_step_local_ns(&got, &shape), 5000000);
    fact_step_fini(&got);
    assert_int_equal(fact_step_get(reader_of(bytes.data, bytes.size - 1), &shape, &got), -EPROTO);
    bytes.data[bytes.size - 12] = 3; /* a count of ops that are not there */
    assert_int_equal(fact_step_get(reader_of(bytes.data, bytes.size), &shape, &got), -EPROTO);
    bytes.data[bytes.size - 12] = 0;
    bytes.data[bytes.size - 1] = 0x80; /* work that took less than no time */
    assert_int_equal(fact_step_get(reader_of(bytes.data, bytes.size), &shape, &got), -EPROTO);
    buf_fini(&bytes);
}

static void only_merged_ops_of_a_split_step_carry_their_waiting(void **state)
{
    struct rand rand = { 8 };
    struct fact_shape shape = make_shape(&rand, 500);
    struct fact_step step = make_step(&rand, &shape), back;
    struct buf bytes = { 0 }, split = { 0 };
    size_t merged = 0;

    (void)state;
    for (int i = 0; i < 500; i++) {
        shape.item[i].count = 1 + rand_below(&rand, 3);
        step.time[i].wait_ns = (int64_t)rand_below(&rand, 5000000) - 2500000;
        merged += item_has_wait(&shape.item[i]);
    }
    step.time[0].wait_ns = INT64_MAX; /* cut, and not taken for unknown */
    shape.item[0].kind = ITEM_COLL;
    merged += !item_has_wait(&shape.item[0]);
    shape.item[0].count = 2;
    shape_hash(&shape);
    step.shape = shape.hash;
    fact_step_put(&bytes, &step, &shape);
    step.flags |= STEP_SPLIT;
    fact_step_put(&split, &step, &shape);
    assert_true(merged > 0);
    assert_int_equal(split.size, bytes.size + 2 * merged);
    assert_int_equal(fact_step_get(reader_of(split.data, split.size), &shape, &back), 0);
    assert_true(back.time[0].wait_ns > 0);
    for (int i = 1; i < 500; i++) {
        if (!item_has_wait(&shape.item[i]) || step.time[i].wait_ns < 0)
            assert_int_equal(back.time[i].wait_ns, -1);
        else
            assert_true(llabs(back.time[i].wait_ns - step.time[i].wait_ns) < 1300);
    }
    fact_step_fini(&back);
    assert_int_equal(fact_step_get(reader_of(split.data, split.size - 1), &shape, &back), -EPROTO);
    assert_int_equal(fact_step_get(reader_of(bytes.data, bytes.size), &shape, &back), 0);
    for (int i = 0; i < 500; i++)
        assert_int_equal(back.time[i].wait_ns, -1);
    fact_step_fini(&back);
    fact_step_fini(&step);
    fact_shape_fini(&shape);
    buf_fini(&bytes);
    buf_fini(&split);
}

/* The bound holds whatever the mix of phases and ops, with and without the split. */
static void a_merged_step_fits_also_when_it_is_split(void **state)
{
    static struct shape_item merged[20000];
    static uint32_t group[20000];
    struct rand rand = { 10 };

    (void)state;
    for (uint32_t count = 1000; count < 20000; count += 331) {
        struct fact_shape shape = make_shape(&rand, count), small = { .item = merged };
        struct fact_step step;
        struct buf bytes = { 0 };

        small.count = (uint32_t)shape_merge(shape.item, count, merged, group);
        shape_hash(&small);
        step = make_step(&rand, &small);
        step.flags = STEP_SPLIT;
        step.metric_set = (1u << FACT_METRICS) - 1;
        fact_step_put(&bytes, &step, &small);
        assert_in_range(bytes.size, 1, FACT_STEP_BYTES_MAX);
        buf_fini(&bytes);
        fact_step_fini(&step);
        fact_shape_fini(&shape);
    }
}

static void merging_bounds_a_step(void **state)
{
    struct rand rand = { 9 };
    struct fact_shape shape = make_shape(&rand, 5000);
    struct shape_item *merged = calloc(5000, sizeof(*merged));
    uint32_t *group = calloc(5000, sizeof(*group));
    size_t count = shape_merge(shape.item, 5000, merged, group);
    uint64_t ops = 0;

    (void)state;
    assert_true(count > 0 && count * 6 < FACT_STEP_BYTES_MAX);
    for (size_t i = 0; i < count; i++)
        ops += merged[i].count;
    assert_int_equal(ops, 5000);
    for (size_t i = 0; i < 5000; i++) {
        assert_int_equal(merged[group[i]].kind, shape.item[i].kind);
        assert_int_equal(merged[group[i]].comm, shape.item[i].comm);
    }
    assert_int_equal(shape_merge(shape.item, 100, merged, group), 100); /* small ones stay */
    free(merged);
    free(group);
    fact_shape_fini(&shape);
}

static void a_verdict_comes_back_whole(void **state)
{
    struct verdict verdict = { .kind = VERDICT_STRAGGLER, .layer = LAYER_GPU, .confidence = 0.9 };
    struct verdict back;
    struct buf bytes = { 0 };
    char id[20];

    (void)state;
    verdict.rank_count = 2;
    verdict.rank[0] = 3;
    verdict.rank[1] = 5;
    verdict.node_count = 1;
    strcpy(verdict.run, "r1");
    strcpy(verdict.node[0], "n1");
    verdict_because(&verdict, "ring", "compute %.1f ms", 12.5);
    verdict_rule_out(&verdict, LAYER_CPU, "run delay as its peers");
    verdict_identify(&verdict);
    verdict_put(&bytes, &verdict);
    assert_int_equal(verdict_get(reader_of(bytes.data, bytes.size), &back), 0);
    assert_memory_equal(&back, &verdict, sizeof(back));
    strcpy(id, verdict.id);
    verdict.confidence = 0.5; /* evidence does not change which fault it is */
    verdict_identify(&verdict);
    assert_string_equal(id, verdict.id);
    verdict.rank[1] = 6;
    verdict_identify(&verdict);
    assert_string_not_equal(id, verdict.id);
    for (size_t cut = 0; cut < bytes.size; cut++)
        assert_int_equal(verdict_get(reader_of(bytes.data, cut), &back), -EPROTO);
    buf_fini(&bytes);
}

static void faults_of_nodes_have_ids_of_their_own(void **state)
{
    struct verdict verdict = { .kind = VERDICT_NODE_FAULT, .layer = LAYER_NIC, .node_count = 1 };
    char id[sizeof(verdict.id)];

    (void)state;
    strcpy(verdict.cause, "a port of a network adapter went down");
    strcpy(verdict.node[0], "n1");
    verdict_identify(&verdict);
    strcpy(id, verdict.id);
    strcpy(verdict.node[0], "n2");
    verdict_identify(&verdict);
    assert_string_not_equal(id, verdict.id);
    strcpy(id, verdict.id);
    strcpy(verdict.device, "0000:3b:00");
    verdict_identify(&verdict);
    assert_string_not_equal(id, verdict.id);
    strcpy(id, verdict.id);
    strcpy(verdict.cause, "a network adapter failed");
    verdict_identify(&verdict);
    assert_string_not_equal(id, verdict.id);
    strcpy(id, verdict.id);
    verdict.confidence = 0.5; /* evidence does not change which fault it is */
    verdict_identify(&verdict);
    assert_string_equal(id, verdict.id);
}

static void a_beat_keeps_how_often_its_rank_waited_for_storage(void **state)
{
    struct fact_beat beat = { .rank = 3,
                              .state = 'S',
                              .ops = 1,
                              .storage = { [BEAT_STORAGE_CHECKPOINT] = { 9, 7 } } },
                     back;
    struct buf bytes = { 0 };

    (void)state;
    fact_beat_put(&bytes, &beat);
    assert_int_equal(fact_beat_get(reader_of(bytes.data, bytes.size), &back), 0);
    assert_int_equal(back.storage[BEAT_STORAGE_DATA].looks, 0);
    assert_int_equal(back.storage[BEAT_STORAGE_CHECKPOINT].looks, 9);
    assert_int_equal(back.storage[BEAT_STORAGE_CHECKPOINT].waits, 7);
    bytes.data[bytes.size - 2] = 10; /* more often than it was looked at */
    assert_int_equal(fact_beat_get(reader_of(bytes.data, bytes.size), &back), -EPROTO);
    buf_fini(&bytes);
}

static void types_of_ops_come_back_and_are_left_out_where_nobody_tells(void **state)
{
    struct fact_beat beat = { .rank = 3, .state = 'S', .ops = 2, .op = { { .kind = ITEM_COLL } } };
    struct fact_beat back;
    struct buf bytes = { 0 }, typed = { 0 };

    (void)state;
    fact_beat_put(&bytes, &beat);
    beat.op[1].dtype = LOCKSTEP_DTYPE_FLOAT16;
    beat.op[0].dtype = 200; /* of a newer writer: kept */
    fact_beat_put(&typed, &beat);
    assert_true(typed.size > bytes.size);
    assert_int_equal(fact_beat_get(reader_of(bytes.data, bytes.size), &back), 0);
    assert_int_equal(back.op[1].dtype, LOCKSTEP_DTYPE_UNKNOWN);
    assert_int_equal(fact_beat_get(reader_of(typed.data, typed.size), &back), 0);
    assert_int_equal(back.op[0].dtype, 200);
    assert_int_equal(back.op[1].dtype, LOCKSTEP_DTYPE_FLOAT16);
    buf_fini(&bytes);
    buf_fini(&typed);
}

static void a_shape_with_types_differs_and_one_without_is_as_ever(void **state)
{
    struct rand rand = { 3 };
    struct fact_shape shape = make_shape(&rand, 3), back;
    uint64_t hash = shape.hash, class = shape.class;
    struct buf plain = { 0 }, typed = { 0 };

    (void)state;
    fact_shape_put(&plain, &shape);
    shape.item[2].dtype = LOCKSTEP_DTYPE_INT64;
    shape_hash(&shape);
    assert_true(shape.hash != hash);
    assert_int_equal(shape.class, class); /* peers still do the same work */
    fact_shape_put(&typed, &shape);
    assert_int_equal(typed.size, plain.size + 3);
    assert_int_equal(fact_shape_get(reader_of(typed.data, typed.size), &back), 0);
    assert_memory_equal(back.item, shape.item, 3 * sizeof(*back.item));
    fact_shape_fini(&back);
    for (size_t cut = plain.size + 1; cut < typed.size; cut++) /* some of them only */
        assert_int_equal(fact_shape_get(reader_of(typed.data, cut), &back), -EPROTO);
    fact_shape_fini(&shape);
    buf_fini(&plain);
    buf_fini(&typed);
}

static void ops_of_several_types_merge_as_those_of_one(void **state)
{
    struct rand rand = { 11 };
    struct fact_shape shape = make_shape(&rand, 5000);
    struct shape_item *merged = calloc(5000, sizeof(*merged));
    uint32_t *group = calloc(5000, sizeof(*group));
    size_t count = shape_merge(shape.item, 5000, merged, group);
    uint8_t first = 0;

    (void)state;
    for (uint32_t i = 0; i < 5000; i++)
        shape.item[i].dtype = (uint8_t)(1 + i % 2);
    assert_int_equal(shape_merge(shape.item, 5000, merged, group), count);
    for (uint32_t i = 0; i < 5000; i++) {
        if (group[i] != group[0])
            continue;
        first = first && first != shape.item[i].dtype ? LOCKSTEP_DTYPE_MIXED : shape.item[i].dtype;
        if (first == LOCKSTEP_DTYPE_MIXED)
            break;
    }
    assert_int_equal(merged[group[0]].dtype, first);
    free(merged);
    free(group);
    fact_shape_fini(&shape);
}

static bool method_is_taken(const struct fact_method *fact, size_t cut)
{
    CLEAN(buf_fini) struct buf bytes = { 0 };
    struct fact_method back = { 0 };
    int result;

    fact_method_put(&bytes, fact);
    result = fact_method_get(reader_of(bytes.data, bytes.size - cut), &back);
    assert_true(result == 0 || result == -EPROTO);
    if (result == 0) {
        assert_int_equal(back.step, fact->step);
        assert_int_equal(back.bytes, fact->bytes);
        assert_int_equal(back.channels, fact->channels);
        assert_string_equal(back.text, fact->text);
        assert_int_equal(fact_when(FRAME_METHOD, reader_of(bytes.data, bytes.size)), fact->mono_ns);
    }
    return result == 0;
}

static void how_a_collective_is_moved_has_its_bounds(void **state)
{
    const struct fact_method good = { .rank = 3,
                                      .step = UINT64_MAX,
                                      .mono_ns = 77,
                                      .comm = 9,
                                      .op = LOCKSTEP_OP_ALL_REDUCE,
                                      .bytes = UINT64_MAX,
                                      .channels = FACT_CHANNELS_MAX,
                                      .text = "0123456789012345678901234567890" };
    struct fact_method fact = good;

    (void)state;
    assert_true(method_is_taken(&good, 0));
    for (size_t cut = 1; cut < 40; cut++)
        assert_false(method_is_taken(&good, cut));
    fact.comm = 0;
    assert_false(method_is_taken(&fact, 0));
    fact = good;
    fact.op = LOCKSTEP_OP_SEND; /* no collective */
    assert_false(method_is_taken(&fact, 0));
    fact.op = 0;
    assert_false(method_is_taken(&fact, 0));
    fact = good;
    fact.channels = FACT_CHANNELS_MAX + 1;
    assert_false(method_is_taken(&fact, 0));
    fact = good;
    fact.mono_ns = INT64_MIN;
    assert_false(method_is_taken(&fact, 0));
}

/* One member for each small fact, so that all are tried in the same way. */
union small_fact {
    struct fact_hello hello;
    struct fact_ring ring;
    struct fact_comm comm;
    struct fact_beat beat;
    struct fact_exit exit;
    struct fact_gap gap;
    struct fact_note note;
    struct fact_stack stack;
    struct fact_run run;
    struct fact_tick tick;
    struct ledger ledger;
};

#define SMALL_FACT(name, prefix, ...)                                                              \
    static void small_##name##_put(struct buf *out)                                                \
    {                                                                                              \
        const union small_fact fact = { .name = { __VA_ARGS__ } };                                 \
                                                                                                   \
        prefix##name##_put(out, &fact.name);                                                       \
    }                                                                                              \
    static int small_##name##_get(struct reader in, union small_fact *ret)                         \
    {                                                                                              \
        return prefix##name##_get(in, &ret->name);                                                 \
    }

SMALL_FACT(hello, fact_, .kind = SENDER_AGENT, .run = "r", .node = "n0", .version = "1")
SMALL_FACT(ring, fact_, .rank = 1, .world = 2, .node = "n0")
SMALL_FACT(comm, fact_, .id = 7, .size = 2, .index = 1, .name = "dp")
SMALL_FACT(beat, fact_, .rank = 1, .state = 'S', .ops = 1, .channels = 1)
SMALL_FACT(exit, fact_, .rank = 1, .status = 9, .text = "killed", .words = "last words")
SMALL_FACT(gap, fact_, .rank = 1, .records = 5, .step_from = 3, .step_to = 4)
SMALL_FACT(note, fact_, .rank = 1, .text = "a note")
SMALL_FACT(stack, fact_, .rank = 1, .state = 'D', .kernel = "read", .why_not = "denied")
SMALL_FACT(run, fact_, .event = RUN_BEGIN, .ranks = 2, .text = "train")
SMALL_FACT(tick, fact_, .mono_ns = 1, .real_ns = 2)
SMALL_FACT(ledger, , .ranks = 2, .wall_seconds = 1, .steps = 3)

static void a_short_fact_leaves_the_output_untouched(void **state)
{
    static const struct {
        void (*put)(struct buf *out);
        int (*get)(struct reader in, union small_fact *ret);
    } facts[] = {
        { small_hello_put, small_hello_get },   { small_ring_put, small_ring_get },
        { small_comm_put, small_comm_get },     { small_beat_put, small_beat_get },
        { small_exit_put, small_exit_get },     { small_gap_put, small_gap_get },
        { small_note_put, small_note_get },     { small_stack_put, small_stack_get },
        { small_run_put, small_run_get },       { small_tick_put, small_tick_get },
        { small_ledger_put, small_ledger_get },
    };
    static union small_fact back, before;

    (void)state;
    memset(&before, 0xa5, sizeof(before));
    for (size_t i = 0; i < COUNT(facts); i++) {
        CLEAN(buf_fini) struct buf bytes = { 0 };
        size_t refused = 0;

        facts[i].put(&bytes);
        for (size_t cut = 0; cut < bytes.size; cut++) {
            back = before;
            if (facts[i].get(reader_of(bytes.data, cut), &back) == 0)
                continue; /* all but what came later */
            assert_memory_equal(&back, &before, sizeof(back));
            refused++;
        }
        assert_true(refused > 0);
        assert_int_equal(facts[i].get(reader_of(bytes.data, bytes.size), &back), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_are_close_and_ordered),
        cmocka_unit_test(sizes_round_to_an_eighth_of_an_octave),
        cmocka_unit_test(a_step_keeps_its_times),
        cmocka_unit_test(a_bare_step_keeps_its_numbers),
        cmocka_unit_test(only_merged_ops_of_a_split_step_carry_their_waiting),
        cmocka_unit_test(merging_bounds_a_step),
        cmocka_unit_test(a_merged_step_fits_also_when_it_is_split),
        cmocka_unit_test(a_verdict_comes_back_whole),
        cmocka_unit_test(faults_of_nodes_have_ids_of_their_own),
        cmocka_unit_test(a_beat_keeps_how_often_its_rank_waited_for_storage),
        cmocka_unit_test(types_of_ops_come_back_and_are_left_out_where_nobody_tells),
        cmocka_unit_test(a_shape_with_types_differs_and_one_without_is_as_ever),
        cmocka_unit_test(ops_of_several_types_merge_as_those_of_one),
        cmocka_unit_test(how_a_collective_is_moved_has_its_bounds),
        cmocka_unit_test(a_short_fact_leaves_the_output_untouched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
