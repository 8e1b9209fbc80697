/* child.h - the processes of one run: an agent while it has rings, then one that sends the rest.
 *
 * Both are `lockstep node-agent`: executed as root with a clean environment and only these descriptors, then changed
 * to the run's user (become.h).  The working directory becomes the spool of the run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_CHILD_H
#define LOCKSTEP_AGENT_NODE_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/net/client.h"
#include "core/err.h"

enum child_fd {
    CHILD_SPOOL_FD = 3, /* directory */
    CHILD_TOKEN_FD = 4, /* the run's token comes here; closed: the daemon is gone */
    CHILD_RINGS_FD = 5, /* directory; an agent's only */
    CHILD_FDS = 6,
};

#define CHILD_EXIT_IDLE                                                                            \
    10 /* an agent that has nothing to do: it is started again when a ring comes up */

enum child_kind {
    CHILD_NONE,
    CHILD_AGENT,
    CHILD_REST, /* sends what is in the spool, empties it and ends with 0; with another status later again */
};

struct child_settings {
    enum child_kind kind;
    const char *run, *node;
    uid_t uid;
    gid_t gid;
    const struct client_settings *control;
    uint64_t spool_max;
    int64_t idle_ns;
    int spool_fd, rings_fd; /* stay the caller's; rings_fd -1: none */
};

/* *ret_token_fd is the writing end, the caller's to close when the child has ended.  -errno. */
int child_start(const struct child_settings *settings, pid_t *ret_pid, int *ret_token_fd);

#endif
