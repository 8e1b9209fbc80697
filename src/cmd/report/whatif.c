/* whatif.c - what stragglers cost a job, from a trace of its ops.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "judge/compare/whatif.h"
#include "read/artifacts.h"
#include "read/jsontext.h"
#include "read/kineto.h"
#include "read/optrace_csv.h"
#include "read/read_file.h"

#define TRACE_LIMIT ((size_t)4 << 30) /* of memory, for the text and its values */
#define SHOWN 8                       /* lines of a part, for people */

struct whatif_settings {
    bool json, steps;
};

static const struct opt whatif_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct whatif_settings, json), NULL, "one JSON object", NULL,
      false },
    { "steps", 0, OPT_FLAG, offsetof(struct whatif_settings, steps), NULL, "also print every step",
      NULL, false },
    { .name = NULL },
};

static const struct {
    const char *key, *text;
    enum whatif_by by;
} parts[] = {
    { "S_stage", "stage", WHATIF_STAGE },
    { "S_dp", "dp", WHATIF_DP },
    { "S_kind", "", WHATIF_KIND },
    { "S_rank", "rank", WHATIF_WORKER },
};

/* Kinds are a fixed list; those that the trace does not have are not spoken of. */
static bool whatif_label_used(const struct whatif_plan *plan, enum whatif_by by, uint32_t label)
{
    if (by != WHATIF_KIND)
        return true;
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->label[WHATIF_KIND][i] == label)
            return true;
    }
    return false;
}

static const char *whatif_label_name(const struct whatif_plan *plan, enum whatif_by by,
                                     uint32_t label, char *out, size_t room)
{
    if (by == WHATIF_KIND)
        snprintf(out, room, "%s", plan->kind[label]);
    else
        snprintf(out, room, "%u", by == WHATIF_WORKER ? plan->worker[label].rank : label);
    return out;
}

static void whatif_command_add_number(struct json_object *object, const char *key, double value)
{
    json_object_object_add(object, key, isfinite(value) ? json_object_new_double(value) : NULL);
}

static struct json_object *whatif_times_json(const struct whatif_times *times)
{
    struct json_object *object = json_object_new_object();

    whatif_command_add_number(object, "traced", times->traced);
    whatif_command_add_number(object, "no_delay", times->no_delay);
    whatif_command_add_number(object, "ideal", times->ideal);
    return object;
}

static struct json_object *whatif_part_json(const struct whatif_plan *plan, enum whatif_by by,
                                            const double *S, size_t stride)
{
    struct json_object *object = json_object_new_object();
    char name[32];

    for (uint32_t i = 0; i < plan->labels[by]; i++) {
        if (whatif_label_used(plan, by, i))
            whatif_command_add_number(object, whatif_label_name(plan, by, i, name, sizeof(name)),
                                      S[i * stride]);
    }
    return object;
}

static struct json_object *whatif_share_json(const struct whatif_share *share)
{
    struct json_object *object = json_object_new_object();

    whatif_command_add_number(object, "share", share->share);
    whatif_command_add_number(object, "added", share->added);
    whatif_command_add_number(object, "seconds_without", share->without);
    whatif_command_add_number(object, "seconds_only", share->only);
    return object;
}

static struct json_object *whatif_steps_json(const struct whatif_plan *plan,
                                             const struct whatif *whatif)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < whatif->steps; i++) {
        const struct whatif_times *times = &whatif->step[i];
        struct json_object *step = whatif_times_json(times);

        json_object_object_add(step, "step", json_object_new_int64(times->step));
        whatif_command_add_number(step, "S", times->ideal > 0 ? times->no_delay / times->ideal : 1);
        whatif_command_add_number(step, "launch",
                                  times->no_delay > 0 ? times->traced / times->no_delay : 1);
        for (size_t k = 0; k < COUNT(parts); k++) {
            const double *S = whatif->S_of_step[parts[k].by];

            if (S)
                json_object_object_add(step, parts[k].key,
                                       whatif_part_json(plan, parts[k].by, S + i, whatif->steps));
        }
        json_object_array_add(list, step);
    }
    return list;
}

