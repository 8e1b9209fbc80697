/* test-crash-words.c - what torch and NCCL print when a rank ends: which line counts, and who is only a victim.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/test/crash_scene.h"

#include "judge/crash/crash_private.h"

#define FRAMES                                                                                     \
    "Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d/"                  \
    "ProcessGroupNCCL.cpp:632 (most recent call first):\n"                                         \
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f5a in libc10.so)\n" \
    "frame #4: <unknown function> + 0xdc253 (0x7fb6 in /usr/lib/x86_64-linux-gnu/libstdc++.so.6)"
#define WATCHDOG                                                                                   \
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"                     \
    "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated "  \
    "with exception: "
#define TIMEOUT                                                                                    \
    WATCHDOG "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, "          \
             "OpType=ALLREDUCE, NumelIn=112, NumelOut=112, Timeout(ms)=8000) ran for 8011 "        \
             "milliseconds before timing out.\n" FRAMES
#define OOM                                                                                        \
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.81 GiB "   \
    "of which 3.45 GiB is free. Including non-PyTorch memory, this process has 136.35 GiB memory " \
    "in use. Of the allocated memory 135.73 GiB is allocated by PyTorch, and 22.50 MiB is "        \
    "reserved by PyTorch but unallocated."

static void ends_with(struct bench *bench, uint32_t rank, int64_t ms, int status, const char *words)
{
    struct fact_exit fact = {
        .rank = rank, .attempt = bench->lab->attempt, .mono_ns = ms * MS, .status = status
    };

    snprintf(fact.text, sizeof(fact.text), status & 127 ? "killed by signal 6" : "exited with 1");
    snprintf(fact.words, sizeof(fact.words), "%s", words);
    crash_exit(&bench->judge, &fact);
}

static void best_is(const char *words, const char *expected)
{
    size_t size;
    const char *best = crash_best_line(words, &size);

    assert_int_equal(size, strlen(expected));
    assert_memory_equal(best, expected, size);
}

static void the_line_that_says_most_is_found(void **state)
{
    (void)state;
    best_is("", "");
    best_is("frame #4: <unknown function> + 0xdc253 (0x7f in libstdc++.so.6)", "");
    best_is("one\ntwo\n\n", "two");
    best_is("ValueError: broken\n/x.py:3: UserWarning: this is deprecated\n  warnings.warn(",
            "ValueError: broken");
    best_is("[rank3]: ValueError: broken\n[rank3]:[W101 10:00:00 ProcessGroupNCCL.cpp:1553] "
            "Warning: WARNING: destroy_process_group() was not called",
            "ValueError: broken");
    best_is("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, "
            "unhandled cuda error, NCCL version 2.28.9\n"
            "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
            "Cuda failure 1 'invalid argument'\n" FRAMES,
            "Cuda failure 1 'invalid argument'");
    best_is(WATCHDOG "CUDA error: an illegal memory access was encountered\nCUDA kernel errors "
                     "might be asynchronously reported at some other API call\n" FRAMES,
            "[PG ID 0 PG GUID 0(default_pg) Rank 3] Process group watchdog thread terminated with "
            "exception: CUDA error: an illegal memory access was encountered");
    best_is("Last error:", "");
    best_is("Last error:\n", "");
}

static void only_a_fault_of_its_own_makes_a_watchdog_the_cause(void **state)
{
    struct fact_exit fact = { .status = SIGABRT };

    (void)state;
    snprintf(fact.words, sizeof(fact.words), "%s", TIMEOUT);
    assert_true(crash_blames_others(&fact));
    assert_true(crash_gave_up(&fact));
    snprintf(fact.words, sizeof(fact.words), "%s",
             WATCHDOG "CUDA error: an illegal memory access was encountered");
    assert_false(crash_blames_others(&fact));
    snprintf(
        fact.words, sizeof(fact.words),
        "[PG ID 0 Rank 1] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making "
        "progress in monitoring enqueued collectives.");
    assert_true(crash_gave_up(&fact));
    snprintf(fact.words, sizeof(fact.words),
             "NCCL error: unhandled cuda error\nLast error:\n"
             "Cuda failure 2 'out of memory'");
    assert_false(crash_blames_others(&fact));
    assert_int_equal(crash_words_layer(fact.words, LAYER_UNKNOWN), LAYER_GPU_MEMORY);
    assert_int_equal(crash_words_layer("numpy.core._exceptions._ArrayMemoryError: Unable", 0),
                     LAYER_HOST_MEMORY);
    assert_int_equal(crash_words_layer("ValueError: no", LAYER_CPU), LAYER_CPU);
}

static void a_device_without_memory_is_told_with_the_whole_message(void **state)
{
    struct bench bench = four();
    const struct verdict *verdict;
    char whole[1024] = "";

    (void)state;
    ends_with(&bench, 0, 4990, SIGABRT, TIMEOUT);
    ends_with(&bench, 2, 5000, 1 << 8, "[rank2]: torch.OutOfMemoryError: " OOM);
    ends_with(&bench, 3, 5100, 1 << 8, CLOSED);
    crash_judge(&bench.judge, 6100 * MS, true);
    verdict = crash_of(&bench);
    assert_int_equal(verdict->rank[0], 2);
    assert_int_equal(verdict->layer, LAYER_GPU_MEMORY);
    for (uint32_t i = 0; i < verdict->because_count; i++) {
        const char *what = verdict->because[i].what;
        size_t used = strlen(whole), size = strlen(what);
        bool more = size > 4 && strcmp(what + size - 4, " ...") == 0;

        if (strcmp(verdict->because[i].source, "stderr") != 0)
            continue;
        what += strncmp(what, "... ", 4) == 0 ? 4 : strlen("last error output: ");
        snprintf(whole + used, sizeof(whole) - used, "%s", what);
        if (more)
            whole[strlen(whole) - 3] = '\0'; /* the space between two words stays */
    }
    assert_string_equal(whole, "torch.OutOfMemoryError: " OOM);
    assert_string_equal(verdict->cause, "exited with 1: torch.OutOfMemoryError: CUDA out of "
                                        "memory. Tried to allocate 20.00 GiB. ...");
    bench_close(&bench);
}

