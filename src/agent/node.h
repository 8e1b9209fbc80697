/* node.h - one daemon a node: an agent for every run whose rings come up here, whoever's it is.
 *
 * Rings lie in ROOT/lockstep-UID/RUN.  For each such directory that its user owns and nobody serves, an agent is
 * started as that user, so it can read no more than he could; a sender, which alone may read the site's token,
 * registers the run as RUN.uUID, so that nobody can speak of another user's.  Both are started again when they die, and
 * told to end when the rings are gone.  Runs of `lockstep run` have agents of their own and are left alone.
 */
#ifndef LOCKSTEP_AGENT_NODE_H
#define LOCKSTEP_AGENT_NODE_H

#include "core/err.h"

struct node_settings {
    const char *root;  /* where the rings of users are; NULL: /dev/shm */
    const char *state; /* spools and tokens: STATE/RUN.uUID */
    const char *node;  /* its name */
};

/* Until SIGTERM or SIGINT.  What its children need besides (controller, token file) is in the environment. */
int node_run(const struct node_settings *settings, struct err *err);

#endif
