/* test-kinds.c - stragglers that come and go, and what is only a bad step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/rand.h"
#include "judge/test/bench.h"

static const struct verdict *only(const struct bench *bench)
{
    assert_int_equal(bench->judge.verdicts.count, 1);
    assert_int_equal(lab_open_count(&bench->judge, VERDICT_STRAGGLER), 1);
    return &lab_open(&bench->judge, VERDICT_STRAGGLER, 0)->verdict;
}

static void a_rank_that_is_slow_in_every_fifth_step_is_one_verdict(void **state)
{
    static const uint32_t every[] = { 2, 3, 5, 7 };

    (void)state;
    for (size_t i = 0; i < COUNT(every); i++) {
        struct lab_config config = layout(1, 1, 8);
        struct bench bench = bench_open(&config);
        const struct verdict *verdict;

        for (uint32_t step = 0; step < 120; step++) {
            bench.lab->fault.stretch[6] = step > 40 && step % every[i] == 0 ? 0.4 : 0;
            lab_judge(bench.lab, &bench.judge);
        }
        verdict = only(&bench);
        assert_int_equal(verdict->rank_count, 1);
        assert_int_equal(verdict->rank[0], 6);
        assert_int_equal(verdict->layer, LAYER_GPU);
        assert_non_null(strstr(verdict->cause, "intermittent"));
        bench_close(&bench);
    }
}

/* Also where only the steps of the rank that pauses have such a phase, as with Python's garbage collector. */
static void pauses_of_a_host_are_its_codes(bool apart)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;
    const struct verdict *verdict;

    config.with_gc = true;
    config.gc_apart = apart;
    bench = bench_open(&config);
    bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_GC;
    for (uint32_t step = 0; step < 120; step++) {
        bench.lab->fault.sleep_ns[2] = step > 40 && step % 6 == 0 ? 60000000 : 0;
        lab_judge(bench.lab, &bench.judge);
    }
    verdict = only(&bench);
    assert_int_equal(verdict->rank[0], 2);
    assert_int_equal(verdict->layer, LAYER_USER_CODE);
    assert_true(verdict->seconds_per_step > 0.005);
    bench_close(&bench);
}

static void pauses_in_a_phase_that_all_have(void **state)
{
    (void)state;
    pauses_of_a_host_are_its_codes(false);
}

static void pauses_in_a_phase_that_no_other_rank_has(void **state)
{
    (void)state;
    pauses_of_a_host_are_its_codes(true);
}

/* In steps of 4 ms a process that is held up again and again within 100 ms was held up once. */
static uint32_t named_in_short_steps(double look_ms)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;
    uint32_t named;

    config.host_view = true;
    config.block_ns /= 25;
    config.dp_ns /= 25;
    config.world_ns /= 25;
    config.optimizer_ns /= 25;
    config.data_ns /= 25;
    config.launch_ns /= 25;
    config.tail_ns /= 25;
    bench = bench_open(&config);
    bench.judge.limits.verdict_look = look_ms;
    bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_FORWARD;
    for (uint32_t step = 0; step < 70; step++) {
        bench.lab->fault.sleep_ns[2] = step > 40 && step % 6 == 0 ? 4000000 : 0;
        lab_judge(bench.lab, &bench.judge);
    }
    named = lab_open_count(&bench.judge, VERDICT_STRAGGLER);
    bench_close(&bench);
    return named;
}

static void what_several_short_steps_show_is_one_episode(void **state)
{
    (void)state;
    assert_int_equal(named_in_short_steps(1), 1);
    assert_int_equal(named_in_short_steps(100), 0);
}

static void when_it_stops_it_is_over_and_when_it_comes_back_it_is_the_same(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    for (uint32_t step = 0; step < 400; step++) {
        bench.lab->fault.stretch[1] =
            step % 200 > 40 && step % 200 < 100 && step % 4 == 0 ? 0.5 : 0;
        lab_judge(bench.lab, &bench.judge);
        if (step == 195)
            assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    }
    assert_int_equal(bench.judge.verdicts.count, 1);
    bench_close(&bench);
}

