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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/paths.h"
#include "cmd/lockstep.h"
#include "cmd/settings.h"
#include "cmd/why/why_artifacts.h"
#include "cmd/why/why_site.h"
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
    bool json, replay, again, all, follow;
    struct site_options site;
    struct thresholds limits; /* for what others left; a run's own log has those it was judged by */
};

static const struct opt why_opts[] = {
    { "json", 0, OPT_FLAG, offsetof(struct why_settings, json), NULL,
      "one JSON object; with --follow one a line for each verdict", NULL, false },
    { "replay", 0, OPT_FLAG, offsetof(struct why_settings, replay), NULL,
      "judge the log again and print whether the verdicts are byte-equal", NULL, false },
    { "again", 0, OPT_FLAG, offsetof(struct why_settings, again), NULL,
      "show what the judges of this version say about the facts in the log, not what the log says",
      NULL, false },
    { "all", 0, OPT_FLAG, offsetof(struct why_settings, all), NULL,
      "every state of each verdict, not only its last", NULL, false },
    { "follow", 'f', OPT_FLAG, offsetof(struct why_settings, follow), NULL,
      "print verdicts as they come, until the run ends", NULL, false },
    SITE_ASK_OPTS(offsetof(struct why_settings, site)),
    { .name = NULL },
};

static void why_print_json(struct json_object *root, int flags)
{
    puts(json_object_to_json_string_ext(root, flags));
    json_object_put(root);
}

static int why_print(const char *directory, const struct why_settings *settings, struct err *err)
{
    struct show_style style = show_style_of(stdout);
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    int result = settings->again ? run_report_judge_again(directory, settings->all, &summary, err)
                                 : run_report_read(directory, settings->all, &summary, err);

    if (result == 0 && why_is_part(directory, &summary, settings->json))
        return 3;
    if (result == 0)
        result = why_add_artifacts(directory, &settings->limits, &summary, err);
    if (result < 0)
        return result;
    if (summary.verdicts && !settings->all) /* those that were just added are behind the others */
        qsort(summary.verdict, summary.verdicts, sizeof(summary.verdict[0]), verdict_by_importance);
    if (settings->json)
        why_print_json(run_summary_json(&summary),
                       JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
    else
        run_summary_text(&summary, &style, stdout);
    return run_summary_exit(&summary);
}

static void why_print_replay(const struct run_report_replay *replay, bool equal)
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
        why_print_json(root, JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_PRETTY);
    } else {
        why_print_replay(&replay, equal);
    }
    return equal ? 0 : 1;
}

struct why_follower {
    const struct why_settings *settings;
    struct show_style style;
    struct map shown; /* hash of a verdict's id → its until_real_ns when it was told */
};

static void follower_clean(struct why_follower *follower)
{
    map_fini(&follower->shown);
}

/* A verdict is told when it is new and when it is over; costs that grow are told at the end. */
static void why_follow_verdict(void *arg, const struct verdict *verdict)
{
    struct why_follower *follower = arg;
    uint64_t until = (uint64_t)verdict->until_real_ns;
    uint64_t *shown =
        map_put(&follower->shown, hash64(0, verdict->id, strlen(verdict->id)), UINT64_MAX);
    bool news = !shown || *shown == UINT64_MAX || (*shown == 0) != (until == 0);

    if (shown)
        *shown = until;
    if (!news && !follower->settings->all)
        return;
    if (follower->settings->json)
        why_print_json(verdict_json(verdict), JSON_C_TO_STRING_PLAIN);
    else
        verdict_text(verdict, &follower->style, stdout);
    fflush(stdout); /* now, and not when a pipe is full */
}

