/* test-crash.c - who died first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/crash_scene.h"

static void ends(struct bench *bench, uint32_t rank, int64_t ms, int status, bool ended_by_launcher)
{
    struct fact_exit fact = { .rank = rank,
                              .attempt = bench->lab->attempt,
                              .mono_ns = ms * MS,
                              .status = status,
                              .ended_by_launcher = ended_by_launcher };

    snprintf(fact.text, sizeof(fact.text), status & 127 ? "killed by signal %d" : "exited with %d",
             status & 127 ? status & 127 : status >> 8);
    crash_exit(&bench->judge, &fact);
}

static void the_first_to_die_is_named_and_the_others_are_echoes(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 0, 5200, 1 << 8, false);
    ends(&bench, 2, 5000, SIGKILL, false);
    ends(&bench, 3, 5201, 1 << 8, false);
    ends(&bench, 1, 5300, SIGTERM, true);
    crash_judge(&bench.judge, 5500 * MS, false);
    assert_int_equal(bench.judge.verdicts.count, 0); /* more may come */
    crash_judge(&bench.judge, 6100 * MS, false);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    assert_int_equal(crash_of(&bench)->rank_count, 1);
    assert_int_equal(crash_of(&bench)->echo_count, 2);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    assert_int_equal(crash_of(&bench)->since_step, 10);
    bench_close(&bench);
}

static bool says(const struct verdict *verdict, const char *what)
{
    for (uint32_t i = 0; i < verdict->because_count; i++) {
        if (strstr(verdict->because[i].what, what))
            return true;
    }
    return false;
}

static void a_crash_names_the_checkpoint_that_all_ranks_verified(void **state)
{
    struct bench bench = four();

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        raises(&bench, rank, 1000, "checkpoint of step 6 is verified, saved in step 6");
    raises(&bench, 1, 2000,
           "checkpoint of step 8 is verified, saved in step 8"); /* not the others */
    ends(&bench, 2, 5000, SIGKILL, false);
    crash_judge(&bench.judge, 5100 * MS, true);
    assert_true(says(crash_of(&bench), "continue from the checkpoint of step 6, which all ranks "
                                       "have verified; 3 complete steps after it are lost"));
    assert_false(says(crash_of(&bench), "noted before it ended"));
    bench_close(&bench);
}

static void a_checkpoint_that_one_rank_verified_is_no_point_to_continue_from(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 1, 2000, "checkpoint of step 8 is verified, saved in step 8");
    raises(&bench, 0, 2000, "checkpoint of step 9 is verified, saved in step 9 or so");
    ends(&bench, 2, 5000, SIGKILL, false);
    crash_judge(&bench.judge, 5100 * MS, true);
    assert_true(
        says(crash_of(&bench), "no checkpoint is verified by all ranks: that of step 8 by 1 of 4"));
    bench_close(&bench);
}

/* No process has the probe: not even the number of ranks is known. */
static void a_checkpoint_that_nobody_reported_is_not_offered(void **state)
{
    struct bench bench = four();
    uint32_t world = bench.judge.model.world;

    (void)state;
    bench.judge.model.world = 0;
    ends(&bench, 0, 3000, SIGKILL, false);
    crash_judge(&bench.judge, 4000 * MS, true);
    assert_false(says(crash_of(&bench), "checkpoint"));
    bench.judge.model.world = world;
    bench_close(&bench);
}

static void a_checkpoint_of_ranks_at_different_steps_is_corrupt(void **state)
{
    struct bench bench = four();
    const struct verdict *verdict;

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        raises(&bench, rank, 1000, "checkpoint of step 6 is verified, saved in step 6");
    assert_int_equal(bench.judge.verdicts.count, 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        raises(&bench, rank, 2000,
               rank == 1 ? "checkpoint of step 8 is verified, saved in step 7"
                         : "checkpoint of step 8 is verified, saved in step 8");
        assert_int_equal(bench.judge.verdicts.count, 0); /* the last rank may decide it */
    }
    raises(&bench, 3, 2000, "checkpoint of step 8 is verified, saved in step 8");
    assert_int_equal(bench.judge.verdicts.count, 1);
    verdict = &lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict;
    assert_int_equal(verdict->layer, LAYER_CHECKPOINT);
    assert_int_equal(verdict->rank_count, 1);
    assert_int_equal(verdict->rank[0], 1);
    assert_int_equal(verdict->since_step, 7);
    assert_true(
        says(verdict, "checkpoint of step 8: 3 of 4 ranks saved it in step 8, rank 1 in step 7"));
    ends(&bench, 2, 5000, SIGKILL, false); /* and nobody is sent there */
    crash_judge(&bench.judge, 5100 * MS, true);
    assert_true(says(crash_of(&bench), "continue from the checkpoint of step 6"));
    bench_close(&bench);
}

