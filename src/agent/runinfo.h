/* runinfo.h - the parts of run.json that an agent needs: the ring directory, and the ranks of this node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_RUNINFO_H
#define LOCKSTEP_AGENT_RUNINFO_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct runinfo {
    char id[64];
    char rings[PATH_MAX];
    uint32_t ranks;      /* 0: the launcher does not rank (torchrun does): we only watch */
    int32_t pid, keeper; /* of the launcher; 0: unknown */
    bool all;            /* every rank's ring is ours */
    uint32_t *mine, mine_count;
};

/* -ENOENT: no run.json; -EINVAL: not one, or the run has several nodes and none is `node`. */
int runinfo_read(const char *run_dir, const char *node, struct runinfo *ret, struct err *err);
/* -EPERM: we are root and the directory is a user's, who could exchange what root writes there by name. */
int runinfo_check_owner(const char *run_dir, struct err *err);
void runinfo_fini(struct runinfo *info);
bool runinfo_is_mine(const struct runinfo *info, uint32_t rank);

#endif
