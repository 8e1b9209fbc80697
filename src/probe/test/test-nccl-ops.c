/* test-nccl-ops.c - launches of NCCL as marks, whatever is known of their kernels.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/nccl_stage.h"

#include <string.h>

#include "probe/nccl_private.h"
#include "wire/ring_format.h"

static struct nccl_p2p_v4 message(const char *func, int peer)
{
    return (struct nccl_p2p_v4){
        .func = func, .datatype = "ncclInt8", .count = 100, .peer = peer, .channels = 1
    };
}

static void kernel_complete(const struct stage *stage, void *task, uint8_t channel)
{
    play_kernel_end(play_kernel(stage->context, task, channel, 0), 0);
}

/* ---- what is told as it should be ---- */

static void an_all_reduce_is_over_with_its_last_channel(void **state)
{
    struct stage stage = stage_open(state);
    void *task = stage_launch(&stage, 2), *first, *second;
    uint64_t began_ns, began_by_ns, stopped_ns;
    const struct ring_event *enqueue, *start, *end;

    stage_counts(&stage, 1, 0, 0);
    began_ns = lockstep_clock_ns();
    first = play_kernel(stage.context, task, 7, play_timer(began_ns)); /* not always from 0 on */
    began_by_ns = lockstep_clock_ns();
    stage_counts(&stage, 1, 1, 0);
    usleep(2000);
    second = play_kernel(stage.context, task, 3, play_timer(began_ns + 1000));
    assert_ptr_not_equal(first, second);
    play_kernel_end(first, play_timer(began_ns + 1000000));
    stage_counts(&stage, 1, 1, 0);
    stopped_ns = lockstep_clock_ns();
    usleep(2000); /* told late: what counts is when it was */
    play_kernel_end(second, play_timer(stopped_ns));
    stage_counts(&stage, 1, 1, 1);

    enqueue = stage_find(&stage, RING_COLL_ENQUEUE, 0);
    assert_int_equal(enqueue->detail, LOCKSTEP_OP_ALL_REDUCE);
    assert_int_equal(enqueue->b, 4096);
    assert_int_equal(enqueue->d, LOCKSTEP_DTYPE_FLOAT32);
    assert_int_equal(enqueue->comm, 0);
    start = stage_find(&stage, RING_COLL_START, 0);
    assert_true(start->time_ns >= began_ns && start->time_ns <= began_by_ns);
    assert_true(enqueue->time_ns <= start->time_ns);
    end = stage_find(&stage, RING_COLL_END, 0);
    assert_true(end->time_ns >= stopped_ns);
    assert_true(end->time_ns <= stopped_ns + (began_by_ns - began_ns));
    stage_close(&stage);
}

static void a_group_begins_at_once_and_each_ends_by_itself(void **state)
{
    struct stage stage = stage_open(state);
    void *group = play_group(stage.context), *task[3];

    for (size_t i = 0; i < 3; i++)
        task[i] = play_coll(stage.context, group, play_all_reduce(8 << i, 1));
    play_stop(group);
    stage_counts(&stage, 3, 0, 0);
    play_kernel(stage.context, task[1], 0, 0);
    stage_counts(&stage, 3, 3, 0);
    kernel_complete(&stage, task[2], 0);
    stage_counts(&stage, 3, 3, 1); /* those before it are of the same kernel */
    kernel_complete(&stage, task[0], 0);
    kernel_complete(&stage, task[1], 0);
    stage_counts(&stage, 3, 3, 3);
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, i)->b, 32 << i);
        assert_true(stage_find(&stage, RING_COLL_START, i)->time_ns <=
                    stage_find(&stage, RING_COLL_END, i)->time_ns);
    }
    stage_close(&stage);
}

