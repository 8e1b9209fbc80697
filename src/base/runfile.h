/* runfile.h - run.json: what a run is, for those who want to find it, and the lock beside it.
 *
 * Nobody else reads or writes that file: launchers, agents and commands all come here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_RUNFILE_H
#define LOCKSTEP_BASE_RUNFILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/layout.h"
#include "core/err.h"

struct runfile {
    char id[64];
    char rings[PATH_MAX];
    struct layout layout;
    uint32_t attempt;  /* the latest */
    uint32_t restarts; /* of this start; a start that goes on begins at 0 again */
    uint32_t max_restarts;
    int32_t pid, keeper; /* 0: not known */
    int64_t started_real_ns, ended_real_ns;
    bool drill; /* its owner consented to 'lockstep drill' */
    bool ended;
    int32_t exit;   /* when ended */
    char **command; /* ends with NULL; of a file that was read: free with runfile_fini() */
};

/* Written beside and renamed: a reader sees the old one or the new one, whole. */
int runfile_write(const char *directory, const struct runfile *file, struct err *err);
/* -ENOENT: there is none.  -EINVAL: it is no run.json. */
int runfile_read(const char *directory, struct runfile *ret, struct err *err);
void runfile_fini(struct runfile *file);

/* The ranks whose rings are on one node. */
struct runfile_ranks {
    bool all; /* every rank's: the run has one node, or its ranks are not known */
    uint32_t *rank, count;
};

/* As an agent needs it, also of a launcher that writes neither id nor nodes.  -EINVAL also when the run has several
 * nodes and none is `node`.  Free ret with runfile_fini(), and ret_ranks->rank.
 */
int runfile_read_node(const char *directory, const char *node, struct runfile *ret,
                      struct runfile_ranks *ret_ranks, struct err *err);

/* Whether anything of the run lives: its launcher, or the keeper that is still ending the rest.
 * Both hold a lock on DIRECTORY/lock for as long as they do.  -errno when that cannot be seen.
 */
int runfile_lives(const char *directory, struct err *err);
/* Takes that lock: a descriptor to keep.  -EBUSY: somebody has it. */
int runfile_lock(const char *directory, struct err *err);

#endif
