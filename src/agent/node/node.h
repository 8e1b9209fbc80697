/* node.h - the node daemon: an agent for every run of every user on this node.
 *
 * Rings are in ROOT/lockstep-UID/RUN.  A directory there that belongs to its user, has a ring and has no agent is a
 * run.  The daemon registers it with the site's controller as RUN.uUID, so that no user can send facts of another
 * user's run, and starts an agent with the user's rights, which gets only the token of that run.  Agents are
 * restarted when they die, with growing pauses if they die at once.  When the rings are gone, another process of the
 * user sends the rest and empties the spool.  Runs of `lockstep run` have their own agents and are ignored.
 *
 * Users are not trusted.  The daemon opens only directories and the first bytes of rings; each user has a share of
 * the runs and of the work of a turn; no process of a user can delay the end of the daemon by more than two seconds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_NODE_H
#define LOCKSTEP_AGENT_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/net/client.h"
#include "core/err.h"

struct node_settings {
    const char *root;        /* where the rings of users are; NULL: /dev/shm */
    const char *state;       /* spools: STATE/runs/RUN.uUID/spool */
    const char *node;        /* its name */
    const char *launch_file; /* token that may begin runs */
    struct client_settings control;
    uint64_t spool_max;           /* bytes, of each agent */
    int64_t idle_ns;              /* an agent ends when no ring had a process for so long */
    uint32_t runs_per_user;       /* processes for one user */
    uint32_t runs_max;            /* for all of them */
    bool sense;                   /* run the sensors of the node */
    const char *kmsg;             /* kernel records; NULL: /dev/kmsg */
    const char *sysroot;          /* stands before /proc, /sys and /dev for sensors; NULL: here */
    bool verify;                  /* checks that the controller orders are run */
    uint32_t repair;              /* bits of enum action that it may do: reset-gpu, reboot */
    const char *verify_partition; /* of Slurm, whose jobs give way to all others; NULL: none */
};

/* Until SIGTERM or SIGINT. */
int node_run(const struct node_settings *settings, struct err *err);

#endif
