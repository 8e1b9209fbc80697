/* test-host-view.c - no device tells its times: the hosts' phases stand for the work.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#define MS INT64_C(1000000)
#define HEALTHY 12

static struct lab_config host_config(uint32_t tp, uint32_t dp)
{
    struct lab_config config = layout(tp, 1, dp);

    config.host_view = true;
    return config;
}

static void assert_about(int64_t value, int64_t wanted, int64_t within)
{
    if (llabs(value - wanted) > within)
        fail_msg("%lld is not about %lld", (long long)value, (long long)wanted);
}

static void waiting_inside_backward_is_no_work(void **state)
{
    struct lab_config config = host_config(1, 4);
    struct bench bench = bench_open(&config);
    int64_t local[4];

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    for (uint32_t rank = 0; rank < 4; rank++)
        local[rank] = split_local_ns(&bench_past(&bench)->split[rank]);
    bench.lab->fault.stretch[2] = 0.5;
    lab_judge_many(bench.lab, &bench.judge, 4);
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct rank_split *split = &bench_past(&bench)->split[rank];

        assert_int_equal(split->compute_ns, 0);
        if (rank == 2) {
            assert_true(split_local_ns(split) > local[rank] + 40 * MS);
            assert_true(split->wait_ns < MS);
        } else {
            assert_about(split_local_ns(split), local[rank], MS);
            assert_true(split->wait_ns > 38 * MS);
        }
    }
    bench_close(&bench);
}

/* A bucket on its way while the host computes is no waiting. */
static void a_collective_behind_work_is_hidden(void **state)
{
    struct lab_config config = host_config(1, 4);
    struct bench bench = bench_open(&config);
    int64_t work = 0;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    for (uint32_t i = 0; i < bench.lab->rank[0].items; i++) {
        if (bench.lab->rank[0].item[i].shape.kind == ITEM_SPAN)
            work += bench.lab->rank[0].item[i].base_ns;
    }
    for (uint32_t rank = 0; rank < 4; rank++) {
        const struct rank_split *split = &bench_past(&bench)->split[rank];

        assert_about(split_local_ns(split), work, MS);
        assert_about(split->transfer_ns, config.dp_ns + config.world_ns, MS / 2);
        assert_true(split->wait_ns < MS / 2);
    }
    bench_close(&bench);
}

static void assert_only(const struct bench *bench, uint32_t rank)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, VERDICT_STRAGGLER, 0);

    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench->judge, 0), 1);
    assert_int_equal(tracked->verdict.rank_count, 1);
    assert_int_equal(tracked->verdict.rank[0], rank);
    assert_true(tracked->verdict.confidence <= 0.7);
    assert_true(tracked->verdict.because_count > 0);
}

static void try_stretch(uint32_t tp, uint32_t dp, uint32_t rank, double stretch, uint32_t steps)
{
    struct lab_config config = host_config(tp, dp);
    struct bench bench = bench_open(&config);
    struct ledger ledger;

    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench.lab->fault.stretch[rank] = stretch;
    lab_judge_many(bench.lab, &bench.judge, steps);
    assert_only(&bench, rank);
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_only(&bench, rank);
    assert_int_equal(bench.judge.unfit_steps, 0);
    ledger_read(bench.judge.book, &ledger);
    assert_true(ledger.host_view);
    bench_close(&bench);
}

static void a_slow_host_is_named_and_nobody_else(void **state)
{
    static const uint32_t layouts[][2] = { { 1, 2 }, { 1, 4 }, { 1, 8 }, { 2, 2 }, { 2, 4 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        for (uint32_t rank = 0; rank < layouts[i][0] * layouts[i][1]; rank++) {
            try_stretch(layouts[i][0], layouts[i][1], rank, 0.5, 5);
            try_stretch(layouts[i][0], layouts[i][1], rank, 0.1, 20);
        }
    }
}

static void a_sleep_in_one_phase_is_user_code(void **state)
{
    static const unsigned phases[] = { LOCKSTEP_PHASE_FORWARD, LOCKSTEP_PHASE_BACKWARD };

    (void)state;
    for (size_t i = 0; i < COUNT(phases); i++) {
        struct lab_config config = host_config(1, 4);
        struct bench bench = bench_open(&config);

        lab_judge_many(bench.lab, &bench.judge, HEALTHY);
        bench.lab->fault.sleep_ns[3] = 25 * MS;
        bench.lab->fault.sleep_phase = phases[i];
        lab_judge_many(bench.lab, &bench.judge, 5);
        assert_only(&bench, 3);
        assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.layer,
                         LAYER_USER_CODE);
        bench_close(&bench);
    }
}

static void work_that_is_longer_everywhere_may_be_device_or_host(void **state)
{
    struct lab_config config = host_config(1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.stretch[1] = 0.5;
    lab_judge_many(bench.lab, &bench.judge, 5);
    assert_only(&bench, 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.layer, LAYER_UNKNOWN);
    bench_close(&bench);
}

static void a_healthy_job_is_left_alone(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct lab_config config = host_config(1, seed % 2 ? 4 : 2);
        struct bench bench;

        config.seed = seed;
        config.noise = 0.02;
        bench = bench_open(&config);
        lab_judge_many(bench.lab, &bench.judge, 80);
        assert_int_equal(bench.judge.verdicts.count, 0);
        bench_close(&bench);
    }
}

static void the_ledger_has_what_the_straggler_cost(void **state)
{
    struct lab_config config = host_config(1, 4);
    struct bench bench = bench_open(&config);
    double sum = 0, lost = 0;
    struct ledger ledger;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    bench.lab->fault.stretch[0] = 0.5;
    for (int step = 0; step < 20; step++) {
        const struct lab_fault none = { 0 };

        lab_judge(bench.lab, &bench.judge);
        lost += (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9 * 4;
    }
    ledger_read(bench.judge.book, &ledger);
    for (int bucket = 0; bucket < LEDGER_BUCKETS; bucket++)
        sum += ledger.gpu_seconds[bucket];
    assert_true(sum > 0.999 * 4 * ledger.wall_seconds && sum < 1.001 * 4 * ledger.wall_seconds);
    assert_true(ledger.gpu_seconds[LEDGER_STRAGGLER_WAIT] > 0.95 * lost);
    assert_true(ledger.gpu_seconds[LEDGER_STRAGGLER_WAIT] < 1.05 * lost);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_inside_backward_is_no_work),
        cmocka_unit_test(a_collective_behind_work_is_hidden),
        cmocka_unit_test(a_slow_host_is_named_and_nobody_else),
        cmocka_unit_test(a_sleep_in_one_phase_is_user_code),
        cmocka_unit_test(work_that_is_longer_everywhere_may_be_device_or_host),
        cmocka_unit_test(a_healthy_job_is_left_alone),
        cmocka_unit_test(the_ledger_has_what_the_straggler_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
