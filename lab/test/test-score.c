/* test-score.c - how answers are compared, counted and kept.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "core/clean.h"
#include "lab/score/ledger_scores.h"
#include "lab/score/score_plan.h"
#include "lab/score/score_private.h"
#include "lab/score/score_stats.h"
#include "lab/score/score_store.h"
#include "lab/score/score_tally.h"

static struct score_case case_of(const char *fault, const char *also)
{
    struct score_case at = {
        .ranks = 8, .nodes = 2, .tp = 1, .pp = 1, .dp = 8, .steps = 40, .step_ms = 100
    };

    at.twin = SCORE_NO_TWIN;
    assert_int_equal(fault_parse(fault, &at.fault, NULL), 0);
    if (also)
        assert_int_equal(fault_parse(also, &at.also, NULL), 0);
    return at;
}

static struct score_result compared(const struct score_case *at, const char *answer)
{
    struct json_object *object = json_tokener_parse(answer);
    struct score_result result = { .ran = true };
    struct score_truth truth;

    assert_non_null(object);
    score_compare(at, object, &truth, &result);
    json_object_put(object);
    return result;
}

#define DEED(fault, rank) "{\"fault\":\"" fault "\",\"rank\":" rank ",\"step\":20,\"mono_ns\":1000}"
#define VERDICTS(kind, layer, ranks, confidence)                                                   \
    "{\"kind\":\"" kind "\",\"layer\":\"" layer "\",\"ranks\":" ranks                              \
    ",\"confidence\":" confidence ",\"decided_step\":23}"
#define ANSWER(deeds, said) "{\"injected\":[" deeds "],\"verdicts\":[" said "]}"

static void counts_what_is_right_and_what_is_not(void **state)
{
    struct score_case at = case_of("gpu-slow:rank=3,factor=2,step=20", NULL);
    struct score_result result;

    (void)state;
    result =
        compared(&at, ANSWER(DEED("gpu-slow", "3"), VERDICTS("straggler", "gpu", "[3]", "0.9")));
    assert_true(result.found && result.layer_exact && score_result_good(&at, &result));
    assert_int_equal(result.steps, 4);
    assert_true(result.brier > 0.0099 && result.brier < 0.0101);

    /* A rank too many, another layer, and a second verdict that nothing explains. */
    result = compared(&at, ANSWER(DEED("gpu-slow", "3"),
                                  VERDICTS("straggler", "cpu", "[3,4]", "0.5") "," VERDICTS(
                                      "sync-stall", "fabric", "[]", "0.5")));
    assert_true(result.found && !result.layer_exact && !score_result_good(&at, &result));
    assert_int_equal(result.right, 1);
    assert_int_equal(result.wrong, 2);
    assert_int_equal(result.extra, 1);
    assert_true(result.brier > 0.499 && result.brier < 0.501);

    result = compared(&at, ANSWER(DEED("gpu-slow", "3"), ""));
    assert_true(result.ran && !result.found && !score_result_good(&at, &result));
    result = compared(&at, ANSWER("", VERDICTS("straggler", "gpu", "[3]", "0.9")));
    assert_false(result.ran); /* what was not made cannot be found */
}

static void wants_each_of_two_faults(void **state)
{
    struct score_case at =
        case_of("gpu-slow:rank=3,factor=2,step=20", "host-sleep:rank=6,factor=2,step=20");
    struct score_result result;

    (void)state;
    result = compared(&at, ANSWER(DEED("gpu-slow", "3") "," DEED("host-sleep", "6"),
                                  VERDICTS("straggler", "gpu", "[3]", "0.9")));
    assert_false(result.found);
    assert_int_equal(result.right, 1);
    assert_int_equal(result.expected, 2);
    result = compared(&at, ANSWER(DEED("gpu-slow", "3") "," DEED("host-sleep", "6"),
                                  VERDICTS("straggler", "gpu", "[3]", "0.9") "," VERDICTS(
                                      "straggler", "user-code", "[6]", "0.9")));
    assert_true(score_result_good(&at, &result));
    /* Each by the other's layer. */
    result = compared(&at, ANSWER(DEED("gpu-slow", "3") "," DEED("host-sleep", "6"),
                                  VERDICTS("straggler", "user-code", "[3]",
                                           "0.9") "," VERDICTS("straggler", "gpu", "[6]", "0.9")));
    assert_true(result.found && !result.layer_exact);
}

