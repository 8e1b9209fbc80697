/* test-sync-method.c - when a slow transfer is one that the library moves otherwise, and when that is not why.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/buf.h"
#include "judge/slow/sync.h"
#include "judge/slow/sync_private.h"
#include "judge/test/bench.h"

#define HEALTHY 14 /* steps before a fault: enough to know what is typical */
#define MS INT64_C(1000000)
#define DP0 0x2000 /* the data parallel communicators of tensor index 0 and 1 */
#define DP1 0x2001
#define BYTES 26214400

/* All members of a communicator tell it. */
static void put_method_at(struct bench *bench, uint64_t comm, uint64_t step, uint32_t channels,
                          const char *text)
{
    for (uint32_t rank = 0; rank < bench->lab->world; rank++) {
        struct fact_comm member;
        struct fact_method fact = { .rank = rank,
                                    .attempt = bench->lab->attempt,
                                    .step = step,
                                    .comm = comm,
                                    .op = LOCKSTEP_OP_ALL_REDUCE,
                                    .bytes = BYTES,
                                    .channels = channels };

        snprintf(fact.text, sizeof(fact.text), "%s", text);
        for (uint32_t i = 0; lab_comm(bench->lab, rank, i, &member); i++) {
            if (member.id == comm)
                assert_int_equal(sync_method(&bench->judge, &fact), 0);
        }
    }
}

static uint64_t next_step(const struct bench *bench)
{
    return bench->lab->step + 1;
}

static void put_method(struct bench *bench, uint64_t comm, uint32_t channels, const char *text)
{
    put_method_at(bench, comm, next_step(bench), channels, text);
}

static struct lab_config two_nodes(uint32_t tp)
{
    struct lab_config config = layout(tp, 1, 4);

    config.per_node = 2 * tp;
    return config;
}

/* A job of two data parallel communicators between two nodes, both moved the same. */
static struct bench healthy(bool told)
{
    struct lab_config config = two_nodes(2);
    struct bench bench = bench_open(&config);

    if (told) {
        put_method_at(&bench, DP0, UINT64_MAX, 16, "RING/SIMPLE");
        put_method_at(&bench, DP1, UINT64_MAX, 16, "RING/SIMPLE");
    }
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    assert_int_equal(bench.judge.verdicts.count, 0);
    return bench;
}

static void slow(struct bench *bench, uint64_t comm)
{
    bench->lab->fault.slow_comm = comm;
    bench->lab->fault.comm = 7;
    lab_judge_many(bench->lab, &bench->judge, 8);
}

static const struct verdict *only_verdict(const struct bench *bench)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, VERDICT_SYNC_STALL, 0);

    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench->judge, 0), 1);
    return &tracked->verdict;
}

static bool because(const struct verdict *verdict, const char *words)
{
    bool found = false;

    for (uint32_t i = 0; i < verdict->because_count; i++)
        found |= strstr(verdict->because[i].what, words) != NULL;
    return found;
}

static void restart(struct bench *bench)
{
    lab_restart(bench->lab, 10, INT64_C(2000) * MS);
    judge_state_attempt(&bench->judge, bench->lab->attempt, bench->lab->rank[0].begin_ns);
    lab_introduce(bench->lab, &bench->judge);
}

static void fewer_channels_than_before_are_the_cause(void **state)
{
    struct bench bench = healthy(true);
    const struct verdict *verdict;

    (void)state;
    put_method(&bench, DP1, 2, "RING/SIMPLE");
    slow(&bench, DP1);
    verdict = only_verdict(&bench);
    assert_string_equal(verdict->cause, "fewer channels than before: 2, were 16");
    assert_int_equal(verdict->layer, LAYER_FABRIC);
    assert_string_equal(verdict->group, "dp");
    assert_true(
        because(verdict, "2 channels, RING/SIMPLE, since step 14; 16 channels, RING/SIMPLE"));
    assert_true(because(verdict, "1 other communicator of its kind and size, not slow: 16 "));
    bench_close(&bench);
}

static void another_algorithm_is_said_and_nobody_is_blamed_for_it(void **state)
{
    struct bench bench = healthy(true);
    const struct verdict *verdict;

    (void)state;
    put_method(&bench, DP1, 16, "TREE/LL");
    slow(&bench, DP1);
    verdict = only_verdict(&bench);
    assert_string_equal(verdict->cause, "another algorithm than before: TREE/LL, was RING/SIMPLE");
    assert_int_equal(verdict->layer, LAYER_UNKNOWN);
    assert_true(verdict->confidence <= 0.5);
    bench_close(&bench);
}

