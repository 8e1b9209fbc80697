/* test-log-reader.c - when lines were written, in all the ways in which tools print it; which lines are kept; what they mean.
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
#include "read/log/log_reader.h"
#include "read/source/stream.h"
#include "wire/verdict.h"

#define NOON INT64_C(1794744063) /* Sunday 2026-11-15 12:01:03 UTC */
#define DAY_NS (86400 * NS_PER_S)
#define XID "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus."

static int read_memory(struct log_reader *reader, const struct log_source *source, const char *text,
                       size_t bytes)
{
    CLEAN(stream_clean) struct stream *stream = NULL;
    int result = stream_open_memory(text, bytes, &stream);

    return result < 0 ? result : log_reader_stream(reader, source, stream, NULL);
}

static void add(struct log_reader *reader, const char *name, uint32_t rank, const char *text)
{
    const struct log_source source = { .name = name,
                                       .rank = rank,
                                       .near_real_ns = reader->until_real_ns ? reader->until_real_ns
                                                                             : NOON * NS_PER_S };

    assert_int_equal(read_memory(reader, &source, text, strlen(text)), 0);
}

static struct logs read_text(const char *text)
{
    CLEAN(log_reader_fini) struct log_reader reader = { 0 };
    struct logs logs;

    add(&reader, "train.log", LOG_EVENT_NO_RANK, text);
    assert_int_equal(log_reader_take(&reader, &logs), 0);
    return logs;
}

static struct logs read_around(const char *text, int64_t before_ns, int64_t after_ns)
{
    CLEAN(log_reader_fini)
    struct log_reader reader = { .from_real_ns = NOON * NS_PER_S - before_ns,
                                 .until_real_ns = NOON * NS_PER_S + after_ns };
    struct logs logs;

    add(&reader, "dmesg", LOG_EVENT_NO_RANK, text);
    assert_int_equal(log_reader_take(&reader, &logs), 0);
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
        if (logs.events != 1)
            fail_msg("not read: %s", line);
        if (logs.event[0].real_ns != NOON * NS_PER_S)
            fail_msg("%s is %lld", begins[i], (long long)logs.event[0].real_ns);
        assert_int_equal(logs.event[0].pid, 4242);
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
        assert_int_equal(logs.events, 1);
        assert_int_equal(logs.event[0].real_ns, 0);
        assert_int_equal(logs.event[0].boot_ns, INT64_C(98712250000000));
    }
    (void)state;
}

/* A log of the year before, read in January, is not of this year. */
static void takes_the_nearest_year(void **state)
{
    CLEAN(log_reader_fini)
    struct log_reader reader = { .from_real_ns = (NOON + 40 * 86400) * NS_PER_S,
                                 .until_real_ns = (NOON + 60 * 86400) * NS_PER_S }; /* January */
    CLEAN(logs_fini) struct logs logs = { 0 };

    add(&reader, "kern.log", LOG_EVENT_NO_RANK, "Dec 31 12:01:03 n7 kernel: " XID);
    assert_int_equal(log_reader_take(&reader, &logs), 0);
    assert_int_equal(logs.events, 1);
    assert_int_equal(logs.event[0].real_ns, (NOON + 46 * 86400) * NS_PER_S);
    (void)state;
}

static void dates_are_kept_without_asking_for_a_time(void **state)
{
    CLEAN(logs_fini)
    struct logs logs = read_text("Nov 15 12:01:03 n7 kernel: " XID "\n" XID "\n");

    assert_int_equal(logs.events, 2);
    assert_int_equal(logs.event[0].real_ns, NOON * NS_PER_S);
    assert_int_equal(logs.event[1].real_ns, 0);
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
        if (logs.events)
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
    CLEAN(log_reader_fini) struct log_reader reader = { 0 };
    size_t used = 0;

    (void)state;
    for (int i = 1; i <= LINES; i++) /* every other line says something else */
        used +=
            (size_t)snprintf(text + used, LINE + 1, "%s\n", i % 2 ? "usb 1-1: new device" : XID);
    add(&reader, "dmesg", LOG_EVENT_NO_RANK, text);
    assert_int_equal(log_reader_take(&reader, &logs), 0);
    assert_int_equal(logs.events, KEPT);
    for (uint32_t i = 0; i < KEPT / 2; i++) {
        assert_int_equal(logs.event[i].line, 2 * (i + 1));
        assert_int_equal(logs.event[KEPT / 2 + i].line, LINES - 2 * (KEPT / 2 - 1 - i));
    }
}

static void keeps_the_last_traceback(void **state)
{
    CLEAN(free_clean) char *text = calloc(100, 100);
    CLEAN(logs_fini) struct logs logs = { 0 };
    CLEAN(log_reader_fini) struct log_reader reader = { 0 };
    size_t used = 0;

    (void)state;
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(text + used, 100,
                                 "Traceback (most recent call last):\n  File \"a.py\"\n%s\n\n",
                                 i == 59 ? "ValueError: the end" : "OSError: tried again");
    add(&reader, "rank3.log", 3, text);
    assert_int_equal(log_reader_take(&reader, &logs), 0);
    assert_true(logs.events >= 32);
    assert_string_equal(logs.event[31].text, "ValueError: the end");
    assert_int_equal(logs.event[31].line, 59 * 4 + 3);
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

        assert_int_equal(logs.events, 1);
        assert_int_equal(logs.event[0].pid, rows[i].pid);
    }
    (void)state;
}