static void the_first_rank_is_named_if_it_is_the_odd_one(void **state)
{
    struct bench bench = four();

    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++)
        raises(&bench, rank, 2000,
               rank == 0 ? "checkpoint of step 8 is verified, saved in step 9"
                         : "checkpoint of step 8 is verified, saved in step 8");
    assert_int_equal(lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict.rank_count, 1);
    assert_int_equal(lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict.rank[0], 0);
    bench_close(&bench);
}

/* Notes of ranks come in any order. */
static void the_order_of_notes_does_not_change_the_verdict(void **state)
{
    static const uint32_t order[][4] = { { 0, 1, 2, 3 }, { 3, 2, 1, 0 }, { 1, 3, 0, 2 } };
    char first[sizeof(((struct verdict *)0)->id)] = "";

    (void)state;
    for (size_t i = 0; i < COUNT(order); i++) {
        struct bench bench = four();
        const struct verdict *verdict;

        for (size_t k = 0; k < 4; k++)
            raises(&bench, order[i][k], 2000,
                   order[i][k] % 2 ? "checkpoint of step 8 is verified, saved in step 7"
                                   : "checkpoint of step 8 is verified, saved in step 8");
        verdict = &lab_open(&bench.judge, VERDICT_CORRUPTION, 0)->verdict;
        assert_int_equal(verdict->rank_count, 4);
        for (uint32_t rank = 0; rank < 4; rank++)
            assert_int_equal(verdict->rank[rank], rank);
        assert_true(says(
            verdict, "checkpoint of step 8: 2 of 4 ranks saved it in step 8, rank 1 in step 7"));
        if (i == 0)
            snprintf(first, sizeof(first), "%s", verdict->id);
        assert_string_equal(verdict->id, first);
        bench_close(&bench);
    }
}

static void workers_that_begin_again_save_the_same_checkpoint_in_another_step(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 0, 1000, "checkpoint of step 8 is verified, saved in step 8");
    judge_state_workers_restarted(&bench.judge, 4, 1500 * MS);
    for (uint32_t rank = 0; rank < 4; rank++)
        raises(&bench, rank, 2000, "checkpoint of step 8 is verified, saved in step 10");
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CORRUPTION), 0);
    for (uint32_t rank = 0; rank < 4; rank++) /* the same again, after all had it */
        raises(&bench, rank, 3000, "checkpoint of step 8 is verified, saved in step 12");
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CORRUPTION), 0);
    bench_close(&bench);
}

static void of_two_at_once_the_killed_one_is_named(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 0, 5000, 1 << 8, false);
    ends(&bench, 1, 5010, SIGSEGV, false);
    crash_judge(&bench.judge, 5100 * MS, true);
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
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
}

static void ends_with_words(struct bench *bench, uint32_t rank, int64_t ms, int status,
                            const char *words)
{
    struct fact_exit fact = {
        .rank = rank, .attempt = bench->lab->attempt, .mono_ns = ms * MS, .status = status
    };

    snprintf(fact.text, sizeof(fact.text), "exited with 1");
    snprintf(fact.words, sizeof(fact.words), "%s", words);
    crash_exit(&bench->judge, &fact);
}

