/* check.c - lockstep check: is this node fit?
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <json-c/json.h>

#include "base/json_member.h"
#include "base/log.h"
#include "cmd/check/check_share.h"
#include "cmd/check/check_table.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"
#include "verify/check_report.h"
#include "verify/inventory.h"
#include "verify/machine_profile.h"
#include "verify/verify.h"

#define PROFILE_PATH "/etc/lockstep/check-profile.json"
#define BAR_CELLS 20
#define SM_NONE UINT32_MAX
#define FLIP_CHECK "gpu-arithmetic"
#define NPD_LINE 80 /* node-problem-detector cuts messages there */

struct check_settings {
    bool json, list, report, background, stop;
    const char *stage, *only, *root, *dir, *profile, *learn, *for_whom, *node, *agent_state;
    int64_t time_ns;
    uint32_t flip_sm; /* SM_NONE: no bit is flipped */
};

static const struct opt check_opts[] = {
    { "stage", 0, OPT_TEXT, offsetof(struct check_settings, stage), "STAGE",
      "quick: only reads, at most 5 s (default); prolog: at most 30 s; deep: at most 5 minutes; "
      "burn: "
      "as long as --time",
      NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct check_settings, json), NULL, "one JSON object", NULL,
      false },
    { "dir", 0, OPT_TEXT, offsetof(struct check_settings, dir), "DIR",
      "test the disk of DIR, where checkpoints are written; from stage prolog on", NULL, false },
    { "profile", 0, OPT_TEXT, offsetof(struct check_settings, profile), "FILE",
      "compare with this profile; default " PROFILE_PATH " where it exists", NULL, false },
    { "learn", 0, OPT_TEXT, offsetof(struct check_settings, learn), "FILE",
      "add the results of this node, known to be good, to the profile FILE", NULL, false },
    { "for", 0, OPT_TEXT, offsetof(struct check_settings, for_whom), "CALLER",
      "prolog, epilog or healthcheck (Slurm), npd (node-problem-detector): only a failed check is "
      "a "
      "failure",
      NULL, false },
    { "only", 0, OPT_TEXT, offsetof(struct check_settings, only), "NAME", "run only this check",
      NULL, false },
    { "time", 0, OPT_DURATION, offsetof(struct check_settings, time_ns), "TIME",
      "how long stage burn loads the machine, default 30m", NULL, false },
    { "flip-bit", 0, OPT_U32, offsetof(struct check_settings, flip_sm), "SM",
      "tests the test: " FLIP_CHECK " alone is run, with one bit flipped on this SM of each GPU, "
      "and must fail",
      NULL, false },
    { "report", 0, OPT_FLAG, offsetof(struct check_settings, report), NULL,
      "leave the results for the daemon of this node, which sends them to the site's controller; "
      "needs its rights",
      NULL, false },
    { "background", 0, OPT_FLAG, offsetof(struct check_settings, background), NULL,
      "run at the lowest priority, with --report, and end as soon as another check or --stop needs "
      "the node",
      NULL, false },
    { "stop", 0, OPT_FLAG, offsetof(struct check_settings, stop), NULL,
      "end a check that runs in the background, and exit when it is gone, after 2 s at most", NULL,
      false },
    { "node", 0, OPT_TEXT, offsetof(struct check_settings, node), "NAME",
      "name of this node in the results, default the host's name", NULL, false },
    { "agent-state", 0, OPT_TEXT, offsetof(struct check_settings, agent_state), "DIR",
      "state directory of the node daemon, default " CHECK_REPORT_STATE, "LOCKSTEP_AGENT_STATE",
      false },
    { "list", 0, OPT_FLAG, offsetof(struct check_settings, list), NULL,
      "list all checks with their limits, and exit", NULL, false },
    { "sysroot", 0, OPT_TEXT, offsetof(struct check_settings, root), "DIR",
      "read DIR/proc and DIR/sys", NULL, false },
    { .name = NULL },
};

struct check_run {
    const struct check_settings *settings;
    struct show_style style;
    struct json_object *checks;
    struct machine_profile *learnt;
    char first[200];                       /* why of the worst one */
    unsigned verdict;                      /* 0: no result yet */
    unsigned count[CHECK_STATE_COUNT + 1]; /* results by state */
    struct check_table table;
    struct check_share share;        /* for the daemon */
    const struct verify_check *last; /* whose result came last */
    size_t due, ended;               /* checks */
    int64_t began_ns;
    bool progress;
};

