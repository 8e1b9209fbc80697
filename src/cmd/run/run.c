/* run.c - lockstep run: launch a training and watch it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "act/job_rendezvous.h"
#include "act/launch/launch.h"
#include "act/table/policy_file.h"
#include "base/log.h"
#include "base/net/client.h"
#include "base/net/token.h"
#include "base/paths.h"
#include "cmd/lockstep.h"
#include "cmd/run/run_slurm.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/verdict_view.h"

/* Stops of 3 s are survived: a launcher ends its ranks after nine tenths of the lease.  A lost node with a spare costs 5 s. */
#define RUN_LEASE_NS (4200 * NS_PER_MS)
#define RUN_REJOIN_NS (15 * NS_PER_S)
#define RUN_SAVE_NS (20 * NS_PER_S) /* of the 30 s that Slurm gives by default (KillWait) */
#define RUN_UNRANKED UINT64_MAX     /* no -n: one command that is no rank */

struct run_settings {
    uint64_t ranks; /* wide enough for one number that nobody gives */
    uint32_t nodes, max_restarts;
    const char *nnodes, *node, *address, *checkpoints, *endpoint, *job_key;
    char slurm_endpoint[32768], slurm_name[64];
    int64_t lease_ns, join_ns, save_ns;
    const char *directory, *name, *on_hang, *policy, *alert_webhook, *alert_exec;
    int64_t grace_ns, backoff_ns, arena_hold_ns;
    uint64_t steps;
    bool act, trust_ends, warm, drill, quiet, watch, page, dry_run, insecure_http;
    const char *control;
    uint32_t spares, requeues;
    struct launch_missing missing;
    struct run_slurm slurm;
    struct policy_table table; /* that `policy` names */
};

