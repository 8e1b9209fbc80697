/* What people read and programs parse, word for word.
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
#include "show/advice.h"
#include "show/ledger_view.h"
#include "show/run_summary.h"
#include "show/verdict_view.h"

#define T0 INT64_C(1772361727123000000) /* 2026-03-01T10:42:07.123Z */

static const struct show_style plain = { 0 }, rich = { .colour = true, .bars = true };

static struct verdict make_verdict(void)
{
    struct verdict verdict = {
        .kind = VERDICT_STRAGGLER,
        .layer = LAYER_GPU,
        .run = "r1",
        .cause = "power brake",
        .rank_count = 1,
        .rank = { 5 },
        .node_count = 1,
        .node = { "n2" },
        .device = "GPU 1",
        .confidence = 0.97,
        .since_step = 241,
        .decided_step = 246,
        .since_real_ns = T0,
        .decided_real_ns = T0 + 500000000,
        .seconds_per_step = 0.041,
        .gpu_seconds = 812.4,
        .echo_count = 1,
        .echo = { { .what = "rank 2: connection reset", .source = "launcher" } },
        .plan = "drain n2",
        .plan_state = "dry-run",
    };

    verdict_because(&verdict, "ring", "compute %.1f ms, median of 7 peers 12.0 ms", 34.1);
    verdict_rule_out(&verdict, LAYER_DATA, "input wait 0.2 ms, as its peers");
    verdict_identify(&verdict);
    return verdict;
}

static struct ledger make_ledger(void)
{
    return (struct ledger){
        .ranks = 8,
        .wall_seconds = 100,
        .gpu_seconds = { [LEDGER_PRODUCTIVE] = 600,
                         [LEDGER_STRAGGLER_WAIT] = 90,
                         [LEDGER_SPARE] = 100,
                         [LEDGER_UNATTRIBUTED] = 10 },
        .steps = 400,
        .unfit_steps = 3,
    };
}

/* The text must be this, to the letter; %s stands for the verdict's id. */
static void expect_verdict(const struct verdict *verdict, const char *expected)
{
    char *text = NULL, whole[2048];
    size_t size;
    FILE *out = open_memstream(&text, &size);

    verdict_text(verdict, &plain, out);
    fclose(out);
    snprintf(whole, sizeof(whole), "%s, id %s\n", expected, verdict->id);
    assert_string_equal(text, whole);
    free(text);
}

static void a_verdict_says_what_which_and_so_what(void **state)
{
    struct verdict verdict = make_verdict();

    (void)state;
    expect_verdict(
        &verdict,
        "straggler: rank 5 (node n2) delays the others by 41.0 ms per step since step 241: power "
        "brake\n"
        "  compute 34.1 ms, median of 7 peers 12.0 ms (ring)\n"
        "  not data: input wait 0.2 ms, as its peers\n"
        "  follow-on error: rank 2: connection reset (launcher)\n"
        "  cost so far: 812.4 GPU-seconds\n"
        "  on GPU 1\n"
        "  to do: Check clocks, power and temperature of the named GPU (nvidia-smi -q -d "
        "PERFORMANCE); move the rank to another GPU if it stays slow.\n"
        "  plan: drain n2 (dry-run)\n"
        "  layer gpu, confidence 0.97, decided at step 246, since 2026-03-01T10:42:07.123Z");
}

static void many_ranks_are_said_briefly(void **state)
{
    struct verdict verdict = { .kind = VERDICT_IMBALANCE, .confidence = 0.5, .rank_count = 70 };
    char who[640];

    (void)state;
    for (uint32_t i = 0; i < VERDICT_RANKS; i++)
        verdict.rank[i] = i < 3 ? i : i + 5;
    assert_string_equal(verdict_who(&verdict, who, sizeof(who)), "ranks 0-2 8-68 and 6 more");
    verdict.rank_count = 2;
    verdict.node_count = 2;
    strcpy(verdict.node[0], "n1");
    strcpy(verdict.node[1], "n2");
    assert_string_equal(verdict_who(&verdict, who, sizeof(who)), "ranks 0-1 (nodes n1 n2)");
    verdict.rank_count = 0;
    assert_string_equal(verdict_who(&verdict, who, sizeof(who)), "nodes n1 n2");
    verdict.node_count = 0;
    assert_string_equal(verdict_who(&verdict, who, sizeof(who)), "the job");
}

