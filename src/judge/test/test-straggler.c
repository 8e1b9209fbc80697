/* test-straggler.c - who is named, how soon, and who never is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#include <stdio.h>

#define HEALTHY 12 /* steps before a fault */

/* Steps from the first faulty one until some straggler is open; UINT32_MAX: none within `most`. */
static uint32_t steps_until(struct bench *bench, uint32_t most)
{
    for (uint32_t step = 1; step <= most; step++) {
        lab_judge(bench->lab, &bench->judge);
        if (lab_open_count(&bench->judge, VERDICT_STRAGGLER))
            return step;
    }
    return UINT32_MAX;
}

static void assert_named(const struct bench *bench, uint32_t rank, unsigned layer)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, VERDICT_STRAGGLER, 0);

    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench->judge, 0), 1);
    assert_int_equal(tracked->verdict.rank_count, 1);
    assert_int_equal(tracked->verdict.rank[0], rank);
    assert_string_equal(verdict_layer_name(tracked->verdict.layer), verdict_layer_name(layer));
    assert_true(tracked->verdict.because_count > 0);
    assert_true(tracked->verdict.confidence > 0.5);
}

static const uint32_t layouts[][3] = {
    { 1, 1, 4 }, { 1, 1, 8 }, { 1, 1, 16 }, { 2, 1, 2 }, { 1, 2, 2 }, { 2, 2, 2 }, { 1, 2, 4 },
};

static void try_stretch(const struct lab_config *config, uint32_t rank, double stretch,
                        uint32_t within)
{
    struct bench bench = bench_open(config);
    uint32_t steps;

    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench.lab->fault.stretch[rank] = stretch;
    steps = steps_until(&bench, within);
    if (steps > within)
        fail_msg("tp %u pp %u dp %u: rank %u at %.2f is not named within %u steps", config->tp,
                 config->pp, config->dp, rank, 1 + stretch, within);
    assert_named(&bench, rank, LAYER_GPU);
    lab_judge_many(bench.lab, &bench.judge, 30); /* and nobody else is */
    assert_named(&bench, rank, LAYER_GPU);
    bench_close(&bench);
}

static void try_everywhere(double stretch, uint32_t within)
{
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        uint32_t world = config.tp * config.pp * config.dp;

        for (uint32_t rank = 0; rank < world; rank++)
            try_stretch(&config, rank, stretch, within);
    }
}

static void twice_as_slow_is_named_within_five_steps(void **state)
{
    (void)state;
    try_everywhere(1.0, 5);
}

static void a_quarter_slower_is_named_within_five_steps(void **state)
{
    (void)state;
    try_everywhere(0.25, 5);
}

static void a_tenth_slower_is_named_within_twenty_steps(void **state)
{
    (void)state;
    try_everywhere(0.10, 20);
}

static void a_host_that_sleeps_is_user_code(void **state)
{
    static const unsigned phases[] = { LOCKSTEP_PHASE_FORWARD, LOCKSTEP_PHASE_GC };

    (void)state;
    for (size_t i = 0; i < COUNT(phases); i++) {
        struct lab_config config = layout(1, 1, 8);
        struct bench bench;

        config.with_gc = true;
        bench = bench_open(&config);
        lab_judge_many(bench.lab, &bench.judge, HEALTHY);
        bench.lab->fault.sleep_ns[6] = 30000000;
        bench.lab->fault.sleep_phase = phases[i];
        assert_true(steps_until(&bench, 5) <= 5);
        assert_named(&bench, 6, LAYER_USER_CODE);
        bench_close(&bench);
    }
}

