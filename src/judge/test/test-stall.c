/* test-stall.c - when a job waits for input, and when that is one rank's, the cpu's or nobody's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/stall/stall.h"

#include "core/time.h"
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
        lab_judge(bench->lab, &bench->judge);
        if (lab_open_count(&bench->judge, kind))
            return step;
    }
    return UINT32_MAX;
}

static const struct verdict *only_verdict_of(const struct bench *bench, unsigned kind,
                                             unsigned layer)
{
    const struct tracked_verdict *tracked = lab_open(&bench->judge, kind, 0);

    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench->judge, 0), 1);
    assert_string_equal(verdict_layer_name(tracked->verdict.layer), verdict_layer_name(layer));
    assert_true(tracked->verdict.because_count >= 2 && tracked->verdict.ruled_out_count >= 1);
    return &tracked->verdict;
}

static const struct verdict *only_verdict(const struct bench *bench, unsigned kind, unsigned layer)
{
    const struct verdict *verdict = only_verdict_of(bench, kind, layer);

    assert_true(verdict->ruled_out_count >= 2);
    return verdict;
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

            lab_judge_many(bench.lab, &bench.judge, HEALTHY);
            assert_int_equal(bench.judge.verdicts.count, 0);
            sleep_in_data(&bench, 0, bench.lab->world, waits[wait].ns);
            assert_true(steps_until(&bench, VERDICT_INPUT_STALL, waits[wait].within) <=
                        waits[wait].within);
            lab_judge_many(bench.lab, &bench.judge, 20); /* and nobody is named for it */
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
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    sleep_in_data(&bench, 0, 4, 20 * MS);
    for (int i = 0; i < 20; i++) {
        lab_judge(bench.lab, &bench.judge);
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
    lab_judge_many(bench.lab, &bench.judge, 60);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void one_late_batch_is_nothing(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    for (int i = 0; i < 4; i++) {
        sleep_in_data(&bench, 0, 4, 40 * MS);
        lab_judge(bench.lab, &bench.judge);
        sleep_in_data(&bench, 0, 4, 0);
        lab_judge_many(bench.lab, &bench.judge, 15);
    }
    assert_int_equal(bench.judge.verdicts.count, 0);
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

        lab_judge_many(bench.lab, &bench.judge, HEALTHY);
        sleep_in_data(&bench, 1, 2, 25 * MS);
        assert_true(steps_until(&bench, VERDICT_STRAGGLER, 5) <= 5);
        lab_judge_many(bench.lab, &bench.judge, 20);
        verdict = only_verdict(&bench, VERDICT_STRAGGLER, LAYER_DATA);
        assert_int_equal(verdict->rank_count, 1);
        assert_int_equal(verdict->rank[0], 1);
        assert_int_equal(verdict->since_step, HEALTHY);
        bench_close(&bench);
    }
}

/* Each is hidden behind the other: alone, neither would make a step shorter. */
static void a_slow_device_and_another_ranks_late_batches_are_both_named(void **state)
{
    struct lab_config config = layout(1, 1, 4);

    (void)state;
    for (int64_t late_ms = 40; late_ms <= 50; late_ms += 5) {
        struct bench bench = bench_open(&config);
        double period;

        lab_judge_many(bench.lab, &bench.judge, HEALTHY);
        period = history_period_ms(&bench.judge.history, 5);
        bench.lab->fault.stretch[0] = 0.45 * 100 / period;
        sleep_in_data(&bench, 3, 4, late_ms * MS);
        lab_judge_many(bench.lab, &bench.judge, 20);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 2);
        assert_int_equal(lab_open_count(&bench.judge, 0), 2);
        assert_non_null(judge_state_open_verdict(&bench.judge, VERDICT_STRAGGLER, LAYER_GPU, 0));
        assert_non_null(judge_state_open_verdict(&bench.judge, VERDICT_STRAGGLER, LAYER_DATA, 3));
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
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    sleep_in_data(&bench, 2, 4, 25 * MS);
    lab_judge_many(bench.lab, &bench.judge, 20);
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
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    sleep_in_data(&bench, 0, 4, 20 * MS);
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->fault.delay_ns[rank] = 18 * MS;
    lab_judge_many(bench.lab, &bench.judge, 30);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_INPUT_STALL), 0);
    bench_close(&bench);
}