static void messages_have_peers_and_a_count_of_their_own(void **state)
{
    struct stage stage = stage_open(state);
    void *group = play_group(stage.context);
    void *send = play_p2p(stage.context, group, message("Send", 2));
    void *receive = play_p2p(stage.context, group, message("Recv", 0));

    play_stop(group);
    kernel_complete(&stage, send, 0);
    kernel_complete(&stage, receive, 0);
    stage_launch(&stage, 1);
    assert_int_equal(stage_find(&stage, RING_P2P_ENQUEUE, 0)->detail, LOCKSTEP_OP_SEND);
    assert_int_equal(stage_find(&stage, RING_P2P_ENQUEUE, 0)->c, 2);
    assert_int_equal(stage_find(&stage, RING_P2P_ENQUEUE, 1)->detail, LOCKSTEP_OP_RECV);
    assert_int_equal(stage_find(&stage, RING_P2P_ENQUEUE, 1)->c, 0);
    assert_int_equal(stage_find(&stage, RING_P2P_ENQUEUE, 1)->b, 100);
    assert_int_equal(stage_count(&stage, RING_P2P_START), 2);
    assert_int_equal(stage_count(&stage, RING_P2P_END), 2);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->detail, LOCKSTEP_OP_ALL_REDUCE);
    assert_int_equal(stage_count(&stage, RING_COLL_METHOD), 1); /* of the all-reduce */
    stage_close(&stage);
}

static void after_a_message_to_itself_only_launches_are_recorded(void **state)
{
    struct stage stage = stage_open(state);
    void *other, *before = stage_launch(&stage, 1);
    const struct ring_event *send;

    assert_null(play_p2p(stage.context, NULL, message("Send", STAGE_RANK)));
    assert_null(play_p2p(stage.context, NULL, message("Send", STAGE_RANK + 1)));
    assert_null(stage_launch(&stage, 1));
    kernel_complete(&stage, before, 0); /* its kernel went before */
    stage_counts(&stage, 2, 1, 1);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->stream, LOCKSTEP_DEVICE_OPS);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 1)->stream, LOCKSTEP_DEVICE_LAUNCHES);
    assert_int_equal(stage_count(&stage, RING_P2P_ENQUEUE), 2);
    assert_int_equal(stage_count(&stage, RING_P2P_START), 0);
    send = stage_find(&stage, RING_P2P_ENQUEUE, 1);
    assert_int_equal(send->stream, LOCKSTEP_DEVICE_LAUNCHES);
    assert_int_equal(send->c, STAGE_RANK + 1);
    assert_int_equal(send->b, 100);
    other = play_init(78, "another", 2, 0); /* goes on, as does the next of that name */
    assert_non_null(play_coll(other, NULL, play_all_reduce(1, 1)));
    play_finalize(other);
    play_finalize(stage.context);
    stage.context = play_init(77, "dp", STAGE_RANKS, STAGE_RANK);
    assert_non_null(stage_launch(&stage, 1));
    stage_close(&stage);
}

static void a_collective_of_copy_engines_is_only_known_to_be_launched(void **state)
{
    struct stage stage = stage_open(state);
    struct nccl_descr_v6 descr = { .v5 = { .type = NCCL_EVENT_CE_COLL } };
    void *handle = &stage, *task;

    descr.ce_coll.func = "AllGather";
    descr.ce_coll.count = 256;
    descr.ce_coll.datatype = "ncclFloat64";
    ncclProfiler_v6.start(stage.context, &handle, &descr);
    assert_null(handle);
    task = stage_launch(&stage, 1); /* the next has a kernel again */
    kernel_complete(&stage, task, 0);
    stage_counts(&stage, 2, 1, 1);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->stream, LOCKSTEP_DEVICE_LAUNCHES);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->detail, LOCKSTEP_OP_ALL_GATHER);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->b, 2048);
    assert_int_equal(stage_find(&stage, RING_COLL_END, 1)->a, 1);
    stage_close(&stage);
}

/* ---- what is not ---- */

static void stops_that_never_come_are_settled_by_the_next_kernel(void **state)
{
    struct stage stage = stage_open(state);
    void *silent = stage_launch(&stage, 2), *half = stage_launch(&stage, 2);
    void *last = stage_launch(&stage, 2);

    (void)silent;
    kernel_complete(&stage, half, 0); /* its other channel is never told */
    stage_counts(&stage, 3, 1, 0);
    usleep(1000);
    kernel_complete(&stage, last, 0);
    stage_counts(&stage, 3, 2, 0); /* it may be half way only */
    kernel_complete(&stage, last, 1);
    stage_counts(&stage, 3, 3, 3);
    assert_true(stage_find(&stage, RING_COLL_END, 1)->time_ns <
                stage_find(&stage, RING_COLL_START, 2)->time_ns); /* by what was told of it */
    assert_true(stage_find(&stage, RING_COLL_END, 0)->time_ns ==
                stage_find(&stage, RING_COLL_START, 2)->time_ns); /* by then at the latest */
    stage_close(&stage);
}

