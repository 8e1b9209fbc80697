/* test-hang.c - the life of a hang: two looks, one verdict, its echoes, its end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/bench.h"

#include <signal.h>
#include <stdio.h>

#include "core/clean.h"
#include "judge/crash/crash.h"
#include "judge/ledger.h"
#include "judge/stuck/hang.h"
#include "lockstep/probe.h"

#define S INT64_C(1000000000)
#define WORLD_ID 0x4000

struct life {
    struct bench bench;
    int64_t now_ns;
    int64_t stopped_ns; /* when rank `who` stopped */
    uint8_t phase;      /* that it is in */
};

static struct life life_begin(uint32_t steps)
{
    struct lab_config config = layout(1, 1, 4);
    struct life life = { .bench = bench_open(&config) };

    lab_judge_many(life.bench.lab, &life.bench.judge, steps);
    life.now_ns = life.stopped_ns = 100 * S;
    life.phase = LOCKSTEP_PHASE_BACKWARD;
    return life;
}

static void life_end(struct life *life)
{
    bench_close(&life->bench);
}

static void beat(struct life *life, uint32_t rank, bool in, char state, bool advanced)
{
    struct fact_beat fact = { .rank = rank,
                              .attempt = life->bench.judge.model.attempt,
                              .mono_ns = life->now_ns,
                              .state = state,
                              .final = state == 'X',
                              .phase = in ? LOCKSTEP_PHASE_BACKWARD : life->phase,
                              .phase_age_ns = life->now_ns - life->stopped_ns,
                              .step = 12,
                              .advanced = advanced,
                              .channels = 1 };

    fact.channel[0] = (struct beat_channel){ WORLD_ID, 0, 0, 12 + in, 12 + in, 12 };
    if (in) {
        fact.ops = 1;
        fact.op[0] = (struct beat_op){ .stream = 2,
                                       .kind = ITEM_COLL,
                                       .what = LOCKSTEP_OP_ALL_REDUCE,
                                       .comm = WORLD_ID,
                                       .key = 12,
                                       .age_ns = life->now_ns - life->stopped_ns,
                                       .started = true,
                                       .advanced = advanced,
                                       .bytes = 4096 };
    }
    assert_int_equal(hang_beat(&life->bench.judge, &fact), 0);
}

/* A second in which rank 2 is `state` and the others wait for it, or all go on. */
static void second(struct life *life, char state, bool goes_on)
{
    life->now_ns += S;
    for (uint32_t rank = 0; rank < 4; rank++)
        beat(life, rank, rank != 2, rank == 2 ? state : 'S', goes_on);
    hang_judge(&life->bench.judge, life->now_ns);
}

static void seconds(struct life *life, int count, char state)
{
    for (int i = 0; i < count; i++)
        second(life, state, false);
}

static const struct tracked_verdict *the_hang(const struct life *life)
{
    assert_int_equal(lab_open_count(&life->bench.judge, VERDICT_HANG), 1);
    return lab_open(&life->bench.judge, VERDICT_HANG, 0);
}

static void it_takes_the_limit_and_two_looks(void **state)
{
    struct life life = life_begin(10);

    (void)state;
    second(&life, 'T', true);
    life.stopped_ns = life.now_ns;
    seconds(&life, 10, 'T');
    assert_int_equal(life.bench.judge.verdicts.count, 0);
    seconds(&life, 1, 'T');
    assert_int_equal(the_hang(&life)->verdict.rank_count, 1);
    assert_int_equal(the_hang(&life)->verdict.rank[0], 2);
    assert_true(the_hang(&life)->verdict.because_count >= 2);
    life_end(&life);
}

static void ends_by_launcher(struct life *life, uint32_t rank)
{
    struct fact_exit fact = {
        .rank = rank, .mono_ns = life->now_ns, .status = 15, .ended_by_launcher = true
    };

    crash_exit(&life->bench.judge, &fact);
}

