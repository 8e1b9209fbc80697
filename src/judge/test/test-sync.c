/* test-sync.c - when transfers are slow, and where; and when it is not the network.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#define HEALTHY 14 /* steps before a fault: enough to know what is typical */
#define MS INT64_C(1000000)

/* Steps until something is open; UINT32_MAX: nothing within `most`. */
static uint32_t steps_until(struct bench *bench, uint32_t most)
{
    for (uint32_t step = 1; step <= most; step++) {
        lab_judge(bench->lab, &bench->judge);
        if (lab_open_count(&bench->judge, 0))
            return step;
    }
    return UINT32_MAX;
}

static struct bench healthy(const struct lab_config *config)
{
    struct bench bench = bench_open(config);

    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    assert_int_equal(bench.judge.verdicts.count, 0);
    return bench;
}

static const struct verdict *only_verdict(const struct bench *bench, unsigned layer)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, VERDICT_SYNC_STALL, 0);

    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench->judge, 0), 1);
    assert_string_equal(verdict_layer_name(tracked->verdict.layer), verdict_layer_name(layer));
    assert_true(tracked->verdict.because_count >= 2 && tracked->verdict.ruled_out_count >= 1);
    return &tracked->verdict;
}

/* Of a rank nothing is seen; that the others wait for it must not look like slow transfers. */
static void a_rank_that_is_not_observed_is_no_slow_network(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);

    (void)state;
    for (uint32_t step = 0; step < 60; step++) {
        struct job_step job_step;

        bench.lab->fault.stretch[3] = step >= 30 ? 0.5 : 0;
        lab_step(bench.lab);
        lab_job_step(bench.lab, &bench.judge, &job_step);
        fact_step_fini(&job_step.step_of[3]);
        job_step.shape_of[3] = NULL;
        job_step.have--;
        assert_int_equal(judge_state_step(&bench.judge, &job_step), 0);
        job_step_fini(&job_step);
    }
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_SYNC_STALL), 0);
    bench_close(&bench);
}

static void a_slow_fabric_is_named_and_no_rank(void **state)
{
    static const uint32_t layouts[][4] = { /* tp, pp, dp, ranks on a node */
                                           { 1, 1, 8, 2 },
                                           { 2, 1, 4, 2 },
                                           { 1, 2, 4, 4 },
                                           { 1, 4, 2, 2 }
    };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        struct bench bench;
        const struct verdict *verdict;

        config.per_node = layouts[i][3];
        bench = healthy(&config);
        bench.lab->fault.fabric = 7;
        assert_true(steps_until(&bench, 5) <= 5);
        lab_judge_many(bench.lab, &bench.judge, 20);
        verdict = only_verdict(&bench, LAYER_FABRIC);
        assert_int_equal(verdict->rank_count, 0);
        assert_int_equal(verdict->since_step, HEALTHY);
        assert_true(verdict->confidence <= 0.8);
        bench.lab->fault.fabric = 0;
        lab_judge_many(bench.lab, &bench.judge, 20);
        assert_int_equal(lab_open_count(&bench.judge, 0), 0);
        assert_int_equal(bench.judge.verdicts.count, 1);
        bench_close(&bench);
    }
}

static void a_slow_nic_is_found_by_the_pairs_that_touch_it(void **state)
{
    struct lab_config config = layout(1, 4, 2);

    (void)state;
    config.per_node = 2; /* each stage has its node */
    for (uint32_t node = 0; node < 4; node++) {
        struct bench bench = healthy(&config);
        const struct verdict *verdict;
        char name[16];

        bench.lab->fault.nic[node] = 9;
        assert_true(steps_until(&bench, 5) <= 5);
        lab_judge_many(bench.lab, &bench.judge, 20);
        verdict = only_verdict(&bench, LAYER_NIC);
        lab_node_name(node, name, sizeof(name));
        assert_int_equal(verdict->node_count, 1);
        assert_string_equal(verdict->node[0], name);
        assert_int_equal(verdict->rank_count, 2);
        assert_int_equal(verdict->rank[0], 2 * node);
        bench_close(&bench);
    }
}