static const struct opt run_opts[] = {
    { "ranks", 'n', OPT_RANKS, offsetof(struct run_settings, ranks), "N",
      "start N ranks; without it the command is started once and no rank is assigned", NULL,
      false },
    { "nproc-per-node", 0, OPT_RANKS, offsetof(struct run_settings, ranks), "N", "the same as -n",
      NULL, false },
    { "nodes", 0, OPT_U32, offsetof(struct run_settings, nodes), "K",
      "simulate K nodes: the ranks are spread over K node names", NULL, false },
    { "nnodes", 0, OPT_TEXT, offsetof(struct run_settings, nnodes), "NODES",
      "this is one of NODES nodes (or MIN:MAX), each with its own lockstep run, -n ranks and the "
      "same --name",
      NULL, false },
    { "spares", 0, OPT_U32, offsetof(struct run_settings, spares), "K",
      "in a Slurm step: K of its nodes wait as spares, and --nnodes is the number of the others",
      NULL, false },
    { "requeues", 0, OPT_U32, offsetof(struct run_settings, requeues), "R",
      "in a Slurm job: when too few nodes are left, requeue the job without the lost ones, up to R "
      "times",
      NULL, false },
    { "node", 0, OPT_TEXT, offsetof(struct run_settings, node), "NAME",
      "name of this node, default the host name", NULL, false },
    { "address", 0, OPT_TEXT, offsetof(struct run_settings, address), "ADDRESS",
      "address of this node for MASTER_ADDR, default the one used to reach the controller", NULL,
      false },
    { "rdzv-endpoint", 0, OPT_TEXT, offsetof(struct run_settings, endpoint), "HOST:PORT[,...]",
      "with --nnodes and without --control: addresses of nodes; the launcher on the first starts a "
      "controller there, the next if it is lost; found in a job of Slurm",
      NULL, false },
    { "job-key", 0, OPT_TEXT, offsetof(struct run_settings, job_key), "FILE",
      "with --rdzv-endpoint: file with a token that the launchers of all nodes have; default "
      "LOCKSTEP_JOB_KEY, or a file in the state directory, if the nodes share it",
      "LOCKSTEP_JOB_KEY_FILE", false },
    { "lease", 0, OPT_DURATION, offsetof(struct run_settings, lease_ns), "TIME",
      "with --nnodes: a node that is silent for TIME is lost, default 4200ms", NULL, false },
    { "trust-ends", 0, OPT_FLAG, offsetof(struct run_settings, trust_ends), NULL,
      "with --rdzv-endpoint: a node whose processes have ended is lost at once; only if no process "
      "of the ranks closes descriptors that it inherits",
      NULL, false },
    { "join-wait", 0, OPT_DURATION, offsetof(struct run_settings, join_ns), "TIME",
      "with --nnodes: how long to wait for missing nodes, default 10m", NULL, false },
    { "checkpoint-wait", 0, OPT_DURATION, offsetof(struct run_settings, save_ns), "TIME",
      "when a signal other than SIGINT ends the run, ask the ranks for a checkpoint first and wait "
      "for TIME at most; default 20s in a Slurm job with --checkpoints, else 0s",
      NULL, false },
    { "max-restarts", 0, OPT_U32, offsetof(struct run_settings, max_restarts), "R",
      "start all ranks again up to R times when one fails", NULL, false },
    { "on-hang", 0, OPT_TEXT, offsetof(struct run_settings, on_hang), "WHAT",
      "when ranks hang: alert (default), or restart while restarts are left", NULL, false },
    { "grace", 0, OPT_DURATION, offsetof(struct run_settings, grace_ns), "TIME",
      "time between SIGTERM and SIGKILL, default 10s", NULL, false },
    { "backoff", 0, OPT_DURATION, offsetof(struct run_settings, backoff_ns), "TIME",
      "wait before the second restart, doubled each time, default 1s", NULL, false },
    { "arena-hold", 0, OPT_DURATION, offsetof(struct run_settings, arena_hold_ns), "TIME",
      "keep the last checkpoint of a rank in memory so long between two attempts, default 10m",
      NULL, false },
    { "checkpoints", 0, OPT_TEXT, offsetof(struct run_settings, checkpoints), "DIR",
      "directory of lockstep's checkpoints: ranks get the newest verified one in LOCKSTEP_RESUME",
      NULL, false },
    { "act", 0, OPT_FLAG, offsetof(struct run_settings, act), NULL,
      "do what the policy decides; without it decisions are only written down", NULL, false },
    { "warm", 0, OPT_FLAG, offsetof(struct run_settings, warm), NULL,
      "keep a standby process for each rank of a Python program, which makes restarts faster", NULL,
      false },
    { "drill", 0, OPT_FLAG, offsetof(struct run_settings, drill), NULL,
      "consent that 'lockstep drill' of this user injects faults into the job", NULL, false },
    { "policy", 0, OPT_TEXT, offsetof(struct run_settings, policy), "FILE",
      "table of actions, default the one that comes with lockstep", "LOCKSTEP_POLICY", false },
    { "alert-webhook", 0, OPT_TEXT, offsetof(struct run_settings, alert_webhook), "URL",
      "POST each alert of the policy there, as JSON", "LOCKSTEP_ALERT_WEBHOOK", false },
    { "alert-exec", 0, OPT_TEXT, offsetof(struct run_settings, alert_exec), "PROGRAM",
      "start PROGRAM for each alert of the policy, with JSON on its standard input",
      "LOCKSTEP_ALERT_EXEC", false },
    { "steps", 0, OPT_U64, offsetof(struct run_settings, steps), "N",
      "steps of the whole job, from which the policy knows for how long an action pays", NULL,
      false },
    { "name", 0, OPT_TEXT, offsetof(struct run_settings, name), "RUN",
      "name of the run, default date, time and a number", NULL, false },
    { "dir", 0, OPT_TEXT, offsetof(struct run_settings, directory), "DIR",
      "directory of the run, default below $LOCKSTEP_STATE", NULL, false },
    { "quiet", 'q', OPT_FLAG, offsetof(struct run_settings, quiet), NULL,
      "write the output of ranks only to the files of the run, and print no verdicts", NULL,
      false },
    { "page", 0, OPT_FLAG, offsetof(struct run_settings, page), NULL,
      "print a one-time link to the page of this run; on by default on a terminal", NULL, false },
    { "watch", 0, OPT_FLAG, offsetof(struct run_settings, watch), NULL,
      "start agent and controller beside the ranks; on by default, --no-watch disables it", NULL,
      false },
    { "control", 0, OPT_TEXT, offsetof(struct run_settings, control), "URL",
      "send the facts to the site's controller at URL, and start no controller here",
      "LOCKSTEP_CONTROL", false },
    { "insecure-http", 0, OPT_FLAG, offsetof(struct run_settings, insecure_http), NULL,
      "send tokens without encryption to a controller on another machine", "LOCKSTEP_INSECURE_HTTP",
      false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct run_settings, dry_run), NULL,
      "print what would be started, and start nothing", NULL, false },
    { .name = NULL },
};

