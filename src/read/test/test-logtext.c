/* test-logtext.c - when lines of kernel logs were written, in all the ways in which tools say it; which are kept.
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
#include <time.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"
#include "read/logtext.h"

#define NOON INT64_C(1794744063) /* Sunday 2026-11-15 12:01:03 UTC */
#define DAY_NS (86400 * NS_PER_S)
#define XID "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus."

static struct logs read_around(const char *text, int64_t before_ns, int64_t after_ns)
{
    struct logtext logtext = { .from_real_ns = NOON * NS_PER_S - before_ns,
                               .until_real_ns = NOON * NS_PER_S + after_ns };
    struct logs logs;

    assert_int_equal(logtext_add_kernel(&logtext, "dmesg", text, strlen(text)), 0);
    assert_int_equal(logtext_take(&logtext, &logs), 0);
    return logs;
}

static void reads_every_way_to_say_a_date(void **state)
{
    static const char *const begins[] = {
        "[Sun Nov 15 12:01:03 2026] ",
        "Nov 15 12:01:03 n7 kernel: ",
        "Nov 15 12:01:03 n7 kernel: [98712.3] ",
        "2026-11-15T12:01:03+0000 n7 kernel: ",
        "2026-11-15T12:01:03.000000+00:00 n7 kernel: ",
        "2026-11-15T12:01:03,000000+00:00 ",
        "2026-11-15T14:01:03+02:00 n7 kernel: ",
        "2026-11-15T03:31:03-08:30 n7 kernel: ",
        "2026-11-15T12:01:03Z n7 kernel: ",
        "2026-11-15 12:01:03 n7 kernel: ",
        "<4>[Sun Nov 15 12:01:03 2026] ",
    };

    for (size_t i = 0; i < COUNT(begins); i++) {
        CLEAN(logs_fini) struct logs logs = { 0 };
        char line[300];

        snprintf(line, sizeof(line), "%s" XID "\n", begins[i]);
        logs = read_around(line, DAY_NS, DAY_NS);
        if (logs.notes != 1)
            fail_msg("not read: %s", line);
        if (logs.note[0].real_ns != NOON * NS_PER_S)
            fail_msg("%s is %lld", begins[i], (long long)logs.note[0].real_ns);
        assert_int_equal(logs.note[0].pid, 4242);
    }
    (void)state;
}

static void reads_times_since_boot(void **state)
{
    static const char *const begins[] = { "[98712.250000] ", "[    98712.25] ", "<6>[98712.250] ",
                                          "6,1234,98712250000,-;" };

    for (size_t i = 0; i < COUNT(begins); i++) {
        CLEAN(logs_fini) struct logs logs = { 0 };
        char line[300];

        snprintf(line, sizeof(line), "%s" XID, begins[i]);
        logs = read_around(line, DAY_NS, DAY_NS);
        assert_int_equal(logs.notes, 1);
        assert_int_equal(logs.note[0].real_ns, 0);
        assert_int_equal(logs.note[0].boot_ns, INT64_C(98712250000000));
    }
    (void)state;
}

/* A log of the year before, read in January, is not of this year. */
static void takes_the_nearest_year(void **state)
{
    struct logtext logtext = { .from_real_ns = (NOON + 40 * 86400) * NS_PER_S,
                               .until_real_ns = (NOON + 60 * 86400) * NS_PER_S }; /* January */
    const char *line = "Dec 31 12:01:03 n7 kernel: " XID;
    CLEAN(logs_fini) struct logs logs = { 0 };

    assert_int_equal(logtext_add_kernel(&logtext, "kern.log", line, strlen(line)), 0);
    assert_int_equal(logtext_take(&logtext, &logs), 0);
    assert_int_equal(logs.notes, 1);
    assert_int_equal(logs.note[0].real_ns, (NOON + 46 * 86400) * NS_PER_S);
    (void)state;
}

static void tells_when_without_asking_for_a_time(void **state)
{
    struct logtext logtext = { .near_real_ns = (NOON + 60 * 86400) * NS_PER_S };
    const char *text = "Nov 15 12:01:03 n7 kernel: " XID "\n" XID "\n";
    CLEAN(logs_fini) struct logs logs = { 0 };

    assert_int_equal(logtext_add(&logtext, LOG_EVENT_NO_RANK, "kern.log", text, strlen(text)), 0);
    assert_int_equal(logtext_take(&logtext, &logs), 0);
    assert_int_equal(logs.notes, 2);
    assert_int_equal(logs.note[0].real_ns, NOON * NS_PER_S);
    assert_int_equal(logs.note[1].real_ns, 0);
    (void)state;
}

