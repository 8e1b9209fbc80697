/* test-imbalance.c - work that is split unevenly, and what is not that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

static const struct tracked_verdict *only(const struct bench *bench, unsigned kind, unsigned layer)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, kind, 0);

    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench->judge, 0), 1);
    assert_int_equal(bench->judge.verdicts.count, 1);
    assert_string_equal(verdict_layer_name(tracked->verdict.layer), verdict_layer_name(layer));
    return tracked;
}

static void uneven_lengths_that_move_are_the_datas(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 1, 4 }, { 1, 1, 8 }, { 2, 1, 4 }, { 1, 2, 4 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        for (uint64_t seed = 1; seed <= 5; seed++) {
            struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
            struct bench bench;

            config.seed = seed;
            bench = bench_open(&config);
            bench.lab->fault.uneven = 0.15;
            lab_judge_many(bench.lab, &bench.judge, 60);
            assert_int_equal(only(&bench, VERDICT_IMBALANCE, LAYER_DATA)->verdict.rank_count, 0);
            bench_close(&bench);
        }
    }
}

static void a_rank_that_always_has_more_is_named(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct lab_config config = layout(1, 1, 4);
        struct bench bench;

        config.seed = seed;
        bench = bench_open(&config);
        lab_judge_many(bench.lab, &bench.judge, 40);
        bench.lab->fault.uneven = 0.02;
        bench.lab->fault.more[2] = 0.5;
        lab_judge_many(bench.lab, &bench.judge, 40);
        assert_int_equal(only(&bench, VERDICT_IMBALANCE, LAYER_DATA)->verdict.rank_count, 1);
        assert_int_equal(only(&bench, VERDICT_IMBALANCE, LAYER_DATA)->verdict.rank[0], 2);
        bench_close(&bench);
    }
}

static void stages_of_unequal_work_do_not_blur_what_lengths_explain(void **state)
{
    struct lab_config config = layout(1, 4, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    bench.lab->fault.uneven = 0.1;
    bench.lab->fault.heavier[0] = 1;
    bench.lab->fault.heavier[2] = 0.4;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_true(bench.judge.history.explained > 0.95);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 0);
    bench_close(&bench);
}

static void lengths_that_are_nearly_equal_are_nothing(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    bench.lab->fault.uneven = 0.0025;
    lab_judge_many(bench.lab, &bench.judge, 200);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_straggler_is_found_on_top_of_uneven_lengths(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct lab_config config = layout(1, 1, 8);
        const struct tracked_verdict *tracked;
        struct bench bench;

        config.seed = seed;
        bench = bench_open(&config);
        bench.lab->fault.uneven = 0.1;
        lab_judge_many(bench.lab, &bench.judge, 20);
        bench.lab->fault.stretch[3] = 0.5;
        lab_judge_many(bench.lab, &bench.judge, 20);
        tracked = lab_open(&bench.judge, VERDICT_STRAGGLER, 0);
        assert_non_null(tracked);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
        assert_int_equal(tracked->verdict.rank[0], 3);
        assert_int_equal(tracked->verdict.layer, LAYER_GPU);
        bench_close(&bench);
    }
}

static void a_straggler_is_found_on_top_of_uneven_lengths_in_a_pipeline(void **state)
{
    struct lab_config config = layout(1, 2, 4);
    const struct tracked_verdict *tracked;
    struct bench bench = bench_open(&config);

    (void)state;
    bench.lab->fault.uneven = 0.1;
    bench.lab->fault.heavier[1] = 0.5; /* stages differ for reasons of their own */
    lab_judge_many(bench.lab, &bench.judge, 20);
    bench.lab->fault.stretch[6] = 0.4;
    lab_judge_many(bench.lab, &bench.judge, 20);
    tracked = lab_open(&bench.judge, VERDICT_STRAGGLER, 0);
    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
    assert_int_equal(tracked->verdict.rank[0], 6);
    bench_close(&bench);
}

static void a_straggler_with_even_lengths_is_not_explained_by_them(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 12);
    bench.lab->fault.stretch[2] = 0.3;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_IMBALANCE), 0);
    only(&bench, VERDICT_STRAGGLER, LAYER_GPU);
    bench_close(&bench);
}

