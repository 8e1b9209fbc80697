/* test-device-line.c - steps as a device saw them, from stamps, launches and the ends of operations.
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

#define US INT64_C(1000)

static uint64_t tag; /* of the newest stamp */

/* The host launches a stamp; times in us. */
static void put_stamp(struct assemble *a, int64_t us, uint64_t step, uint8_t what, uint8_t phase)
{
    struct ring_event event = at(0, step, RING_STAMP);

    event.time_ns = (uint64_t)(us * US);
    event.detail = what;
    event.stream = RING_STAMP_STREAM;
    event.a = ++tag;
    event.b = phase;
    assemble_event(a, &event);
}

static void put_mark(struct assemble *a, int64_t us, uint64_t step, uint8_t kind)
{
    struct ring_event event = at(0, step, kind);

    event.time_ns = (uint64_t)(us * US);
    assemble_event(a, &event);
}

static void put_device_op(struct assemble *a, int64_t us, uint64_t step, uint8_t kind, uint64_t key)
{
    struct ring_event event = at(0, step, kind);

    event.time_ns = (uint64_t)(us * US);
    event.comm = 0;
    event.stream = LOCKSTEP_DEVICE_OPS;
    event.detail = kind == RING_COLL_ENQUEUE ? LOCKSTEP_OP_ALL_REDUCE : 0;
    event.a = key;
    assemble_event(a, &event);
}

static void put_message(struct assemble *a, int64_t us, uint64_t step, uint8_t op, uint32_t peer)
{
    struct ring_event event = at(0, step, RING_P2P_ENQUEUE);

    event.time_ns = (uint64_t)(us * US);
    event.comm = 0;
    event.stream = LOCKSTEP_DEVICE_LAUNCHES;
    event.detail = op;
    event.b = 4096;
    event.c = peer;
    assemble_event(a, &event);
}

static void item_is(const struct assembled *out, uint32_t i, uint8_t kind, int64_t start_us,
                    int64_t end_us)
{
    if (i >= out->shape.count || out->shape.item[i].kind != kind ||
        out->step.time[i].start_ns != start_us * US || out->step.time[i].end_ns != end_us * US)
        fail_msg("item %u of %u: kind %u, %lld to %lld us; expected %u, %lld to %lld", i,
                 out->shape.count, i < out->shape.count ? out->shape.item[i].kind : 0,
                 (long long)(i < out->shape.count ? out->step.time[i].start_ns / US : 0),
                 (long long)(i < out->shape.count ? out->step.time[i].end_ns / US : 0), kind,
                 (long long)start_us, (long long)end_us);
}

/* A step whose host launches all of it within 1 ms, from `host` on, and whose device works on it from `device` on: 5 ms of forward,
 * 6 ms of backward with a reduction from the second to the ninth, of which 2 ms are not hidden, and 1 ms of optimizer.
 */
static void put_step(struct assemble *a, uint64_t step, int64_t host)
{
    put_mark(a, host, step, RING_STEP_BEGIN);
    put_stamp(a, host + 10, step, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    put_stamp(a, host + 20, step, RING_STAMP_PHASE, LOCKSTEP_PHASE_FORWARD);
    put_stamp(a, host + 200, step, RING_STAMP_PHASE, LOCKSTEP_PHASE_BACKWARD);
    put_device_op(a, host + 400, step, RING_COLL_ENQUEUE, step);
    put_stamp(a, host + 600, step, RING_STAMP_WAIT_BEGIN, LOCKSTEP_PHASE_BACKWARD);
    put_stamp(a, host + 610, step, RING_STAMP_WAIT_END, LOCKSTEP_PHASE_BACKWARD);
    put_stamp(a, host + 700, step, RING_STAMP_PHASE, LOCKSTEP_PHASE_OPTIMIZER);
    put_stamp(a, host + 900, step, RING_STAMP_STEP_END, LOCKSTEP_PHASE_OTHER);
    put_mark(a, host + 910, step, RING_STEP_END);
}

static void run_step(struct assemble *a, uint64_t step, int64_t device)
{
    const int64_t ran[] = { 0, 10, 5000, 11000, 13020, 13030, 14000 };
    uint64_t first = step * COUNT(ran) + 1;

    for (size_t i = 0; i < COUNT(ran); i++)
        assemble_stamp(a, first + i, (device + ran[i]) * US);
    put_device_op(a, device + 6000, step, RING_COLL_START, step);
    put_device_op(a, device + 13000, step, RING_COLL_END, step);
}

static void a_host_that_runs_ahead_is_told_by_its_device(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);

    (void)state;
    tag = 0;
    assemble_comm(a, 0, 77);
    for (uint64_t step = 0; step < 4; step++)
        put_step(a, step, 1000 + (int64_t)step * 1000);
    assemble_round(a);
    assemble_round(a);
    take_nothing(a); /* its device has done nothing of it yet */
    for (uint64_t step = 0; step < 4; step++)
        run_step(a, step, 2000 + (int64_t)step * 14000);
    assemble_round(a);
    for (uint64_t step = 0; step < 3; step++) {
        CLEAN(assembled_fini) struct assembled out = take(a, ASSEMBLED_STEP);
        assert_int_equal(out.step.step, step);
        assert_int_equal(out.step.flags, 0);
        assert_int_equal(out.step.begin_ns, (2000 + (int64_t)step * 14000) * US);
        assert_int_equal(out.step.duration_ns, 14000 * US);
        assert_int_equal(out.step.tail_ns, 0);
        assert_int_equal(out.shape.count, 16);
        item_is(&out, 3, ITEM_SPAN, 10, 5000); /* forward */
        assert_int_equal(out.shape.item[3].what, LOCKSTEP_PHASE_FORWARD);
        item_is(&out, 5, ITEM_SPAN, 5000, 6000); /* until its gradients can travel */
        item_is(&out, 6, ITEM_COLL, 6000, 13020);
        item_is(&out, 7, ITEM_SPAN, 6000, 11000);
        item_is(&out, 9, ITEM_SPAN, 13020, 13020); /* after the wait */
        item_is(&out, 13, ITEM_SPAN, 13030, 14000);
        assert_int_equal(out.shape.item[13].what, LOCKSTEP_PHASE_OPTIMIZER);
    }
    take_nothing(a);
}

