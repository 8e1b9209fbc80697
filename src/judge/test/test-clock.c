/* test-clock.c - nodes whose clocks differ by seconds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#define MS INT64_C(1000000)

static const int64_t skews[] = { 0, 5000 * MS, -5000 * MS, 123456789 };

static struct bench skewed(uint32_t tp, uint32_t pp, uint32_t dp, uint32_t per_node, uint64_t seed)
{
    struct lab_config config = layout(tp, pp, dp);
    struct bench bench;

    config.per_node = per_node;
    config.seed = seed;
    config.noise = 0.01;
    bench = bench_open(&config);
    for (uint32_t node = 0; node < bench.lab->nodes; node++)
        bench.lab->fault.skew_ns[node] = skews[node % COUNT(skews)];
    return bench;
}

static void offsets_are_found_within_their_error(void **state)
{
    static const uint32_t layouts[][4] = {
        { 1, 1, 8, 2 }, { 1, 1, 8, 1 }, { 2, 2, 2, 2 }, { 1, 4, 2, 2 }, { 2, 1, 8, 4 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            struct bench bench =
                skewed(layouts[i][0], layouts[i][1], layouts[i][2], layouts[i][3], seed);

            for (int step = 0; step < 60; step++) {
                lab_judge(bench.lab, &bench.judge);
                for (uint32_t node = 0; node < bench.lab->nodes; node++) {
                    const struct model_node *at = &bench.judge.model.node[node];
                    int64_t off = at->offset_ns + bench.lab->fault.skew_ns[node] -
                                  bench.lab->fault.skew_ns[0];

                    assert_true(at->aligned);
                    /* Times are rounded to a part in 4096 of a few milliseconds. */
                    assert_true(llabs(off) <= at->error_ns + 100000);
                    assert_true(llabs(off) < MS / 2);
                }
            }
            bench_close(&bench);
        }
    }
}

static void a_clock_that_is_set_is_found_again(void **state)
{
    struct bench bench = skewed(1, 1, 8, 2, 1);
    const struct model_node *at;
    int64_t off;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 20);
    bench.lab->fault.skew_ns[1] += 700 * MS;
    lab_judge_many(bench.lab, &bench.judge, 3);
    at = &bench.judge.model.node[1];
    off = at->offset_ns + bench.lab->fault.skew_ns[1] - bench.lab->fault.skew_ns[0];
    assert_true(llabs(off) <= at->error_ns + 100000);
    bench_close(&bench);
}

static void the_verdict_is_the_same_as_on_one_clock(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 1, 8 }, { 1, 2, 4 }, { 2, 2, 2 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct bench bench = skewed(layouts[i][0], layouts[i][1], layouts[i][2], 2, 1);
        struct lab_config config = bench.lab->config;
        struct bench plain = bench_open(&config);
        const struct verdict *verdict, *expected;

        lab_judge_many(bench.lab, &bench.judge, 12);
        lab_judge_many(plain.lab, &plain.judge, 12);
        bench.lab->fault.stretch[5] = plain.lab->fault.stretch[5] = 0.3;
        lab_judge_many(bench.lab, &bench.judge, 20);
        lab_judge_many(plain.lab, &plain.judge, 20);
        assert_int_equal(lab_open_count(&bench.judge, 0), 1);
        assert_int_equal(lab_open_count(&plain.judge, 0), 1);
        verdict = &lab_open(&bench.judge, 0, 0)->verdict;
        expected = &lab_open(&plain.judge, 0, 0)->verdict;
        assert_string_equal(verdict->id, expected->id);
        assert_int_equal(verdict->since_step, expected->since_step);
        assert_int_equal(verdict->decided_step, expected->decided_step);
        assert_true(verdict->seconds_per_step > 0.9 * expected->seconds_per_step);
        assert_true(verdict->seconds_per_step < 1.1 * expected->seconds_per_step);
        assert_true(bench.judge.unfit_steps <= 2); /* before the clocks were known */
        bench_close(&bench);
        bench_close(&plain);
    }
}

static void a_healthy_job_on_many_clocks_is_healthy(void **state)
{
    struct bench bench = skewed(2, 2, 2, 1, 3);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 300);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_found_within_their_error),
        cmocka_unit_test(a_clock_that_is_set_is_found_again),
        cmocka_unit_test(the_verdict_is_the_same_as_on_one_clock),
        cmocka_unit_test(a_healthy_job_on_many_clocks_is_healthy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