static void check_profile_clean(struct machine_profile **profile)
{
    machine_profile_destroy(*profile);
}

/* ---- while they run ---- */

/* "[######..............] 3 of 10 checks, 12 s: gpu-memory" */
static void check_progress(const struct check_run *run, const char *name)
{
    char bar[BAR_CELLS + 1];
    size_t full = run->due ? MIN(BAR_CELLS * run->ended / run->due, (size_t)BAR_CELLS) : 0;

    if (!run->progress)
        return;
    memset(bar, '.', BAR_CELLS);
    memset(bar, '#', full);
    bar[BAR_CELLS] = '\0';
    fprintf(stderr, "\r\033[K[%s] %zu of %zu checks, %.0f s: %s", bar, run->ended, run->due,
            (double)(time_mono_ns() - run->began_ns) / 1e9, name);
    fflush(stderr);
}

static void check_on_begin(void *user, const struct verify_check *check)
{
    check_progress(user, check->name);
}

static struct json_object *check_json(const struct check *result)
{
    struct json_object *object = json_object_new_object();

    json_object_object_add(object, "name", show_string(result->name));
    json_object_object_add(object, "device", show_string_or_null(result->device));
    json_object_object_add(object, "state",
                           json_object_new_string(verify_state_name(result->state)));
    json_object_object_add(object, "value", result->has_value ? show_number(result->value) : NULL);
    json_object_object_add(object, "unit", show_string_or_null(result->unit));
    json_object_object_add(object, "expected",
                           result->has_expected ? show_number(result->expected) : NULL);
    json_object_object_add(object, "why", show_string_or_null(result->why));
    json_object_object_add(object, "seconds", show_number(result->seconds));
    return object;
}

static enum show_colour check_colour(unsigned state)
{
    return state == CHECK_OK                ? SHOW_GOOD
           : state == CHECK_FAILED          ? SHOW_BAD
           : state == VERIFY_NOT_APPLICABLE ? SHOW_FAINT
                                            : SHOW_OVER;
}

static void check_print(struct check_run *run, const struct verify_check *check,
                        const struct check *result)
{
    char why[256], name[2 * FACT_NAME];

    if (run->progress)
        fputs("\r\033[K", stderr);
    snprintf(name, sizeof(name), "%s%s%s", result->name, result->device[0] ? " " : "",
             result->device);
    printf("%s%-8s%s %-22s %s\n", show_begin(&run->style, check_colour(result->state)),
           result->state == VERIFY_NOT_APPLICABLE ? "n/a" : check_state_name(result->state),
           show_end(&run->style), name, show_clean(result->why, why, sizeof(why)));
    if (result->state == CHECK_FAILED || result->state == CHECK_LIMITED)
        printf("         to do: %s\n", check->advice);
    fflush(stdout);
}

/* Rates and digests are learnt; what is only counted is in the inventory. */
static void check_learn(struct check_run *run, const struct check *result)
{
    static const char *const units[] = { "GB/s", "1/s", "TFLOP/s", "ms" };
    bool rate = false;

    for (size_t i = 0; i < COUNT(units) && !rate; i++)
        rate = strcmp(result->unit, units[i]) == 0;

    if (run->learnt && strcmp(result->unit, VERIFY_DIGEST_UNIT) == 0) {
        char digest[16];

        snprintf(digest, sizeof(digest), "%08x", (unsigned)result->value);
        machine_profile_learn_fact(run->learnt, result->name, digest);
        return;
    }
    if (run->learnt && rate && result->state == CHECK_OK && result->has_value)
        machine_profile_learn_value(run->learnt, result->name, result->value);
}

static bool check_is_for_npd(const struct check_settings *settings)
{
    return settings->for_whom && strcmp(settings->for_whom, "npd") == 0;
}

/* Good values of GPUs are in the table only. */
static bool check_is_shown(struct check_run *run, const struct check *result)
{
    bool applies = result->state != VERIFY_NOT_APPLICABLE;

    if (check_is_for_npd(run->settings) || (!applies && !run->settings->only))
        return false;
    return !check_table_take(&run->table, result) || result->state != CHECK_OK;
}

