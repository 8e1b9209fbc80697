/* test-date.c - when lines were written, in the notations of tools.
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

#include "core/clean.h"
#include "core/date.h"
#include "core/time.h"

#define NOON_S INT64_C(1794744063) /* 2026-11-15T12:01:03Z */

static const struct {
    const char *text; /* up to '|' it is the date */
    int64_t real_ns, boot_ns;
} dates[] = {
    { "[98712.345678]| NVRM", 0, INT64_C(98712345678000) },
    { "[    0.000000]| Linux", 0, 1 },
    { "6,1234,987654,-;|NVRM", 0, INT64_C(987654000) },
    { "[Sun Nov 15 12:01:03 2026]| NVRM", NOON_S *NS_PER_S, 0 },
    { "Sun Nov 15 12:01:03 2026| NVRM", NOON_S *NS_PER_S, 0 },
    { "2026-11-15T12:01:03.250000Z| x", NOON_S *NS_PER_S + 250000000, 0 },
    { "2026-11-15T14:01:03,5+02:00| x", NOON_S *NS_PER_S + 500000000, 0 },
    { "2026-11-15 11:01:03-0100| x", NOON_S *NS_PER_S, 0 },
    { "2026/11/15 12:01:03| x", NOON_S *NS_PER_S, 0 },
    { "[2026-11-15 12:01:03,250]| x", NOON_S *NS_PER_S + 250000000, 0 },
    { "Nov 15 12:01:03| host kernel:", NOON_S *NS_PER_S, 0 },
    { "1115 12:01:03.250000| 77 x.cc:1]", NOON_S *NS_PER_S + 250000000, 0 },
};

static void every_notation_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(dates); i++) {
        size_t bytes = strcspn(dates[i].text, "|");
        int64_t real_ns = 0, boot_ns = 0;
        char text[80];

        memcpy(text, dates[i].text, bytes);
        strcpy(text + bytes, dates[i].text + bytes + 1);
        assert_int_equal(date_read(text, NOON_S * NS_PER_S, &real_ns, &boot_ns), bytes);
        assert_int_equal(real_ns, dates[i].real_ns);
        assert_int_equal(boot_ns, dates[i].boot_ns);
    }
}

static void what_is_no_date_sets_nothing(void **state)
{
    static const char *const texts[] = {
        "",
        "[",
        "[1234] worker",
        "12:01:03 x",
        "6,1234,",
        "[2026-11-15 12:01:03 x",
        "2026-13-15 12:01:03",
        "Nov",
        "9999 12:01:03",
        "[99999999999999.0]",
        "0001-01-01T00:00:00Z",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        int64_t real_ns = -7, boot_ns = -7;

        assert_int_equal(date_read(texts[i], NOON_S * NS_PER_S, &real_ns, &boot_ns), 0);
        assert_int_equal(real_ns, -7);
        assert_int_equal(boot_ns, -7);
    }
}

static void a_date_without_a_year_is_in_the_nearest_one(void **state)
{
    const int64_t new_year_ns = INT64_C(1798761600) * NS_PER_S; /* 2027-01-01T00:00:00Z */
    int64_t real_ns = 0, boot_ns = 0;

    (void)state;
    assert_int_equal(date_read("Dec 31 23:59:59 n", new_year_ns, &real_ns, &boot_ns), 15);
    assert_int_equal(real_ns, new_year_ns - NS_PER_S);
    assert_int_equal(date_read("Jan  1 00:00:01 n", new_year_ns - NS_PER_S, &real_ns, &boot_ns),
                     15);
    assert_int_equal(real_ns, new_year_ns + NS_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_notation_is_read),
        cmocka_unit_test(what_is_no_date_sets_nothing),
        cmocka_unit_test(a_date_without_a_year_is_in_the_nearest_one),
    };

    setenv("TZ", "UTC", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
