/* commit.h - the file COMMIT, which makes a point of the files of all ranks.
 *
 * It names every manifest with its size and digest, and each manifest has the checksums of its file.  So a file or a
 * manifest of another point, or of another start of the job, is never taken for the right one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_FORMAT_COMMIT_H
#define LOCKSTEP_CKPT_FORMAT_COMMIT_H

#include "ckpt/format/tensor.h"
#include "core/buf.h"

#define CKPT_COMMIT_MAX (64u << 20)

struct commit_rank {
    uint32_t rank;
    uint64_t manifest_bytes, file_bytes;
    struct ckpt_digest manifest;
};

struct commit {
    uint64_t step, job;
    uint32_t world, group;
    struct commit_rank *rank; /* ascending; `group` of them */
    size_t rank_room;
};

void commit_fini(struct commit *commit);
void commit_encode(const struct commit *commit, struct buf *out);
int commit_parse(const void *data, size_t size, struct commit *ret, struct err *err); /* -EPROTO */

#endif