static void inside_a_node_fewer_channels_have_no_layer(void **state)
{
    struct lab_config config = layout(2, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 4;
    bench = bench_open(&config);
    put_method(&bench, 0x1000, 24, "RING/LL128"); /* a tensor parallel one */
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    put_method(&bench, 0x1000, 12, "RING/LL128");
    slow(&bench, 0x1000);
    assert_string_equal(only_verdict(&bench)->cause, "fewer channels than before: 12, were 24");
    assert_int_equal(only_verdict(&bench)->layer, LAYER_UNKNOWN);
    bench_close(&bench);
}

/* Agents tell it at once, and steps when they are over: the last sound ones are judged after it. */
static void it_holds_from_the_step_in_which_it_was_told(void **state)
{
    struct bench bench = healthy(true);

    (void)state;
    put_method_at(&bench, DP1, next_step(&bench) + 5, 2, "RING/SIMPLE");
    lab_judge_many(bench.lab, &bench.judge, 5);
    slow(&bench, DP1);
    assert_string_equal(only_verdict(&bench)->cause, "fewer channels than before: 2, were 16");
    bench_close(&bench);
}

static void put(const struct verdict *verdict, struct buf *out)
{
    verdict_put(out, verdict);
    assert_false(out->failed);
}

/* The network becomes slow long after it: every byte is as if nobody had told. */
static void a_change_that_cost_nothing_is_never_said(void **state)
{
    CLEAN(buf_fini) struct buf reported = { 0 }, silent = { 0 };
    struct bench bench = healthy(true), other = healthy(false);

    (void)state;
    put_method(&bench, DP0, 2, "TREE/LL");
    put_method(&bench, DP1, 2, "TREE/LL");
    for (int i = 0; i < 2; i++) {
        struct bench *at = i ? &other : &bench;

        lab_judge_many(at->lab, &at->judge, 20);
        assert_int_equal(at->judge.verdicts.count, 0);
        at->lab->fault.fabric = 7;
        lab_judge_many(at->lab, &at->judge, 20);
        put(only_verdict(at), i ? &silent : &reported);
    }
    assert_int_equal(reported.size, silent.size);
    assert_memory_equal(reported.data, silent.data, reported.size);
    bench_close(&bench);
    bench_close(&other);
}

static void a_library_that_goes_to_and_fro_has_both_ways(void **state)
{
    struct bench bench = healthy(true);

    (void)state;
    for (int i = 0; i < 12; i++) {
        put_method(&bench, DP1, i % 2 ? 16 : 4, "RING/SIMPLE");
        lab_judge(bench.lab, &bench.judge);
    }
    put_method(&bench, DP1, 4, "RING/SIMPLE");
    slow(&bench, DP1);
    assert_string_equal(only_verdict(&bench)->cause, "transfers of some communicators are slow");
    bench_close(&bench);
}

/* Both are slow and one of them is moved as ever: it is not that. */
static void most_of_what_is_slow_must_have_changed(void **state)
{
    (void)state;
    for (uint64_t comm = DP0; comm <= DP1; comm++) { /* one of them is the slowest */
        struct bench bench = healthy(true);

        put_method(&bench, comm, 2, "RING/SIMPLE");
        bench.lab->fault.fabric = 7;
        lab_judge_many(bench.lab, &bench.judge, 8);
        assert_string_equal(only_verdict(&bench)->cause, "all transfers between nodes are slow");
        assert_false(because(only_verdict(&bench), "channels"));
        bench_close(&bench);
    }
}

static void in_one_step_the_fewest_count_whoever_tells_last(void **state)
{
    struct bench bench = healthy(true);

    (void)state;
    put_method(&bench, DP1, 2, "RING/SIMPLE");
    put_method(&bench, DP1, 16, "RING/SIMPLE");
    slow(&bench, DP1);
    assert_string_equal(only_verdict(&bench)->cause, "fewer channels than before: 2, were 16");
    bench_close(&bench);
}

static void fewer_channels_since_the_restart_are_said_so(void **state)
{
    struct bench bench = healthy(true);
    const struct verdict *verdict;

    (void)state;
    restart(&bench);
    put_method_at(&bench, DP0, UINT64_MAX, 2, "RING/SIMPLE");
    put_method_at(&bench, DP1, UINT64_MAX, 2, "RING/SIMPLE");
    bench.lab->fault.fabric = 7;
    lab_judge_many(bench.lab, &bench.judge, 8);
    verdict = only_verdict(&bench);
    assert_string_equal(verdict->cause, "fewer channels than before the restart: 2, were 16");
    assert_true(because(verdict, "in this attempt; 16 channels, RING/SIMPLE, before the restart"));
    assert_true(because(verdict, "2 of 2 slow communicators changed algorithm, protocol"));
    bench_close(&bench);
}

static void one_that_is_slow_through_two_restarts_is_still_known(void **state)
{
    struct bench bench = healthy(true);

    (void)state;
    for (int i = 0; i < 2; i++) {
        restart(&bench);
        put_method_at(&bench, DP0, UINT64_MAX, 16, "RING/SIMPLE");
        put_method_at(&bench, DP1, UINT64_MAX, 2, "RING/SIMPLE");
        slow(&bench, DP1);
    }
    assert_string_equal(only_verdict(&bench)->cause,
                        "fewer channels than before the restart: 2, were 16");
    bench_close(&bench);
}

static void without_a_past_it_is_held_against_its_peers(void **state)
{
    struct bench bench = healthy(false);
    const struct verdict *verdict;

    (void)state;
    restart(&bench);
    put_method_at(&bench, DP0, UINT64_MAX, 16, "RING/SIMPLE");
    put_method_at(&bench, DP1, UINT64_MAX, 2, "RING/SIMPLE");
    slow(&bench, DP1);
    verdict = only_verdict(&bench);
    assert_string_equal(verdict->cause,
                        "fewer channels than its peers' communicators: 2, theirs 16");
    assert_true(because(verdict, "1 other communicator of its kind and size, not slow: 16 "));
    bench_close(&bench);
}

static void peers_that_are_slow_themselves_show_nothing(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct bench bench = healthy(false);

        restart(&bench);
        put_method_at(&bench, DP0, UINT64_MAX, which ? 16 : 2, "RING/SIMPLE");
        put_method_at(&bench, DP1, UINT64_MAX, which ? 2 : 16, "RING/SIMPLE");
        bench.lab->fault.fabric = 7;
        lab_judge_many(bench.lab, &bench.judge, 8);
        assert_string_equal(only_verdict(&bench)->cause, "all transfers between nodes are slow");
        bench_close(&bench);
    }
}

