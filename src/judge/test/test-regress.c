/* test-regress.c - jobs that become slower with nobody to blame, and those that only seem to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#define BEFORE 80 /* sound steps */

static const struct verdict *only(const struct bench *bench)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, VERDICT_REGRESSION, 0);

    assert_int_equal(bench->judge.verdicts.count, 1);
    assert_non_null(tracked);
    assert_int_equal(tracked->verdict.rank_count, 0);
    assert_true(tracked->verdict.because_count >= 2);
    return &tracked->verdict;
}

static void a_step_down_on_all_ranks_is_a_regression(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 1, 4 }, { 2, 1, 2 }, { 1, 2, 2 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        struct bench bench = bench_open(&config);
        const struct verdict *verdict;

        lab_judge_many(bench.lab, &bench.judge, BEFORE);
        assert_int_equal(bench.judge.verdicts.count, 0);
        bench.lab->fault.all = 0.1;
        lab_judge_many(bench.lab, &bench.judge, 60);
        verdict = only(&bench);
        assert_non_null(strstr(verdict->cause, "at once"));
        assert_in_range(verdict->since_step, BEFORE - 8, BEFORE + 8);
        assert_non_null(strstr(verdict->because[1].what, "device compute"));
        bench_close(&bench);
    }
}

static void a_drift_is_told_as_one(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    for (int i = 0; i < 300; i++) {
        bench.lab->fault.all = i < 60 ? 0 : 0.0006 * (i - 60);
        lab_judge(bench.lab, &bench.judge);
    }
    assert_non_null(strstr(only(&bench)->cause, "gradually"));
    bench_close(&bench);
}

static void a_healthy_job_is_not_slower(void **state)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct lab_config config = layout(1, 1, 4);
        struct bench bench;

        (void)state;
        config.seed = seed;
        config.noise = seed % 2 ? 0.003 : 0.05;
        bench = bench_open(&config);
        lab_judge_many(bench.lab, &bench.judge, 400);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_REGRESSION), 0);
        bench_close(&bench);
    }
}

static void longer_sequences_are_no_regression(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    for (int i = 0; i < 400; i++) {
        /* NOLINTNEXTLINE(bugprone-integer-division): in four stages */
        bench.lab->fault.longer = 0.25 * (i / 100);
        lab_judge(bench.lab, &bench.judge);
    }
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_regression_among_longer_sequences_is_one(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    for (int i = 0; i < 400; i++) { /* two kinds of steps in turn */
        bench.lab->fault.longer = i % 2 ? 0.25 : 0;
        bench.lab->fault.all = i < 200 ? 0 : 0.1;
        lab_judge(bench.lab, &bench.judge);
    }
    only(&bench);
    bench_close(&bench);
}

static void checkpoints_are_steps_of_another_kind(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    for (int i = 0; i < 300; i++) {
        bench.lab->fault.checkpoint_ns = i > 100 && i % 3 == 0 ? 200000000 : 0;
        lab_judge(bench.lab, &bench.judge);
    }
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_REGRESSION), 0);
    bench_close(&bench);
}

static void a_straggler_is_no_regression(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    bench.lab->fault.stretch[3] = 0.3;
    lab_judge_many(bench.lab, &bench.judge, 120);
    assert_int_equal(bench.judge.verdicts.count, 1);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
    bench_close(&bench);
}

static void one_that_comes_and_goes_is_one_verdict(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    for (int i = 0; i < 6; i++) {
        bench.lab->fault.all = 0.1;
        lab_judge_many(bench.lab, &bench.judge, 60);
        only(&bench);
        bench.lab->fault.all = 0;
        lab_judge_many(bench.lab, &bench.judge, 60);
        if (i < 2) /* later it is waited for */
            assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    }
    assert_int_equal(bench.judge.verdicts.count, 1);
    bench_close(&bench);
}

static void a_job_that_comes_back_slower_is_one(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, BEFORE);
    lab_restart(bench.lab, BEFORE, 1000000000);
    judge_state_attempt(&bench.judge, bench.lab->attempt, 0);
    lab_introduce(bench.lab, &bench.judge);
    bench.lab->fault.all = 0.1;
    lab_judge_many(bench.lab, &bench.judge, 60);
    only(&bench);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_down_on_all_ranks_is_a_regression),
        cmocka_unit_test(a_drift_is_told_as_one),
        cmocka_unit_test(a_healthy_job_is_not_slower),
        cmocka_unit_test(longer_sequences_are_no_regression),
        cmocka_unit_test(a_regression_among_longer_sequences_is_one),
        cmocka_unit_test(checkpoints_are_steps_of_another_kind),
        cmocka_unit_test(a_straggler_is_no_regression),
        cmocka_unit_test(one_that_comes_and_goes_is_one_verdict),
        cmocka_unit_test(a_job_that_comes_back_slower_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
