/* agent.h - the agent: rings and /proc in, frames out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_AGENT_H
#define LOCKSTEP_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net/client.h"
#include "core/err.h"

struct agent_node {  /* what the daemon of a node gives to the agents that it starts */
    const char *run; /* as the controller knows it */
    int rings_fd;    /* the directory of its rings; both are the agent's once it is open */
    int token_fd;    /* a pipe by which the run's token comes, when there is one */
    int64_t idle_ns; /* when for so long no ring had a process, and all is sent, the agent ends */
};

struct agent_settings {
    const char *run_dir; /* NULL with `every`: the spool is in the working directory */
    const struct agent_node *every;
    const char *node;
    const char *rings; /* NULL: as run.json says */
    int64_t tick_ns;
    /* The site's controller, to which the spool is sent; its url NULL: the spool is read locally. */
    struct client_settings control;
    uint64_t spool_max;  /* bytes; a spool that is sent is shrunk beyond that */
    bool sense;          /* run the sensors of the node */
    const char *kmsg;    /* kernel records; NULL: /dev/kmsg */
    const char *sysroot; /* stands before /proc, /sys and /dev for sensors; NULL: here */
};

struct agent;

/* -EINVAL: settings or run.json are no good; -EBUSY: this node has an agent already. */
int agent_open(const struct agent_settings *settings, struct agent **ret, struct err *err);
/* Until SIGTERM or SIGINT, or until the launcher or the daemon is gone.  Returns 0 when all facts were written; 1 when it ended
 * because no ring had a process (agent_node).
 */
int agent_run(struct agent *agent, struct err *err);
void agent_close(struct agent *agent);

#endif
