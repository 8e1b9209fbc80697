/* test-nccl.c - communicators of NCCL and the ring: who opens it, who closes it, who is not watched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/nccl_stage.h"

#include <string.h>

#include "probe/nccl_private.h"

#define ALL_EVENTS                                                                                 \
    (NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_KERNEL |                                        \
     (play_version == 6 ? NCCL_EVENT_CE_COLL : 0))

static int ring_closed(struct ring_reader *reader)
{
    struct ring_info info;

    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    return info.closed;
}

static void launcher(const char *rank, const char *world)
{
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", world, 1);
}

/* ---- the ring ---- */

static void an_open_ring_is_joined_and_not_held(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_comm_info comm;
    struct ring_reader *reader;
    void *context;

    launcher("3", "8"); /* the program knows better who it is */
    assert_int_equal(lockstep_probe_open(5, 8, &probe, NULL, 0), 0);
    reader = scene_read(*state, 5, 0);
    context = play_init(UINT64_C(0x8000000000000001), "tp", 4, 2);
    assert_non_null(context);
    assert_int_equal(play_mask, ALL_EVENTS);
    assert_int_equal(ring_reader_comm(reader, 0, &comm), 1);
    assert_true(comm.id == UINT64_C(0x8000000000000001));
    assert_int_equal(comm.size, 4);
    assert_int_equal(comm.index, 2);
    assert_int_equal(comm.kind, LOCKSTEP_COMM_OTHER);
    assert_string_equal(comm.name, "tp");
    lockstep_probe_close(probe);
    assert_int_equal(ring_closed(reader), 1);
    assert_null(play_coll(context, NULL, play_all_reduce(1, 1)));
    assert_int_equal(play_finalize(context), 0);
    ring_reader_close(reader);
}

static void a_ring_that_the_program_holds_outlives_the_communicators(void **state)
{
    struct stage stage = stage_open(state);

    assert_int_equal(play_finalize(stage.context), 0);
    assert_int_equal(ring_closed(stage.reader), 0);
    stage_close(&stage);
}

static void the_communicator_of_all_ranks_is_the_world(void **state)
{
    struct stage stage = stage_open(state);
    struct ring_comm_info comm;

    assert_int_equal(ring_reader_comm(stage.reader, 0, &comm), 1);
    assert_int_equal(comm.kind, LOCKSTEP_COMM_WORLD);
    stage_close(&stage);
}

/* ---- what a communicator is for ---- */

static struct ring_comm_info comm_at(const struct stage *stage, uint32_t place)
{
    struct ring_comm_info comm;

    assert_int_equal(ring_reader_comm(stage->reader, place, &comm), 1);
    return comm;
}

static void a_group_that_is_expected_gives_its_communicator_name_and_kind(void **state)
{
    struct stage stage = stage_open(state); /* has place 0 */
    void *context[5];

    nccl_group(2, 1, LOCKSTEP_COMM_TP, "tp");
    context[0] = play_init(80, NULL, 2, 0); /* another rank of it, so it is another */
    context[1] = play_init(81, NULL, 2, 1);
    context[2] = play_init(82, NULL, 2, 1); /* it was one communicator's */
    nccl_group(2, 1, LOCKSTEP_COMM_DP, "dp");
    context[3] = play_init(83, "mine", 2, 1); /* the program's own name counts */
    nccl_group(2, 1, 99, "odd");
    nccl_group(0, 0, 0, NULL);
    context[4] = play_init(84, "", 2, 1);
    assert_string_equal(comm_at(&stage, 1).name, "nccl");
    assert_int_equal(comm_at(&stage, 1).kind, LOCKSTEP_COMM_OTHER);
    assert_string_equal(comm_at(&stage, 2).name, "tp");
    assert_int_equal(comm_at(&stage, 2).kind, LOCKSTEP_COMM_TP);
    assert_string_equal(comm_at(&stage, 3).name, "nccl");
    assert_int_equal(comm_at(&stage, 3).kind, LOCKSTEP_COMM_OTHER);
    assert_string_equal(comm_at(&stage, 4).name, "mine");
    assert_int_equal(comm_at(&stage, 4).kind, LOCKSTEP_COMM_DP);
    assert_string_equal(comm_at(&stage, 5).name, "nccl");
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(play_finalize(context[i]), 0);
    stage_close(&stage);
}

