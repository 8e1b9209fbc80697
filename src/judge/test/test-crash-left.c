/* test-crash-left.c - ends whose status nobody knows: another launcher is the parent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/crash_scene.h"

static void leaves(struct bench *bench, uint32_t rank, int64_t ms, bool closed)
{
    struct fact_exit fact = {
        .rank = rank, .attempt = bench->lab->attempt, .mono_ns = ms * MS, .status = closed ? 0 : -1
    };

    snprintf(fact.text, sizeof(fact.text), "%s",
             closed ? EXIT_CLOSED : "gone, exit status unknown");
    crash_exit(&bench->judge, &fact);
}

static void one_that_noted_an_exception_and_closed_its_ring_has_crashed(void **state)
{
    struct bench bench = four();
    const struct verdict *verdict;

    (void)state;
    raises(&bench, 1, 4800, "uncaught ValueError: bad batch at train.py:48");
    leaves(&bench, 1, 5000, true);
    leaves(&bench, 0, 5100, false); /* ended for its sake */
    crash_judge(&bench.judge, 6200 * MS, false);
    verdict = crash_of(&bench);
    assert_int_equal(verdict->rank[0], 1);
    assert_int_equal(verdict->layer, LAYER_USER_CODE);
    assert_string_equal(verdict->cause,
                        "ended by an exception: ValueError: bad batch at train.py:48");
    assert_int_equal(verdict->since_real_ns, 4800 * MS);
    assert_string_equal(verdict->because[0].source, "ring"); /* no launcher has said so */
    assert_int_equal(verdict->because_count, 2);
    bench_close(&bench);
}

static void workers_that_a_launcher_ended_are_echoes_of_the_one_that_raised(void **state)
{
    struct bench bench = four();

    (void)state;
    leaves(&bench, 0, 4900, false); /* seen first: the other one's interpreter takes its time */
    leaves(&bench, 2, 4900, false);
    raises(&bench, 1, 4800, "uncaught ValueError: bad batch at train.py:48");
    raises(&bench, 3, 4850, "uncaught " CLOSED " at train.py:7");
    leaves(&bench, 3, 5000, true);
    leaves(&bench, 1, 5000, true);
    crash_failed(&bench.judge);
    crash_judge(&bench.judge, 5100 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 1);
    assert_int_equal(crash_of(&bench)->echo_count, 3);
    bench_close(&bench);
}

static void ends_in_order_or_gone_are_nothing_where_the_command_ended_well(void **state)
{
    struct bench bench = four();

    (void)state;
    leaves(&bench, 0, 5000, true);
    leaves(&bench, 1, 5000, false);
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void the_first_that_is_gone_is_named_where_the_command_failed(void **state)
{
    struct bench bench = four();

    (void)state;
    leaves(&bench, 2, 5000, false);
    raises(&bench, 0, 4990, "uncaught " CLOSED " at train.py:7"); /* lost it before we saw it go */
    leaves(&bench, 0, 5100, true);
    leaves(&bench, 3, 5400, false);
    crash_judge(&bench.judge, 9000 * MS, false);
    assert_int_equal(bench.judge.verdicts.count, 0); /* it may be planned */
    crash_failed(&bench.judge);
    leaves(&bench, 1, 5500, false); /* told after the end of the attempt */
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    assert_string_equal(crash_of(&bench)->cause, "gone, exit status unknown");
    assert_true(crash_of(&bench)->confidence <= 0.6);
    assert_int_equal(crash_of(&bench)->ruled_out_count, 0);
    assert_int_equal(crash_of(&bench)->echo_count, 3);
    bench_close(&bench);
}

static void of_two_that_are_gone_at_once_nobody_can_tell(void **state)
{
    struct bench bench = four();

    (void)state;
    leaves(&bench, 2, 5000, false);
    leaves(&bench, 3, 5010, false);
    crash_failed(&bench.judge);
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_true(crash_of(&bench)->confidence <= 0.3);
    bench_close(&bench);
}

/* sys.exit(3): nothing is noted, the ring is closed in order, and the others lose it. */
static void one_that_left_in_order_while_others_lost_it_is_named(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 0, 5000, "uncaught " CLOSED " at train.py:7");
    leaves(&bench, 0, 5200, true);
    leaves(&bench, 1, 5300, true);
    crash_failed(&bench.judge);
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 1);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    assert_true(crash_of(&bench)->confidence <= 0.5);
    assert_int_equal(crash_of(&bench)->echo_count, 1);
    bench_close(&bench);
}

static void ends_with_status_0(struct bench *bench, uint32_t rank, int64_t ms)
{
    struct fact_exit fact = {
        .rank = rank, .attempt = bench->lab->attempt, .mono_ns = ms * MS, .text = "exited with 0"
    };

    crash_exit(&bench->judge, &fact);
}