static void what_was_seen_once_is_said_when_all_are_told_to_end(void **state)
{
    struct life life = life_begin(10);

    (void)state;
    second(&life, 'T', true);
    life.stopped_ns = life.now_ns;
    seconds(&life, 9, 'T');
    ends_by_launcher(&life, 0);
    assert_int_equal(life.bench.judge.verdicts.count, 0); /* never seen: somebody else's reasons */
    seconds(&life, 1, 'T');
    assert_int_equal(life.bench.judge.verdicts.count, 0);
    ends_by_launcher(&life, 1);
    assert_int_equal(the_hang(&life)->verdict.rank[0], 2);
    ends_by_launcher(&life, 3);
    assert_int_equal(life.bench.judge.verdicts.count, 1);
    life_end(&life);
}

static void before_three_steps_it_takes_ten_minutes_and_is_late(void **state)
{
    struct life life = life_begin(2);

    (void)state;
    seconds(&life, 590, 'T');
    assert_int_equal(life.bench.judge.verdicts.count, 0);
    seconds(&life, 13, 'T');
    assert_non_null(strstr(the_hang(&life)->verdict.cause, "late"));
    life_end(&life);
}

static void it_stays_one_verdict_and_takes_what_is_learnt(void **state)
{
    struct life life = life_begin(10);
    struct fact_stack stack = { .rank = 2, .state = 'T', .channel = "do_signal_stop" };
    uint32_t before;

    (void)state;
    seconds(&life, 13, 'T');
    before = the_hang(&life)->verdict.because_count;
    snprintf(stack.python, sizeof(stack.python), "load (train.py:12)\nmain (train.py:40)");
    assert_int_equal(hang_stack(&life.bench.judge, &stack), 0);
    seconds(&life, 3, 'T');
    assert_int_equal(life.bench.judge.verdicts.count, 1);
    assert_true(the_hang(&life)->verdict.because_count > before);
    assert_true(the_hang(&life)->changed);
    life_end(&life);
}

static void it_is_over_when_the_ranks_go_on(void **state)
{
    struct life life = life_begin(10);

    (void)state;
    seconds(&life, 13, 'T');
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_HANG), 1);
    second(&life, 'S', true);
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_HANG), 1);
    second(&life, 'S', true);
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_HANG), 0);
    assert_true(life.bench.judge.verdicts.tracked[0]->verdict.until_real_ns > 0);
    life.stopped_ns = life.now_ns; /* the same again is the same verdict */
    seconds(&life, 13, 'T');
    assert_int_equal(life.bench.judge.verdicts.count, 1);
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_HANG), 1);
    life_end(&life);
}

static void one_that_comes_again_costs_only_while_it_lasts(void **state)
{
    struct life life = life_begin(10);

    (void)state;
    seconds(&life, 13, 'T');
    second(&life, 'S', true);
    second(&life, 'S', true);
    assert_true(life.bench.judge.verdicts.tracked[0]->verdict.gpu_seconds == 4 * 14);
    for (int i = 0; i < 100; i++)
        second(&life, 'S', true);
    life.stopped_ns = life.now_ns;
    seconds(&life, 13, 'T');
    assert_int_equal(the_hang(&life)->reopened, 1);
    assert_true(the_hang(&life)->verdict.gpu_seconds == 4 * (14 + 13));
    life_end(&life);
}

/* Who ends a job lets a stopped rank go on before it ends it: that is no progress, and what ranks are in meanwhile is nothing new. */
static void one_that_is_ended_stays_what_it_was(void **state)
{
    struct life life = life_begin(10);
    struct ledger ledger;

    (void)state;
    seconds(&life, 13, 'T');
    ledger_read(life.bench.judge.book, &ledger);
    assert_true(ledger.gpu_seconds[LEDGER_HANG] > 4 * 11.9); /* while it lasts */
    life.now_ns += S;
    for (uint32_t rank = 0; rank < 4; rank++)
        beat(&life, rank, rank != 2, rank == 2 ? 'R' : 'S', rank == 2);
    hang_judge(&life.bench.judge, life.now_ns);
    seconds(&life, 3, 'X');
    assert_non_null(strstr(the_hang(&life)->verdict.cause, "stopped by a signal"));
    assert_int_equal(the_hang(&life)->reopened, 0);
    judge_state_end(&life.bench.judge, life.now_ns);
    ledger_read(life.bench.judge.book, &ledger);
    assert_true(ledger.gpu_seconds[LEDGER_HANG] > 4 * 15.9 &&
                ledger.gpu_seconds[LEDGER_HANG] < 4 * 18.1);
    assert_true(ledger.gpu_seconds[LEDGER_LOST] >
                4 * 80); /* since the last step of these ten, at about a second */
    life_end(&life);
}

