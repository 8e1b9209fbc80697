/* pull.h - brings a point from an object store, or from another node.
 *
 * Into the hidden directory of the point, as a writer would: the point is committed after every file was compared with its
 * checksums, on the disk.  A pull that was interrupted goes on where it was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_TIERS_PULL_H
#define LOCKSTEP_CKPT_TIERS_PULL_H

#include "ckpt/store/point.h"
#include "ckpt/tiers/peer.h"
#include "ckpt/tiers/s3.h"

struct pull {
    struct s3 *s3;
    struct peer *peer; /* instead: another node; `prefix` is then not used */
    const char *prefix;
    uint64_t part_bytes; /* of one request; a multiple of CKPT_BLOCK */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t bytes); /* NULL: none */
    void *ctx;
    /* Results: bytes that came, and bytes that were on the disk already. */
    uint64_t received_bytes, kept_bytes;
};

/* The points that are complete in the store, newest first, at most `room`; of that step, or of all with UINT64_MAX.  -ENODATA: none. */
int pull_points(struct pull *pull, uint64_t step, struct peer_point *ret, size_t room,
                size_t *ret_count, struct err *err);
/* -EPROTO: the objects are damaged, and nothing was committed. */
int pull_point(struct pull *pull, int dir_fd, uint64_t step, uint64_t job, struct err *err);

#endif
