/* node.h - one daemon a node: an agent for every run whose rings come up here, whoever's it is.
 *
 * Rings lie in ROOT/lockstep-UID/RUN.  A directory there that its user owns, that has a ring and that nobody serves is
 * a run: the daemon registers it with the site's controller as RUN.uUID, so that nobody can speak of another user's,
 * and starts an agent with its user's rights, which gets that run's token and nothing else.  Agents are started
 * again when they die, ever later when they die at once.  When the rings are gone, another process of the user's sends
 * what is left, and empties the spool.  Runs of `lockstep run` have agents of their own and are left alone.
 *
 * Users are hostile here.  The daemon opens nothing of theirs but directories and the first bytes of rings; each user
 * has a share of the runs and of the work of a turn; nothing that a user's process does delays the end of the
 * daemon by more than two seconds.
 */
#ifndef LOCKSTEP_AGENT_NODE_NODE_H
#define LOCKSTEP_AGENT_NODE_NODE_H

#include <stdint.h>

#include "base/client.h"
#include "core/err.h"

struct node_settings {
    const char *root;        /* where the rings of users are; NULL: /dev/shm */
    const char *state;       /* spools: STATE/runs/RUN.uUID/spool */
    const char *node;        /* its name */
    const char *launch_file; /* token that may begin runs */
    struct client_settings control;
    uint64_t spool_max;     /* bytes, of each agent */
    int64_t idle_ns;        /* an agent ends when no ring had a process for so long */
    uint32_t runs_per_user; /* processes for one user */
    uint32_t runs_max;      /* for all of them */
};

/* Until SIGTERM or SIGINT. */
int node_run(const struct node_settings *settings, struct err *err);

#endif