static void a_ring_of_our_own_is_closed_with_the_last_communicator(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    void *context[2];

    launcher("3", "8");
    context[0] = play_init(1, "a", 8, 3);
    assert_non_null(context[0]);
    context[1] = play_init(2, "b", 2, 1);
    assert_non_null(context[1]);
    reader = scene_read(*state, 3, 0);
    play_finalize(context[0]);
    play_finalize(context[0]); /* that is no other one */
    assert_int_equal(ring_closed(reader), 0);
    assert_int_equal(lockstep_probe_open(3, 8, &probe, NULL, 0),
                     0); /* and now the program has it, too */
    play_finalize(context[1]);
    assert_int_equal(ring_closed(reader), 0);
    lockstep_probe_close(probe);
    assert_int_equal(ring_closed(reader), 1);
    ring_reader_close(reader);

    context[0] = play_init(1, "again", 8, 3);
    assert_non_null(context[0]);
    reader = scene_read(*state, 3, 1);
    play_finalize(context[0]);
    assert_int_equal(ring_closed(reader), 1);
    ring_reader_close(reader);
}

static void each_launcher_says_who_the_rank_is(void **state)
{
    static const char *const names[][2] = { { "SLURM_PROCID", "SLURM_NTASKS" },
                                            { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" },
                                            { "PMI_RANK", "PMI_SIZE" } };

    for (uint32_t i = 0; i < 3; i++) {
        char rank[2] = { (char)('0' + i), '\0' };
        void *context;

        setenv(names[i][0], rank, 1);
        setenv(names[i][1], "3", 1);
        context = play_init(1, "a", 3, (int)i);
        assert_non_null(context);
        play_finalize(context);
        ring_reader_close(scene_read(*state, i, 0));
        unsetenv(names[i][0]);
        unsetenv(names[i][1]);
    }
}

static void without_a_launcher_or_a_reader_nothing_is_watched(void **state)
{
    static const char *const bad[][2] = {
        { "", "8" }, { "-1", "8" }, { "8", "8" },  { "1x", "8" },
        { "1", "" }, { "1", "0" },  { " 1", "8" }, { "1", "99999999999999999999999" },
    };

    (void)state;
    assert_null(play_init(1, "a", 8, 3));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        launcher(bad[i][0], bad[i][1]);
        assert_null(play_init(1, "a", 8, 3));
    }
    launcher("3", "8");
    unsetenv("LOCKSTEP_DIR");
    assert_null(play_init(1, "a", 8, 3));
    assert_int_equal(play_mask, PLAY_UNTOUCHED);
    assert_null(play_group(NULL));
    assert_null(play_coll(NULL, NULL, play_all_reduce(1, 1)));
    assert_int_equal(play_finalize(NULL), 0);
}

static void a_ring_that_is_opened_again_is_joined_at_the_next_launch(void **state)
{
    struct stage stage = stage_open(state);
    void *before = stage_launch(&stage, 1), *after, *kernel;

    lockstep_probe_close(stage.probe);
    assert_null(play_kernel(stage.context, before, 0, 0));
    assert_null(stage_launch(&stage, 1));
    ring_reader_close(stage.reader);
    assert_int_equal(lockstep_probe_open(STAGE_RANK, STAGE_RANKS, &stage.probe, NULL, 0), 0);
    stage.reader = scene_read(*state, STAGE_RANK, 1);
    assert_null(play_kernel(stage.context, before, 0, 0)); /* the old ring's */
    stage_counts(&stage, 0, 0, 0);
    after = stage_launch(&stage, 1);
    assert_non_null(after);
    kernel = play_kernel(stage.context, after, 0, 0);
    play_stop(kernel);
    stage_counts(&stage, 1, 1, 1);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->comm, 0);
    assert_int_equal(stage_count(&stage, RING_COLL_METHOD),
                     1); /* who reads this ring does not know it */
    stage_close(&stage);
}