static void one_that_complains_about_a_peer_is_an_echo_even_when_it_was_first(void **state)
{
    struct bench bench = four();

    (void)state;
    ends_with_words(&bench, 0, 5000, 1 << 8,
                    "RuntimeError: Connection closed by peer [127.0.0.1]:4711");
    ends_with_words(
        &bench, 2, 5700, 1 << 8,
        "Traceback (most recent call last):\n  File \"t.py\", line 3\nValueError: bad sample\n");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    assert_string_equal(crash_of(&bench)->cause, "exited with 1: ValueError: bad sample");
    assert_int_equal(crash_of(&bench)->echo_count, 1);
    bench_close(&bench);
}

static void the_rank_before_each_line_of_a_traceback_is_left_out(void **state)
{
    struct bench bench = four();

    (void)state;
    ends_with_words(
        &bench, 2, 5700, 1 << 8,
        "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"t.py\", line 3\n"
        "[rank2]: ValueError: bad sample\n[rank2]:     raise another Error\n[rank]: no more\n");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_string_equal(crash_of(&bench)->cause, "exited with 1: ValueError: bad sample");
    bench_close(&bench);
}

static void where_all_complain_the_first_is_named(void **state)
{
    struct bench bench = four();

    (void)state;
    ends_with_words(&bench, 1, 5000, 1 << 8, "lost rank 2 in all-reduce 7");
    ends_with_words(&bench, 2, 5700, 1 << 8, "lost rank 1 in all-reduce 7");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 1);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN); /* and nobody knows of what */
    assert_true(crash_of(&bench)->confidence < 0.5);
    assert_int_equal(crash_of(&bench)->ruled_out_count, 0);
    bench_close(&bench);
}

static void one_that_dumps_its_core_is_named_though_it_ends_last(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 0, 5000, 1 << 8, false);
    ends(&bench, 3, 6500, SIGSEGV, true); /* told to end while it was dying */
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 3);
    assert_int_equal(crash_of(&bench)->layer, LAYER_USER_CODE);
    bench_close(&bench);
}

static void a_kill_by_the_kernel_for_memory_is_told_as_such(void **state)
{
    struct bench bench = four();
    struct fact_beat beat = { .rank = 1, .state = 'X', .final = true, .oom_kills = 1 };

    (void)state;
    assert_int_equal(hang_beat(&bench.judge, &beat), 0);
    ends(&bench, 1, 5000, SIGKILL, false);
    crash_judge(&bench.judge, 9000 * MS, true);
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
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    crash_beat(&bench.judge, &other); /* somebody else */
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    judge_state_attempt(&bench.judge, 1, 9500 * MS);
    crash_beat(&bench.judge, &beat); /* of the attempt before */
    assert_int_equal(crash_of(&bench)->layer, LAYER_HOST_MEMORY);
    assert_non_null(strstr(crash_of(&bench)->cause, "out of memory"));
    crash_beat(&bench.judge, &beat); /* once is enough */
    assert_int_equal(crash_of(&bench)->because_count, 2);
    bench_close(&bench);
}

static void a_signal_that_the_kernel_does_not_send_for_memory_stays(void **state)
{
    struct bench bench = four();
    struct fact_beat beat = { .rank = 1, .state = 'X', .final = true, .oom_kills = 1 };

    (void)state;
    ends(&bench, 1, 5000, SIGUSR1, false);
    crash_judge(&bench.judge, 9000 * MS, true);
    crash_beat(&bench.judge, &beat);
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
    crash_note(&bench.judge, &old);
    crash_note(&bench.judge, &note);
    ends(&bench, 1, 5000, 1 << 8, false);
    crash_judge(&bench.judge, 9000 * MS, true);
    verdict = crash_of(&bench);
    assert_int_equal(verdict->because_count, 2);
    assert_non_null(strstr(verdict->because[1].what, "KeyError"));
    bench_close(&bench);
}

static void echoes(struct bench *bench)
{
    raises(bench, 0, 4950, "uncaught " CLOSED " at train.py:7");
    ends_with_words(bench, 0, 5000, 1 << 8, CLOSED);
}

static void ends_by_launcher_with(struct bench *bench, uint32_t rank, int64_t ms, int status,
                                  const char *words)
{
    struct fact_exit fact = {
        .rank = rank, .mono_ns = ms * MS, .status = status, .ended_by_launcher = true
    };

    snprintf(fact.text, sizeof(fact.text), status & 127 ? "killed by signal 15" : "exited with 1");
    snprintf(fact.words, sizeof(fact.words), "%s", words);
    crash_exit(&bench->judge, &fact);
}

