/* sealed_points.h - the sealed checkpoints of a directory: the directory itself, or those directly below it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_SEAL_SEALED_POINTS_H
#define LOCKSTEP_CKPT_SEAL_SEALED_POINTS_H

#include "ckpt/seal/seal.h"

struct sealed_point {
    char name[256]; /* ".": the directory itself */
    int fd;
    struct seal seal; /* without files: damaged */
    uint64_t step;    /* SEAL_NO_STEP: unknown */
    struct err why;   /* damaged: the reason */
};

struct sealed_points {
    struct sealed_point
        *point; /* newest first: by step, then those without a step by the time of the seal */
    size_t count, room;
};

/* An empty list is success.  Links are not followed. */
int sealed_points_read(int dir_fd, struct sealed_points *ret, struct err *err);
void sealed_points_fini(struct sealed_points *points);

#endif
