/* trace.c - lockstep trace export: a run as a time line for other viewers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "cmd/report/run_source.h"
#include "control/report/trace_export.h"
#include "core/clean.h"
#include "show/style.h"

struct trace_settings {
    bool json;
    const char *steps, *ranks;
    struct site_options site;
};

static const struct opt trace_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct trace_settings, json), NULL,
      "print what was written as one JSON object", NULL, false },
    { "steps", 0, OPT_TEXT, offsetof(struct trace_settings, steps), "A-B",
      "only these steps, default all", NULL, false },
    { "ranks", 0, OPT_TEXT, offsetof(struct trace_settings, ranks), "LIST",
      "only these ranks, such as 0-7,64; default all", NULL, false },
    SITE_ASK_OPTS(offsetof(struct trace_settings, site)),
    { .name = NULL },
};

static void trace_print(const struct trace_counts *counts, const char *path, bool json)
{
    struct json_object *root;

    if (!json) {
        printf("%s: %" PRIu64 " step%s, %" PRIu64 " slice%s, %" PRIu64
               " arrow%s; clocks agree within %.1f us; open it at https://ui.perfetto.dev\n",
               path, counts->steps, counts->steps == 1 ? "" : "s", counts->slices,
               counts->slices == 1 ? "" : "s", counts->arrows, counts->arrows == 1 ? "" : "s",
               (double)counts->clock_error_ns / 1e3);
        return;
    }
    root = json_object_new_object();
    json_object_object_add(root, "file", show_string(path));
    json_object_object_add(root, "steps", json_object_new_uint64(counts->steps));
    json_object_object_add(root, "rank_steps", json_object_new_uint64(counts->rank_steps));
    json_object_object_add(root, "slices", json_object_new_uint64(counts->slices));
    json_object_object_add(root, "arrows", json_object_new_uint64(counts->arrows));
    json_object_object_add(root, "shortened_slices", json_object_new_uint64(counts->clipped));
    json_object_object_add(root, "arrows_left_out", json_object_new_uint64(counts->arrows_dropped));
    json_object_object_add(root, "clock_error_us",
                           show_number((double)counts->clock_error_ns / 1e3));
    show_json(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
    json_object_put(root);
}

static int trace_choose(const struct trace_settings *settings, struct trace_choice *ret)
{
    *ret = (struct trace_choice){ .step = { 0, UINT64_MAX } };
    if (settings->steps && trace_range_read(settings->steps, &ret->step) < 0) {
        log_error("--steps %s: expected A-B or one step, such as 100-120", settings->steps);
        return 2;
    }
    if (settings->ranks && trace_ranges_read(settings->ranks, ret) < 0) {
        log_error("--ranks %s: expected at most %d ranks or ranges, such as 0-7,64",
                  settings->ranks, TRACE_RANGES);
        return 2;
    }
    return 0;
}

static int trace_answer(const char *run, const char *path, const struct trace_settings *settings)
{
    CLEAN(run_source_close) struct run_source source = { 0 };
    struct trace_choice choice;
    struct trace_counts counts;
    struct err err = { "" };
    int result = trace_choose(settings, &choice);

    if (result)
        return result;
    result = run_source_open(run, &settings->site, &source, &err);
    if (result == 0)
        result = trace_export(source.directory.text, &choice, path, &counts, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return site_ask_exit(result);
    }
    trace_print(&counts, path, settings->json);
    return 0;
}

static int trace_main(int argc, char **argv)
{
    struct trace_settings settings = { 0 };
    const char *operand[2] = { NULL, NULL };
    int count = 0;

    for (int first = opt_parse(&command_trace_export, argc, argv, &settings); first != argc;
         first = opt_parse_more(&command_trace_export, argc, argv, &settings)) {
        if (first < 0)
            return OPT_EXIT(first);
        if (count == 2) {
            log_error("unexpected operand '%s'; expected a run and a file", argv[first]);
            return 2;
        }
        operand[count++] = argv[first];
        argv += first;
        argc -= first;
    }
    if (count < 2) {
        log_error("expected a run and a file: lockstep trace export RUN FILE.json.gz");
        return 2;
    }
    return trace_answer(operand[0], operand[1], &settings);
}

const struct command command_trace_export = {
    .name = "trace export",
    .operands = "RUN FILE.json[.gz]",
    .summary = "write the steps of a run as a Chrome trace for ui.perfetto.dev and other viewers",
    .details = "Exit status: 0 written, 2 no such run, 3 nothing to write or cannot write.",
    .opt = trace_opts,
    .run = trace_main,
};