static int run_failed(int r, const struct err *err)
{
    log_error("%s", err->text);
    return r == -EINVAL || r == -EBUSY || r == -EEXIST ? 2 : 3;
}

static uint32_t run_ranks(const struct run_settings *settings)
{
    if (settings->ranks == RUN_UNRANKED)
        return 0;
    return (uint32_t)settings->ranks;
}

/* "4", or "2:4". */
static int run_nodes(const char *text, uint32_t ret[static 2])
{
    unsigned long number[2];
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return -EINVAL;
    number[0] = number[1] = strtoul(text, &end, 10);
    if (*end == ':' && isdigit((unsigned char)end[1]))
        number[1] = strtoul(end + 1, &end, 10);
    if (*end || !number[0] || number[0] > number[1] || number[1] > UINT32_MAX)
        return -EINVAL;
    ret[0] = (uint32_t)number[0];
    ret[1] = (uint32_t)number[1];
    return 0;
}

/* What was not given, from Slurm: only where its step has one launcher on each node. */
static int run_plan_slurm(struct run_settings *settings, struct err *err)
{
    struct run_slurm *slurm = &settings->slurm;
    int r = 0;

    run_slurm_init(slurm);
    if (!run_slurm_is_crew(slurm) || settings->ranks == RUN_UNRANKED || settings->nodes != 1)
        return settings->spares
                   ? err_set(err, -EINVAL,
                             "--spares: needs -n and a Slurm step with one task on each of "
                             "several nodes")
                   : 0;
    if (!settings->nnodes)
        r = run_slurm_nodes(slurm, settings->spares, &settings->nnodes, err);
    if (r < 0 || !settings->nnodes)
        return r;
    if (!settings->name)
        settings->name = slurm->name;
    if (!settings->node)
        settings->node = slurm->place.node;
    return 0;
}

/* The other nodes of a Slurm step are lost for good, or come back soon. */
static int64_t run_rejoin_ns(const struct run_settings *settings)
{
    return settings->requeues && run_slurm_is_crew(&settings->slurm) ? RUN_REJOIN_NS : 0;
}

static int64_t run_save_ns(const struct run_settings *settings)
{
    if (settings->save_ns >= 0)
        return settings->save_ns;
    return settings->slurm.here && settings->checkpoints ? RUN_SAVE_NS : 0;
}

/* One of several launchers does nothing without the controller, which does nothing without a token. */
static int run_check_token(const struct run_settings *settings, struct err *err)
{
    const char *file = getenv("LOCKSTEP_TOKEN_FILE");
    struct path path;
    struct token token;
    int r;

    if (!settings->nnodes || !settings->control || settings->dry_run)
        return 0;
    r = file && file[0] ? 0 : paths_launch_token(&path, err);
    if (r == 0)
        r = token_read(file && file[0] ? file : path.text, &token, err);
    explicit_bzero(&token, sizeof(token));
    return r < 0
               ? err_wrap(err, -EINVAL, "the token for %s (LOCKSTEP_TOKEN_FILE)", settings->control)
               : 0;
}

/* What agents and sender would only find out when the ranks run already. */
static int run_plan(struct run_settings *settings, char **command, struct launch_plan *ret,
                    struct err *err)
{
    uint32_t nodes[2] = { 0, 0 };
    struct err why = { "" };

