/* The controller loses nothing and doubles nothing, whenever it is killed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/test/fixture.h"

#include <fcntl.h>

#define FRAMES_EACH 4000
#define KILLS 50

static void every_frame_is_logged_once_and_judged(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *one = fixture_spool(fixture, "agent-n1"),
                        *two = fixture_spool(fixture, "agent-n2");
    struct log_replay replay;

    fixture_hello(one, 1000, 5000);
    fixture_hello(two, 1000, 5000);
    for (int i = 0; i < 3000; i++)
        fixture_put(i % 2 ? one : two, i % 3 ? FRAME_STEP : FRAME_NOTE, 100);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(fixture_check_log(fixture, &replay), 3002);
    assert_true(replay.last);
    assert_true(replay.equal >= 200); /* a verdict for each ten steps, and ledgers */
    assert_string_equal(replay.run, TEST_RUN);
    log_replay_fini(&replay);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0); /* once more: nothing new */
    assert_int_equal(fixture_check_log(fixture, &replay), 3002);
    log_replay_fini(&replay);
    fixture_put(one, FRAME_STEP, 100); /* but what comes later is not lost */
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(fixture_check_log(fixture, &replay), 3003);
    assert_true(replay.last);
    log_replay_fini(&replay);
    spool_writer_close(one);
    spool_writer_close(two);
}

/* Writes numbered frames until there are enough; may be killed and started again. */
static pid_t start_agent(const struct fixture *fixture, const char *sender, uint64_t seed)
{
    struct rand rand = { seed };
    struct spool_writer *writer;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    writer = fixture_spool(fixture, sender);
    while (spool_writer_number(writer) < FRAMES_EACH) {
        for (uint32_t burst = rand_below(&rand, 60);
             burst > 0 && spool_writer_number(writer) < FRAMES_EACH; burst--)
            fixture_put(writer, rand_below(&rand, 3) ? FRAME_STEP : FRAME_BEAT,
                        8 + rand_below(&rand, 600));
        usleep(rand_below(&rand, 20000)); /* about as long as the kills take */
    }
    _exit(0);
}

static off_t log_size(const struct fixture *fixture)
{
    struct stat st;

    return stat(fixture->dir.log.text, &st) < 0 ? 0 : st.st_size;
}

/* A random moment, but in all its life: some bytes later, or when there is no more to do. */
static void await_some_work(const struct fixture *fixture, struct rand *rand)
{
    off_t enough = log_size(fixture) + rand_below(rand, 2 * FRAMES_EACH * 500 / KILLS);
    int64_t deadline_ns = time_mono_ns() + 300 * NS_PER_MS;

    while (log_size(fixture) < enough && time_mono_ns() < deadline_ns)
        usleep(100);
    usleep(rand_below(rand, 1000));
}

static void nothing_is_lost_or_doubled_when_killed_at_any_moment(void **state)
{
    struct fixture *fixture = *state;
    struct rand rand = { 17 };
    pid_t agent = start_agent(fixture, "agent-n1", 1), other = start_agent(fixture, "agent-n2", 2);
    struct log_replay replay;

    for (int i = 0; i < KILLS; i++) {
        pid_t control = fixture_control(fixture, 0);

        await_some_work(fixture, &rand);
        if (i % 10 == 9 && waitpid(agent, NULL, WNOHANG) == 0) {
            kill(agent, SIGKILL);
            assert_int_equal(fixture_wait(agent), 128 + SIGKILL);
            agent = start_agent(fixture, "agent-n1", 100 + (uint64_t)i);
        }
        kill(control, SIGKILL);
        assert_int_equal(fixture_wait(control), 128 + SIGKILL);
    }
    waitpid(agent, NULL, 0);
    waitpid(other, NULL, 0);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(fixture_check_log(fixture, &replay), 2 * FRAMES_EACH);
    assert_true(replay.last);
    assert_true(replay.ticks > 0); /* how many depends on how fast the machine is */
    log_replay_fini(&replay);
}

static size_t read_log(const struct fixture *fixture, unsigned char *bytes, size_t room)
{
    int fd = open(fixture->dir.log.text, O_RDONLY);
    ssize_t size = read(fd, bytes, room);

    close(fd);
    assert_true(size > 0 && (size_t)size < room);
    return (size_t)size;
}

/* Every place where a kill can leave the log: after each frame, and in the middle of it. */
static void it_goes_on_from_every_possible_end_of_its_log(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *writer = fixture_spool(fixture, "agent-n1");
    static unsigned char bytes[1 << 20];
    size_t size, at = 0;
    struct log_replay replay;

    for (int i = 0; i < 35; i++)
        fixture_put(writer, FRAME_STEP, 50);
    spool_writer_close(writer);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    size = read_log(fixture, bytes, sizeof(bytes));
    while (at < size) {
        struct frame frame;
        int64_t step = frame_get(bytes + at, size - at, &frame, NULL);

        assert_true(step > 0);
        for (int torn = 0; torn < 2; torn++) {
            int fd = open(fixture->dir.log.text, O_WRONLY | O_TRUNC);

            assert_true(write(fd, bytes, at + (torn ? (size_t)step / 2 : 0)) >= 0);
            close(fd);
            assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
            assert_int_equal(fixture_check_log(fixture, &replay), 35);
            assert_true(replay.last);
            assert_int_equal(replay.equal >= 4, 1); /* three verdicts and a ledger at least */
            log_replay_fini(&replay);
        }
        at += (size_t)step;
    }
}

