/* fabric_serve.c - lockstep fabric serve: the worker on a node that takes part in fabric tests.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/fabric_serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/fabric/fabric_private.h"
#include "cmd/serve.h"
#include "core/clean.h"
#include "core/time.h"

#define RATE_MAX 10000.0 /* Gbit/s */

struct fabric_serve_options {
    const char *listen, *token_file, *perftest;
    struct opt_list rail;
    double rate, volume;
    bool nccl, shared_gpus;
    int64_t time_ns;
};

static const struct opt fabric_serve_opts[] = {
    { "listen", 0, OPT_TEXT, offsetof(struct fabric_serve_options, listen), "ADDRESS:PORT",
      "default 127.0.0.1:8791", NULL, false },
    { "rail", 0, OPT_LIST, offsetof(struct fabric_serve_options, rail), "ADDRESS",
      "address of an adapter to test, in the order of the rails; default: the one that a test "
      "connects to",
      NULL, false },
    { "token-file", 0, OPT_TEXT, offsetof(struct fabric_serve_options, token_file), "FILE",
      "the secret that all workers and the test share, default tokens/fabric.token of the state "
      "directory",
      NULL, false },
    { "perftest", 0, OPT_TEXT, offsetof(struct fabric_serve_options, perftest), "DIR",
      "let tests run ib_write_bw and ib_write_lat of this directory, such as /usr/bin", NULL,
      false },
    { "nccl", 0, OPT_FLAG, offsetof(struct fabric_serve_options, nccl), NULL,
      "let tests send between the GPUs of nodes by NCCL; GPU 0 is that of the first rail", NULL,
      false },
    { "shared-gpus", 0, OPT_FLAG, offsetof(struct fabric_serve_options, shared_gpus), NULL,
      "with --nccl: also use GPUs that other processes use, which slows these down", NULL, false },
    { "rate", 0, OPT_F64, offsetof(struct fabric_serve_options, rate), "GBPS",
      "send at most so many Gbit/s, default 100", NULL, false },
    { "time", 0, OPT_DURATION, offsetof(struct fabric_serve_options, time_ns), "TIME",
      "longest transfer, default 10s", NULL, false },
    { "volume", 0, OPT_F64, offsetof(struct fabric_serve_options, volume), "GB",
      "send and receive at most so many GB in one test, default 1000", NULL, false },
    { .name = NULL },
};

struct fabric_serve_loop {
    struct loop *loop;
    struct fabric_server *server;
};

static void fabric_serve_signal(void *arg, int signal)
{
    struct fabric_serve_loop *serve = arg;

    if (signal == SIGCHLD)
        fabric_serve_child_ended(serve->server);
    else
        loop_stop(serve->loop);
}

static int fabric_serve_settings(const struct fabric_serve_options *options,
                                 struct fabric_serve_settings *ret, struct err *err)
{
    unsigned char address[sizeof(struct in6_addr)];

    if (!(options->rate > 0 && options->rate <= RATE_MAX) || !(options->volume > 0) ||
        options->volume > 1e9 || options->time_ns < 10 * NS_PER_MS ||
        options->time_ns > 600 * NS_PER_S)
        return err_set(err, -EINVAL,
                       "expected --rate and --volume above 0, and --time from 10ms to 10m");
    if (options->rail.count > FABRIC_RAILS)
        return err_set(err, -EINVAL, "expected --rail at most %d times", FABRIC_RAILS);
    *ret = (struct fabric_serve_settings){ .listen = options->listen,
                                           .rails = options->rail.count,
                                           .rate = (uint64_t)(options->rate * 1e9 / 8),
                                           .bytes = (uint64_t)(options->volume * 1e9),
                                           .time_ns = options->time_ns };
    for (uint32_t i = 0; i < ret->rails; i++) {
        const char *rail = options->rail.item[i];

        if (inet_pton(AF_INET, rail, address) != 1 && inet_pton(AF_INET6, rail, address) != 1)
            return err_set(err, -EINVAL, "--rail %s: expected an address in numbers", rail);
        snprintf(ret->rail[i], sizeof(ret->rail[i]), "%s", rail);
    }
    if (options->perftest &&
        (options->perftest[0] != '/' || strlen(options->perftest) >= sizeof(ret->perftest)))
        return err_set(err, -EINVAL, "--perftest: expected the full path of a directory");
    ret->nccl = options->nccl;
    ret->shared_gpus = options->shared_gpus;
    snprintf(ret->perftest, sizeof(ret->perftest), "%s",
             options->perftest ? options->perftest : "");
    gethostname(ret->node, sizeof(ret->node) - 1);
    return 0;
}

static int fabric_serve_run(const struct fabric_serve_options *options, struct err *err)
{
    static const int signals[] = { SIGTERM, SIGINT, SIGCHLD };
    struct fabric_serve_settings settings;
    struct fabric_serve_loop serve = { NULL, NULL };
    struct path token;
    int result = fabric_serve_settings(options, &settings, err);

    if (result == 0)
        result = serve_token_path(options->token_file, FABRIC_TOKEN, &token, err);
    if (result == 0)
        result = token_read_or_make(token.text, &settings.token, err);
    if (result == 0)
        result = loop_create(&serve.loop, err);
    if (result == 0)
        result =
            loop_signals(serve.loop, signals, COUNT(signals), fabric_serve_signal, &serve, err);
    if (result == 0)
        result = fabric_serve_open(serve.loop, &settings, &serve.server, err);
    if (result == 0) {
        printf("serving fabric tests at %.*s:%u, token %s\n",
               (int)(strrchr(options->listen, ':') - options->listen), options->listen,
               fabric_serve_port(serve.server), token.text);
        fflush(stdout);
        result = loop_run(serve.loop, err);
    }
    fabric_serve_close(serve.server);
    loop_destroy(serve.loop);
    return result;
}

static int fabric_serve_main(int argc, char **argv)
{
    struct fabric_serve_options options = {
        .listen = "127.0.0.1:8791", .rate = 100, .volume = 1000, .time_ns = 10 * NS_PER_S
    };
    struct err err = { "" };
    int parsed = opt_parse_all(&command_fabric_serve, argc, argv, &options), result;

    if (parsed < 0)
        return OPT_EXIT(parsed);
    signal(SIGPIPE, SIG_IGN);
    result = fabric_serve_run(&options, &err);
    return serve_exit(result, &err);
}

const struct command command_fabric_serve = {
    .name = "fabric serve",
    .operands = "",
    .summary = "take part in tests of the links between nodes, on this node",
    .details =
        "Prints its address and the file of its token, and runs until SIGTERM.  It sends only to\n"
        "workers that prove to have the same token, one test at a time, within its limits.",
    .opt = fabric_serve_opts,
    .run = fabric_serve_main,
};
