/* node_idle.h - whether a job or a user needs this node now.
 *
 * A process of Slurm that runs a job step counts as a user of the node, and so do programs that use processors.  Users of GPUs are
 * not looked for here: each check of a GPU refuses to run on one that is in use.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_NODE_IDLE_H
#define LOCKSTEP_AGENT_NODE_NODE_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct node_idle {
    const char *root;   /* stands before /proc */
    int64_t since_ns;   /* of the times below; 0: there are none */
    uint64_t busy, own; /* clock ticks of all processors, and of our own processes */
    double others;      /* processors that others used in the last window; below 0: not known yet */
};

void node_idle_init(struct node_idle *idle, const char *root);
/* True: the node is in use, and `why` names the user.  Processes of `group` are our own; 0: there are none. */
bool node_idle_is_used(struct node_idle *idle, pid_t group, int64_t now_ns, char *why, size_t room);

#endif
