/* test-near.c - "did you mean". */
#include "base/near.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void edits_are_counted(void **state)
{
    char big[80];

    (void)state;
    assert_int_equal(near_distance("", ""), 0);
    assert_int_equal(near_distance("", "abc"), 3);
    assert_int_equal(near_distance("ranks", "ranks"), 0);
    assert_int_equal(near_distance("rnaks", "ranks"), 1); /* neighbours swapped */
    assert_int_equal(near_distance("kitten", "sitting"), 3);
    assert_int_equal(near_distance("demo", "dmeo "), 2);
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    assert_true(near_distance(big, "a") == SIZE_MAX);
}

static void the_nearest_name_is_kept_and_a_far_one_is_not(void **state)
{
    struct near near = { .typed = "dcotor" };
    struct near noise = { .typed = "zzz" };

    (void)state;
    near_offer(&near, "demo");
    near_offer(&near, "doctor");
    near_offer(&near, "run");
    assert_string_equal(near.best, "doctor");
    near_offer(&noise, "run");
    near_offer(&noise, "why");
    assert_null(noise.best);
}

static void a_beginning_is_near(void **state)
{
    struct near near = { .typed = "comp" };

    (void)state;
    near_offer(&near, "completion");
    assert_string_equal(near.best, "completion");
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
