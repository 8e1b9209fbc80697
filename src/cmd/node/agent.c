/* agent.c - `lockstep agent`: watches the ranks of one node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/node/node.h"
#include "base/log.h"
#include "base/net/client.h"
#include "base/paths.h"
#include "cmd/lockstep.h"
#include "cmd/node/node_repair.h"
#include "core/time.h"

/* Errors of GPUs say why a job failed, and nobody else may record them for it: the findings of a node daemon reach the runs
 * of a site only.
 */
#define GPU_DRIVER "/dev/nvidiactl"

struct agent_options {
    struct agent_settings agent;
    struct node_settings every;
    struct opt_list repair;
    bool every_run;
};

static const struct opt agent_opts[] = {
    { "run-dir", 0, OPT_TEXT, offsetof(struct agent_options, agent.run_dir), "DIR",
      "directory of the run, which has run.json; the spool is written there", NULL, false },
    { "node", 0, OPT_TEXT, offsetof(struct agent_options, agent.node), "NAME", "name of this node",
      "LOCKSTEP_NODE", false },
    { "rings", 0, OPT_TEXT, offsetof(struct agent_options, agent.rings), "DIR",
      "directory of the rings, default as run.json says", NULL, false },
    { "tick", 0, OPT_DURATION, offsetof(struct agent_options, agent.tick_ns), "TIME",
      "how often rings are read, default 50ms", NULL, false },
    { "control", 0, OPT_TEXT, offsetof(struct agent_options, agent.control.url), "URL",
      "the site's controller, to which the spool is sent", "LOCKSTEP_CONTROL", false },
    CLIENT_TRUST_OPTS(offsetof(struct agent_options, agent.control.ca_file),
                      offsetof(struct agent_options, agent.control.pin),
                      offsetof(struct agent_options, agent.control.insecure_http)),
    { "spool-max", 0, OPT_U64, offsetof(struct agent_options, agent.spool_max), "BYTES",
      "size limit of a spool that is sent; the oldest steps are shortened first, default 268435456",
      "LOCKSTEP_SPOOL_MAX", false },
    { "sense", 0, OPT_FLAG, offsetof(struct agent_options, agent.sense), NULL,
      "run the sensors of this node and record what they find; on by default where the driver of "
      "NVIDIA GPUs is loaded, --no-sense disables it",
      "LOCKSTEP_SENSE", false },
    { "kmsg", 0, OPT_TEXT, offsetof(struct agent_options, agent.kmsg), "FILE",
      "kernel records from this file or FIFO, or the one in this directory with the node's name, "
      "instead of /dev/kmsg; no other sensor runs then",
      "LOCKSTEP_KMSG", false },
    { "sysroot", 0, OPT_TEXT, offsetof(struct agent_options, agent.sysroot), "DIR",
      "sensors read /proc, /sys and /dev below this directory, such as the host's in a container",
      "LOCKSTEP_SYSROOT", false },
    { "every-run", 0, OPT_FLAG, offsetof(struct agent_options, every_run), NULL,
      "run as the node daemon: observe all users' runs that have no agent of their own", NULL,
      false },
    { "every-root", 0, OPT_TEXT, offsetof(struct agent_options, every.root), "DIR",
      "with --every-run: directory of all rings, DIR/lockstep-UID/RUN, default /dev/shm", NULL,
      false },
    { "state", 0, OPT_TEXT, offsetof(struct agent_options, every.state), "DIR",
      "with --every-run: directory of the spools, default /var/lib/lockstep-agent", NULL, false },
    { "token-file", 0, OPT_TEXT, offsetof(struct agent_options, every.launch_file), "FILE",
      "with --every-run: token that may register runs, default tokens/launch.token in the user's "
      "state "
      "directory",
      "LOCKSTEP_TOKEN_FILE", false },
    { "runs-per-user", 0, OPT_U32, offsetof(struct agent_options, every.runs_per_user), "N",
      "with --every-run: most runs of one user at a time, default 32", NULL, false },
    { "runs-max", 0, OPT_U32, offsetof(struct agent_options, every.runs_max), "N",
      "with --every-run: most runs of all users at a time, default 512", NULL, false },
    { "idle", 0, OPT_DURATION, offsetof(struct agent_options, every.idle_ns), "TIME",
      "with --every-run: an agent ends when its run had no process for this long, default 60s",
      NULL, false },
    { "node-sensors", 0, OPT_FLAG, offsetof(struct agent_options, every.sense), NULL,
      "with --every-run: run the sensors of this node; on by default, --no-node-sensors disables "
      "it",
      NULL, false },
    { "verify", 0, OPT_FLAG, offsetof(struct agent_options, every.verify), NULL,
      "with --every-run: run health checks that the controller orders while nobody uses the node; "
      "on "
      "by default, --no-verify disables it",
      NULL, false },
    { "verify-partition", 0, OPT_TEXT, offsetof(struct agent_options, every.verify_partition),
      "PARTITION",
      "with --every-run: run these checks as jobs in this partition of Slurm, whose jobs give way "
      "to "
      "all others",
      NULL, false },
    { "repair", 0, OPT_LIST, offsetof(struct agent_options, repair), "ACTION",
      "with --every-run: reset-gpu or reboot may be done on this node when the site's controller "
      "orders it and the node is drained; may be given twice, default neither",
      NULL, false },
    { .name = NULL },
};