static void a_host_sleep_that_the_device_does_not_feel_is_nobodys_business(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.sleep_ns[6] = 10000000; /* the device has more than that to do by then */
    bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_OPTIMIZER;
    lab_judge_many(bench.lab, &bench.judge, 30);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_sleep_without_a_cpu_is_the_cpus(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench;

    (void)state;
    config.per_node = 1; /* so that it is not its node's verdict */
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.sleep_ns[2] = bench.lab->fault.delay_ns[2] = 25000000;
    bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_FORWARD;
    assert_true(steps_until(&bench, 5) <= 5);
    assert_named(&bench, 2, LAYER_CPU);
    bench_close(&bench);
}

static void without_a_layout_ranks_that_do_the_same_are_peers(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench;

    (void)state;
    config.no_layout = true;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.stretch[3] = 0.25;
    assert_true(steps_until(&bench, 5) <= 5);
    assert_named(&bench, 3, LAYER_GPU);
    assert_true(lab_open(&bench.judge, 0, 0)->verdict.confidence <= 0.9);
    bench_close(&bench);
}

static void noise_alone_is_never_a_verdict(void **state)
{
    static const uint32_t shapes[][3] = { { 1, 1, 8 }, { 2, 1, 2 }, { 1, 2, 2 }, { 2, 2, 2 } };

    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        for (size_t i = 0; i < COUNT(shapes); i++) {
            struct lab_config config = layout(shapes[i][0], shapes[i][1], shapes[i][2]);
            struct bench bench;

            config.noise = 0.01;
            config.seed = seed;
            bench = bench_open(&config);
            lab_judge_many(bench.lab, &bench.judge, 2000);
            assert_int_equal(bench.judge.verdicts.count, 0);
            bench_close(&bench);
        }
    }
}

static void one_slow_step_is_not_a_straggler(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    for (int i = 0; i < 5; i++) {
        bench.lab->fault.stretch[4] = 2;
        lab_judge(bench.lab, &bench.judge);
        bench.lab->fault.stretch[4] = 0;
        lab_judge_many(bench.lab, &bench.judge, 15);
    }
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_job_that_is_slower_as_a_whole_has_no_straggler(void **state)
{
    struct lab_config config = layout(1, 2, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.all = 0.2;
    lab_judge_many(bench.lab, &bench.judge, 40);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void it_closes_when_the_fault_ends_and_comes_back_as_the_same(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    const struct tracked_verdict *tracked;
    uint64_t since;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.stretch[1] = 0.3;
    lab_judge_many(bench.lab, &bench.judge, 10);
    assert_named(&bench, 1, LAYER_GPU);
    tracked = bench.judge.verdicts.tracked[0];
    since = tracked->verdict.since_step;
    assert_int_equal(since, HEALTHY);
    bench.lab->fault.stretch[1] = 0;
    lab_judge_many(bench.lab, &bench.judge, 16);
    assert_false(tracked->open);
    assert_true(tracked->verdict.until_real_ns > 0);
    bench.lab->fault.stretch[1] = 0.3;
    assert_true(steps_until(&bench, 5) <= 5);
    assert_int_equal(bench.judge.verdicts.count, 1);
    assert_true(tracked->open);
    assert_int_equal(tracked->verdict.until_real_ns, 0);
    assert_int_equal(tracked->verdict.since_step, since);
    bench_close(&bench);
}

static void a_verdict_costs_what_the_fault_cost(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    static const struct lab_fault none;
    double lost = 0, cost;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.stretch[1] = 0.3;
    for (int i = 0; i < 20; i++) {
        lab_judge(bench.lab, &bench.judge);
        lost += (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9;
    }
    cost = lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.gpu_seconds;
    assert_true(cost > 0.95 * 4 * lost && cost < 1.05 * 4 * lost);
    bench_close(&bench);
}

static void try_two(const struct lab_config *config, uint32_t a, double stretch_a, uint32_t b,
                    double stretch_b)
{
    struct bench bench = bench_open(config);
    uint32_t named = 0;
    double cost = 0;
    static const struct lab_fault none;
    int64_t lost;

    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.stretch[a] = stretch_a;
    bench.lab->fault.stretch[b] = stretch_b;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, 0), 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct tracked_verdict *tracked = lab_open(&bench.judge, VERDICT_STRAGGLER, i);

        assert_non_null(tracked);
        assert_int_equal(tracked->verdict.rank_count, 1);
        named |= 1u << tracked->verdict.rank[0];
        cost += tracked->step_seconds;
    }
    assert_int_equal(named, 1u << a | 1u << b);
    lost = bench.lab->measured_ns - lab_without(bench.lab, &none);
    assert_true(cost < 1.1 * (double)lost / 1e9); /* no second is blamed twice */
    bench_close(&bench);
}

static void two_at_once_are_both_named_and_share_the_cost(void **state)
{
    struct lab_config config = layout(1, 1, 8);

    (void)state;
    try_two(&config, 1, 0.3, 5, 0.3);
    try_two(&config, 1, 1.0, 5, 0.3);
    config = layout(1, 2, 4);
    try_two(&config, 0, 0.4, 6, 0.4);
}

static void one_that_survives_a_restart_is_the_same_and_stays_open(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 30);
    bench.lab->fault.stretch[3] = 0.3;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
    lab_restart(bench.lab, 40, 1000000000);
    judge_state_attempt(&bench.judge, bench.lab->attempt, 0);
    lab_introduce(bench.lab, &bench.judge);
    for (int i = 0; i < 40; i++) {
        lab_judge(bench.lab, &bench.judge);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
    }
    assert_int_equal(bench.judge.verdicts.count, 1);
    bench_close(&bench);
}

static void one_that_a_restart_from_the_beginning_healed_is_over(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 200);
    bench.lab->fault.stretch[3] = 0.3;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
    bench.lab->fault.stretch[3] = 0;
    lab_restart(bench.lab, 0, 1000000000);
    judge_state_attempt(&bench.judge, bench.lab->attempt, 0);
    lab_introduce(bench.lab, &bench.judge);
    lab_judge_many(bench.lab, &bench.judge, 40); /* and not only when step 219 comes again */
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 0);
    bench_close(&bench);
}