/* Whoever takes nodes away for a failed check must not do so for what all nodes share; the report has it as it is. */
static void check_excuse(const struct check_run *run, struct check *result)
{
    size_t size = strlen(result->why);

    if (!run->settings->for_whom || result->state != CHECK_FAILED ||
        !check_is_site_fault(run->settings->agent_state, result->name))
        return;
    result->state = CHECK_LIMITED;
    snprintf(result->why + size, sizeof(result->why) - size,
             "; many nodes fail this check now: a fault of the site");
}

static void check_on_result(void *user, const struct verify_check *check, const struct check *found)
{
    struct check_run *run = user;
    struct check excused = *found, *result = &excused;
    bool applies = result->state != VERIFY_NOT_APPLICABLE;
    unsigned worst;

    if (run->settings->report)
        check_share_take(&run->share, found);
    check_excuse(run, result);
    worst = !applies       ? run->verdict
            : run->verdict ? verify_worst(run->verdict, result->state)
                           : result->state;

    run->count[result->state]++;
    if (worst != run->verdict)
        snprintf(run->first, sizeof(run->first), "%s: %.150s", result->name, result->why);
    run->verdict = worst;
    check_learn(run, result);
    if (run->settings->json)
        json_object_array_add(run->checks, check_json(result));
    else if (check_is_shown(run, result))
        check_print(run, check, result);
    if (check != run->last) { /* results of one check come together */
        run->last = check;
        run->ended++;
    }
    check_progress(run, check->name);
}

/* ---- before and after ---- */

static int check_list(void)
{
    for (size_t i = 0; i < verify_check_count; i++) {
        const struct verify_check *check = verify_checks[i];

        printf("%-12s stage %s, at most %.1f s\n  %s\n  limit: %s\n  to do: %s\n", check->name,
               verify_stage_name(check->stage), (double)check->limit_ns[check->stage] / 1e9,
               check->summary, check->why, check->advice);
    }
    return 0;
}

static int check_settings_check(const struct check_settings *settings)
{
    static const char *const callers[] = { "prolog", "epilog", "healthcheck", "npd" };
    bool known = !settings->for_whom;

    for (size_t i = 0; i < COUNT(callers) && !known; i++)
        known = strcmp(callers[i], settings->for_whom) == 0;
    if (verify_stage_of(settings->stage) < 0) {
        log_error("--stage %s: expected quick, prolog, deep or burn", settings->stage);
        return 2;
    }
    if (!known) {
        log_error("--for %s: expected prolog, epilog, healthcheck or npd", settings->for_whom);
        return 2;
    }
    if (settings->time_ns < NS_PER_S) {
        log_error("--time must be at least 1s");
        return 2;
    }
    if (settings->flip_sm != SM_NONE &&
        (settings->learn || settings->for_whom || settings->report ||
         (settings->only && strcmp(settings->only, FLIP_CHECK) != 0))) {
        log_error("--flip-bit makes " FLIP_CHECK
                  " fail on purpose: it cannot be given with --learn, "
                  "--for, --report or another check");
        return 2;
    }
    if (settings->background && (settings->learn || settings->for_whom)) {
        log_error("--background cannot be given with --learn or --for");
        return 2;
    }
    return 0;
}

/* A profile that is named must be there; the usual one may be absent. */
static int check_profile_open(const struct check_settings *settings, struct machine_profile **ret)
{
    const char *path = settings->profile ? settings->profile : PROFILE_PATH;
    struct err err = { "" };
    int result = machine_profile_read(path, ret, &err);

    if (result == -ENOENT && !settings->profile)
        return 0;
    if (result < 0) {
        log_error("%s", err.text);
        return 2;
    }
    return 0;
}

static int check_learn_begin(const struct check_settings *settings, struct machine_profile **ret)
{
    static struct inventory inventory;
    struct err err = { "" };
    int result;

    if (!settings->learn)
        return 0;
    inventory_read(settings->root, &inventory);
    result = machine_profile_read(settings->learn, ret, &err);
    if (result == -ENOENT && machine_profile_create(inventory.machine, ret) < 0)
        result = err_nomem(&err);
    else if (result == -ENOENT)
        result = 0;
    if (result == 0 && strcmp(machine_profile_machine(*ret), inventory.machine) != 0)
        result =
            err_set(&err, -EINVAL, "%s is the profile of another type of machine: %s; this is %s",
                    settings->learn, machine_profile_machine(*ret), inventory.machine);
    for (size_t i = 0; result == 0 && i < inventory.count; i++)
        machine_profile_learn_fact(*ret, inventory.fact[i].name, inventory.fact[i].value);
    if (result < 0)
        log_error("%s", err.text);
    return result < 0 ? 2 : 0;
}