static void a_verdict_that_is_over_says_until_when(void **state)
{
    struct verdict verdict = { .kind = VERDICT_CRASH,
                               .confidence = 1,
                               .since_step = 40,
                               .decided_step = 40,
                               .rank_count = 1,
                               .rank = { 3 },
                               .cause = "killed by signal 9 (SIGKILL)",
                               .since_real_ns = T0,
                               .until_real_ns = T0 + 1000000000 };

    (void)state;
    verdict_because(&verdict, "launcher", "first to end of 8");
    verdict_identify(&verdict);
    expect_verdict(&verdict, "crash: rank 3 failed first at step 40: killed by signal 9 (SIGKILL)\n"
                             "  first to end of 8 (launcher)\n"
                             "  to do: Read the end of the log of the named rank and the kernel "
                             "log of its node; errors of other ranks followed from it.\n"
                             "  layer unknown, confidence 1.00, decided at step 40, since "
                             "2026-03-01T10:42:07.123Z until 2026-03-01T10:42:08.123Z");
}

static void words_from_outside_cannot_hurt_a_terminal(void **state)
{
    char out[32];

    (void)state;
    assert_string_equal(show_clean("a\033[31mb\r\n\x7f", out, sizeof(out)), "a?[31mb???");
    assert_string_equal(show_clean("µ \xc3", out, sizeof(out)), "µ ?");
    assert_string_equal(show_clean("\xc0\xaf \xed\xa0\x80 \xc2\x9b", out, sizeof(out)),
                        "?? ??? ??");
    assert_string_equal(show_clean("µµµ", out, 6), "µµ"); /* cut between letters */
}

static void colours_are_only_for_terminals(void **state)
{
    struct verdict verdict = make_verdict();
    struct ledger ledger = make_ledger();
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    verdict_text(&verdict, &rich, out);
    ledger_text(&ledger, &rich, out);
    fflush(out);
    assert_non_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "█"));
    rewind(out);
    verdict_text(&verdict, &plain, out);
    ledger_text(&ledger, &plain, out);
    fclose(out);
    assert_null(memchr(text, '\033', size));
    free(text);
    out = tmpfile(); /* is no terminal */
    assert_false(show_style_of(out).colour || show_style_of(out).bars);
    fclose(out);
}

static struct json_object *at(struct json_object *root, const char *name)
{
    struct json_object *value = NULL;

    assert_true(json_object_object_get_ex(root, name, &value)); /* may be null, must be there */
    return value;
}

static void expect_json(struct json_object *value, const char *expected)
{
    assert_string_equal(json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN), expected);
}

static void a_verdict_has_every_field_in_json(void **state)
{
    struct verdict verdict = make_verdict();
    struct json_object *root = verdict_json(&verdict);

    (void)state;
    expect_json(at(root, "kind"), "\"straggler\"");
    expect_json(at(root, "layer"), "\"gpu\"");
    expect_json(at(root, "cause"), "\"power brake\"");
    expect_json(at(root, "ranks"), "[5]");
    expect_json(at(root, "nodes"), "[\"n2\"]");
    expect_json(at(root, "device"), "\"GPU 1\"");
    assert_null(at(root, "group"));
    expect_json(at(root, "confidence"), "0.97");
    expect_json(at(root, "since_step"), "241");
    expect_json(at(root, "since_time"), "\"2026-03-01T10:42:07.123Z\"");
    assert_null(at(root, "until_time"));
    expect_json(at(root, "decided_step"), "246");
    expect_json(at(root, "decided_time"), "\"2026-03-01T10:42:07.623Z\"");
    expect_json(at(root, "cost"), "{\"seconds_per_step\":0.041,\"gpu_seconds\":812.4}");
    expect_json(at(root, "because"),
                "[{\"source\":\"ring\",\"what\":\"compute 34.1 ms, median of 7 "
                "peers 12.0 ms\"}]");
    expect_json(at(root, "ruled_out"),
                "[{\"layer\":\"data\",\"why\":\"input wait 0.2 ms, as its peers\"}]");
    expect_json(at(root, "echoes"),
                "[{\"source\":\"launcher\",\"what\":\"rank 2: connection reset\"}]");
    expect_json(at(root, "action"), "{\"plan\":\"drain n2\",\"state\":\"dry-run\"}");
    assert_string_equal(json_object_get_string(at(root, "id")), verdict.id);
    json_object_put(root);
    verdict.plan[0] = '\0';
    root = verdict_json(&verdict);
    assert_null(at(root, "action"));
    json_object_put(root);
}

