/* retain.h - which points are kept, and removing the others.
 *
 * A point is removed only if newer ones are committed and were read back from the disk.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_STORE_RETAIN_H
#define LOCKSTEP_CKPT_STORE_RETAIN_H

#include "ckpt/store/point.h"

struct retain {
    uint32_t keep;  /* the newest so many, at least 1 */
    uint64_t every; /* and every point whose step is a multiple of it; 0: none */
    /* Other nodes have parts of the points, and only those up to the step `complete` are verified there, too. */
    bool parts;
    uint64_t complete;
    bool dry_run;
    /* Called for each point: whether it goes, and why; NULL: nothing. */
    void (*each)(void *ctx, const struct point *point, bool goes, const char *why);
    void *ctx;
};

/* How many points were removed (with dry_run: would be), or -errno. */
int retain_points(int dir_fd, const struct retain *retain, struct err *err);

#endif
