/* test-last-words.c - what is kept of a rank's stderr.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "act/output/last_words.h"

static char picked[512];

static const char *pick(const char *text, size_t room)
{
    memset(picked, 'x', sizeof(picked));
    last_words_pick(text, strlen(text), picked, room);
    assert_true(strlen(picked) < room);
    return picked;
}

static void short_output_is_kept_as_it_is(void **state)
{
    (void)state;
    assert_string_equal(pick("", 512), "");
    assert_string_equal(pick("\n\n", 512), "");
    assert_string_equal(pick("one\ntwo\n", 512), "one\ntwo");
    assert_string_equal(pick("a\tb\033[0m", 512), "a b [0m");
}

static void a_message_is_kept_though_frames_follow_it(void **state)
{
    char text[8192] = "old line\n";
    size_t used;

    (void)state;
    strcat(text, "terminate called after throwing an instance of 'c10::DistBackendError'\n"
                 "  what():  Watchdog caught collective operation timeout\n"
                 "Exception raised from checkTimeout at ProcessGroupNCCL.cpp:632\n");
    used = strlen(text);
    for (int i = 0; i < 20; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "frame #%d: <unknown function> + 0xdc253 (0x7fb6358b0253 in "
                                 "/usr/lib/x86_64-linux-gnu/libstdc++.so.6)\n",
                                 i);
    assert_string_equal(pick(text, 512),
                        "old line\n"
                        "terminate called after throwing an instance of 'c10::DistBackendError'\n"
                        "  what():  Watchdog caught collective operation timeout");
}

static void warnings_and_marks_below_code_are_left_out(void **state)
{
    (void)state;
    assert_string_equal(pick("[rank1]:   File \"a.py\", line 3, in <module>\n[rank1]:     x = f()\n"
                             "[rank1]:         ^^^\n[rank1]: ValueError: no\n"
                             "[rank1]:[W118 10:00:00 ProcessGroupNCCL.cpp:1553] Warning: WARNING: "
                             "destroy_process_group() was not called\n"
                             "/a.py:3: UserWarning: old\n  warnings.warn(\n",
                             512),
                        "[rank1]:   File \"a.py\", line 3, in <module>\n[rank1]:     x = f()\n"
                        "[rank1]: ValueError: no");
    assert_string_equal(pick("/a.py:3: UserWarning: old\n  warnings.warn(\n", 512),
                        "  warnings.warn("); /* there is nothing else */
}

static void a_line_that_does_not_fit_keeps_its_begin(void **state)
{
    char text[2048] = "before\ntorch.OutOfMemoryError: CUDA out of memory. ";
    size_t used = strlen(text);

    (void)state;
    memset(text + used, 'x', 1000);
    assert_int_equal(strlen(pick(text, 512)), 511);
    assert_memory_equal(picked, "torch.OutOfMemoryError: CUDA out of memory. xx", 40);
    strcat(text, "\nlast");
    assert_int_equal(strlen(pick(text, 512)), 511);
    assert_memory_equal(picked, "torch.OutOfMemoryError: CUDA out of memory. xx", 40);
    assert_string_equal(picked + 511 - 5, "\nlast");
    assert_string_equal(pick("1234567890\nabcdef", 8), "abcdef");
    assert_string_equal(pick("1234567890", 8), "1234567");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_output_is_kept_as_it_is),
        cmocka_unit_test(a_message_is_kept_though_frames_follow_it),
        cmocka_unit_test(warnings_and_marks_below_code_are_left_out),
        cmocka_unit_test(a_line_that_does_not_fit_keeps_its_begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
