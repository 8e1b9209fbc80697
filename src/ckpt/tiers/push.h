/* push.h - copies a point to an object store.
 *
 *     PREFIX/step-N-JOB/rank-RRRRR.safetensors, rank-RRRRR.manifest, then COMMIT
 *
 * COMMIT is the last object: without it there is no point.  JOB is the number of the job's start in hex, so an object never changes, and
 * what is there already is not sent again: a push that was interrupted goes on where it was.  Every block is compared with its
 * checksum before it is sent.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_TIERS_PUSH_H
#define LOCKSTEP_CKPT_TIERS_PUSH_H

#include "ckpt/store/point.h"
#include "ckpt/tiers/s3.h"

struct push {
    struct s3 *s3;
    const char *prefix; /* without slashes at its ends; "": none */
    uint64_t
        part_bytes; /* of a file that is sent in parts; a multiple of CKPT_BLOCK, at least 8 MiB */
    bool dry_run;   /* asks only whether the point is there */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t bytes); /* NULL: none */
    void *ctx;
    /* Results: bytes sent, and bytes that were there. */
    uint64_t sent_bytes, kept_bytes;
};

/* 1: it is there now; 0: it was there before, or with dry_run: it would be sent.  -EPROTO: the point is damaged.  Others:
 * the store could not be reached, or refused.
 */
int push_point(int dir_fd, const struct point *point, struct push *push, struct err *err);
/* The name of the objects of a point, up to their last slash.  -ENAMETOOLONG. */
int push_object_prefix(const char *prefix, uint64_t step, uint64_t job, char *out, size_t room);

#endif
