/* test-ledger.c - every GPU-second in one bucket, and the injected ones in theirs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#define MS INT64_C(1000000)
#define STEPS 40

static double bucket(const struct bench *bench, enum ledger_bucket which)
{
    struct ledger ledger;

    ledger_read(bench->judge.book, &ledger);
    return ledger.gpu_seconds[which];
}

static double sum_is_complete(const struct bench *bench)
{
    struct ledger ledger;
    double sum = 0, job_step;

    ledger_read(bench->judge.book, &ledger);
    for (int i = 0; i < LEDGER_BUCKETS; i++) {
        assert_true(ledger.gpu_seconds[i] >= -1e-9);
        sum += ledger.gpu_seconds[i];
    }
    job_step = ledger.wall_seconds * ledger.ranks;
    if (job_step < sum - 1e-6 * sum || job_step > sum + 1e-6 * sum)
        fail_msg("buckets hold %.9f s of %.9f s", sum, job_step);
    return sum;
}

static void near(double value, double wanted, double within)
{
    if (value < wanted * (1 - within) || value > wanted * (1 + within))
        fail_msg("%.6f is not within %.0f %% of %.6f", value, 100 * within, wanted);
}

static int64_t now_of(const struct lab *lab)
{
    int64_t now = 0;

    for (uint32_t rank = 0; rank < lab->world; rank++)
        now = MAX(now, lab->rank[rank].begin_ns + lab->rank[rank].duration_ns);
    return now;
}

static const uint32_t layouts[][3] = {
    { 1, 1, 4 }, { 1, 1, 8 }, { 2, 1, 2 }, { 1, 2, 2 }, { 2, 2, 2 }, { 1, 4, 2 },
};

static void a_healthy_run_leaves_next_to_nothing_unattributed(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        struct bench bench = bench_open(&config);
        double sum;

        lab_judge_many(bench.lab, &bench.judge, STEPS);
        judge_state_end(&bench.judge, now_of(bench.lab) + 10 * MS);
        sum = sum_is_complete(&bench);
        assert_true(bucket(&bench, LEDGER_UNATTRIBUTED) <= 0.01 * sum);
        assert_true(bucket(&bench, LEDGER_STRAGGLER_WAIT) <= 0.02 * sum);
        assert_true(bucket(&bench, LEDGER_PRODUCTIVE) > 0.3 * sum);
        near(bucket(&bench, LEDGER_START_UP), 1.0 * bench.lab->world, 0.001);
        bench_close(&bench);
    }
}

/* What the fault made the run longer than it would have been, by the lab's own account, is straggler-wait. */
static void lost_is_straggler_wait(const uint32_t at[3], const struct lab_fault *fault)
{
    struct lab_config config = layout(at[0], at[1], at[2]);
    static const struct lab_fault none;
    struct bench bench = bench_open(&config);
    double before, jitter = 0, lost = 0;

    lab_judge_many(bench.lab, &bench.judge, 12);
    before = bucket(&bench, LEDGER_STRAGGLER_WAIT);
    lab_judge_many(bench.lab, &bench.judge, STEPS);
    jitter = bucket(&bench, LEDGER_STRAGGLER_WAIT) - before;
    before += jitter;
    bench.lab->fault = *fault;
    for (int step = 0; step < STEPS; step++) {
        lab_judge(bench.lab, &bench.judge);
        lost += (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9;
    }
    sum_is_complete(&bench);
    near(bucket(&bench, LEDGER_STRAGGLER_WAIT) - before - jitter, lost * bench.lab->world, 0.05);
    bench_close(&bench);
}

static void a_stretch_is_straggler_wait(void **state)
{
    static const double stretches[] = { 0.10, 0.25, 0.5, 1.0 };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts) * COUNT(stretches); i++) {
        struct lab_fault fault = { .stretch[1] = stretches[i % COUNT(stretches)] };

        lost_is_straggler_wait(layouts[i / COUNT(stretches)], &fault);
    }
}

static void a_host_sleep_is_straggler_wait(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_fault fault = { .sleep_ns[2] = 30 * MS, .sleep_phase = LOCKSTEP_PHASE_FORWARD };

        lost_is_straggler_wait(layouts[i], &fault);
    }
}

