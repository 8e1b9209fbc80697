/* test-diff.c - two runs: what became slower, where, and when it is another program.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/compare/profile.h"
#include "judge/test/bench.h"

#define STEPS 20

static void watch(struct bench *bench, struct profile *profile, uint32_t steps)
{
    while (steps-- > 0) {
        CLEAN(job_step_fini) struct job_step job_step = { 0 };

        lab_step(bench->lab);
        lab_introduce(bench->lab, &bench->judge);
        lab_job_step(bench->lab, &bench->judge, &job_step);
        assert_int_equal(judge_state_step(&bench->judge, &job_step), 0);
        profile_step(profile, &bench->judge, &job_step);
    }
}

/* A run of this configuration with this fault. */
static struct profile run_of(const struct lab_config *config, const struct lab_fault *fault)
{
    struct bench bench = bench_open(config);
    struct profile profile = { 0 };

    bench.lab->fault = *fault;
    watch(&bench, &profile, STEPS);
    assert_int_equal(profile_end(&profile), 0);
    bench_close(&bench);
    return profile;
}

static struct diff compare(const struct profile *before, const struct profile *after)
{
    struct diff diff;

    assert_int_equal(diff_profiles(before, after, 0.03, 0.5, &diff), 0);
    return diff;
}

static const struct lab_fault healthy = { .all = 0 };

static void the_same_twice_is_as_fast(void **state)
{
    struct lab_config config = layout(2, 2, 2);
    CLEAN(profile_fini) struct profile before = run_of(&config, &healthy);
    CLEAN(profile_fini) struct profile after = { 0 };
    struct diff diff;

    (void)state;
    config.seed = 77; /* other noise */
    after = run_of(&config, &healthy);
    diff = compare(&before, &after);
    assert_true(diff.same_program);
    assert_false(diff.slower);
    assert_int_equal(diff.places, 0);
}

static void a_slow_device_is_found_and_not_those_that_wait_for_it(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct lab_fault fault = { .stretch = { [5] = 0.3 } };
    CLEAN(profile_fini) struct profile before = { 0 };
    CLEAN(profile_fini) struct profile after = { 0 };
    struct diff diff;

    (void)state;
    config.per_node = 4;
    before = run_of(&config, &healthy);
    after = run_of(&config, &fault);
    diff = compare(&before, &after);
    assert_true(diff.same_program && diff.slower);
    assert_true(diff.places >= 1);
    for (uint32_t i = 0; i < diff.places; i++) {
        assert_int_equal(diff.place[i].part->source, PROFILE_DEVICE);
        assert_int_equal(diff.place[i].ranks, 1);
        assert_int_equal(diff.place[i].rank[0], 5);
        assert_string_equal(diff.place[i].node, "");
    }
}

/* One rank is slow in every fourth step, by its own work or by pauses of its interpreter. */
static struct profile run_with_pauses(bool pauses, bool gc, bool apart)
{
    struct lab_config config = layout(1, 1, 4);
    struct profile profile = { 0 };
    struct bench bench;

    config.with_gc = gc;
    config.gc_apart = apart;
    bench = bench_open(&config);
    bench.lab->fault.sleep_phase = gc ? LOCKSTEP_PHASE_GC : LOCKSTEP_PHASE_FORWARD;
    for (uint32_t step = 0; step < 2 * STEPS; step++) {
        bench.lab->fault.sleep_ns[2] = pauses && step % 4 == 0 ? 60000000 : 0;
        watch(&bench, &profile, 1);
    }
    assert_int_equal(profile_end(&profile), 0);
    bench_close(&bench);
    return profile;
}

static void what_comes_every_few_steps_makes_a_run_slower(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        CLEAN(profile_fini) struct profile before = run_with_pauses(false, kind > 0, kind > 1);
        CLEAN(profile_fini) struct profile after = run_with_pauses(true, kind > 0, kind > 1);
        struct diff diff = compare(&before, &after);

        assert_true(diff.slower);
        assert_true(diff.places >= 1);
        assert_int_equal(diff.place[0].ranks, 1);
        assert_int_equal(diff.place[0].rank[0], 2);
    }
}

