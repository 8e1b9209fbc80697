/* fabric_test.c - lockstep fabric test: are the links between these nodes fit?
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/fabric/fabric_private.h"
#include "cmd/serve.h"
#include "core/clean.h"
#include "core/time.h"
#include "verify/fabric/host_list.h"

#define PINGS 32
#define NOT_FOUND 127 /* as shells exit where there is no such program */
#define SLURM_TEXT 65536

static const struct opt fabric_test_opts[] = {
    { "nodes", 0, OPT_TEXT, offsetof(struct fabric_test_options, nodes), "HOST[:PORT],...",
      "nodes that run 'lockstep fabric serve'; gpu[01-32] is a list", NULL, false },
    { "slurm", 0, OPT_TEXT, offsetof(struct fabric_test_options, slurm), "JOB",
      "the nodes of this job of Slurm", NULL, false },
    { "topology", 0, OPT_TEXT, offsetof(struct fabric_test_options, topology), "FILE",
      "which node is connected to which switch, as in Slurm's topology.conf", NULL, false },
    { "port", 0, OPT_U32, offsetof(struct fabric_test_options, port), "PORT",
      "of the workers, where none is given with the node; default 8791", NULL, false },
    { "token-file", 0, OPT_TEXT, offsetof(struct fabric_test_options, token_file), "FILE",
      "the secret that all workers share, default tokens/fabric.token of the state directory", NULL,
      false },
    { "rate", 0, OPT_F64, offsetof(struct fabric_test_options, rate), "GBPS",
      "load each adapter with at most so many Gbit/s, default 10; 0: as the workers allow", NULL,
      false },
    { "expect", 0, OPT_F64, offsetof(struct fabric_test_options, expect), "GBPS",
      "what each link should reach; default: nodes are compared with each other", NULL, false },
    { "time", 0, OPT_DURATION, offsetof(struct fabric_test_options, time_ns), "TIME",
      "of each transfer, default 1s", NULL, false },
    { "timeout", 0, OPT_DURATION, offsetof(struct fabric_test_options, wait_ns), "TIME",
      "how long to wait for a connection between two nodes, default 2s", NULL, false },
    { "streams", 0, OPT_U32, offsetof(struct fabric_test_options, streams), "N",
      "TCP connections of each transfer, default 1", NULL, false },
    { "with", 0, OPT_TEXT, offsetof(struct fabric_test_options, with), "TOOL",
      "tcp (default); nccl: between GPUs, as training sends; perftest: ib_write_bw and "
      "ib_write_lat; the latter two where the workers allow it",
      NULL, false },
    { "full", 0, OPT_FLAG, offsetof(struct fabric_test_options, full), NULL,
      "every node with every other one, in as many rounds as that takes", NULL, false },
    { "dry-run", 0, OPT_FLAG, offsetof(struct fabric_test_options, dry_run), NULL,
      "print the plan: rounds, time and volume; connect to no node", NULL, false },
    { "json", 0, OPT_FLAG, offsetof(struct fabric_test_options, json), NULL,
      "print one JSON object", NULL, false },
    { .name = NULL },
};

/* ---- which nodes ---- */

static void fabric_squeue_exec(const char *job, int out)
{
    char *argv[] = { (char *)"squeue", (char *)"-h", (char *)"-j", (char *)job,
                     (char *)"-o",     (char *)"%N", NULL };

    dup2(out, STDOUT_FILENO);
    execvp(argv[0], argv);
    _exit(NOT_FOUND);
}

/* The nodes of a job, as Slurm's squeue prints them. */
static int fabric_slurm_nodes(const char *job, char *out, size_t room, struct err *err)
{
    CLEAN(file_clean) FILE *file = NULL;
    int pipe_fd[2], status = 0;
    pid_t pid;

    if (!job[0] || strspn(job, "0123456789_.+") != strlen(job))
        return err_set(err, -EINVAL, "--slurm '%.40s': expected the number of a job", job);
    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_set(err, -EIO, "pipe: %m");
    pid = fork();
    if (pid == 0)
        fabric_squeue_exec(job, pipe_fd[1]);
    close(pipe_fd[1]);
    file = fdopen(pipe_fd[0], "r");
    out[0] = '\0';
    if (file && !fgets(out, (int)room, file))
        out[0] = '\0';
    if (pid > 0)
        waitpid(pid, &status, 0);
    out[strcspn(out, "\n")] = '\0';
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        return err_set(err, -ENOENT, "squeue not found in $PATH; give --nodes instead of --slurm");
    if (pid < 0 || status != 0 || !out[0])
        return err_set(err, -ENOENT, "squeue lists no nodes of job %s", job);
    return 0;
}