static void a_healthy_run_has_only_false_alarms(void **state)
{
    struct score_case at = case_of("none", NULL);
    struct score_result result =
        compared(&at, ANSWER("", VERDICTS("straggler", "cpu", "[0,1]", "0.9")));
    struct score_board *board = calloc(1, sizeof(*board));

    (void)state;
    assert_non_null(board);
    assert_int_equal(result.extra, 1);
    result.run_seconds = 1800;
    score_board_add(board, &at, &result);
    assert_int_equal(board->all.cases, 0);
    assert_int_equal(board->calm.false_alarms, 1);
    assert_true(score_alarms_per_hour(&board->calm) == 2);
    assert_true(score_alarms_per_hour_high95(&board->calm) > 9.4);
    assert_true(score_brier(&board->all) > 0.8); /* it was sure, and wrong */
    free(board);
}

static void bounds_are_exact(void **state)
{
    (void)state;
    assert_true(stats_share_low95(30, 30) > 0.90496 && stats_share_low95(30, 30) < 0.90498);
    assert_true(stats_share_low95(29, 30) > 0.85140 && stats_share_low95(29, 30) < 0.85142);
    assert_true(stats_share_low95(1, 2) > 0.02532 && stats_share_low95(1, 2) < 0.02533);
    assert_true(stats_share_low95(0, 4) == 0 && stats_share_low95(0, 0) == 0);
    assert_true(stats_events_high95(0) > 2.9957 && stats_events_high95(0) < 2.9958);
    assert_true(stats_events_high95(3) > 7.7536 && stats_events_high95(3) < 7.7537);
}

static void one_bad_rank_makes_the_case_bad_in_the_bound(void **state)
{
    struct score_case at = case_of("gpu-slow:rank=3,factor=2,step=20", NULL);
    struct score_result good = {
        .ran = true, .found = true, .right = 1, .expected = 1, .verdicts = 1
    };
    struct score_result bad = good;
    struct score_board *board = calloc(1, sizeof(*board));

    (void)state;
    assert_non_null(board);
    bad.wrong = 9;
    score_board_add(board, &at, &good);
    score_board_add(board, &at, &bad);
    assert_true(score_precision(&board->all) == 2.0 / 11);
    assert_true(score_precision_low95(&board->all) == stats_share_low95(1, 2));
    assert_true(score_recall_low95(&board->all) == stats_share_low95(2, 2));
    free(board);
}

static void a_full_plan_has_every_place_and_size(void **state)
{
    struct score_filter filter = { .seed = 1,
                                   .all = true,
                                   .only = "desync",
                                   .cases = SCORE_PLAN_DEFAULT,
                                   .healthy = SCORE_PLAN_DEFAULT };
    struct score_case *cases = calloc(SCORE_CASES_MAX, sizeof(*cases));
    uint32_t count = score_plan(&filter, cases, SCORE_CASES_MAX), seen = 0;

    (void)state;
    assert_int_equal(count, 18);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place =
            cases[i].fault.rank == 0 ? 0 : 1 + (cases[i].fault.rank + 1 == cases[i].ranks);
        uint32_t size = cases[i].ranks == 4 ? 0 : cases[i].ranks == 8 ? 1 : 2;

        seen |= 1u << (place * 3 + size + 9 * (cases[i].fault.kind->id == FAULT_OTHER_SIZE));
    }
    assert_int_equal(seen, (1u << 18) - 1);
    free(cases);
}

/* What the demo refuses is skipped, and nobody misses it. */
static void every_fault_of_a_full_plan_can_be_made(void **state)
{
    struct score_case *cases = calloc(SCORE_CASES_MAX, sizeof(*cases));

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct score_filter filter = {
            .seed = seed, .all = true, .cases = SCORE_PLAN_DEFAULT, .healthy = SCORE_PLAN_DEFAULT
        };
        uint32_t count = score_plan(&filter, cases, SCORE_CASES_MAX);

        for (uint32_t i = 0; i < 2 * count; i++) {
            const struct fault *made = i % 2 ? &cases[i / 2].also : &cases[i / 2].fault;
            char text[FAULT_TEXT];
            struct fault parsed;
            struct err err;

            if (!made->kind)
                continue;
            fault_format(made, text);
            if (fault_parse(text, &parsed, &err) < 0)
                fail_msg("case %u of seed %u: %s: %s", i / 2, (unsigned)seed, text, err.text);
        }
    }
    free(cases);
}

