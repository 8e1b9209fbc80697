/* scan.h - finds the runs of this node's users: directories with rings in ROOT/lockstep-UID/RUN.
 *
 * Users write there, so no path is resolved: each name is opened below an open directory, without links and mounts,
 * and must belong to its user alone.  A turn does a limited amount of work, shared between users: a directory with
 * 100,000 names delays only the runs of its owner.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_SCAN_H
#define LOCKSTEP_AGENT_NODE_SCAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/err.h"

struct scan;

struct scan_sink {
    /* Whether that directory need not be looked at. */
    bool (*is_known)(void *arg, uid_t uid, const char *name);
    /* A directory with a ring of its owner, each time it is looked at; NULL: not needed. */
    void (*seen)(void *arg, uid_t uid, const char *name);
    /* A directory with a ring of its owner that no process has locked; `gid` is the directory's. */
    void (*found)(void *arg, uid_t uid, gid_t gid, const char *name);
    void *arg;
};

/* `root` must stay.  It need not be there yet. */
int scan_create(const char *root, struct scan **ret, struct err *err);
void scan_destroy(struct scan *scan); /* NULL is fine */
void scan_turn(struct scan *scan, const struct scan_sink *sink);
/* The directory of a run, if it is still there and its user's: a descriptor, or -errno. */
int scan_open_run(const struct scan *scan, uid_t uid, const char *name);
/* Whether an agent serves it: it locks the directory of the rings that it reads.  On a directory that others can read
 * a lock means nothing.
 */
bool scan_is_locked(int run_fd);

#endif