static int fabric_hosts_add(const struct fabric_test_options *options,
                            const struct host_names *hosts, const struct topology *topology,
                            struct fabric_run *run, struct err *err)
{
    for (uint32_t i = 0; i < hosts->count; i++) {
        const char *text = hosts->host[i], *leaf;
        struct address address;

        if (address_parse(text, strlen(text), &address) < 0)
            return err_set(err, -EINVAL, "--nodes '%.60s': expected HOST or HOST:PORT", text);
        for (uint32_t n = 0; n < run->nodes; n++) {
            if (strcmp(run->node[n].host, address.host) == 0 &&
                run->node[n].port == (address.has_port ? address.port : options->port))
                return err_set(err, -EINVAL, "'%.60s' is listed twice", text);
        }
        leaf = topology_leaf(topology, text);
        if (!leaf)
            leaf = topology_leaf(topology, address.host);
        if (fabric_run_add(run, address.host,
                           address.has_port ? address.port : (uint16_t)options->port, leaf) < 0)
            return err_nomem(err);
        snprintf(run->node[run->nodes - 1].name, sizeof(run->node[0].name), "%.255s", text);
    }
    return hosts->count >= 2 ? 0 : err_set(err, -EINVAL, "expected two nodes or more");
}

static int fabric_test_nodes(const struct fabric_test_options *options,
                             const struct topology *topology, struct fabric_run *run,
                             struct err *err)
{
    CLEAN(free_clean) char *slurm = malloc(SLURM_TEXT);
    struct host_names hosts = { .host = NULL };
    const char *nodes = options->nodes;
    int result = slurm ? 0 : -ENOMEM;

    if (!options->nodes == !options->slurm)
        return err_set(err, -EINVAL, "expected --nodes or --slurm");
    if (result == 0 && options->slurm) {
        result = fabric_slurm_nodes(options->slurm, slurm, SLURM_TEXT, err);
        nodes = slurm;
    }
    if (result == 0)
        result = host_list_parse(nodes, strlen(nodes), &hosts, err);
    if (result == 0)
        result = fabric_hosts_add(options, &hosts, topology, run, err);
    host_list_fini(&hosts);
    return result;
}

static int fabric_tool_of(const char *name)
{
    static const char *const names[] = {
        [FABRIC_TCP] = "tcp", [FABRIC_PERFTEST] = "perftest", [FABRIC_NCCL] = "nccl"
    };

    for (size_t i = 0; i < COUNT(names); i++) {
        if (strcmp(names[i], name) == 0)
            return (int)i;
    }
    return -1;
}

static int fabric_test_check(const struct fabric_test_options *options, struct err *err)
{
    int tool = fabric_tool_of(options->with);

    if (!options->port || options->port > 65535)
        return err_set(err, -EINVAL, "--port: expected 1 to 65535");
    if (options->streams < 1 || options->streams > FABRIC_STREAMS)
        return err_set(err, -EINVAL, "--streams: expected 1 to %d", FABRIC_STREAMS);
    if (options->time_ns < 10 * NS_PER_MS || options->time_ns > 60 * NS_PER_S ||
        options->wait_ns < 10 * NS_PER_MS || options->wait_ns > 30 * NS_PER_S)
        return err_set(err, -EINVAL,
                       "expected --time from 10ms to 60s and --timeout from 10ms to 30s");
    if (!(options->rate >= 0 && options->rate <= 1e4) ||
        !(options->expect >= 0 && options->expect <= 1e4))
        return err_set(err, -EINVAL, "expected --rate and --expect from 0 to 10000 Gbit/s");
    if (options->rate > 0 && options->expect > options->rate)
        return err_set(err, -EINVAL,
                       "--expect %g is more than --rate %g: no transfer can reach it; raise --rate",
                       options->expect, options->rate);
    if (tool < 0)
        return err_set(err, -EINVAL, "--with '%.40s': expected tcp, nccl or perftest",
                       options->with);
    if (tool == FABRIC_NCCL && options->streams != 1)
        return err_set(err, -EINVAL, "NCCL has one stream");
    if (tool == FABRIC_PERFTEST && (options->streams != 1 || options->time_ns < NS_PER_S))
        return err_set(err, -EINVAL, "perftest needs a --time of 1s or more, and one stream");
    return 0;
}

