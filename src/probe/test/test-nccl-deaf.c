/* test-nccl-deaf.c - an NCCL that tells of launches and never of kernels: with a clock that can be put forward.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/nccl_stage.h"

#include <sys/syscall.h>
#include <time.h>

#include "wire/numbers.h"

static long clock_ahead_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);

    now->tv_sec += clock_ahead_s;
    return result;
}

static void launch_many(const struct stage *stage, int count)
{
    for (int i = 0; i < count; i++)
        assert_non_null(stage_launch(stage, 1));
}

static void of_who_never_tells_of_a_kernel_only_launches_are_recorded(void **state)
{
    struct stage stage = stage_open(state);

    launch_many(&stage, 300);
    clock_ahead_s += 119;
    launch_many(&stage, 1); /* it may be late */
    clock_ahead_s += 2;
    assert_null(stage_launch(&stage, 1));
    stage_counts(&stage, 302, 0, 0);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 300)->stream, LOCKSTEP_DEVICE_OPS);
    assert_int_equal(stage_find(&stage, RING_COLL_ENQUEUE, 301)->stream, LOCKSTEP_DEVICE_LAUNCHES);
    play_finalize(stage.context);
    stage.context = play_init(78, "another", STAGE_RANKS, STAGE_RANK); /* begins anew */
    launch_many(&stage, 1);
    stage_close(&stage);
}

static void a_few_launches_say_nothing(void **state)
{
    struct stage stage = stage_open(state);

    launch_many(&stage, 255);
    clock_ahead_s += 100000;
    launch_many(&stage, 1);
    assert_null(stage_launch(&stage, 1));
    stage_close(&stage);
}

static void one_kernel_is_enough(void **state)
{
    struct stage stage = stage_open(state);
    void *task = stage_launch(&stage, 1);

    play_kernel(stage.context, task, 0, 0); /* even if it never ends: that is a hang, to be seen */
    launch_many(&stage, 300);
    clock_ahead_s += 100000;
    launch_many(&stage, 300);
    stage_counts(&stage, 601, 1, 0);
    stage_close(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(of_who_never_tells_of_a_kernel_only_launches_are_recorded),
        STAGE_TEST(a_few_launches_say_nothing),
        STAGE_TEST(one_kernel_is_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
