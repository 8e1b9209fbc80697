/* test-crash.c - who died first. */
#include "judge/test/bench.h"

#include <signal.h>
#include <stdio.h>

#include "judge/crash.h"
#include "judge/hang.h"

#define MS INT64_C(1000000)

static void ends(struct bench *bench, uint32_t rank, int64_t ms, int status, bool told)
{
    struct fact_exit fact = { .rank = rank,
                              .attempt = bench->lab->attempt,
                              .mono_ns = ms * MS,
                              .status = status,
                              .told = told };

    snprintf(fact.text, sizeof(fact.text), status & 127 ? "killed by signal %d" : "exited with %d",
             status & 127 ? status & 127 : status >> 8);
    crash_exit(&bench->court, &fact);
}

static struct bench four(void)
{
    struct lab_config config = layout(1, 1, 4);
    struct bench bench = bench_open(&config);

    lab_judge_many(bench.lab, &bench.court, 10);
    return bench;
}

static const struct verdict *crash_of(const struct bench *bench)
{
    const struct entry *entry = lab_open(&bench->court, VERDICT_CRASH, 0);

    assert_int_equal(lab_open_count(&bench->court, VERDICT_CRASH), 1);
    return &entry->verdict;
}

static void the_first_to_die_is_named_and_the_others_are_echoes(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 0, 5200, 1 << 8, false);
    ends(&bench, 2, 5000, SIGKILL, false);
    ends(&bench, 3, 5201, 1 << 8, false);
    ends(&bench, 1, 5300, SIGTERM, true);
    crash_judge(&bench.court, 5500 * MS, false);
    assert_int_equal(bench.court.docket.count, 0); /* more may come */
    crash_judge(&bench.court, 6100 * MS, false);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    assert_int_equal(crash_of(&bench)->rank_count, 1);
    assert_int_equal(crash_of(&bench)->echo_count, 2);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    assert_int_equal(crash_of(&bench)->since_step, 10);
    bench_close(&bench);
}

static void of_two_at_once_the_killed_one_is_named(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 0, 5000, 1 << 8, false);
    ends(&bench, 1, 5010, SIGSEGV, false);
    crash_judge(&bench.court, 5100 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 1);
    assert_int_equal(crash_of(&bench)->layer, LAYER_USER_CODE);
    bench_close(&bench);
}

static void exits_that_were_told_or_went_well_are_no_crash(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 0, 5000, SIGTERM, true);
    ends(&bench, 1, 5000, 0, false);
    ends(&bench, 2, 5000, 0, false);
    crash_judge(&bench.court, 9000 * MS, true);
    assert_int_equal(bench.court.docket.count, 0);
    bench_close(&bench);
}

static void says(struct bench *bench, uint32_t rank, int64_t ms, int status, const char *words)
{
    struct fact_exit fact = {
        .rank = rank, .attempt = bench->lab->attempt, .mono_ns = ms * MS, .status = status
    };

    snprintf(fact.text, sizeof(fact.text), "exited with 1");
    snprintf(fact.words, sizeof(fact.words), "%s", words);
    crash_exit(&bench->court, &fact);
}

static void one_that_complains_about_a_peer_is_an_echo_even_when_it_was_first(void **state)
{
    struct bench bench = four();

    (void)state;
    says(&bench, 0, 5000, 1 << 8, "RuntimeError: Connection closed by peer [127.0.0.1]:4711");
    says(&bench, 2, 5700, 1 << 8,
         "Traceback (most recent call last):\n  File \"t.py\", line 3\nValueError: bad sample\n");
    crash_judge(&bench.court, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    assert_string_equal(crash_of(&bench)->cause, "exited with 1: ValueError: bad sample");
    assert_int_equal(crash_of(&bench)->echo_count, 1);
    bench_close(&bench);
}

static void where_all_complain_the_first_is_named(void **state)
{
    struct bench bench = four();

    (void)state;
    says(&bench, 1, 5000, 1 << 8, "lost rank 2 in all-reduce 7");
    says(&bench, 2, 5700, 1 << 8, "lost rank 1 in all-reduce 7");
    crash_judge(&bench.court, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 1);
    bench_close(&bench);
}

static void one_that_dumps_its_core_is_named_though_it_ends_last(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 0, 5000, 1 << 8, false);
    ends(&bench, 3, 6500, SIGSEGV, true); /* told to end while it was dying */
    crash_judge(&bench.court, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 3);
    assert_int_equal(crash_of(&bench)->layer, LAYER_USER_CODE);
    bench_close(&bench);
}