static void a_wait_that_was_always_there_is_not_the_inputs_where_cpus_were_always_scarce(
    void **state)
{
    (void)state;
    for (int scarce = 0; scarce < 2; scarce++) {
        struct lab_config config = layout(1, 1, 4);
        struct bench bench = bench_open(&config);

        for (uint32_t rank = 0; rank < 4; rank++)
            bench.lab->fault.delay_ns[rank] = scarce * 40 * MS;
        sleep_in_data(&bench, 0, 4, 30 * MS);
        lab_judge_many(bench.lab, &bench.judge, 30);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_INPUT_STALL), !scarce);
        bench_close(&bench);
    }
}

static void a_loader_is_named_beside_a_node_without_cpus(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    for (int i = 0; i < 10; i++) { /* all starve, at a place that moves */
        for (uint32_t rank = 0; rank < 4; rank++)
            bench.lab->fault.delay_ns[rank] = bench.lab->fault.sleep_ns[rank] =
                (rank % 4 == (uint32_t)i % 4 ? 22 : 12) * MS;
        bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_FORWARD;
        lab_judge(bench.lab, &bench.judge);
    }
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 1);
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->fault.delay_ns[rank] = 12 * MS;
    sleep_in_data(&bench, 0, 4, 0);
    sleep_in_data(&bench, 2, 3, 40 * MS);
    lab_judge_many(bench.lab, &bench.judge, 5); /* the node's verdict is not over yet */
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_STRAGGLER), 2);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 1)->verdict.layer, LAYER_DATA);
    assert_int_equal(lab_open(&bench.judge, VERDICT_STRAGGLER, 1)->verdict.rank[0], 2);
    bench_close(&bench);
}

/* The loader of the rank that waits for the other goes on meanwhile, so its own batches seem to come earlier. */
static void loaders_that_are_all_slow_are_the_jobs_although_one_is_waited_for(void **state)
{
    struct lab_config config = layout(1, 1, 2);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    sleep_in_data(&bench, 0, 1, 60 * MS);
    sleep_in_data(&bench, 1, 2, 25 * MS);
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(only_verdict(&bench, VERDICT_INPUT_STALL, LAYER_DATA)->rank_count, 0);
    bench_close(&bench);
}

static void a_stalled_input_is_over_when_batches_come_again(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    for (int round = 0; round < 2; round++) { /* the same fault again is the same verdict */
        sleep_in_data(&bench, 0, 4, 30 * MS);
        lab_judge_many(bench.lab, &bench.judge, 10);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_INPUT_STALL), 1);
        sleep_in_data(&bench, 0, 4, 0);
        lab_judge_many(bench.lab, &bench.judge, 16);
        assert_int_equal(lab_open_count(&bench.judge, 0), 0);
        assert_int_equal(bench.judge.verdicts.count, 1);
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
    lab_judge_many(bench.lab, &bench.judge, 2 * HEALTHY);
    assert_int_equal(bench.judge.verdicts.count, 0);
    sleep_in_data(&bench, 0, 4, 30 * MS);
    assert_true(steps_until(&bench, VERDICT_INPUT_STALL, 8) <= 8);
    assert_true(only_verdict(&bench, VERDICT_INPUT_STALL, LAYER_DATA)->confidence <= 0.7);
    bench_close(&bench);
}

