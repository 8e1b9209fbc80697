/* test-nccl-v3.c - the table of NCCL 2.26: a communicator that is known once it launches, kernels without times.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/nccl_stage.h"

#include "probe/nccl.h"

#define V3_ID 4711

static void *v3_init(void)
{
    void *context = &play_mask;

    assert_int_equal(ncclProfiler_v3.init(&context, &play_mask), 0);
    return context;
}

static void *v3_start(void *context, struct nccl_descr_v3 descr)
{
    void *handle = &play_mask;

    assert_int_equal(ncclProfiler_v3.start(context, &handle, &descr), 0);
    return handle;
}

static void *v3_all_reduce(void *context, int rank, uint8_t channels_max)
{
    void *group = v3_start(context, (struct nccl_descr_v3){ .type = NCCL_EVENT_GROUP });

    return v3_start(context, (struct nccl_descr_v3){ .type = NCCL_EVENT_COLL,
                                                     .parent = group,
                                                     .rank = rank,
                                                     .coll = { .id = V3_ID,
                                                               .func = "AllReduce",
                                                               .count = 1024,
                                                               .datatype = "ncclFloat32",
                                                               .channels_max = channels_max,
                                                               .algorithm = "RING",
                                                               .protocol = "SIMPLE" } });
}

static void *v3_kernel(void *context, void *task, uint8_t channel)
{
    return v3_start(context, (struct nccl_descr_v3){ .type = NCCL_EVENT_KERNEL,
                                                     .parent = task,
                                                     .kernel = { .channel = channel } });
}

/* A rank with an open ring, and a communicator of version 3 that was announced with so many ranks; 0: by nobody. */
static struct stage v3_open(void *const *state, uint32_t ranks)
{
    struct stage stage = { 0 };

    assert_int_equal(lockstep_probe_open(STAGE_RANK, STAGE_RANKS, &stage.probe, NULL, 0), 0);
    stage.reader = scene_read(*state, STAGE_RANK, 0);
    nccl_group(ranks, 1, LOCKSTEP_COMM_TP, "tp");
    stage.context = v3_init();
    nccl_group(0, 0, 0, NULL);
    stage.event = calloc(STAGE_ROOM, sizeof(*stage.event));
    assert_non_null(stage.event);
    return stage;
}

static void v3_close(struct stage *stage)
{
    assert_int_equal(ncclProfiler_v3.finalize(stage->context), 0);
    assert_int_equal(ncclProfiler_v3.finalize(NULL), 0);
    ring_reader_close(stage->reader);
    lockstep_probe_close(stage->probe);
    free(stage->event);
}

static void who_it_is_comes_with_its_first_launch(void **state)
{
    struct stage stage = v3_open(state, 2);
    struct ring_comm_info comm;

    assert_non_null(stage.context);
    assert_int_equal(play_mask, NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_KERNEL);
    assert_int_equal(ring_reader_comm(stage.reader, 0, &comm), 0);
    assert_non_null(v3_all_reduce(stage.context, 1, 4));
    assert_int_equal(ring_reader_comm(stage.reader, 0, &comm), 1);
    assert_true(comm.id == V3_ID);
    assert_int_equal(comm.size, 2);
    assert_int_equal(comm.index, 1);
    assert_int_equal(comm.kind, LOCKSTEP_COMM_TP);
    assert_string_equal(comm.name, "tp");
    stage_counts(&stage, 1, 0, 0);
    v3_close(&stage);
}

/* The table says how many channels there may be, and a kernel may have fewer. */
static void an_op_is_over_when_all_channels_that_began_are(void **state)
{
    struct stage stage = v3_open(state, 4);
    void *task = v3_all_reduce(stage.context, 1, 16);
    void *kernel[2] = { v3_kernel(stage.context, task, 0), v3_kernel(stage.context, task, 3) };
    union nccl_state progress = { .timer_ns = 7 }; /* bytes of a proxy: no time */

    stage_counts(&stage, 1, 1, 0);
    assert_int_equal(ncclProfiler_v3.record(kernel[0], 3, &progress), 0);
    assert_int_equal(ncclProfiler_v3.stop(kernel[0]), 0);
    stage_counts(&stage, 1, 1, 0);
    assert_int_equal(ncclProfiler_v3.stop(kernel[1]), 0);
    stage_counts(&stage, 1, 1, 1);
    assert_int_equal(ncclProfiler_v3.stop(kernel[1]), 0);
    assert_int_equal(ncclProfiler_v3.stop(task), 0);
    stage_counts(&stage, 1, 1, 1);
    v3_close(&stage);
}

static void messages_have_no_number_of_channels_at_all(void **state)
{
    struct stage stage = v3_open(state, 4);
    void *task = v3_start(
        stage.context,
        (struct nccl_descr_v3){
            .type = NCCL_EVENT_P2P,
            .rank = 1,
            .p2p = {
                .id = V3_ID, .func = "Send", .datatype = "ncclInt8", .count = 9, .peer = 2 } });

    assert_int_equal(stage_count(&stage, RING_P2P_ENQUEUE), 1);
    assert_int_equal(ncclProfiler_v3.stop(v3_kernel(stage.context, task, 0)), 0);
    assert_int_equal(stage_count(&stage, RING_P2P_END), 1);
    v3_close(&stage);
}

/* Its size would be a guess. */
static void one_that_nobody_announced_is_not_watched(void **state)
{
    struct stage stage = v3_open(state, 0);

    assert_null(stage.context);
    assert_int_equal(play_mask, PLAY_UNTOUCHED);
    assert_null(v3_all_reduce(stage.context, 1, 4));
    v3_close(&stage);
}

static void nor_one_of_another_rank(void **state)
{
    struct stage stage = v3_open(state, 4);

    assert_null(v3_all_reduce(stage.context, 2, 4));
    assert_null(v3_all_reduce(stage.context, 1, 4)); /* it was asked once */
    stage_counts(&stage, 0, 0, 0);
    v3_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(who_it_is_comes_with_its_first_launch),
        STAGE_TEST(an_op_is_over_when_all_channels_that_began_are),
        STAGE_TEST(messages_have_no_number_of_channels_at_all),
        STAGE_TEST(one_that_nobody_announced_is_not_watched),
        STAGE_TEST(nor_one_of_another_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