static void leaves_out_what_is_of_another_time_or_of_none(void **state)
{
    static const char *const begins[] = {
        "",
        "[] ",
        "[x] ",
        "[Sun Nov 15 12:01:03] ",
        "[Sat Nov 14 12:01:03 2026] ",
        "Nov 14 12:01:03 n7 kernel: ",
        "2026-11-14T12:01:03Z ",
        "6,1234,",
        "6,x,5,-;",
        "[99999999999999999999999.1] ",
        "Feb 31",
        "2026-13-15T12:01:03Z ",
    };

    for (size_t i = 0; i < COUNT(begins); i++) {
        CLEAN(logs_fini) struct logs logs = { 0 };
        char line[300];

        snprintf(line, sizeof(line), "%s" XID, begins[i]);
        logs = read_around(line, 60 * NS_PER_S, 60 * NS_PER_S);
        if (logs.notes)
            fail_msg("was read: %s", line);
    }
    (void)state;
}

static void keeps_the_first_and_the_last_of_many(void **state)
{
    enum {
        LINES = 1000,
        KEPT = 32,
        LINE = 100
    };
    CLEAN(free_clean) char *text = malloc(LINES * LINE + 1);
    CLEAN(logs_fini) struct logs logs = { 0 };
    struct logtext logtext = { .until_real_ns = 0 };
    size_t used = 0;

    (void)state;
    for (int i = 1; i <= LINES; i++) /* every other line says something else */
        used +=
            (size_t)snprintf(text + used, LINE + 1, "%s\n", i % 2 ? "usb 1-1: new device" : XID);
    assert_int_equal(logtext_add(&logtext, LOG_EVENT_NO_RANK, "dmesg", text, used), 0);
    assert_int_equal(logtext_take(&logtext, &logs), 0);
    assert_int_equal(logs.notes, KEPT);
    for (uint32_t i = 0; i < KEPT / 2; i++) {
        assert_int_equal(logs.note[i].line, 2 * (i + 1));
        assert_int_equal(logs.note[KEPT / 2 + i].line, LINES - 2 * (KEPT / 2 - 1 - i));
    }
}

static void keeps_the_last_traceback(void **state)
{
    CLEAN(free_clean) char *text = calloc(100, 100);
    CLEAN(logs_fini) struct logs logs = { 0 };
    struct logtext logtext = { .until_real_ns = 0 };
    size_t used = 0;

    (void)state;
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(text + used, 100,
                                 "Traceback (most recent call last):\n  File \"a.py\"\n%s\n\n",
                                 i == 59 ? "ValueError: the end" : "OSError: tried again");
    assert_int_equal(logtext_add(&logtext, 3, "rank3.log", text, used), 0);
    assert_int_equal(logtext_take(&logtext, &logs), 0);
    assert_true(logs.notes >= 32);
    assert_string_equal(logs.note[31].text, "ValueError: the end");
    assert_int_equal(logs.note[31].line, 59 * 4 + 3);
}

static void finds_the_process_a_line_speaks_of(void **state)
{
    static const struct {
        const char *line;
        uint32_t pid;
    } rows[] = {
        { "[5.0] INFO: task python3:1234 blocked for more than 120 seconds.", 1234 },
        { "[5.0] Memory failure: 0x4a7: Killing python3:77 due to hardware memory corruption", 77 },
        { "[5.0] Out of memory: Killed process 99 (python3) total-vm:1kB", 99 },
        { "[5.0] python3[55]: segfault at 0 ip 0 sp 0 error 4", 55 },
        { "[5.0] nvme nvme0: I/O 12 QID 4 timeout, reset controller", 0 },
        { "[5.0] mlx5_core 0000:81:00.0 eth2: Link down", 0 },
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        CLEAN(logs_fini) struct logs logs = read_around(rows[i].line, DAY_NS, DAY_NS);

        assert_int_equal(logs.notes, 1);
        assert_int_equal(logs.note[0].pid, rows[i].pid);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_way_to_say_a_date),
        cmocka_unit_test(reads_times_since_boot),
        cmocka_unit_test(takes_the_nearest_year),
        cmocka_unit_test(tells_when_without_asking_for_a_time),
        cmocka_unit_test(leaves_out_what_is_of_another_time_or_of_none),
        cmocka_unit_test(keeps_the_first_and_the_last_of_many),
        cmocka_unit_test(keeps_the_last_traceback),
        cmocka_unit_test(finds_the_process_a_line_speaks_of),
    };

    setenv("TZ", "UTC", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