/* The launchers of several nodes are told to stop one after the other. */
static void ranks_that_lose_one_that_was_told_to_end_have_not_crashed(void **state)
{
    struct bench bench = four();

    (void)state;
    ends_by_launcher_with(&bench, 3, 4998, 143 << 8, "");
    ends_with_words(&bench, 1, 5000, 1 << 8, "lost rank 3 in all-reduce 7");
    ends_with_words(&bench, 2, 5004, 1 << 8, "lost rank 1 in all-reduce 7");
    ends_by_launcher_with(&bench, 0, 5010, 143 << 8, "");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(bench.judge.verdicts.count, 0);
    bench_close(&bench);
    bench = four();
    ends_with_words(&bench, 1, 5000, 1 << 8, "lost rank 3 in all-reduce 7");
    ends_by_launcher_with(&bench, 3, 5003, 143 << 8, "");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 1); /* whoever ended it, did so because of that */
    bench_close(&bench);
}

static void one_that_raised_and_was_told_to_end_meanwhile_is_named(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 2, 4800, "uncaught ValueError: bad sample at train.py:3");
    echoes(&bench);
    ends_by_launcher_with(&bench, 2, 5300, 1 << 8, "ValueError: bad sample");
    ends_by_launcher_with(&bench, 1, 5310, SIGTERM, "");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    assert_int_equal(crash_of(&bench)->rank_count, 1);
    assert_int_equal(crash_of(&bench)->layer, LAYER_USER_CODE);
    assert_string_equal(crash_of(&bench)->cause, "exited with 1: ValueError: bad sample");
    assert_int_equal(crash_of(&bench)->echo_count, 1);
    assert_non_null(strstr(crash_of(&bench)->echo[0].what, "rank 0"));
    bench_close(&bench);
}

static void one_that_raised_and_was_ended_by_a_signal_is_named_by_its_exception(void **state)
{
    struct bench bench = four();

    (void)state;
    echoes(&bench);
    ends_by_launcher_with(&bench, 2, 5300, SIGTERM, "");
    raises(&bench, 2, 4800, "uncaught ValueError: bad sample at train.py:3"); /* told last of all */
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    assert_string_equal(crash_of(&bench)->cause,
                        "ended by an exception: ValueError: bad sample at train.py:3");
    assert_int_equal(crash_of(&bench)->since_real_ns, 4800 * MS);
    bench_close(&bench);
}

static void the_first_of_two_that_raised_is_named(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 3, 4900, "uncaught KeyError: 'b' at train.py:9");
    raises(&bench, 2, 4800, "uncaught KeyError: 'a' at train.py:9");
    echoes(&bench);
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    bench_close(&bench);
}

static void one_that_raised_later_or_blames_others_is_not(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 1, 4700, "uncaught " CLOSED " at train.py:7");
    raises(&bench, 2, 5100, "uncaught ValueError: bad sample at train.py:3");
    raises(&bench, 3, 4800, "restored from step 3");
    echoes(&bench);
    ends_by_launcher_with(&bench, 2, 5300, 1 << 8, "ValueError: bad sample");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 0);
    bench_close(&bench);
}

static void one_whose_own_words_blame_nobody_stays_the_culprit(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 2, 4800, "uncaught ValueError: bad sample at train.py:3");
    ends_with_words(&bench, 0, 5000, 1 << 8, "MemoryError");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 0);
    bench_close(&bench);
}

static void an_exception_in_a_thread_counts_only_near_the_end_of_its_process(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 2, 4800, "in thread loader: uncaught OSError: no such file at data.py:3");
    echoes(&bench);
    crash_judge(&bench.judge, 5900 * MS, false); /* its process has not ended */
    assert_int_equal(bench.judge.verdicts.count, 0);
    ends_by_launcher_with(&bench, 2, 5300, 1 << 8, "OSError: no such file");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 2);
    assert_string_equal(crash_of(&bench)->cause, "exited with 1: OSError: no such file");
    bench_close(&bench);

    bench = four();
    raises(&bench, 2, -60000, "in thread logger: uncaught OSError: the log is gone at log.py:3");
    echoes(&bench);
    ends_by_launcher_with(&bench, 2, 5300, SIGTERM, "");
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 0);
    bench_close(&bench);
}

