/* test-nccl-next.c - a second profiler plugin behind ours: both get all calls that they ask for, each with its own handles.
 *
 * usage: test-nccl-next VERSION PLUGIN THEIRS: NCCL of this version of tables, and the version by which it is called.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/nccl_stage.h"

#include <dlfcn.h>
#include <string.h>

#include "probe/test/next_plugin.h"

static struct next_told *told;
static int next_version;

static int next_setup(void **state)
{
    struct next_told none = { .want = NCCL_EVENT_KERNEL | NCCL_EVENT_PROXY_OP };

    *told = none;
    return stage_environment(state);
}

#define NEXT_TEST(function) cmocka_unit_test_setup_teardown(function, next_setup, scene_teardown)

static void both_are_opened_and_closed(void **state)
{
    struct stage stage = stage_open(state);

    assert_int_equal(told->version, next_version);
    assert_int_equal(told->inits, 1);
    assert_true(told->id == 77);
    assert_int_equal(told->ranks, STAGE_RANKS);
    assert_int_equal(told->rank, STAGE_RANK);
    assert_ptr_not_equal(told->mask, &play_mask); /* it may write to it as it likes */
    assert_int_equal(play_mask & told->want, told->want);
    assert_int_equal(play_mask & NCCL_EVENT_COLL, NCCL_EVENT_COLL);
    stage_close(&stage);
    assert_int_equal(told->finalizes, 1);
}

static void an_op_is_told_to_both_and_each_has_its_own_parents(void **state)
{
    struct stage stage = stage_open(state);
    void *group = play_group(stage.context);
    void *task = play_coll(stage.context, group, play_all_reduce(1024, 1)), *kernel;

    assert_ptr_equal(told->parent, next_version == 4 ? NEXT_HANDLE(1) : NULL);
    kernel = play_kernel(stage.context, task, 0, play_timer(lockstep_clock_ns()));
    assert_ptr_equal(told->parent, NEXT_HANDLE(2));
    play_stop(task);
    play_kernel_end(kernel, play_timer(lockstep_clock_ns()));
    play_stop(group);
    stage_counts(&stage, 1, 1, 1);
    assert_int_equal(told->starts, 3);
    assert_int_equal(told->stops, 3);
    assert_int_equal(told->records, 1);
    assert_int_equal(told->types, NCCL_EVENT_GROUP | NCCL_EVENT_COLL | NCCL_EVENT_KERNEL);
    stage_close(&stage);
}

/* Ours wants collectives; who asks for nothing is told nothing. */
static void what_it_does_not_want_it_is_not_told(void **state)
{
    struct stage stage = stage_open(state);

    __atomic_store_n(told->mask, 0, __ATOMIC_RELAXED);
    stage_launch(&stage, 1);
    assert_int_equal(told->starts, 0);
    assert_int_equal(play_mask & NCCL_EVENT_PROXY_OP, 0); /* nor is NCCL asked for it any more */
    __atomic_store_n(told->mask, NCCL_EVENT_PROXY_STEP, __ATOMIC_RELAXED);
    stage_launch(&stage, 1);
    assert_int_equal(told->starts, 2); /* parents of what it wants now */
    assert_int_equal(play_mask & NCCL_EVENT_PROXY_STEP, NCCL_EVENT_PROXY_STEP);
    stage_counts(&stage, 2, 0, 0);
    stage_close(&stage);
}

static void *proxy_start(void *context, void *parent, int pid, uint64_t type)
{
    struct nccl_descr_v5 descr = { .type = type, .parent = parent };
    struct nccl_descr_v4 *v4 = (struct nccl_descr_v4 *)(void *)&descr;

    v4->pid = pid;
    return play_version == 4 ? play_start_v4(context, *v4) : play_start_v5(context, descr);
}

/* The number of another process's handle may be one of ours, too. */
static void a_parent_in_another_process_is_handed_on_as_it_is(void **state)
{
    struct stage stage = stage_open(state);
    void *task = stage_launch(&stage, 1);

    proxy_start(stage.context, task, getpid(), NCCL_EVENT_PROXY_OP);
    assert_ptr_equal(told->parent, NEXT_HANDLE(2));
    proxy_start(stage.context, task, getpid() + 1, NCCL_EVENT_PROXY_OP);
    assert_ptr_equal(told->parent, task);
    stage_close(&stage);
}