/* ---- what stands before a message ---- */

static void finds_the_rank_behind_any_prefix(void **state)
{
    static const struct {
        const char *begin;
        uint32_t rank;
        const char *node;
    } rows[] = {
        { "[rank7]: ", 7, "" },
        { "[rank7]:[E1115 12:01:03.123456789 x.cpp:12] ", 7, "" },
        { "[Rank 7] ", 7, "" },
        { "[PG ID 0 PG GUID 0(default_pg) Rank 7] ", 7, "" },
        { "[E ProcessGroupNCCL.cpp:475] [Rank 7] ", 7, "" },
        { "7: ", 7, "" },
        { " 7: ", 7, "" },
        { "[1,7]<stderr>:", 7, "" },
        { "[1,7]<stdout>: ", 7, "" },
        { "[1,7]<stdout>:n7:75:95 [2] ", 7, "n7" },
        { "Sun Nov 15 12:01:03 2026[7]<stderr>:", 7, "" },
        { " 12%|##   | 12/100 [00:10<01:00,  1.87s/it][rank7]:[E1115 12:01:03.12 x.cpp:12] ", 7,
          "" },
        { "[1784] [rank7]:[E1115 12:01:03.123456789 x.cpp:12] ", 7, "" },
        { "[default7]:", 7, "" },
        { "worker-7  | ", 7, "" },
        { "[worker-7] ", 7, "" },
        { "rank=7 ", 7, "" },
        { "Rank 7: ", 7, "" },
        { "(RayTrainWorker pid=1234, ip=10.0.0.7) ", LOG_EVENT_NO_RANK, "10.0.0.7" },
        { "(VllmWorker rank=7 pid=1234) ", 7, "" },
        { "node07: ", LOG_EVENT_NO_RANK, "node07" },
        { "10.3.35.83: ", LOG_EVENT_NO_RANK, "10.3.35.83" },
        { "[pod/trainer-worker-3/pytorch] ", LOG_EVENT_NO_RANK, "trainer-worker-3" },
        { "2026-11-15T12:01:03.123456789Z stderr F [rank7]: ", 7, "" },
        { "Nov 15 12:01:03 gpu-12 python[4242]: [rank7]: ", 7, "gpu-12" },
        { "[2026-11-15 12:01:03,123] [ERROR] [launch.py:321:main] ", LOG_EVENT_NO_RANK, "" },
        { "2026-11-15 12:01:03,123 - ERROR - rank 7 - ", 7, "" },
        { "n7:1234:1300 [3] ", LOG_EVENT_NO_RANK, "n7" },
        { "python3: ", LOG_EVENT_NO_RANK, "" },
        { "", LOG_EVENT_NO_RANK, "" },
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        CLEAN(logs_fini) struct logs logs = { 0 };
        char line[300];

        snprintf(line, sizeof(line), "%sRuntimeError: CUDA out of memory. Tried\r\n",
                 rows[i].begin);
        logs = read_text(line);
        if (logs.events != 1 || logs.event[0].rank != rows[i].rank)
            fail_msg("%s: %zu events, rank %u", line, logs.events,
                     logs.events ? logs.event[0].rank : 0);
        assert_string_equal(logs.event[0].node, rows[i].node);
        assert_int_equal(logs.event[0].layer, LAYER_GPU_MEMORY);
    }
    (void)state;
}

static void local_ranks_of_two_nodes_are_no_ranks(void **state)
{
    CLEAN(logs_fini)
    struct logs logs = read_text("node1: [default3]:RuntimeError: CUDA out of memory.\n"
                                 "node2: [default3]:RuntimeError: CUDA out of memory.\n");

    assert_int_equal(logs.events, 2);
    assert_int_equal(logs.event[0].rank, LOG_EVENT_NO_RANK);
    assert_int_equal(logs.event[1].rank, LOG_EVENT_NO_RANK);
    (void)state;
}

static void colours_and_progress_bars_hide_nothing(void **state)
{
    CLEAN(logs_fini)
    struct logs logs = read_text("a\n 10%|#\r 20%|##\r\033[1;31mRuntimeError\033[0m: CUDA error: "
                                 "\033[1munspecified launch failure\033[0m\r 30%\nb\n");

    assert_int_equal(logs.events, 1);
    assert_int_equal(logs.event[0].line, 2);
    assert_string_equal(logs.event[0].text, "RuntimeError: CUDA error: unspecified launch failure");
    (void)state;
}