/* Its node was started an hour after the launcher's: by its own clock it raised an hour ago. */
static void notes_of_other_nodes_are_put_on_the_clock_of_the_run(void **state)
{
    const int64_t hour = 3600 * 1000 * MS;

    (void)state;
    for (int aligned = 0; aligned < 2; aligned++) {
        for (int64_t raised_ms = 4800; raised_ms <= 5200; raised_ms += 400) {
            struct lab_config config = layout(1, 1, 4);
            struct bench bench;
            struct model_node *node;

            config.per_node = 2;
            bench = bench_open(&config);
            node = bench.judge.model.node;
            if (aligned) {
                node[1].offset_ns = hour;
                node[1].aligned = true;
            } else {
                node[0].real_ns = hour;
                node[1].real_ns = 2 * hour;
            }
            raises(&bench, 2, raised_ms - hour / MS, "uncaught ValueError: bad sample at t.py:3");
            echoes(&bench);
            crash_judge(&bench.judge, 9000 * MS, true);
            assert_int_equal(crash_of(&bench)->rank[0], raised_ms < 5000 ? 2 : 0);
            bench_close(&bench);
        }
    }
}

static void what_one_attempt_raised_says_nothing_about_the_next(void **state)
{
    struct bench bench = four();

    (void)state;
    raises(&bench, 2, 1000, "uncaught ValueError: bad sample at train.py:3");
    judge_state_attempt(&bench.judge, 1, 2000 * MS);
    bench.lab->attempt = 1;
    echoes(&bench);
    crash_judge(&bench.judge, 9000 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 0);
    bench_close(&bench);
}

static void the_first_is_found_among_more_than_fit(void **state)
{
    struct bench bench = four();

    (void)state;
    for (uint32_t rank = 0; rank < 1000; rank++)
        ends(&bench, rank, 9000 - rank, 1 << 8, false);
    crash_judge(&bench.judge, 9100 * MS, true);
    assert_int_equal(crash_of(&bench)->rank[0], 999);
    bench_close(&bench);
}

static void restart(struct bench *bench, uint64_t step)
{
    int64_t now = bench->lab->rank[0].begin_ns + bench->lab->rank[0].duration_ns;

    ledger_attempt_end(bench->judge.book, bench->lab->attempt, now, false);
    lab_restart(bench->lab, step, 2000 * MS);
    judge_state_attempt(&bench->judge, bench->lab->attempt, now + 1000 * MS);
}

static void a_restart_closes_it_with_its_cost(void **state)
{
    struct bench bench = four();
    const struct verdict *verdict = NULL;
    double lost = 0;

    (void)state;
    ends(&bench, 1, 3000, SIGKILL, false);
    crash_judge(&bench.judge, 4000 * MS, true);
    verdict = crash_of(&bench);
    for (int i = 0; i < 4; i++)
        lost += 4 * (double)(bench.lab->rank[0].duration_ns + bench.lab->config.tail_ns) / 1e9;
    assert_string_equal(verdict->plan, "");
    restart(&bench, 6); /* steps 6 to 9 are lost */
    assert_string_equal(verdict->plan_state, "acting");
    lab_judge_many(bench.lab, &bench.judge, 2);
    assert_string_equal(verdict->plan_state, "done");
    assert_non_null(strstr(verdict->plan, "as attempt 1, training since step 6"));
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    assert_true(verdict->until_real_ns > 0);
    assert_true(verdict->gpu_seconds > 0.95 * (lost + 4 * 2));
    assert_true(verdict->gpu_seconds < 1.05 * (lost + 4 * 2));
    bench_close(&bench);
}

