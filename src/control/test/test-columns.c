/* test-columns.c - steps of ranks in any order, columns in theirs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/matrix/columns.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "lockstep/probe.h"

struct given {
    struct {
        uint32_t attempt, have, worst;
        uint64_t step;
        int64_t median_ns, excess_ns;
        double loss, tokens;
    } column[64];
    size_t count;
    int refuse; /* -errno */
};

static int take(void *arg, const struct column *column)
{
    struct given *given = arg;

    if (given->refuse)
        return given->refuse;
    assert_true(given->count < COUNT(given->column));
    given->column[given->count].attempt = column->attempt;
    given->column[given->count].have = column->have;
    given->column[given->count].worst = column->worst;
    given->column[given->count].step = column->step;
    given->column[given->count].median_ns = column->median_ns;
    given->column[given->count].loss = column_mean(&column->loss);
    given->column[given->count].tokens = column_mean(&column->tokens);
    given->column[given->count++].excess_ns = column->excess_ns;
    return 0;
}

static int put(struct columns *columns, uint32_t attempt, uint32_t rank, uint64_t step,
               int64_t local_ns, uint64_t offset)
{
    struct fact_step fact = { .attempt = attempt, .rank = rank, .step = step, .duration_ns = 1000 };

    return columns_step(columns, &fact, local_ns, 0, &(struct log_mark){ .offset = offset });
}

static uint64_t position(const struct columns *columns, uint64_t offset)
{
    return columns_position(columns, &(struct log_mark){ .offset = offset }).offset;
}

static void a_column_comes_when_all_ranks_have_told(void **state)
{
    struct given given = { 0 };
    struct columns *columns;

    (void)state;
    assert_int_equal(columns_create(take, &given, &columns), 0);
    assert_int_equal(columns_world(columns, 3), 0);
    put(columns, 0, 0, 0, 100, 10);
    put(columns, 0, 0, 1, 100, 20);
    put(columns, 0, 1, 1, 110, 30);
    put(columns, 0, 2, 1, 500, 40);
    assert_int_equal(given.count, 0); /* step 0 comes first */
    assert_int_equal(position(columns, 50), 10);
    put(columns, 0, 2, 0, 90, 50);
    put(columns, 0, 2, 0, 95, 55); /* twice */
    put(columns, 0, 1, 0, 95, 60);
    assert_int_equal(given.count, 2);
    assert_int_equal(given.column[0].step, 0);
    assert_int_equal(given.column[0].median_ns, 95);
    assert_int_equal(given.column[1].worst, 2);
    assert_int_equal(given.column[1].median_ns, 110);
    assert_int_equal(given.column[1].excess_ns, 390);
    assert_int_equal(position(columns, 70), 70);
    columns_destroy(columns);
}

static void means_are_of_the_ranks_that_reported_a_number(void **state)
{
    struct fact_step fact = { .duration_ns = 1000 };
    struct given given = { 0 };
    struct columns *columns;

    (void)state;
    assert_int_equal(columns_create(take, &given, &columns), 0);
    assert_int_equal(columns_world(columns, 3), 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        fact.rank = rank;
        fact.metric_set = rank < 2 ? 1u << LOCKSTEP_METRIC_TOKENS : 0;
        fact.metric[LOCKSTEP_METRIC_TOKENS] = 1000 * rank;
        fact.metric[LOCKSTEP_METRIC_LOSS] = 7; /* not set */
        columns_step(columns, &fact, 100, 0, &(struct log_mark){ .offset = rank });
    }
    assert_int_equal(given.count, 1);
    assert_true(given.column[0].tokens == 500);
    assert_true(isnan(given.column[0].loss));
    columns_destroy(columns);
}

static void nobody_is_waited_for_for_ever(void **state)
{
    struct given given = { 0 };
    struct columns *columns;

    (void)state;
    assert_int_equal(columns_create(take, &given, &columns), 0);
    assert_int_equal(columns_world(columns, 2), 0);
    put(columns, 0, 0, 0, 1, 0);
    for (uint64_t step = 1; step < 5; step++) {
        put(columns, 0, 0, step, 1, step);
        put(columns, 0, 1, step, 1, step);
    }
    assert_int_equal(given.count, 5);
    assert_int_equal(given.column[0].have, 1);
    put(columns, 0, 1, 0, 1, 9); /* too late */
    assert_int_equal(given.count, 5);
    for (uint64_t step = 5; step < 500; step++) { /* rank 1 is gone: what waits stays bounded */
        given.count = 0;
        put(columns, 0, 0, step, 1, step);
    }
    given.count = 0;
    assert_int_equal(columns_flush(columns), 0);
    assert_int_equal(given.count, 64);
    columns_destroy(columns);
}

