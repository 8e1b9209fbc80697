/* test-assemble-device.c - a device that tells its ops alone, and a host that may be ahead of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/test/assemble_feed.h"
#include "core/clean.h"

static void put_device_op(struct assemble *a, int64_t ms, uint64_t step, uint8_t kind, uint64_t key)
{
    struct ring_event event = at(ms, step, kind);

    event.comm = 0;
    event.stream = LOCKSTEP_DEVICE_OPS;
    event.detail = kind == RING_COLL_ENQUEUE ? LOCKSTEP_OP_ALL_REDUCE : 0;
    event.a = key;
    assemble_event(a, &event);
}

/* Steps of 10 ms on the host; their op begins and ends so much later than its launch. */
static void run(struct assemble *a, uint64_t steps, int64_t late)
{
    for (uint64_t step = 0; step < steps; step++) {
        int64_t begin = 100 + 10 * (int64_t)step;

        put(a, begin, step, RING_STEP_BEGIN);
        put_device_op(a, begin + 2, step, RING_COLL_ENQUEUE, step);
        put_device_op(a, begin + 2 + late, step, RING_COLL_START, step);
        put_device_op(a, begin + 3 + late, step, RING_COLL_END, step);
        put(a, begin + 9, step, RING_STEP_END);
    }
    put(a, 100 + 10 * (int64_t)steps, steps, RING_STEP_BEGIN);
    assemble_round(a);
}

static void a_host_in_step_with_its_device_is_not_ahead(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);

    (void)state;
    run(a, 5, 2);
    for (uint64_t step = 0; step < 5; step++) {
        CLEAN(assembled_fini) struct assembled out = take(a, ASSEMBLED_STEP);

        assert_int_equal(out.step.step, step);
        assert_int_equal(out.step.flags, STEP_HOST_VIEW);
    }
}

static void a_host_that_goes_on_to_the_next_step_is_ahead(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);

    (void)state;
    run(a, 5, 25);
    for (uint64_t step = 0; step < 5; step++) {
        CLEAN(assembled_fini) struct assembled out = take(a, ASSEMBLED_STEP);

        assert_int_equal(out.step.step, step);
        assert_true(out.step.flags & STEP_AHEAD);
        assert_int_equal(out.step.time[0].start_ns, 27 * MS);
        assert_int_equal(out.step.time[0].end_ns, 28 * MS);
    }
}

/* A step that waits for what earlier ones launched: its own op is over in time. */
static void who_catches_up_in_a_step_was_ahead_in_it(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled first = { 0 }, second = { 0 }, third = { 0 };

    (void)state;
    put(a, 100, 0, RING_STEP_BEGIN);
    put_device_op(a, 101, 0, RING_COLL_ENQUEUE, 0);
    put(a, 109, 0, RING_STEP_END);
    put(a, 110, 1, RING_STEP_BEGIN);
    put_device_op(a, 111, 1, RING_COLL_ENQUEUE, 1);
    put_device_op(a, 101, 1, RING_COLL_START, 0);
    put_device_op(a, 140, 1, RING_COLL_END, 0);
    put_device_op(a, 140, 1, RING_COLL_START, 1);
    put_device_op(a, 141, 1, RING_COLL_END, 1);
    put(a, 149, 1, RING_STEP_END);
    put(a, 150, 2, RING_STEP_BEGIN);
    put_device_op(a, 151, 2, RING_COLL_ENQUEUE, 2);
    put_device_op(a, 151, 2, RING_COLL_START, 2);
    put_device_op(a, 152, 2, RING_COLL_END, 2);
    put(a, 159, 2, RING_STEP_END);
    put(a, 160, 3, RING_STEP_BEGIN);
    assemble_round(a);
    first = take(a, ASSEMBLED_STEP);
    second = take(a, ASSEMBLED_STEP);
    third = take(a, ASSEMBLED_STEP);
    assert_true(first.step.flags & STEP_AHEAD);
    assert_true(second.step.flags & STEP_AHEAD);
    assert_int_equal(third.step.flags, STEP_HOST_VIEW);
}