static void events_that_its_version_lacks_are_not_its(void **state)
{
    struct stage stage = stage_open(state);
    int before;

    __atomic_store_n(told->mask, INT32_MAX, __ATOMIC_RELAXED);
    before = told->starts;
    if (play_version >= 5)
        proxy_start(stage.context, NULL, 0, 1 << 9);
    assert_int_equal(told->starts - before, play_version >= 5 && next_version >= 5);
    before = told->starts;
    if (play_version >= 5)
        proxy_start(stage.context, NULL, 0, 1 << 13);
    assert_int_equal(told->starts - before, next_version >= 6);
    stage_close(&stage);
}

static void one_that_refuses_a_communicator_is_told_nothing_of_it(void **state)
{
    struct stage stage;

    told->refuse = 1;
    stage = stage_open(state);
    stage_launch(&stage, 1);
    stage_counts(&stage, 1, 0, 0);
    stage_close(&stage);
    assert_int_equal(told->starts + told->finalizes, 0);
}

/* Ours has nothing to do with one rank alone. */
static void a_communicator_that_is_not_ours_is_still_its(void **state)
{
    struct stage stage = stage_open(state);
    void *context = play_init(5, "alone", 1, 0);

    assert_int_equal(told->inits, 2);
    assert_non_null(context);
    assert_non_null(play_coll(context, NULL, play_all_reduce(1, 1)));
    assert_int_equal(told->starts, 1);
    assert_int_equal(play_finalize(context), 0);
    assert_int_equal(play_finalize(context), 0); /* once */
    assert_int_equal(told->finalizes, 1);
    stage_close(&stage);
}

/* The other plugin has so many that there is no place for one more pair. */
static void one_communicator_too_many_is_ours_alone(void **state)
{
    static void *crowd[1024];
    struct stage stage;
    int inits, starts;

    for (int i = 0; i < 1024; i++) {
        crowd[i] = play_init(100 + (uint64_t)i, "crowd", 1, 0);
        assert_non_null(crowd[i]);
    }
    inits = told->inits;
    stage = stage_open(state);
    starts = told->starts;
    stage_launch(&stage, 1);
    stage_counts(&stage, 1, 0, 0);
    assert_int_equal(told->inits, inits);
    assert_int_equal(told->starts, starts);
    stage_close(&stage);
    for (int i = 0; i < 1024; i++)
        assert_int_equal(play_finalize(crowd[i]), 0);
    assert_int_equal(told->finalizes, 1024);
}

static void stale_and_strange_handles_are_nobodys(void **state)
{
    struct stage stage = stage_open(state);
    void *old = stage_launch(&stage, 1);
    int stops;

    for (int i = 0; i < 70000; i++)
        play_stop(play_group(stage.context));
    stops = told->stops;
    play_stop(old);
    play_stop(NULL);
    play_stop((void *)(uintptr_t)3);
    play_stop((void *)(uintptr_t)(UINT64_C(1) << 60));
    play_kernel_end(old, 5);
    assert_int_equal(told->stops, stops);
    assert_null(play_group((void *)(uintptr_t)(UINT64_C(1) << 40)));
    stage_close(&stage);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NEXT_TEST(both_are_opened_and_closed),
        NEXT_TEST(an_op_is_told_to_both_and_each_has_its_own_parents),
        NEXT_TEST(what_it_does_not_want_it_is_not_told),
        NEXT_TEST(a_parent_in_another_process_is_handed_on_as_it_is),
        NEXT_TEST(events_that_its_version_lacks_are_not_its),
        NEXT_TEST(one_that_refuses_a_communicator_is_told_nothing_of_it),
        NEXT_TEST(a_communicator_that_is_not_ours_is_still_its),
        NEXT_TEST(one_communicator_too_many_is_ours_alone),
        NEXT_TEST(stale_and_strange_handles_are_nobodys),
    };
    void *library;

    if (argc != 4)
        return 2;
    play_version = argv[1][0] - '0';
    next_version = argv[3][0] - '0';
    setenv("LOCKSTEP_NCCL_NEXT", argv[2], 1);
    library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    told = library ? dlsym(library, "next_told") : NULL;
    return told ? cmocka_run_group_tests_name(argv[2], tests, NULL, NULL) : 2;
}