/* The rings of all nodes need not come before the first steps: columns that wait grow, and wait on. */
static void ranks_that_are_heard_late_are_in_the_columns_that_wait(void **state)
{
    struct given given = { 0 };
    struct columns *columns;

    (void)state;
    assert_int_equal(columns_create(take, &given, &columns), 0);
    assert_int_equal(columns_world(columns, 3000), 0);
    for (uint32_t rank = 0; rank < 3000; rank++)
        assert_int_equal(put(columns, 0, rank, 0, rank == 2500 ? 900 : 100, rank), 0);
    assert_int_equal(given.count, 1);
    assert_int_equal(given.column[0].have, 3000);
    assert_int_equal(given.column[0].worst, 2500);
    columns_destroy(columns);
}

static void a_new_attempt_ends_the_old_one(void **state)
{
    struct given given = { 0 };
    struct columns *columns;
    uint32_t attempt;
    uint64_t done;

    (void)state;
    assert_int_equal(columns_create(take, &given, &columns), 0);
    assert_int_equal(columns_world(columns, 2), 0);
    put(columns, 0, 0, 7, 1, 0);
    put(columns, 1, 0, 3, 1, 1);
    assert_int_equal(given.count, 1);
    assert_int_equal(given.column[0].step, 7);
    put(columns, 0, 1, 8, 1, 2); /* of the old one */
    put(columns, 1, 1, 3, 1, 3);
    assert_int_equal(given.count, 2);
    assert_int_equal(given.column[1].attempt, 1);
    columns_done(columns, &attempt, &done);
    assert_int_equal(attempt, 1);
    assert_int_equal(done, 4);
    columns_destroy(columns);
}

static void a_second_life_gives_nothing_twice(void **state)
{
    struct given given = { 0 };
    struct columns *columns;

    (void)state;
    assert_int_equal(columns_create(take, &given, &columns), 0);
    assert_int_equal(columns_world(columns, 1), 0);
    columns_resume(columns, 2, 10);
    put(columns, 1, 0, 50, 1, 0);
    put(columns, 2, 0, 9, 1, 0);
    put(columns, 2, 0, 10, 1, 0);
    assert_int_equal(given.count, 1);
    assert_int_equal(given.column[0].step, 10);
    given.refuse = -EIO;
    assert_int_equal(put(columns, 2, 0, 11, 1, 0), -EIO);
    assert_int_equal(put(columns, 2, COLUMN_RANKS_MAX, 12, 1, 0), -E2BIG);
    columns_destroy(columns);
}

static void own_work_is_what_others_did_not_hold_up(void **state)
{
    struct shape_item item[] = { { .kind = ITEM_PHASE },
                                 { .kind = ITEM_SPAN },
                                 { .kind = ITEM_COLL } };
    struct item_time time[] = { { .end_ns = 100 },
                                { .start_ns = 10, .end_ns = 50 },
                                { .start_ns = 40, .end_ns = 90 } };
    struct fact_shape shape = { .count = 3, .item = item };
    struct fact_step step = { .duration_ns = 120, .count = 3, .time = time };

    (void)state;
    assert_int_equal(fact_step_local_ns(&step, &shape), 40);
    step.flags = STEP_HOST_VIEW;
    assert_int_equal(fact_step_local_ns(&step, &shape), 70);
    step.duration_ns = 10;
    assert_int_equal(fact_step_local_ns(&step, &shape), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_comes_when_all_ranks_have_told),
        cmocka_unit_test(means_are_of_the_ranks_that_reported_a_number),
        cmocka_unit_test(nobody_is_waited_for_for_ever),
        cmocka_unit_test(ranks_that_are_heard_late_are_in_the_columns_that_wait),
        cmocka_unit_test(a_new_attempt_ends_the_old_one),
        cmocka_unit_test(a_second_life_gives_nothing_twice),
        cmocka_unit_test(own_work_is_what_others_did_not_hold_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