/* It has always had fewer than its peer: that is not what is new. */
static void what_it_always_had_is_not_why(void **state)
{
    struct lab_config config = two_nodes(2);
    struct bench bench = bench_open(&config);

    (void)state;
    put_method(&bench, DP0, 16, "RING/SIMPLE");
    put_method(&bench, DP1, 2, "RING/SIMPLE");
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    slow(&bench, DP1);
    assert_string_equal(only_verdict(&bench)->cause, "transfers of some communicators are slow");
    bench_close(&bench);
}

/* It began with few, got more, and has few again: what is usual is what it took with more. */
static void what_was_usual_once_may_be_slow_today(void **state)
{
    struct lab_config config = two_nodes(2);
    struct bench bench = bench_open(&config);

    (void)state;
    put_method(&bench, DP1, 2, "RING/SIMPLE");
    bench.lab->fault.slow_comm = DP1;
    bench.lab->fault.comm = 7;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    assert_int_equal(bench.judge.verdicts.count, 0);
    put_method(&bench, DP1, 16, "RING/SIMPLE");
    bench.lab->fault.comm = 0;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    put_method(&bench, DP1, 2, "RING/SIMPLE");
    slow(&bench, DP1);
    assert_string_equal(only_verdict(&bench)->cause, "fewer channels than before: 2, were 16");
    bench_close(&bench);
}

static void facts_of_nobody_and_too_many_of_them_do_no_harm(void **state)
{
    struct bench bench = healthy(true);
    struct fact_method fact = { .comm = 0x7777, .op = LOCKSTEP_OP_ALL_REDUCE, .channels = 1 };

    (void)state;
    assert_int_equal(sync_method(&bench.judge, &fact), 0);
    assert_int_equal(bench.judge.sync->moves, 2);
    fact.comm = DP0;
    fact.attempt = 7; /* not this one */
    assert_int_equal(sync_method(&bench.judge, &fact), 0);
    assert_int_equal(bench.judge.sync->moves, 2);
    fact.attempt = 0;
    for (uint32_t i = 0; i < 600; i++) { /* sizes are classes: an eighth of an octave */
        for (fact.op = 1; fact.op < LOCKSTEP_OP_SEND; fact.op++) {
            fact.bytes = UINT64_C(1) << i % 48 | i;
            assert_int_equal(sync_method(&bench.judge, &fact), 0);
        }
    }
    assert_true(bench.judge.sync->moves < 65536);
    lab_judge_many(bench.lab, &bench.judge, 4);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fewer_channels_than_before_are_the_cause),
        cmocka_unit_test(another_algorithm_is_said_and_nobody_is_blamed_for_it),
        cmocka_unit_test(inside_a_node_fewer_channels_have_no_layer),
        cmocka_unit_test(it_holds_from_the_step_in_which_it_was_told),
        cmocka_unit_test(a_change_that_cost_nothing_is_never_said),
        cmocka_unit_test(a_library_that_goes_to_and_fro_has_both_ways),
        cmocka_unit_test(most_of_what_is_slow_must_have_changed),
        cmocka_unit_test(fewer_channels_since_the_restart_are_said_so),
        cmocka_unit_test(one_that_is_slow_through_two_restarts_is_still_known),
        cmocka_unit_test(without_a_past_it_is_held_against_its_peers),
        cmocka_unit_test(in_one_step_the_fewest_count_whoever_tells_last),
        cmocka_unit_test(peers_that_are_slow_themselves_show_nothing),
        cmocka_unit_test(what_it_always_had_is_not_why),
        cmocka_unit_test(what_was_usual_once_may_be_slow_today),
        cmocka_unit_test(facts_of_nobody_and_too_many_of_them_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
