/* test-sink.c - our own stdout must never make us wait.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/output/sink.h"
#include "core/clean.h"

static void put(struct sink *sink, const char *text)
{
    sink_put(sink, &(struct sink_piece){
                       .prefix = "[rank 1] ", .text = text, .length = strlen(text), .end = '\n' });
    sink_write(sink);
}

/* What is shown of these pieces: who (0: the command, without a prefix), text, and how it ends. */
struct spoken {
    int who;
    const char *text;
    char end;
};

static void expect_shown(const struct spoken *spoken, size_t count, const char *expected)
{
    static const char *const prefix[] = { "", "[rank 0] ", "[rank 1] " };
    struct sink sink;
    char got[256] = "";
    int fd[2];

    assert_int_equal(pipe(fd), 0);
    assert_int_equal(sink_open(&sink, fd[1], "out"), 0);
    for (size_t i = 0; i < count; i++)
        sink_put(&sink, &(struct sink_piece){ .who = &prefix[spoken[i].who],
                                              .prefix = prefix[spoken[i].who],
                                              .text = spoken[i].text,
                                              .length = strlen(spoken[i].text),
                                              .end = spoken[i].end });
    sink_break(&sink);
    sink_write(&sink);
    assert_true(read(fd[0], got, sizeof(got) - 1) > 0);
    assert_string_equal(got, expected);
    sink_close(&sink);
    close(fd[0]);
    close(fd[1]);
}

static void a_line_in_pieces_has_one_prefix(void **state)
{
    static const struct spoken spoken[] = { { 1, "go", 0 }, { 1, " on", 0 }, { 1, "?", '\n' } };

    (void)state;
    expect_shown(spoken, COUNT(spoken), "[rank 0] go on?\n");
}

static void a_line_is_broken_off_for_another_writer(void **state)
{
    static const struct spoken spoken[] = { { 1, "go", 0 },
                                            { 2, "hello", '\n' },
                                            { 1, " on", '\n' } };

    (void)state;
    expect_shown(spoken, COUNT(spoken), "[rank 0] go\n[rank 1] hello\n[rank 0]  on\n");
}

/* As tqdm writes it: the return comes first. */
static void a_progress_bar_stays_on_its_line(void **state)
{
    static const struct spoken spoken[] = {
        { 1, "", '\r' }, { 1, "1/3", '\r' }, { 1, "2/3", 0 }, { 1, "", '\r' }, { 1, "3/3", '\n' }
    };

    (void)state;
    expect_shown(spoken, COUNT(spoken), "[rank 0] 1/3\r[rank 0] 2/3\r[rank 0] 3/3\n");
}

static void two_progress_bars_do_not_share_a_line(void **state)
{
    static const struct spoken spoken[] = {
        { 1, "1/2", '\r' }, { 2, "1/2", '\r' }, { 1, "2/2", '\r' }, { 2, "2/2", '\r' }
    };

    (void)state;
    expect_shown(spoken, COUNT(spoken), "[rank 0] 1/2\n[rank 1] 1/2\n[rank 0] 2/2\n[rank 1] 2/2\n");
}

static void a_return_and_newline_end_one_line(void **state)
{
    static const struct spoken spoken[] = { { 1, "a", '\r' }, { 1, "", '\n' }, { 1, "b", '\n' } };

    (void)state;
    expect_shown(spoken, COUNT(spoken), "[rank 0] a\r\n[rank 0] b\n");
}

static void without_a_prefix_every_byte_is_passed_on(void **state)
{
    static const struct spoken spoken[] = { { 0, "", '\r' }, { 0, "", '\r' },    { 0, "1/3", '\r' },
                                            { 0, "2/3", 0 }, { 0, "!", '\r' },   { 0, "", '\n' },
                                            { 0, "", '\n' }, { 0, "done", '\n' } };

    (void)state;
    expect_shown(spoken, COUNT(spoken), "\r\r1/3\r2/3!\r\n\ndone\n");
}

static void shows_whole_lines_with_their_rank(void **state)
{
    struct sink sink;
    char got[64] = "";
    int fd[2];

    (void)state;
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(sink_open(&sink, fd[1], "out"), 0);
    put(&sink, "hello");
    assert_int_equal(read(fd[0], got, sizeof(got) - 1), 15);
    assert_string_equal(got, "[rank 1] hello\n");
    assert_false(sink_waits(&sink));
    sink_close(&sink);
    close(fd[0]);
    close(fd[1]);
}

static void leaves_the_flags_of_a_shared_pipe_alone(void **state)
{
    struct sink sink;
    int fd[2];

    (void)state;
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(sink_open(&sink, fd[1], "out"), 0);
    assert_false(fcntl(fd[1], F_GETFL) & O_NONBLOCK);
    sink_close(&sink);
    close(fd[0]);
    close(fd[1]);
}

