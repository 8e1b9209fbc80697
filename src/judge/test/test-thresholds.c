/* test-thresholds.c - the table is whole, and holds its own bounds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/thresholds.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void every_field_has_one_row(void **state)
{
    bool seen[sizeof(struct thresholds) / sizeof(double)] = { false };
    size_t rows = 0;

    (void)state;
    for (const struct threshold *row = thresholds_table; row->name; row++, rows++) {
        assert_int_equal(row->offset % sizeof(double), 0);
        assert_false(seen[row->offset / sizeof(double)]);
        seen[row->offset / sizeof(double)] = true;
        assert_true(row->low <= row->value && row->value <= row->high);
        assert_true(strlen(row->why) > 10 && row->unit[0]);
        assert_ptr_equal(thresholds_find(row->name), row);
    }
    assert_int_equal(rows, sizeof(seen));
}

/* Where one more is needed, the mechanism is at fault. */
static void there_are_fifty_at_most(void **state)
{
    size_t rows = 0;

    (void)state;
    while (thresholds_table[rows].name)
        rows++;
    assert_true(rows <= 50);
}

static void values_are_kept_within_their_bounds(void **state)
{
    struct thresholds t;
    struct err err = { "" };

    (void)state;
    thresholds_default(&t);
    assert_int_equal(thresholds_set(&t, "verdict.least-cost", 0.05, &err), 0);
    assert_true(t.verdict_least_cost == 0.05);
    assert_int_equal(thresholds_set(&t, "verdict.least-cost", 1.5, &err), -ERANGE);
    assert_non_null(strstr(err.text, "verdict.least-cost 1.5: expected 0.001 to 1 share"));
    assert_int_equal(thresholds_set(&t, "verdict.least-cost", NAN, &err), -ERANGE);
    assert_int_equal(thresholds_set(&t, "straggler.cost", 0.5, &err), -ENOENT);
    assert_true(t.verdict_least_cost == 0.05);
    assert_true(thresholds_get(&t, thresholds_find("verdict.least-cost")) == 0.05);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_one_row),
        cmocka_unit_test(there_are_fifty_at_most),
        cmocka_unit_test(values_are_kept_within_their_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
