/* test-time.c - times as people write them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/clean.h"

static void a_time_is_written_in_utc_with_milliseconds(void **state)
{
    char text[32];

    (void)state;
    time_format_utc(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    time_format_utc(INT64_C(1772361727123999999), text);
    assert_string_equal(text, "2026-03-01T10:42:07.123Z");
}

static void times_before_the_epoch_are_times_too(void **state)
{
    char text[32];

    (void)state;
    time_format_utc(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999Z");
}

static void the_monotonic_clock_does_not_go_back(void **state)
{
    int64_t last = time_mono_ns();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t now = time_mono_ns();

        assert_true(now >= last);
        last = now;
    }
}

static void a_timespec_holds_the_same_time(void **state)
{
    struct timespec spec = time_spec(INT64_C(1500000001));

    (void)state;
    assert_int_equal(spec.tv_sec, 1);
    assert_int_equal(spec.tv_nsec, 500000001);
}

static void a_wait_is_never_negative_but_for_ever(void **state)
{
    const int64_t now = 5 * NS_PER_S,
                  times[] = { INT64_MIN, -NS_PER_S, -1, 0, 1, now - NS_PER_S, now - 1, now };

    (void)state;
    assert_int_equal(time_poll_ms(INT64_MAX, now), -1);
    for (size_t i = 0; i < COUNT(times); i++)
        assert_int_equal(time_poll_ms(times[i], now), 0);
    for (int64_t until = now; until > 0 && until < INT64_MAX / 2; until += until / 3)
        assert_true(time_poll_ms(until, now) >= 0);
    assert_int_equal(time_poll_ms(INT64_MAX - 1, INT64_MIN), 3600000);
    assert_int_equal(time_poll_ms(0, INT64_MIN), 3600000);
}

static void a_wait_is_rounded_up_and_an_hour_at_most(void **state)
{
    (void)state;
    assert_int_equal(time_poll_ms(1, 0), 1); /* 0 would be a loop that never sleeps */
    assert_int_equal(time_poll_ms(NS_PER_MS, 0), 1);
    assert_int_equal(time_poll_ms(NS_PER_MS + 1, 0), 2);
    assert_int_equal(time_poll_ms(3600 * NS_PER_S, 0), 3600000);
    assert_int_equal(time_poll_ms(3600 * NS_PER_S + 1, 0), 3600000);
    assert_int_equal(time_poll_ms(INT64_MAX - 1, 0), 3600000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_is_written_in_utc_with_milliseconds),
        cmocka_unit_test(times_before_the_epoch_are_times_too),
        cmocka_unit_test(the_monotonic_clock_does_not_go_back),
        cmocka_unit_test(a_timespec_holds_the_same_time),
        cmocka_unit_test(a_wait_is_never_negative_but_for_ever),
        cmocka_unit_test(a_wait_is_rounded_up_and_an_hour_at_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
