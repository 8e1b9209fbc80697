/* node_repair.h - resets a GPU of this node or reboots it, if its administrator allowed that (--repair).
 *
 * The order is an action and at most the number of a PCI device.  `lockstep node-repair`, a process of its own, looks right before that
 * whether the kill switch is on, whether Slurm still has the node drained by us and without jobs, and whether some process holds a GPU (gpu_held.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_NODE_REPAIR_H
#define LOCKSTEP_AGENT_NODE_NODE_REPAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/decision.h"

struct node_repair {
    pid_t pid; /* 0: none */
    int fd;    /* of what it prints */
    int status;
    bool ended;
    size_t size;
    char text[512];
    int64_t until_ns;
    pid_t hung; /* one that was given up and has not ended, 0: none */
};

/* -errno: it could not be started; -EBUSY: an earlier one that was given up is still there. */
int node_repair_begin(struct node_repair *repair, const char *node, const struct decision *order,
                      int64_t now_ns);
void node_repair_reaped(struct node_repair *repair, pid_t pid, int status);
/* True: it is over, with this result.  A process that hangs in a driver outlives its kill: some seconds later it is given up, unknown. */
bool node_repair_turn(struct node_repair *repair, int64_t now_ns, enum outcome_result *result,
                      char *ret, size_t room);
void node_repair_fini(struct node_repair *repair);

#endif
