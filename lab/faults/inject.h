/* inject.h - faults that are made from outside, on the processes of a running job.
 *
 * The injector sees what an agent sees: the rings of the ranks, for their process ids and the
 * step they are in.  When a fault's step is reached it acts, when its steps are over it takes
 * everything back.  A fault that cannot be made here is skipped, with the reason.
 *
 * Faults of the CPU touch only the host thread of a rank (its first).  The other threads stand
 * for its device, and a device does not slow down when a CPU is scarce.
 *
 * How scarce the CPU must be for a step to take `factor` times as long is worked out from what
 * the host threads used in the steps before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_FAULTS_INJECT_H
#define LOCKSTEP_LAB_FAULTS_INJECT_H

#include <stdint.h>

#include "core/err.h"
#include "lab/faults/plan.h"

struct net;
struct slowfs_order;

struct inject_config {
    const char *ring_dir;
    uint32_t world, nodes;
    /* Of the file system under the job's files (slowfs.h); NULL: there is none, and this is why. */
    struct slowfs_order *storage;
    const char *storage_why;
    const struct net *net; /* the nodes' own (net.h); NULL likewise */
    const char *net_why;
};

enum inject_state {
    INJECT_WAITING,
    INJECT_ACTIVE,
    INJECT_OVER,
    INJECT_SKIPPED
};

struct inject_report {
    enum inject_state state;
    uint32_t node;
    uint64_t step;   /* at which it was made */
    int64_t time_ns; /* monotonic, when it first hurt; 0: not yet */
    int64_t until_ns;
    char method[160]; /* "quota 1.5 ms in 20 ms for 4 host threads", or why it was skipped */
};

struct inject;

/* `plan` must outlive it; faults that the trainer makes are left to the trainer. */
int inject_create(const struct fault_plan *plan, const struct inject_config *config,
                  struct inject **ret, struct err *err);
void inject_destroy(struct inject *inject);              /* takes back what is active */
void inject_tick(struct inject *inject, int64_t now_ns); /* ten times a second, or more often */
/* What became of fault number `fault` of the plan.  -ENOENT: it is the trainer's. */
int inject_read(const struct inject *inject, uint32_t fault, struct inject_report *ret);

#endif
