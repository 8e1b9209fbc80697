/* test-nccl-clock.c - a device's times on the host's clock.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include "core/time.h"
#include "probe/nccl.h"

#define AHEAD 1000000u /* device's clock before the host's */
#define S ((uint64_t)NS_PER_S)

static void the_quickest_telling_is_the_offset(void **state)
{
    struct nccl_clock clock = { 0 };

    (void)state;
    assert_int_equal(nccl_clock_host(&clock, S + AHEAD, S + 500), S + 500);
    assert_int_equal(nccl_clock_host(&clock, S + 1000 + AHEAD, S + 1200), S + 1200); /* quicker */
    assert_int_equal(nccl_clock_host(&clock, S + 2000 + AHEAD, S + 90000),
                     S + 2200); /* told late */
}

static void what_is_old_is_forgotten_so_that_drift_is_followed(void **state)
{
    struct nccl_clock clock = { 0 };
    uint64_t now_ns = S, host_ns = 0;

    (void)state;
    /* The device's clock loses 100 us a second; each is told 1 us after it was. */
    for (int i = 0; i < 600; i++, now_ns += S / 10) {
        uint64_t drift_ns = (now_ns - S) / 10000;

        host_ns = nccl_clock_host(&clock, now_ns - drift_ns, now_ns + 1000);
        assert_true(host_ns <= now_ns + 1000);
        assert_true(host_ns + 250000 >= now_ns);
    }
    /* And the other way. */
    for (int i = 0; i < 600; i++, now_ns += S / 10) {
        host_ns = nccl_clock_host(&clock, now_ns + (uint64_t)i * 10000, now_ns + 1000);
        assert_true(host_ns <= now_ns + 1000);
        assert_true(host_ns + 7000000 >= now_ns);
    }
}

static void after_a_pause_it_begins_anew(void **state)
{
    struct nccl_clock clock = { 0 };

    (void)state;
    nccl_clock_host(&clock, S, S + 100);
    assert_int_equal(nccl_clock_host(&clock, 10 * S, 10 * S + 700), 10 * S + 700);
    assert_int_equal(nccl_clock_host(&clock, 5 * S, 5 * S + 900), 5 * S + 900); /* or a jump back */
}

static void timers_that_cannot_be_are_now(void **state)
{
    struct nccl_clock clock = { 0 };

    (void)state;
    assert_int_equal(nccl_clock_host(&clock, 0, 5 * S), 5 * S);
    assert_true(nccl_clock_host(&clock, UINT64_MAX, 5 * S) == 5 * S);
    assert_true(nccl_clock_host(&clock, 1, UINT64_MAX) == UINT64_MAX);
    assert_int_equal(clock.set, 0);
    nccl_clock_host(&clock, 5 * S, 5 * S);
    assert_true(nccl_clock_host(&clock, 1, UINT64_MAX) == UINT64_MAX);
}

/* One that lies ahead makes the others seem early for as long as it is remembered, but a time before all time is none. */
static void a_timer_far_ahead_makes_no_time_that_cannot_be(void **state)
{
    struct nccl_clock clock = { 0 };

    (void)state;
    nccl_clock_host(&clock, INT64_MAX, 5 * S);
    for (uint64_t now_ns = 5 * S; now_ns < 7 * S; now_ns += S / 10)
        assert_true(nccl_clock_host(&clock, now_ns + AHEAD, now_ns) <= now_ns);
    for (uint64_t now_ns = 9 * S; now_ns < 11 * S; now_ns += S / 10)
        assert_int_equal(nccl_clock_host(&clock, now_ns + AHEAD, now_ns), now_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quickest_telling_is_the_offset),
        cmocka_unit_test(what_is_old_is_forgotten_so_that_drift_is_followed),
        cmocka_unit_test(after_a_pause_it_begins_anew),
        cmocka_unit_test(timers_that_cannot_be_are_now),
        cmocka_unit_test(a_timer_far_ahead_makes_no_time_that_cannot_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
