/* test-decision.c - ids, names and bounds of requests, decisions, outcomes and places; the ledger's later bucket.
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
#include "wire/decision.h"

static void every_number_has_a_name_that_leads_back_to_it(void **state)
{
    (void)state;
    for (unsigned i = 1; i < ACTION_COUNT; i++)
        assert_int_equal(action_of(action_name(i)), i);
    for (unsigned i = 1; i < TARGET_KIND_COUNT; i++)
        assert_int_equal(target_kind_of(target_kind_name(i)), i);
    for (unsigned i = 1; i < DECISION_STATE_COUNT; i++)
        assert_string_not_equal(decision_state_name(i), "unknown");
    for (unsigned i = 1; i < REQUEST_KIND_COUNT; i++)
        assert_int_equal(request_kind_of(request_kind_name(i)), i);
    for (unsigned i = 1; i < OUTCOME_RESULT_COUNT; i++)
        assert_int_equal(outcome_result_of(outcome_result_name(i)), i);
    assert_string_equal(action_name(ACTION_NONE), "none");
    assert_string_equal(action_name(ACTION_COUNT), "unknown");
}

/* An order that is renewed with a later step is another one; its state is not part of what it is. */
static void a_decision_keeps_its_id_through_its_states(void **state)
{
    struct decision first = { .action = ACTION_CHECKPOINT,
                              .state = DECISION_ORDERED,
                              .target = TARGET_RUN,
                              .step = 100,
                              .decided_real_ns = 5 },
                    later = first, renewed = first, elsewhere = first;

    (void)state;
    later.state = DECISION_EXPIRED;
    later.saves_gpu_seconds = 3;
    strcpy(later.why, "no rank answered");
    renewed.step = 103;
    decision_identify(&first, "r1");
    decision_identify(&later, "r1");
    decision_identify(&renewed, "r1");
    decision_identify(&elsewhere, "r2");
    assert_string_equal(first.id, later.id);
    assert_string_not_equal(first.id, renewed.id);
    assert_string_not_equal(first.id, elsewhere.id);
}

static int decision_read(const struct decision *decision, size_t cut, struct decision *ret)
{
    CLEAN(buf_fini) struct buf out = { 0 };

    decision_put(&out, decision);
    return decision_get(reader_of(out.data, out.size - cut), ret);
}

static void a_decision_out_of_range_is_refused(void **state)
{
    const struct decision good = {
        .id = "d-1", .state = DECISION_ORDERED, .target = TARGET_RUN, .rank_count = 100000
    };
    struct decision bad = good, got;

    (void)state;
    assert_int_equal(decision_read(&good, 0, &got), 0);
    assert_int_equal(got.rank_count, 100000);
    assert_int_equal(decision_read(&good, 1, &got), -EPROTO);
    bad.action = ACTION_COUNT;
    assert_int_equal(decision_read(&bad, 0, &got), -EPROTO);
    bad = good;
    bad.state = 0;
    assert_int_equal(decision_read(&bad, 0, &got), -EPROTO);
    bad = good;
    bad.costs_gpu_seconds = 1e308 * 10;
    assert_int_equal(decision_read(&bad, 0, &got), -EPROTO);
    bad = good;
    bad.id[0] = 0;
    assert_int_equal(decision_read(&bad, 0, &got), -EPROTO);
}

static void places_without_a_rank_are_part_of_all_places(void **state)
{
    const struct places some[] = { { .allocated = 8, .spare = 3, .down = 5 },
                                   { .allocated = 8, .spare = 4, .down = 5 },
                                   { .allocated = 8, .spare = 9 },
                                   { .allocated = 8, .spare = 1, .down = UINT32_MAX },
                                   { .allocated = UINT32_MAX } };

    (void)state;
    for (size_t i = 0; i < COUNT(some); i++) {
        CLEAN(buf_fini) struct buf out = { 0 };
        struct places got;

        places_put(&out, &some[i]);
        assert_int_equal(places_get(reader_of(out.data, out.size), &got), i ? -EPROTO : 0);
    }
}

static void a_ledger_without_down_places_has_its_old_bytes(void **state)
{
    struct ledger ledger = { .ranks = 8, .wall_seconds = 10 }, got;
    CLEAN(buf_fini) struct buf old = { 0 };
    CLEAN(buf_fini) struct buf later = { 0 };

    (void)state;
    ledger.gpu_seconds[LEDGER_UNATTRIBUTED] = 80;
    ledger_put(&old, &ledger);
    ledger.gpu_seconds[LEDGER_DOWN] = 20;
    ledger_put(&later, &ledger);
    assert_int_equal(old.size, 4 + 4 + 8 + 12 * 8 + 8 + 8 + 1);
    assert_int_equal(later.size, old.size + 8);
    assert_memory_equal(old.data, later.data, old.size); /* what an older reader reads */
    assert_int_equal(ledger_get(reader_of(old.data, old.size), &got), 0);
    assert_true(got.gpu_seconds[LEDGER_DOWN] == 0);
    assert_int_equal(ledger_get(reader_of(later.data, later.size), &got), 0);
    assert_true(got.gpu_seconds[LEDGER_DOWN] == 20);
    assert_string_equal(ledger_bucket_name(LEDGER_DOWN), "down");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_a_name_that_leads_back_to_it),
        cmocka_unit_test(a_decision_keeps_its_id_through_its_states),
        cmocka_unit_test(a_decision_out_of_range_is_refused),
        cmocka_unit_test(places_without_a_rank_are_part_of_all_places),
        cmocka_unit_test(a_ledger_without_down_places_has_its_old_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
