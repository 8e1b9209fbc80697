/* test-rand.c - the same numbers everywhere, and spread as they promise.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* splitmix64 from seed 1234567, as its author's program prints it. */
static void the_sequence_is_splitmix64(void **state)
{
    struct rand rand = { .state = 1234567 };

    (void)state;
    assert_true(rand_u64(&rand) == UINT64_C(6457827717110365317));
    assert_true(rand_u64(&rand) == UINT64_C(3203168211198807973));
    assert_true(rand_u64(&rand) == UINT64_C(9817491932198370423));
}

static void below_stays_below_and_reaches_everything(void **state)
{
    struct rand rand = { .state = 3 };
    unsigned seen[7] = { 0 };

    (void)state;
    for (int i = 0; i < 7000; i++) {
        uint32_t value = rand_below(&rand, 7);

        assert_true(value < 7);
        seen[value]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(seen[i], 850, 1150); /* 1000 ± 5 deviations */
    assert_int_equal(rand_below(&rand, 1), 0);
}

static void unit_and_normal_have_their_moments(void **state)
{
    struct rand rand = { .state = 4 };
    double unit = 0, sum = 0, squares = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        double u = rand_unit(&rand), n = rand_normal(&rand);

        assert_true(u >= 0 && u < 1);
        unit += u;
        sum += n;
        squares += n * n;
    }
    assert_true(unit / 1e5 > 0.495 && unit / 1e5 < 0.505);
    assert_true(sum / 1e5 > -0.02 && sum / 1e5 < 0.02);
    assert_true(squares / 1e5 > 0.98 && squares / 1e5 < 1.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sequence_is_splitmix64),
        cmocka_unit_test(below_stays_below_and_reaches_everything),
        cmocka_unit_test(unit_and_normal_have_their_moments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