/* The point that all ranks had noted is that of step 6; `noted` by the next attempt, if it is text. */
static void continues(const char *noted, const char *says_then)
{
    struct bench bench = four();
    struct fact_note note = { .rank = 2, .attempt = 1 };
    const struct verdict *verdict;

    for (uint32_t rank = 0; rank < 4; rank++)
        raises(&bench, rank, 1000, "checkpoint of step 6 is verified, saved in step 6");
    raises(&bench, 1, 2000, "checkpoint of step 8 is verified, saved in step 8");
    ends(&bench, 1, 3000, SIGKILL, false);
    crash_judge(&bench.judge, 4000 * MS, true);
    verdict = crash_of(&bench);
    snprintf(note.text, sizeof(note.text), "%s", noted);
    crash_note(&bench.judge, &note);
    restart(&bench, 9);
    lab_judge_many(bench.lab, &bench.judge, 2);
    assert_string_equal(verdict->plan_state, "done");
    if (!says(verdict, says_then))
        fail_msg("no line says: %s", says_then);
    bench_close(&bench);
}

static void the_checkpoint_that_was_restored_is_the_one_from_which_the_job_continued(void **state)
{
    (void)state;
    continues("restored from checkpoint of step 8",
              "the job continued from the checkpoint of step 8, a newer one than all ranks had "
              "noted; 1 complete step after it is lost");
    continues("restored from checkpoint of step 3",
              "the job continued from the checkpoint of step 3, an older one than all ranks had "
              "noted");
    continues("restored from checkpoint of step 6", "the job can continue from the checkpoint of "
                                                    "step 6, which all ranks have verified; 3");
    continues("restored from checkpoint of step 8 or so", "the job can continue from the "
                                                          "checkpoint of step 6, which");
}

static void a_second_crash_before_any_step_renews_the_verdict(void **state)
{
    struct bench bench = four();
    const struct verdict *verdict = NULL;
    bool former = false;

    (void)state;
    restart(&bench, 0);
    ends(&bench, 1, 13000, SIGKILL, false);
    crash_judge(&bench.judge, 14000 * MS, true);
    assert_int_equal(crash_of(&bench)->layer, LAYER_UNKNOWN);
    restart(&bench, 0);
    ends_with_words(&bench, 1, 23000, 1 << 8, "ValueError: bad shape");
    crash_judge(&bench.judge, 24000 * MS, true);
    assert_int_equal(bench.judge.verdicts.count, 1);
    verdict = crash_of(&bench);
    assert_string_equal(verdict->cause, "exited with 1: ValueError: bad shape");
    assert_int_equal(verdict->layer, LAYER_USER_CODE);
    assert_true(verdict->since_real_ns < 14000 * MS + bench.judge.mono_to_real_ns);
    assert_string_equal(verdict->plan, "");
    for (uint32_t i = 0; i < verdict->because_count; i++)
        former |= strstr(verdict->because[i].what, "killed by signal 9") != NULL;
    assert_true(former);
    bench_close(&bench);
}

static void a_second_crash_at_the_same_step_is_told_as_it_is(void **state)
{
    struct bench bench = four();
    const struct tracked_verdict *tracked;

    (void)state;
    ends(&bench, 1, 13000, SIGKILL, false);
    crash_judge(&bench.judge, 14000 * MS, true);
    restart(&bench, 4);
    lab_judge_many(bench.lab, &bench.judge, 6); /* it trains again, to the same step */
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    ends_with_words(&bench, 1, 33000, 1 << 8, "ValueError: bad shape");
    crash_judge(&bench.judge, 34000 * MS, true);
    tracked = lab_open(&bench.judge, VERDICT_CRASH, 0);
    assert_int_equal(bench.judge.verdicts.count, 1);
    assert_non_null(tracked);
    assert_int_equal(tracked->status, 1 << 8);
    assert_string_equal(tracked->verdict.cause, "exited with 1: ValueError: bad shape");
    assert_int_equal(tracked->verdict.layer, LAYER_USER_CODE);
    assert_true(says(&tracked->verdict, "attempt 0 crashed at the same step: killed by signal 9"));
    bench_close(&bench);
}