static void a_ledger_adds_up_in_json_and_text(void **state)
{
    struct ledger ledger = make_ledger();
    struct json_object *root = ledger_json(&ledger);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    expect_json(at(root, "goodput"), "0.75");
    expect_json(at(root, "ettr"), "0.857142857"); /* 600 of the 700 that are not spare */
    expect_json(at(root, "ranks"), "8");
    expect_json(at(root, "wall_seconds"), "100.0");
    expect_json(at(root, "steps"), "400");
    expect_json(at(root, "unfit_steps"), "3");
    expect_json(at(root, "host_view"), "false");
    expect_json(at(at(root, "buckets"), "straggler-wait"), "90.0");
    assert_int_equal(json_object_object_length(at(root, "buckets")), LEDGER_BUCKETS);
    json_object_put(root);
    ledger_text(&ledger, &plain, out);
    fclose(out);
    assert_string_equal(text, "where 800.0 GPU-seconds went (8 ranks, 100.0 s):\n"
                              "  productive             600.0   75.0 %\n"
                              "  straggler-wait          90.0   11.2 %\n"
                              "  spare                  100.0   12.5 %\n"
                              "  unattributed            10.0    1.2 %\n"
                              "  goodput 75.0 %, ettr 85.7 %, 400 steps, 3 of them without a cost: "
                              "they cannot be replayed\n");
    free(text);
}

static void the_shares_of_a_short_run_add_up(void **state)
{
    struct ledger ledger = { .ranks = 2,
                             .wall_seconds = 0.5,
                             .gpu_seconds = { [LEDGER_PRODUCTIVE] = 0.8,
                                              [LEDGER_TRANSFER] = 0.04,
                                              [LEDGER_INPUT] = 0.0001,
                                              [LEDGER_START_UP] = 0.16 },
                             .steps = 4 };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    ledger_text(&ledger, &plain, out);
    fclose(out);
    assert_string_equal(text, "where 1.0 GPU-seconds went (2 ranks, 0.5 s):\n"
                              "  productive               0.8   80.0 %\n"
                              "  transfer                 0.0    4.0 %\n"
                              "  start-up                 0.2   16.0 %\n"
                              "  unattributed             0.0    0.0 %\n"
                              "  goodput 80.0 %, ettr 80.0 %, 4 steps\n");
    free(text);
}

static void a_run_without_observed_steps_has_no_ledger(void **state)
{
    struct run_summary summary = {
        .run = "r1",
        .ranks = 2,
        .unseen = 2,
        .ended = true,
        .has_ledger = true,
        .ledger = { .ranks = 2, .wall_seconds = 4, .gpu_seconds = { [LEDGER_UNATTRIBUTED] = 8 } }
    };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    run_summary_text(&summary, &plain, out);
    fclose(out);
    assert_non_null(strstr(text, "no step was observed"));
    assert_null(strstr(text, "GPU-seconds"));
    free(text);
}