static void buckets_read(const struct bench *bench, double ret[LEDGER_BUCKETS])
{
    for (int i = 0; i < LEDGER_BUCKETS; i++)
        ret[i] = bucket(bench, (enum ledger_bucket)i);
}

/* More work is productive, what the other stages wait for it imbalance; and where it has moved the critical path, messages
 * that compute hid are transfers now.
 */
static void heavy_stage_is_booked(const uint32_t at[3], uint32_t stage, double more)
{
    struct lab_config config = layout(at[0], at[1], at[2]);
    static const struct lab_fault none;
    struct bench bench = bench_open(&config);
    double begin[LEDGER_BUCKETS], middle[LEDGER_BUCKETS], end[LEDGER_BUCKETS], lost = 0;

    lab_judge_many(bench.lab, &bench.judge, 12);
    buckets_read(&bench, begin);
    lab_judge_many(bench.lab, &bench.judge, STEPS); /* as many without it say what it changes */
    buckets_read(&bench, middle);
    bench.lab->fault.heavier[stage] = more;
    for (int step = 0; step < STEPS; step++) {
        lab_judge(bench.lab, &bench.judge);
        lost += (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9;
    }
    buckets_read(&bench, end);
    lost *= bench.lab->world;
    for (int i = 0; i < LEDGER_BUCKETS; i++)
        end[i] += begin[i] - 2 * middle[i];
    near(end[LEDGER_PRODUCTIVE] + end[LEDGER_IMBALANCE] + end[LEDGER_TRANSFER], lost, 0.02);
    near(end[LEDGER_PRODUCTIVE] + end[LEDGER_IMBALANCE], lost, 0.1);
    bench_close(&bench);
}

static void a_heavy_stage_is_work_and_imbalance(void **state)
{
    static const double more[] = { 0.10, 0.25, 1.0 };

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        for (uint32_t k = 0; layouts[i][1] > 1 && k < layouts[i][1] * COUNT(more); k++)
            heavy_stage_is_booked(layouts[i], k / COUNT(more), more[k % COUNT(more)]);
    }
}

static void uneven_lengths_are_imbalance(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench = bench_open(&config);
    static const struct lab_fault none;
    double before, straggler, lost = 0;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 12);
    bench.lab->fault.uneven = 0.15;
    lab_judge_many(bench.lab, &bench.judge, 12);
    before = bucket(&bench, LEDGER_IMBALANCE);
    straggler = bucket(&bench, LEDGER_STRAGGLER_WAIT);
    for (int step = 0; step < STEPS; step++) {
        lab_judge(bench.lab, &bench.judge);
        lost += (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9 * 8;
    }
    sum_is_complete(&bench);
    near(bucket(&bench, LEDGER_IMBALANCE) - before, lost, 0.2); /* even work is not the mean step */
    assert_true(bucket(&bench, LEDGER_STRAGGLER_WAIT) - straggler < 0.15 * lost);
    bench_close(&bench);
}

static void input_and_checkpoint_have_their_buckets(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    double input, saved;

    (void)state;
    config.data_ns = 5 * MS;
    lab_judge_many(bench.lab, &bench.judge, 12);
    bench.lab->config.data_ns = 20 * MS; /* a slow store: for all alike */
    input = bucket(&bench, LEDGER_INPUT);
    lab_judge_many(bench.lab, &bench.judge, 20);
    near(bucket(&bench, LEDGER_INPUT) - input, 4 * 20 * 0.020, 0.05);
    bench.lab->config.data_ns = lab_plain.data_ns;
    saved = bucket(&bench, LEDGER_CHECKPOINT);
    bench.lab->fault.checkpoint_ns = 80 * MS;
    lab_judge_many(bench.lab, &bench.judge, 3);
    bench.lab->fault.checkpoint_ns = 0;
    lab_judge_many(bench.lab, &bench.judge, 3);
    near(bucket(&bench, LEDGER_CHECKPOINT) - saved, 4 * 3 * 0.080, 0.05);
    sum_is_complete(&bench);
    bench_close(&bench);
}

