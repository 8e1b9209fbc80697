/* A run's directory is always explained: live, closed, cut short, or without any log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/test/fixture.h"

#include <fcntl.h>

#include "control/log/log_follow.h"
#include "control/report/run_report.h"
#include "control/report/standstill.h"
#include "wire/verdict.h"

#define STEPS 85 /* eight verdicts by the tests' core */

static void put_fact(struct spool_writer *writer, uint16_t type, struct buf *payload)
{
    assert_int_equal(spool_put(writer, type, payload, NULL), 0);
    buf_fini(payload);
}

static void put_run(struct spool_writer *writer, enum run_event event, uint32_t attempt)
{
    struct fact_run run = { .event = (uint8_t)event,
                            .attempt = attempt,
                            .ranks = 8,
                            .culprit = 3,
                            .status = 137,
                            .mono_ns = 1000,
                            .text = "killed by signal 9" };
    struct buf payload = { 0 };

    fact_run_put(&payload, &run);
    put_fact(writer, FRAME_RUN, &payload);
}

static void put_ring(struct spool_writer *writer, uint32_t rank)
{
    struct fact_ring ring = { .rank = rank, .world = 8, .node = "n1", .open_ns = 1000 };
    struct buf payload = { 0 };

    fact_ring_put(&payload, &ring);
    put_fact(writer, FRAME_RING, &payload);
}

static void put_gap(struct spool_writer *writer)
{
    struct fact_gap gap = { .records = 40, .step_from = 7, .step_to = 9 };
    struct buf payload = { 0 };

    fact_gap_put(&payload, &gap);
    put_fact(writer, FRAME_GAP, &payload);
}

/* Steps a second apart: so offline ticks fall between them. */
static void put_steps(struct spool_writer *writer, int from, int count)
{
    for (int i = from; i < from + count; i++) {
        struct fact_shape shape = { .hash = 1 };
        struct fact_step step = { .shape = 1,
                                  .step = (uint64_t)i,
                                  .duration_ns = 100,
                                  .begin_ns = 1000 + i * NS_PER_S,
                                  .flags = i == 5 ? STEP_TORN : 0 };
        struct buf payload = { 0 };

        fact_step_put(&payload, &step, &shape);
        put_fact(writer, FRAME_STEP, &payload);
    }
}

static void write_run(const struct fixture *fixture)
{
    struct spool_writer *launcher = fixture_spool(fixture, "launcher"),
                        *agent = fixture_spool(fixture, "agent-n1");

    fixture_hello(launcher, 1000, 1000 + NS_PER_S);
    fixture_hello(agent, 1000, 1000 + NS_PER_S);
    put_run(launcher, RUN_BEGIN, 0);
    put_run(launcher, RUN_ATTEMPT_BEGIN, 0);
    for (uint32_t rank = 0; rank < 8; rank++) {
        if (rank != 2 && rank != 6)
            put_ring(agent, rank);
    }
    put_gap(agent);
    put_steps(agent, 0, STEPS);
    put_run(launcher, RUN_ATTEMPT_END, 0);
    put_run(launcher, RUN_ATTEMPT_BEGIN, 1);
    put_run(launcher, RUN_ATTEMPT_END, 1);
    put_run(launcher, RUN_END, 1);
    spool_writer_close(launcher);
    spool_writer_close(agent);
}

static void expect_summary(const struct run_summary *summary)
{
    assert_string_equal(summary->run, TEST_RUN);
    assert_int_equal(summary->steps, STEPS);
    assert_int_equal(summary->torn_steps, 1);
    assert_int_equal(summary->verdicts, 8);
    assert_true(summary->has_ledger);
    assert_int_equal(summary->ledger.steps, STEPS);
    assert_int_equal(summary->ranks, 8);
    assert_int_equal(summary->ranks_seen, 6);
    assert_int_equal(summary->unseen, 2);
    assert_int_equal(summary->unseen_rank[0], 2);
    assert_int_equal(summary->unseen_rank[1], 6);
    assert_int_equal(summary->gap_records, 40);
    assert_int_equal(summary->gap_steps, 3);
    assert_int_equal(summary->attempts, 2);
    assert_int_equal(summary->restarts, 1);
    assert_int_equal(summary->restart[0].culprit, 3);
    assert_string_equal(summary->restart[0].text, "killed by signal 9");
    assert_true(summary->ended);
    assert_int_equal(summary->status, 137);
    assert_int_equal(summary->lost_frames + summary->malformed + summary->damaged_bytes, 0);
    assert_int_equal(run_summary_exit(summary), 1);
}

