/* test-straggler-late.c - devices that tell their collectives and nothing else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/straggler_private.h"
#include "judge/test/bench.h"

#define MS INT64_C(1000000)
#define HEALTHY 20

static struct lab_config device_config(uint32_t tp, uint32_t dp, bool ahead)
{
    struct lab_config config = layout(tp, 1, dp);

    config.host_view = config.device_ops = true;
    config.ahead = ahead;
    return config;
}

static const struct tracked_verdict *only(const struct bench *bench, uint32_t rank)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, VERDICT_STRAGGLER, 0);

    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench->judge, 0), 1);
    assert_int_equal(bench->judge.verdicts.count, 1);
    assert_int_equal(tracked->verdict.rank_count, 1);
    assert_int_equal(tracked->verdict.rank[0], rank);
    assert_true(tracked->verdict.confidence <= 0.7);
    return tracked;
}

static void who_comes_last_is_named_though_hosts_are_ahead(void **state)
{
    struct lab_config config = device_config(1, 4, true);
    struct bench bench = bench_open(&config);
    const struct tracked_verdict *tracked;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench.lab->fault.stretch[2] = 0.5;
    lab_judge_many(bench.lab, &bench.judge, 9);
    assert_int_equal(bench.judge.verdicts.count, 0); /* nine in a row are not ten */
    lab_judge_many(bench.lab, &bench.judge, 1);
    tracked = only(&bench, 2);
    assert_int_equal(tracked->verdict.layer, LAYER_UNKNOWN);
    assert_non_null(strstr(tracked->verdict.cause, "enters collectives last"));
    assert_true(tracked->verdict.seconds_per_step > 0.030);
    assert_true(tracked->verdict.seconds_per_step < 0.060);
    assert_int_equal(bench.judge.unfit_steps, HEALTHY + 10); /* nothing was priced by replay */
    bench.lab->fault.stretch[2] = 0;
    lab_judge_many(bench.lab, &bench.judge, 60);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    bench_close(&bench);
}

static void healthy_jobs_are_left_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct lab_config config = device_config(1, 2 * (uint32_t)seed, seed % 2);
        struct bench bench;

        config.noise = 0.01;
        config.seed = seed;
        bench = bench_open(&config);
        lab_judge_many(bench.lab, &bench.judge, 150);
        assert_int_equal(bench.judge.verdicts.count, 0);
        bench_close(&bench);
    }
}

/* A rank may be late in one communicator because it waited in another. */
static void with_more_communicators_nobody_is_named(void **state)
{
    struct lab_config config = device_config(2, 2, true);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.stretch[2] = 0.5;
    lab_judge_many(bench.lab, &bench.judge, 40);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_host_in_step_with_its_device_tells_more(void **state)
{
    struct lab_config config = device_config(1, 4, false);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_FORWARD;
    bench.lab->fault.sleep_ns[1] = 40 * MS;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(only(&bench, 1)->verdict.layer, LAYER_USER_CODE);
    bench_close(&bench);
}

static void put_looks(struct judge_state *judge, uint32_t rank, double own_ms, double waited_ms)
{
    for (int i = 0; i < 3; i++)
        judge->late_looks.look[judge->late_looks.count++ % LATE_STEPS_MAX] = (struct late_look){
            .rank = rank, .own_ms = own_ms, .waited_ms = waited_ms, .step_ms = 40
        };
}

static void a_slower_host_that_nobody_waits_for_is_no_straggler(void **state)
{
    struct lab_config config = device_config(1, 4, false);
    struct bench bench = bench_open(&config);

    (void)state;
    assert_true(
        straggler_is_waited_for(&bench.judge, 1)); /* nothing is known: no reason to doubt */
    bench.judge.known = EVIDENCE_TIMES;
    put_looks(&bench.judge, 2, 1, 20);
    assert_false(straggler_is_waited_for(&bench.judge, 1));
    assert_true(straggler_is_waited_for(&bench.judge, 2));
    put_looks(&bench.judge, 2, 1, 2); /* somebody is always last */
    assert_false(straggler_is_waited_for(&bench.judge, 2));
    bench.judge.known = EVIDENCE_WORK;
    assert_true(straggler_is_waited_for(&bench.judge, 1)); /* devices tell all of it */
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_last_is_named_though_hosts_are_ahead),
        cmocka_unit_test(healthy_jobs_are_left_alone),
        cmocka_unit_test(with_more_communicators_nobody_is_named),
        cmocka_unit_test(a_host_in_step_with_its_device_tells_more),
        cmocka_unit_test(a_slower_host_that_nobody_waits_for_is_no_straggler),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