static void what_a_host_makes_its_device_wait_for_is_the_hosts(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    tag = 0;
    put_mark(a, 1000, 0, RING_STEP_BEGIN);
    put_stamp(a, 1000, 0, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    put_stamp(a, 1010, 0, RING_STAMP_PHASE, LOCKSTEP_PHASE_DATA);
    put_stamp(a, 31010, 0, RING_STAMP_PHASE, LOCKSTEP_PHASE_FORWARD);
    put_stamp(a, 32010, 0, RING_STAMP_PHASE, LOCKSTEP_PHASE_OTHER);
    put_mark(a, 33000, 1, RING_STEP_BEGIN);
    put_stamp(a, 50000, 1, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    assemble_stamp(a, 1, 1005 * US);
    assemble_stamp(a, 2, 1015 * US);
    assemble_stamp(a, 3, 31015 * US); /* at once: the device had nothing to do */
    assemble_stamp(a, 4, 41000 * US); /* 9 ms after its launch: it worked */
    assemble_stamp(a, 5, 50005 * US);
    assemble_round(a);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.flags, 0);
    assert_int_equal(out.step.duration_ns, 49000 * US);
    item_is(&out, 2, ITEM_PHASE, 10, 30010);
    assert_int_equal(out.shape.item[2].what, LOCKSTEP_PHASE_DATA);
    item_is(&out, 3, ITEM_SPAN, 30010, 30010);
    item_is(&out, 5, ITEM_SPAN, 30010, 39995);
    assert_int_equal(out.shape.item[5].what, LOCKSTEP_PHASE_FORWARD);
    item_is(&out, 6, ITEM_PHASE, 39995, 49000);
    assert_int_equal(out.shape.item[6].what, LOCKSTEP_PHASE_OTHER);
}

static void an_exchange_whose_kernels_nobody_times_has_those_of_its_wait(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    tag = 0;
    assemble_comm(a, 0, 77);
    put_mark(a, 1000, 0, RING_STEP_BEGIN);
    put_stamp(a, 1000, 0, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    put_stamp(a, 1100, 0, RING_STAMP_WAIT_BEGIN, LOCKSTEP_PHASE_FORWARD);
    put_message(a, 1110, 0, LOCKSTEP_OP_SEND, 0);
    put_message(a, 1111, 0, LOCKSTEP_OP_RECV, 0);
    put_message(a, 1112, 0, LOCKSTEP_OP_SEND, 1);
    put_message(a, 1113, 0, LOCKSTEP_OP_RECV, 1);
    put_stamp(a, 1120, 0, RING_STAMP_WAIT_END, LOCKSTEP_PHASE_FORWARD);
    put_mark(a, 1200, 1, RING_STEP_BEGIN);
    put_stamp(a, 1200, 1, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    for (uint64_t i = 1; i <= 4; i++)
        assemble_stamp(a, i, (2000 + (int64_t)i * 1000) * US);
    assemble_round(a);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.flags, 0);
    assert_int_equal(out.shape.count, 7);
    item_is(&out, 1, ITEM_SPAN, 0, 1000);
    item_is(&out, 3, ITEM_COLL, 1000, 2000);
    assert_int_equal(out.shape.item[3].what, LOCKSTEP_OP_ALL_TO_ALL);
    assert_int_equal(out.shape.item[3].comm, 77);
    assert_true(stream_has_ops_only(out.shape.item[3].stream));
    item_is(&out, 4, ITEM_SPAN, 2000, 2000);
    item_is(&out, 6, ITEM_SPAN, 2000, 3000);
}

/* One that nobody waits for has no times, and what the step's own work was is not known. */
static void an_exchange_without_a_wait_has_no_times(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    tag = 0;
    assemble_comm(a, 0, 77);
    put_mark(a, 1000, 0, RING_STEP_BEGIN);
    put_stamp(a, 1000, 0, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    put_message(a, 1110, 0, LOCKSTEP_OP_SEND, 0);
    put_mark(a, 1200, 1, RING_STEP_BEGIN);
    put_stamp(a, 1200, 1, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    assemble_stamp(a, 1, 3000 * US);
    assemble_stamp(a, 2, 4000 * US);
    assemble_round(a);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.flags, STEP_UNTIMED);
}

/* Stamps in a graph have one launch and run with every replay, in the step that replays it. */
static void stamps_of_a_graph_come_with_each_replay(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };
    struct ring_event event = at(0, 0, RING_STAMP);

    (void)state;
    tag = 0;
    put_mark(a, 500, 0, RING_STEP_BEGIN);
    for (uint64_t i = 0; i < 2; i++) {
        event.time_ns = 600000;
        event.detail = i ? RING_STAMP_WAIT_END : RING_STAMP_WAIT_BEGIN;
        event.a = (1000 + i) | RING_STAMP_CAPTURED;
        event.b = LOCKSTEP_PHASE_OTHER;
        assemble_event(a, &event);
    }
    for (uint64_t step = 1; step < 4; step++) {
        put_mark(a, (int64_t)step * 10000, step, RING_STEP_BEGIN);
        put_stamp(a, (int64_t)step * 10000, step, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
        assemble_stamp(a, step, (int64_t)step * 10000 * US + 300 * US);
        assemble_stamp(a, 1000 | RING_STAMP_CAPTURED, (int64_t)step * 10000 * US + 4300 * US);
        assemble_stamp(a, 1001 | RING_STAMP_CAPTURED, (int64_t)step * 10000 * US + 6300 * US);
    }
    assemble_round(a);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP); /* without stamps of its own */
    assert_int_equal(out.step.flags, STEP_HOST_VIEW);
    assembled_fini(&out);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.step, 1);
    assert_int_equal(out.step.flags, 0);
    item_is(&out, 1, ITEM_SPAN, 0, 4000);
    item_is(&out, 3, ITEM_SPAN, 4000, 6000); /* nothing that it can have waited for is known */
    item_is(&out, 5, ITEM_SPAN, 6000, 10000);
}

/* A hostile ring: a tag that runs twice, once after its step is made, and one that nobody launched. */
static void a_tag_that_runs_twice_changes_nothing(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    tag = 0;
    put_mark(a, 1000, 0, RING_STEP_BEGIN);
    put_stamp(a, 1000, 0, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    put_stamp(a, 1100, 0, RING_STAMP_PHASE, LOCKSTEP_PHASE_FORWARD);
    put_mark(a, 2000, 1, RING_STEP_BEGIN);
    put_stamp(a, 2000, 1, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    for (int again = 0; again < 3; again++) {
        assemble_stamp(a, 1, 3000 * US + again);
        assemble_stamp(a, 2, 4000 * US + again);
        assemble_stamp(a, 3, 5000 * US + again);
        assemble_stamp(a, 4711, 5000 * US);
    }
    assemble_round(a);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.flags, 0);
    assert_int_equal(out.step.begin_ns, 3000 * US);
    item_is(&out, 1, ITEM_SPAN, 0, 1000);
    for (uint64_t i = 1; i <= 3; i++)
        assemble_stamp(a, i, 9000 * US);
    assemble_finish(a, 0);
    assembled_fini(&out);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.step, 1);
}

static void a_step_with_most_stamps_left_out_is_not_judged(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };
    struct ring_event event = at(1, 0, RING_STAMP);

    (void)state;
    tag = 1;
    put_mark(a, 1000, 0, RING_STEP_BEGIN);
    event.detail = RING_STAMP_STEP_BEGIN;
    event.a = 1;
    event.c = 1;
    assemble_event(a, &event);
    put_mark(a, 2000, 1, RING_STEP_BEGIN);
    put_stamp(a, 2000, 1, RING_STAMP_STEP_BEGIN, LOCKSTEP_PHASE_OTHER);
    assemble_stamp(a, 1, 1100 * US);
    assemble_stamp(a, 2, 2100 * US);
    assemble_round(a);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.flags, STEP_HOST_VIEW | STEP_UNTIMED);
    assert_int_equal(out.shape.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_that_runs_ahead_is_told_by_its_device),
        cmocka_unit_test(what_a_host_makes_its_device_wait_for_is_the_hosts),
        cmocka_unit_test(an_exchange_whose_kernels_nobody_times_has_those_of_its_wait),
        cmocka_unit_test(an_exchange_without_a_wait_has_no_times),
        cmocka_unit_test(stamps_of_a_graph_come_with_each_replay),
        cmocka_unit_test(a_tag_that_runs_twice_changes_nothing),
        cmocka_unit_test(a_step_with_most_stamps_left_out_is_not_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
