/* test-report.c - texts of NCCL's RAS, torchfrtrace, py-spy, torch.distributed.debug and nvidia-smi.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "read/report/report.h"
#include "wire/verdict.h"

static struct reports read_text(const char *text)
{
    struct reports reports = { 0 };

    assert_int_equal(report_add(&reports, NULL, 7, "a.txt", text, strlen(text)), 0);
    return reports;
}

#define RAS_HEAD                                                                                   \
    "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n"            \
    "(total)   per node  per process    (total)  (total)\n      4          8            1        " \
    " "                                                                                            \
    "32       32\n\nCommunicators... (0.00s)\n\nWarnings\n========\n\n"                            \
    "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllGather operation "   \
    "counts\n"

static void ranks_with_the_lower_count_are_behind(void **state)
{
    struct reports reports =
        read_text(RAS_HEAD "  30 ranks have launched up to operation 641\n"
                           "  2 ranks have launched up to operation 640\n"
                           "  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124\n"
                           "  Rank 13 -- GPU 5 managed by process 323033 on node 10.137.190.124\n");

    (void)state;
    assert_int_equal(reports.count, 2);
    assert_int_equal(reports.list[0].kind, REPORT_BEHIND);
    assert_int_equal(reports.list[0].rank, 12);
    assert_string_equal(reports.list[0].node, "10.137.190.124");
    assert_int_equal(reports.list[1].rank, 13);
    reports_fini(&reports);
}

static void ranks_that_are_ahead_are_not(void **state)
{
    struct reports reports =
        read_text(RAS_HEAD "  30 ranks have launched up to operation 640\n"
                           "  2 ranks have launched up to operation 641\n"
                           "  Rank 12 -- GPU 4 managed by process 323032 on node 10.137.190.124\n");

    (void)state;
    assert_int_equal(reports.count, 0);
    reports_fini(&reports);
}

static void a_single_rank_stands_in_the_line_of_its_count(void **state)
{
    struct reports reports = read_text(
        RAS_HEAD "  31 ranks have launched up to operation 64\n"
                 "  Rank 7 has launched up to operation 60 -- GPU 3 (NVML 7) managed by process "
                 "1650386 on node node1\n");

    (void)state;
    assert_int_equal(reports.count, 1);
    assert_int_equal(reports.list[0].rank, 7);
    assert_string_equal(reports.list[0].node, "node1");
    assert_false(reports.list[0].unsure);
    reports_fini(&reports);
    reports = read_text(RAS_HEAD "  31 ranks have launched up to operation 64\n"
                                 "  Rank 7 has not launched any operations -- GPU 3 managed by "
                                 "process 1650386 on node node1\n");
    assert_int_equal(reports.count, 1);
    reports_fini(&reports);
}

static void one_operation_less_is_nothing_sure(void **state)
{
    struct reports reports =
        read_text(RAS_HEAD "  26 ranks have launched up to operation 6650\n"
                           "  6 ranks have launched up to operation 6649\n"
                           "  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210\n");

    (void)state;
    assert_int_equal(reports.count, 1);
    assert_true(reports.list[0].unsure);
    reports_fini(&reports);
}

#define RAS_TABLE(per_comm, errors)                                                                \
    "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n"            \
    "(total)   per node  per process    (total)  (total)\n      4          8            1     "    \
    "    32       32\n\nCommunicators... (2.05s)\n=============\n\n"                               \
    "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"                  \
    "    #  in group  per comm  per node  per comm  in group\n"                                    \
    "    0         1         4       7-8        " per_comm "        32   RUNNING  INCOMPLETE\n"    \
    "\nErrors\n======\n\n" errors

static void processes_and_ranks_that_do_not_answer_are_dead(void **state)
{
    struct reports reports = read_text(
        RAS_TABLE("32", "DEAD\n  1 job process is considered dead (unreachable via the RAS "
                        "network)\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n\n"
                        "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 "
                        "rank\n  The missing rank: 21\n"));

    (void)state;
    assert_int_equal(reports.count, 2);
    assert_int_equal(reports.list[0].kind, REPORT_DEAD);
    assert_int_equal(reports.list[0].rank, REPORT_NO_RANK);
    assert_string_equal(reports.list[0].node, "172.16.64.213");
    assert_int_equal(reports.list[1].kind, REPORT_DEAD);
    assert_int_equal(reports.list[1].rank, 21);
    reports_fini(&reports);
}

static void ranks_of_smaller_communicators_are_not_ranks_of_the_job(void **state)
{
    struct reports reports = read_text(
        RAS_TABLE(" 4", "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 "
                        "rank\n  The missing rank: 2\n"));

    (void)state;
    assert_int_equal(reports.count, 0);
    reports_fini(&reports);
}

/* As torch 2.14 writes it when rank 2 is stopped. */
static void a_rank_that_does_not_answer_torch_is_elsewhere(void **state)
{
    struct reports reports = read_text(
        "PARTIAL DATA: 1/2 workers responded\n  Rank 1: TimeoutError: \n\n"
        "=== Rank 0: http://vm:37343/handler/dump_traceback? ===\n"
        "Current thread 0x00007f31fdffb6c0 [pt_workerserver] (most recent call first):\n"
        "  <no Python frame>\n\nThread 0x00007f322bae9200 [python3] (most recent call first):\n"
        "  File \"/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py\", line "
        "3913 "
        "in all_reduce\n\n=== Rank 1: http://vm:60979/handler/dump_traceback? ===\nError: 408");

    (void)state;
    assert_int_equal(reports.count, 2);
    assert_int_equal(reports.list[0].kind, REPORT_WAITING);
    assert_int_equal(reports.list[1].kind, REPORT_ELSEWHERE);
    assert_int_equal(reports.list[1].rank, 1);
    reports_fini(&reports);
}

