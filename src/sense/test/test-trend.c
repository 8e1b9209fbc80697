/* test-trend.c - what a number over the last minutes foretells, and what is no trend.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/trend.h"

#define MINUTE_NS (60 * NS_PER_S)

static void a_number_that_falls_is_foretold(void **state)
{
    struct sense_trend trend = { 0 };
    int64_t in_ns = -1;

    (void)state;
    for (int i = 0; i < 10; i++) {
        assert_int_equal(trend_falls_to(&trend, 0, &in_ns), i >= 6);
        assert_true(trend_add(&trend, (i + 1) * MINUTE_NS, 30 - 2 * i));    /* 2 C a minute */
        assert_false(trend_add(&trend, (i + 1) * MINUTE_NS + NS_PER_S, 0)); /* too soon */
    }
    assert_true(trend_falls_to(&trend, 0, &in_ns));
    assert_in_range(in_ns, 6 * MINUTE_NS - NS_PER_S, 6 * MINUTE_NS + NS_PER_S);
    for (int i = 0; i < TREND_POINTS; i++)
        trend_add(&trend, (i + 20) * MINUTE_NS, 12); /* and it stays there */
    assert_false(trend_falls_to(&trend, 0, &in_ns));
}

static void events_rise_only_if_there_are_more_and_more(void **state)
{
    struct sense_trend steady = { 0 }, burst = { 0 }, rising = { 0 };
    struct trend_rise rise;

    (void)state;
    for (int i = 0; i < TREND_POINTS; i++) {
        trend_grow(&steady, (i + 1) * MINUTE_NS, 5);
        trend_grow(&burst, (i + 1) * MINUTE_NS, i == 4 ? 100 : 0);
        trend_grow(&rising, (i + 1) * MINUTE_NS, i);
    }
    assert_false(trend_rises(&steady, 10, &rise));
    assert_false(trend_rises(&burst, 10, &rise));
    assert_true(trend_rises(&rising, 10, &rise));
    assert_true(rise.before > 0 && rise.after >= 2 * rise.before);
    assert_false(trend_rises(&rising, 1000, &rise)); /* too few to matter */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_that_falls_is_foretold),
        cmocka_unit_test(events_rise_only_if_there_are_more_and_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
