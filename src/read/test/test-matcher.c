/* test-matcher.c - patterns with holes, one by one and all at once.
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

#include "core/clean.h"
#include "read/log/matcher.h"
#include "read/log/patterns/patterns.h"

static void matcher_clean(struct matcher **matcher)
{
    matcher_destroy(*matcher);
}

static void patterns_have_holes_and_ends(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool fits;
    } rows[] = {
        { "out of memory", "CUDA OUT OF MEMORY.", true },
        { "CUDA*memory", "a CUDA thing of memory", true },
        { "CUDA*memory", "memory of CUDA", false },
        { "task #: Killed", "n7: task 13: Killed", true },
        { "task #: Killed", "n7: task x: Killed", false },
        { "^Killed$", "Killed", true },
        { "^Killed$", "Killed it", false },
        { "^Killed$", "was Killed", false },
        { "fault$", "fault and fault", true },
        { "work: #*work: #", "work: 7, last work: 8", true },
        { "work: #*work: #", "work: 7, last work: x", false },
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *end = rows[i].text + strlen(rows[i].text);

        if (pattern_fits(rows[i].pattern, rows[i].text, end, NULL) != rows[i].fits)
            fail_msg("'%s' on '%s'", rows[i].pattern, rows[i].text);
    }
    (void)state;
}

/* The whole table: each row must be found by its own words, at any place in a text. */
static void every_row_is_found_at_any_offset(void **state)
{
    CLEAN(matcher_clean) struct matcher *matcher = NULL;
    CLEAN(patterns_fini) struct log_patterns patterns;

    assert_int_equal(patterns_init(&patterns), 0);
    assert_int_equal(matcher_create(patterns.text, patterns.texts, &matcher), 0);
    for (uint32_t i = 0; i < patterns.texts; i++) {
        char text[256] = "";
        const char *from = patterns.text[i];
        size_t used = i % 19;
        uint32_t last;

        memset(text, '.', used);
        for (from += *from == '^'; *from && used < 200; from++) {
            if (*from == '#')
                text[used++] = '7';
            else if (*from != '*' && (*from != '$' || from[1]))
                text[used++] = *from;
        }
        assert_non_null(matcher_next(matcher, text, text + used, NULL));
        matcher_line(matcher, text, text + i % 19, text + used, &last);
        if (last < i)
            fail_msg("row %u is not found: %s", i, patterns.text[i]);
    }
    (void)state;
}

static void an_anchor_that_is_too_short_is_refused(void **state)
{
    const char *const pattern[] = { "long enough", "ab*cd" };
    struct matcher *matcher;

    assert_int_equal(matcher_create(pattern, 2, &matcher), -EINVAL);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_have_holes_and_ends),
        cmocka_unit_test(every_row_is_found_at_any_offset),
        cmocka_unit_test(an_anchor_that_is_too_short_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