static void whatif_print_json(const struct whatif_plan *plan, const struct whatif *whatif,
                              bool steps)
{
    struct json_object *root = json_object_new_object(), *worst;
    struct json_object *ranks = json_object_new_array();

    whatif_command_add_number(root, "S", whatif->S);
    whatif_command_add_number(root, "waste", whatif->waste);
    whatif_command_add_number(root, "launch", whatif->launch);
    for (size_t k = 0; k < COUNT(parts); k++)
        json_object_object_add(root, parts[k].key,
                               whatif_part_json(plan, parts[k].by, whatif->S_of[parts[k].by], 1));
    whatif_command_add_number(root, "M_W", whatif->worst_workers.share);
    whatif_command_add_number(root, "M_S", whatif->last_stage.share);
    worst = whatif_share_json(&whatif->worst_workers);
    for (size_t i = 0; i < whatif->worst_count; i++)
        json_object_array_add(ranks, json_object_new_int64(plan->worker[whatif->worst[i]].rank));
    json_object_object_add(worst, "ranks", ranks);
    json_object_object_add(root, "worst_workers", worst);
    json_object_object_add(root, "last_stage", whatif_share_json(&whatif->last_stage));
    json_object_object_add(root, "seconds_per_step", whatif_times_json(&whatif->mean));
    json_object_object_add(root, "dp", json_object_new_uint64(plan->labels[WHATIF_DP]));
    json_object_object_add(root, "stages", json_object_new_uint64(plan->labels[WHATIF_STAGE]));
    json_object_object_add(root, "ranks", json_object_new_uint64(plan->labels[WHATIF_WORKER]));
    json_object_object_add(root, "steps", json_object_new_uint64(whatif->steps));
    json_object_object_add(root, "ops", json_object_new_uint64(plan->count));
    json_object_object_add(root, "unpaired", json_object_new_uint64(plan->unpaired));
    if (steps)
        json_object_object_add(root, "by_step", whatif_steps_json(plan, whatif));
    puts(json_object_to_json_string_ext(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY));
    json_object_put(root);
}

/* The worst few, the worst first; by selection, there are few. */
static void whatif_print_part(const struct whatif_plan *plan, const struct whatif *whatif,
                              size_t part)
{
    enum whatif_by by = parts[part].by;
    const double *S = whatif->S_of[by];
    double below = INFINITY;
    uint32_t after = 0;

    printf("\n%s: the step against ideal when only this one is as traced\n", parts[part].key);
    for (unsigned shown = 0; shown <= SHOWN; shown++) {
        uint32_t best = UINT32_MAX;
        char name[32];

        for (uint32_t i = 0; i < plan->labels[by]; i++) {
            bool left = S[i] < below || (S[i] == below && i > after);

            if (left && (best == UINT32_MAX || S[i] > S[best]) && whatif_label_used(plan, by, i))
                best = i;
        }
        if (best == UINT32_MAX)
            return;
        if (shown == SHOWN) {
            puts("  ...");
            return;
        }
        below = S[best];
        after = best;
        whatif_label_name(plan, by, best, name, sizeof(name));
        printf("  %s%s%-*s %.4f\n", parts[part].text, *parts[part].text ? " " : "",
               *parts[part].text ? 6 : 28, name, S[best]);
    }
}

static void whatif_print_text(const struct whatif_plan *plan, const struct whatif *whatif,
                              bool steps)
{
    printf("%zu steps of %zu ranks (dp %zu, %zu stages), %zu ops\n", whatif->steps,
           plan->labels[WHATIF_WORKER], plan->labels[WHATIF_DP], plan->labels[WHATIF_STAGE],
           plan->count);
    printf("step: %.4f s traced, %.4f s without launch delays, %.4f s with every op as its kind "
           "typically is\n",
           whatif->mean.traced, whatif->mean.no_delay, whatif->mean.ideal);
    printf("S %.4f: stragglers waste %.1f %% of the GPU time; launch delays %.1f %%\n", whatif->S,
           100 * whatif->waste, 100 * (1 - 1 / whatif->launch));
    printf("M_W %.3f: share of it that is gone when rank%s", whatif->worst_workers.share,
           whatif->worst_count > 1 ? "s" : "");
    for (size_t i = 0; i < whatif->worst_count && i < SHOWN; i++)
        printf(" %u", plan->worker[whatif->worst[i]].rank);
    printf("%s (the worst 3 %%) %s ideal\n", whatif->worst_count > SHOWN ? " ..." : "",
           whatif->worst_count > 1 ? "are" : "is");
    printf("M_S %.3f: ... when the last stage is ideal\n", whatif->last_stage.share);
    for (size_t k = 0; k < COUNT(parts); k++)
        whatif_print_part(plan, whatif, k);
    for (size_t i = 0; steps && i < whatif->steps; i++)
        printf("%sstep %" PRId64 " %.4f s traced, %.4f without delays, %.4f ideal\n", i ? "" : "\n",
               whatif->step[i].step, whatif->step[i].traced, whatif->step[i].no_delay,
               whatif->step[i].ideal);
}

