/* test-stall.c - when a job waits for input, and when that is one rank's, the cpu's or nobody's. */
#include "judge/test/bench.h"

#define HEALTHY 12 /* steps before a fault */
#define MS INT64_C(1000000)

static void sleep_in_data(struct bench *bench, uint32_t from, uint32_t to, int64_t ns)
{
    bench->lab->fault.sleep_phase = LOCKSTEP_PHASE_DATA;
    for (uint32_t rank = from; rank < to; rank++)
        bench->lab->fault.sleep_ns[rank] = ns;
}

/* Steps until a verdict of this kind is open; UINT32_MAX: none within `most`. */
static uint32_t steps_until(struct bench *bench, unsigned kind, uint32_t most)
{
    for (uint32_t step = 1; step <= most; step++) {
        lab_judge(bench->lab, &bench->court);
        if (lab_open_count(&bench->court, kind))
            return step;
    }
    return UINT32_MAX;
}

static const struct verdict *only_verdict(const struct bench *bench, unsigned kind, unsigned layer)
{
    const struct entry *entry = lab_open(&bench->court, kind, 0);

    assert_non_null(entry);
    assert_int_equal(lab_open_count(&bench->court, 0), 1);
    assert_string_equal(verdict_layer_name(entry->verdict.layer), verdict_layer_name(layer));
    assert_true(entry->verdict.because_count >= 2 && entry->verdict.ruled_out_count >= 2);
    return &entry->verdict;
}

/* ---- input ---- */

static void batches_that_come_late_everywhere_are_the_jobs_input(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 1, 4 }, { 2, 1, 4 }, { 1, 2, 4 }, { 1, 1, 2 } };
    static const struct {
        int64_t ns;
        uint32_t within;
    } waits[] = { { 50 * MS, 5 }, { 25 * MS, 5 }, { 10 * MS, 7 }, { 5 * MS, 13 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        for (size_t wait = 0; wait < COUNT(waits); wait++) {
            struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
            struct bench bench = bench_open(&config);
            const struct verdict *verdict;

            lab_judge_many(bench.lab, &bench.court, HEALTHY);
            assert_int_equal(bench.court.docket.count, 0);
            sleep_in_data(&bench, 0, bench.lab->world, waits[wait].ns);
            assert_true(steps_until(&bench, VERDICT_INPUT_STALL, waits[wait].within) <=
                        waits[wait].within);
            lab_judge_many(bench.lab, &bench.court, 20); /* and nobody is named for it */
            verdict = only_verdict(&bench, VERDICT_INPUT_STALL, LAYER_DATA);
            assert_int_equal(verdict->rank_count, 0);
            assert_int_equal(verdict->since_step, HEALTHY);
            assert_true(verdict->confidence > 0.8);
            bench_close(&bench);
        }
    }
}

static void a_stalled_input_costs_what_it_cost(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    static const struct lab_fault none;
    double lost = 0, cost;

    (void)state;
    lab_judge_many(bench.lab, &bench.court, HEALTHY);
    sleep_in_data(&bench, 0, 4, 20 * MS);
    for (int i = 0; i < 20; i++) {
        lab_judge(bench.lab, &bench.court);
        lost += (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9;
    }
    cost = only_verdict(&bench, VERDICT_INPUT_STALL, LAYER_DATA)->gpu_seconds;
    assert_true(cost > 0.95 * 4 * lost && cost < 1.05 * 4 * lost);
    bench_close(&bench);
}

static void an_input_that_was_always_slow_is_said_so(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.data_ns = 12 * MS;
    bench = bench_open(&config);
    assert_true(steps_until(&bench, VERDICT_INPUT_STALL, 16) <= 16);
    assert_non_null(strstr(only_verdict(&bench, VERDICT_INPUT_STALL, LAYER_DATA)->because[0].what,
                           "since the first steps"));
    bench_close(&bench);
    config.data_ns = 3 * MS; /* three per cent from the beginning: as the job is */
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.court, 60);
    assert_int_equal(bench.court.docket.count, 0);
    bench_close(&bench);
}