static void a_forked_child_writes_nothing(void **state)
{
    struct stage stage = stage_open(state);
    void *task = stage_launch(&stage, 2);
    void *kernel = play_kernel(stage.context, task, 0, 0);
    pid_t pid = fork();

    if (pid == 0) {
        bool silent = !stage_launch(&stage, 1) && !play_kernel(stage.context, task, 1, 0);

        play_kernel_end(kernel, 0);
        play_finalize(stage.context);
        _exit(silent ? 0 : 1);
    }
    assert_int_equal(scene_wait(pid), 0);
    stage_counts(&stage, 1, 1, 0);
    assert_int_equal(ring_closed(stage.reader), 0);
    play_kernel_end(kernel, 0);
    play_kernel_end(play_kernel(stage.context, task, 1, 0), 0);
    stage_counts(&stage, 1, 1, 1); /* the parent goes on */
    stage_close(&stage);
}

/* ---- communicators ---- */

static void one_rank_alone_is_not_watched(void **state)
{
    struct stage stage = stage_open(state);

    play_mask = PLAY_UNTOUCHED;
    assert_null(play_init(1, "alone", 1, 0));
    assert_null(play_init(1, "none", 0, 0));
    assert_null(play_init(1, "nonsense", -3, 0));
    assert_null(play_init(1, "not in it", 4, 4));
    assert_null(play_init(1, "not in it", 4, -1));
    assert_null(play_init(UINT64_MAX, "no id", 4, 0));
    assert_int_equal(play_mask, PLAY_UNTOUCHED);
    stage_close(&stage);
}

static void a_second_device_in_one_communicator_is_declined(void **state)
{
    struct stage stage = stage_open(state);

    play_mask = PLAY_UNTOUCHED;
    assert_null(play_init(77, "dp", STAGE_RANKS, STAGE_RANK + 1));
    assert_int_equal(play_mask, PLAY_UNTOUCHED);
    assert_non_null(stage_launch(&stage, 1)); /* the first goes on */
    play_finalize(stage.context);
    stage.context = play_init(77, "dp", STAGE_RANKS, STAGE_RANK);
    assert_non_null(stage.context);
    stage_close(&stage);
}

static void more_communicators_than_there_is_room_are_declined(void **state)
{
    struct stage stage = stage_open(state);
    void *context[NCCL_COMMS];

    for (uint64_t i = 1; i < NCCL_COMMS; i++) {
        context[i] = play_init(1000 + i, "many", 2, 0);
        assert_non_null(context[i]);
    }
    play_mask = PLAY_UNTOUCHED;
    assert_null(play_init(9999, "one more", 2, 0));
    assert_int_equal(play_mask, PLAY_UNTOUCHED);
    assert_non_null(play_coll(context[NCCL_COMMS - 1], NULL, play_all_reduce(8, 1)));
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 0)->comm, NCCL_COMMS - 1);
    for (uint64_t i = 1; i < NCCL_COMMS; i++)
        play_finalize(context[i]);
    context[1] = play_init(1001, "many", 2, 0); /* its place in the ring is still its own */
    assert_non_null(context[1]);
    play_finalize(context[1]);
    stage_close(&stage);
}

static void names_may_be_missing_or_long(void **state)
{
    struct stage stage = stage_open(state);
    void *none = play_init(1, NULL, 2, 0);
    void *longer = play_init(2, "a name that is longer than the room for names", 2, 0);
    struct ring_comm_info comm;

    assert_int_equal(ring_reader_comm(stage.reader, 1, &comm), 1);
    assert_string_equal(comm.name, "nccl");
    assert_int_equal(ring_reader_comm(stage.reader, 2, &comm), 1);
    assert_int_equal(strlen(comm.name), 31);
    play_finalize(none);
    play_finalize(longer);
    stage_close(&stage);
}

