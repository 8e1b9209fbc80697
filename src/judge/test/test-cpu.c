/* test-cpu.c - a node whose ranks get no cpu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "judge/test/bench.h"

#define MS INT64_C(1000000)

static struct bench eight_on_two_nodes(void)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench;

    config.per_node = 4;
    bench = bench_open(&config);
    for (uint32_t rank = 0; rank < 8; rank++)
        bench.lab->fault.delay_ns[rank] = MS / 10;
    lab_judge_many(bench.lab, &bench.judge, 14);
    return bench;
}

/* Ranks 4 to 7, on node n1, hang about for a cpu at a place that moves. */
static void starve(struct bench *bench, bool longer, bool quota, uint32_t steps)
{
    struct lab_fault *fault = &bench->lab->fault;

    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t rank = 4; rank < 8; rank++) {
            int64_t ns = (rank % 4 == step % 4 ? 22 : 12) * MS;

            fault->delay_ns[rank] = quota ? MS / 10 : ns;
            fault->throttled_ns[rank] = quota ? ns : 0;
            fault->sleep_ns[rank] = longer ? ns : 0;
            fault->sleep_phase = LOCKSTEP_PHASE_FORWARD;
        }
        lab_judge(bench->lab, &bench->judge);
    }
}

static void a_starved_node_is_named_as_a_whole(void **state)
{
    (void)state;
    for (int quota = 0; quota < 2; quota++) {
        struct bench bench = eight_on_two_nodes();
        const struct tracked_verdict *tracked;

        starve(&bench, true, quota, 12);
        assert_int_equal(lab_open_count(&bench.judge, 0), 1);
        tracked = lab_open(&bench.judge, VERDICT_STRAGGLER, 0);
        assert_non_null(tracked);
        assert_int_equal(tracked->verdict.layer, LAYER_CPU);
        assert_int_equal(tracked->verdict.node_count, 1);
        assert_string_equal(tracked->verdict.node[0], "n1");
        assert_int_equal(tracked->verdict.rank_count, 4);
        assert_non_null(strstr(tracked->verdict.cause, quota ? "quota" : "other processes"));
        bench_close(&bench);
    }
}

/* Ranks that wait a little more for a cpu than before do so, too, while they wait for somebody slow. */
static void what_waits_too_little_for_a_cpu_is_not_explained_by_it(void **state)
{
    struct bench bench = eight_on_two_nodes();
    struct lab_fault *fault = &bench.lab->fault;

    (void)state;
    fault->sleep_phase = LOCKSTEP_PHASE_FORWARD;
    fault->sleep_ns[5] = 60 * MS;
    for (uint32_t rank = 4; rank < 8; rank++)
        fault->delay_ns[rank] = 12 * MS;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.rank_count, 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.rank[0], 5);
    bench_close(&bench);
}

static struct bench four_on_one_node(void)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    config.per_node = 4;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.judge, 14);
    return bench;
}

/* Ranks that spin while they wait take the CPUs from each other, and from the one they wait for. */
static void a_slow_rank_that_others_spin_for_is_named_and_not_its_node(void **state)
{
    struct bench bench = four_on_one_node();
    struct lab_fault *fault = &bench.lab->fault;

    (void)state;
    fault->sleep_phase = LOCKSTEP_PHASE_FORWARD;
    fault->sleep_ns[2] = 40 * MS;
    for (uint32_t rank = 0; rank < 4; rank++)
        fault->delay_ns[rank] = 30 * MS;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.rank_count, 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.rank[0], 2);
    bench_close(&bench);
}

/* A thread that keeps the interpreter's lock makes its own rank's threads wait for CPUs, and nobody else's. */
static void a_rank_that_waits_for_cpus_alone_is_named_also_on_a_busy_node(void **state)
{
    struct bench bench = four_on_one_node();
    struct lab_fault *fault = &bench.lab->fault;

    (void)state;
    fault->sleep_phase = LOCKSTEP_PHASE_FORWARD;
    for (uint32_t step = 0; step < 8; step++) { /* in turn: the node is busy */
        for (uint32_t rank = 0; rank < 4; rank++)
            fault->delay_ns[rank] = fault->sleep_ns[rank] = rank == step % 4 ? 40 * MS : 12 * MS;
        lab_judge(bench.lab, &bench.judge);
    }
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.rank_count, 4);
    fault->delay_ns[3] = fault->sleep_ns[3] = 12 * MS;
    fault->delay_ns[2] = fault->sleep_ns[2] = 200 * MS;
    lab_judge_many(bench.lab, &bench.judge, 10);
    assert_non_null(judge_state_open_verdict(&bench.judge, VERDICT_STRAGGLER, LAYER_CPU, 2));
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 1)->verdict.rank_count, 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 1)->verdict.rank[0], 2);
    bench_close(&bench);
}

