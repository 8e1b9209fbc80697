/* Orders are numbered, the last outcome of a part counts, and what a run reports takes a limited amount of memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/orders/run_decisions.h"
#include "wire/decision.h"

#define PARTS 20000
#define DECISIONS 12

static void give(struct run_decisions *decisions, uint16_t type, const struct buf *payload,
                 bool own)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    run_decisions_frame(decisions, &frame, own);
}

static void decide(struct run_decisions *decisions, const char *id, const char *of)
{
    struct decision decision = {
        .action = ACTION_CHECKPOINT, .state = DECISION_ORDERED, .target = TARGET_RUN, .step = 7
    };
    struct buf payload = { 0 };

    snprintf(decision.id, sizeof(decision.id), "%s", id);
    snprintf(decision.of, sizeof(decision.of), "%s", of);
    decision_put(&payload, &decision);
    give(decisions, FRAME_DECISION, &payload, true);
    buf_fini(&payload);
}

static void report(struct run_decisions *decisions, const char *id, const char *part, int result,
                   const char *text)
{
    struct outcome outcome = { .result = (uint8_t)result, .step = 7, .began_real_ns = 1 };
    struct buf payload = { 0 };

    snprintf(outcome.decision, sizeof(outcome.decision), "%s", id);
    snprintf(outcome.part, sizeof(outcome.part), "%s", part);
    snprintf(outcome.text, sizeof(outcome.text), "%s", text);
    outcome_put(&payload, &outcome);
    give(decisions, FRAME_OUTCOME, &payload, false);
    buf_fini(&payload);
}

static struct json_object *outcomes(const struct run_decisions *decisions, const char *of)
{
    struct json_object *list = run_decisions_json(decisions, of), *found;

    assert_int_equal(json_object_array_length(list), 1);
    assert_true(json_object_object_get_ex(json_object_array_get_idx(list, 0), "outcomes", &found));
    json_object_get(found);
    json_object_put(list);
    return found;
}

static void the_last_word_of_a_part_counts(void **state)
{
    struct run_decisions decisions = { 0 };
    struct json_object *list;

    (void)state;
    decide(&decisions, "d1", "q1");
    report(&decisions, "d1", "rank 3", OUTCOME_UNKNOWN, "");
    report(&decisions, "d1", "node n1", OUTCOME_UNKNOWN, "a");
    report(&decisions, "d1", "rank 3", OUTCOME_DONE, "late");
    report(&decisions, "d1", "node n1", OUTCOME_DONE, "b");
    report(&decisions, "d1", "rank 03", OUTCOME_DONE, ""); /* a name, not a rank's number */
    list = outcomes(&decisions, "q1");
    assert_int_equal(json_object_array_length(list), 3);
    assert_string_equal(
        json_object_get_string(json_object_object_get(json_object_array_get_idx(list, 0), "text")),
        "late");
    assert_string_equal(
        json_object_get_string(json_object_object_get(json_object_array_get_idx(list, 1), "text")),
        "b");
    json_object_put(list);
    run_decisions_fini(&decisions);
}

static void a_run_that_reports_without_end_takes_a_limited_amount_of_memory(void **state)
{
    struct run_decisions decisions = { 0 };
    size_t before = mallinfo2().uordblks, after;
    char id[DECISION_ID], of[DECISION_ID], part[64], text[200];
    struct json_object *list;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (int d = 0; d < DECISIONS; d++) {
        snprintf(id, sizeof(id), "d%d", d);
        snprintf(of, sizeof(of), "q%d", d);
        decide(&decisions, id, of);
        for (int i = 0; i < PARTS + 10; i++) {
            snprintf(part, sizeof(part), "node %050d", i);
            report(&decisions, id, part, OUTCOME_DONE, text);
        }
    }
    after = mallinfo2().uordblks;
    assert_true(after - before < 2 * (size_t)RUN_OUTCOMES_BYTES);
    list = outcomes(&decisions, of); /* the newest has all it may have */
    assert_int_equal(json_object_array_length(list), PARTS);
    json_object_put(list);
    run_decisions_fini(&decisions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_word_of_a_part_counts),
        cmocka_unit_test(a_run_that_reports_without_end_takes_a_limited_amount_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