/* Its children have another working directory. */
static int agent_path_absolute(const char **file, struct path *ret, struct err *err)
{
    if (!*file)
        return 0;
    if (!realpath(*file, ret->text))
        return err_set(err, -errno, "%s: %m", *file);
    *file = ret->text;
    return 0;
}

static int agent_every_run(struct agent_options *options)
{
    struct path token, ca;
    struct err err = { "" };
    int result = 0;

    if (!options->agent.control.url || options->agent.run_dir || options->agent.rings) {
        log_error(options->agent.control.url
                      ? "--every-run goes with neither --run-dir nor --rings"
                      : "--every-run needs a controller: set LOCKSTEP_CONTROL");
        return 2;
    }
    if (client_check_url(options->agent.control.url, options->agent.control.insecure_http, &err) <
        0) {
        log_error("--control: %s", err.text);
        return 2;
    }
    if (!options->every.runs_per_user || !options->every.runs_max || options->every.idle_ns <= 0) {
        log_error("--runs-per-user, --runs-max and --idle must not be 0");
        return 2;
    }
    if (!options->every.launch_file) {
        result = paths_launch_token(&token, &err);
        options->every.launch_file = token.text;
    }
    if (result == 0)
        result = agent_path_absolute(&options->agent.control.ca_file, &ca, &err);
    if (result == 0)
        result = repair_bits(&options->repair, &options->every.repair, &err);
    options->every.node = options->agent.node;
    options->every.control = options->agent.control;
    options->every.spool_max = options->agent.spool_max;
    options->every.kmsg = options->agent.kmsg;
    options->every.sysroot = options->agent.sysroot;
    if (result == 0)
        result = node_run(&options->every, &err);
    if (result == 0)
        return 0;
    log_error("%s", err.text);
    return result == -EINVAL ? 2 : 3;
}

static int agent_main(int argc, char **argv)
{
    struct agent_options options = { .agent.tick_ns = 50 * NS_PER_MS,
                                     .agent.control.timeout_ns = 30 * NS_PER_S,
                                     .agent.spool_max = 256u << 20,
                                     .agent.sense = access(GPU_DRIVER, F_OK) == 0,
                                     .every.state = "/var/lib/lockstep-agent",
                                     .every.runs_per_user = 32,
                                     .every.runs_max = 512,
                                     .every.idle_ns = 60 * NS_PER_S,
                                     .every.sense = true,
                                     .every.verify = true };
    int parsed = opt_parse_all(&command_agent, argc, argv, &options);
    char host[64] = "";
    struct agent *agent;
    struct err err = { 0 };
    int result;

    if (parsed < 0)
        return OPT_EXIT(parsed);
    if (options.every_run) {
        if (!options.agent.node && gethostname(host, sizeof(host) - 1) == 0)
            options.agent.node = host;
        return agent_every_run(&options);
    }
    if (!options.agent.run_dir || !options.agent.node) {
        log_error("%s is needed", options.agent.run_dir ? "--node NAME" : "--run-dir DIR");
        return 2;
    }
    result = agent_open(&options.agent, &agent, &err);
    if (result < 0) {
        log_error("%s", err.text);
        return result == -EINVAL || result == -ENOENT ? 2 : 3;
    }
    result = agent_run(agent, &err);
    if (result < 0)
        log_error("%s", err.text);
    agent_close(agent);
    return result < 0 ? 3 : 0;
}

const struct command command_agent = {
    .name = "agent",
    .operands = "",
    .summary = "observe the ranks of one node, and record what they do",
    .details = "Runs until SIGTERM, or until the launcher that started it is gone.  One a node; "
               "'lockstep run' starts\nand restarts it.  It may be killed at any moment: the next "
               "one continues where the spool ends.",
    .opt = agent_opts,
    .run = agent_main,
};
