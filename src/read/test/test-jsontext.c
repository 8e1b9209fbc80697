/* test-jsontext.c - JSON as Python, PyTorch and profilers write it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "read/jsontext.h"

static void values_are_found(void **state)
{
    char text[] =
        " {\"a\": [1, -2.5, \"x\\u00e9\\n\\ud83d\\ude00\"], \"b\": {}, \"c\": [], \"n\": \"17\",\n"
        " \"t\": true, \"a\": [9007199254740993, NaN, 1e3]} ";
    struct value_tree tree = { .root = VALUE_NIL };
    int64_t value;
    double real;
    char out[32];

    (void)state;
    assert_int_equal(jsontext_read(text, strlen(text), &tree, NULL), 0);
    assert_true(
        value_integer(&tree, value_item(&tree, value_get(&tree, tree.root, "a"), 0), &value));
    assert_true(value == 9007199254740993); /* the last of two, and exact */
    real = 3;
    assert_false(value_real(&tree, value_item(&tree, value_get(&tree, tree.root, "a"), 1), &real));
    assert_true(real == 3);
    assert_true(
        value_integer(&tree, value_item(&tree, value_get(&tree, tree.root, "a"), 2), &value));
    assert_int_equal(value, 1000);
    assert_true(value_integer(&tree, value_get(&tree, tree.root, "n"), &value) && value == 17);
    assert_true(value_is(&tree, value_get(&tree, tree.root, "b"), VALUE_DICT));
    assert_true(value_is(&tree, value_get(&tree, tree.root, "c"), VALUE_LIST));
    assert_string_equal(
        value_text(&tree, value_item(&tree, tree.cell[1].node, 2), out, sizeof(out)),
        "x\xc3\xa9\n\xf0\x9f\x98\x80");
    value_fini(&tree);
}

static void what_is_wrong_is_said_with_its_place(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        { "", "line 1, column 1: unexpected end of file" },
        { "[1", "unexpected end of file" },
        { "{\"a\"", "expected a colon" },
        { "{a: 1}", "expected a key in quotes" },
        { "[1,]", "not a value" },
        { "{\"a\": 1,}", "expected a key" },
        { "[1 2]", "line 1, column 4: expected a comma" },
        { "[1}", "expected a comma" },
        { "\n\n  [tru]", "line 3, column 4: not a value" },
        { "\"abc", "unterminated string" },
        { "\"\\x\"", "invalid escape sequence" },
        { "\"\\u12g4\"", "four hexadecimal digits" },
        { "1 2", "unexpected data after the end" },
        { "-", "not a value" },
        { "1.", "not a value" },
    };
    struct value_tree tree = { .root = VALUE_NIL };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = { "" };
        char text[64];

        strcpy(text, bad[i].text);
        assert_int_equal(jsontext_read(text, strlen(text), &tree, &err), -EPROTO);
        if (!strstr(err.text, bad[i].words))
            fail_msg("'%s': '%s' does not say '%s'", bad[i].text, err.text, bad[i].words);
    }
    value_fini(&tree);
}

static void depth_is_bounded(void **state)
{
    static char text[100000];
    struct value_tree tree = { .root = VALUE_NIL };
    struct err err = { "" };

    (void)state;
    memset(text, '[', sizeof(text));
    assert_int_equal(jsontext_read(text, sizeof(text), &tree, &err), -EPROTO);
    assert_non_null(strstr(err.text, "nested more than 256 levels deep"));
    value_fini(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_found),
        cmocka_unit_test(what_is_wrong_is_said_with_its_place),
        cmocka_unit_test(depth_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