/* Ranks 0 and 1 are in an all-reduce of the world, 2 and 3 in another of theirs. */
static void inside(struct bench *bench, uint32_t rank, uint64_t comm, uint64_t bytes)
{
    struct fact_beat fact = { .rank = rank,
                              .attempt = bench->judge.model.attempt,
                              .mono_ns = 5000 * MS,
                              .state = 'S',
                              .ops = 1 };

    fact.op[0] = (struct beat_op){ .kind = ITEM_COLL,
                                   .what = LOCKSTEP_OP_ALL_REDUCE,
                                   .comm = comm,
                                   .key = 12,
                                   .started = true,
                                   .bytes = bytes };
    assert_int_equal(hang_beat(&bench->judge, &fact), 0);
}

static void a_disagreement_in_another_communicator_wins_over_who_aborted_first(void **state)
{
    struct bench bench = four();
    struct fact_comm pair = { .id = 0x77, .size = 2, .name = "pair" };

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        pair.rank = 2 + i;
        pair.index = i;
        assert_int_equal(model_comm(&bench.judge.model, &pair), 0);
    }
    inside(&bench, 0, 0x4000, 4096);
    inside(&bench, 1, 0x4000, 4096);
    inside(&bench, 2, 0x77, 4096);
    inside(&bench, 3, 0x77, 8192);
    ends_with(&bench, 0, 5000, SIGABRT, "");
    ends_with(&bench, 1, 5010, SIGABRT, "");
    ends_with(&bench, 3, 5020, SIGABRT, "");
    crash_judge(&bench.judge, 6100 * MS, true);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_CRASH), 0);
    assert_int_equal(lab_open_count(&bench.judge, VERDICT_DESYNC), 1);
    assert_string_equal(lab_open(&bench.judge, VERDICT_DESYNC, 0)->verdict.group, "pair");
    bench_close(&bench);
}

#define OTHER_SIZE "[enforce fail at pair.cc:510] op.preamble.length <= op.nbytes. 85004 vs 4"

/* Rank 1 leaves out the last collective of a step; rank 0 receives what belongs to the next one and aborts. */
static void one_that_receives_the_wrong_collective_is_not_the_culprit(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        struct bench bench = four();
        const struct past_step *past = bench_past(&bench);
        const struct verdict *verdict;

        for (uint32_t rank = 0; rank < 4; rank++)
            past->split[rank].unfinished = known && rank != 1;
        ends_with(&bench, 0, 5000, SIGABRT, OTHER_SIZE);
        crash_judge(&bench.judge, 6100 * MS, true);
        assert_int_equal(lab_open_count(&bench.judge, 0), 1);
        verdict = &lab_open(&bench.judge, VERDICT_DESYNC, 0)->verdict;
        assert_int_equal(verdict->rank_count, known);
        assert_true(verdict->confidence < (known ? 0.9 : 0.7));
        if (known)
            assert_int_equal(verdict->rank[0], 1);
        bench_close(&bench);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_that_says_most_is_found),
        cmocka_unit_test(only_a_fault_of_its_own_makes_a_watchdog_the_cause),
        cmocka_unit_test(a_device_without_memory_is_told_with_the_whole_message),
        cmocka_unit_test(a_disagreement_in_another_communicator_wins_over_who_aborted_first),
        cmocka_unit_test(one_that_receives_the_wrong_collective_is_not_the_culprit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