/* Twins stand where their draw says, also when other families come before. */
static void a_full_plan_is_one_list_without_doubles(void **state)
{
    struct score_filter filter = { .seed = 3,
                                   .all = true,
                                   .cases = SCORE_PLAN_DEFAULT,
                                   .healthy = SCORE_PLAN_DEFAULT,
                                   .healthy_seconds = 400 };
    struct score_case *cases = calloc(SCORE_CASES_MAX, sizeof(*cases));
    uint32_t count = score_plan(&filter, cases, SCORE_CASES_MAX), longs = 0;
    char a[SCORE_COMMAND], b[SCORE_COMMAND];

    (void)state;
    assert_in_range(count, 300, SCORE_CASES_MAX - 1);
    for (uint32_t i = 0; i < count; i++) {
        score_case_command(&cases[i], a, sizeof(a));
        assert_in_range(strlen(a), 60, sizeof(a) - 2);
        for (uint32_t k = 0; k < i; k++) {
            score_case_command(&cases[k], b, sizeof(b));
            if (strcmp(a, b) == 0)
                fail_msg("cases %u and %u are the same: %s", k, i, a);
        }
        if (cases[i].twin != SCORE_NO_TWIN) {
            assert_true(cases[i].twin < i);
            assert_int_equal(cases[cases[i].twin].seed, cases[i].seed);
            assert_non_null(score_expect(&cases[cases[i].twin].fault));
        }
        longs += (double)cases[i].steps * cases[i].step_ms >= 100000;
    }
    assert_int_equal(longs, 3); /* two and a half minutes each, the last one the rest */
    free(cases);
}

static void a_record_comes_back_whole(void **state)
{
    struct score_record record = {
        .build = UINT64_C(0xfedcba9876543210),
        .command = "lockstep demo --fault=none",
        .result = { .ran = true,
                    .found = true,
                    .right = 2,
                    .wrong = 1,
                    .expected = 3,
                    .extra = 1,
                    .verdicts = 2,
                    .brier = 0.25,
                    .seconds = 1.5,
                    .steps = 7,
                    .run_seconds = 12.25,
                    .ledger = { .total = 3, .bucket[LEDGER_IMBALANCE] = 2.5, .injected = 0.125 },
                    .summary = "straggler/gpu ranks [ 3 ]",
                    .run = "20261115-0000" }
    };
    struct score_record read;
    CLEAN(free_clean) char *line = score_record_write(&record);

    (void)state;
    assert_non_null(line);
    memset(&read, 0, sizeof(read));
    assert_int_equal(score_record_read(line, &read), 0);
    assert_int_equal(read.build, record.build);
    assert_string_equal(read.command, record.command);
    assert_string_equal(read.result.summary, record.result.summary);
    assert_string_equal(read.result.run, record.result.run);
    assert_int_equal(read.result.steps, 7);
    assert_true(read.result.found && !read.result.layer_exact && read.result.brier == 0.25);
    assert_true(read.result.ledger.bucket[LEDGER_IMBALANCE] == 2.5 &&
                read.result.ledger.injected == 0.125);
    line[strlen(line) / 2] = '\0'; /* cut in the middle: not a record */
    assert_true(score_record_read(line, &read) < 0);
}

static struct score_case case_with(enum fault_id id)
{
    return (struct score_case){ .fault = { .kind = score_kind(id) }, .ranks = 8 };
}

