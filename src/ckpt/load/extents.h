/* extents.h - the bytes of a point's files that make up wanted tensors, and reading them.
 *
 * A tensor may lie in the files of several ranks: slices of a replicated tensor, or shards cut along the first dimension.  First
 * every file's part of every wanted tensor is added, then each tensor is covered by them, then the files are read.  Only
 * blocks that hold wanted bytes are read; each is compared with its checksum before any byte of it is used.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_LOAD_EXTENTS_H
#define LOCKSTEP_CKPT_LOAD_EXTENTS_H

#include "ckpt/format/manifest.h"

/* Rows of a saved tensor that a wanted one could use. */
struct extent_part {
    size_t tensor;                    /* wanted */
    uint32_t file;                    /* index of its manifest */
    bool preferred;                   /* such as this rank's own file */
    uint64_t row, rows;               /* in the global shape */
    uint64_t at;                      /* of its first byte, in the file */
    const struct ckpt_digest *digest; /* of all of it; of the manifest */
};

struct extent {
    uint32_t file;
    uint64_t at, bytes; /* in the file */
    size_t tensor;
    uint64_t tensor_at; /* where they go */
};

struct extents {
    struct extent_part *part;
    size_t parts, part_room,
        covered; /* parts up to `covered` belong to tensors that were covered */
    struct extent *extent;
    size_t count, room;
};

void extents_fini(struct extents *extents);
/* What `manifest` has of a tensor; of `part`, tensor, file and preferred are set.  A part that `wanted` cannot use is no error. */
int extents_add(struct extents *extents, struct extent_part part, const struct ckpt_tensor *wanted,
                const struct manifest *manifest, const struct ckpt_tensor *saved, struct err *err);
/* The same rows, saved by several ranks, have the same contents; else *ret_one and *ret_other are their files.  Before extents_cover() of
 * this tensor, and after that of those before it.
 */
bool extents_agree(struct extents *extents, size_t tensor, uint32_t *ret_one, uint32_t *ret_other);
/* For each wanted tensor in ascending order, after all parts were added.  -EINVAL: parts are missing. */
int extents_cover(struct extents *extents, size_t tensor, const struct ckpt_tensor *wanted,
                  struct err *err);

struct extents_reader {
    int point_fd;
    const struct manifest *manifest; /* by number of the file */
    unsigned threads;                /* 0: as many as are useful */
    /* Bytes of an extent, from `at` of it on, in several threads at once.  < 0 ends the run. */
    int (*put)(void *ctx, const struct extent *extent, uint64_t at, const unsigned char *data,
               size_t size, struct err *err);
    void *ctx;
    /* Files that a writer of this machine still has in memory come from there; a wrong checksum there is no error. */
    bool held;
    int dir_fd;             /* held: of the checkpoint directory */
    uint64_t *memory_bytes; /* held: grows by the bytes of such files */
};

/* -EPROTO: a file is damaged. */
int extents_read(struct extents *extents, const struct extents_reader *reader, struct err *err);

#endif
