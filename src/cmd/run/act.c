/* act.c - lockstep act: what a policy would have done in recorded runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "act/table/policy_file.h"
#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/report/run_source.h"
#include "control/report/backtest.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"

struct act_settings {
    bool json;
    const char *backtest;
    struct site_options site;
};

static const struct opt act_opts[] = {
    { "backtest", 0, OPT_TEXT, offsetof(struct act_settings, backtest), "POLICY",
      "table of actions to try: a file, or default", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct act_settings, json), NULL, "one JSON object", NULL,
      false },
    SITE_ASK_OPTS(offsetof(struct act_settings, site)),
    { .name = NULL },
};

/* The reason begins with the name of the row. */
static void act_rule(const struct decision *decision, char *ret, size_t room)
{
    size_t size = strcspn(decision->why, ":");

    snprintf(ret, room, "%.*s", (int)size, decision->why);
}

static void act_target(const struct decision *decision, char *ret, size_t room)
{
    if (decision->target == TARGET_NODES && decision->node_count)
        snprintf(ret, room, "node %s%s", decision->node[0],
                 decision->node_count > 1 ? " and others" : "");
    else
        snprintf(ret, room, "%s", target_kind_name(decision->target));
}

static struct json_object *act_decision_json(const struct backtest *backtest,
                                             const struct decision *decision)
{
    struct json_object *root = json_object_new_object();
    char rule[FACT_NAME], target[FACT_NAME + 32];

    act_rule(decision, rule, sizeof(rule));
    act_target(decision, target, sizeof(target));
    json_object_object_add(root, "run", show_string(backtest->run));
    json_object_object_add(root, "time", show_time(decision->decided_real_ns));
    json_object_object_add(root, "verdict", show_string_or_null(decision->of));
    json_object_object_add(root, "action", json_object_new_string(action_name(decision->action)));
    json_object_object_add(root, "rule", show_string(rule));
    json_object_object_add(root, "target", show_string(target));
    json_object_object_add(root, "done",
                           json_object_new_boolean(decision->state == DECISION_ORDERED));
    json_object_object_add(root, "saves_gpu_seconds", show_number(decision->saves_gpu_seconds));
    json_object_object_add(root, "costs_gpu_seconds", show_number(decision->costs_gpu_seconds));
    json_object_object_add(root, "why", show_string(decision->why));
    return root;
}

static struct json_object *act_run_json(const struct backtest *backtest)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "run", show_string(backtest->run));
    json_object_object_add(root, "actions", json_object_new_int64(backtest->actions));
    json_object_object_add(root, "blocked", json_object_new_int64(backtest->blocked));
    json_object_object_add(root, "saves_gpu_seconds", show_number(backtest->saves_gpu_seconds));
    json_object_object_add(root, "costs_gpu_seconds", show_number(backtest->costs_gpu_seconds));
    json_object_object_add(root, "healthy_nodes_lost",
                           json_object_new_int64(backtest->healthy_nodes));
    return root;
}

static void act_run_text(const struct backtest *backtest)
{
    char run[FACT_NAME];

    printf("run %s: %u action%s, %u not done; saves %.2f GPU-hours, costs %.2f GPU-hours; healthy "
           "nodes lost: %u\n",
           show_clean(backtest->run, run, sizeof(run)), backtest->actions,
           backtest->actions == 1 ? "" : "s", backtest->blocked, backtest->saves_gpu_seconds / 3600,
           backtest->costs_gpu_seconds / 3600, backtest->healthy_nodes);
    for (size_t i = 0; i < backtest->decisions; i++) {
        const struct decision *decision = &backtest->decision[i];
        char target[FACT_NAME + 32], clean[FACT_NAME + 32], time[32], why[208];

        act_target(decision, target, sizeof(target));
        time_format_utc(decision->decided_real_ns, time);
        printf("  %s %s %s%s: %s\n", time, action_name(decision->action),
               show_clean(target, clean, sizeof(clean)),
               decision->state == DECISION_ORDERED ? "" : " (not done)",
               show_clean(decision->why, why, sizeof(why)));
    }
}

struct act_answer {
    bool json;
    struct json_object *runs, *decisions;
};

static int act_run_one(const char *run, const struct act_settings *settings,
                       const struct policy_table *table, struct act_answer *answer, struct err *err)
{
    CLEAN(run_source_close) struct run_source source = { 0 };
    CLEAN(backtest_fini) struct backtest backtest = { 0 };
    int result = run_source_open(run, &settings->site, &source, err);

    if (result == 0)
        result = backtest_run(source.directory.text, table, &backtest, err);
    if (result < 0)
        return result;
    if (!answer->json) {
        act_run_text(&backtest);
        return 0;
    }
    json_object_array_add(answer->runs, act_run_json(&backtest));
    for (size_t i = 0; i < backtest.decisions; i++)
        json_object_array_add(answer->decisions,
                              act_decision_json(&backtest, &backtest.decision[i]));
    return 0;
}

static int act_backtest(const struct act_settings *settings, int count, char **run)
{
    struct act_answer answer = { .json = settings->json };
    bool is_default = strcmp(settings->backtest, "default") == 0;
    struct json_object *root;
    struct policy_table table;
    struct err err = { "" };
    int status = 0, result;

    result = policy_file_read(is_default ? NULL : settings->backtest, &table, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return 2;
    }
    answer.runs = json_object_new_array();
    answer.decisions = json_object_new_array();
    for (int i = 0; i < MAX(count, 1); i++) {
        result = act_run_one(count ? run[i] : NULL, settings, &table, &answer, &err);
        if (result < 0) {
            log_error("%s", err.text);
            status = MAX(status, site_ask_exit(result));
        }
    }
    root = json_object_new_object();
    json_object_object_add(root, "policy", show_string(table.name));
    json_object_object_add(root, "runs", answer.runs);
    json_object_object_add(root, "decisions", answer.decisions);
    if (settings->json)
        show_json(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
    json_object_put(root);
    return status;
}

static int act_run(int argc, char **argv)
{
    CLEAN(free_clean) char **run = calloc((size_t)argc + 1, sizeof(*run));
    struct act_settings settings = { 0 };
    int count = 0;

    if (!run)
        return 3;
    for (int first = opt_parse(&command_act, argc, argv, &settings); first != argc;
         first = opt_parse_more(&command_act, argc, argv, &settings)) {
        if (first < 0)
            return OPT_EXIT(first);
        run[count++] = argv[first];
        argv += first;
        argc -= first;
    }
    if (!settings.backtest) {
        log_error("needs --backtest POLICY: the policy to try, such as 'default'");
        return 2;
    }
    return act_backtest(&settings, count, run);
}

const struct command command_act = {
    .name = "act",
    .operands = "[RUN...]",
    .summary = "try a policy on recorded runs",
    .details = "Prints what the policy would have done in each run, when, and what it would have "
               "saved.\nNothing is done.  lockstep run --act lets a policy act.",
    .opt = act_opts,
    .run = act_run,
};
