/* test-launcher-log.c - the launcher's facts can be read back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/launcher_log.h"
#include "base/remove_tree.h"
#include "wire/spool.h"

static void begin_with_hello_and_come_in_order(void **state)
{
    char folder[] = "/tmp/lockstep-tell.XXXXXX", path[64];
    const struct fact_run run = {
        .event = RUN_ATTEMPT_BEGIN, .attempt = 2, .ranks = 4, .culprit = -1, .text = "cmd"
    };
    const struct fact_exit ended = {
        .rank = 3, .attempt = 2, .status = 9, .ended_by_launcher = true, .text = "killed"
    };
    struct spool_reader *reader;
    struct fact_hello hello;
    struct fact_run run_back;
    struct fact_exit exit_back;
    struct launcher_log *log;
    struct frame frame;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/launcher.lsf", folder);
    assert_int_equal(launcher_log_open(folder, "r1", "n0", &log, NULL), 0);
    assert_int_equal(launcher_log_run(log, &run, NULL), 0);
    assert_int_equal(launcher_log_exit(log, &ended, NULL), 0);
    launcher_log_close(log);

    assert_int_equal(spool_reader_open(path, &reader, NULL), 0);
    assert_int_equal(spool_next(reader, &frame, NULL), 1);
    assert_int_equal(frame.type, FRAME_HELLO);
    assert_int_equal(fact_hello_get(reader_of(frame.payload, frame.payload_bytes), &hello), 0);
    assert_int_equal(hello.kind, SENDER_LAUNCHER);
    assert_string_equal(hello.run, "r1");
    assert_int_equal(spool_next(reader, &frame, NULL), 1);
    assert_int_equal(frame.type, FRAME_RUN);
    assert_int_equal(fact_run_get(reader_of(frame.payload, frame.payload_bytes), &run_back), 0);
    assert_int_equal(run_back.event, RUN_ATTEMPT_BEGIN);
    assert_int_equal(run_back.attempt, 2);
    assert_int_equal(run_back.culprit, -1);
    assert_int_equal(spool_next(reader, &frame, NULL), 1);
    assert_int_equal(frame.type, FRAME_EXIT);
    assert_int_equal(fact_exit_get(reader_of(frame.payload, frame.payload_bytes), &exit_back), 0);
    assert_int_equal(exit_back.rank, 3);
    assert_int_equal(exit_back.status, 9);
    assert_true(exit_back.ended_by_launcher);
    assert_int_equal(spool_next(reader, &frame, NULL), 0);
    spool_reader_close(reader);
    tree_remove(folder);
}

static void says_how_a_process_ended(void **state)
{
    char text[64];

    (void)state;
    launcher_log_status_text(W_EXITCODE(3, 0), text, sizeof(text));
    assert_string_equal(text, "exited with 3");
    launcher_log_status_text(9, text, sizeof(text));
    assert_string_equal(text, "killed by signal 9 (SIGKILL)");
    assert_int_equal(launcher_log_status_code(9), 137);
    assert_int_equal(launcher_log_status_code(W_EXITCODE(3, 0)), 3);
}

static void writes_a_command_as_a_shell_would_need_it(void **state)
{
    char *command[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "a b" }, (char[]){ "" },
                        NULL };
    char text[64], small[8];

    (void)state;
    launcher_log_command_text(command, text, sizeof(text));
    assert_string_equal(text, "sh -c 'a b' ''");
    launcher_log_command_text(command, small, sizeof(small));
    assert_string_equal(small, "sh -c '");
}

static void writes_bytes_that_are_not_utf8_as_escapes(void **state)
{
    char *command[] = { (char *)"echo", (char *)"gr\xc3\xbc\xc3\x9f", (char *)"x\xffy", NULL };
    char text[64], small[8], cut[8];

    (void)state;
    launcher_log_command_text(command, text, sizeof(text));
    assert_string_equal(text, "echo 'gr\xc3\xbc\xc3\x9f' 'x\\xffy'");
    launcher_log_word_text("a\xffz", small, sizeof(small));
    assert_string_equal(small, "a\\xffz");
    launcher_log_word_text("abcdef\xc3\xbc", cut, sizeof(cut)); /* not half of a character */
    assert_string_equal(cut, "abcdef");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begin_with_hello_and_come_in_order),
        cmocka_unit_test(says_how_a_process_ended),
        cmocka_unit_test(writes_a_command_as_a_shell_would_need_it),
        cmocka_unit_test(writes_bytes_that_are_not_utf8_as_escapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