static void exits_after_it_are_its_echoes_and_no_crash(void **state)
{
    struct life life = life_begin(10);

    (void)state;
    seconds(&life, 13, 'T');
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct fact_exit fact = { .rank = rank, .mono_ns = life.now_ns, .status = 1 << 8 };

        snprintf(fact.text, sizeof(fact.text), "exited with 1");
        fact.ended_by_launcher = rank == 2;
        crash_exit(&life.bench.judge, &fact);
    }
    crash_judge(&life.bench.judge, life.now_ns + 2 * S, true);
    assert_int_equal(life.bench.judge.verdicts.count, 1);
    assert_int_equal(the_hang(&life)->verdict.echo_count, 3);
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_CRASH), 0);
    life_end(&life);
}

static void gives_up(struct life *life, const char *words)
{
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct fact_exit fact = { .rank = rank, .mono_ns = life->now_ns + rank, .status = 1 << 8 };

        snprintf(fact.text, sizeof(fact.text), "exited with 1");
        snprintf(fact.words, sizeof(fact.words), "%s", rank == 0 ? words : "Broken pipe");
        fact.ended_by_launcher = rank == 2;
        beat(life, rank, rank != 2, 'X', false); /* all are gone before anybody asks */
        crash_exit(&life->bench.judge, &fact);
    }
    life->now_ns += 2 * S;
    crash_judge(&life->bench.judge, life->now_ns, false);
}

/* A checkpoint has a limit of minutes; those who wait for it may have less patience. */
static void who_was_waited_for_is_named_when_the_others_gave_up_before_the_limit(void **state)
{
    struct life life = life_begin(10);
    const struct verdict *verdict;

    (void)state;
    life.phase = LOCKSTEP_PHASE_CHECKPOINT;
    seconds(&life, 30, 'S');
    assert_int_equal(life.bench.judge.verdicts.count, 0);
    gives_up(&life, "lost rank 2 in all-reduce 12: Connection timed out");
    assert_int_equal(life.bench.judge.verdicts.count, 1);
    verdict = &the_hang(&life)->verdict;
    assert_int_equal(verdict->rank_count, 1);
    assert_int_equal(verdict->rank[0], 2);
    assert_int_equal(verdict->layer, LAYER_CHECKPOINT);
    assert_int_equal(verdict->echo_count, 3);
    assert_non_null(strstr(verdict->because[verdict->because_count - 1].what, "gave up"));
    life_end(&life);
}

/* Its connections are closed before its process has ended: who loses it ends sooner, and so it is told to end. */
static void one_who_gave_up_may_be_told_of_last(void **state)
{
    struct life life = life_begin(10);
    const struct verdict *verdict;

    (void)state;
    life.phase = LOCKSTEP_PHASE_CHECKPOINT;
    seconds(&life, 30, 'S');
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct fact_exit fact = { .rank = rank, .mono_ns = life.now_ns + rank, .status = 1 << 8 };

        snprintf(fact.text, sizeof(fact.text), "exited with 1");
        snprintf(fact.words, sizeof(fact.words), "lost rank %s",
                 rank == 3 ? "2 in receive 12: Connection timed out"
                           : "3: Connection reset by peer");
        fact.ended_by_launcher = rank > 1;
        beat(&life, rank, rank != 2, 'X', false);
        crash_exit(&life.bench.judge, &fact);
    }
    life.now_ns += 2 * S;
    crash_judge(&life.bench.judge, life.now_ns, false);
    assert_int_equal(life.bench.judge.verdicts.count, 1);
    verdict = &the_hang(&life)->verdict;
    assert_int_equal(verdict->rank_count, 1);
    assert_int_equal(verdict->rank[0], 2);
    assert_non_null(strstr(verdict->because[verdict->because_count - 1].what, "rank 3 gave up"));
    life_end(&life);
}