static void one_that_flaps_is_told_a_few_times_only(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);
    uint32_t reported = 0;
    bool open = false;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 40);
    for (uint32_t step = 0; step < 50 * 40;
         step++) { /* fifty times slow for ten steps, sound for thirty */
        bench.lab->fault.stretch[3] = step % 40 < 10 ? 0.4 : 0;
        lab_judge(bench.lab, &bench.judge);
        reported += !open && lab_open_count(&bench.judge, 0) > 0;
        open = lab_open_count(&bench.judge, 0) > 0;
    }
    assert_int_equal(bench.judge.verdicts.count, 1);
    assert_in_range(reported, 1, 6);
    bench.lab->fault.stretch[3] = 0;
    lab_judge_many(bench.lab, &bench.judge, 300);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    bench_close(&bench);
}

static void ranks_that_were_named_before_it_moved_on_become_part_of_it(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    for (uint32_t step = 0; step < 200; step++) {
        memset(bench.lab->fault.stretch, 0, sizeof(bench.lab->fault.stretch));
        if (step > 41) /* six steps on each: long enough to be named, for the first ones */
            bench.lab->fault.stretch[step / 6 * 3 % 8] = 0.4;
        lab_judge(bench.lab, &bench.judge);
    }
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.rank_count, 0);
    assert_true(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.echo_count > 0);
    assert_in_range(bench.judge.verdicts.count, 2,
                    5); /* those first named, and not one of each rank */
    for (uint32_t i = 0; i < bench.judge.verdicts.count; i++) {
        const struct verdict *verdict = &bench.judge.verdicts.tracked[i]->verdict;

        if (verdict->rank_count && verdict->until_real_ns == 0)
            fail_msg("%s is still open", verdict->id);
    }
    bench_close(&bench);
}

static void where_everybody_is_slow_now_and_then_nobody_is_named(void **state)
{
    struct lab_config config = layout(1, 1, 64);
    struct rand rand = { 7 };
    struct bench bench;

    (void)state;
    config.per_node = 8;
    bench = bench_open(&config);
    /* In each step some rank; each rank once in 25 steps, and of 64 some four times in 32 by chance. */
    for (uint32_t step = 0; step < 400; step++) {
        for (uint32_t rank = 0; rank < 64; rank++)
            bench.lab->fault.stretch[rank] = rand_below(&rand, 25) == 0 ? 0.4 : 0;
        lab_judge(bench.lab, &bench.judge);
    }
    for (uint32_t i = 0; i < bench.judge.verdicts.count; i++)
        assert_int_equal(bench.judge.verdicts.tracked[i]->verdict.rank_count, 0);
    bench_close(&bench);
}

static void a_straggler_that_moves_is_one_verdict_of_nobody(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);
    const struct verdict *verdict;

    (void)state;
    for (uint32_t step = 0; step < 160; step++) {
        memset(bench.lab->fault.stretch, 0, sizeof(bench.lab->fault.stretch));
        if (step > 40)
            bench.lab->fault.stretch[step / 2 * 3 % 8] = 0.4;
        lab_judge(bench.lab, &bench.judge);
    }
    verdict = only(&bench);
    assert_int_equal(verdict->rank_count, 0);
    assert_non_null(strstr(verdict->cause, "migrating"));
    bench_close(&bench);
}

/* Of four ranks in random order one may have every second turn for long: of these seeds with 79, 91, 201, 223 and 369. */
static void of_few_that_take_turns_none_is_named_first(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct lab_config config = layout(1, 2, 2);
        struct bench bench = bench_open(&config);
        struct rand rand = { seed };
        uint32_t at = 0;

        for (uint32_t step = 0; step < 80; step++) {
            memset(bench.lab->fault.stretch, 0, sizeof(bench.lab->fault.stretch));
            at = (at + 1 + rand_below(&rand, 3)) % 4; /* never twice the same */
            if (step >= 30)
                bench.lab->fault.stretch[at] = 0.8;
            lab_judge(bench.lab, &bench.judge);
        }
        if (bench.judge.verdicts.count != 1 || only(&bench)->rank_count != 0)
            fail_msg("seed %u: a rank is named", (unsigned)seed);
        bench_close(&bench);
    }
}

static void a_bad_step_now_and_then_is_nothing(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    for (uint32_t step = 0; step < 300; step++) {
        memset(bench.lab->fault.stretch, 0, sizeof(bench.lab->fault.stretch));
        if (step % 17 == 0)
            bench.lab->fault.stretch[step / 17 % 8] = 0.5;
        lab_judge(bench.lab, &bench.judge);
    }
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void lengths_that_move_are_no_straggler_that_moves(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    bench.lab->fault.uneven = 0.2;
    lab_judge_many(bench.lab, &bench.judge, 120);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 0);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_IMBALANCE), 1);
    bench_close(&bench);
}

