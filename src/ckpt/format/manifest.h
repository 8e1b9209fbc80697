/* manifest.h - what one rank saved for one point: tensors, blobs, checksums of the file.
 *
 * The file rank-NNNNN.manifest, byte by byte in docs/checkpoint-format.md.  The trainer hands the same form,
 * without checksums, to the writer beside each image: a draft.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_FORMAT_MANIFEST_H
#define LOCKSTEP_CKPT_FORMAT_MANIFEST_H

#include "ckpt/format/tensor.h"
#include "core/buf.h"

#define CKPT_BLOBS_BYTES_MAX (16u << 20)
#define CKPT_MANIFEST_MAX (1u << 30)
#define MANIFEST_SLICE_BYTES (4 + 8 + 8) /* in a draft */

struct ckpt_blob {
    char *name;
    unsigned char *data;
    uint64_t size;
};

/* A slice of a replicated tensor that another rank saves.  This rank digests its own copy of it, which lies in the image behind the
 * file, to find replicas that differ.
 */
struct replica_slice {
    uint32_t tensor;    /* of the manifest */
    uint64_t row, rows; /* in the global tensor, of its first dimension; of a scalar 0 and 1 */
    struct ckpt_digest digest;
};

struct manifest {
    uint64_t step, job;
    uint32_t rank, world, group;
    uint64_t file_bytes, data_at; /* the file, and where its data section begins */
    struct ckpt_tensor *tensor;   /* in the order of the file */
    size_t tensors, tensor_room;
    struct ckpt_blob *blob;
    size_t blobs, blob_room;
    uint32_t *crc; /* of each block of the file; NULL in a draft */
    size_t blocks;
    struct replica_slice
        *slice; /* of a draft, never on disk; one behind the other from manifest_slices_at() */
    size_t slices, slice_room;
};

uint64_t manifest_slice_bytes(const struct manifest *manifest, const struct replica_slice *slice);
/* Where copies of slices begin in the image. */
static inline uint64_t manifest_slices_at(const struct manifest *manifest)
{
    return ckpt_round_up(manifest->file_bytes, CKPT_BLOCK);
}

void manifest_fini(struct manifest *manifest);
/* buf_failed: no memory.  `draft`: without checksums. */
void manifest_encode(const struct manifest *manifest, bool draft, struct buf *out);
/* -EPROTO with the reason; *ret is to be released after success only.  Everything that is read later was checked:
 * tensors cover the data section without holes, shapes agree with sizes, the number of checksums with the file.
 */
int manifest_parse(const void *data, size_t size, bool draft, struct manifest *ret,
                   struct err *err);

#endif
