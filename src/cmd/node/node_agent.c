/* node_agent.c - `lockstep node-agent`: a process of one user's run, started by the daemon of the node.
 *
 * Not for people: it expects the descriptors that agent/node/child.h lists.  It begins as root, limits itself, becomes
 * the user, and only then reads anything that the user wrote.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "agent/node/become.h"
#include "agent/node/child.h"
#include "agent/send/send.h"
#include "base/log.h"
#include "base/net/token.h"
#include "base/remove_tree.h"
#include "cmd/lockstep.h"
#include "core/time.h"

#define FILE_SLACK_BYTES (UINT64_C(64) << 20) /* a spool is measured once a second */
#define REST_NS (15 * NS_PER_S)

struct node_agent_options {
    const char *run, *node;
    uint32_t user, group;
    uint64_t spool_max;
    int64_t idle_ns;
    struct client_settings control;
    bool rest;
};

static const struct opt node_agent_opts[] = {
    { "run", 0, OPT_TEXT, offsetof(struct node_agent_options, run), "RUN",
      "the run, as the controller knows it", NULL, false },
    { "node", 0, OPT_TEXT, offsetof(struct node_agent_options, node), "NAME",
      "the node this agent speaks for", NULL, false },
    { "user", 0, OPT_U32, offsetof(struct node_agent_options, user), "UID", "the run's user", NULL,
      false },
    { "group", 0, OPT_U32, offsetof(struct node_agent_options, group), "GID", "and group", NULL,
      false },
    { "spool-max", 0, OPT_U64, offsetof(struct node_agent_options, spool_max), "BYTES",
      "a larger spool is shrunk", NULL, false },
    { "idle", 0, OPT_DURATION, offsetof(struct node_agent_options, idle_ns), "TIME",
      "end when no ring had a process for so long", NULL, false },
    { "control", 0, OPT_TEXT, offsetof(struct node_agent_options, control.url), "URL",
      "the site's controller", NULL, false },
    { "control-ca", 0, OPT_TEXT, offsetof(struct node_agent_options, control.ca_file), "FILE",
      "certificate to trust, in PEM", NULL, false },
    { "control-pin", 0, OPT_TEXT, offsetof(struct node_agent_options, control.pin), "PIN",
      "trust the controller with this key", NULL, false },
    { "insecure-http", 0, OPT_FLAG, offsetof(struct node_agent_options, control.insecure_http),
      NULL, "send tokens in clear text off loopback", NULL, false },
    { "rest", 0, OPT_FLAG, offsetof(struct node_agent_options, rest), NULL,
      "send what is in the spool, empty it, and end", NULL, false },
    { .name = NULL },
};

static int node_agent_enter(const struct node_agent_options *options, struct err *err)
{
    int result = become_limited(2 * options->spool_max + FILE_SLACK_BYTES, err);

    if (result < 0)
        return result;
    if (fchdir(CHILD_SPOOL_FD) < 0)
        return err_set(err, -errno, "the spool's directory: %m");
    close(CHILD_SPOOL_FD);
    if (options->user != geteuid())
        return become_user(options->user, options->group, err);
    return 0;
}

static int node_agent_serve(const struct node_agent_options *options, struct err *err)
{
    const struct agent_node every = { .run = options->run,
                                      .rings_fd = CHILD_RINGS_FD,
                                      .token_fd = CHILD_TOKEN_FD,
                                      .idle_ns = options->idle_ns };
    const struct agent_settings settings = { .node = options->node,
                                             .every = &every,
                                             .tick_ns = 50 * NS_PER_MS,
                                             .control = options->control,
                                             .spool_max = options->spool_max };
    struct agent *agent;
    int result = agent_open(&settings, &agent, err);

    if (result < 0)
        return result;
    result = agent_run(agent, err);
    agent_close(agent);
    return result == 1 ? CHILD_EXIT_IDLE : result;
}

/* With the user's rights: whatever is in his spool, it is his. */
static int node_agent_send_rest(const struct node_agent_options *options, struct err *err)
{
    char text[2 * TOKEN_SIZE];
    struct token token;
    ssize_t size = read(CHILD_TOKEN_FD, text, sizeof(text));
    int result = size < 0 ? err_set(err, -errno, "no token: %m")
                          : token_parse(text, (size_t)size, &token, err);

    if (result == 0)
        result = send_run(&(struct send_settings){ .run = options->run,
                                                   .token = &token,
                                                   .control = options->control,
                                                   .patience_ns = REST_NS },
                          err);
    if (result < 0)
        return result;
    result = tree_empty(AT_FDCWD);
    return result < 0 ? err_set(err, result, "the spool: %s", strerror(-result)) : 0;
}

static int node_agent_main(int argc, char **argv)
{
    struct node_agent_options options = { .control.timeout_ns = 30 * NS_PER_S };
    int first = opt_parse(&command_node_agent, argc, argv, &options);
    char name[96];
    struct err err = { "" };
    int result;

    if (first < 0)
        return OPT_EXIT(first);
    if (!options.run || !options.node || !options.control.url || first < argc) {
        log_error("this is started by 'lockstep agent --every-run' alone");
        return 2;
    }
    snprintf(name, sizeof(name), "agent %s", options.run);
    log_name(name);
    result = node_agent_enter(&options, &err);
    if (result == 0)
        result =
            options.rest ? node_agent_send_rest(&options, &err) : node_agent_serve(&options, &err);
    if (result >= 0)
        return result;
    log_error("%s", err.text);
    return 3;
}

const struct command command_node_agent = {
    .name = "node-agent",
    .operands = "",
    .summary = "a process of one user's run, started by 'lockstep agent --every-run'",
    .opt = node_agent_opts,
    .run = node_agent_main,
    .hidden = true,
};