static void a_batch_that_is_very_late_now_and_then_is_said_too(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    const struct verdict *verdict;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, HEALTHY);
    for (int i = 0; i < 5; i++) { /* 300 ms every 20 steps of 100 ms: 13 % */
        sleep_in_data(&bench, 0, 4, 300 * MS);
        lab_judge(bench.lab, &bench.judge);
        sleep_in_data(&bench, 0, 4, 0);
        lab_judge_many(bench.lab, &bench.judge, 19);
    }
    verdict = only_verdict_of(&bench, VERDICT_INPUT_STALL, LAYER_DATA);
    assert_int_equal(verdict->rank_count, 0);
    assert_non_null(strstr(verdict->cause, "some batches arrive very late"));
    assert_int_equal(bench.judge.verdicts.count, 1);
    lab_judge_many(bench.lab, &bench.judge, 60); /* it does not come again */
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    bench_close(&bench);
    bench = bench_open(&config);
    for (int i = 0; i < 8; i++) { /* 110 ms every 80 steps, as between epochs: 1.4 % */
        sleep_in_data(&bench, 0, 4, 110 * MS);
        lab_judge(bench.lab, &bench.judge);
        sleep_in_data(&bench, 0, 4, 0);
        lab_judge_many(bench.lab, &bench.judge, 79);
    }
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

/* ---- checkpoints and evaluations ---- */

/* A checkpoint (or an evaluation) every ten steps. */
static void rounds(struct bench *bench, int64_t *what, int64_t ns, int count)
{
    while (count-- > 0) {
        lab_judge_many(bench->lab, &bench->judge, 9);
        *what = ns;
        lab_judge(bench->lab, &bench->judge);
        *what = 0;
    }
}

static void planned_pauses_of_the_usual_length_are_no_fault(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    for (int i = 0; i < 12; i++) /* they may differ by half, and cost 4 % */
        rounds(&bench, &bench.lab->fault.checkpoint_ns, (30 + 5 * (i % 4)) * MS, 1);
    rounds(&bench, &bench.lab->fault.eval_ns, 150 * MS, 12);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_checkpoint_that_takes_twenty_times_as_long_is_said_at_once(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    const struct verdict *verdict;

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 3);
    assert_int_equal(bench.judge.verdicts.count, 0);
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 500 * MS, 1);
    verdict = only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT);
    assert_int_equal(verdict->rank_count, 0);
    assert_int_equal(verdict->since_step, 39);
    assert_true(verdict->gpu_seconds > 4 * 0.45 && verdict->gpu_seconds < 4 * 0.5);
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 500 * MS, 2); /* still the same one, open */
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    assert_int_equal(bench.judge.verdicts.count, 1);
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 2);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    bench_close(&bench);
}

static void a_checkpoint_over_thrice_as_long_is_said_when_the_next_one_is_too(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 30 * MS, 3);
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 100 * MS, 1);
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 30 * MS, 1);
    assert_int_equal(bench.judge.verdicts.count, 0); /* once may happen */
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 100 * MS, 2);
    only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT);
    bench_close(&bench);
}

static void a_rank_that_alone_is_late_with_its_checkpoint_is_named(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    const struct verdict *verdict;

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 3);
    bench.lab->fault.checkpoint_more_ns[2] = 400 * MS;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 2);
    verdict = only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT);
    assert_int_equal(verdict->rank_count, 1);
    assert_int_equal(verdict->rank[0], 2);
    bench_close(&bench);
}

static void checkpoints_that_cost_a_tenth_of_the_time_are_said(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 250 * MS, 6);
    assert_non_null(strstr(
        only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT)->cause, "of the time"));
    bench_close(&bench);
}

static void ranks_seen_in_state_d_make_it_the_storages(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    const struct fact_beat beat = { .rank = 1, .state = 'D', .phase = LOCKSTEP_PHASE_CHECKPOINT };

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 3);
    for (int i = 0; i < 4; i++)
        stall_beat(&bench.judge, &beat);
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 3000 * MS, 1);
    only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_STORAGE);
    bench_close(&bench);
}

static void seen_saving(struct bench *bench, uint32_t rank, uint16_t looks, uint16_t waits)
{
    const struct fact_beat beat = { .rank = rank,
                                    .state = 'S',
                                    .storage = { [BEAT_STORAGE_CHECKPOINT] = { looks, waits } } };

    stall_beat(&bench->judge, &beat);
}

