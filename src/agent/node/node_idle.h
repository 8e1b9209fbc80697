/* node_idle.h - whether a job or a user needs this node now.
 *
 * A process of Slurm's that runs a job step, or programs that use processors, are somebody.  Whoever uses a GPU is not looked for here:
 * checks of GPUs refuse one that is in use themselves.
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
/* True: somebody uses it, and `why` says who.  Processes of `group` are ours; 0: none are. */
bool node_idle_is_used(struct node_idle *idle, pid_t group, int64_t now_ns, char *why, size_t room);

#endif