static void what_is_stale_is_none_of_who_came_after(void **state)
{
    struct stage stage = stage_open(state);
    void *group = play_group(stage.context);
    void *task = play_coll(stage.context, group, play_all_reduce(1, 2));
    void *kernel = play_kernel(stage.context, task, 0, 0);
    void *old = stage.context, *last;

    play_finalize(old);
    assert_null(play_coll(old, NULL, play_all_reduce(1, 1)));
    assert_null(play_kernel(old, task, 1, 0));
    play_kernel_end(kernel, 0);
    stage_counts(&stage, 1, 1, 0);

    stage.context = play_init(78, "after it", STAGE_RANKS, STAGE_RANK); /* in the same slot */
    assert_non_null(stage.context);
    play_finalize(old);
    assert_null(play_group(old));
    assert_null(play_coll(old, NULL, play_all_reduce(1, 1)));
    assert_null(play_kernel(stage.context, task, 1, 0));
    play_kernel_end(kernel, 0);
    stage_counts(&stage, 1, 1, 0);
    last = play_coll(stage.context, group, play_all_reduce(1, 1)); /* a group of its own, then */
    assert_non_null(last);
    play_kernel_end(play_kernel(stage.context, last, 0, 0), 0);
    stage_counts(&stage, 2, 2, 1); /* and it settles nothing of the one before */
    stage_close(&stage);
}

/* ---- $LOCKSTEP_NCCL ---- */

static void off_means_off(void **state)
{
    struct lockstep_probe *probe = NULL;

    (void)state;
    setenv("LOCKSTEP_NCCL", "off", 1);
    launcher("0", "2");
    assert_null(play_init(1, "a", 2, 0));
    assert_int_equal(lockstep_probe_open(0, 2, &probe, NULL, 0), 0);
    assert_null(play_init(1, "a", 2, 0));
    assert_int_equal(play_mask, PLAY_UNTOUCHED);
    lockstep_probe_close(probe);
}

static void how_alone_asks_for_no_event_of_the_device(void **state)
{
    struct stage stage;

    setenv("LOCKSTEP_NCCL", "how", 1);
    stage = stage_open(state);
    assert_int_equal(play_mask, NCCL_EVENT_COLL);
    assert_null(stage_launch(&stage, 2));
    stage_counts(&stage, 0, 0, 0);
    assert_int_equal(stage_count(&stage, RING_COLL_METHOD), 1);
    stage_close(&stage);
}

static void who_measures_may_have_nothing_told(void **state)
{
    struct stage stage;

    setenv("LOCKSTEP_NCCL", "times", 1);
    stage = stage_open(state);
    assert_int_equal(play_mask, ALL_EVENTS);
    nccl_watch(0);
    assert_int_equal(play_mask, 0);
    nccl_watch(1);
    assert_int_equal(play_mask, ALL_EVENTS);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(an_open_ring_is_joined_and_not_held),
        STAGE_TEST(a_ring_that_the_program_holds_outlives_the_communicators),
        STAGE_TEST(the_communicator_of_all_ranks_is_the_world),
        STAGE_TEST(a_group_that_is_expected_gives_its_communicator_name_and_kind),
        STAGE_TEST(a_ring_of_our_own_is_closed_with_the_last_communicator),
        STAGE_TEST(each_launcher_says_who_the_rank_is),
        STAGE_TEST(without_a_launcher_or_a_reader_nothing_is_watched),
        STAGE_TEST(a_ring_that_is_opened_again_is_joined_at_the_next_launch),
        STAGE_TEST(a_forked_child_writes_nothing),
        STAGE_TEST(one_rank_alone_is_not_watched),
        STAGE_TEST(a_second_device_in_one_communicator_is_declined),
        STAGE_TEST(more_communicators_than_there_is_room_are_declined),
        STAGE_TEST(names_may_be_missing_or_long),
        STAGE_TEST(what_is_stale_is_none_of_who_came_after),
        STAGE_TEST(off_means_off),
        STAGE_TEST(how_alone_asks_for_no_event_of_the_device),
        STAGE_TEST(who_measures_may_have_nothing_told),
    };
    int failed = 0;

    for (play_version = 4; play_version <= 6; play_version++)
        failed += cmocka_run_group_tests_name(play_names[play_version], tests, NULL, NULL);
    return failed;
}