/* What holds up a rank for a tenth of a second is in five short steps, and is still one event. */
static void a_moment_is_none_however_many_steps_it_has(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.micros = 1;
    config.block_ns /= 4;
    config.optimizer_ns /= 4;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 20);
    bench.lab->fault.stretch[1] = 0.6;
    lab_judge_many(bench.lab, &bench.judge, 5);
    bench.lab->fault.stretch[1] = 0;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench.lab->fault.stretch[1] = 0.6;
    lab_judge_many(bench.lab, &bench.judge, 30);
    assert_named(&bench, 1, LAYER_GPU);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_survives_a_restart_is_the_same_and_stays_open),
        cmocka_unit_test(one_that_a_restart_from_the_beginning_healed_is_over),
        cmocka_unit_test(twice_as_slow_is_named_within_five_steps),
        cmocka_unit_test(a_quarter_slower_is_named_within_five_steps),
        cmocka_unit_test(a_tenth_slower_is_named_within_twenty_steps),
        cmocka_unit_test(a_host_that_sleeps_is_user_code),
        cmocka_unit_test(a_host_sleep_that_the_device_does_not_feel_is_nobodys_business),
        cmocka_unit_test(a_sleep_without_a_cpu_is_the_cpus),
        cmocka_unit_test(without_a_layout_ranks_that_do_the_same_are_peers),
        cmocka_unit_test(noise_alone_is_never_a_verdict),
        cmocka_unit_test(one_slow_step_is_not_a_straggler),
        cmocka_unit_test(a_moment_is_none_however_many_steps_it_has),
        cmocka_unit_test(a_job_that_is_slower_as_a_whole_has_no_straggler),
        cmocka_unit_test(it_closes_when_the_fault_ends_and_comes_back_as_the_same),
        cmocka_unit_test(a_verdict_costs_what_the_fault_cost),
        cmocka_unit_test(two_at_once_are_both_named_and_share_the_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