static void damage_in_a_spool_costs_the_damaged_frame_only(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *writer = fixture_spool(fixture, "agent-n1");
    struct log_replay replay;
    struct path path;
    int fd;

    for (int i = 0; i < 20; i++)
        fixture_put(writer, FRAME_STEP, 56);
    spool_writer_close(writer);
    assert_int_equal(path_join(&path, fixture->dir.spool.text, "agent-n1.lsf", NULL), 0);
    fd = open(path.text, O_WRONLY);
    assert_int_equal(pwrite(fd, "xxxx", 4, 5 * 100 + 60), 4); /* in the sixth frame's payload */
    close(fd);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(fixture_check_log(fixture, &replay), 19);
    log_replay_fini(&replay);
}

static void a_malformed_fact_is_logged_and_replayed_alike(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *writer = fixture_spool(fixture, "agent-n1");
    struct core_counts counts;
    struct log_replay replay;

    for (int i = 0; i < 20; i++)
        fixture_put(writer, FRAME_STEP, i == 7 ? 3 : 56);
    spool_writer_close(writer);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(fixture_check_log(fixture, &replay), 20);
    core_counts(replay.core, &counts);
    assert_int_equal(counts.malformed, 1);
    log_replay_fini(&replay);
}

/* It is well formed but cannot be judged; and it is in the log for ever. */
static void a_fact_that_is_refused_stops_no_later_start(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *writer = fixture_spool(fixture, "agent-n1");
    struct core_counts counts;
    struct log_replay replay;

    fixture_put(writer, FRAME_STEP, 9);
    fixture_put(writer, FRAME_STEP, 56);
    spool_writer_close(writer);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(fixture_wait(fixture_control(fixture, 1)), 0);
    assert_int_equal(fixture_check_log(fixture, &replay), 2);
    core_counts(replay.core, &counts);
    assert_int_equal(counts.malformed, 1);
    log_replay_fini(&replay);
}

static void a_second_controller_is_told_so(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *log;
    struct site_settings settings = { .run_dir = fixture->dir.path.text,
                                      .tick_ns = NS_PER_MS,
                                      .listen = "127.0.0.1:0" };
    struct err err = { "" };

    assert_int_equal(spool_writer_open(fixture->dir.log.text, CONTROL_SENDER, &log, NULL), 0);
    assert_true(rundir_is_controlled(&fixture->dir));
    assert_int_equal(site_run(&settings, &err), -EBUSY);
    assert_non_null(strstr(err.text, "another controller is running for run " TEST_RUN));
    spool_writer_close(log);
    assert_false(rundir_is_alive(&fixture->dir));
}

static void a_directory_that_is_none_is_refused(void **state)
{
    struct site_settings settings = { .run_dir = "/nowhere/at/all",
                                      .tick_ns = NS_PER_MS,
                                      .listen = "127.0.0.1:0" };
    struct err err = { "" };

    (void)state;
    assert_int_equal(site_run(&settings, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nowhere/at/all"));
}

/* The child's child is the controller; the child dies and the books are closed. */
static void it_ends_in_order_when_its_parent_is_gone(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *writer = fixture_spool(fixture, "agent-n1");
    struct log_replay replay;
    int ends[2];
    char byte;
    pid_t parent;

    fixture_put(writer, FRAME_STEP, 56);
    assert_int_equal(pipe(ends), 0);
    parent = fork();
    if (parent == 0) {
        fixture_control(fixture, 0); /* holds the pipe's end open as long as it lives */
        while (!rundir_is_controlled(&fixture->dir))
            usleep(1000);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(fixture_wait(parent), 0);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* waits for the controller's end */
    close(ends[0]);
    assert_int_equal(fixture_check_log(fixture, &replay), 1);
    assert_true(replay.last);
    log_replay_fini(&replay);
    spool_writer_close(writer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_frame_is_logged_once_and_judged),
        TEST(nothing_is_lost_or_doubled_when_killed_at_any_moment),
        TEST(it_goes_on_from_every_possible_end_of_its_log),
        TEST(damage_in_a_spool_costs_the_damaged_frame_only),
        TEST(a_malformed_fact_is_logged_and_replayed_alike),
        TEST(a_fact_that_is_refused_stops_no_later_start),
        TEST(a_second_controller_is_told_so),
        TEST(a_directory_that_is_none_is_refused),
        TEST(it_ends_in_order_when_its_parent_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