/* What was not told as it came (the controller died before it could) is told now. */
static int why_follow_end(const char *directory, struct why_follower *follower, struct err *err)
{
    CLEAN(run_report_fini) struct run_summary summary = { 0 };
    int result = run_report_read(directory, false, &summary, err);

    if (result < 0)
        return result;
    for (size_t i = 0; i < summary.verdicts; i++) {
        const struct verdict *verdict = &summary.verdict[i];

        if (!map_get(&follower->shown, hash64(0, verdict->id, strlen(verdict->id))))
            why_follow_verdict(follower, verdict);
    }
    if (!follower->settings->json)
        run_summary_end_text(&summary, &follower->style, stdout);
    return run_summary_exit(&summary);
}

static void why_follow_clean(struct log_follow **follow)
{
    log_follow_close(*follow);
}

/* Of a run that has ended nothing more comes: what a follower would have been told is told at once, in the same form. */
static int why_follow(const struct rundir *dir, const struct why_settings *settings,
                      struct err *err)
{
    CLEAN(follower_clean)
    struct why_follower follower = { .settings = settings, .style = show_style_of(stdout) };
    const struct log_follow_calls calls = { .verdict = why_follow_verdict, .arg = &follower };
    const struct timespec nap = time_spec(FOLLOW_NAP_NS);
    CLEAN(why_follow_clean) struct log_follow *follow = NULL;
    const char *directory = dir->path.text;
    int result;

    if (!rundir_is_alive(dir))
        return why_follow_end(directory, &follower, err);
    result = log_follow_open(directory, &follow, err);
    while (result >= 0 && (result = log_follow_read(follow, &calls, err)) > 0)
        nanosleep(&nap, NULL);
    return result < 0 ? result : why_follow_end(directory, &follower, err);
}

/* A run by name, or a directory that has what a run leaves, be it without run.json. */
static int why_find(const char *what, struct path *ret, struct err *err)
{
    struct rundir dir;
    int result = paths_find(what, ret, err);

    if (result == -ENOENT && what && !strchr(what, '/') && access(what, F_OK) < 0)
        err_wrap(err, result, "%s: no such file, and no such run", what);
    if (result == 0 || result == -EACCES || !what || rundir_open(&dir, what, NULL) < 0)
        return result;
    if (access(dir.log.text, F_OK) < 0 && access(dir.spool.text, F_OK) < 0)
        return err_set(err, -ENODATA,
                       "%s: not the directory of a run: it has none of run.json, log.lsf and spool",
                       what);
    *ret = dir.path;
    return 0;
}

/* Files, or directories that are not runs: perhaps what some other job left.  Its words come back in `err` if not. */
static int why_foreign(const char *const *what, size_t count, const struct why_settings *settings,
                       struct err *err)
{
    struct err ignored = { "" };
    int result;

    if (settings->replay || settings->follow)
        return -ENODATA;
    result = why_artifacts(what, count, settings->json, &settings->limits, &ignored);
    if (result >= 0 || (result == -ENOENT && count == 1)) /* nothing in it: it is still not a run */
        return result < 0 ? -ENODATA : result;
    *err = ignored;
    return result;
}

/* A program and the run of it often have one name. */
static bool why_names_run(const char *what)
{
    struct path run;
    const char *slash;

    return !strchr(what, '/') && paths_find(what, &run, NULL) == 0 &&
           (slash = strrchr(run.text, '/')) && strcmp(slash + 1, what) == 0;
}

/* Not a directory, so not a run, and not the whole name of one. */
static bool why_is_file(const char *what)
{
    struct stat found;

    if (!what || strcmp(what, "-") == 0)
        return what;
    return stat(what, &found) == 0 && !S_ISDIR(found.st_mode) && !why_names_run(what);
}

static int why_several(const char *const *what, size_t count, const struct why_settings *settings)
{
    struct err err = { "" };
    int result;

    if (settings->replay || settings->follow) {
        log_error("--replay and --follow take one run");
        return 2;
    }
    result = why_foreign(what, count, settings, &err);
    if (result >= 0)
        return result;
    for (size_t i = 0; result == -ENOENT && i < count; i++) {
        struct path run;

        if (access(what[i], F_OK) < 0 && paths_find(what[i], &run, NULL) == 0)
            result = err_set(&err, -EINVAL,
                             "%s is a run: give one run, or only files and directories", what[i]);
    }
    log_error("%s", err.text);
    return result == -EACCES || result == -ENOMEM ? 3 : 2;
}