/* sys.exit(0), or uneven shards: our launcher saw it, though it may be noticed late. */
static void one_whose_launcher_saw_it_leave_with_status_0_is_named_by_those_who_lose_it(
    void **state)
{
    static const int64_t left_ms[] = { 4900, 5100, -20000 };

    (void)state;
    for (size_t i = 0; i < COUNT(left_ms); i++) {
        struct bench bench = four();
        struct fact_exit lost = { .rank = 0,
                                  .attempt = bench.lab->attempt,
                                  .mono_ns = 5000 * MS,
                                  .status = 1 << 8,
                                  .text = "exited with 1",
                                  .words = CLOSED };

        ends_with_status_0(&bench, 2, left_ms[i]);
        crash_exit(&bench.judge, &lost);
        crash_judge(&bench.judge, 9000 * MS, true);
        assert_int_equal(crash_of(&bench)->rank[0], 2);
        assert_int_equal(crash_of(&bench)->layer, LAYER_USER_CODE);
        assert_true(crash_of(&bench)->confidence >= 0.8);
        assert_int_equal(crash_of(&bench)->echo_count, 1);
        bench_close(&bench);
    }
}

static void one_that_left_with_status_0_is_nothing_where_nobody_loses_it(void **state)
{
    struct bench bench = four();
    struct fact_exit failed = { .rank = 0,
                                .attempt = bench.lab->attempt,
                                .mono_ns = 5000 * MS,
                                .status = 1 << 8,
                                .text = "exited with 1",
                                .words = "ValueError: bad batch" };

    (void)state;
    ends_with_status_0(&bench, 2, 4900);
    crash_judge(&bench.judge, 4950 * MS, true);
    assert_int_equal(bench.judge.verdicts.count, 0);
    crash_exit(&bench.judge, &failed);
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 0);
    bench_close(&bench);
}

static void one_that_left_in_order_before_others_were_ended_is_named(void **state)
{
    struct bench bench = four();

    (void)state;
    leaves(&bench, 1, 5000, true);
    leaves(&bench, 0, 5300, false);
    crash_failed(&bench.judge);
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 1);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    assert_true(crash_of(&bench)->confidence <= 0.4);
    bench_close(&bench);
}

static void one_that_is_gone_before_others_left_in_order_or_long_after_is_named(void **state)
{
    static const int64_t gone_ms[] = { 4900, 15000 };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bench bench = four();

        leaves(&bench, 1, 5000, true);
        leaves(&bench, 0, gone_ms[i], false);
        crash_failed(&bench.judge);
        crash_judge(&bench.judge, 19000 * MS, true);
        assert_int_equal(crash_of(&bench)->rank[0], 0);
        bench_close(&bench);
    }
}

static void an_interrupt_is_no_exception_of_its_rank(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 0, 4900, "uncaught KeyboardInterrupt at train.py:7");
    leaves(&bench, 0, 5000, true);
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void workers_that_were_begun_again_are_not_why_a_later_end_is_bad(void **state)
{
    struct bench bench = four();

    (void)state;
    leaves(&bench, 0, 5000, false);
    raises(&bench, 1, 5010, "uncaught " CLOSED " at train.py:7");
    leaves(&bench, 1, 5100, true);
    judge_state_workers_restarted(&bench.judge, 4, 6000 * MS);
    leaves(&bench, 3, 9000, false);
    crash_failed(&bench.judge);
    crash_judge(&bench.judge, 9900 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 3);
    assert_int_equal(crash_of(&bench)->echo_count, 0);
    bench_close(&bench);
}

static void a_crash_that_its_launcher_recovered_from_is_over_and_the_next_is_told(void **state)
{
    struct bench bench = four();
    const struct verdict *verdict;

    (void)state;
    raises(&bench, 1, 4800, "uncaught ValueError: bad batch at train.py:48");
    leaves(&bench, 1, 5000, true);
    crash_judge(&bench.judge, 6200 * MS, false);
    verdict = crash_of(&bench);
    judge_state_workers_restarted(&bench.judge, 4, 7000 * MS);
    assert_string_equal(verdict->plan_state, "acting");
    lab_judge_many(bench.lab, &bench.judge, 1);
    assert_string_equal(verdict->plan_state, "done");
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CRASH), 0);
    raises(&bench, 2, 8800, "uncaught KeyError: 'x' at train.py:50");
    leaves(&bench, 2, 9000, true);
    crash_judge(&bench.judge, 9900 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_noted_an_exception_and_closed_its_ring_has_crashed),
        cmocka_unit_test(workers_that_a_launcher_ended_are_echoes_of_the_one_that_raised),
        cmocka_unit_test(ends_in_order_or_gone_are_nothing_where_the_command_ended_well),
        cmocka_unit_test(the_first_that_is_gone_is_named_where_the_command_failed),
        cmocka_unit_test(of_two_that_are_gone_at_once_nobody_can_tell),
        cmocka_unit_test(one_that_left_in_order_while_others_lost_it_is_named),
        cmocka_unit_test(
            one_whose_launcher_saw_it_leave_with_status_0_is_named_by_those_who_lose_it),
        cmocka_unit_test(one_that_left_with_status_0_is_nothing_where_nobody_loses_it),
        cmocka_unit_test(one_that_left_in_order_before_others_were_ended_is_named),
        cmocka_unit_test(one_that_is_gone_before_others_left_in_order_or_long_after_is_named),
        cmocka_unit_test(an_interrupt_is_no_exception_of_its_rank),
        cmocka_unit_test(workers_that_were_begun_again_are_not_why_a_later_end_is_bad),
        cmocka_unit_test(a_crash_that_its_launcher_recovered_from_is_over_and_the_next_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
