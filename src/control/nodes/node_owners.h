/* node_owners.h - which users' runs and processes root's daemon has seen on a node.
 *
 * A run says itself on which nodes its ranks are, and with which pids; any user can let a run of his say that of another's
 * process.  So a finding goes to a run only if root's daemon has seen that the run is there, and that the process belongs to the same
 * user.  PURE, a part of the site's core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_NODES_NODE_OWNERS_H
#define LOCKSTEP_CONTROL_NODES_NODE_OWNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/finding.h"

#define OWNER_USER_RUNS 64 /* newest that are kept of a user: none can displace another's */
#define OWNER_RUNS 8192    /* of all users of a node */
#define OWNER_PIDS 1024    /* newest that findings named */

struct owned_run {
    uint32_t uid;
    char run[FACT_NAME]; /* the directory of its rings */
};

struct owned_pid {
    uint32_t pid, uid;
};

struct node_owners {
    struct owned_run *run; /* oldest first */
    size_t runs, run_room;
    struct owned_pid *pid; /* a ring, as soon as it is full */
    size_t pids, pid_room;
    uint64_t pids_ever;
};

void node_owners_fini(struct node_owners *owners);
size_t node_owners_bytes(const struct node_owners *owners);

/* An environment that root's daemon sent: of a user, and of a run or a process.  Another one has no effect.  -ENOMEM. */
int node_owners_take(struct node_owners *owners, const struct environment *environment);
/* Its frame again, for another log. */
int node_owners_environment(const char *node, const struct owned_run *run, struct environment *ret);

/* The run, as the site names it, is on this node: as RUN, or as RUN.uUID. */
bool node_owners_has_run(const struct node_owners *owners, const char *run);
/* Whose it is; false: it was not seen there. */
bool node_owners_user(const struct node_owners *owners, const char *run, uint32_t *ret);
/* ... and the process is its user's. */
bool node_owners_has_process(const struct node_owners *owners, const char *run, uint32_t pid);

#endif
