/* diff.c - two runs of what should be the same: the system became slower, or it is another program.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/paths.h"
#include "cmd/settings.h"
#include "cmd/site/site_ask.h"
#include "control/report/run_report.h"
#include "core/clean.h"
#include "judge/compare/profile.h"
#include "show/style.h"

struct diff_settings {
    bool json;
    double share;
    struct thresholds limits;
    struct site_options site;
};

static const struct opt diff_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct diff_settings, json), NULL, "one JSON object", NULL,
      false },
    { "share", 0, OPT_F64, offsetof(struct diff_settings, share), "SHARE",
      "share of a step below which a difference is not reported, default 0.03", NULL, false },
    SITE_ASK_OPTS(offsetof(struct diff_settings, site)),
    { .name = NULL },
};

struct diff_side { /* a run */
    struct profile profile;
    struct environments environments;
};

static void diff_side_fini(struct diff_side *side)
{
    profile_fini(&side->profile);
    environments_fini(&side->environments);
}

static void diff_watch_step(void *arg, const struct judge_state *judge,
                            const struct job_step *job_step)
{
    profile_step(arg, judge, job_step);
}

static void diff_ask_clean(struct site_ask **ask)
{
    site_ask_close(*ask);
}

/* A run of the site: its log is fetched, and compared here. */
static int diff_profile_fetch(const char *run, const struct site_options *site,
                              struct diff_side *side, struct err *err)
{
    CLEAN(diff_ask_clean) struct site_ask *ask = NULL;
    struct path directory = { "" };
    char name[64];
    int result = site_ask_open(site, &ask, err);

    if (result == 0)
        result = site_ask_run(ask, run, name, err);
    if (result == 0)
        result = site_ask_fetch(ask, name, &directory, err);
    if (result == 0)
        result = run_report_watch(directory.text, diff_watch_step, &side->profile,
                                  &side->environments, err);
    site_ask_drop(&directory);
    return result;
}

static int diff_profile_find(const char *run, struct diff_side *side, struct err *err)
{
    struct path directory;
    int result = paths_find(run, &directory, err);

    return result < 0 ? result
                      : run_report_watch(directory.text, diff_watch_step, &side->profile,
                                         &side->environments, err);
}

static int diff_profile_read(const char *run, const struct site_options *site,
                             struct diff_side *side, struct err *err)
{
    int result = site_ask_is_run(site, run) ? diff_profile_fetch(run, site, side, err)
                                            : diff_profile_find(run, side, err);

    if (result < 0)
        return result;
    result = profile_end(&side->profile);
    if (result == -ENODATA)
        return err_set(err, result,
                       "%s: no step to compare; the first two steps of a run do not count", run);
    return result < 0 ? err_set(err, result, "%s: out of memory", run) : 0;
}

static struct json_object *diff_place_json(const struct diff_place *place)
{
    struct json_object *object = json_object_new_object(), *ranks = json_object_new_array();
    struct json_object *seen = json_object_new_object(), *nodes = json_object_new_array();
    char text[128];

    for (uint32_t i = 0; i < MIN(place->ranks, DIFF_RANKS); i++) {
        const char *name = place->name[place->rank[i]];

        json_object_array_add(ranks, json_object_new_int64(place->rank[i]));
        json_object_object_add(seen, name, json_object_new_boolean(true)); /* each once */
    }
    json_object_object_foreach(seen, name, unused)
    {
        (void)unused;
        json_object_array_add(nodes, show_string(name));
    }
    json_object_put(seen);
    json_object_object_add(object, "op",
                           show_string(profile_part_text(place->part, text, sizeof(text))));
    json_object_object_add(object, "group",
                           place->part->group[0] ? show_string(place->part->group) : NULL);
    json_object_object_add(object, "node", place->node[0] ? show_string(place->node) : NULL);
    json_object_object_add(object, "nodes", nodes);
    json_object_object_add(object, "ranks", ranks);
    json_object_object_add(object, "rank_count", json_object_new_int64(place->ranks));
    json_object_object_add(object, "before_ms", json_object_new_double(place->before_ms));
    json_object_object_add(object, "after_ms", json_object_new_double(place->after_ms));
    return object;
}

static const char *diff_answer(const struct diff *diff)
{
    if (!diff->same_program)
        return "program";
    return diff->slower ? "system" : "none";
}

/* null: not known of both runs */
static struct json_object *diff_environment_json(const struct environment_differences *environment)
{
    struct json_object *object;

    if (!environment->ranks || !environment->before)
        return NULL;
    object = json_object_new_object();
    json_object_object_add(object, "before_ranks", json_object_new_int64(environment->before));
    json_object_object_add(object, "after_ranks", json_object_new_int64(environment->ranks));
    json_object_object_add(object, "change_count", json_object_new_int64(environment->count));
    json_object_object_add(object, "changes", environment_changes_json(environment));
    return object;
}

static void diff_environment_text(const struct environment_differences *environment)
{
    if (!environment->ranks || !environment->before) {
        printf("environment: not observed in the run %s\n",
               environment->before ? "after" : "before");
        return;
    }
    if (!environment->count)
        return;
    puts("environment differs:");
    environment_changes_text(environment, stdout);
}

