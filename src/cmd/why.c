/* why.c - what is wrong with a run, live or dead, and how we know.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "cmd/lockstep.h"
#include "cmd/settings.h"
#include "cmd/why_artifacts.h"
#include "control/log/log_follow.h"
#include "control/log/rundir.h"
#include "control/report/run_report.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "show/run_summary.h"
#include "show/verdict_view.h"

#define FOLLOW_NAP_NS (100 * NS_PER_MS)

struct why_settings {
    bool json, replay, all, follow;
    struct thresholds limits; /* for what others left; a run's own log has those it was judged by */
};

static const struct opt why_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct why_settings, json), NULL,
      "one JSON object; with --follow one a line for each verdict", NULL, false },
    { "replay", 0, OPT_FLAG, offsetof(struct why_settings, replay), NULL,
      "judge the log again and print whether the verdicts are byte-equal", NULL, false },
    { "all", 0, OPT_FLAG, offsetof(struct why_settings, all), NULL,
      "every state of each verdict, not only its last", NULL, false },
    { "follow", 'f', OPT_FLAG, offsetof(struct why_settings, follow), NULL,
      "print verdicts as they come, until the run ends", NULL, false },
    { .name = NULL },
};

static void print_json(struct json_object *root, int flags)
{
    puts(json_object_to_json_string_ext(root, flags));
    json_object_put(root);
}