/* Reads until a line that counts what was dropped; returns shown + dropped. */
static uint64_t count_lines(FILE *file)
{
    unsigned long long dropped = 0;
    uint64_t shown = 0;
    char line[2048];

    while (!dropped && fgets(line, sizeof(line), file))
        if (sscanf(line, "lockstep run: %llu lines", &dropped) != 1)
            shown++;
    return shown + dropped;
}

static void drops_and_counts_what_a_stuck_reader_does_not_take(int fd[2])
{
    static char text[1000];
    struct sink sink;
    uint64_t put_lines = 20000; /* 20 MB: more than queue and pipe hold */
    FILE *reader = fdopen(fd[0], "r");

    memset(text, 'x', sizeof(text) - 1);
    assert_int_equal(sink_open(&sink, fd[1], "out"), 0);
    for (uint64_t i = 0; i < put_lines; i++)
        put(&sink, text); /* would hang here if it waited */
    assert_true(sink.dropped > 0);
    assert_true(sink_waits(&sink));
    /* The reader wakes up: takes turns with the writer, as two processes would. */
    if (fork() == 0) {
        sink_flush(&sink, INT64_C(5000000000));
        _exit(0);
    }
    sink_close(&sink);
    close(fd[1]);
    assert_int_equal(count_lines(reader), put_lines);
    fclose(reader);
}

static void a_stuck_pipe_does_not_stop_us(void **state)
{
    int fd[2];

    (void)state;
    assert_int_equal(pipe(fd), 0);
    drops_and_counts_what_a_stuck_reader_does_not_take(fd);
}

static void a_stuck_socket_does_not_stop_us(void **state)
{
    int fd[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    drops_and_counts_what_a_stuck_reader_does_not_take(fd);
}

static void a_reader_that_has_gone_is_no_error(void **state)
{
    struct sink sink;
    int fd[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(sink_open(&sink, fd[1], "out"), 0);
    close(fd[0]);
    put(&sink, "hello");
    assert_true(sink.closed);
    put(&sink, "hello");
    assert_false(sink_waits(&sink));
    assert_int_equal(sink_flush(&sink, 0), 0);
    sink_close(&sink);
    close(fd[1]);
}

static void a_file_gets_everything_at_its_own_place(void **state)
{
    char path[] = "/tmp/lockstep-sink.XXXXXX", got[64] = "";
    struct sink sink;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "before\n", 7), 7);
    assert_int_equal(sink_open(&sink, fd, "out"), 0);
    put(&sink, "hello");
    sink_close(&sink);
    assert_int_equal(pread(fd, got, sizeof(got) - 1, 0), 22);
    assert_string_equal(got, "before\n[rank 1] hello\n");
    close(fd);
    unlink(path);
}

/* A file of at most a page: the rest does not fit, as on a full disk. */
static void lines_that_a_full_disk_lost_are_counted(void **state)
{
    char path[] = "/tmp/lockstep-sink.XXXXXX", line[101], got[8192];
    struct rlimit limit, little = { 4096, RLIM_INFINITY };
    struct sink sink;
    int fd = mkstemp(path);
    uint64_t whole = 0, lost;
    ssize_t size;

    (void)state;
    assert_true(fd >= 0);
    unlink(path);
    memset(line, 'x', sizeof(line));
    line[100] = '\0';
    assert_int_equal(sink_open(&sink, fd, "out"), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_IGN);
    little.rlim_max = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    for (int i = 0; i < 100; i++) { /* many wait at once: all of them are lost, not one */
        sink_put(&sink,
                 &(struct sink_piece){ .prefix = "", .text = line, .length = 100, .end = '\n' });
        if (i % 10 == 9)
            sink_write(&sink);
    }
    lost = sink_flush(&sink, 0); /* and it comes back */
    setrlimit(RLIMIT_FSIZE, &limit);
    size = pread(fd, got, sizeof(got), 0);
    for (ssize_t i = 0; i < size; i++)
        whole += got[i] == '\n';
    assert_int_equal(whole, 40); /* of 101 bytes in 4096 */
    assert_int_equal(lost, 60);
    sink_close(&sink);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_that_a_full_disk_lost_are_counted),
        cmocka_unit_test(shows_whole_lines_with_their_rank),
        cmocka_unit_test(a_line_in_pieces_has_one_prefix),
        cmocka_unit_test(a_line_is_broken_off_for_another_writer),
        cmocka_unit_test(a_progress_bar_stays_on_its_line),
        cmocka_unit_test(two_progress_bars_do_not_share_a_line),
        cmocka_unit_test(a_return_and_newline_end_one_line),
        cmocka_unit_test(without_a_prefix_every_byte_is_passed_on),
        cmocka_unit_test(leaves_the_flags_of_a_shared_pipe_alone),
        cmocka_unit_test(a_stuck_pipe_does_not_stop_us),
        cmocka_unit_test(a_stuck_socket_does_not_stop_us),
        cmocka_unit_test(a_reader_that_has_gone_is_no_error),
        cmocka_unit_test(a_file_gets_everything_at_its_own_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