static void a_handler_that_is_not_there_says_nothing(void **state)
{
    const char text[] = "PARTIAL DATA: 0/1 workers responded\n  Rank 0: Handler "
                        "torchcomms_health_check not found\n\n=== Rank 0: "
                        "http://vm:48635/handler/torchcomms_health_check? ===\nError: 404";

    (void)state;
    assert_int_equal(report_text_of(text, sizeof(text) - 1), REPORT_TEXT_NONE);
}

static void missing_ranks_of_a_trace_are_behind(void **state)
{
    struct reports reports = read_text(
        "Not all ranks joining collective: sequence number: 31117\ninternal record id: 31116\n"
        "group info: 0:default_pg\ncollective: nccl:all_reduce\nmissing ranks: {3, 4}\n"
        "expected ranks: {0, 1, 2, 3, 4, 5, 6, 7}\n");

    (void)state;
    assert_int_equal(reports.count, 2);
    assert_int_equal(reports.list[1].rank, 4);
    assert_string_equal(reports.list[0].what,
                        "did not join nccl:all_reduce 31117 of group 0:default_pg");
    reports_fini(&reports);
}

static void where_most_are_missing_nobody_is_named(void **state)
{
    struct reports reports = read_text("Not all ranks joining collective: sequence number: 3\n"
                                       "collective: nccl:all_reduce\nmissing ranks: {3, 4, 5}\n"
                                       "expected ranks: {2, 3, 4, 5}\n");

    (void)state;
    assert_int_equal(reports.count, 0);
    reports_fini(&reports);
}

static void the_named_main_thread_counts(void **state)
{
    struct reports reports =
        read_text("Process 4711: python train.py\nPython v3.10.12 (/usr/bin/python3.10)\n\n"
                  "Thread 4711 (idle): \"MainThread\"\n    _try_get_data "
                  "(torch/utils/data/dataloader.py:1251)\n    main (train.py:90)\n"
                  "Thread 4790 (idle): \"Thread-1\"\n    all_reduce "
                  "(torch/distributed/distributed_c10d.py:2806)\n");

    (void)state;
    assert_int_equal(reports.count, 1);
    assert_int_equal(reports.list[0].kind, REPORT_ELSEWHERE);
    assert_int_equal(reports.list[0].layer, LAYER_DATA);
    assert_int_equal(reports.list[0].rank, 7);
    reports_fini(&reports);
}