static void a_node_is_named_when_all_its_ranks_are_slow(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct lab_fault fault = { 0 };
    CLEAN(profile_fini) struct profile before = { 0 };
    CLEAN(profile_fini) struct profile after = { 0 };
    struct diff diff;

    (void)state;
    config.per_node = 2;
    for (uint32_t rank = 4; rank < 6; rank++)
        fault.stretch[rank] = 0.2;
    before = run_of(&config, &healthy);
    after = run_of(&config, &fault);
    diff = compare(&before, &after);
    assert_true(diff.slower && diff.places >= 1);
    assert_string_equal(diff.place[0].node, "n2");
    assert_int_equal(diff.place[0].ranks, 2);
}

static void a_slow_communicator_is_named(void **state)
{
    struct lab_config config = layout(2, 1, 4);
    CLEAN(profile_fini) struct profile before = run_of(&config, &healthy);
    CLEAN(profile_fini) struct profile after = { 0 };
    struct diff diff;

    (void)state;
    config.tp_ns *= 3;
    after = run_of(&config, &healthy);
    diff = compare(&before, &after);
    assert_true(diff.same_program && diff.slower);
    assert_int_equal(diff.place[0].part->source, PROFILE_TRANSFER);
    assert_string_equal(diff.place[0].part->group, "tp");
    assert_int_equal(diff.place[0].ranks, 8);
}

static void another_program_is_not_explained_by_the_system(void **state)
{
    struct lab_config config = layout(1, 1, 4), other = layout(2, 1, 2);
    CLEAN(profile_fini) struct profile before = run_of(&config, &healthy);
    CLEAN(profile_fini) struct profile after = run_of(&other, &healthy);
    CLEAN(profile_fini) struct profile more = { 0 };
    struct diff diff = compare(&before, &after);

    (void)state;
    assert_false(diff.same_program);
    assert_non_null(strstr(diff.program, "tp=1,pp=1,dp=4 against tp=2,pp=1,dp=2"));
    config.micros *= 2;
    more = run_of(&config, &healthy);
    diff = compare(&before, &more);
    assert_false(diff.same_program);
    assert_int_not_equal(diff.op, MODEL_NONE);
    assert_string_not_equal(diff.one, diff.other);
    assert_int_equal(diff.places, 0);
}

static void steps_with_a_checkpoint_are_not_compared_with_those_without(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    CLEAN(profile_fini) struct profile before = run_of(&config, &healthy);
    CLEAN(profile_fini) struct profile after = { 0 };
    struct bench bench = bench_open(&config);
    struct diff diff;

    (void)state;
    for (int i = 0; i < 30; i++) {
        bench.lab->fault.checkpoint_ns = i % 5 == 4 ? 300000000 : 0;
        watch(&bench, &after, 1);
    }
    bench_close(&bench);
    assert_int_equal(profile_end(&after), 0);
    diff = compare(&before, &after);
    assert_true(diff.same_program);
    assert_false(diff.slower);
}

static void a_run_without_steps_cannot_be_compared(void **state)
{
    CLEAN(profile_fini) struct profile profile = { 0 };

    (void)state;
    assert_true(profile_end(&profile) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_twice_is_as_fast),
        cmocka_unit_test(a_slow_device_is_found_and_not_those_that_wait_for_it),
        cmocka_unit_test(what_comes_every_few_steps_makes_a_run_slower),
        cmocka_unit_test(a_node_is_named_when_all_its_ranks_are_slow),
        cmocka_unit_test(a_slow_communicator_is_named),
        cmocka_unit_test(another_program_is_not_explained_by_the_system),
        cmocka_unit_test(steps_with_a_checkpoint_are_not_compared_with_those_without),
        cmocka_unit_test(a_run_without_steps_cannot_be_compared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