static void time_that_is_lost_without_a_cause_is_not_called_nothing(void **state)
{
    struct run_summary summary = { .run = "r1",
                                   .ranks = 2,
                                   .ranks_seen = 2,
                                   .steps = 80,
                                   .ended = true,
                                   .has_ledger = true,
                                   .ledger = { .ranks = 2, .steps = 40, .wall_seconds = 50 } };
    struct json_object *root;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    summary.ledger.gpu_seconds[LEDGER_PRODUCTIVE] = 80;
    summary.ledger.gpu_seconds[LEDGER_STRAGGLER_WAIT] = 8;
    summary.ledger.gpu_seconds[LEDGER_START_UP] = 500;
    summary.ledger.gpu_seconds[LEDGER_UNATTRIBUTED] =
        12; /* a short run: the end of its processes */
    assert_int_equal(run_summary_exit(&summary), 0);
    summary.ledger.gpu_seconds[LEDGER_STRAGGLER_WAIT] = 18;
    assert_int_equal(run_summary_exit(&summary), 3);
    run_summary_text(&summary, &plain, out);
    fclose(out);
    assert_non_null(strstr(text,
                           "no fault was found, but 16 % of the GPU-seconds since start-up were "
                           "lost: straggler-wait 18.0\n"));
    assert_null(strstr(text, "nothing is wrong"));
    free(text);
    root = run_summary_json(&summary);
    assert_true(json_object_get_double(at(root, "lost_share")) > 0.1);
    assert_null(at(root, "checkpoint"));
    json_object_put(root);
    summary.save = (struct run_summary_save){ .ranks = 2, .step = 7, .verify_us = 1500000 };
    root = run_summary_json(&summary);
    expect_json(at(at(root, "checkpoint"), "step"), "7");
    expect_json(at(at(root, "checkpoint"), "verify_seconds"), "1.5");
    json_object_put(root);
    summary.ledger.gpu_seconds[LEDGER_STRAGGLER_WAIT] = 0;
    assert_int_equal(run_summary_exit(&summary), 0);
    summary.ledger.wall_seconds = 120;
    assert_int_equal(run_summary_exit(&summary), 3);
}

static void an_account_says_what_could_not_be_seen(void **state)
{
    struct run_summary summary = {
        .run = "r1",
        .ranks = 8,
        .ranks_seen = 6,
        .unseen = 2,
        .unseen_rank = { 3, 4 },
        .steps = 70,
        .gap_records = 12,
        .ended = true,
        .restarts = 1,
        .attempts = 2,
        .restart = { { .culprit = 3, .status = 137, .text = "killed by signal 9 (SIGKILL)" } },
    };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct json_object *root = run_summary_json(&summary);

    (void)state;
    run_summary_text(&summary, &plain, out);
    fclose(out);
    assert_string_equal(text, "run r1: 8 ranks, 70 rank steps observed, ended with status 0\n"
                              "nothing is wrong\n"
                              "\n"
                              "restart 1: attempt 0 ended, rank 3 failed first: killed by signal 9 "
                              "(SIGKILL)\n"
                              "not observed:\n"
                              "  ranks 3 4: did not load the lockstep probe, so only exits were "
                              "observed\n"
                              "  12 records were overwritten before they were read\n");
    free(text);
    expect_json(at(root, "verdicts"), "[]");
    assert_null(at(root, "ledger"));
    expect_json(at(at(root, "counts"), "gap_records"), "12");
    expect_json(at(root, "restarts"), "[{\"attempt\":0,\"culprit\":3,\"status\":137,\"why\":"
                                      "\"killed by signal 9 (SIGKILL)\",\"parts\":{"
                                      "\"detect_s\":0.0,\"decide_s\":0.0,\"stop_s\":0.0,"
                                      "\"start_s\":0.0,\"init_s\":null,\"first_step_s\":null,"
                                      "\"total_s\":null}}]");
    json_object_put(root);
}

static void every_kind_and_layer_says_what_to_do(void **state)
{
    (void)state;
    for (unsigned kind = 1; kind < VERDICT_KIND_COUNT; kind++) {
        for (unsigned layer = 0; layer < LAYER_COUNT; layer++) {
            struct verdict verdict = { .kind = (uint8_t)kind, .layer = (uint8_t)layer };
            const char *text = verdict_advice(&verdict);

            assert_null(strstr(text, "does not know"));
            assert_int_equal(text[strlen(text) - 1], '.');
            assert_true(strlen(text) > 20 && strlen(text) < 240);
        }
    }
    assert_non_null(verdict_advice(&(struct verdict){ .kind = 200, .layer = 200 }));
}