static void the_last_thread_counts_where_none_is_named(void **state)
{
    struct reports reports =
        read_text("=== Rank 3: node0:34001 ===\nThread 0x1 (most recent call first):\n"
                  "  File \"/usr/lib/python3.12/threading.py\", line 359 in wait\n\n"
                  "Thread 0x2 (most recent call first):\n"
                  "  File \"/opt/torch/distributed/distributed_c10d.py\", line 2806 in all_reduce\n"
                  "  File \"/job/train.py\", line 88 in step\n");

    (void)state;
    assert_int_equal(reports.count, 1);
    assert_int_equal(reports.list[0].kind, REPORT_WAITING);
    assert_int_equal(reports.list[0].rank, 3);
    assert_int_equal(reports.list[0].line, 5);
    reports_fini(&reports);
}

static void only_faults_of_now_count_on_a_device(void **state)
{
    struct reports reports = read_text(
        "==============NVSMI LOG==============\n\nGPU 00000000:1B:00.0\n    ECC Errors\n"
        "        Volatile\n            DRAM Uncorrectable            : 3\n        Aggregate\n"
        "            DRAM Uncorrectable            : 9\n    Remapped Rows\n"
        "        Pending                           : No\n    Clocks Event Reasons\n"
        "        HW Power Brake Slowdown           : Active\n");

    (void)state;
    assert_int_equal(reports.count, 2);
    assert_int_equal(reports.list[0].layer, LAYER_GPU_MEMORY);
    assert_string_equal(reports.list[0].device, "0000:1B:00.0");
    assert_int_equal(reports.list[1].layer, LAYER_POWER);
    reports_fini(&reports);
}

static void a_device_that_needs_a_reset_has_a_fault(void **state)
{
    struct reports reports = read_text(
        "==============NVSMI LOG==============\n\nGPU 00000000:1B:00.0\n"
        "    GPU Recovery Action                   : Drain and Reset\n    GPU Reset Status\n"
        "        Reset Required                    : Yes\n"
        "        Drain and Reset Recommended       : No\n    ECC Errors\n        Volatile\n"
        "            SRAM Uncorrectable Parity     : 0\n"
        "            SRAM Uncorrectable SEC-DED    : 2\n        Aggregate\n"
        "            SRAM Threshold Exceeded       : No\n    Retired Pages\n"
        "        Pending Page Blacklist            : N/A\n"
        "    Remapped Rows\n        Pending                           : Yes\n");

    (void)state;
    assert_int_equal(reports.count, 4);
    reports_fini(&reports);
}

static void a_log_is_no_report(void **state)
{
    const char text[] = "[rank0]: Traceback (most recent call last):\nThread pool started\n";

    (void)state;
    assert_int_equal(report_text_of(text, sizeof(text) - 1), REPORT_TEXT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_with_the_lower_count_are_behind),
        cmocka_unit_test(ranks_that_are_ahead_are_not),
        cmocka_unit_test(a_single_rank_stands_in_the_line_of_its_count),
        cmocka_unit_test(one_operation_less_is_nothing_sure),
        cmocka_unit_test(processes_and_ranks_that_do_not_answer_are_dead),
        cmocka_unit_test(ranks_of_smaller_communicators_are_not_ranks_of_the_job),
        cmocka_unit_test(a_rank_that_does_not_answer_torch_is_elsewhere),
        cmocka_unit_test(a_handler_that_is_not_there_says_nothing),
        cmocka_unit_test(missing_ranks_of_a_trace_are_behind),
        cmocka_unit_test(where_most_are_missing_nobody_is_named),
        cmocka_unit_test(the_named_main_thread_counts),
        cmocka_unit_test(the_last_thread_counts_where_none_is_named),
        cmocka_unit_test(only_faults_of_now_count_on_a_device),
        cmocka_unit_test(a_device_that_needs_a_reset_has_a_fault),
        cmocka_unit_test(a_log_is_no_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
