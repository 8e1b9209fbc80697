/* test-words.c - a command line is whole or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/words.h"

static void words_follow_each_other_and_end_in_null(void **state)
{
    struct words *words = calloc(1, sizeof(*words));

    (void)state;
    words_add(words, "demo");
    words_add(words, "--ranks=%u", 8u);
    words_add(words, "%s", "");
    assert_int_equal(words->count, 3);
    assert_string_equal(words->argv[0], "demo");
    assert_string_equal(words->argv[1], "--ranks=8");
    assert_string_equal(words->argv[2], "");
    assert_null(words->argv[3]);
    assert_false(words->full);
    free(words);
}

static void what_does_not_fit_is_told(void **state)
{
    struct words *many = calloc(1, sizeof(*many)), *large = calloc(1, sizeof(*large));

    (void)state;
    for (int i = 0; i < WORDS_MAX; i++)
        words_add(many, "%d", i);
    assert_false(many->full);
    words_add(many, "one more");
    assert_true(many->full && many->count == WORDS_MAX && many->argv[WORDS_MAX] == NULL);
    words_add(large, "%*s", WORDS_BYTES - 1, "");
    assert_false(large->full);
    words_add(large, "x");
    assert_true(large->full && large->count == 1 && large->argv[1] == NULL);
    free(many);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_follow_each_other_and_end_in_null),
        cmocka_unit_test(what_does_not_fit_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