/* The others are done soon, but they are many. */
static void one_rank_on_slow_storage_is_not_hidden_by_those_on_sound_storage(void **state)
{
    struct lab_config config = layout(1, 1, 16);
    struct bench bench = bench_open(&config);

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 3);
    for (uint32_t rank = 0; rank < 16; rank++)
        seen_saving(&bench, rank, rank == 2 ? 8 : 1, rank == 2 ? 8 : 0);
    bench.lab->fault.checkpoint_more_ns[2] = 800 * MS;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 1);
    assert_int_equal(only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_STORAGE)->rank[0], 2);
    bench_close(&bench);
}

static void one_rank_that_is_late_by_itself_is_not_the_storages(void **state)
{
    struct lab_config config = layout(1, 1, 16);
    struct bench bench = bench_open(&config);

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 3);
    for (uint32_t rank = 0; rank < 16; rank++) /* all write at once, and wait a little */
        seen_saving(&bench, rank, rank == 2 ? 8 : 1, 1);
    bench.lab->fault.checkpoint_more_ns[2] = 800 * MS;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 1);
    only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT);
    bench_close(&bench);
}

static void after_one_short_pause_a_very_long_one_is_enough(void **state)
{
    static const struct {
        int64_t ms;
        size_t verdicts;
    } tries[] = { { 300, 0 }, { 3000, 1 } };

    (void)state;
    for (size_t i = 0; i < COUNT(tries); i++) {
        struct lab_config config = layout(1, 1, 4);
        struct bench bench = bench_open(&config);

        rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 1);
        rounds(&bench, &bench.lab->fault.checkpoint_ns, tries[i].ms * MS, 1);
        assert_int_equal(bench.judge.verdicts.count, tries[i].verdicts);
        bench_close(&bench);
    }
}

/* An agent looks at its ranks together: in the first moments of a save all of them write. */
static void samples_of_one_moment_are_not_the_storages(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 3);
    for (uint32_t rank = 0; rank < 4; rank++)
        seen_saving(&bench, rank, 1, 1);
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 600 * MS, 1);
    only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT);
    bench_close(&bench);
}

static void a_checkpoint_whose_beats_come_late_becomes_the_storages(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 3);
    bench.lab->fault.checkpoint_more_ns[2] = 800 * MS;
    rounds(&bench, &bench.lab->fault.checkpoint_ns, 25 * MS, 1);
    only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT);
    seen_saving(&bench, 1, 8, 8); /* somebody else */
    lab_judge(bench.lab, &bench.judge);
    only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_CHECKPOINT);
    seen_saving(&bench, 2, 8, 8);
    lab_judge(bench.lab, &bench.judge);
    only_verdict_of(&bench, VERDICT_CHECKPOINT_STALL, LAYER_STORAGE);
    bench_close(&bench);
}

/* Who waits for a batch is known after a few steps, what it waits for comes with the beats. */
static void an_input_that_is_seen_waiting_for_storage_becomes_the_storages(void **state)
{
    struct lab_config config = layout(1, 1, 4);

    (void)state;
    for (uint16_t waits = 2; waits <= 10; waits += 8) {
        struct bench bench = bench_open(&config);
        const struct fact_beat beat = { .rank = 1,
                                        .state = 'S',
                                        .storage = { [BEAT_STORAGE_DATA] = { 10, waits } } };

        lab_judge_many(bench.lab, &bench.judge, HEALTHY);
        sleep_in_data(&bench, 0, 4, 40 * MS);
        lab_judge_many(bench.lab, &bench.judge, 6);
        only_verdict(&bench, VERDICT_INPUT_STALL, LAYER_DATA);
        stall_beat(&bench.judge, &beat);
        lab_judge(bench.lab, &bench.judge);
        only_verdict(&bench, VERDICT_INPUT_STALL, waits == 10 ? LAYER_STORAGE : LAYER_DATA);
        bench_close(&bench);
    }
}

static void an_evaluation_that_takes_far_longer_than_before_is_said(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    (void)state;
    rounds(&bench, &bench.lab->fault.eval_ns, 40 * MS, 3);
    rounds(&bench, &bench.lab->fault.eval_ns, 600 * MS, 1);
    assert_string_equal(only_verdict_of(&bench, VERDICT_INPUT_STALL, LAYER_USER_CODE)->group,
                        "evaluation");
    bench_close(&bench);
}