static int why_tell(const char *directory, const struct why_settings *settings, struct err *err)
{
    struct show_style style = show_style_of(stdout);
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    int result = run_report_read(directory, settings->all, &summary, err);

    if (result == 0)
        result = why_add_artifacts(directory, &settings->limits, &summary, err);
    if (result < 0)
        return result;
    if (summary.verdicts && !settings->all) /* those that were just added are behind the others */
        qsort(summary.verdict, summary.verdicts, sizeof(summary.verdict[0]), verdict_by_importance);
    if (settings->json)
        print_json(run_summary_json(&summary), JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
    else
        run_summary_text(&summary, &style, stdout);
    return run_summary_exit(&summary);
}

static void print_replay(const struct run_report_replay *replay, bool equal)
{
    uint64_t count = replay->equal + replay->different;

    printf("%" PRIu64 " verdict%s and ledger%s from %" PRIu64 " fact%s and %" PRIu64 " tick%s: ",
           count, count == 1 ? "" : "s", count == 1 ? "" : "s", replay->facts,
           replay->facts == 1 ? "" : "s", replay->ticks, replay->ticks == 1 ? "" : "s");
    if (equal)
        puts("byte-equal");
    else
        printf("%" PRIu64 " different, %" PRIu64 " missing in the log\n", replay->different,
               replay->missing);
}

static int why_replay(const char *directory, const struct why_settings *settings, struct err *err)
{
    struct run_report_replay replay;
    int result = run_report_replay(directory, &replay, err);
    bool equal;

    if (result < 0)
        return result;
    equal = replay.different == 0 && replay.missing == 0;
    if (settings->json) {
        struct json_object *root = json_object_new_object();

        json_object_object_add(root, "byte_equal", json_object_new_boolean(equal));
        json_object_object_add(root, "equal", json_object_new_uint64(replay.equal));
        json_object_object_add(root, "different", json_object_new_uint64(replay.different));
        json_object_object_add(root, "missing", json_object_new_uint64(replay.missing));
        json_object_object_add(root, "facts", json_object_new_uint64(replay.facts));
        json_object_object_add(root, "ticks", json_object_new_uint64(replay.ticks));
        print_json(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
    } else {
        print_replay(&replay, equal);
    }
    return equal ? 0 : 1;
}

struct why_follower {
    const struct why_settings *settings;
    struct show_style style;
    struct map told; /* hash of a verdict's id → its until_real_ns when it was told */
};

static void follower_clean(struct why_follower *follower)
{
    map_fini(&follower->told);
}

/* A verdict is told when it is new and when it is over; costs that grow are told at the end. */
static void follow_verdict(void *arg, const struct verdict *verdict)
{
    struct why_follower *follower = arg;
    uint64_t until = (uint64_t)verdict->until_real_ns;
    uint64_t *told =
        map_put(&follower->told, hash64(0, verdict->id, strlen(verdict->id)), UINT64_MAX);
    bool news = !told || *told == UINT64_MAX || (*told == 0) != (until == 0);

    if (told)
        *told = until;
    if (!news && !follower->settings->all)
        return;
    if (follower->settings->json)
        print_json(verdict_json(verdict), JSON_C_TO_STRING_PLAIN);
    else
        verdict_text(verdict, &follower->style, stdout);
    fflush(stdout); /* now, and not when a pipe is full */
}

/* What was not told as it came (the controller died before it could) is told now. */
static int follow_end(const char *directory, struct why_follower *follower, struct err *err)
{
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    int result = run_report_read(directory, false, &summary, err);

    if (result < 0)
        return result;
    for (size_t i = 0; i < summary.verdicts; i++) {
        const struct verdict *verdict = &summary.verdict[i];

        if (!map_get(&follower->told, hash64(0, verdict->id, strlen(verdict->id))))
            follow_verdict(follower, verdict);
    }
    if (!follower->settings->json)
        run_summary_end_text(&summary, &follower->style, stdout);
    return run_summary_exit(&summary);
}

static void follow_clean(struct log_follow **follow)
{
    log_follow_close(*follow);
}

static int why_follow(const char *directory, const struct why_settings *settings, struct err *err)
{
    CLEAN(follower_clean)
    struct why_follower follower = { .settings = settings, .style = show_style_of(stdout) };
    const struct log_follow_calls calls = { .verdict = follow_verdict, .arg = &follower };
    const struct timespec nap = time_spec(FOLLOW_NAP_NS);
    CLEAN(follow_clean) struct log_follow *follow = NULL;
    int result = log_follow_open(directory, &follow, err);

    while (result >= 0 && (result = log_follow_read(follow, &calls, err)) > 0)
        nanosleep(&nap, NULL);
    return result < 0 ? result : follow_end(directory, &follower, err);
}

/* A run by name, or a directory that has what a run leaves, be it without run.json. */
static int why_find(const char *what, struct path *ret, struct err *err)
{
    struct rundir dir;
    int result = paths_find(what, ret, err);

    if (result == 0 || result == -EACCES || !what || rundir_open(&dir, what, NULL) < 0)
        return result;
    if (access(dir.log.text, F_OK) < 0 && access(dir.spool.text, F_OK) < 0)
        return err_set(err, -ENODATA,
                       "%s: not the directory of a run: it has none of run.json, log.lsf and spool",
                       what);
    *ret = dir.path;
    return 0;
}

/* A directory, but not a run: perhaps what some other job left.  Its words come back in `err` if not. */
static int why_foreign(const char *what, const struct why_settings *settings, struct err *err)
{
    struct err ignored = { "" };
    int result;

    if (settings->replay || settings->follow)
        return -ENODATA;
    result = why_artifacts(what, settings->json, &settings->limits, &ignored);
    if (result >= 0 || result == -ENOENT) /* nothing in it: it is still not a run */
        return result < 0 ? -ENODATA : result;
    *err = ignored;
    return result;
}

static int why_answer(const char *what, const struct why_settings *settings)
{
    struct err err = { "" };
    struct path directory;
    struct rundir dir;
    int result = why_find(what, &directory, &err);

    if (result == -ENODATA) {
        result = why_foreign(what, settings, &err);
        if (result >= 0)
            return result;
    } else if (result == 0) {
        result = rundir_open(&dir, directory.text, &err);
    }
    if (result < 0) {
        log_error("%s", err.text);
        return result == -EACCES || result == -ENOMEM ? 3 : 2;
    }
    if (settings->replay)
        result = why_replay(directory.text, settings, &err);
    else if (settings->follow && rundir_is_alive(&dir))
        result = why_follow(directory.text, settings, &err);
    else
        result = why_tell(directory.text, settings, &err);
    if (result >= 0)
        return result;
    log_error("%s", err.text);
    return 3;
}

static int why_run(int argc, char **argv)
{
    struct why_settings settings = { 0 };
    const char *what = NULL;
    struct err err = { "" };
    int first = opt_parse(&command_why, argc, argv, &settings);

    if (first >= 0 && settings_thresholds(&command_why, argc, argv, &settings.limits, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    if (first >= 0 && first < argc) { /* options may follow the run, too */
        what = argv[first];
        argc -= first;
        argv += first;
        first = opt_parse(&command_why, argc, argv, &settings);
    }
    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc) {
        log_error("unexpected operand '%s'; expected one run", argv[first]);
        return 2;
    }
    if (settings.replay && settings.follow) {
        log_error("--replay and --follow exclude each other");
        return 2;
    }
    return why_answer(what, &settings);
}

const struct command command_why = {
    .name = "why",
    .operands = "[RUN|DIR]",
    .summary = "show what is wrong with a run, the evidence, and what to do",
    .details =
        "Without RUN it is the newest.  A run may be running or ended.  DIR is the directory of a\n"
        "run, or one with flight-recorder dumps and logs of a job that lockstep did not observe.\n"
        "Exit status: 0 nothing is wrong, 1 there is a verdict, 2 not a run, 3 cannot tell.",
    .opt = why_opts,
    .run = why_run,
};
