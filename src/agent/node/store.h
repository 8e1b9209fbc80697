/* store.h - STATE/runs/RUN.uUID/spool: the spool directories of the runs.
 *
 * All of it belongs to the daemon with mode 0700, except the last directory, which belongs to the user: the user's
 * agent has it as its working directory, and no other process can reach it by a path.  The daemon creates and
 * removes empty directories here and never reads a spool.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_NODE_STORE_H
#define LOCKSTEP_AGENT_NODE_STORE_H

#include <sys/types.h>

#include "core/err.h"

struct store {
    int fd; /* on STATE/runs, locked */
};

/* -EBUSY: another daemon uses it; -EPERM: it is another user's. */
int store_open(struct store *store, const char *state, struct err *err);
void store_close(struct store *store);

/* Makes what is missing.  Returns a descriptor of the spool's directory, or -errno. */
int store_open_spool(const struct store *store, const char *id, uid_t uid, gid_t gid,
                     struct err *err);
/* 0: it is gone; -ENOTEMPTY: its spool has something in it. */
int store_remove(const struct store *store, const char *id);

/* What an earlier daemon left.  `uid` and `gid` are those of the spool's directory. */
typedef void store_fn(void *arg, const char *id, uid_t uid, gid_t gid);
void store_list(const struct store *store, store_fn *fn, void *arg);

#endif