static int check_learn_end(struct check_run *run)
{
    struct err err = { "" };

    if (run->verdict == CHECK_FAILED) {
        log_error("nothing was learnt: a check failed on this node");
        return 1;
    }
    if (machine_profile_save(run->learnt, run->settings->learn, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    log_info("learnt: %s", run->settings->learn);
    return 0;
}

/* ---- the daemon of this node ---- */

static int check_stop(const struct check_settings *settings)
{
    struct err err = { "" };
    int result = check_background_end(settings->agent_state, &err);

    if (result < 0) {
        log_error("%s", err.text);
        return 3;
    }
    puts(result ? "ended" : "no check is running in the background");
    return 0;
}

/* What loads the machine, or is there because a job begins or ends, comes before a check in the background. */
static int check_place_take(const struct check_settings *settings, int *ret_fd)
{
    struct err err = { "" };
    int result = 0;

    if (settings->background) {
        result = check_background_begin(settings->agent_state, ret_fd, &err);
        if (result == 0 && nice(19) < 0)
            log_error("nice: %s", strerror(errno));
    } else if (settings->for_whom || settings->only ||
               verify_stage_of(settings->stage) >= VERIFY_PROLOG) {
        result = check_background_end(settings->agent_state, &err);
    }
    if (result == 1)
        log_info("ended a check that ran in the background");
    if (result < 0 && result != -EACCES)
        log_error("%s", err.text);
    return settings->background && result < 0 ? 3 : 0;
}

/* Whatever becomes of it, the exit status is that of the checks. */
static void check_report(struct check_run *run, const struct verify_place *place, double seconds)
{
    struct check all = { .mono_ns = time_mono_ns(),
                         .real_ns = time_real_ns(),
                         .state = (uint8_t)run->verdict,
                         .name = CHECK_NAME_ALL,
                         .seconds = seconds };
    bool whole = !run->settings->only && run->count[CHECK_OK];
    struct err err = { "" };

    if (!run->settings->report)
        return;
    snprintf(all.node, sizeof(all.node), "%s", place->node);
    snprintf(all.stage, sizeof(all.stage), "%s", verify_stage_name(place->stage));
    if (run->verdict != CHECK_OK)
        snprintf(all.why, sizeof(all.why), "%s", run->first);
    if (check_share_write(&run->share, run->settings->agent_state, whole ? &all : NULL, &err) < 0)
        log_error("the results are not reported: %s", err.text);
}

static void check_print_json(const struct check_run *run, const struct verify_place *place,
                             double seconds)
{
    CLEAN(json_clean) struct json_object *root = json_object_new_object();

    json_object_object_add(root, "node", show_string(place->node));
    json_object_object_add(root, "stage", json_object_new_string(verify_stage_name(place->stage)));
    json_object_object_add(root, "verdict", json_object_new_string(check_state_name(run->verdict)));
    json_object_object_add(root, "seconds", show_number(seconds));
    json_object_object_add(root, "checks", json_object_get(run->checks));
    show_json(root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* "gpu-01: ok (quick, 2.1 s, without a profile): 5 ok, 3 not applicable" */
static void check_print_summary(const struct check_run *run, const struct verify_place *place,
                                double seconds)
{
    static const struct {
        unsigned state;
        const char *name;
    } order[] = { { CHECK_FAILED, "failed" },
                  { CHECK_UNKNOWN, "unknown" },
                  { CHECK_LIMITED, "limited" },
                  { CHECK_OK, "ok" },
                  { VERIFY_NOT_APPLICABLE, "not applicable" } };
    const char *between = ":";

    printf("%s: %s (%s, %.1f s%s)", place->node, check_state_name(run->verdict),
           verify_stage_name(place->stage), seconds, place->profile ? "" : ", without a profile");
    for (size_t i = 0; i < COUNT(order); i++) {
        if (!run->count[order[i].state])
            continue;
        printf("%s %u %s", between, run->count[order[i].state], order[i].name);
        between = ",";
    }
    putchar('\n');
}

static void check_print_end(const struct check_run *run, const struct verify_place *place,
                            double seconds)
{
    if (run->settings->json)
        check_print_json(run, place, seconds);
    else if (check_is_for_npd(run->settings))
        printf("%.*s\n", NPD_LINE, run->verdict == CHECK_OK ? "node is fit" : run->first);
    else {
        check_table_print(&run->table, &run->style);
        check_print_summary(run, place, seconds);
    }
}

/* Whoever acts on the exit status takes nodes away: only a failed check is reason enough. */
static int check_exit(const struct check_run *run)
{
    if (run->verdict == CHECK_FAILED)
        return 1;
    if (run->settings->for_whom)
        return check_is_for_npd(run->settings) && run->verdict == CHECK_UNKNOWN ? 2 : 0;
    return run->verdict == CHECK_UNKNOWN ? 3 : 0;
}

static int check_command_run(int argc, char **argv)
{
    struct check_settings settings = { .stage = "quick",
                                       .root = "",
                                       .time_ns = 1800 * NS_PER_S,
                                       .flip_sm = SM_NONE,
                                       .agent_state = CHECK_REPORT_STATE };
    CLEAN(fd_clean) int background = -1;
    CLEAN(check_profile_clean) struct machine_profile *profile = NULL;
    CLEAN(check_profile_clean) struct machine_profile *learnt = NULL;
    CLEAN(json_clean) struct json_object *checks = json_object_new_array();
    struct check_run run = { .settings = &settings, .checks = checks };
    const struct verify_sink sink = { check_on_begin, check_on_result, &run };
    struct verify_place place = { 0 };
    struct err err = { "" };
    char node[FACT_NAME] = "";
    int64_t began_ns = time_mono_ns();
    int parsed = opt_parse_all(&command_check, argc, argv, &settings);

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (settings.list)
        return check_list();
    if (settings.stop)
        return check_stop(&settings);
    settings.report |= settings.background;
    if (check_settings_check(&settings) || check_profile_open(&settings, &profile) ||
        check_learn_begin(&settings, &learnt))
        return 2;
    if (settings.flip_sm != SM_NONE) {
        settings.only = FLIP_CHECK;
        log_info("one bit is flipped on SM %" PRIu32 " of each GPU on purpose: " FLIP_CHECK
                 " must fail",
                 settings.flip_sm);
    }
    if (settings.node)
        snprintf(node, sizeof(node), "%s", settings.node);
    else
        gethostname(node, sizeof(node) - 1);
    if (check_place_take(&settings, &background))
        return 3;
    place = (struct verify_place){ .root = settings.root,
                                   .node = node,
                                   .dir = settings.dir,
                                   .stage = (unsigned)verify_stage_of(settings.stage),
                                   .burn_ns = settings.time_ns,
                                   .flip_sm = settings.flip_sm + 1, /* of SM_NONE: 0 */
                                   .profile = profile };
    run.style = show_style_of(stdout);
    run.learnt = learnt;
    run.progress = !settings.json && isatty(STDERR_FILENO);
    run.due = verify_count(place.stage, settings.only);
    run.began_ns = began_ns;
    if (verify_run(&place, settings.only, &sink, &err) < 0) {
        log_error("%s", err.text);
        return 2;
    }
    if (run.progress)
        fputs("\r\033[K", stderr);
    if (!run.verdict) {
        run.verdict = CHECK_UNKNOWN;
        snprintf(run.first, sizeof(run.first), "no check applies to this node");
    }
    check_print_end(&run, &place, (double)(time_mono_ns() - began_ns) / 1e9);
    check_report(&run, &place, (double)(time_mono_ns() - began_ns) / 1e9);
    check_share_fini(&run.share);
    if (learnt) {
        int result = check_learn_end(&run);

        if (result)
            return result;
    }
    return check_exit(&run);
}

const struct command command_check = {
    .name = "check",
    .operands = "",
    .summary = "is this node fit for a job: sensors, parts, GPUs, arithmetic, memory, disk",
    .details = "Exit status: 0 ok or limited, 1 failed, 2 bad usage, 3 unknown.  With --for: 1 "
               "failed, else 0; "
               "npd also 2 unknown.",
    .opt = check_opts,
    .run = check_command_run,
};