static void noise_is_nobody(void **state)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct lab_config config = layout(2, 1, 4);
        struct bench bench;

        (void)state;
        config.seed = seed;
        config.noise = 0.05;
        bench = bench_open(&config);
        lab_judge_many(bench.lab, &bench.judge, 300);
        assert_int_equal(bench.judge.verdicts.count, 0);
        bench_close(&bench);
    }
}

static void a_steady_straggler_is_not_called_intermittent(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 40);
    bench.lab->fault.stretch[4] = 0.3;
    lab_judge_many(bench.lab, &bench.judge, 60);
    assert_null(strstr(only(&bench)->cause, "intermittent"));
    bench_close(&bench);
}

static void one_that_came_and_went_and_now_stays_is_the_same_verdict(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    for (uint32_t step = 0; step < 160; step++) {
        bench.lab->fault.stretch[4] = (step > 40 && step % 5 == 0) || step > 100 ? 0.4 : 0;
        lab_judge(bench.lab, &bench.judge);
        if (step == 100)
            assert_non_null(strstr(only(&bench)->cause, "intermittent"));
    }
    assert_null(strstr(only(&bench)->cause, "intermittent"));
    bench_close(&bench);
}

static void a_straggler_that_forms_is_told_before_it_costs_much(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);
    bool reported = false;

    (void)state;
    for (uint32_t step = 0; step < 220; step++) {
        const struct tracked_verdict *tracked;

        bench.lab->fault.stretch[5] = step > 40 ? 0.001 * (step - 40) : 0;
        lab_judge(bench.lab, &bench.judge);
        tracked = lab_open(&bench.judge, VERDICT_STRAGGLER, 0);
        if (tracked && !reported) {
            reported = true;
            assert_true(bench.lab->fault.stretch[5] < 0.03);
            assert_true(tracked->verdict.confidence <= 0.5);
            assert_non_null(strstr(tracked->verdict.cause, "forming"));
            assert_non_null(
                strstr(tracked->verdict.because[1].what, "it costs 3 % of a step by step"));
        }
    }
    assert_true(reported);
    assert_int_equal(only(&bench)->rank[0], 5); /* it has become one, and is the same */
    assert_true(only(&bench)->confidence > 0.7);
    assert_null(strstr(only(&bench)->cause, "forming"));
    bench_close(&bench);
}

static void what_grows_on_all_ranks_forms_no_straggler(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    for (uint32_t step = 0; step < 100; step++) {
        bench.lab->fault.all = step > 40 ? 0.0006 * (step - 40) : 0;
        lab_judge(bench.lab, &bench.judge);
    }
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 0);
    bench_close(&bench);
}

static void a_slight_straggler_that_does_not_grow_forms_nothing(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 60);
    bench.lab->fault.stretch[5] = 0.015;
    lab_judge_many(bench.lab, &bench.judge, 120);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_slow_in_every_fifth_step_is_one_verdict),
        cmocka_unit_test(pauses_in_a_phase_that_all_have),
        cmocka_unit_test(pauses_in_a_phase_that_no_other_rank_has),
        cmocka_unit_test(what_several_short_steps_show_is_one_episode),
        cmocka_unit_test(when_it_stops_it_is_over_and_when_it_comes_back_it_is_the_same),
        cmocka_unit_test(one_that_flaps_is_told_a_few_times_only),
        cmocka_unit_test(ranks_that_were_named_before_it_moved_on_become_part_of_it),
        cmocka_unit_test(where_everybody_is_slow_now_and_then_nobody_is_named),
        cmocka_unit_test(a_straggler_that_moves_is_one_verdict_of_nobody),
        cmocka_unit_test(of_few_that_take_turns_none_is_named_first),
        cmocka_unit_test(a_bad_step_now_and_then_is_nothing),
        cmocka_unit_test(lengths_that_move_are_no_straggler_that_moves),
        cmocka_unit_test(noise_is_nobody),
        cmocka_unit_test(a_straggler_that_forms_is_told_before_it_costs_much),
        cmocka_unit_test(what_grows_on_all_ranks_forms_no_straggler),
        cmocka_unit_test(a_slight_straggler_that_does_not_grow_forms_nothing),
        cmocka_unit_test(a_steady_straggler_is_not_called_intermittent),
        cmocka_unit_test(one_that_came_and_went_and_now_stays_is_the_same_verdict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
