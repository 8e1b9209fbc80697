/* slowfs.h - a real file system that passes everything on to a directory, and can be made slow or stuck.
 *
 * It speaks the kernel's FUSE protocol itself: no library is needed, and a request that shall take long is
 * simply answered late, while those of others go on.  Who waits for it waits as people's jobs wait for their
 * file servers: in the kernel, in read(), write() or fsync().
 *
 * Mounted in a mount namespace that the caller has for itself, so that nothing is left behind however the
 * caller ends.  Needs the right to mount, and /dev/fuse.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_FAULTS_SLOWFS_H
#define LOCKSTEP_LAB_FAULTS_SLOWFS_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/err.h"

#define SLOWFS_ORDERS 32
#define SLOWFS_ANY UINT32_MAX
#define SLOWFS_FOREVER INT64_MAX
#define SLOWFS_CHECKPOINTS "checkpoints" /* its two directories */
#define SLOWFS_DATA "data"

enum slowfs_part {
    SLOWFS_IN_CHECKPOINTS = 1,
    SLOWFS_IN_DATA = 2
};

/* What it shall do, in memory that both sides see.  A request is hit when its file lies in `part` and is of
 * `rank`, by its name ("rank-00003..."); only those that move or settle data: write, fsync, and read of batches.
 */
struct slowfs_order {
    _Atomic int64_t delay_ns;     /* 0: nothing */
    _Atomic uint32_t rank, part;  /* SLOWFS_ANY: of all */
    _Atomic uint32_t hits;        /* requests that were made late, or never answered */
    _Atomic uint32_t caller;      /* the first that was never answered: the only one; 0: none yet */
    _Atomic int64_t first_hit_ns; /* monotonic */
};

struct slowfs {
    struct slowfs_order *order; /* [SLOWFS_ORDERS] */
    pid_t server;
    char mounted[4096];
};

/* Moves this process into a mount namespace of its own, mounts at `at` and serves `backing` there, both made if
 * they are not there, with the two directories in it.  The server is a process that ends with this one.
 */
int slowfs_begin(const char *backing, const char *at, struct slowfs *ret, struct err *err);
/* The same in the mount namespace that the caller has already, whoever else is in it. */
int slowfs_mount(const char *backing, const char *at, struct slowfs *ret, struct err *err);
void slowfs_end(struct slowfs *fs); /* also what is stuck in it comes back, with an error */

#endif