static void diff_json(const struct diff *diff, const struct environment_differences *environment)
{
    struct json_object *object = json_object_new_object(), *places = json_object_new_array();
    struct json_object *first = NULL;

    for (uint32_t i = 0; i < diff->places; i++)
        json_object_array_add(places, diff_place_json(&diff->place[i]));
    json_object_object_add(object, "same_program", json_object_new_boolean(diff->same_program));
    json_object_object_add(object, "cause", json_object_new_string(diff_answer(diff)));
    json_object_object_add(object, "before_ms", json_object_new_double(diff->before_ms));
    json_object_object_add(object, "after_ms", json_object_new_double(diff->after_ms));
    json_object_object_add(object, "slower", json_object_new_boolean(diff->slower));
    json_object_object_add(object, "program", diff->program[0] ? show_string(diff->program) : NULL);
    if (diff->op != MODEL_NONE) {
        first = json_object_new_object();
        json_object_object_add(first, "rank", json_object_new_int64(diff->rank));
        json_object_object_add(first, "number", json_object_new_int64(diff->op));
        json_object_object_add(first, "before", show_string(diff->one));
        json_object_object_add(first, "after", show_string(diff->other));
    }
    json_object_object_add(object, "first_op", first);
    json_object_object_add(object, "places", places);
    json_object_object_add(object, "environment", diff_environment_json(environment));
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED));
    json_object_put(object);
}

static void diff_place_text(const struct diff_place *place)
{
    char text[128], clean[128];

    printf("  %s: %.1f ms per step before, %.1f ms after, on ",
           show_clean(profile_part_text(place->part, text, sizeof(text)), clean, sizeof(clean)),
           place->before_ms, place->after_ms);
    if (place->ranks == place->of && place->of > 1) {
        printf("all %u ranks that have it\n", place->of);
        return;
    }
    if (place->node[0])
        printf("node %s, ", show_clean(place->node, clean, sizeof(clean)));
    printf(place->ranks == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < MIN(place->ranks, DIFF_RANKS); i++) {
        printf(" %u", place->rank[i]);
        if (!place->node[0])
            printf(" (node %s)", show_clean(place->name[place->rank[i]], clean, sizeof(clean)));
    }
    printf(place->ranks > DIFF_RANKS ? " and %u more\n" : "\n", place->ranks - DIFF_RANKS);
}

static void diff_text(const struct diff *diff)
{
    char one[256], other[256];

    printf("a step took %.1f ms before and takes %.1f ms after (%+.1f %%)\n", diff->before_ms,
           diff->after_ms, 100 * (diff->after_ms / diff->before_ms - 1));
    if (!diff->same_program) {
        printf("the program is not the same: %s\n", show_clean(diff->program, one, sizeof(one)));
        if (diff->op != MODEL_NONE)
            printf("  the first op that differs is number %u of rank %u: %s; before: %s\n",
                   diff->op, diff->rank, show_clean(diff->other, other, sizeof(other)),
                   show_clean(diff->one, one, sizeof(one)));
        return;
    }
    if (!diff->slower) {
        printf("the program is the same, and %s\n",
               diff->faster ? "it is faster" : "it is as fast as before");
        return;
    }
    printf("the program is the same in its operations: the system, or the code between them, is "
           "slower%s\n",
           diff->places ? " in" : "");
    for (uint32_t i = 0; i < diff->places; i++)
        diff_place_text(&diff->place[i]);
    if (!diff->places)
        printf("  no single part has grown by so much; waiting and many small ones have\n");
}

static int diff_print(const char *const run[2], const struct diff_settings *settings)
{
    CLEAN(diff_side_fini) struct diff_side before = { 0 };
    CLEAN(diff_side_fini) struct diff_side after = { 0 };
    struct environment_differences environment;
    struct err err = { "" };
    struct diff diff;
    int result = diff_profile_read(run[0], &settings->site, &before, &err);

    if (result == 0)
        result = diff_profile_read(run[1], &settings->site, &after, &err);
    if (result == 0) {
        result = diff_profiles(&before.profile, &after.profile, settings->share,
                               settings->limits.verdict_explains, &diff);
        if (result == 0)
            result = environments_compare(&before.environments.now, &after.environments.now,
                                          &environment);
        if (result < 0)
            err_set(&err, result, "out of memory");
    }
    if (result < 0) {
        log_error("%s", err.text);
        return site_ask_exit(result);
    }
    if (settings->json)
        diff_json(&diff, &environment);
    else
        diff_text(&diff);
    if (!settings->json)
        diff_environment_text(&environment);
    return diff.same_program && !diff.slower ? 0 : 1;
}

static int diff_run(int argc, char **argv)
{
    struct diff_settings settings = { .share = 0.03 };
    const char *run[2] = { NULL, NULL };
    struct err err = { "" };
    int count = 0;

    if (settings_thresholds(&command_diff, argc, argv, &settings.limits, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    for (int first = opt_parse(&command_diff, argc, argv, &settings); first != argc;
         first = opt_parse_more(&command_diff, argc, argv, &settings)) {
        if (first < 0)
            return OPT_EXIT(first);
        if (count == 2) {
            log_error("unexpected operand '%s'; expected two runs", argv[first]);
            return 2;
        }
        run[count++] = argv[first];
        argv += first;
        argc -= first;
    }
    if (count < 2) {
        log_error("expected two runs: the one before and the one after");
        return 2;
    }
    if (!(settings.share > 0 && settings.share < 10)) {
        log_error("--share %g: expected more than 0 and less than 10", settings.share);
        return 2;
    }
    return diff_print(run, &settings);
}

const struct command command_diff = {
    .name = "diff",
    .operands = "RUN RUN",
    .summary = "compare two runs: did the system or the program get slower, and where",
    .details =
        "The first run is the one before, the second the one after; either may be a directory.\n"
        "Exit status: 0 as fast, 1 slower or another program, 2 bad usage, 3 cannot tell.",
    .opt = diff_opts,
    .run = diff_run,
};