static int whatif_load_csv(const struct file_content *file, struct whatif_plan *ret,
                           struct err *err)
{
    CLEAN(optrace_fini) struct optrace trace = { 0 };
    int result = optrace_csv_read(file->data, file->size, &trace, err);

    return result < 0 ? result : whatif_plan_pipeline(&trace, ret, err);
}

static int whatif_load_profile(struct file_content *file, const char *path, struct lanes *lanes,
                               struct err *err)
{
    CLEAN(value_fini) struct value_tree tree = { .root = VALUE_NIL, .budget = file->budget };
    uint32_t rank = artifact_rank(path);
    int result = jsontext_read(file->data, file->size, &tree, err);

    if (result < 0)
        return result;
    if (!kineto_is(&tree))
        return err_set(err, -EPROTO, "JSON, but no trace of a profiler");
    return kineto_add(lanes, rank == UINT32_MAX ? 0 : rank, &tree, err);
}

/* All traces of a directory, one a rank. */
static int whatif_load_directory(const char *path, struct lanes *lanes, struct err *err)
{
    CLEAN(artifacts_fini) struct artifacts artifacts = { 0 };
    struct budget budget = { .limit = TRACE_LIMIT };
    int result = artifacts_read(path, &budget, &artifacts, err);

    if (result < 0)
        return result;
    *lanes = artifacts.lanes;
    artifacts.lanes = (struct lanes){ 0 };
    return lanes->count ? 0 : err_set(err, -EPROTO, "%s: no trace of a profiler below it", path);
}

static int whatif_load(const char *path, struct whatif_plan *ret, struct err *err)
{
    CLEAN(read_file_fini) struct file_content file = { 0 };
    CLEAN(lanes_fini) struct lanes lanes = { 0 };
    struct budget budget = { .limit = TRACE_LIMIT };
    struct stat stat_buf;
    int result;

    if (stat(path, &stat_buf) == 0 && S_ISDIR(stat_buf.st_mode)) {
        result = whatif_load_directory(path, &lanes, err);
        return result < 0 ? result : whatif_plan_lanes(&lanes, ret, err);
    }
    result = read_file(path, &budget, &file, err);
    if (result < 0)
        return result;
    if (file.size && strchr("{[", file.data[strspn(file.data, " \t\r\n")])) {
        result = whatif_load_profile(&file, path, &lanes, err);
        if (result == 0)
            result = whatif_plan_lanes(&lanes, ret, err);
    } else {
        result = whatif_load_csv(&file, ret, err);
    }
    return result < 0 ? err_wrap(err, result, "%s", path) : 0;
}

static int whatif_print(const char *path, const struct whatif_settings *settings)
{
    CLEAN(whatif_plan_fini) struct whatif_plan plan = { 0 };
    CLEAN(whatif_fini) struct whatif whatif = { 0 };
    struct err err = { "" };
    int result = whatif_load(path, &plan, &err);

    if (result == 0 && whatif_run(&plan, &whatif) < 0)
        result = err_set(&err, -ENOMEM, "%s: out of memory", path);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -ENOMEM ? 3 : 2;
    }
    if (plan.unpaired)
        log_info("%" PRIu64 " sends or receives have no other side in the trace", plan.unpaired);
    if (settings->json)
        whatif_print_json(&plan, &whatif, settings->steps);
    else
        whatif_print_text(&plan, &whatif, settings->steps);
    return 0;
}

static int whatif_main(int argc, char **argv)
{
    struct whatif_settings settings = { 0 };
    const char *path = NULL;

    for (int first = opt_parse(&command_whatif, argc, argv, &settings); first != argc;
         first = opt_parse_more(&command_whatif, argc, argv, &settings)) {
        if (first < 0)
            return OPT_EXIT(first);
        if (path) {
            log_error("one trace at a time: '%s' is one too many", argv[first]);
            return 2;
        }
        path = argv[first]; /* options may follow it, as people type them */
        argv += first;
        argc -= first;
    }
    if (!path) {
        log_error("expected a trace: lockstep whatif TRACE");
        return 2;
    }
    return whatif_print(path, &settings);
}

const struct command command_whatif = {
    .name = "whatif",
    .operands = "TRACE",
    .summary = "the cost of stragglers in a trace of a job's operations, by replay",
    .details = "TRACE is an op-level trace as comma-separated text, a trace of PyTorch's profiler "
               "(JSON), or a\n"
               "directory of those, one a rank; plain or gzip.",
    .opt = whatif_opts,
    .run = whatif_main,
};