static void a_closed_log_is_told_as_it_is(void **state)
{
    struct fixture *fixture = *state;
    struct run_summary summary;

    write_run(fixture);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(run_report_read(fixture->dir.path.text, false, &summary, NULL), 0);
    expect_summary(&summary);
    assert_int_equal(summary.source, RUN_SUMMARY_LOG);
    assert_false(summary.alive);
    for (size_t i = 1; i < summary.verdicts; i++) /* open ones first */
        assert_true(!summary.verdict[i - 1].until_real_ns || summary.verdict[i].until_real_ns);
    run_report_fini(&summary);
}

static void without_a_log_the_spools_are_judged(void **state)
{
    struct fixture *fixture = *state;
    struct run_summary summary;

    write_run(fixture);
    assert_int_equal(run_report_read(fixture->dir.path.text, false, &summary, NULL), 0);
    expect_summary(&summary);
    /* The tests' core finds something in every tenth step: as soon as that came, not a second later with the next. */
    for (size_t i = 0; i < summary.verdicts; i++) {
        int64_t came_ns = 1000 + (int64_t)(summary.verdict[i].since_step + 9 + 1) * NS_PER_S;

        assert_in_range(summary.verdict[i].decided_real_ns - came_ns, 0, 200 * NS_PER_MS);
    }
    assert_int_equal(summary.source, RUN_SUMMARY_SPOOLS);
    run_report_fini(&summary);
}

/* Whatever a dead controller had written, the account is the same. */
static void a_log_that_ends_early_is_completed(void **state)
{
    struct fixture *fixture = *state;
    struct run_summary summary;
    struct stat st;

    write_run(fixture);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(stat(fixture->dir.log.text, &st), 0);
    for (off_t size = st.st_size - 1; size >= 0; size -= 97) {
        assert_int_equal(truncate(fixture->dir.log.text, size), 0);
        assert_int_equal(run_report_read(fixture->dir.path.text, false, &summary, NULL), 0);
        expect_summary(&summary);
        assert_true(summary.source != RUN_SUMMARY_LOG);
        run_report_fini(&summary);
    }
}

static void every_state_of_a_verdict_can_be_told(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *agent = fixture_spool(fixture, "agent-n1");
    struct run_summary summary;

    put_steps(agent, 0, 170); /* seventeen verdicts of eight faults */
    spool_writer_close(agent);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(run_report_read(fixture->dir.path.text, false, &summary, NULL), 0);
    assert_int_equal(summary.verdicts, 8);
    run_report_fini(&summary);
    assert_int_equal(run_report_read(fixture->dir.path.text, true, &summary, NULL), 0);
    assert_int_equal(summary.verdicts, 17);
    for (size_t i = 1; i < 17; i++)
        assert_true(summary.verdict[i - 1].since_step < summary.verdict[i].since_step);
    run_report_fini(&summary);
}