static void a_stopped_rank_is_to_be_let_go_on(void **state)
{
    struct verdict verdict = { .kind = VERDICT_HANG,
                               .rank_count = 1,
                               .cause = "stopped by a signal: in main (a.py:3)" };
    const char *text = verdict_advice(&verdict);

    (void)state;
    assert_non_null(strstr(text, "kill -CONT"));
    assert_true(strlen(text) < 240);
    verdict.kind = VERDICT_CRASH;
    assert_null(strstr(verdict_advice(&verdict), "kill -CONT"));
}

static void advice_speaks_of_a_named_rank_only_if_there_is_one(void **state)
{
    static const unsigned kinds[] = { VERDICT_HANG, VERDICT_CRASH, VERDICT_CORRUPTION };

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct verdict verdict = { .kind = (uint8_t)kinds[i], .layer = LAYER_UNKNOWN };

        assert_null(strstr(verdict_advice(&verdict), "named rank"));
        verdict.rank_count = 1;
        assert_non_null(strstr(verdict_advice(&verdict), "named rank"));
    }
}

static void a_brief_is_what_evidence_and_what_to_do(void **state)
{
    struct verdict verdict = make_verdict();
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    verdict_because(&verdict, "ring", "weaker evidence");
    verdict_brief(&verdict, out);
    fclose(out);
    assert_string_equal(
        text,
        "straggler: rank 5 (node n2) delays the others by 41.0 ms per step since step 241: power "
        "brake\n"
        "  because compute 34.1 ms, median of 7 peers 12.0 ms (ring)\n"
        "  to do: Check clocks, power and temperature of the named GPU (nvidia-smi -q -d "
        "PERFORMANCE); move the rank to another GPU if it stays slow.\n");
    free(text);
}

static void what_stops_the_job_comes_first(void **state)
{
    struct verdict verdict[] = {
        { .id = "dearest", .kind = VERDICT_STRAGGLER, .until_real_ns = 1, .gpu_seconds = 99 },
        { .id = "over", .kind = VERDICT_CRASH, .until_real_ns = 1, .gpu_seconds = 900 },
        { .id = "cheap", .kind = VERDICT_STRAGGLER, .gpu_seconds = 1 },
        { .id = "late", .kind = VERDICT_HANG, .decided_real_ns = 9 },
        { .id = "dear", .kind = VERDICT_INPUT_STALL, .gpu_seconds = 50 },
        { .id = "wrong", .kind = VERDICT_CORRUPTION, .until_real_ns = 1 },
        { .id = "early", .kind = VERDICT_CRASH, .decided_real_ns = 3 },
    };
    static const char *const expected[] = { "early",   "late", "wrong", "over",
                                            "dearest", "dear", "cheap" };

    (void)state;
    qsort(verdict, 7, sizeof(verdict[0]), verdict_by_importance);
    for (size_t i = 0; i < 7; i++)
        assert_string_equal(verdict[i].id, expected[i]);
}

static void one_is_not_many(void **state)
{
    struct run_summary summary = { .run = "r1",
                                   .ranks = 1,
                                   .ranks_seen = 1,
                                   .steps = 1,
                                   .gap_records = 1,
                                   .torn_steps = 1,
                                   .alive = true };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    run_summary_text(&summary, &plain, out);
    fclose(out);
    assert_string_equal(text, "run r1: 1 rank, 1 rank step observed, still running\n"
                              "no fault found so far\n"
                              "not observed:\n"
                              "  1 record was overwritten before it was read\n"
                              "  1 step is missing some of its records\n");
    free(text);
}

static void a_job_without_the_probe_says_why_and_what_to_do(void **state)
{
    struct run_summary summary = { .run = "r1", .ranks = 4, .unseen = 4, .ended = true };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    run_summary_text(&summary, &plain, out);
    fclose(out);
    assert_non_null(strstr(text, "cannot tell: no step was observed\n"));
    assert_non_null(strstr(text, "not observed:\n  steps: no process loaded the lockstep probe"));
    assert_non_null(strstr(text, "to do: train with torch"));
    assert_null(strstr(text, "ranks 0"));
    free(text);
}