/* The others went on for two steps, without it. */
static void the_step_after_which_it_ended_is_its_own(void **state)
{
    struct bench bench = four();

    (void)state;
    for (int i = 0; i < 2; i++) {
        CLEAN(job_step_fini) struct job_step job_step = { 0 };

        lab_step(bench.lab);
        lab_job_step(bench.lab, &bench.judge, &job_step);
        fact_step_fini(&job_step.step_of[1]);
        job_step.shape_of[1] = NULL;
        job_step.have--;
        assert_int_equal(judge_state_step(&bench.judge, &job_step), 0);
    }
    ends(&bench, 1, 13000, SIGKILL, false);
    crash_judge(&bench.judge, 14000 * MS, true);
    assert_string_equal(crash_of(&bench)->because[0].what,
                        "rank 1 was the first to end: killed by signal 9, after step 9");
    assert_int_equal(crash_of(&bench)->since_step, 10); /* and not the job's newest */
    bench_close(&bench);
}

static void a_rank_that_ended_inside_a_step_ended_in_that_step(void **state)
{
    struct bench bench = four();
    CLEAN(job_step_fini) struct job_step job_step = { 0 };

    (void)state;
    lab_step(bench.lab);
    lab_job_step(bench.lab, &bench.judge, &job_step);
    job_step.step_of[1].flags |= STEP_UNFINISHED;
    assert_int_equal(judge_state_step(&bench.judge, &job_step), 0);
    ends(&bench, 1, 13000, SIGKILL, false);
    crash_judge(&bench.judge, 14000 * MS, true);
    assert_string_equal(crash_of(&bench)->because[0].what,
                        "rank 1 was the first to end: killed by signal 9, in step 10");
    assert_int_equal(crash_of(&bench)->since_step, 10);
    bench_close(&bench);
}

static void after_a_restart_it_ended_before_any_step_of_its_attempt(void **state)
{
    struct bench bench = four();

    (void)state;
    restart(&bench, 4);
    ends(&bench, 1, 13000, SIGKILL, false);
    crash_judge(&bench.judge, 14000 * MS, true);
    assert_string_equal(
        crash_of(&bench)->because[0].what,
        "rank 1 was the first to end: killed by signal 9, before any step of attempt 1");
    bench_close(&bench);
}

static void a_long_last_line_ends_after_a_word(void **state)
{
    struct bench bench = four();

    (void)state;
    ends_with_words(
        &bench, 1, 13000, 1 << 8,
        "RuntimeError: Expected all tensors to be on the same device, but found at least "
        "two devices, cuda:0 and cuda:1! (when checking argument for argument weight in "
        "method wrapper_CUDA__native_layer_norm)");
    crash_judge(&bench.judge, 14000 * MS, true);
    assert_string_equal(crash_of(&bench)->cause,
                        "exited with 1: RuntimeError: Expected all "
                        "tensors to be on the same device, but found at ...");
    assert_string_equal(
        crash_of(&bench)->because[1].what,
        "last error output: RuntimeError: Expected all tensors to be on the same device, but found "
        "at "
        "least two devices, cuda:0 and cuda:1! (when checking argument for argument weight in "
        "method ...");
    assert_string_equal(crash_of(&bench)->because[2].what, "... wrapper_CUDA__native_layer_norm)");
    bench_close(&bench);
}

/* A job of months has more faults than the verdict table has places, one after the other. */
static void old_verdicts_make_room_for_new_ones(void **state)
{
    struct bench bench = four();

    (void)state;
    for (uint32_t i = 0; i < VERDICT_TABLE_MAX + 20; i++) {
        int64_t now = bench.lab->rank[0].begin_ns + bench.lab->rank[0].duration_ns;

        ends(&bench, i % 4, now / MS, SIGKILL, false);
        crash_judge(&bench.judge, now, true);
        assert_int_equal(crash_of(&bench)->rank[0], i % 4);
        restart(&bench, 11 + i);
        lab_judge_many(bench.lab, &bench.judge, 1);
        assert_int_equal(lab_open_count(&bench.judge, VERDICT_CRASH), 0);
        for (uint32_t at = 0; at < bench.judge.verdicts.count; at++)
            bench.judge.verdicts.tracked[at]->changed = false; /* said */
    }
    assert_int_equal(bench.judge.verdicts.count, VERDICT_TABLE_MAX);
    assert_int_equal(bench.judge.verdicts.refused, 0);
    bench_close(&bench);
}