static void an_empty_directory_cannot_be_told(void **state)
{
    struct fixture *fixture = *state;
    struct run_summary summary;
    struct err err = { "" };

    assert_int_equal(run_report_read(fixture->dir.path.text, false, &summary, &err), 0);
    assert_int_equal(run_summary_exit(&summary), 3);
    run_report_fini(&summary);
    assert_int_equal(run_report_read("/nowhere/at/all", false, &summary, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
}

static void a_hole_in_the_numbers_is_a_lost_frame(void **state)
{
    struct fixture *fixture = *state;
    struct run_summary summary;
    struct path path;
    int fd;

    write_run(fixture);
    assert_int_equal(path_join(&path, fixture->dir.spool.text, "agent-n1.lsf", NULL), 0);
    fd = open(path.text, O_WRONLY);
    assert_int_equal(pwrite(fd, "xxxx", 4, 2000), 4);
    close(fd);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(run_report_read(fixture->dir.path.text, false, &summary, NULL), 0);
    assert_int_equal(summary.lost_frames, 1);
    run_report_fini(&summary);
}

static void steps_that_are_counted_anew_are_said(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *agent;
    struct run_summary summary;

    write_run(fixture);
    agent = fixture_spool(fixture, "agent-n1");
    put_steps(agent, 0, 7);
    spool_writer_close(agent);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(run_report_read(fixture->dir.path.text, false, &summary, NULL), 0);
    assert_int_equal(summary.steps, STEPS + 7);
    assert_int_equal(summary.old_steps, 7);
    run_report_fini(&summary);
}

static void a_replay_is_byte_equal_or_says_so(void **state)
{
    struct fixture *fixture = *state;
    struct verdict verdict = { .kind = VERDICT_HANG, .confidence = 1 };
    struct run_report_replay replay;
    struct spool_writer *log;
    struct buf payload = { 0 };
    struct err err = { "" };

    assert_int_equal(run_report_replay(fixture->dir.path.text, &replay, &err), -ENOENT);
    write_run(fixture);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(run_report_replay(fixture->dir.path.text, &replay, &err), 0);
    assert_true(replay.equal >= 10);
    assert_int_equal(replay.different + replay.missing, 0);
    verdict_because(&verdict, "nobody", "was never said");
    verdict_put(&payload, &verdict);
    assert_int_equal(spool_writer_open(fixture->dir.log.text, CONTROL_SENDER, &log, &err), 0);
    put_fact(log, FRAME_VERDICT, &payload);
    spool_writer_close(log);
    assert_int_equal(run_report_replay(fixture->dir.path.text, &replay, &err), 0);
    assert_int_equal(replay.different, 1);
}

struct followed {
    unsigned verdicts, ledgers, runs;
};

static void feed_verdict(void *arg, const struct verdict *verdict)
{
    assert_int_equal(verdict->kind, VERDICT_STRAGGLER);
    ((struct followed *)arg)->verdicts++;
}

static void feed_ledger(void *arg, const struct ledger *ledger)
{
    (void)ledger;
    ((struct followed *)arg)->ledgers++;
}

static void feed_run(void *arg, const struct fact_run *run)
{
    (void)run;
    ((struct followed *)arg)->runs++;
}

static void a_follower_hears_all_until_the_end(void **state)
{
    struct fixture *fixture = *state;
    struct followed followed = { 0 };
    const struct log_follow_calls calls = { feed_verdict, feed_ledger, feed_run, &followed };
    struct log_follow *follow;
    struct spool_writer *agent;
    pid_t control;

    assert_int_equal(log_follow_open(fixture->dir.path.text, &follow, NULL), 0);
    assert_int_equal(log_follow_read(follow, &calls, NULL), 1); /* there is no log yet */
    write_run(fixture);
    control = fixture_control(fixture, 0);
    while (followed.verdicts < 8) {
        assert_int_equal(log_follow_read(follow, &calls, NULL), 1);
        usleep(1000);
    }
    agent = fixture_spool(fixture, "agent-n1");
    put_steps(agent, STEPS, 5);
    spool_writer_close(agent);
    while (followed.verdicts < 9) {
        assert_int_equal(log_follow_read(follow, &calls, NULL), 1);
        usleep(1000);
    }
    kill(control, SIGTERM);
    while (log_follow_read(follow, &calls, NULL) == 1)
        usleep(1000);
    assert_int_equal(fixture_wait(control), 0);
    assert_true(followed.ledgers >= 2);
    assert_int_equal(followed.runs, 6);
    log_follow_close(follow);
    assert_int_equal(log_follow_open(fixture->dir.path.text, &follow, NULL), 0);
    followed = (struct followed){ 0 };
    assert_int_equal(log_follow_read(follow, &calls, NULL), 0); /* a dead run at once */
    assert_int_equal(followed.verdicts, 9);
    log_follow_close(follow);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* ---- a run in which nothing advances ---- */

static void still_beat(struct standstill *still, uint32_t rank, int64_t s, bool advanced)
{
    const struct fact_beat beat = { .rank = rank,
                                    .mono_ns = (100 + s) * NS_PER_S,
                                    .advanced = advanced };

    assert_int_equal(standstill_beat(still, &beat), 0);
}

static void still_steps(struct standstill *still, int count, int64_t duration_ns)
{
    for (int i = 0; i < count; i++) {
        const struct fact_step step = { .rank = (uint32_t)(i % 2), .duration_ns = duration_ns };

        standstill_step(still, &step);
    }
}

static void a_standstill_is_longer_than_any_step(void **state)
{
    struct standstill still = { 0 };

    (void)state;
    still_steps(&still, 6, 2 * NS_PER_S);
    for (uint32_t rank = 0; rank < 2; rank++)
        still_beat(&still, rank, 0, true);
    still_beat(&still, 0, 20, false);
    still_beat(&still, 1, 9, false);
    assert_int_equal(standstill_ns(&still, 2), 0);
    assert_int_equal(standstill_ns(&still, 3), 0); /* one of them is not observed */
    still_beat(&still, 1, 20, false);
    assert_int_equal(standstill_ns(&still, 2), 20 * NS_PER_S);
    still_steps(&still, 1, 8 * NS_PER_S);
    assert_int_equal(standstill_ns(&still, 2), 0); /* a step may take that long */
    still_beat(&still, 0, 60, false);
    still_beat(&still, 1, 60, false);
    assert_int_equal(standstill_ns(&still, 2), 60 * NS_PER_S);
    still_beat(&still, 1, 61, true);
    assert_int_equal(standstill_ns(&still, 2), 0);
    standstill_fini(&still);
}

static void a_standstill_before_steps_or_in_a_checkpoint_may_be_long(void **state)
{
    struct fact_beat saving = { .rank = 0,
                                .mono_ns = 101 * NS_PER_S,
                                .phase = LOCKSTEP_PHASE_CHECKPOINT };
    struct standstill still = { 0 };

    (void)state;
    still_beat(&still, 0, 0, true);
    still_beat(&still, 0, 300, false);
    assert_int_equal(standstill_ns(&still, 1), 0);
    still_steps(&still, 6, NS_PER_S);
    assert_int_equal(standstill_ns(&still, 1), 300 * NS_PER_S);
    assert_int_equal(standstill_beat(&still, &saving), 0);
    assert_int_equal(standstill_ns(&still, 1), 0);
    saving.mono_ns = 800 * NS_PER_S;
    assert_int_equal(standstill_beat(&still, &saving), 0);
    assert_int_equal(standstill_ns(&still, 1), 700 * NS_PER_S);
    saving.attempt = 1; /* a new one begins anew */
    assert_int_equal(standstill_beat(&still, &saving), 0);
    assert_int_equal(standstill_ns(&still, 1), 0);
    standstill_fini(&still);
}

static void a_run_that_was_ended_while_it_stood_still_is_not_well(void **state)
{
    struct run_summary summary = { .steps = 100,
                                   .ranks = 2,
                                   .ranks_seen = 2,
                                   .launched = true,
                                   .ended = true,
                                   .stopped = true,
                                   .still_ns = 42 * NS_PER_S };
    struct verdict verdict = { .kind = VERDICT_STRAGGLER };

    (void)state;
    assert_int_equal(run_summary_exit(&summary), 3);
    summary.stopped = false; /* it ended by itself, and well */
    assert_int_equal(run_summary_exit(&summary), 0);
    summary.ended = false;
    summary.alive = true;
    assert_int_equal(run_summary_exit(&summary), 3);
    summary.verdict = &verdict;
    summary.verdicts = 1;
    assert_int_equal(run_summary_exit(&summary), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_closed_log_is_told_as_it_is),
        TEST(without_a_log_the_spools_are_judged),
        TEST(a_log_that_ends_early_is_completed),
        TEST(every_state_of_a_verdict_can_be_told),
        TEST(an_empty_directory_cannot_be_told),
        TEST(a_hole_in_the_numbers_is_a_lost_frame),
        TEST(a_replay_is_byte_equal_or_says_so),
        TEST(steps_that_are_counted_anew_are_said),
        TEST(a_follower_hears_all_until_the_end),
        cmocka_unit_test(a_standstill_is_longer_than_any_step),
        cmocka_unit_test(a_standstill_before_steps_or_in_a_checkpoint_may_be_long),
        cmocka_unit_test(a_run_that_was_ended_while_it_stood_still_is_not_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