/* ---- start-up ---- */

/* The first step of an attempt that began `seconds` before it. */
static struct bench start_doing(double seconds, double late, unsigned phase, uint16_t waits)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = { .lab = lab_create(&config) };

    assert_int_equal(judge_state_init(&bench.judge, "test"), 0);
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->rank[rank].begin_ns = (int64_t)(1e9 * (1 + seconds + (rank == 3 ? late : 0)));
    ledger_run(bench.judge.book, 4, NS_PER_S);
    lab_introduce(bench.lab, &bench.judge);
    for (int i = 0; i < (int)late; i++) { /* once a second, as agents tell */
        struct fact_beat beat = { .rank = 3,
                                  .state = 'S',
                                  .step = UINT64_MAX,
                                  .mono_ns = (int64_t)(1e9 * (1 + seconds + i)),
                                  .phase = (uint8_t)phase };

        beat.storage[phase == LOCKSTEP_PHASE_CHECKPOINT] = (struct beat_storage){ 10, waits };
        stall_beat(&bench.judge, &beat);
    }
    lab_judge(bench.lab, &bench.judge);
    return bench;
}

static struct bench start_after(double seconds, double late)
{
    return start_doing(seconds, late, LOCKSTEP_PHASE_COMM_INIT, 0);
}

static void a_slow_start_is_no_fault(void **state)
{
    struct bench bench = start_after(600, 20);

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(bench.judge.verdicts.count, 0);
    lab_restart(bench.lab, 5, 30 * NS_PER_S);
    judge_state_attempt(&bench.judge, 1, NS_PER_S);
    lab_introduce(bench.lab, &bench.judge);
    lab_judge_many(bench.lab, &bench.judge, 20);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void a_rank_that_all_others_wait_for_at_the_start_is_named(void **state)
{
    struct bench bench = start_after(100, 90);
    const struct tracked_verdict *tracked = lab_open(&bench.judge, VERDICT_STARTUP_STALL, 0);

    (void)state;
    assert_non_null(tracked);
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    assert_int_equal(tracked->verdict.rank_count, 1);
    assert_int_equal(tracked->verdict.rank[0], 3);
    lab_judge_many(bench.lab, &bench.judge, 20); /* it is over once it runs */
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    assert_true(tracked->verdict.gpu_seconds > 4 * 85 && tracked->verdict.gpu_seconds < 4 * 95);
    bench_close(&bench);
}

static void what_a_late_rank_did_until_its_first_step_is_its_layer(void **state)
{
    static const struct {
        unsigned phase, layer;
        uint16_t waits;
    } cases[] = { { LOCKSTEP_PHASE_DATA, LAYER_DATA, 0 },
                  { LOCKSTEP_PHASE_DATA, LAYER_STORAGE, 9 },
                  { LOCKSTEP_PHASE_CHECKPOINT, LAYER_CHECKPOINT, 2 },
                  { LOCKSTEP_PHASE_COMPILE, LAYER_FRAMEWORK, 0 },
                  { 0, LAYER_USER_CODE, 0 },
                  { LOCKSTEP_PHASE_COMM_INIT, LAYER_UNKNOWN, 0 },
                  { LOCKSTEP_PHASE_INIT, LAYER_UNKNOWN, 0 } };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct bench bench = start_doing(100, 90, cases[i].phase, cases[i].waits);
        const struct tracked_verdict *tracked = lab_open(&bench.judge, VERDICT_STARTUP_STALL, 0);

        assert_non_null(tracked);
        assert_int_equal(tracked->verdict.layer, cases[i].layer);
        bench_close(&bench);
    }
}