static void one_who_was_hung_up_on_did_not_give_up(void **state)
{
    struct life life = life_begin(10);

    (void)state;
    life.phase = LOCKSTEP_PHASE_CHECKPOINT;
    seconds(&life, 30, 'S');
    gives_up(&life, "lost rank 2 in all-reduce 12: Connection reset by peer");
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_HANG), 0);
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_CRASH), 1);
    life_end(&life);
}

static void one_who_gave_up_while_all_went_on_is_a_crash(void **state)
{
    struct life life = life_begin(10);

    (void)state;
    for (int i = 0; i < 30; i++)
        second(&life, 'S', true);
    gives_up(&life, "Socket Timeout");
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_HANG), 0);
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_CRASH), 1);
    life_end(&life);
}

/* Rank 2 ends in an all-reduce of half the size; the others are in the whole one, and are told to end. */
static void ends_in_half_of_it(struct life *life, int status)
{
    for (uint32_t rank = 0; rank < 4; rank++) {
        struct fact_beat fact = { .rank = rank,
                                  .attempt = life->bench.judge.model.attempt,
                                  .mono_ns = life->now_ns + rank,
                                  .state = 'X',
                                  .final = true,
                                  .ops = 1 };
        struct fact_exit end = { .rank = rank,
                                 .mono_ns = life->now_ns + rank + 1,
                                 .status = rank == 2 ? status : 15,
                                 .ended_by_launcher = rank != 2 };

        fact.op[0] = (struct beat_op){ .kind = ITEM_COLL,
                                       .what = LOCKSTEP_OP_ALL_REDUCE,
                                       .comm = WORLD_ID,
                                       .key = 12,
                                       .started = true,
                                       .bytes = rank == 2 ? 2048 : 4096 };
        assert_int_equal(hang_beat(&life->bench.judge, &fact), 0);
        snprintf(end.words, sizeof(end.words), "enforce fail: 4096 vs 2048");
        crash_exit(&life->bench.judge, &end);
    }
    life->now_ns += 2 * S;
    crash_judge(&life->bench.judge, life->now_ns, false);
}

static void who_is_ended_by_a_library_that_sees_other_sizes_is_a_desync(void **state)
{
    static const int ends[] = { 6, 1 << 8, 9 }; /* SIGABRT, exit(1); SIGKILL is somebody else's */

    (void)state;
    for (size_t i = 0; i < COUNT(ends); i++) {
        struct life life = life_begin(10);
        bool noticed = ends[i] != 9;
        const struct tracked_verdict *tracked;

        ends_in_half_of_it(&life, ends[i]);
        assert_int_equal(life.bench.judge.verdicts.count, 1);
        tracked = lab_open(&life.bench.judge, noticed ? VERDICT_DESYNC : VERDICT_CRASH, 0);
        assert_non_null(tracked);
        assert_int_equal(tracked->verdict.rank_count, 1);
        assert_int_equal(tracked->verdict.rank[0], 2);
        if (noticed)
            assert_non_null(strstr(tracked->verdict.cause, "2048 and 4096 bytes"));
        life_end(&life);
    }
}

static void a_new_attempt_ends_it_with_its_first_step(void **state)
{
    struct life life = life_begin(10);
    struct judge_state *judge = &life.bench.judge;

    (void)state;
    seconds(&life, 13, 'T');
    ledger_attempt_end(judge->book, 0, life.now_ns, false);
    lab_restart(life.bench.lab, 8, 200 * S);
    judge_state_attempt(judge, 1, life.now_ns + S);
    lab_introduce(life.bench.lab, judge);
    lab_judge_many(life.bench.lab, judge, 1);
    assert_int_equal(lab_open_count(judge, VERDICT_HANG), 0);
    assert_int_equal(judge->verdicts.count, 1);
    life_end(&life);
}

static double lost_seconds(const struct judge_state *judge)
{
    struct ledger ledger;

    ledger_read(judge->book, &ledger);
    return ledger.gpu_seconds[LEDGER_HANG] + ledger.gpu_seconds[LEDGER_LOST] +
           ledger.gpu_seconds[LEDGER_RESTART];
}