static void the_exit_status_follows_from_the_account(void **state)
{
    struct run_summary summary = { .steps = 1 };

    (void)state;
    assert_int_equal(run_summary_exit(&summary), 0);
    summary.unfinished_steps = 1; /* its ranks ended in it: no step is known to have been one */
    assert_int_equal(run_summary_exit(&summary), 3);
    summary.alive = true;
    assert_int_equal(run_summary_exit(&summary), 0);
    summary.alive = false;
    summary.unfinished_steps = 0;
    summary.steps = 0;
    assert_int_equal(run_summary_exit(&summary), 3);
    summary.verdicts = 1;
    summary.verdict = &(struct verdict){ .kind = VERDICT_CRASH };
    assert_int_equal(run_summary_exit(&summary), 1);
}

static void an_end_that_no_verdict_explains_is_never_told_as_well(void **state)
{
    struct verdict verdict = { .kind = VERDICT_STRAGGLER };
    struct run_summary summary = {
        .run = "r1", .ranks = 2, .steps = 8, .ended = true, .status = 1
    };
    struct json_object *root = run_summary_json(&summary);
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    run_summary_text(&summary, &plain, out);
    fclose(out);
    assert_null(strstr(text, "nothing is wrong"));
    assert_non_null(strstr(text, "\ncannot tell why it ended with status 1: "));
    free(text);
    expect_json(at(root, "unexplained"), "true");
    json_object_put(root);
    assert_int_equal(run_summary_exit(&summary), 3);
    summary.stopped = true; /* as somebody wished */
    assert_int_equal(run_summary_exit(&summary), 0);
    summary.stopped = false;
    summary.verdict = &verdict;
    summary.verdicts = 1;
    assert_true(run_summary_unexplained(&summary)); /* slow ranks do not end a run */
    assert_int_equal(run_summary_exit(&summary), 1);
    verdict.kind = VERDICT_CRASH;
    assert_false(run_summary_unexplained(&summary));
    verdict.until_real_ns = 1; /* it went on after that one */
    assert_true(run_summary_unexplained(&summary));
}

static void text_of(const struct run_summary *summary, char **text);

static void an_end_with_a_reason_is_explained_and_not_well(void **state)
{
    struct run_summary summary = {
        .run = "r1", .ranks = 2, .steps = 8, .ended = true, .status = 1, .reason = "node n2 is lost"
    };
    struct json_object *root = run_summary_json(&summary);
    char *text = NULL;

    (void)state;
    text_of(&summary, &text);
    assert_non_null(strstr(text, "it ended with status 1: node n2 is lost\n"));
    assert_null(strstr(text, "nothing is wrong"));
    assert_null(strstr(text, "cannot tell"));
    free(text);
    expect_json(at(root, "reason"), "\"node n2 is lost\"");
    expect_json(at(root, "unexplained"), "false");
    json_object_put(root);
    assert_int_equal(run_summary_exit(&summary), 1);
}

static void text_of(const struct run_summary *summary, char **text)
{
    size_t size;
    FILE *out = open_memstream(text, &size);

    run_summary_text(summary, &plain, out);
    fclose(out);
}