/* All threads of a throttled cgroup count as runnable meanwhile, so they wait longer together than it is throttled. */
static void a_quota_is_called_one_though_many_threads_wait_for_it(void **state)
{
    struct bench bench = four_on_one_node();
    struct lab_fault *fault = &bench.lab->fault;
    const struct tracked_verdict *tracked;

    (void)state;
    fault->sleep_phase = LOCKSTEP_PHASE_FORWARD;
    for (uint32_t rank = 0; rank < 4; rank++) {
        fault->sleep_ns[rank] = fault->throttled_ns[rank] = 30 * MS;
        fault->delay_ns[rank] = 8 * 30 * MS;
    }
    lab_judge_many(bench.lab, &bench.judge, 12);
    tracked = lab_open(&bench.judge, VERDICT_STRAGGLER, 0);
    assert_non_null(tracked);
    assert_non_null(strstr(tracked->verdict.cause, "quota"));
    assert_non_null(strstr(tracked->verdict.because[0].what, "100.0 % of the time"));
    bench_close(&bench);
}

/* From the first steps on the node is short of CPUs, and one rank gets them last: it is the node's fault. */
static void a_rank_that_waits_longest_where_all_wait_is_its_nodes(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    struct lab_fault *fault = &bench.lab->fault;

    (void)state;
    fault->sleep_phase = LOCKSTEP_PHASE_FORWARD;
    for (uint32_t rank = 0; rank < 4; rank++)
        fault->delay_ns[rank] = 30 * MS;
    fault->delay_ns[1] = 50 * MS;
    fault->sleep_ns[1] = 20 * MS;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.layer, LAYER_CPU);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.rank_count, 4);
    bench_close(&bench);
}

/* Rank 1 works 8 ms longer than the others, in steps in which all wait 0 to 240 ms for CPUs: that is not told to be its code. */
static void what_is_less_than_the_noise_of_waiting_for_cpus_is_no_rank(void **state)
{
    struct lab_config config = layout(1, 1, 4);

    (void)state;
    for (int noisy = 0; noisy < 2; noisy++) {
        struct bench bench = bench_open(&config);
        struct lab_fault *fault = &bench.lab->fault;

        fault->sleep_phase = LOCKSTEP_PHASE_FORWARD;
        fault->sleep_ns[1] = 8 * MS;
        for (uint32_t step = 0; step < 40; step++) {
            for (uint32_t rank = 0; rank < 4; rank++)
                fault->delay_ns[rank] = noisy ? (int64_t)((step + rank) % 4) * 80 * MS : 120 * MS;
            lab_judge(bench.lab, &bench.judge);
        }
        assert_int_equal(lab_open_count(&bench.judge, 0), 1);
        assert_int_equal(lab_open(&bench.judge, 0, 0)->verdict.layer == LAYER_CPU, noisy);
        assert_int_equal(lab_open(&bench.judge, 0, 0)->verdict.rank_count, noisy ? 4 : 1);
        bench_close(&bench);
    }
}

/* One of them at a time, so that none stands out for long. */
static void starve_in_turn(struct bench *bench, uint32_t steps, int64_t ns, int64_t others_ns)
{
    struct lab_fault *fault = &bench->lab->fault;

    fault->sleep_phase = LOCKSTEP_PHASE_FORWARD;
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t rank = 4; rank < 8; rank++) {
            bool turn = rank % 4 == step % 4;

            fault->delay_ns[rank] = turn ? ns : others_ns;
            fault->sleep_ns[rank] = turn ? ns : 0;
        }
        lab_judge(bench->lab, &bench->judge);
    }
}

/* A burst of six steps somewhere is everyday among many nodes, and news on two. */
static void among_many_nodes_it_must_last(void **state)
{
    (void)state;
    for (int many = 0; many < 2; many++) {
        struct bench bench = eight_on_two_nodes();

        if (many)
            bench.judge.limits.cpu_few_nodes = 2.0 / 128; /* as if there were 64 times as many */
        starve_in_turn(&bench, 6, 40 * MS, MS / 10);
        assert_int_equal(lab_open_count(&bench.judge, 0), many ? 0 : 1);
        starve_in_turn(&bench, 10, 40 * MS, MS / 10);
        assert_int_equal(lab_open_count(&bench.judge, 0), 1);
        bench_close(&bench);
    }
}

/* A step must be lost to it: what makes steps a tenth longer must last longer. */
static void what_hurts_little_must_last(void **state)
{
    struct bench bench = eight_on_two_nodes();

    (void)state;
    starve_in_turn(&bench, 6, 12 * MS, 12 * MS);
    assert_int_equal(bench.judge.verdicts.count, 0);
    starve_in_turn(&bench, 8, 12 * MS, 12 * MS);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.layer, LAYER_CPU);
    bench_close(&bench);
}

