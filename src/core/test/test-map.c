/* test-map.c - keys of every kind, and growth.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "core/rand.h"

static void an_empty_map_has_nothing(void **state)
{
    struct map map = { 0 };

    (void)state;
    assert_null(map_get(&map, 0));
    map_fini(&map);
}

static void zero_and_the_largest_key_are_keys_like_others(void **state)
{
    struct map map = { 0 };

    (void)state;
    assert_true(*map_put(&map, 0, 5) == 5);
    assert_true(*map_put(&map, UINT64_MAX, 6) == 6);
    assert_true(*map_get(&map, 0) == 5);
    assert_true(*map_get(&map, UINT64_MAX) == 6);
    assert_null(map_get(&map, 1));
    map_fini(&map);
}

static void putting_again_finds_the_old_value(void **state)
{
    struct map map = { 0 };

    (void)state;
    *map_put(&map, 9, 1) = 77;
    assert_true(*map_put(&map, 9, 1) == 77);
    assert_int_equal(map.used, 1);
    map_fini(&map);
}

static void everything_survives_growth(void **state)
{
    struct map map = { 0 };
    struct rand rand = { .state = 1 };

    (void)state;
    for (uint64_t i = 0; i < 20000; i++)
        assert_non_null(map_put(&map, rand_u64(&rand), i));
    rand.state = 1;
    for (uint64_t i = 0; i < 20000; i++)
        assert_true(*map_get(&map, rand_u64(&rand)) == i);
    assert_int_equal(map.used, 20000);
    map_fini(&map);
    assert_null(map_get(&map, 3)); /* usable, and empty */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(zero_and_the_largest_key_are_keys_like_others),
        cmocka_unit_test(putting_again_finds_the_old_value),
        cmocka_unit_test(everything_survives_growth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
