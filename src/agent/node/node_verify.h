/* node_verify.h - puts this node to the test while nobody uses it.
 *
 * The checks of a stage run as `lockstep check --background`, a process of its own with the lowest priority, which leaves its results as
 * a report (verify/check_report.h).  Before, and every half second meanwhile, it checks whether the node is in use; then the
 * checks end at once, and nothing of them is reported.  A prolog ends them by itself.
 *
 * With a partition of Slurm they are a job in it: Slurm then says when the node is free, and ends the job for another.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_NODE_VERIFY_H
#define LOCKSTEP_AGENT_NODE_NODE_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/decision.h"
#include "wire/finding.h"

struct node_verify;

struct node_verify_settings {
    const char *state, *node;
    const char *root;      /* stands before /proc, /sys and /dev; NULL: here */
    const char *partition; /* of Slurm; NULL: none */
    /* Whether a run is on this node, and which.  NULL: that is not known here. */
    bool (*is_used)(void *arg, char *why, size_t room);
    void *arg;
};

int node_verify_create(const struct node_verify_settings *settings, struct node_verify **ret);
/* Ends its process.  NULL is fine. */
void node_verify_destroy(struct node_verify *verify);

/* `argument`: of ACTION_VERIFY.  -EINVAL: no such stage; -EBUSY: one is under way. */
int node_verify_begin(struct node_verify *verify, int64_t argument, int64_t now_ns);
void node_verify_checked(struct node_verify *verify, const struct check *check); /* of a report */
void node_verify_reaped(struct node_verify *verify, pid_t pid, int status);
/* True: it is over, with this result. */
bool node_verify_turn(struct node_verify *verify, int64_t now_ns, enum outcome_result *result,
                      char *text, size_t room);

#endif
