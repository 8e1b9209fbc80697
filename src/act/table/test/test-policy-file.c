/* test-policy-file.c - the table as people write it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "act/table/policy_file.h"
#include "core/buf.h"
#include "core/clean.h"
#include "core/time.h"

static struct policy_table table;

static int parse(const char *text, struct err *err)
{
    CLEAN(conf_fini) struct conf conf = { 0 };
    int result = conf_parse("p.yaml", text, strlen(text), &conf, err);

    return result < 0 ? result : policy_file_take(&conf, &table, err);
}

static void the_default_table_is_valid_and_each_row_has_a_reason(void **state)
{
    struct err err = { "" };

    (void)state;
    assert_int_equal(policy_file_read(NULL, &table, &err), 0);
    assert_string_equal(table.name, "default");
    assert_true(table.rows >= 8);
    for (uint32_t i = 0; i < table.rows; i++) {
        assert_true(table.row[i].reason[0]);
        assert_true(table.row[i].action_count > 0);
    }
    assert_int_equal(table.exit_count, 1);
    assert_int_equal(table.exit[0], 93);
    assert_int_equal(table.horizon_ns, 24 * 3600 * NS_PER_S);
}

static void a_file_replaces_the_rows_and_keeps_the_limits_it_does_not_name(void **state)
{
    struct err err = { "" };

    (void)state;
    assert_int_equal(parse("limits:\n  cool-down: 7s\n  no-restart-exit: [3, 4]\n"
                           "severity:\n  segfault: info\n  hang: warn\n"
                           "only:\n  kind: [hang, crash]\n  layer: cpu\n  confidence: 0.5\n"
                           "  action: [swap, restart, watch]\n  reason: because\n",
                           &err),
                     0);
    assert_int_equal(table.rows, 1);
    assert_string_equal(table.row[0].name, "only");
    assert_int_equal(table.row[0].kinds, 1u << VERDICT_HANG | 1u << VERDICT_CRASH);
    assert_int_equal(table.row[0].layers, 1u << LAYER_CPU);
    assert_int_equal(table.row[0].action_count, 3);
    assert_int_equal(table.row[0].action[2], ACTION_NONE);
    assert_int_equal(table.cool_down_ns, 7 * NS_PER_S);
    assert_int_equal(table.breaker, 3);
    assert_int_equal(table.exit_count, 2);
    assert_int_equal(table.exit[1], 4);
    assert_int_equal(table.finding_severity[FINDING_SEGFAULT], FINDING_INFO);
    assert_int_equal(table.verdict_severity[VERDICT_HANG], FINDING_WARN);
}

static void what_is_wrong_is_named_with_its_place(void **state)
{
    static const struct {
        const char *text, *error;
    } wrong[] = {
        { "limits:\n  cool-dwn: 5m\n",
          "p.yaml:2:3: unknown limit 'cool-dwn'; did you mean 'cool-down'?" },
        { "limits:\n  breaker: -1\n",
          "p.yaml:2:12: key 'breaker', value '-1': expected a whole number" },
        { "limits:\n  breaker: 1.5\n", "expected a whole number" },
        { "limits:\n  cool-down: soon\n", "expected a time" },
        { "limits:\n  fleet-share: 2\n", "from 0 to 1" },
        { "limits:\n  no-restart-exit: 300\n", "from 0 to 255" },
        { "severity:\n  hangs: warn\n",
          "p.yaml:2:3: 'hangs' is neither a kind of verdict nor of finding" },
        { "severity:\n  hang: bad\n", "unknown value 'bad'" },
        { "r:\n  kind: hangg\n  action: restart\n  reason: x\n", "did you mean 'hang'?" },
        { "r:\n  action: give-up\n  reason: x\n", "action 'give-up' cannot stand in a row" },
        { "r:\n  kind: hang\n  reason: x\n", "p.yaml:1:1: row 'r' has no action" },
        { "r:\n  kind: hang\n  action: restart\n", "row 'r' has no reason" },
        { "r:\n  color: red\n", "unknown key 'color' in row 'r'" },
        { "a b:\n  action: restart\n", "no blank or colon" },
        { "r:\n  action: [alert, alert, alert, alert, alert]\n  reason: x\n",
          "more than 4 actions" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        static const struct policy_table none;
        struct err err = { "" };

        table = none;
        assert_int_equal(parse(wrong[i].text, &err), -EINVAL);
        assert_memory_equal(&table, &none, sizeof(table)); /* not even the default */
        if (!strstr(err.text, wrong[i].error))
            fail_msg("expected \"%s\", got \"%s\"", wrong[i].error, err.text);
    }
}

static void a_table_and_means_are_read_as_they_were_written(void **state)
{
    CLEAN(buf_fini) struct buf first = { 0 }, second = { 0 }, other = { 0 };
    struct policy_means means = { .mode = POLICY_ACT,
                                  .actions = 1u << ACTION_RESTART,
                                  .restarts_left = 2,
                                  .restart_hangs = true,
                                  .steps = 100 },
                        read;
    static struct policy_table again;

    (void)state;
    assert_int_equal(policy_file_read(NULL, &table, NULL), 0);
    policy_table_put(&first, &table);
    assert_int_equal(policy_table_get(reader_of(first.data, first.size), &again), 0);
    policy_table_put(&second, &again);
    assert_int_equal(first.size, second.size);
    assert_memory_equal(first.data, second.data, first.size);
    again.rows = POLICY_ROWS;
    again.mono_ns = 7;
    assert_int_equal(policy_table_get(reader_of(first.data, first.size - 1), &again), -EPROTO);
    assert_int_equal(again.rows, POLICY_ROWS);
    assert_int_equal(again.mono_ns, 7);
    policy_means_put(&other, &means);
    assert_int_equal(policy_means_get(reader_of(other.data, other.size), &read), 0);
    assert_int_equal(read.mode, POLICY_ACT);
    assert_int_equal(read.actions, means.actions);
    assert_int_equal(read.restarts_left, 2);
    assert_true(read.restart_hangs);
    assert_int_equal(read.steps, 100);
    other.data[16] = 9; /* no such mode */
    assert_int_equal(policy_means_get(reader_of(other.data, other.size), &read), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_table_is_valid_and_each_row_has_a_reason),
        cmocka_unit_test(a_file_replaces_the_rows_and_keeps_the_limits_it_does_not_name),
        cmocka_unit_test(what_is_wrong_is_named_with_its_place),
        cmocka_unit_test(a_table_and_means_are_read_as_they_were_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