/* Also in pipelines, where the late rank has a bubble as well. */
static void one_ranks_late_input_is_booked_once(void **state)
{
    static const struct lab_fault none;

    (void)state;
    for (size_t i = 0; i < COUNT(layouts); i++) {
        struct lab_config config = layout(layouts[i][0], layouts[i][1], layouts[i][2]);
        struct bench bench = bench_open(&config);
        double begin[LEDGER_BUCKETS], middle[LEDGER_BUCKETS], end[LEDGER_BUCKETS], lost = 0, found;

        lab_judge_many(bench.lab, &bench.judge, 12);
        buckets_read(&bench, begin);
        lab_judge_many(bench.lab, &bench.judge, STEPS);
        buckets_read(&bench, middle);
        bench.lab->fault.sleep_phase = LOCKSTEP_PHASE_DATA;
        bench.lab->fault.sleep_ns[1] = 15 * MS;
        for (int step = 0; step < STEPS; step++) {
            lab_judge(bench.lab, &bench.judge);
            lost += (double)(bench.lab->measured_ns - lab_without(bench.lab, &none)) / 1e9;
        }
        buckets_read(&bench, end);
        found = end[LEDGER_INPUT] - 2 * middle[LEDGER_INPUT] + begin[LEDGER_INPUT] +
                end[LEDGER_STRAGGLER_WAIT] - 2 * middle[LEDGER_STRAGGLER_WAIT] +
                begin[LEDGER_STRAGGLER_WAIT];
        near(found, lost * bench.lab->world, 0.05);
        sum_is_complete(&bench);
        bench_close(&bench);
    }
}

static void a_rollback_is_lost_and_the_pause_is_restart(void **state)
{
    struct lab_config config = layout(1, 2, 2);
    struct bench bench = bench_open(&config);
    double productive;
    int64_t at, now;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 20); /* 0 … 19 */
    productive = bucket(&bench, LEDGER_PRODUCTIVE);
    at = bench.lab->rank[0].begin_ns;
    lab_judge_many(bench.lab, &bench.judge, 10); /* 20 … 29 */
    at = now_of(bench.lab) - bench.lab->config.tail_ns - at - bench.lab->rank[0].duration_ns;
    now = now_of(bench.lab);
    ledger_attempt_end(bench.judge.book, 0, now + 500 * MS, false);
    lab_restart(bench.lab, 20, 3000 * MS);
    judge_state_attempt(&bench.judge, 1, now + 1000 * MS);
    lab_judge(bench.lab, &bench.judge);
    near(bucket(&bench, LEDGER_LOST), 4 * ((double)at / 1e9 + 0.5), 0.12);
    near(bucket(&bench, LEDGER_RESTART), 4 * 2.5, 0.01);
    near(bucket(&bench, LEDGER_PRODUCTIVE), productive * 21 / 20, 0.05);
    judge_state_end(&bench.judge, now_of(bench.lab) + 20 * MS);
    sum_is_complete(&bench);
    bench_close(&bench);
}

static void the_sum_holds_while_clocks_are_found(void **state)
{
    struct lab_config config = layout(1, 1, 8);
    struct bench bench;

    (void)state;
    config.per_node = 2;
    config.noise = 0.01;
    bench = bench_open(&config);
    for (uint32_t node = 1; node < 4; node++)
        bench.lab->fault.skew_ns[node] = (int64_t)node * 3 * MS; /* small: the run began at 0 */
    for (int step = 0; step < 60; step++) {
        lab_judge(bench.lab, &bench.judge);
        if (step == 30)
            bench.lab->fault.skew_ns[2] -= 50 * MS;
        sum_is_complete(&bench);
    }
    bench_close(&bench);
}

static void steps_that_were_not_seen_are_unattributed(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    double before, missed = 0;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 12);
    before = bucket(&bench, LEDGER_UNATTRIBUTED);
    for (int i = 0; i < 5; i++) {
        lab_step(bench.lab);
        missed += 4 * (double)(bench.lab->rank[0].duration_ns + config.tail_ns) / 1e9;
    }
    lab_judge_many(bench.lab, &bench.judge, 5);
    near(bucket(&bench, LEDGER_UNATTRIBUTED) - before, missed, 0.03);
    sum_is_complete(&bench);
    bench_close(&bench);
}

