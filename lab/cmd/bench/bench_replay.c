/* bench_replay.c - prints how fast steps are replayed and judged.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include <json-c/json.h>

#include "base/log.h"
#include "cmd/lab/bench_options.h"
#include "lab/bench/bench_replay.h"
#include "lab/cmd/lab.h"

static void bench_replay_print_json(const struct bench_report *report)
{
    struct json_object *root = json_object_new_object();

    for (size_t i = 0; i < report->count; i++) {
        const struct bench_figure *figure = &report->figure[i];
        struct json_object *value = json_object_new_double(figure->value);
        struct json_object *under = NULL;

        if (!figure->key) {
            json_object_object_add(root, figure->name, value);
            continue;
        }
        if (!json_object_object_get_ex(root, figure->name, &under)) {
            under = json_object_new_object();
            json_object_object_add(root, figure->name, under);
        }
        json_object_object_add(under, figure->key, value);
    }
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

static void bench_replay_print(const struct bench_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct bench_figure *figure = &report->figure[i];

        printf("%-28s %-8s %12.*f  %s", figure->name, figure->key ? figure->key : "",
               figure->value < 1000 ? 3 : 0, figure->value, figure->text ? figure->text : "");
        if (figure->at_least > 0)
            printf(" (limit: at least %.0f)", figure->at_least);
        if (figure->at_most > 0)
            printf(" (limit: at most %.0f)", figure->at_most);
        putchar('\n');
    }
}

static bool bench_replay_good(const struct bench_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        if (!bench_figure_good(&report->figure[i]))
            return false;
    }
    return true;
}

int bench_replay_main(int argc, char **argv)
{
    struct bench_replay_settings settings = { .repeats = 31 };
    int parsed = opt_parse_all(&command_bench_replay, argc, argv, &settings);
    struct bench_report report;
    struct err err;
    int r;

    if (parsed < 0)
        return OPT_EXIT(parsed);
    r = bench_replay(settings.repeats, &report, &err);
    if (r < 0) {
        log_error("%s", err.text);
        return r == -EINVAL ? 2 : 3;
    }
    if (settings.json)
        bench_replay_print_json(&report);
    else
        bench_replay_print(&report);
    return bench_replay_good(&report) ? 0 : 1;
}