    if (strcmp(settings->on_hang, "alert") != 0 && strcmp(settings->on_hang, "restart") != 0)
        return err_set(err, -EINVAL, "--on-hang %s: expected alert or restart", settings->on_hang);
    if (settings->control && client_check_url(settings->control, settings->insecure_http, err) < 0)
        return err_wrap(err, -EINVAL,
                        getenv("LOCKSTEP_CONTROL") == settings->control ? "LOCKSTEP_CONTROL"
                                                                        : "--control");
    if (policy_file_read(settings->policy, &settings->table, err) < 0)
        return -EINVAL;
    if (settings->alert_exec && launch_check_executable(settings->alert_exec, &why) < 0)
        return err_set(err, -EINVAL, "--alert-exec: %s", why.text);
    if (run_plan_slurm(settings, err) < 0)
        return -EINVAL;
    if (settings->nnodes && run_nodes(settings->nnodes, nodes) < 0)
        return err_set(err, -EINVAL, "--nnodes %s: expected NODES or MIN:MAX", settings->nnodes);
    if (settings->nnodes && !settings->control && !settings->endpoint &&
        job_rendezvous_slurm_endpoint(settings->slurm_endpoint, sizeof(settings->slurm_endpoint)))
        settings->endpoint = settings->slurm_endpoint;
    if (settings->nnodes && !settings->name && job_rendezvous_slurm_name(settings->slurm_name))
        settings->name = settings->slurm_name;
    if (settings->endpoint && settings->control)
        return err_set(err, -EINVAL,
                       "--rdzv-endpoint and --control: the launchers meet at one place");
    if (settings->endpoint && !settings->nnodes)
        return err_set(err, -EINVAL, "--rdzv-endpoint: only with --nnodes");
    *ret = (struct launch_plan){ .name = settings->name,
                                 .rendezvous = settings->endpoint,
                                 .job_key = settings->job_key,
                                 .node = settings->node,
                                 .nodes_min = nodes[0],
                                 .nodes_max = nodes[1],
                                 .address = settings->address,
                                 .checkpoints = settings->checkpoints,
                                 .lease_ns = settings->lease_ns,
                                 .trust_ends = settings->trust_ends,
                                 .join_ns = settings->join_ns,
                                 .rejoin_ns = run_rejoin_ns(settings),
                                 .save_ns = run_save_ns(settings),
                                 .directory = settings->directory,
                                 .ranks = run_ranks(settings),
                                 .nodes = settings->nodes,
                                 .max_restarts = settings->max_restarts,
                                 .restart_hangs = strcmp(settings->on_hang, "restart") == 0,
                                 .grace_ns = settings->grace_ns,
                                 .backoff_ns = settings->backoff_ns,
                                 .arena_hold_ns = settings->arena_hold_ns,
                                 .table = &settings->table,
                                 .alert = (settings->alert_webhook || settings->alert_exec) &&
                                          !settings->control && !settings->endpoint,
                                 .act = settings->act,
                                 .warm = settings->warm,
                                 .drill = settings->drill,
                                 .steps = settings->steps,
                                 .quiet = settings->quiet,
                                 .page = settings->page,
                                 .watch = settings->watch,
                                 .remote = settings->control || settings->endpoint,
                                 .command = command,
                                 .missing = &settings->missing,
                                 .brief = verdict_brief };
    return launch_check(ret, err);
}

/* All that says how to run: files, environment, command line. */
static int run_read(int argc, char **argv, struct run_settings *settings, struct launch_plan *plan,
                    struct err *err)
{
    int r;

    *settings = (struct run_settings){ .ranks = RUN_UNRANKED,
                                       .nodes = 1,
                                       .grace_ns = 10 * NS_PER_S,
                                       .backoff_ns = NS_PER_S,
                                       .arena_hold_ns = 600 * NS_PER_S,
                                       .watch = true,
                                       .lease_ns = RUN_LEASE_NS,
                                       .join_ns = 600 * NS_PER_S,
                                       .save_ns = -1,
                                       .page = isatty(STDERR_FILENO) == 1,
                                       .on_hang = "alert" };
    r = opt_read_files(&command_run, opt_config(&command_run, argc, argv), settings, err);
    if (r == 0)
        r = opt_read(&command_run, argc, argv, settings, err);
    return r < 0 ? r : run_plan(settings, argv + r, plan, err);
}