static void a_group_that_was_never_told_is_settled_whole(void **state)
{
    struct stage stage = stage_open(state);
    void *group = play_group(stage.context);

    for (int i = 0; i < 1500; i++)
        play_coll(stage.context, group, play_all_reduce(1, 1));
    kernel_complete(&stage, stage_launch(&stage, 1), 0);
    stage_counts(&stage, 1501, 1501, 1501);
    stage_close(&stage);
}

static void what_comes_twice_or_in_disorder_counts_once(void **state)
{
    struct stage stage = stage_open(state);
    void *task[2] = { stage_launch(&stage, 2), stage_launch(&stage, 2) }, *kernel[2];

    kernel_complete(&stage, task[1], 0);
    kernel_complete(&stage, task[1], 0);
    stage_counts(&stage, 2, 1, 0);
    kernel[0] = play_kernel(stage.context, task[1], 1, 0);
    kernel[1] = play_kernel(stage.context, task[1], 1, 0);
    for (int i = 0; i < 4; i++)
        play_kernel_end(kernel[i % 2], 0);
    stage_counts(&stage, 2, 2, 2);
    for (uint8_t i = 0; i < 5; i++)
        kernel_complete(&stage, task[0], i); /* it was over, and stays so */
    stage_counts(&stage, 2, 2, 2);
    play_stop(task[0]);
    play_record(task[0], 5);
    stage_counts(&stage, 2, 2, 2);
    stage_close(&stage);
}

static void times_that_run_backwards_are_put_in_order(void **state)
{
    struct stage stage = stage_open(state);
    uint64_t now_ns = lockstep_clock_ns();
    void *task, *kernel;

    for (uint64_t i = 0; i < 4; i++) {
        const uint64_t timer[4] = { 1, INT64_MAX, UINT64_MAX, play_timer(now_ns) };

        task = stage_launch(&stage, 1);
        kernel = play_kernel(stage.context, task, 0, play_timer(now_ns));
        play_kernel_end(kernel, timer[i]);
        assert_true(stage_find(&stage, RING_COLL_ENQUEUE, i)->time_ns <=
                    stage_find(&stage, RING_COLL_START, i)->time_ns);
        assert_true(stage_find(&stage, RING_COLL_START, i)->time_ns <=
                    stage_find(&stage, RING_COLL_END, i)->time_ns);
        assert_true(stage_find(&stage, RING_COLL_END, i)->time_ns <= lockstep_clock_ns());
    }
    assert_int_equal(stage.lost, 0);
    stage_close(&stage);
}

static void handles_that_are_none_do_nothing(void **state)
{
    struct stage stage = stage_open(state);
    void *task = stage_launch(&stage, 1), *kernel;
    uint64_t word = (uint64_t)(uintptr_t)task;

    for (unsigned bit = 0; bit < 64; bit++) {
        void *bent = (void *)(uintptr_t)(word ^ UINT64_C(1) << bit);

        if (bit == 1 || (bit >= 9 && bit < 15)) /* its kernel; a channel, which a task has not */
            continue;
        assert_null(play_kernel(stage.context, bent, 0, 0));
        play_kernel_end(bent, 0);
    }
    play_stop(NULL);
    play_record(NULL, 1);
    assert_int_equal(ncclProfiler_v4.record(task, 0, NULL), 0);
    assert_int_equal(ncclProfiler_v5.record(task, 0, NULL), 0);
    assert_null(play_kernel(stage.context, NULL, 0, 0));
    assert_null(play_kernel(stage.context, task, NCCL_CHANNELS, 0));
    assert_null(play_kernel(stage.context, play_group(stage.context), 0, 0));
    assert_null(play_kernel(stage.context, stage.context, 0, 0));
    stage_counts(&stage, 1, 0, 0);
    kernel = play_kernel(stage.context, task, NCCL_CHANNELS - 1, 0);
    play_stop(kernel);
    stage_counts(&stage, 1, 1, 1);
    stage_close(&stage);
}

static void kinds_that_were_not_asked_for_get_no_handle(void **state)
{
    struct stage stage = stage_open(state);

    for (unsigned bit = 3; bit < 64; bit++) {
        if (bit == 6 || (bit == 12 && play_version == 6))
            continue;
        assert_null(
            play_start_v5(stage.context, (struct nccl_descr_v5){ .type = UINT64_C(1) << bit }));
        if (bit < 8)
            assert_null(play_start_v4(stage.context,
                                      (struct nccl_descr_v4){ .type = (uint8_t)(1u << bit) }));
    }
    stage_counts(&stage, 0, 0, 0);
    stage_close(&stage);
}