static void one_slow_communicator_is_named(void **state)
{
    struct lab_config config = layout(2, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 4;
    bench = healthy(&config);
    bench.lab->fault.slow_comm = 0x2001; /* the data parallel one of tensor index 1 */
    bench.lab->fault.comm = 9;
    assert_true(steps_until(&bench, 5) <= 5);
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_string_equal(only_verdict(&bench, LAYER_FABRIC)->group, "dp");
    assert_true(only_verdict(&bench, LAYER_FABRIC)->confidence <= 0.7);
    bench_close(&bench);
}

static void slow_transfers_inside_a_node_are_not_the_fabrics(void **state)
{
    struct lab_config config = layout(2, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 4;
    bench = healthy(&config);
    bench.lab->fault.slow_comm = 0x1000; /* a tensor parallel one */
    bench.lab->fault.comm = 3;
    assert_true(steps_until(&bench, 5) <= 5);
    only_verdict(&bench, LAYER_UNKNOWN);
    bench_close(&bench);
}

static void a_network_that_comes_and_goes_is_said_so(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    bench = healthy(&config);
    for (int i = 0; i < 12; i++) {
        bench.lab->fault.fabric = i % 2 ? 9 : 0;
        lab_judge_many(bench.lab, &bench.judge, 2);
    }
    assert_non_null(strstr(only_verdict(&bench, LAYER_FABRIC)->cause, "intermittently"));
    assert_int_equal(bench.judge.verdicts.count, 1);
    bench_close(&bench);
}

static void it_costs_what_the_replay_says(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;
    static const struct lab_fault none;
    double lost = 0, cost;

    (void)state;
    config.per_node = 2;
    bench = healthy(&config);
    bench.lab->fault.fabric = 8;
    for (int i = 0; i < 20; i++) {
        lab_judge(bench.lab, &bench.judge);
        lost += (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9;
    }
    cost = only_verdict(&bench, LAYER_FABRIC)->gpu_seconds;
    assert_true(cost > 0.9 * 4 * lost && cost < 1.1 * 4 * lost);
    bench_close(&bench);
}

static void transfers_that_nobody_waits_for_may_be_slow(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    config.buckets = 1;
    config.blocks = 8; /* behind the last bucket there is nothing, before it much */
    config.dp_ns = MS / 10;
    bench = healthy(&config);
    bench.lab->fault.fabric = 1;
    lab_judge_many(bench.lab, &bench.judge, 40);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void more_bytes_take_longer_and_are_no_fault(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    bench = healthy(&config);
    bench.lab->fault.more_bytes = true;
    bench.lab->fault.fabric = 7;
    lab_judge_many(bench.lab, &bench.judge, 40);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_late_rank_does_not_make_a_transfer_long(void **state)
{
    struct lab_config config = layout(2, 2, 2);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    bench = healthy(&config);
    bench.lab->fault.stretch[3] = 1;
    lab_judge_many(bench.lab, &bench.judge, 40);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
    assert_int_equal(bench.judge.verdicts.count, 1);
    bench_close(&bench);
}

static void hosts_without_a_cpu_are_not_the_networks_fault(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    bench = healthy(&config);
    bench.lab->fault.fabric = 4;
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->fault.delay_ns[rank] = 40 * MS;
    lab_judge_many(bench.lab, &bench.judge, 30);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_SYNC_STALL), 0);
    bench_close(&bench);
}

/* Their threads move the data: whoever always waits for a cpu has transfers that are sometimes long. */
static void where_hosts_move_the_data_any_wait_for_a_cpu_counts(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    config.host_view = true;
    for (int busy = 0; busy < 2; busy++) {
        bench = bench_open(&config);
        for (uint32_t rank = 0; rank < 4; rank++)
            bench.lab->fault.delay_ns[rank] = busy * 40 * MS;
        lab_judge_many(bench.lab, &bench.judge, HEALTHY);
        bench.lab->fault.fabric = 20;
        lab_judge_many(bench.lab, &bench.judge, 30);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_SYNC_STALL), !busy);
        bench_close(&bench);
    }
}

static void a_restart_does_not_make_it_typical(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    bench = healthy(&config);
    bench.lab->fault.fabric = 8;
    lab_judge_many(bench.lab, &bench.judge, 10);
    only_verdict(&bench, LAYER_FABRIC);
    lab_restart(bench.lab, 20, INT64_C(2000) * MS);
    judge_state_attempt(&bench.judge, 1, bench.lab->rank[0].begin_ns);
    lab_introduce(bench.lab, &bench.judge);
    lab_judge_many(bench.lab, &bench.judge, 20);
    only_verdict(&bench, LAYER_FABRIC);
    assert_int_equal(bench.judge.verdicts.count, 1);
    bench_close(&bench);
}

/* Steps until it is said, where hosts move the data; `share`: of the step that it must cost. */
static uint32_t host_steps(double fabric, double share)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;
    uint32_t steps;

    config.per_node = 2;
    config.host_view = true;
    bench = healthy(&config);
    if (share > 0)
        bench.judge.limits.verdict_clear_cost = share;
    bench.lab->fault.fabric = fabric;
    steps = steps_until(&bench, 30);
    bench_close(&bench);
    return steps;
}

static void hosts_that_move_the_data_need_more_to_be_news(void **state)
{
    (void)state;
    assert_true(host_steps(3.5, 0.02) < 20);
    assert_int_equal(host_steps(3.5, 0), UINT32_MAX);
    assert_true(host_steps(60, 0) < 20);
}

/* A host is held up for once, on a busy machine, while transfers are a little slower for long. */
static void one_long_step_is_not_what_slow_transfers_cost(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    config.host_view = true;
    bench = healthy(&config);
    for (int round = 0; round < 4; round++) {
        bench.lab->fault.fabric = 3.5; /* too little to be said */
        lab_judge_many(bench.lab, &bench.judge, 8);
        bench.lab->fault.fabric = 60;
        lab_judge_many(bench.lab, &bench.judge, 1);
        assert_int_equal(bench.judge.verdicts.count, 0);
    }
    lab_judge_many(bench.lab, &bench.judge, 10); /* and from now on it is slow */
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_SYNC_STALL), 1);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_not_observed_is_no_slow_network),
        cmocka_unit_test(a_slow_fabric_is_named_and_no_rank),
        cmocka_unit_test(a_slow_nic_is_found_by_the_pairs_that_touch_it),
        cmocka_unit_test(one_slow_communicator_is_named),
        cmocka_unit_test(slow_transfers_inside_a_node_are_not_the_fabrics),
        cmocka_unit_test(a_network_that_comes_and_goes_is_said_so),
        cmocka_unit_test(it_costs_what_the_replay_says),
        cmocka_unit_test(transfers_that_nobody_waits_for_may_be_slow),
        cmocka_unit_test(more_bytes_take_longer_and_are_no_fault),
        cmocka_unit_test(a_late_rank_does_not_make_a_transfer_long),
        cmocka_unit_test(hosts_without_a_cpu_are_not_the_networks_fault),
        cmocka_unit_test(where_hosts_move_the_data_any_wait_for_a_cpu_counts),
        cmocka_unit_test(a_restart_does_not_make_it_typical),
        cmocka_unit_test(hosts_that_move_the_data_need_more_to_be_news),
        cmocka_unit_test(one_long_step_is_not_what_slow_transfers_cost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