static void lost_seconds_are_looked_for_where_they_belong(void **state)
{
    struct score_case gpu = case_with(FAULT_GPU_SLOW), data = case_with(FAULT_UNEVEN_DATA);
    struct score_ledger twin = { .total = 40,
                                 .bucket[LEDGER_STRAGGLER_WAIT] = 1,
                                 .bucket[LEDGER_IMBALANCE] = 2 };
    struct score_ledger run = { .total = 50,
                                .bucket[LEDGER_STRAGGLER_WAIT] = 9,
                                .bucket[LEDGER_IMBALANCE] = 4,
                                .injected = 2 };
    double due, found;

    (void)state;
    assert_true(score_ledger_compare(&gpu, &run, &twin, &due, &found) == 0.8 - 1);
    assert_true(due == 10 && found == 8);
    /* Noise that nobody waits for any more is not held against it. */
    run.bucket[LEDGER_STRAGGLER_WAIT] = 0.5;
    run.bucket[LEDGER_IMBALANCE] = 10.5;
    run.bucket[LEDGER_PRODUCTIVE] = 2;
    assert_true(score_ledger_compare(&data, &run, &twin, &due, &found) == 0);
    assert_true(due == 10.5 && found == 10.5);
    run.bucket[LEDGER_PRODUCTIVE] = 1; /* work that was not seen, though what it cost was */
    run.bucket[LEDGER_IMBALANCE] = 11.5;
    assert_true(score_ledger_compare(&data, &run, &twin, &due, &found) == -0.5);
    /* Nor is some noise more; but what is in that bucket beyond it is missing from the fault's. */
    run = (struct score_ledger){ .total = 50,
                                 .bucket[LEDGER_STRAGGLER_WAIT] = 1.5,
                                 .bucket[LEDGER_IMBALANCE] = 9.5,
                                 .bucket[LEDGER_PRODUCTIVE] = 2,
                                 .injected = 2 };
    assert_true(score_ledger_compare(&data, &run, &twin, &due, &found) == 0);
    run.bucket[LEDGER_STRAGGLER_WAIT] = 5.75;
    run.bucket[LEDGER_IMBALANCE] = 5.25;
    assert_true(score_ledger_compare(&data, &run, &twin, &due, &found) < -0.4);
}

static void errors_within_the_blur_are_the_machines(void **state)
{
    struct ledger_scores *ledger_scores = malloc(sizeof(*ledger_scores));
    struct score_case cases[] = { case_with(FAULT_GPU_SLOW), case_with(FAULT_NONE),
                                  case_with(FAULT_NONE) };
    struct score_result results[3] = {
        { .ran = true, .ledger = { .total = 110, .bucket[LEDGER_STRAGGLER_WAIT] = 11 } },
        { .ran = true, .ledger = { .total = 100, .bucket[LEDGER_STRAGGLER_WAIT] = 2 } },
    };

    (void)state;
    cases[0].twin = cases[2].twin = SCORE_NO_TWIN;
    ledger_scores_fill(cases, results, 3,
                       ledger_scores); /* one twin: 10 lost, 9 found, and nobody knows how finely */
    assert_true(ledger_scores->count == 1 && ledger_scores->good == 0 &&
                ledger_scores->blurred == 0);
    assert_false(ledger_scores_good(ledger_scores));
    cases[2].twin = 0;
    results[2] = (struct score_result){ .ran = true, .ledger = { .total = 102 } };
    results[2].ledger.bucket[LEDGER_STRAGGLER_WAIT] = 3;
    ledger_scores_fill(cases, results, 3, ledger_scores); /* mean of two: 9 lost, 8.5 found */
    assert_true(ledger_scores->at[0].due == 9 && ledger_scores->at[0].found == 8.5 &&
                ledger_scores->blur > 0.0199);
    assert_true(ledger_scores->good == 0 && ledger_scores->blurred == 1);
    assert_false(ledger_scores_good(ledger_scores)); /* the family is out by more than 5 % */
    results[0].ledger.bucket[LEDGER_STRAGGLER_WAIT] = 11.25;
    ledger_scores_fill(cases, results, 3, ledger_scores);
    assert_true(ledger_scores->good == 1 && ledger_scores_good(ledger_scores));
    free(ledger_scores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_within_the_blur_are_the_machines),
        cmocka_unit_test(lost_seconds_are_looked_for_where_they_belong),
        cmocka_unit_test(counts_what_is_right_and_what_is_not),
        cmocka_unit_test(wants_each_of_two_faults),
        cmocka_unit_test(a_healthy_run_has_only_false_alarms),
        cmocka_unit_test(bounds_are_exact),
        cmocka_unit_test(one_bad_rank_makes_the_case_bad_in_the_bound),
        cmocka_unit_test(a_full_plan_has_every_place_and_size),
        cmocka_unit_test(every_fault_of_a_full_plan_can_be_made),
        cmocka_unit_test(a_full_plan_is_one_list_without_doubles),
        cmocka_unit_test(a_record_comes_back_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