static void what_a_hang_costs_counts_from_its_beginning(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    struct ledger_book *book = bench.judge.book;
    const struct past_step *past;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 12);
    past = history_back(&bench.judge.history, 0);
    /* In the middle of the next step; its end comes late, but before the restart. */
    ledger_hang(book, past->split[0].begin_ns + past->split[0].total_ns * 3 / 2);
    lab_judge(bench.lab, &bench.judge);
    assert_true(bucket(&bench, LEDGER_HANG) > 0.1);
    past = history_back(&bench.judge.history, 0);
    ledger_attempt_end(book, 0, past->split[0].begin_ns + past->split[0].total_ns, false);
    ledger_attempt(book, 1, past->split[0].begin_ns + past->split[0].total_ns);
    near(ledger_crash_seconds(book), bucket(&bench, LEDGER_HANG) + bucket(&bench, LEDGER_LOST),
         1e-6);
    bench_close(&bench);
}

static void what_a_hang_costs_is_no_other_verdicts(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    struct ledger_book *book = bench.judge.book;
    const struct verdict *slow;
    const struct past_step *past;
    double before;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 40);
    bench.lab->fault.stretch[1] = 0.5;
    lab_judge_many(bench.lab, &bench.judge, 20);
    slow = &lab_open(&bench.judge, VERDICT_STRAGGLER, 0)->verdict;
    before = slow->gpu_seconds;
    assert_true(before > 0);
    past = history_back(&bench.judge.history, 0);
    ledger_hang(book, past->split[0].begin_ns + past->split[0].total_ns * 3 / 2);
    ledger_hang_over(book, past->split[0].begin_ns +
                               past->split[0].total_ns * 2); /* before its step was */
    bench.lab->fault.stretch[1] = 300;
    lab_judge(bench.lab, &bench.judge);
    near(slow->gpu_seconds, before, 1e-9);
    bench.lab->fault.stretch[1] = 0.5;
    lab_judge_many(bench.lab, &bench.judge, 5); /* its own cost goes on */
    assert_true(slow->gpu_seconds > before && slow->gpu_seconds < 2 * before);
    bench_close(&bench);
}

/* It stood still for 20 s in the middle of a step, which then went on. */
static void a_hang_that_passes_is_no_work(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);
    struct ledger_book *book = bench.judge.book;
    double before[LEDGER_BUCKETS], other = 0;
    const struct past_step *past;
    int64_t since;

    (void)state;
    lab_judge_many(bench.lab, &bench.judge, 30);
    past = history_back(&bench.judge.history, 0);
    since = past->split[0].begin_ns + past->split[0].total_ns * 3 / 2;
    for (int i = 0; i < LEDGER_BUCKETS; i++)
        before[i] = bucket(&bench, i);
    ledger_hang(book, since);
    ledger_hang_lasts(book, since + 5000 * MS);
    near(bucket(&bench, LEDGER_HANG), 4 * 5.0, 0.01);
    sum_is_complete(&bench);
    ledger_hang_over(book, since + 20000 * MS);
    bench.lab->fault.stretch[1] = 300; /* as if it had been stopped for about 30 s */
    lab_judge(bench.lab, &bench.judge);
    near(bucket(&bench, LEDGER_HANG), 4 * 20.0, 0.01);
    past = history_back(&bench.judge.history, 0);
    for (int i = 0; i < LEDGER_BUCKETS; i++)
        other += bucket(&bench, i) - before[i];
    near(other, 4 * (double)past->split[0].total_ns / 1e9, 0.02);
    sum_is_complete(&bench);
    bench_close(&bench);
}

/* The stopped rank never ends its step: what it stood still is hang, as that of those who waited, however the run ends. */
static void a_hang_that_ends_with_the_run_is_hang(void **state)
{
    (void)state;
    for (int well = 0; well < 2; well++) {
        struct lab_config config = layout(1, 1, 4);
        struct bench bench = bench_open(&config);
        struct ledger_book *book = bench.judge.book;
        const struct past_step *past;
        int64_t end;

        lab_judge_many(bench.lab, &bench.judge, 12);
        past = history_back(&bench.judge.history, 0);
        end = past->split[0].begin_ns + past->split[0].total_ns;
        ledger_hang(book, end + 50 * MS);
        ledger_attempt_end(book, 0, end + 60000 * MS, well);
        ledger_end(book, end + 60000 * MS);
        near(bucket(&bench, LEDGER_HANG), 4 * 59.95, 0.01);
        assert_true(bucket(&bench, LEDGER_LOST) < 1);
        assert_true(bucket(&bench, LEDGER_UNATTRIBUTED) < 1);
        sum_is_complete(&bench);
        bench_close(&bench);
    }
}