static void one_late_batch_is_nothing(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.court, HEALTHY);
    for (int i = 0; i < 4; i++) {
        sleep_in_data(&bench, 0, 4, 40 * MS);
        lab_judge(bench.lab, &bench.court);
        sleep_in_data(&bench, 0, 4, 0);
        lab_judge_many(bench.lab, &bench.court, 15);
    }
    assert_int_equal(bench.court.docket.count, 0);
    bench_close(&bench);
}

static void a_rank_alone_with_its_loader_is_a_straggler(void **state)
{
    static const uint32_t layouts[][3] = { { 1, 1, 2 }, { 1, 1, 4 }, { 2, 1, 4 }, { 1, 2, 2 } };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        struct bench bench = bench_open(&config);
        const struct verdict *verdict;

        lab_judge_many(bench.lab, &bench.court, HEALTHY);
        sleep_in_data(&bench, 1, 2, 25 * MS);
        assert_true(steps_until(&bench, VERDICT_STRAGGLER, 5) <= 5);
        lab_judge_many(bench.lab, &bench.court, 20);
        verdict = only_verdict(&bench, VERDICT_STRAGGLER, LAYER_DATA);
        assert_int_equal(verdict->rank_count, 1);
        assert_int_equal(verdict->rank[0], 1);
        assert_int_equal(verdict->since_step, HEALTHY);
        bench_close(&bench);
    }
}

static void ranks_on_a_slow_storage_are_named_together(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench;
    const struct verdict *verdict;

    (void)state;
    config.per_node = 2;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.court, HEALTHY);
    sleep_in_data(&bench, 2, 4, 25 * MS);
    lab_judge_many(bench.lab, &bench.court, 20);
    verdict = only_verdict(&bench, VERDICT_STRAGGLER, LAYER_DATA);
    assert_int_equal(verdict->rank_count, 2);
    assert_int_equal(verdict->node_count, 1);
    assert_string_equal(verdict->node[0], "n1");
    bench_close(&bench);
}

static void hosts_without_a_cpu_are_not_the_inputs_fault(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.court, HEALTHY);
    sleep_in_data(&bench, 0, 4, 20 * MS);
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->fault.delay_ns[rank] = 18 * MS;
    lab_judge_many(bench.lab, &bench.court, 30);
    assert_int_equal(lab_open_count(&bench.court, VERDICT_INPUT_STALL), 0);
    bench_close(&bench);
}

static void a_stalled_input_is_over_when_batches_come_again(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.court, HEALTHY);
    for (int round = 0; round < 2; round++) { /* the same fault again is the same verdict */
        sleep_in_data(&bench, 0, 4, 30 * MS);
        lab_judge_many(bench.lab, &bench.court, 10);
        assert_int_equal(lab_open_count(&bench.court, VERDICT_INPUT_STALL), 1);
        sleep_in_data(&bench, 0, 4, 0);
        lab_judge_many(bench.lab, &bench.court, 16);
        assert_int_equal(lab_open_count(&bench.court, 0), 0);
        assert_int_equal(bench.court.docket.count, 1);
    }
    bench_close(&bench);
}

static void without_device_times_we_are_less_sure(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench;

    (void)state;
    config.host_view = true;
    bench = bench_open(&config);
    lab_judge_many(bench.lab, &bench.court, 2 * HEALTHY);
    assert_int_equal(bench.court.docket.count, 0);
    sleep_in_data(&bench, 0, 4, 30 * MS);
    assert_true(steps_until(&bench, VERDICT_INPUT_STALL, 8) <= 8);
    assert_true(only_verdict(&bench, VERDICT_INPUT_STALL, LAYER_DATA)->confidence <= 0.7);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_that_come_late_everywhere_are_the_jobs_input),
        cmocka_unit_test(a_stalled_input_costs_what_it_cost),
        cmocka_unit_test(an_input_that_was_always_slow_is_said_so),
        cmocka_unit_test(one_late_batch_is_nothing),
        cmocka_unit_test(a_rank_alone_with_its_loader_is_a_straggler),
        cmocka_unit_test(ranks_on_a_slow_storage_are_named_together),
        cmocka_unit_test(hosts_without_a_cpu_are_not_the_inputs_fault),
        cmocka_unit_test(a_stalled_input_is_over_when_batches_come_again),
        cmocka_unit_test(without_device_times_we_are_less_sure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