/* A hang ends the first attempt, a crash before any step the second: together they cost what was lost. */
static void what_ends_one_attempt_after_the_other_costs_no_more_than_was_lost(void **state)
{
    struct life life = life_begin(10);
    struct judge_state *judge = &life.bench.judge;
    struct fact_exit fact = { .rank = 1, .attempt = 1, .status = SIGKILL, .text = "killed" };
    double sum = 0;

    (void)state;
    seconds(&life, 13, 'T');
    ledger_attempt_end(judge->book, 0, life.now_ns, false);
    judge_state_attempt(judge, 1, life.now_ns + S);
    fact.mono_ns = life.now_ns + 5 * S;
    crash_exit(judge, &fact);
    crash_judge(judge, life.now_ns + 7 * S, true);
    assert_int_equal(judge->verdicts.count, 2);
    ledger_attempt_end(judge->book, 1, life.now_ns + 7 * S, false);
    lab_restart(life.bench.lab, 8, 200 * S);
    lab_restart(life.bench.lab, 8, 200 * S);
    judge_state_attempt(judge, 2, life.now_ns + 9 * S);
    lab_introduce(life.bench.lab, judge);
    lab_judge_many(life.bench.lab, judge, 1);
    assert_int_equal(lab_open_count(judge, 0), 0);
    for (uint32_t i = 0; i < judge->verdicts.count; i++)
        sum += judge->verdicts.tracked[i]->verdict.gpu_seconds;
    assert_true(sum > 0.99 * lost_seconds(judge) && sum < 1.01 * lost_seconds(judge));
    life_end(&life);
}

static void a_beat_that_is_old_shows_nothing(void **state)
{
    struct life life = life_begin(10);

    (void)state;
    seconds(&life, 9, 'S');
    for (int i = 0; i < 20; i++) { /* rank 2's node is silent from now on */
        life.now_ns += S;
        for (uint32_t rank = 0; rank < 4; rank++) {
            if (rank != 2)
                beat(&life, rank, true, 'S', false);
        }
        hang_judge(&life.bench.judge, life.now_ns);
    }
    for (uint32_t i = 0; i < life.bench.judge.verdicts.count; i++) {
        if (life.bench.judge.verdicts.tracked[i]->open)
            assert_int_equal(life.bench.judge.verdicts.tracked[i]->verdict.rank_count, 0);
    }
    life_end(&life);
}

static void a_slow_shape_has_a_longer_limit(void **state)
{
    struct lab_config config = layout(1, 1, 4);
    struct life life = { .now_ns = 1000 * S, .stopped_ns = 1000 * S };

    (void)state;
    config.block_ns *= 100; /* steps of about ten seconds */
    life.bench = bench_open(&config);
    lab_judge_many(life.bench.lab, &life.bench.judge, 10);
    seconds(&life, 20, 'T');
    assert_int_equal(life.bench.judge.verdicts.count, 0);
    seconds(&life, 20, 'T');
    assert_int_equal(lab_open_count(&life.bench.judge, VERDICT_HANG), 1);
    life_end(&life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_takes_the_limit_and_two_looks),
        cmocka_unit_test(what_was_seen_once_is_said_when_all_are_told_to_end),
        cmocka_unit_test(before_three_steps_it_takes_ten_minutes_and_is_late),
        cmocka_unit_test(it_stays_one_verdict_and_takes_what_is_learnt),
        cmocka_unit_test(it_is_over_when_the_ranks_go_on),
        cmocka_unit_test(one_that_comes_again_costs_only_while_it_lasts),
        cmocka_unit_test(one_that_is_ended_stays_what_it_was),
        cmocka_unit_test(exits_after_it_are_its_echoes_and_no_crash),
        cmocka_unit_test(who_was_waited_for_is_named_when_the_others_gave_up_before_the_limit),
        cmocka_unit_test(one_who_gave_up_may_be_told_of_last),
        cmocka_unit_test(one_who_was_hung_up_on_did_not_give_up),
        cmocka_unit_test(one_who_gave_up_while_all_went_on_is_a_crash),
        cmocka_unit_test(who_is_ended_by_a_library_that_sees_other_sizes_is_a_desync),
        cmocka_unit_test(a_new_attempt_ends_it_with_its_first_step),
        cmocka_unit_test(what_ends_one_attempt_after_the_other_costs_no_more_than_was_lost),
        cmocka_unit_test(a_beat_that_is_old_shows_nothing),
        cmocka_unit_test(a_slow_shape_has_a_longer_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
