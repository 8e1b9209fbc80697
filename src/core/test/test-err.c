/* test-err.c - the sentence of a failure.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_cause_comes_last_and_the_place_first(void **state)
{
    struct err err = { "" };

    (void)state;
    errno = ENOENT;
    assert_int_equal(err_set(&err, -ENOENT, "%s: %m", "ring"), -ENOENT);
    assert_int_equal(err_wrap(&err, -EIO, "rank %d", 3), -EIO);
    assert_string_equal(err.text, "rank 3: ring: No such file or directory");
    assert_int_equal(errno, ENOENT);
}

static void wrapping_nothing_adds_no_colon(void **state)
{
    struct err err = { "" };

    (void)state;
    err_wrap(&err, -1, "alone");
    assert_string_equal(err.text, "alone");
}

static void nobody_has_to_listen(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, -7, "x"), -7);
    assert_int_equal(err_wrap(NULL, -8, "x"), -8);
}

static void a_long_sentence_is_cut_and_still_ends(void **state)
{
    struct err err = { "" };
    char text[1000];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    err_set(&err, -1, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    err_wrap(&err, -1, "%s", text);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cause_comes_last_and_the_place_first),
        cmocka_unit_test(wrapping_nothing_adds_no_colon),
        cmocka_unit_test(nobody_has_to_listen),
        cmocka_unit_test(a_long_sentence_is_cut_and_still_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
