/* test-assemble-memory.c - the assembler's memory does not grow with the steps of a rank; shapes are reported in each attempt.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/outbox.h"
#include "agent/test/assemble_feed.h"
#include "core/clean.h"

#define STEPS 1000000
#define GROWTH_MOST (64u << 10)

/* Keys never come again, an op ends in the step after, records are lost now and then. */
static void step_put(struct assemble *a, uint64_t step)
{
    int64_t ms = (int64_t)step * 10;
    struct assembled out = { 0 };

    put(a, ms, step, RING_STEP_BEGIN);
    put_span(a, ms + 1, step, ms, ms, ms + 1);
    put_op(a, ms + 1, step, RING_COLL_ENQUEUE, 2 * step);
    put_op(a, ms + 2, step, RING_COLL_START, 2 * step);
    if (step % 1000 == 999)
        put_lost(a, ms + 3, step, step, RING_COLL_END, 3);
    else
        put_op(a, ms + 3, step, RING_COLL_END, 2 * step);
    put_op(a, ms + 3, step, RING_P2P_ENQUEUE, 2 * step + 1);
    put_op(a, ms + 4, step, RING_P2P_START, 2 * step + 1);
    put(a, ms + 5, step, RING_STEP_END);
    put_op(a, ms + 6, step, RING_P2P_END, 2 * step + 1);
    if (step % 8 == 7)
        assemble_round(a);
    while (step % 8 == 7 && assemble_take(a, &out) == 1) {
        assembled_fini(&out);
        out = (struct assembled){ 0 };
    }
}

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static void its_memory_does_not_grow_with_the_steps_of_a_rank(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    size_t tenth;

    (void)state;
    for (uint64_t step = 0; step < STEPS / 10; step++)
        step_put(a, step);
    tenth = allocated();
    for (uint64_t step = STEPS / 10; step < STEPS; step++)
        step_put(a, step);
    assert_true(allocated() <= tenth + GROWTH_MOST);
}

static void a_shape_is_told_again_in_the_next_attempt(void **state)
{
    struct shape_cache cache = { 0 };

    (void)state;
    shape_cache_add(&cache, 77);
    shape_cache_attempt(&cache, 0);
    assert_true(shape_cache_has(&cache, 77));
    shape_cache_attempt(&cache, 1);
    assert_false(shape_cache_has(&cache, 77));
    shape_cache_add(&cache, 77);
    shape_cache_attempt(&cache, 0); /* what still comes of the one before */
    assert_true(shape_cache_has(&cache, 77));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_memory_does_not_grow_with_the_steps_of_a_rank),
        cmocka_unit_test(a_shape_is_told_again_in_the_next_attempt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
