/* replica_check.h - compares this rank's copies of slices with what other ranks saved.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_WRITER_REPLICA_CHECK_H
#define LOCKSTEP_CKPT_WRITER_REPLICA_CHECK_H

#include "ckpt/format/manifest.h"

/* Digests the slices of a draft piece by piece, so that the disk works meanwhile. */
struct slice_digests {
    struct manifest *manifest;
    const unsigned char *data; /* of the first slice */
    struct ckpt_hash *hash;
    size_t slice;
    uint64_t done; /* of this slice */
};

int slice_digests_open(struct slice_digests *digests, struct manifest *manifest,
                       const unsigned char *image, struct err *err);
void slice_digests_close(struct slice_digests *digests);
/* So many bytes more, as far as there are any. */
void slice_digests_add(struct slice_digests *digests, uint64_t bytes);

/* Of a committed point.  -EBADMSG: a slice differs from what another rank has saved of the same tensor; err names it.  What no rank of
 * this directory has saved is not compared.
 */
int replica_check(int point_fd, const struct manifest *own, struct err *err);

#endif
