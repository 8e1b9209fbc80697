/* test-suggest.c - "did you mean".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/suggest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void edits_are_counted(void **state)
{
    char big[80];

    (void)state;
    assert_int_equal(suggest_distance("", ""), 0);
    assert_int_equal(suggest_distance("", "abc"), 3);
    assert_int_equal(suggest_distance("ranks", "ranks"), 0);
    assert_int_equal(suggest_distance("rnaks", "ranks"), 1); /* neighbours swapped */
    assert_int_equal(suggest_distance("kitten", "sitting"), 3);
    assert_int_equal(suggest_distance("demo", "dmeo "), 2);
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    assert_true(suggest_distance(big, "a") == SIZE_MAX);
}

static void the_nearest_name_is_kept_and_a_far_one_is_not(void **state)
{
    struct suggest suggest = { .typed = "dcotor" };
    struct suggest noise = { .typed = "zzz" };

    (void)state;
    suggest_offer(&suggest, "demo");
    suggest_offer(&suggest, "doctor");
    suggest_offer(&suggest, "run");
    assert_string_equal(suggest.best, "doctor");
    suggest_offer(&noise, "run");
    suggest_offer(&noise, "why");
    assert_null(noise.best);
}

static void a_beginning_is_near(void **state)
{
    struct suggest suggest = { .typed = "comp" };

    (void)state;
    suggest_offer(&suggest, "completion");
    assert_string_equal(suggest.best, "completion");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edits_are_counted),
        cmocka_unit_test(the_nearest_name_is_kept_and_a_far_one_is_not),
        cmocka_unit_test(a_beginning_is_near),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