/* Else all its ranks would be named one by one before it is. */
static void a_node_whose_ranks_stand_out_is_named_at_once(void **state)
{
    struct bench bench = eight_on_two_nodes();

    (void)state;
    bench.judge.limits.cpu_few_nodes = 2.0 / 128;
    starve(&bench, true, false, 6);
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict.rank_count, 4);
    bench_close(&bench);
}

static void starvation_that_makes_no_step_longer_is_nothing(void **state)
{
    struct bench bench = eight_on_two_nodes();

    (void)state;
    starve(&bench, false, false, 40);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void longer_steps_without_starvation_are_not_the_cpus(void **state)
{
    struct bench bench = eight_on_two_nodes();

    (void)state;
    bench.lab->fault.all = 0.2;
    lab_judge_many(bench.lab, &bench.judge, 30);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void it_closes_when_the_cpus_come_back(void **state)
{
    struct bench bench = eight_on_two_nodes();

    (void)state;
    starve(&bench, true, false, 12);
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    for (uint32_t rank = 4; rank < 8; rank++) {
        bench.lab->fault.sleep_ns[rank] = 0;
        bench.lab->fault.delay_ns[rank] = MS / 10;
    }
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    assert_int_equal(bench.judge.verdicts.count, 1);
    bench_close(&bench);
}

static void a_slow_device_beside_a_starved_node_is_still_named(void **state)
{
    struct bench bench = eight_on_two_nodes();
    bool named = false;

    (void)state;
    starve(&bench, true, false, 8);
    bench.lab->fault.stretch[1] = 0.3;
    starve(&bench, true, false, 20);
    for (uint32_t i = 0; lab_open(&bench.judge, VERDICT_STRAGGLER, i); i++) {
        const struct verdict *verdict = &lab_open(&bench.judge, VERDICT_STRAGGLER, i)->verdict;

        if (verdict->layer == LAYER_GPU) {
            assert_int_equal(verdict->rank[0], 1);
            named = true;
        }
    }
    assert_true(named);
    bench_close(&bench);
}

static double bucket(const struct bench *bench, enum ledger_bucket at)
{
    struct ledger ledger;

    ledger_read(bench->judge.book, &ledger);
    return ledger.gpu_seconds[at];
}

/* Of a starved step all that it is longer is lost; of an evaluation in it nothing is. */
static void what_scarce_cpus_cost_is_straggler_wait(void **state)
{
    const double eval_s = 8 * 2 * 0.3;

    (void)state;
    for (int evaluates = 0; evaluates < 2; evaluates++) {
        struct bench bench = eight_on_two_nodes();
        double productive = bucket(&bench, LEDGER_PRODUCTIVE), step = productive / 14;
        double waited = bucket(&bench, LEDGER_STRAGGLER_WAIT);

        starve(&bench, true, false, 12);
        bench.lab->fault.eval_ns = evaluates ? 300 * MS : 0;
        starve(&bench, true, false, 2);
        bench.lab->fault.eval_ns = 0;
        starve(&bench, true, false, 2);
        productive = bucket(&bench, LEDGER_PRODUCTIVE) - productive - 16 * step;
        waited = bucket(&bench, LEDGER_STRAGGLER_WAIT) - waited;
        assert_true(fabs(productive - (evaluates ? eval_s : 0)) < 0.1 * eval_s);
        assert_true(fabs(waited - 16 * 8 * 0.022) < 0.05 * 16 * 8 * 0.022);
        bench_close(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_starved_node_is_named_as_a_whole),
        cmocka_unit_test(what_scarce_cpus_cost_is_straggler_wait),
        cmocka_unit_test(what_waits_too_little_for_a_cpu_is_not_explained_by_it),
        cmocka_unit_test(a_slow_rank_that_others_spin_for_is_named_and_not_its_node),
        cmocka_unit_test(a_rank_that_waits_for_cpus_alone_is_named_also_on_a_busy_node),
        cmocka_unit_test(a_rank_that_waits_longest_where_all_wait_is_its_nodes),
        cmocka_unit_test(what_is_less_than_the_noise_of_waiting_for_cpus_is_no_rank),
        cmocka_unit_test(a_quota_is_called_one_though_many_threads_wait_for_it),
        cmocka_unit_test(among_many_nodes_it_must_last),
        cmocka_unit_test(what_hurts_little_must_last),
        cmocka_unit_test(a_node_whose_ranks_stand_out_is_named_at_once),
        cmocka_unit_test(starvation_that_makes_no_step_longer_is_nothing),
        cmocka_unit_test(longer_steps_without_starvation_are_not_the_cpus),
        cmocka_unit_test(it_closes_when_the_cpus_come_back),
        cmocka_unit_test(a_slow_device_beside_a_starved_node_is_still_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