static int why_answer(const char *what, const struct why_settings *settings)
{
    struct err err = { "" };
    struct path directory;
    struct rundir dir;
    int result = why_find(what, &directory, &err);

    if (result == -ENODATA) {
        result = why_foreign(&what, 1, settings, &err);
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
    else if (settings->follow && (settings->json || rundir_is_alive(&dir)))
        result = why_follow(&dir, settings, &err);
    else
        result = why_print(directory.text, settings, &err);
    if (result >= 0)
        return result;
    log_error("%s", err.text);
    return 3;
}

static void why_ask_clean(struct site_ask **ask)
{
    site_ask_close(*ask);
}

/* To replay it, the log is fetched; all else the controller knows. */
static int why_ask(const char *what, const struct why_settings *settings)
{
    CLEAN(why_ask_clean) struct site_ask *ask = NULL;
    struct path directory = { "" };
    struct err err = { "" };
    char run[64];
    int result = site_ask_open(&settings->site, &ask, &err);

    if (result == 0)
        result = site_ask_run(ask, what, run, &err);
    if (result == 0 && settings->replay)
        result = site_ask_fetch(ask, run, &directory, &err);
    if (result == 0)
        result = settings->replay ? why_replay(directory.text, settings, &err)
                                  : why_site(ask, run, settings->json, &err);
    site_ask_drop(&directory);
    if (result >= 0)
        return result;
    log_error("%s", err.text);
    return site_ask_exit(result);
}

/* Options may stand before, between and behind operands.  Operands are moved to the front of `argv`. */
static int why_operands(int argc, char **argv, struct why_settings *settings)
{
    char **into = argv;
    int first = opt_parse(&command_why, argc, argv, settings), count = 0;
    struct err err = { "" };

    if (first >= 0 && settings_thresholds(&command_why, argc, argv, &settings->limits, &err) < 0) {
        log_error("%s", err.text);
        return -EINVAL;
    }
    while (first >= 0 && first < argc) {
        char *operand = argv[first];

        argc -= first;
        argv += first;
        first = opt_parse_more(&command_why, argc, argv, settings);
        into[1 + count++] = operand;
    }
    return first < 0 ? first : count;
}

static int why_run(int argc, char **argv)
{
    struct why_settings settings = { 0 };
    const char *const *what = (const char *const *)argv + 1;
    int count = why_operands(argc, argv, &settings);

    if (count == -EINVAL)
        return 2;
    if (count < 0)
        return OPT_EXIT(count);
    if (settings.replay + settings.again + settings.follow > 1) {
        log_error("--replay, --again and --follow exclude each other");
        return 2;
    }
    if (count > 1 || (count == 1 && why_is_file(what[0])))
        return why_several(what, (size_t)count, &settings);
    if (!site_ask_is_run(&settings.site, count ? what[0] : NULL))
        return why_answer(count ? what[0] : NULL, &settings);
    if (settings.all || settings.follow) {
        log_error("--all and --follow read a log on this machine and cannot be combined with "
                  "--control (LOCKSTEP_CONTROL)");
        return 2;
    }
    return why_ask(count ? what[0] : NULL, &settings);
}

const struct command command_why = {
    .name = "why",
    .operands = "[RUN|FILE|DIR|-]...",
    .summary = "show what is wrong with a run, the evidence, and what to do",
    .details =
        "Without RUN it is the newest.  A run may be running or ended.  DIR is the directory of a\n"
        "run.  FILE and DIR are also what a job left that lockstep did not observe: logs, kernel\n"
        "logs, flight-recorder dumps, plain, gzip, zstd or in a tar archive; - is standard input.\n"
        "Exit status: 0 nothing is wrong, 1 there is a verdict, 2 not a run, 3 cannot tell.",
    .opt = why_opts,
    .run = why_run,
};
