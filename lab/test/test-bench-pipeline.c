/* test-bench-pipeline.c - the program that is measured is the schedule it claims to be.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/clean.h"
#include "lab/bench/bench_pipeline.h"

static int64_t step_of(const struct pipeline_shape *shape, const struct pipeline_times *times,
                       uint64_t seed)
{
    struct rand rand = { .state = seed };
    struct pipeline pipeline;
    struct replay *replay = NULL;
    int64_t step;
    void *scratch;

    assert_int_equal(pipeline_init(&pipeline, shape, times, &rand), 0);
    assert_int_equal(replay_create(pipeline.op, pipeline.count, &replay, NULL), 0);
    assert_int_equal(pipeline.compute_count,
                     (size_t)2 * shape->stages * shape->replicas * shape->micro_batches);
    scratch = aligned_alloc(64, replay_scratch_bytes(replay));
    assert_non_null(scratch);
    step = replay_run(replay, pipeline.duration, scratch, NULL, NULL);
    free(scratch);
    replay_destroy(replay);
    pipeline_fini(&pipeline);
    return step;
}

static void an_even_pipeline_takes_micro_batches_plus_stages_minus_one_turns(void **state)
{
    const struct pipeline_times times = {
        .forward = 10, .backward = 20, .reduce = 7, .optimizer = 3
    };

    (void)state;
    for (uint32_t stages = 1; stages <= 8; stages++) {
        for (uint32_t micro = 1; micro <= 16; micro++) {
            const struct pipeline_shape shape = { stages, 3, micro, micro % 2 };

            assert_int_equal(step_of(&shape, &times, 1), (micro + stages - 1) * 30 + 10);
        }
    }
}

static void transfers_lengthen_the_first_way_through(void **state)
{
    const struct pipeline_times times = { .forward = 10, .backward = 20, .transfer = 2 };
    const struct pipeline_shape shape = { 4, 2, 1, false };

    (void)state; /* one micro-batch: up and down once, three transfers each way */
    assert_int_equal(step_of(&shape, &times, 1), 4 * 30 + 6 * 2);
}

static void both_orders_of_the_same_ops_take_as_long(void **state)
{
    struct pipeline_shape shape = { 6, 12, 9, false };
    const struct pipeline_times times = { 1000, 2000, 100, 3000, 500, 0.2 };

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        int64_t step;

        shape.by_rank = false;
        step = step_of(&shape, &times, seed);
        shape.by_rank = true;
        assert_int_equal(step_of(&shape, &times, seed), step);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_even_pipeline_takes_micro_batches_plus_stages_minus_one_turns),
        cmocka_unit_test(transfers_lengthen_the_first_way_through),
        cmocka_unit_test(both_orders_of_the_same_ops_take_as_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
