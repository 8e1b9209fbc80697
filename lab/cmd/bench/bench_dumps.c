/* bench_dumps.c - how fast the dumps of a large job are read and judged, on one core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "autopsy/postmortem.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/remove_tree.h"
#include "cmd/lab/bench_options.h"
#include "core/clean.h"
#include "core/time.h"
#include "lab/bench/flight_make.h"
#include "lab/cmd/lab.h"
#include "read/artifacts.h"

#define BAR_SECONDS 10.0
#define BAR_RANKS 1024

struct dumps_outcome {
    double wall_seconds, cpu_seconds;
    int64_t bytes;
    bool right; /* the culprit, and nobody else, was named */
};

static int bench_dumps_measure(const char *directory, uint32_t culprit,
                               struct dumps_outcome *outcome, struct err *err)
{
    CLEAN(artifacts_fini) struct artifacts artifacts = { 0 };
    CLEAN(findings_fini) struct findings findings = { 0 };
    int64_t wall = time_mono_ns(), cpu = time_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct budget budget = { .limit = BUDGET_WHY };
    int result = artifacts_read(directory, &budget, &artifacts, err);

    if (result == 0 && postmortem_dumps(&artifacts.dumps, "bench", &findings) < 0)
        result = err_set(err, -ENOMEM, "no memory to judge the dumps");
    if (result < 0)
        return result;
    outcome->wall_seconds = (double)(time_mono_ns() - wall) / 1e9;
    outcome->cpu_seconds = (double)(time_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
    outcome->right = findings.count == 1 && findings.verdict[0].rank_count == 1 &&
                     findings.verdict[0].rank[0] == culprit;
    return 0;
}

static int bench(const struct bench_dumps_settings *settings, struct dumps_outcome *outcome,
                 struct err *err)
{
    const char *tmp = getenv("TMPDIR");
    uint32_t culprit = settings->ranks / 3;
    struct path directory;
    int result = path_join(&directory, tmp && *tmp ? tmp : "/tmp", "lockstep-dumps.XXXXXX", err);

    if (result < 0)
        return result;
    if (!mkdtemp(directory.text))
        return err_set(err, -errno, "%s: %m", directory.text);
    outcome->bytes = flight_make(directory.text, settings->ranks, settings->ops, culprit, err);
    result = (int)MIN(outcome->bytes, 0);
    if (result == 0)
        result = bench_dumps_measure(directory.text, culprit, outcome, err);
    tree_remove(directory.text);
    return result;
}

static void bench_dumps_print(const struct bench_dumps_settings *settings,
                              const struct dumps_outcome *outcome)
{
    struct json_object *root;

    if (!settings->json) {
        printf("%u dumps of about %u operations, %.0f MB: read and judged in %.2f s (%.2f s of CPU "
               "time), culprit %s (limit: %.0f s for %d ranks)\n",
               settings->ranks, settings->ops, (double)outcome->bytes / 1e6, outcome->wall_seconds,
               outcome->cpu_seconds, outcome->right ? "named" : "not named", BAR_SECONDS,
               BAR_RANKS);
        return;
    }
    root = json_object_new_object();
    json_object_object_add(root, "ranks", json_object_new_int64(settings->ranks));
    json_object_object_add(root, "ops", json_object_new_int64(settings->ops));
    json_object_object_add(root, "bytes", json_object_new_int64(outcome->bytes));
    json_object_object_add(root, "seconds", json_object_new_double(outcome->wall_seconds));
    json_object_object_add(root, "cpu_seconds", json_object_new_double(outcome->cpu_seconds));
    json_object_object_add(root, "culprit_named", json_object_new_boolean(outcome->right));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

int bench_dumps_main(int argc, char **argv)
{
    struct bench_dumps_settings settings = { .ranks = 1024, .ops = 500 };
    int parsed = opt_parse_all(&command_bench_dumps, argc, argv, &settings), result;
    struct dumps_outcome outcome = { 0 };
    struct err err = { "" };

    if (parsed < 0)
        return OPT_EXIT(parsed);
    result = bench(&settings, &outcome, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -EINVAL ? 2 : 3;
    }
    bench_dumps_print(&settings, &outcome);
    return outcome.right && outcome.wall_seconds <= BAR_SECONDS * settings.ranks / BAR_RANKS + 1
               ? 0
               : 1;
}