static void reads_utf16(void **state)
{
    static const char text[] = "first\nRuntimeError: CUDA out of memory.\n";
    CLEAN(log_reader_fini) struct log_reader reader = { 0 };
    CLEAN(logs_fini) struct logs logs = { 0 };
    const struct log_source source = { .name = "win.log", .rank = LOG_EVENT_NO_RANK };
    char wide[2 * sizeof(text) + 2] = "\xff\xfe";

    for (size_t i = 0; i + 1 < sizeof(text); i++)
        wide[2 + 2 * i] = text[i];
    assert_int_equal(read_memory(&reader, &source, wide, 2 * sizeof(text)), 0);
    assert_int_equal(log_reader_take(&reader, &logs), 0);
    assert_int_equal(logs.events, 1);
    assert_int_equal(logs.event[0].line, 2);
    (void)state;
}

static void follows_tracebacks_that_are_mixed(void **state)
{
    CLEAN(logs_fini)
    struct logs logs = read_text("[rank0]: Traceback (most recent call last):\n"
                                 "[rank1]: Traceback (most recent call last):\n"
                                 "[rank0]:   File \"a.py\", line 1, in f\n"
                                 "[rank1]:   File \"a.py\", line 1, in f\n"
                                 "[rank1]:     raise ImportError(\"x\")\n"
                                 "[rank1]: custom.Broken: it is\n"
                                 "[rank0]: KeyError: 'b'\n");

    assert_int_equal(logs.events, 2);
    assert_string_equal(logs.event[0].text, "custom.Broken: it is");
    assert_int_equal(logs.event[0].rank, 1);
    assert_string_equal(logs.event[1].text, "KeyError: 'b'");
    assert_int_equal(logs.event[1].rank, 0);
    (void)state;
}

static void what_comes_while_cleaning_up_is_no_cause(void **state)
{
    CLEAN(logs_fini)
    struct logs logs =
        read_text("Traceback (most recent call last):\n"
                  "  File \"t.py\", line 1\n"
                  "KeyError: 'x'\n"
                  "\n"
                  "During handling of the above exception, another exception occurred:\n"
                  "\n"
                  "Traceback (most recent call last):\n"
                  "  File \"t.py\", line 9\n"
                  "ValueError: y\n"
                  "Exception ignored in: <function X.__del__ at 0x7f>\n"
                  "Traceback (most recent call last):\n"
                  "  File \"x.py\", line 2, in __del__\n"
                  "AttributeError: z\n");

    assert_int_equal(logs.events, 4);
    assert_int_equal(logs.event[0].kind, LOG_EVENT_ERROR);
    for (size_t i = 1; i < logs.events; i++)
        assert_int_equal(logs.event[i].kind, LOG_EVENT_FOLLOW);
    (void)state;
}

static void reads_the_progress_of_a_watchdog(void **state)
{
    CLEAN(logs_fini)
    struct logs logs = read_text("[rank3]:[E1115 12:01:03.9 ProcessGroupNCCL.cpp:1709] [PG ID 0 PG "
                                 "GUID 0(default_pg) Rank 3]  failure "
                                 "detected by watchdog at work sequence id: 70 PG status: last "
                                 "enqueued work: 82, last completed work: 69\n");

    assert_int_equal(logs.events, 1);
    assert_int_equal(logs.event[0].kind, LOG_EVENT_TIMEOUT);
    assert_int_equal(logs.event[0].rank, 3);
    assert_int_equal(logs.event[0].seq, 70);
    assert_int_equal(logs.event[0].enqueued, 82);
    assert_int_equal(logs.event[0].completed, 69);
    assert_string_equal(logs.event[0].group, "0");
    (void)state;
}

static void a_line_longer_than_any_buffer_is_bounded(void **state)
{
    enum {
        LONG = 5 << 20
    };
    CLEAN(free_clean) char *text = malloc(LONG + 64);
    CLEAN(logs_fini) struct logs logs = { 0 };

    memset(text, 'x', LONG);
    strcpy(text + LONG, "\nRuntimeError: CUDA out of memory.\n");
    logs = read_text(text);
    assert_int_equal(logs.events, 1);
    assert_int_equal(logs.event[0].line, 2);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_rank_behind_any_prefix),
        cmocka_unit_test(local_ranks_of_two_nodes_are_no_ranks),
        cmocka_unit_test(colours_and_progress_bars_hide_nothing),
        cmocka_unit_test(reads_utf16),
        cmocka_unit_test(follows_tracebacks_that_are_mixed),
        cmocka_unit_test(what_comes_while_cleaning_up_is_no_cause),
        cmocka_unit_test(reads_the_progress_of_a_watchdog),
        cmocka_unit_test(a_line_longer_than_any_buffer_is_bounded),
        cmocka_unit_test(reads_every_way_to_say_a_date),
        cmocka_unit_test(reads_times_since_boot),
        cmocka_unit_test(takes_the_nearest_year),
        cmocka_unit_test(dates_are_kept_without_asking_for_a_time),
        cmocka_unit_test(leaves_out_what_is_of_another_time_or_of_none),
        cmocka_unit_test(keeps_the_first_and_the_last_of_many),
        cmocka_unit_test(keeps_the_last_traceback),
        cmocka_unit_test(finds_the_process_a_line_speaks_of),
    };

    setenv("TZ", "UTC", 1);
    tzset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
