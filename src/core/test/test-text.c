/* What hides or moves other text is not passed on; all other text is, byte by byte.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"

static void expect_clean(const char *from, bool lines, const char *to)
{
    char text[128];
    size_t size = strlen(from);

    memcpy(text, from, size);
    size = text_clean(text, size, lines);
    assert_int_equal(size, strlen(to));
    assert_memory_equal(text, to, size);
}

static void passes_on_what_people_write(void **state)
{
    static const char *const good[] = { "",        "rank 7", "µs ± 3 °C", "節点-12",
                                        "Ünïcödé", "😀",      "עברית",     "a\\\"b" };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        expect_clean(good[i], false, good[i]);
}

static void hides_what_moves_or_hides_other_text(void **state)
{
    static const char *const bad[] = {
        "\xe2\x80\xae" /* right-to-left override */,
        "\xe2\x80\xaa",
        "\xe2\x81\xa6",
        "\xe2\x81\xa9",
        "\xe2\x80\x8b" /* zero-width space */,
        "\xe2\x80\x8d",
        "\xe2\x80\x8f",
        "\xd8\x9c",
        "\xef\xbb\xbf" /* byte order mark */,
        "\xe2\x80\xa8" /* line separator */,
        "\xc2\xad",
        "\xf3\xa0\x81\x81" /* a tag */,
        "\xe3\x85\xa4",
        "\033",
        "\x07",
        "\r",
        "\x7f",
        "\xc2\x9b" /* CSI of 8 bits */,
        "\xff",
        "\xc3" /* cut */,
        "\x80",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        char text[16];

        assert_int_equal(text_char(bad[i], strlen(bad[i])), 0);
        strcpy(text, "a");
        strcat(text, bad[i]);
        strcat(text, "b");
        expect_clean(text, false, "a?b");
    }
    expect_clean("\xed\xa0\x80", false, "???"); /* half of a pair */
    expect_clean("a\033[31mb", false, "a?[31mb");
}

static void keeps_lines_where_they_are_wanted(void **state)
{
    (void)state;
    expect_clean("a\n\tb", true, "a\n\tb");
    expect_clean("a\n\tb", false, "a??b");
}

static void expect_short(const char *line, size_t room, const char *expected)
{
    char text[64];

    memset(text, 'x', sizeof(text));
    assert_ptr_equal(text_shorten(line, strlen(line), text, room), text);
    assert_string_equal(text, expected);
    assert_true(strlen(text) < room);
}

static void a_line_that_is_too_long_ends_after_a_word(void **state)
{
    (void)state;
    expect_short("", 8, "");
    expect_short("a value", 8, "a value");
    expect_short("one two three", 14, "one two three");
    expect_short("one two three", 13, "one two ...");
    expect_short("one two  three", 14, "one two ...");
    expect_short("abcdefghijklmnop", 12, "abcdefg ...");
    expect_short("abcdef\xc3\xbcgh ijkl", 12, "abcdef ..."); /* not half of a character */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_on_what_people_write),
        cmocka_unit_test(hides_what_moves_or_hides_other_text),
        cmocka_unit_test(keeps_lines_where_they_are_wanted),
        cmocka_unit_test(a_line_that_is_too_long_ends_after_a_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