static void a_kill_by_the_kernel_for_memory_is_told_as_such(void **state)
{
    struct bench bench = four();
    struct fact_beat beat = { .rank = 1, .state = 'X', .final = true, .oom_kills = 1 };

    (void)state;
    assert_int_equal(hang_beat(&bench.court, &beat), 0);
    ends(&bench, 1, 5000, SIGKILL, false);
    crash_judge(&bench.court, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->layer, LAYER_HOST_MEMORY);
    assert_non_null(strstr(crash_of(&bench)->cause, "out of memory"));
    bench_close(&bench);
}

static void a_kill_for_memory_that_is_told_late_is_told(void **state)
{
    struct bench bench = four();
    struct fact_beat beat = { .rank = 1, .state = 'X', .final = true, .oom_kills = 1 };
    struct fact_beat other = { .rank = 2, .state = 'X', .final = true, .oom_kills = 1 };

    (void)state;
    ends(&bench, 1, 5000, SIGKILL, false);
    crash_judge(&bench.court, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    crash_beat(&bench.court, &other); /* somebody else */
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    court_attempt(&bench.court, 1, 9500 * MS);
    crash_beat(&bench.court, &beat); /* of the attempt before */
    assert_int_equal(crash_of(&bench)->layer, LAYER_HOST_MEMORY);
    assert_non_null(strstr(crash_of(&bench)->cause, "out of memory"));
    crash_beat(&bench.court, &beat); /* once is enough */
    assert_int_equal(crash_of(&bench)->because_count, 2);
    bench_close(&bench);
}

static void a_signal_that_the_kernel_does_not_send_for_memory_stays(void **state)
{
    struct bench bench = four();
    struct fact_beat beat = { .rank = 1, .state = 'X', .final = true, .oom_kills = 1 };

    (void)state;
    ends(&bench, 1, 5000, SIGUSR1, false);
    crash_judge(&bench.court, 9000 * MS, true);
    crash_beat(&bench.court, &beat);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    bench_close(&bench);
}

static void its_own_note_is_evidence_and_an_old_one_is_not(void **state)
{
    struct bench bench = four();
    struct fact_note note = { .rank = 1, .mono_ns = 4900 * MS, .text = "uncaught KeyError: 'x'" };
    struct fact_note old = { .rank = 1, .mono_ns = -9000 * MS, .text = "restored from step 3" };
    const struct verdict *verdict;

    (void)state;
    crash_note(&bench.court, &old);
    crash_note(&bench.court, &note);
    ends(&bench, 1, 5000, 1 << 8, false);
    crash_judge(&bench.court, 9000 * MS, true);
    verdict = crash_of(&bench);
    assert_int_equal(verdict->because_count, 2);
    assert_non_null(strstr(verdict->because[1].what, "KeyError"));
    bench_close(&bench);
}

static void the_first_is_found_among_more_than_fit(void **state)
{
    struct bench bench = four();

    (void)state;
    for (uint32_t rank = 0; rank < 1000; rank++)
        ends(&bench, rank, 9000 - rank, 1 << 8, false);
    crash_judge(&bench.court, 9100 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 999);
    bench_close(&bench);
}

static void restart(struct bench *bench, uint64_t step)
{
    int64_t now = bench->lab->rank[0].begin_ns + bench->lab->rank[0].duration_ns;

    ledger_attempt_end(bench->court.book, bench->lab->attempt, now, false);
    lab_restart(bench->lab, step, 2000 * MS);
    court_attempt(&bench->court, bench->lab->attempt, now + 1000 * MS);
}

static void a_restart_closes_it_with_its_cost(void **state)
{
    struct bench bench = four();
    const struct verdict *verdict = NULL;
    double lost = 0;

    (void)state;
    ends(&bench, 1, 3000, SIGKILL, false);
    crash_judge(&bench.court, 4000 * MS, true);
    verdict = crash_of(&bench);
    for (int i = 0; i < 4; i++)
        lost += 4 * (double)(bench.lab->rank[0].duration_ns + bench.lab->config.tail_ns) / 1e9;
    assert_string_equal(verdict->plan, "");
    restart(&bench, 6); /* steps 6 to 9 are lost */
    assert_string_equal(verdict->plan_state, "acting");
    lab_judge_many(bench.lab, &bench.court, 2);
    assert_string_equal(verdict->plan_state, "done");
    assert_non_null(strstr(verdict->plan, "as attempt 1, training since step 6"));
    assert_int_equal(lab_open_count(&bench.court, 0), 0);
    assert_true(verdict->until_real_ns > 0);
    assert_true(verdict->gpu_seconds > 0.95 * (lost + 4 * 2));
    assert_true(verdict->gpu_seconds < 1.05 * (lost + 4 * 2));
    bench_close(&bench);
}

/* A job of months has more faults than the docket has places, one after the other. */
static void old_verdicts_make_room_for_new_ones(void **state)
{
    struct bench bench = four();

    (void)state;
    for (uint32_t i = 0; i < DOCKET_MAX + 20; i++) {
        int64_t now = bench.lab->rank[0].begin_ns + bench.lab->rank[0].duration_ns;

        ends(&bench, i % 4, now / MS, SIGKILL, false);
        crash_judge(&bench.court, now, true);
        assert_int_equal(crash_of(&bench)->rank[0], i % 4);
        restart(&bench, 11 + i);
        lab_judge_many(bench.lab, &bench.court, 1);
        assert_int_equal(lab_open_count(&bench.court, VERDICT_CRASH), 0);
        for (uint32_t at = 0; at < bench.court.docket.count; at++)
            bench.court.docket.entry[at]->changed = false; /* said */
    }
    assert_int_equal(bench.court.docket.count, DOCKET_MAX);
    assert_int_equal(bench.court.docket.refused, 0);
    bench_close(&bench);
}

static void late_steps_of_the_attempt_that_crashed_do_not_close_it(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 1, 3000, SIGKILL, false);
    crash_judge(&bench.court, 4000 * MS, true);
    restart(&bench, 8);
    lab_judge_many(bench.lab, &bench.court, 5);
    assert_int_equal(lab_open_count(&bench.court, 0), 0);
    ends(&bench, 1, 9000, SIGKILL, false);
    crash_judge(&bench.court, 9900 * MS, true);
    lab_judge_many(bench.lab, &bench.court, 2);
    assert_int_equal(lab_open_count(&bench.court, 0), 1);
    restart(&bench, 10);
    lab_judge_many(bench.lab, &bench.court, 2);
    assert_int_equal(lab_open_count(&bench.court, 0), 0);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_to_die_is_named_and_the_others_are_echoes),
        cmocka_unit_test(of_two_at_once_the_killed_one_is_named),
        cmocka_unit_test(exits_that_were_told_or_went_well_are_no_crash),
        cmocka_unit_test(the_first_is_found_among_more_than_fit),
        cmocka_unit_test(one_that_complains_about_a_peer_is_an_echo_even_when_it_was_first),
        cmocka_unit_test(where_all_complain_the_first_is_named),
        cmocka_unit_test(one_that_dumps_its_core_is_named_though_it_ends_last),
        cmocka_unit_test(a_kill_by_the_kernel_for_memory_is_told_as_such),
        cmocka_unit_test(a_kill_for_memory_that_is_told_late_is_told),
        cmocka_unit_test(a_signal_that_the_kernel_does_not_send_for_memory_stays),
        cmocka_unit_test(its_own_note_is_evidence_and_an_old_one_is_not),
        cmocka_unit_test(a_restart_closes_it_with_its_cost),
        cmocka_unit_test(old_verdicts_make_room_for_new_ones),
        cmocka_unit_test(late_steps_of_the_attempt_that_crashed_do_not_close_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