static void who_was_waited_for_before_a_common_first_step_is_named(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = { .lab = lab_create(&config) };
    const struct tracked_verdict *tracked;

    (void)state;
    assert_int_equal(judge_state_init(&bench.judge, "test"), 0);
    for (uint32_t rank = 0; rank < 4; rank++)
        bench.lab->rank[rank].begin_ns = 101 * NS_PER_S;
    ledger_run(bench.judge.book, 4, NS_PER_S);
    lab_introduce(bench.lab, &bench.judge);
    for (int i = 0; i < 95; i++) {
        for (uint32_t rank = 0; rank < 4; rank++) {
            struct fact_beat beat = { .rank = rank,
                                      .state = 'S',
                                      .step = UINT64_MAX,
                                      .mono_ns = (i + 2) * NS_PER_S,
                                      .phase = LOCKSTEP_PHASE_CHECKPOINT,
                                      .ops = rank != 2 && i > 2,
                                      .op = { { .started = true } } };

            stall_beat(&bench.judge, &beat);
        }
    }
    lab_judge(bench.lab, &bench.judge);
    tracked = lab_open(&bench.judge, VERDICT_STARTUP_STALL, 0);
    assert_non_null(tracked);
    assert_int_equal(tracked->verdict.rank_count, 1);
    assert_int_equal(tracked->verdict.rank[0], 2);
    assert_int_equal(tracked->verdict.layer, LAYER_CHECKPOINT);
    bench_close(&bench);
}

static void a_start_that_takes_longer_than_anyone_plans_is_said(void **state)
{
    struct bench bench = start_after(1200, 5);
    const struct tracked_verdict *tracked = lab_open(&bench.judge, VERDICT_STARTUP_STALL, 0);

    (void)state;
    assert_non_null(tracked);
    assert_int_equal(tracked->verdict.rank_count, 0);
    assert_true(tracked->verdict.confidence <= 0.6);
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
        cmocka_unit_test(a_slow_device_and_another_ranks_late_batches_are_both_named),
        cmocka_unit_test(ranks_on_a_slow_storage_are_named_together),
        cmocka_unit_test(hosts_without_a_cpu_are_not_the_inputs_fault),
        cmocka_unit_test(
            a_wait_that_was_always_there_is_not_the_inputs_where_cpus_were_always_scarce),
        cmocka_unit_test(a_loader_is_named_beside_a_node_without_cpus),
        cmocka_unit_test(loaders_that_are_all_slow_are_the_jobs_although_one_is_waited_for),
        cmocka_unit_test(a_stalled_input_is_over_when_batches_come_again),
        cmocka_unit_test(without_device_times_we_are_less_sure),
        cmocka_unit_test(a_batch_that_is_very_late_now_and_then_is_said_too),
        cmocka_unit_test(planned_pauses_of_the_usual_length_are_no_fault),
        cmocka_unit_test(a_checkpoint_that_takes_twenty_times_as_long_is_said_at_once),
        cmocka_unit_test(a_checkpoint_over_thrice_as_long_is_said_when_the_next_one_is_too),
        cmocka_unit_test(a_rank_that_alone_is_late_with_its_checkpoint_is_named),
        cmocka_unit_test(checkpoints_that_cost_a_tenth_of_the_time_are_said),
        cmocka_unit_test(ranks_seen_in_state_d_make_it_the_storages),
        cmocka_unit_test(one_rank_on_slow_storage_is_not_hidden_by_those_on_sound_storage),
        cmocka_unit_test(one_rank_that_is_late_by_itself_is_not_the_storages),
        cmocka_unit_test(after_one_short_pause_a_very_long_one_is_enough),
        cmocka_unit_test(samples_of_one_moment_are_not_the_storages),
        cmocka_unit_test(a_checkpoint_whose_beats_come_late_becomes_the_storages),
        cmocka_unit_test(an_input_that_is_seen_waiting_for_storage_becomes_the_storages),
        cmocka_unit_test(an_evaluation_that_takes_far_longer_than_before_is_said),
        cmocka_unit_test(a_slow_start_is_no_fault),
        cmocka_unit_test(a_rank_that_all_others_wait_for_at_the_start_is_named),
        cmocka_unit_test(what_a_late_rank_did_until_its_first_step_is_its_layer),
        cmocka_unit_test(who_was_waited_for_before_a_common_first_step_is_named),
        cmocka_unit_test(a_start_that_takes_longer_than_anyone_plans_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
