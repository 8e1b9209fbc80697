/* test-assemble-lost.c - what was lost, and what an earlier agent has reported.
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

static void lost_records_tear_a_step_and_are_counted(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled gap = { 0 }, torn = { 0 }, whole = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 1);
    put_lost(a, 140, 7, 7, RING_COLL_END, 12); /* inside step 7: begin and end are there */
    put_op(a, 140, 7, RING_COLL_END, 1);
    put(a, 150, 7, RING_STEP_END);
    put(a, 160, 8, RING_STEP_BEGIN);
    put(a, 170, 8, RING_STEP_END);
    put(a, 180, 9, RING_STEP_BEGIN);
    assemble_round(a);
    torn = take(a, ASSEMBLED_STEP);
    assert_true(torn.step.flags & STEP_TORN);
    assert_int_equal(torn.shape.count, 0); /* a list with holes would be nobody's shape */
    assert_int_equal(torn.step.duration_ns, 50 * MS);
    gap = take(a, ASSEMBLED_GAP);
    assert_int_equal(gap.gap.records, 12);
    assert_true(gap.gap.step_from == UINT64_MAX && gap.gap.step_to == UINT64_MAX);
    whole = take(a, ASSEMBLED_STEP);
    assert_int_equal(whole.step.flags & STEP_TORN, 0);
}

static void steps_that_are_lost_whole_are_in_the_gap(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled six = { 0 }, gap = { 0 }, next = { 0 };

    (void)state;
    put(a, 100, 6, RING_STEP_BEGIN);
    put(a, 110, 6, RING_STEP_END);
    put(a, 120, 7, RING_STEP_BEGIN);
    assemble_round(a);
    six = take(a, ASSEMBLED_STEP);
    put_lost(a, 400, 7, 12, RING_STEP_END, 50);
    put(a, 400, 12, RING_STEP_END);
    put(a, 410, 13, RING_STEP_BEGIN);
    put(a, 420, 13, RING_STEP_END);
    put(a, 430, 14, RING_STEP_BEGIN);
    assemble_round(a);
    gap = take(a, ASSEMBLED_GAP);
    assert_int_equal(gap.gap.records, 50);
    assert_int_equal(gap.gap.step_from, 7); /* its end was overwritten */
    assert_int_equal(gap.gap.step_to, 12);
    next = take(a, ASSEMBLED_STEP);
    assert_int_equal(next.step.step, 13);
    assert_int_equal(next.step.flags & STEP_TORN, 0);
}

static void a_hole_is_told_after_the_steps_before_it(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled six = { 0 }, seven = { 0 }, gap = { 0 }, nine = { 0 };

    (void)state;
    put(a, 100, 6, RING_STEP_BEGIN);
    put(a, 110, 6, RING_STEP_END);
    put(a, 120, 7, RING_STEP_BEGIN);
    put(a, 130, 7, RING_STEP_END);
    put_lost(a, 130, 7, 9, RING_STEP_BEGIN, 8); /* all of 8, while 6 and 7 wait */
    put(a, 160, 9, RING_STEP_BEGIN);
    put(a, 170, 9, RING_STEP_END);
    put(a, 180, 10, RING_STEP_BEGIN);
    assemble_round(a);
    six = take(a, ASSEMBLED_STEP);
    assert_int_equal(six.step.flags & STEP_TORN, 0);
    seven = take(a, ASSEMBLED_STEP);
    assert_int_equal(seven.step.step, 7);
    assert_int_equal(seven.step.tail_ns, 0); /* the begin of 8 is lost */
    gap = take(a, ASSEMBLED_GAP);
    assert_int_equal(gap.gap.records, 8);
    assert_int_equal(gap.gap.step_from, 8);
    assert_int_equal(gap.gap.step_to, 8);
    nine = take(a, ASSEMBLED_STEP);
    assert_int_equal(nine.step.step, 9);
    assert_int_equal(nine.step.flags & STEP_TORN, 0);
}

static void a_hole_that_ends_at_a_begin_leaves_that_step_whole(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled gap = { 0 }, next = { 0 };

    (void)state;
    put_lost(a, 400, RING_NO_STEP, 12, RING_STEP_BEGIN, 5);
    put(a, 400, 12, RING_STEP_BEGIN);
    put(a, 410, 12, RING_STEP_END);
    put(a, 420, 13, RING_STEP_BEGIN);
    assemble_round(a);
    gap = take(a, ASSEMBLED_GAP);
    assert_int_equal(gap.gap.step_from, 7); /* five records are five steps at most */
    assert_int_equal(gap.gap.step_to, 11);
    next = take(a, ASSEMBLED_STEP);
    assert_int_equal(next.step.step, 12);
    assert_int_equal(next.step.flags & STEP_TORN, 0);
}

static void what_was_told_in_an_earlier_life_is_not_told_again(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };
    const struct assemble_done done = { .any = true, .step = 8, .begin_ns = 200 * MS };

    (void)state;
    assemble_resume(a, &done);
    put_lost(a, 150, RING_NO_STEP, 7, RING_STEP_END, 1000); /* read by the other one */
    put(a, 150, 7, RING_STEP_END);
    for (uint64_t step = 8; step < 11; step++) {
        put(a, (int64_t)step * 25, step, RING_STEP_BEGIN);
        put(a, (int64_t)step * 25 + 10, step, RING_STEP_END);
    }
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.step, 9);
    take_nothing(a);
}

static void a_training_that_went_back_is_not_taken_for_told(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };
    const struct assemble_done done = { .any = true, .step = 50, .begin_ns = 200 * MS };

    (void)state;
    assemble_resume(a, &done);
    put(a, 200, 50, RING_STEP_BEGIN);
    put(a, 210, 50, RING_STEP_END);
    put(a, 300, 40, RING_STEP_BEGIN); /* from a checkpoint, in the same process */
    put(a, 310, 40, RING_STEP_END);
    put(a, 320, 41, RING_STEP_BEGIN);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.step, 40);
    take_nothing(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_records_tear_a_step_and_are_counted),
        cmocka_unit_test(steps_that_are_lost_whole_are_in_the_gap),
        cmocka_unit_test(a_hole_is_told_after_the_steps_before_it),
        cmocka_unit_test(a_hole_that_ends_at_a_begin_leaves_that_step_whole),
        cmocka_unit_test(what_was_told_in_an_earlier_life_is_not_told_again),
        cmocka_unit_test(a_training_that_went_back_is_not_taken_for_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
