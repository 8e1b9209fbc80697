/* test-clean.c - what looks like a function evaluates its arguments like one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int calls;

static int count(int value)
{
    calls++;
    return value;
}

static void min_and_max_evaluate_each_argument_once(void **state)
{
    (void)state;
    calls = 0;
    assert_int_equal(MAX(count(3), 0), 3);
    assert_int_equal(calls, 1);
    assert_int_equal(MIN(5, count(3)), 3);
    assert_int_equal(calls, 2);
    assert_int_equal(MIN(MAX(count(1), count(2)), MAX(count(3), count(4))), 2);
    assert_int_equal(calls, 6);
}

static void min_and_max_have_the_type_of_both_together(void **state)
{
    const uint64_t large = UINT64_MAX - 1;
    const size_t size = 7;

    (void)state;
    assert_true(MAX(large, 5) == UINT64_MAX - 1);
    assert_true(MIN(large, 5) == 5);
    assert_true(MIN(-2, INT64_C(3)) == -2);
    assert_true(MAX(0.5, 1) == 1.0);
    assert_true(MIN(size, (uint8_t)200) == 7);
    assert_int_equal(sizeof(MIN((int32_t)1, INT64_C(1))), sizeof(int64_t));
    assert_int_equal(sizeof(MIN((uint8_t)1, (uint8_t)2)), sizeof(int));
}

static void take_evaluates_its_argument_once(void **state)
{
    int fd[2] = { 5, 6 }, *next = fd;
    char one[] = "1", two[] = "2", *text[2] = { one, two }, **at = text;

    (void)state;
    assert_int_equal(TAKE_FD(*next++), 5);
    /* NOLINTNEXTLINE(bugprone-macro-repeated-side-effects): typeof evaluates nothing */
    assert_ptr_equal(TAKE(*at++), one);
    assert_int_equal(fd[0], -1);
    assert_int_equal(fd[1], 6);
    assert_null(text[0]);
    assert_ptr_equal(text[1], two);
}

static void take_leaves_nothing_behind(void **state)
{
    int fd = 5;
    char *text = strdup("x");
    CLEAN(free_clean) char *taken = TAKE(text);

    (void)state;
    assert_null(text);
    assert_non_null(taken);
    assert_int_equal(TAKE_FD(fd), 5);
    assert_int_equal(fd, -1);
}

static void an_array_grows_and_keeps_what_it_has(void **state)
{
    CLEAN(free_clean) uint64_t *list = NULL;
    uint32_t room = 0;

    (void)state;
    assert_true(ARRAY_FIT(list, room, 0));
    assert_null(list);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(ARRAY_FIT(list, room, i + 1));
        assert_true(room > i);
        list[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(list[i], i);
    assert_true(room < 2048);
    assert_true(ARRAY_FIT_ZERO(list, room, 5000));
    assert_int_equal(list[999], 999);
    assert_int_equal(list[1024], 0);
    assert_int_equal(list[room - 1], 0);
}

static void an_array_that_cannot_grow_stays(void **state)
{
    CLEAN(free_clean) char *list = NULL;
    uint8_t room = 0;
    size_t wide = 4;
    struct {
        char byte[64];
    } *none = NULL;

    (void)state;
    assert_true(ARRAY_FIT(list, room, 200));
    assert_true(ARRAY_FIT(list, room, 255));
    assert_int_equal(room, 255);
    assert_false(ARRAY_FIT(list, room, 256));
    assert_int_equal(room, 255);
    assert_non_null(list);
    assert_false(ARRAY_FIT(none, wide, SIZE_MAX / 2));
    assert_int_equal(wide, 4);
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(min_and_max_evaluate_each_argument_once),
        cmocka_unit_test(min_and_max_have_the_type_of_both_together),
        cmocka_unit_test(take_evaluates_its_argument_once),
        cmocka_unit_test(take_leaves_nothing_behind),
        cmocka_unit_test(an_array_grows_and_keeps_what_it_has),
        cmocka_unit_test(an_array_that_cannot_grow_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
