/* site_act.c - the child in which a site's controller changes a node for the scheduler.
 *
 * Slurm's programs may hang: the controller goes on meanwhile, and reads one line when the child ends: a result and a sentence.  The
 * kill switch is looked at right before each change.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act/table/kill_switch.h"
#include "base/log.h"
#include "base/paths.h"
#include "cmd/lockstep.h"
#include "core/clean.h"
#include "slurm/slurm_site.h"
#include "wire/decision.h"

struct site_act_options {
    const char *action, *node, *reason, *state;
    uint64_t job;
    uint32_t parent, user;
    bool look;
};

static const struct opt site_act_opts[] = {
    { "action", 0, OPT_TEXT, offsetof(struct site_act_options, action), "ACTION",
      "drain, undrain or down", NULL, false },
    { "node", 0, OPT_TEXT, offsetof(struct site_act_options, node), "NODE", "which node", NULL,
      false },
    { "reason", 0, OPT_TEXT, offsetof(struct site_act_options, reason), "TEXT",
      "what the scheduler shows", NULL, false },
    { "state", 0, OPT_TEXT, offsetof(struct site_act_options, state), "DIR",
      "the controller's state directory, with its kill switch", NULL, false },
    { "job", 0, OPT_U64, offsetof(struct site_act_options, job), "JOB",
      "of down: the job that lost the node", NULL, false },
    { "user", 0, OPT_U32, offsetof(struct site_act_options, user), "UID",
      "of down: whose job that must be", NULL, false },
    { "parent", 0, OPT_U32, offsetof(struct site_act_options, parent), "PID",
      "the controller: without it nothing is done", NULL, false },
    { "look", 0, OPT_FLAG, offsetof(struct site_act_options, look), NULL, "change nothing", NULL,
      false },
    { .name = NULL },
};

static bool site_act_may(void *arg, char *why, size_t room)
{
    const struct site_act_options *options = arg;
    char path[4096];
    struct path own;
    struct stat st;

    if (getppid() != (pid_t)options->parent) {
        snprintf(why, room, "the controller is gone");
        return false;
    }
    if (kill_switch_is_on(path, sizeof(path))) {
        snprintf(why, room, "the kill switch is on: %.80s", path);
        return false;
    }
    if (path_join(&own, options->state, KILL_SWITCH_NAME, NULL) < 0 || lstat(own.text, &st) == 0 ||
        (errno != ENOENT && errno != ENOTDIR)) {
        snprintf(why, room, "the kill switch is on: %.80s", own.text);
        return false;
    }
    return true;
}

static int site_act_run(int argc, char **argv)
{
    static const uint8_t results[] = { [SLURM_DID] = OUTCOME_DONE,
                                       [SLURM_NOT_OURS] = OUTCOME_NOT_EXECUTED,
                                       [SLURM_REFUSED] = OUTCOME_REFUSED,
                                       [SLURM_FAILED] = OUTCOME_FAILED,
                                       [SLURM_NOT_KNOWN] = OUTCOME_UNKNOWN };
    struct site_act_options options = { .action = "" };
    int first = opt_parse(&command_site_act, argc, argv, &options);
    struct slurm_site what = { .may = site_act_may, .arg = &options };
    enum slurm_did did;
    char text[200] = "";

    if (first < 0)
        return OPT_EXIT(first);
    if (first < argc || !options.node || !options.reason || !options.state) {
        log_error("this is started by 'lockstep control' alone");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    what.node = options.node;
    what.reason = options.reason;
    what.job = options.job;
    what.user = options.user;
    what.look = options.look;
    switch (action_of(options.action)) {
    case ACTION_DRAIN:
        did = slurm_site_drain(&what, text, sizeof(text));
        break;
    case ACTION_UNDRAIN:
        did = slurm_site_undrain(&what, text, sizeof(text));
        break;
    case ACTION_DOWN:
        did = slurm_site_down(&what, text, sizeof(text));
        break;
    default:
        log_error("--action %s: expected drain, undrain or down", options.action);
        return 2;
    }
    printf("%s %s\n", outcome_result_name(results[did]), text);
    return 0;
}

const struct command command_site_act = {
    .name = "site-act",
    .operands = "",
    .summary = "changes a node for the scheduler, started by 'lockstep control'",
    .opt = site_act_opts,
    .run = site_act_run,
    .hidden = true,
};