static void a_group_of_another_communicator_is_none_of_ours(void **state)
{
    struct stage stage = stage_open(state);
    void *other = play_init(78, "another", 2, 0), *group = play_group(other);
    void *first = play_coll(stage.context, group, play_all_reduce(1, 1));
    void *second = play_coll(stage.context, (void *)(uintptr_t)UINT64_MAX, play_all_reduce(1, 1));

    play_kernel(stage.context, first, 0, 0);
    stage_counts(&stage, 2, 1, 0);
    kernel_complete(&stage, second, 0);
    stage_counts(&stage, 2, 2, 2); /* each is a launch of its own */
    play_finalize(other);
    stage_close(&stage);
}

static void more_launches_than_there_is_room_let_the_oldest_go(void **state)
{
    struct stage stage = stage_open(state);
    void *first = stage_launch(&stage, 1), *last = NULL;

    for (int i = 0; i < NCCL_OPS + 9; i++)
        last = stage_launch(&stage, 1);
    assert_null(play_kernel(stage.context, first, 0, 0));
    kernel_complete(&stage, last, 0);
    stage_counts(&stage, NCCL_OPS + 10, NCCL_OPS, NCCL_OPS);
    assert_int_equal(stage.lost, 0);
    stage_close(&stage);
}

/* ---- words ---- */

static void words_that_are_not_known_are_other(void **state)
{
    struct stage stage = stage_open(state);
    struct nccl_coll_v4 coll = play_all_reduce(12, 1);

    coll.func = "Transmogrify";
    coll.datatype = "ncclComplex";
    assert_non_null(play_coll(stage.context, NULL, coll));
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->detail, LOCKSTEP_OP_OTHER);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->d, LOCKSTEP_DTYPE_OTHER);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->b, 12);
    assert_non_null(play_coll(stage.context, NULL, (struct nccl_coll_v4){ .channels = 1 }));
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 1)->detail, LOCKSTEP_OP_OTHER);
    assert_null(play_p2p(stage.context, NULL, (struct nccl_p2p_v4){ .channels = 1 }));
    assert_null(play_p2p(stage.context, NULL, message("AllReduce", 0)));
    assert_null(play_p2p(stage.context, NULL, message("Send", -1)));
    coll.func = "Send";
    assert_null(play_coll(stage.context, NULL, coll)); /* no collective, whatever it says */
    assert_int_equal(stage_count(&stage, RING_COLL_ENQUEUE), 2);
    stage_close(&stage);
}

static void a_launch_without_channels_has_no_kernel_to_wait_for(void **state)
{
    struct stage stage = stage_open(state);

    assert_null(stage_launch(&stage, 0));
    stage_counts(&stage, 0, 0, 0);
    assert_int_equal(stage_count(&stage, RING_COLL_METHOD), 1);
    stage_close(&stage);
}

static void the_words_of_nccl_are_ours(void **state)
{
    static const char *const func[] = { "AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                                        "Reduce",    "AlltoAll",      "Gather",    "Scatter" };
    static const int op[] = { LOCKSTEP_OP_ALL_REDUCE, LOCKSTEP_OP_REDUCE_SCATTER,
                              LOCKSTEP_OP_ALL_GATHER, LOCKSTEP_OP_BROADCAST,
                              LOCKSTEP_OP_REDUCE,     LOCKSTEP_OP_ALL_TO_ALL,
                              LOCKSTEP_OP_GATHER,     LOCKSTEP_OP_SCATTER };
    struct stage stage = stage_open(state);
    struct nccl_coll_v4 coll = play_all_reduce(3, 1);

    coll.datatype = "ncclBfloat16";
    for (uint64_t i = 0; i < sizeof(op) / sizeof(op[0]); i++) {
        coll.func = func[i];
        play_coll(stage.context, NULL, coll);
        assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, i)->detail, op[i]);
        assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, i)->b, 6);
    }
    assert_int_equal(stage.lost, 0);
    stage_close(&stage);
}

/* ---- how ---- */

