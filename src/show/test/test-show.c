/* What people read and programs parse, word for word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
        .echo = { { "rank 2: connection reset", "launcher" } },
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
        "straggler: rank 5 (node n2) holds up the others by 41.0 ms a step since step 241: power "
        "brake\n"
        "  compute 34.1 ms, median of 7 peers 12.0 ms (ring)\n"
        "  not data: input wait 0.2 ms, as its peers\n"
        "  echo: rank 2: connection reset (launcher)\n"
        "  cost 812.4 GPU-seconds so far\n"
        "  on GPU 1\n"
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
    expect_verdict(&verdict, "crash: rank 3 ended first at step 40: killed by signal 9 (SIGKILL)\n"
                             "  first to end of 8 (launcher)\n"
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
                              "  goodput 75.0 %, ettr 85.7 %, 400 steps, 3 of them not priced: "
                              "they cannot be replayed\n");
    free(text);
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
        .restart = { { 0, 3, 137, "killed by signal 9 (SIGKILL)" } },
    };
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct json_object *root = run_summary_json(&summary);

    (void)state;
    run_summary_text(&summary, &plain, out);
    fclose(out);
    assert_string_equal(text, "run r1: 8 ranks, 70 steps of ranks seen, ended with status 0\n"
                              "nothing is wrong\n"
                              "\n"
                              "restart 1: attempt 0 ended, rank 3 first: killed by signal 9 "
                              "(SIGKILL)\n"
                              "what could not be seen:\n"
                              "  ranks 3 4: never opened a ring\n"
                              "  12 records were overwritten before they were read\n");
    free(text);
    expect_json(at(root, "verdicts"), "[]");
    assert_null(at(root, "ledger"));
    expect_json(at(at(root, "counts"), "gap_records"), "12");
    expect_json(at(root, "restarts"), "[{\"attempt\":0,\"culprit\":3,\"status\":137,\"why\":"
                                      "\"killed by signal 9 (SIGKILL)\"}]");
    json_object_put(root);
}

static void the_exit_status_follows_from_the_account(void **state)
{
    struct run_summary summary = { .steps = 1 };

    (void)state;
    assert_int_equal(run_summary_exit(&summary), 0);
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
        cmocka_unit_test(many_ranks_are_said_briefly),
        cmocka_unit_test(a_verdict_that_is_over_says_until_when),
        cmocka_unit_test(words_from_outside_cannot_hurt_a_terminal),
        cmocka_unit_test(colours_are_only_for_terminals),
        cmocka_unit_test(a_verdict_has_every_field_in_json),
        cmocka_unit_test(a_ledger_adds_up_in_json_and_text),
        cmocka_unit_test(an_account_says_what_could_not_be_seen),
        cmocka_unit_test(the_exit_status_follows_from_the_account),
        cmocka_unit_test(an_end_that_no_verdict_explains_is_never_told_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