static void a_heavy_stage_is_named_with_its_ranks(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 2, 2 }, { 1, 4, 2 }, { 2, 2, 2 }, { 1, 4, 1 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);

        for (uint32_t stage = 0; stage < config.pp; stage++) {
            struct bench bench = bench_open(&config);
            const struct tracked_verdict *tracked;

            bench.lab->fault.heavier[stage] = 0.5;
            lab_judge_many(bench.lab, &bench.judge, 30);
            tracked = only(&bench, VERDICT_IMBALANCE, LAYER_USER_CODE);
            assert_int_equal(tracked->verdict.rank_count, config.tp * config.dp);
            for (uint32_t k = 0; k < tracked->verdict.rank_count; k++)
                assert_int_equal(bench.lab->rank[tracked->verdict.rank[k]].pp, stage);
            bench_close(&bench);
        }
    }
}

/* The last stage of a pipeline has no slack.  The first has, while the others fill up: an even split gives
 * less back, but its weight is in every step.
 */
static void a_slightly_heavy_stage_is_named_wherever_it_is(void **state)
{
    double even[2];

    (void)state;
    for (uint32_t stage = 0; stage < 2; stage++) {
        struct lab_config config = layout(1, 2, 2);
        struct bench bench = bench_open(&config);
        const struct tracked_verdict *tracked;

        bench.lab->fault.heavier[stage] = 0.1;
        lab_judge_many(bench.lab, &bench.judge, 16);
        tracked = only(&bench, VERDICT_IMBALANCE, LAYER_USER_CODE);
        assert_int_equal(tracked->verdict.rank_count, 2);
        assert_int_equal(bench.lab->rank[tracked->verdict.rank[0]].pp, stage);
        even[stage] = tracked->verdict.seconds_per_step;
        bench_close(&bench);
    }
    assert_true(even[0] < even[1]);
}

/* Less than a hundredth of the step: nothing that anyone would move layers for. */
static void a_stage_that_costs_next_to_nothing_is_not_named(void **state)
{
    struct lab_config config = layout(1, 4, 2);
    struct bench bench = bench_open(&config);

    (void)state;
    bench.lab->fault.heavier[1] = 0.02;
    lab_judge_many(bench.lab, &bench.judge, 40);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_heavy_first_stage_is_named_though_it_costs_little(void **state)
{
    struct lab_config config = layout(1, 2, 2);
    struct bench bench = bench_open(&config);
    const struct tracked_verdict *tracked;

    (void)state;
    bench.lab->fault.heavier[0] = 0.25;
    lab_judge_many(bench.lab, &bench.judge, 10);
    tracked = only(&bench, VERDICT_IMBALANCE, LAYER_USER_CODE);
    assert_int_equal(bench.lab->rank[tracked->verdict.rank[0]].pp, 0);
    assert_true(tracked->verdict.seconds_per_step < 0.004);
    bench_close(&bench);
}

static void one_slow_replica_of_two_is_not_a_heavy_stage(void **state)
{
    struct lab_config config = layout(1, 2, 2);

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct bench bench = bench_open(&config);

        lab_judge_many(bench.lab, &bench.judge, 12);
        bench.lab->fault.stretch[rank] = 1.0;
        lab_judge_many(bench.lab, &bench.judge, 40);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_IMBALANCE), 0);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
        bench_close(&bench);
    }
}

static void equal_stages_are_nothing(void **state)
{
    struct lab_config config = layout(1, 4, 2);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 300);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_always_has_more_is_named),
        cmocka_unit_test(uneven_lengths_that_move_are_the_datas),
        cmocka_unit_test(stages_of_unequal_work_do_not_blur_what_lengths_explain),
        cmocka_unit_test(lengths_that_are_nearly_equal_are_nothing),
        cmocka_unit_test(a_straggler_is_found_on_top_of_uneven_lengths),
        cmocka_unit_test(a_straggler_is_found_on_top_of_uneven_lengths_in_a_pipeline),
        cmocka_unit_test(a_straggler_with_even_lengths_is_not_explained_by_them),
        cmocka_unit_test(a_heavy_stage_is_named_with_its_ranks),
        cmocka_unit_test(a_slightly_heavy_stage_is_named_wherever_it_is),
        cmocka_unit_test(a_stage_that_costs_next_to_nothing_is_not_named),
        cmocka_unit_test(a_heavy_first_stage_is_named_though_it_costs_little),
        cmocka_unit_test(one_slow_replica_of_two_is_not_a_heavy_stage),
        cmocka_unit_test(equal_stages_are_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
