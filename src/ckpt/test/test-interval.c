/* test-interval.c - how often to save.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "lockstep/ckpt.h"

static struct lockstep_ckpt_interval chosen(double save_s, double write_s, double failure_s,
                                            double step_s)
{
    struct lockstep_ckpt_costs costs = { .size = sizeof(costs),
                                         .save_s = save_s,
                                         .write_s = write_s,
                                         .failure_s = failure_s,
                                         .restart_s = 60,
                                         .step_s = step_s };
    struct lockstep_ckpt_interval interval = { .size = sizeof(interval) };

    assert_int_equal(lockstep_ckpt_interval(&costs, &interval), 0);
    return interval;
}

/* The time that a run of one second of work takes, in Daly's model without restarts. */
static double cost(double interval_s, double save_s, double failure_s)
{
    return failure_s * expm1(interval_s / failure_s) / (interval_s - save_s);
}

static void the_interval_is_the_cheapest_one(void **state)
{
    const double cases[][2] = { { 1, 86400 }, { 30, 3600 }, { 300, 86400 }, { 0.1, 600 } };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double save_s = cases[i][0], failure_s = cases[i][1],
               best = chosen(save_s, 0, failure_s, 0).interval_s;

        assert_true(cost(best, save_s, failure_s) <= cost(best * 1.1, save_s, failure_s));
        assert_true(cost(best, save_s, failure_s) <= cost(best / 1.1, save_s, failure_s));
    }
}

static void the_published_example_is_met(void **state)
{
    double daly = chosen(300, 0, 86400, 0).interval_s; /* five minutes, once a day */

    (void)state;
    assert_true(fabs(daly - (sqrt(2 * 300.0 * 86400) *
                             (1 + sqrt(300.0 / 172800) / 3 + 300.0 / 172800 / 9))) < 1e-6 * daly);
}

static void saves_longer_than_two_failures_are_made_once_per_failure(void **state)
{
    (void)state;
    assert_true(fabs(chosen(3000, 0, 1000, 0).interval_s - 4000) < 1e-9);
}

static void the_disk_sets_the_shortest_interval(void **state)
{
    struct lockstep_ckpt_interval fast = chosen(0.1, 5, 86400, 0),
                                  slow = chosen(0.1, 900, 86400, 0),
                                  steps = chosen(0, 10, 86400, 3);

    (void)state;
    assert_true(fast.interval_s > 100 && fast.interval_s < 150);
    assert_true(fabs(slow.interval_s - 900) < 1e-9);
    assert_non_null(strstr(slow.why, "the disk needs 15 min"));
    assert_int_equal(steps.steps, 4); /* three steps would be shorter than the disk needs */
}

static void shares_add_up_and_steps_are_whole(void **state)
{
    struct lockstep_ckpt_interval interval = chosen(2, 20, 7200, 1.5);

    (void)state;
    assert_true(interval.steps > 0 &&
                fabs((double)interval.steps * 1.5 - interval.interval_s) < 1e-9);
    assert_true(fabs(interval.save_share - 2 / interval.interval_s) < 1e-12);
    assert_true(fabs(interval.rework_share - (interval.interval_s / 2 + 20) / 7200) < 1e-12);
    assert_true(fabs(interval.restart_share - 60.0 / 7200) < 1e-12);
    assert_int_equal(chosen(0, 0, 1, 5).steps, 1);
}

static void numbers_that_make_no_sense_are_refused(void **state)
{
    const double bad[][2] = { { -1, 10 }, { 1, 0 }, { NAN, 10 }, { 1, NAN }, { INFINITY, 10 } };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct lockstep_ckpt_costs costs = { .size = sizeof(costs),
                                             .save_s = bad[i][0],
                                             .failure_s = bad[i][1] };
        struct lockstep_ckpt_interval interval = { .size = sizeof(interval) };

        assert_int_equal(lockstep_ckpt_interval(&costs, &interval), -EINVAL);
    }
    assert_int_equal(lockstep_ckpt_interval(NULL, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_the_cheapest_one),
        cmocka_unit_test(the_published_example_is_met),
        cmocka_unit_test(saves_longer_than_two_failures_are_made_once_per_failure),
        cmocka_unit_test(the_disk_sets_the_shortest_interval),
        cmocka_unit_test(shares_add_up_and_steps_are_whole),
        cmocka_unit_test(numbers_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