static void a_decision_is_shown_by_what_came_of_it(void **state)
{
    struct run_summary summary = {
        .run = "r1",
        .ranks = 2,
        .steps = 8,
        .ended = true,
        .decisions = 1,
        .decision = { { .id = "d-1",
                        .action = ACTION_START,
                        .state = DECISION_SUPERSEDED, /* by the next attempt */
                        .why = "the run begins" } },
    };
    struct outcome began = { .result = OUTCOME_UNKNOWN, .began_real_ns = 1 };
    struct outcome done = { .result = OUTCOME_DONE, .began_real_ns = 1, .ended_real_ns = 2 };
    struct outcome failed = { .result = OUTCOME_FAILED, .ended_real_ns = 3 };
    struct outcome_tally *tally = &summary.decision[0].done;
    static const char *const expected[] = { "(superseded)", "(begun)", "(done)", "(failed)" };
    static const char *const json[] = { "null", "null", "\"done\"", "\"failed\"" };

    (void)state;
    for (size_t i = 0; i < COUNT(expected); i++) {
        struct json_object *root;
        char *text = NULL;

        if (i)
            outcome_tally_add(tally, i == 1 ? &began : i == 2 ? &done : &failed);
        text_of(&summary, &text);
        assert_non_null(strstr(text, expected[i]));
        free(text);
        root = run_summary_json(&summary);
        assert_string_equal(json_object_to_json_string_ext(
                                at(json_object_array_get_idx(at(root, "decisions"), 0), "outcome"),
                                JSON_C_TO_STRING_PLAIN),
                            json[i]);
        json_object_put(root);
    }
    outcome_tally_add(tally, &done); /* of another part: one that failed is not forgotten */
    assert_string_equal(decision_word(DECISION_ORDERED, tally), "failed");
}

static void without_a_step_goodput_is_not_known(void **state)
{
    struct ledger ledger = { .ranks = 2, .wall_seconds = 4 };
    struct json_object *root = ledger_json(&ledger);

    (void)state;
    assert_null(at(root, "goodput"));
    assert_null(at(root, "ettr"));
    json_object_put(root);
}

static void a_run_whose_launcher_was_killed_is_not_called_healthy(void **state)
{
    struct run_summary summary = { .run = "r1", .ranks = 2, .steps = 8, .launched = true };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    run_summary_text(&summary, &plain, out);
    fclose(out);
    assert_null(strstr(text, "nothing is wrong"));
    assert_non_null(strstr(text, "\ncannot tell why it ended: its launcher was killed"));
    free(text);
    assert_int_equal(run_summary_exit(&summary), 3);
    summary.closed = true; /* the controller has seen that all of its ranks are gone */
    assert_int_equal(run_summary_exit(&summary), 3);
    summary.launched = false; /* nobody was to record a status */
    assert_int_equal(run_summary_exit(&summary), 0);
    summary.launched = summary.alive = true;
    assert_int_equal(run_summary_exit(&summary), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_says_what_which_and_so_what),
        cmocka_unit_test(a_run_whose_launcher_was_killed_is_not_called_healthy),
        cmocka_unit_test(a_decision_is_shown_by_what_came_of_it),
        cmocka_unit_test(without_a_step_goodput_is_not_known),
        cmocka_unit_test(many_ranks_are_said_briefly),
        cmocka_unit_test(a_verdict_that_is_over_says_until_when),
        cmocka_unit_test(words_from_outside_cannot_hurt_a_terminal),
        cmocka_unit_test(colours_are_only_for_terminals),
        cmocka_unit_test(a_verdict_has_every_field_in_json),
        cmocka_unit_test(a_ledger_adds_up_in_json_and_text),
        cmocka_unit_test(the_shares_of_a_short_run_add_up),
        cmocka_unit_test(a_run_without_observed_steps_has_no_ledger),
        cmocka_unit_test(time_that_is_lost_without_a_cause_is_not_called_nothing),
        cmocka_unit_test(an_account_says_what_could_not_be_seen),
        cmocka_unit_test(every_kind_and_layer_says_what_to_do),
        cmocka_unit_test(a_stopped_rank_is_to_be_let_go_on),
        cmocka_unit_test(advice_speaks_of_a_named_rank_only_if_there_is_one),
        cmocka_unit_test(a_brief_is_what_evidence_and_what_to_do),
        cmocka_unit_test(what_stops_the_job_comes_first),
        cmocka_unit_test(one_is_not_many),
        cmocka_unit_test(a_job_without_the_probe_says_why_and_what_to_do),
        cmocka_unit_test(the_exit_status_follows_from_the_account),
        cmocka_unit_test(an_end_that_no_verdict_explains_is_never_told_as_well),
        cmocka_unit_test(an_end_with_a_reason_is_explained_and_not_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
