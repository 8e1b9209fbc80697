/* rank_procs.h - which processes of this node are the ranks of a run.
 *
 * A rank that trains has a ring, and the ring names its process.  One that has none yet, or never makes one, is found by
 * its environment: launchers set LOCKSTEP_RUN and RANK.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_RANK_PROCS_H
#define LOCKSTEP_AGENT_PROC_RANK_PROCS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

struct rank_proc {
    uint32_t rank, attempt;
    /* As proc_open() takes it. */
    uint32_t pid;
    uint64_t pid_ns_inode, pid_start;
    uid_t owner;
    uint64_t open_ns; /* of its ring; 0: it has none */
};

struct rank_procs {
    struct rank_proc *list; /* by rank, one entry for each */
    size_t count, room;
};

/* Adds the newest ring of each rank in this directory.  Rings that cannot be read are skipped; the first reason is in
 * `err`, and the result is 0 all the same.  -errno: the directory cannot be read; -ENOENT: there is none.
 */
int rank_procs_add_rings(struct rank_procs *procs, const char *rings, struct err *err);
/* Adds ranks of `run` that are not in the list, by the environment of processes that we may read.  Where no rank is known, the
 * command that is no rank (lockstep run without -n) is added as rank 0.  -errno: /proc cannot be read.
 */
int rank_procs_add_environment(struct rank_procs *procs, const char *run);
void rank_procs_fini(struct rank_procs *procs);

#endif
