/* test-program.c - the replay of a step against the step itself, and against the same step made
 * again without the fault.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#include "judge/step/learn.h"

static const uint32_t layouts[][3] = {
    { 1, 1, 4 }, { 1, 1, 8 }, { 1, 1, 16 }, { 2, 1, 2 }, { 4, 1, 1 }, { 1, 2, 2 },
    { 1, 4, 1 }, { 1, 4, 2 }, { 2, 2, 2 },  { 2, 4, 2 }, { 1, 2, 8 },
};

/* A bench that has learnt for some steps, with the program of the newest loaded. */
static struct bench learnt(const struct lab_config *config, uint32_t steps)
{
    struct bench bench = bench_open(config);

    lab_judge_many(bench.lab, &bench.judge, steps);
    return bench;
}

static void close_to(int64_t value, int64_t wanted, int64_t within)
{
    if (llabs(value - wanted) > within)
        fail_msg("%lld is not within %lld of %lld", (long long)value, (long long)within,
                 (long long)wanted);
}

static void a_measured_step_is_reproduced_in_every_layout(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        for (int variant = 0; variant < 4; variant++) {
            struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
            struct bench bench;

            config.rendezvous = variant & 1;
            config.no_world = variant & 2;
            bench = learnt(&config, 6);
            assert_true(bench.judge.program_ready);
            assert_int_equal(bench.judge.unfit_steps, 0);
            close_to(program_measured_ns(bench.judge.program), bench.lab->measured_ns, 200000);
            close_to(program_replayed_ns(bench.judge.program), bench.lab->measured_ns,
                     bench.lab->measured_ns / 50);
            assert_true(program_ideal_ns(bench.judge.program) <=
                        program_replayed_ns(bench.judge.program));
            bench_close(&bench);
        }
    }
}

static void a_step_with_an_unexplained_gap_does_not_fit(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = learnt(&config, 6);

    (void)state;
    bench.lab->fault.device_gap_ns[2] = bench.lab->measured_ns / 10;
    lab_judge(bench.lab, &bench.judge);
    assert_false(bench.judge.program_ready);
    assert_int_equal(bench.judge.unfit_steps, 1);
    bench.lab->fault.device_gap_ns[2] = 0;
    lab_judge(bench.lab, &bench.judge);
    assert_true(bench.judge.program_ready);
    bench_close(&bench);
}

static int64_t without(struct bench *bench, uint32_t rank)
{
    uint8_t flag[LAB_RANKS] = { 0 };

    flag[rank] = 1;
    return program_without_ns(bench->judge.program, flag);
}

/* Stretches each rank in turn and compares with the truth. */
static void try_stretch(const struct lab_config *config, double stretch)
{
    struct bench bench = learnt(config, 6);
    static const struct lab_fault none;

    for (uint32_t rank = 0; rank < bench.lab->world; rank++) {
        int64_t truth;

        bench.lab->fault.stretch[rank] = stretch;
        lab_judge(bench.lab, &bench.judge);
        assert_true(bench.judge.program_ready);
        truth = lab_without(bench.lab, &none);
        close_to(without(&bench, rank), truth, bench.lab->measured_ns / 100);
        bench.lab->fault.stretch[rank] = 0;
        lab_judge(bench.lab, &bench.judge);
    }
    bench_close(&bench);
}

static void without_a_slow_rank_the_step_is_what_it_would_have_been(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);

        if (layouts[i][2] < 2)
            continue; /* nobody to compare with */
        try_stretch(&config, 0.1);
        try_stretch(&config, 0.5);
        config.rendezvous = true;
        try_stretch(&config, 0.25);
    }
}

static void in_a_dp_job_the_whole_stretch_comes_back(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench;
    int64_t before, cost;

    (void)state;
    config.noise = 0;
    bench = learnt(&config, 6);
    before = bench.lab->measured_ns;
    bench.lab->fault.stretch[5] = 0.3;
    lab_judge(bench.lab, &bench.judge);
    cost = program_replayed_ns(bench.judge.program) - without(&bench, 5);
    close_to(cost, bench.lab->measured_ns - before, before / 500);
    close_to(program_replayed_ns(bench.judge.program) - without(&bench, 4), 0, 1000);
    bench_close(&bench);
}

static void scaled_stages_give_what_such_stages_would_have_given(void **state)
{
    struct lab_config config = layout(1, 2, 4);
    struct bench bench;
    static const struct lab_fault none;
    double scale[LAB_RANKS];
    int64_t truth;

    (void)state;
    bench = bench_open(&config);
    bench.lab->fault.heavier[1] = 0.5;
    lab_judge_many(bench.lab, &bench.judge, 6);
    assert_true(bench.judge.program_ready);
    truth = lab_without(bench.lab, &none);
    for (uint32_t rank = 0; rank < bench.lab->world; rank++)
        scale[rank] = bench.lab->rank[rank].pp == 1 ? 1 / 1.5 : 1;
    /* The optimizer is not heavier, but is scaled like the rest. */
    close_to(program_scaled_ns(bench.judge.program, scale), truth,
             bench.lab->measured_ns / 100 + config.optimizer_ns / 2);
    bench_close(&bench);
}

static void first_order_costs_agree_with_exact_replays_of_small_excesses(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        int64_t cost[LAB_RANKS];
        struct bench bench;

        if (layouts[i][2] < 2)
            continue;
        config.noise = 0;
        bench = learnt(&config, 6);
        for (uint32_t rank = 0; rank < bench.lab->world; rank++) {
            bench.lab->fault.stretch[rank] = 0.02;
            lab_judge(bench.lab, &bench.judge);
            program_costs_ns(bench.judge.program, cost);
            close_to(cost[rank], program_replayed_ns(bench.judge.program) - without(&bench, rank),
                     bench.lab->measured_ns / 500);
            bench.lab->fault.stretch[rank] = 0;
        }
        bench_close(&bench);
    }
}

static void questions_leave_the_step_as_it_was(void **state)
{
    struct lab_config config = layout(2, 2, 2);
    struct bench bench = learnt(&config, 6);
    double scale[LAB_RANKS];
    int64_t first, replayed = program_replayed_ns(bench.judge.program);

    (void)state;
    for (uint32_t rank = 0; rank < bench.lab->world; rank++)
        scale[rank] = 0.5;
    first = without(&bench, 3);
    program_scaled_ns(bench.judge.program, scale);
    without(&bench, 1);
    assert_int_equal(without(&bench, 3), first);
    assert_int_equal(program_replayed_ns(bench.judge.program), replayed);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_measured_step_is_reproduced_in_every_layout),
        cmocka_unit_test(a_step_with_an_unexplained_gap_does_not_fit),
        cmocka_unit_test(without_a_slow_rank_the_step_is_what_it_would_have_been),
        cmocka_unit_test(in_a_dp_job_the_whole_stretch_comes_back),
        cmocka_unit_test(scaled_stages_give_what_such_stages_would_have_given),
        cmocka_unit_test(first_order_costs_agree_with_exact_replays_of_small_excesses),
        cmocka_unit_test(questions_leave_the_step_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