/* ---- the test ---- */

static void fabric_test_progress(void *ctx, size_t round, size_t rounds)
{
    (void)ctx;
    fprintf(stderr, "\r\033[Kround %zu of %zu", round, MAX(round, rounds));
}

static int fabric_test_start(const struct fabric_test_options *options, struct fabric_run *run,
                             struct err *err)
{
    struct path token;
    int result;

    if (options->dry_run)
        return fabric_run_plan(run, true) < 0 ? err_nomem(err) : 0;
    result = serve_token_path(options->token_file, FABRIC_TOKEN, &token, err);
    if (result == 0)
        result = token_read(token.text, &run->settings.token, err);
    if (result == 0)
        result = fabric_run_connect(run, err);
    if (result < 0)
        return result;
    return fabric_run_plan(run, false) < 0 ? err_nomem(err) : 0;
}

static int fabric_test_run(const struct fabric_test_options *options, struct fabric_run *run,
                           const char *spine, struct err *err)
{
    bool bar = !options->json && isatty(STDERR_FILENO);
    int result = fabric_test_start(options, run, err);

    if (result < 0)
        return result;
    if (bar)
        run->settings.progress = fabric_test_progress;
    if (!options->json || options->dry_run)
        fabric_report_plan(run, options);
    if (options->dry_run)
        return 0;
    result = fabric_run_measure(run, err);
    if (bar)
        fputs("\r\033[K", stderr);
    if (result < 0)
        return result;
    if (options->json)
        fabric_report_json(run, spine);
    else
        fabric_report_text(run, spine);
    return fabric_report_status(run);
}

static int fabric_test_exit(int result)
{
    bool usage = result == -EINVAL || result == -ENOENT || result == -EACCES || result == -E2BIG;

    return usage ? 2 : result < 0 ? 3 : result;
}

static int fabric_test_main(int argc, char **argv)
{
    struct fabric_test_options options = { .port = FABRIC_PORT,
                                           .streams = 1,
                                           .rate = 10,
                                           .with = "tcp",
                                           .time_ns = NS_PER_S,
                                           .wait_ns = 2 * NS_PER_S };
    struct fabric_run_settings settings = { .pings = PINGS };
    struct topology topology = { .list = NULL };
    struct fabric_run run;
    struct err err = { "" };
    int result = opt_parse_all(&command_fabric_test, argc, argv, &options);

    if (result < 0)
        return OPT_EXIT(result);
    signal(SIGPIPE, SIG_IGN);
    result = fabric_test_check(&options, &err);
    settings.time_ns = options.time_ns;
    settings.wait_ns = options.wait_ns;
    settings.gbps = options.rate;
    settings.expected = options.expect;
    settings.streams = options.streams;
    settings.full = options.full;
    settings.tool = (uint32_t)MAX(fabric_tool_of(options.with), 0);
    fabric_run_init(&run, &settings);
    if (result == 0 && options.topology)
        result = topology_read(options.topology, &topology, &err);
    if (result == 0)
        result = fabric_test_nodes(&options, &topology, &run, &err);
    if (result == 0)
        result = fabric_test_run(&options, &run, topology_spine(&topology), &err);
    fabric_run_fini(&run);
    topology_fini(&topology);
    if (result < 0)
        log_error("%s", err.text[0] ? err.text : strerror(-result));
    return fabric_test_exit(result);
}

const struct command command_fabric_test = {
    .name = "fabric test",
    .operands = "",
    .summary = "are the links between nodes fit: measure pairs, name the slow part",
    .details =
        "Prints rounds, time and volume, then measures.  Exit status: 0 all links are alike, 1\n"
        "something is named, 2 bad usage, 3 could not tell.",
    .opt = fabric_test_opts,
    .run = fabric_test_main,
};