static void a_device_that_lags_is_waited_for_longer(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    put(a, 100, 0, RING_STEP_BEGIN);
    put_device_op(a, 101, 0, RING_COLL_ENQUEUE, 0);
    for (uint64_t step = 1; step <= 8; step++) {
        put(a, 100 + 10 * (int64_t)step, step, RING_STEP_BEGIN);
        assemble_round(a);
        take_nothing(a);
        put(a, 109 + 10 * (int64_t)step, step, RING_STEP_END);
    }
    put_device_op(a, 150, 8, RING_COLL_START, 0);
    put_device_op(a, 185, 8, RING_COLL_END, 0);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.step, 0);
    assert_int_equal(out.step.flags, STEP_HOST_VIEW | STEP_AHEAD);
    assert_int_equal(out.step.time[0].end_ns, 85 * MS);
}

/* But not for ever: it may have hung. */
static void a_device_that_never_ends_is_given_up(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };
    uint64_t step = 0;

    (void)state;
    put(a, 100, 0, RING_STEP_BEGIN);
    put_device_op(a, 101, 0, RING_COLL_ENQUEUE, 0);
    do {
        step++;
        assert_true(step < 40);
        put(a, 100 + 10 * (int64_t)step, step, RING_STEP_BEGIN);
        put(a, 109 + 10 * (int64_t)step, step, RING_STEP_END);
        assemble_round(a);
    } while (assemble_take(a, &out) == 0);
    assert_int_equal(out.step.step, 0);
    assert_true(out.step.flags & STEP_UNFINISHED);
    assert_true(out.step.flags & STEP_AHEAD);
}

/* ---- of some operations only the launch is known ---- */

static void launch_message(struct assemble *a, int64_t ms, uint64_t step, uint8_t what,
                           uint32_t peer)
{
    struct ring_event event = at(ms, step, RING_P2P_ENQUEUE);

    event.comm = 0;
    event.stream = LOCKSTEP_DEVICE_LAUNCHES;
    event.detail = what;
    event.c = peer;
    assemble_event(a, &event);
}

static void launches_without_times_are_counted_and_hold_no_step_back(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };
    struct fact_beat beat;

    (void)state;
    assemble_comm(a, 0, 77);
    put(a, 100, 0, RING_STEP_BEGIN);
    for (uint32_t peer = 0; peer < 2; peer++) {
        launch_message(a, 101, 0, LOCKSTEP_OP_SEND, peer);
        launch_message(a, 101, 0, LOCKSTEP_OP_RECV, peer);
    }
    launch_message(a, 102, 0, LOCKSTEP_OP_SEND, 1);
    put(a, 109, 0, RING_STEP_END);
    put(a, 110, 1, RING_STEP_BEGIN);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.flags, STEP_HOST_VIEW | STEP_UNTIMED);
    assert_int_equal(out.shape.count, 0);
    assemble_view(a, 200 * MS, &beat);
    assert_int_equal(beat.channels, 0); /* launches are progress */
    assemble_view(a, 1200 * MS, &beat);
    assert_int_equal(beat.ops, 0);
    assert_int_equal(beat.channels, 4);
    for (uint32_t i = 0; i < beat.channels; i++) {
        const struct beat_channel *channel = &beat.channel[i];
        bool twice = channel->what == LOCKSTEP_OP_SEND && channel->peer == 1;

        assert_int_equal(channel->comm, 77);
        assert_int_equal(channel->enqueued, twice ? 2 : 1);
        assert_true(channel->started == BEAT_UNKNOWN && channel->ended == BEAT_UNKNOWN);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_in_step_with_its_device_is_not_ahead),
        cmocka_unit_test(a_host_that_goes_on_to_the_next_step_is_ahead),
        cmocka_unit_test(who_catches_up_in_a_step_was_ahead_in_it),
        cmocka_unit_test(a_device_that_lags_is_waited_for_longer),
        cmocka_unit_test(a_device_that_never_ends_is_given_up),
        cmocka_unit_test(launches_without_times_are_counted_and_hold_no_step_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
