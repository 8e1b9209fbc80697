/* export_hf.h - a point as the files that Hugging Face's libraries read.
 *
 * The parts of all ranks are put together: one model.safetensors, or model-00001-of-0000N.safetensors and
 * model.safetensors.index.json.  Every block is compared with its checksum before it is written.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_LOAD_EXPORT_HF_H
#define LOCKSTEP_CKPT_LOAD_EXPORT_HF_H

#include "ckpt/store/point.h"

#define EXPORT_NO_RANK UINT32_MAX

struct export_hf {
    const char *prefix;   /* only tensors whose names begin so; the prefix is removed.  "": all */
    uint64_t shard_bytes; /* a file is not larger, unless a single tensor is; at least 1 */
    bool dry_run;         /* plan only: nothing is read or written */
    uint32_t
        rank; /* whose copy counts where ranks differ, such as in BatchNorm's statistics; EXPORT_NO_RANK: that is an error */
    void (*progress)(void *ctx, uint64_t done_bytes, uint64_t bytes); /* NULL: none */
    void *ctx;
    /* Results: */
    size_t tensors, files, left_out; /* left_out: tensors without the prefix */
    uint64_t bytes;
};

/* Into the empty directory `out_fd`; all files and the directory are synced.  -EPROTO: the point is damaged.  -ENOTSUP: a tensor
 * cannot be put together, or has no type there; err says which.  -ENODATA: no tensor has the prefix.  After a failure
 * the directory holds nothing of use.
 */
int export_hf(int dir_fd, const struct point *point, int out_fd, struct export_hf *export,
              struct err *err);

#endif