static void late_steps_of_the_attempt_that_crashed_do_not_close_it(void **state)
{
    struct bench bench = four();

    (void)state;
    ends(&bench, 1, 3000, SIGKILL, false);
    crash_judge(&bench.judge, 4000 * MS, true);
    restart(&bench, 8);
    lab_judge_many(bench.lab, &bench.judge, 5);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    ends(&bench, 1, 9000, SIGKILL, false);
    crash_judge(&bench.judge, 9900 * MS, true);
    lab_judge_many(bench.lab, &bench.judge, 2);
    assert_int_equal(lab_open_count(&bench.judge, 0), 1);
    restart(&bench, 10);
    lab_judge_many(bench.lab, &bench.judge, 2);
    assert_int_equal(lab_open_count(&bench.judge, 0), 0);
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_to_die_is_named_and_the_others_are_echoes),
        cmocka_unit_test(of_two_at_once_the_killed_one_is_named),
        cmocka_unit_test(exits_that_were_told_or_went_well_are_no_crash),
        cmocka_unit_test(the_first_is_found_among_more_than_fit),
        cmocka_unit_test(a_second_crash_before_any_step_renews_the_verdict),
        cmocka_unit_test(a_second_crash_at_the_same_step_is_told_as_it_is),
        cmocka_unit_test(the_step_after_which_it_ended_is_its_own),
        cmocka_unit_test(a_rank_that_ended_inside_a_step_ended_in_that_step),
        cmocka_unit_test(after_a_restart_it_ended_before_any_step_of_its_attempt),
        cmocka_unit_test(a_long_last_line_ends_after_a_word),
        cmocka_unit_test(one_that_complains_about_a_peer_is_an_echo_even_when_it_was_first),
        cmocka_unit_test(the_rank_before_each_line_of_a_traceback_is_left_out),
        cmocka_unit_test(where_all_complain_the_first_is_named),
        cmocka_unit_test(ranks_that_lose_one_that_was_told_to_end_have_not_crashed),
        cmocka_unit_test(one_that_raised_and_was_told_to_end_meanwhile_is_named),
        cmocka_unit_test(one_that_raised_and_was_ended_by_a_signal_is_named_by_its_exception),
        cmocka_unit_test(the_first_of_two_that_raised_is_named),
        cmocka_unit_test(one_that_raised_later_or_blames_others_is_not),
        cmocka_unit_test(one_whose_own_words_blame_nobody_stays_the_culprit),
        cmocka_unit_test(an_exception_in_a_thread_counts_only_near_the_end_of_its_process),
        cmocka_unit_test(notes_of_other_nodes_are_put_on_the_clock_of_the_run),
        cmocka_unit_test(what_one_attempt_raised_says_nothing_about_the_next),
        cmocka_unit_test(one_that_dumps_its_core_is_named_though_it_ends_last),
        cmocka_unit_test(a_kill_by_the_kernel_for_memory_is_told_as_such),
        cmocka_unit_test(a_kill_for_memory_that_is_told_late_is_told),
        cmocka_unit_test(a_signal_that_the_kernel_does_not_send_for_memory_stays),
        cmocka_unit_test(a_crash_names_the_checkpoint_that_all_ranks_verified),
        cmocka_unit_test(a_checkpoint_that_one_rank_verified_is_no_point_to_continue_from),
        cmocka_unit_test(a_checkpoint_that_nobody_reported_is_not_offered),
        cmocka_unit_test(a_checkpoint_of_ranks_at_different_steps_is_corrupt),
        cmocka_unit_test(the_first_rank_is_named_if_it_is_the_odd_one),
        cmocka_unit_test(the_order_of_notes_does_not_change_the_verdict),
        cmocka_unit_test(workers_that_begin_again_save_the_same_checkpoint_in_another_step),
        cmocka_unit_test(its_own_note_is_evidence_and_an_old_one_is_not),
        cmocka_unit_test(a_restart_closes_it_with_its_cost),
        cmocka_unit_test(the_checkpoint_that_was_restored_is_the_one_from_which_the_job_continued),
        cmocka_unit_test(old_verdicts_make_room_for_new_ones),
        cmocka_unit_test(late_steps_of_the_attempt_that_crashed_do_not_close_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