static void an_attempt_before_any_run_breaks_nothing(void **state)
{
    struct ledger_book *book;
    struct ledger ledger;

    (void)state;
    assert_int_equal(ledger_book_create(&book), 0);
    ledger_attempt(book, 3, 5 * MS);
    ledger_attempt_end(book, 3, 6 * MS, false);
    ledger_end(book, 7 * MS);
    ledger_read(book, &ledger);
    assert_int_equal(ledger.ranks, 0);
    ledger_book_destroy(book);
}

/* Eight ranks, ten places: two are spare for four seconds, then both are down for six. */
static void places_beyond_the_ranks_are_spare_or_down(void **state)
{
    struct places places = { .mono_ns = 0, .allocated = 10, .spare = 2 };
    struct ledger_book *book;
    struct ledger ledger;
    size_t bytes;

    (void)state;
    assert_int_equal(ledger_book_create(&book), 0);
    ledger_run(book, 8, 0);
    bytes = ledger_book_bytes(book);
    ledger_places(book, &places);
    places = (struct places){ .mono_ns = 4000 * MS, .allocated = 10, .down = 2 };
    ledger_places(book, &places);
    ledger_end(book, 10000 * MS);
    ledger_read(book, &ledger);
    near(ledger.gpu_seconds[LEDGER_SPARE], 8, 1e-9);
    near(ledger.gpu_seconds[LEDGER_DOWN], 12, 1e-9);
    near(ledger_total(&ledger), 100, 1e-9); /* places x seconds */
    assert_int_equal(ledger.ranks, 8);
    assert_int_equal(ledger_book_bytes(book), bytes); /* no account for each of them */
    ledger_book_destroy(book);
}

/* The job goes on with six of its eight ranks: the other two have accounts, and are down, not spare. */
static void ranks_whose_places_are_down_are_not_spare(void **state)
{
    const struct places places = { .mono_ns = 4000 * MS, .allocated = 8, .down = 2 };
    struct ledger_book *book;
    struct ledger ledger;

    (void)state;
    assert_int_equal(ledger_book_create(&book), 0);
    ledger_run(book, 8, 0);
    ledger_workers_restarted(book, 6, 4000 * MS);
    ledger_places(book, &places);
    ledger_end(book, 10000 * MS);
    ledger_read(book, &ledger);
    near(ledger.gpu_seconds[LEDGER_DOWN], 12, 1e-9);
    assert_true(ledger.gpu_seconds[LEDGER_SPARE] == 0);
    near(ledger_total(&ledger), 80, 1e-9);
    ledger_book_destroy(book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_run_leaves_next_to_nothing_unattributed),
        cmocka_unit_test(a_stretch_is_straggler_wait),
        cmocka_unit_test(a_host_sleep_is_straggler_wait),
        cmocka_unit_test(a_heavy_stage_is_work_and_imbalance),
        cmocka_unit_test(uneven_lengths_are_imbalance),
        cmocka_unit_test(input_and_checkpoint_have_their_buckets),
        cmocka_unit_test(one_ranks_late_input_is_booked_once),
        cmocka_unit_test(a_rollback_is_lost_and_the_pause_is_restart),
        cmocka_unit_test(the_sum_holds_while_clocks_are_found),
        cmocka_unit_test(steps_that_were_not_seen_are_unattributed),
        cmocka_unit_test(what_a_hang_costs_counts_from_its_beginning),
        cmocka_unit_test(what_a_hang_costs_is_no_other_verdicts),
        cmocka_unit_test(a_hang_that_passes_is_no_work),
        cmocka_unit_test(a_hang_that_ends_with_the_run_is_hang),
        cmocka_unit_test(an_attempt_before_any_run_breaks_nothing),
        cmocka_unit_test(places_beyond_the_ranks_are_spare_or_down),
        cmocka_unit_test(ranks_whose_places_are_down_are_not_spare),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