/* Without this variable of the environment, for us and for all that we start.  0: that is what was wrong. */
static int run_read_without(const char *name, const char *instead, int argc, char **argv,
                            struct run_settings *settings, struct launch_plan *plan)
{
    const char *value = getenv(name);
    CLEAN(free_clean) char *kept = value ? strdup(value) : NULL;
    struct err ignored = { "" };

    if (!value && !instead)
        return -ENOENT;
    if (instead)
        setenv(name, instead, 1);
    else
        unsetenv(name);
    if (run_read(argc, argv, settings, plan, &ignored) == 0)
        return 0;
    if (kept)
        setenv(name, kept, 1);
    else
        unsetenv(name);
    return -EINVAL;
}

/* Only a bad command line stops a job from starting.  What else is at fault is ignored alone, where it is one thing. */
static int run_read_rest(int argc, char **argv, struct run_settings *settings,
                         struct launch_plan *plan, const struct err *why, struct err *err)
{
    for (const struct opt *opt = run_opts; opt->name; opt++) {
        if (opt->env && run_read_without(opt->env, NULL, argc, argv, settings, plan) == 0) {
            log_error("%s; %s is ignored", why->text, opt->env);
            return 0;
        }
    }
    if (run_read_without("LOCKSTEP_CONFIG", "/dev/null", argc, argv, settings, plan) == 0) {
        log_error("%s; all settings files are ignored", why->text);
        return 0;
    }
    setenv("LOCKSTEP_CONFIG", "/dev/null", 1);
    for (const struct opt *opt = run_opts; opt->name; opt++)
        if (opt->env)
            unsetenv(opt->env);
    if (run_read(argc, argv, settings, plan, err) < 0)
        return -EINVAL;
    log_error("%s; the environment and settings files are ignored", why->text);
    return 0;
}

static int run_run(int argc, char **argv)
{
    struct run_settings settings;
    struct launch_plan plan;
    struct err err = { "" }, again = { "" };
    int status = 0, r = run_read(argc, argv, &settings, &plan, &err);

    if (r == -ECANCELED) {
        opt_help(&command_run, stdout);
        return 0;
    }
    if (r < 0 && run_read_rest(argc, argv, &settings, &plan, &err, &again) < 0)
        return run_failed(-EINVAL, &again);
    r = settings.dry_run ? 0 : launch_check_program(&plan, &err);
    if (r < 0) { /* as a shell does; nothing was started, so there is no run */
        log_error("%s", err.text);
        return r == -ENOENT ? 127 : 126;
    }
    if (run_check_token(&settings, &err) < 0)
        return run_failed(-EINVAL, &err);
    if (settings.control)
        setenv("LOCKSTEP_CONTROL", settings.control, 1); /* agents and sender read it there */
    if (settings.insecure_http)
        setenv("LOCKSTEP_INSECURE_HTTP", "1", 1);
    if (settings.alert_webhook) /* not on a command line, where others read it */
        setenv("LOCKSTEP_ALERT_WEBHOOK", settings.alert_webhook, 1);
    if (settings.alert_exec)
        setenv("LOCKSTEP_ALERT_EXEC", settings.alert_exec, 1);
    if (settings.dry_run) {
        r = launch_show(&plan, stdout, &err);
    } else {
        run_slurm_times(&settings.slurm);
        r = launch_run(&plan, &status, &err);
        run_slurm_end(&settings.slurm, &settings.missing, status, settings.requeues);
    }
    return r < 0 ? run_failed(r, &err) : status;
}

const struct command command_run = {
    .name = "run",
    .operands = "-- COMMAND [ARG...]",
    .summary = "launch a training and observe it",
    .details =
        "With -n, COMMAND is started once per rank with RANK, WORLD_SIZE, MASTER_ADDR, "
        "MASTER_PORT\n"
        "and torchrun's other variables.  Without -n it is started once, and what it starts is "
        "observed\n"
        "(lockstep run -- torchrun ...).  Exits with the status of the first rank that failed; "
        "128+n for a signal.",
    .opt = run_opts,
    .run = run_run,
    .starts_job = true,
};