static void assert_method(const struct ring_event *event, uint64_t bytes, uint64_t channels,
                          const char *method)
{
    char text[RING_METHOD_TEXT + 1] = "";

    memcpy(text, &event->b, 8);
    memcpy(text + 8, &event->c, 8);
    memcpy(text + 16, &event->d, 8);
    assert_int_equal(event->a & ((UINT64_C(1) << RING_METHOD_BYTES_BITS) - 1), bytes);
    assert_int_equal(event->a >> RING_METHOD_BYTES_BITS, channels);
    assert_string_equal(text, method);
}

static const struct ring_event *method_last(struct stage *stage, size_t count)
{
    const struct ring_event *last = NULL;

    assert_int_equal(stage_count(stage, RING_COLL_METHOD), count);
    for (size_t i = 0; i < stage->count; i++)
        if (stage->event[i].kind == RING_COLL_METHOD)
            last = &stage->event[i];
    return last;
}

static void the_way_is_told_once_and_when_it_changes(void **state)
{
    struct stage stage = stage_open(state);
    struct nccl_coll_v4 coll = play_all_reduce(1024, 16);

    for (int i = 0; i < 5; i++)
        play_coll(stage.context, NULL, coll);
    assert_method(method_last(&stage, 1), 4096, 16, "RING/SIMPLE");
    coll.count = 1030; /* nearly the same */
    play_coll(stage.context, NULL, coll);
    method_last(&stage, 1);
    coll.count = 8192;
    coll.protocol = NULL;
    play_coll(stage.context, NULL, coll);
    assert_method(method_last(&stage, 2), 32768, 16, "RING/");
    coll.count = 1024;
    coll.protocol = "SIMPLE";
    coll.channels = 2;
    play_coll(stage.context, NULL, coll);
    assert_method(method_last(&stage, 3), 4096, 2, "RING/SIMPLE");
    coll.algorithm = "an algorithm of a name that is long";
    play_coll(stage.context, NULL, coll);
    assert_method(method_last(&stage, 4), 4096, 2, "an algorithm of a name t");
    stage_close(&stage);
}

static void what_changes_with_every_launch_is_told_a_few_times(void **state)
{
    struct stage stage = stage_open(state);

    for (uint8_t i = 0; i < 100; i++)
        play_coll(stage.context, NULL, play_all_reduce(1024, i % 2 + 1));
    method_last(&stage, NCCL_METHOD_CHANGES);
    for (uint64_t i = 0; i < 10 * NCCL_METHOD_ROOM; i++) /* more kinds than there is room: untold */
        play_coll(stage.context, NULL, play_all_reduce(i * i * i, 1));
    assert_true(stage_count(&stage, RING_COLL_METHOD) <= NCCL_METHOD_CHANGES + NCCL_METHOD_ROOM);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(an_all_reduce_is_over_with_its_last_channel),
        STAGE_TEST(a_group_begins_at_once_and_each_ends_by_itself),
        STAGE_TEST(messages_have_peers_and_a_count_of_their_own),
        STAGE_TEST(after_a_message_to_itself_only_launches_are_recorded),
        STAGE_TEST(a_collective_of_copy_engines_is_only_known_to_be_launched),
        STAGE_TEST(stops_that_never_come_are_settled_by_the_next_kernel),
        STAGE_TEST(a_group_that_was_never_told_is_settled_whole),
        STAGE_TEST(what_comes_twice_or_in_disorder_counts_once),
        STAGE_TEST(times_that_run_backwards_are_put_in_order),
        STAGE_TEST(handles_that_are_none_do_nothing),
        STAGE_TEST(kinds_that_were_not_asked_for_get_no_handle),
        STAGE_TEST(a_group_of_another_communicator_is_none_of_ours),
        STAGE_TEST(more_launches_than_there_is_room_let_the_oldest_go),
        STAGE_TEST(words_that_are_not_known_are_other),
        STAGE_TEST(a_launch_without_channels_has_no_kernel_to_wait_for),
        STAGE_TEST(the_words_of_nccl_are_ours),
        STAGE_TEST(the_way_is_told_once_and_when_it_changes),
        STAGE_TEST(what_changes_with_every_launch_is_told_a_few_times),
    };
    int failed = 0;

    for (play_version = 4; play_version <= 6; play_version++)
        failed += cmocka_run_group_tests_name(play_names[play_version], tests, NULL, NULL);
    return failed;
}
