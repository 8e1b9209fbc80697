/* seal_file.h - the file lockstep.seal: what the files of a checkpoint directory were when they were sealed.
 *
 * For checkpoints of any other program.  Byte by byte in docs/checkpoint-format.md.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_SEAL_SEAL_FILE_H
#define LOCKSTEP_CKPT_SEAL_SEAL_FILE_H

#include "ckpt/format/tensor.h"
#include "core/buf.h"

#define SEAL_NAME "lockstep.seal"
#define SEAL_TEMPORARY "lockstep.seal.tmp"
#define SEAL_FILE_MAX (1u << 30)
#define SEAL_PATH_MAX 4000
#define SEAL_DEPTH_MAX 16
#define SEAL_FILES_MAX 1000000
#define SEAL_NO_STEP UINT64_MAX

enum seal_format { /* numbers are file format: never reused */
    SEAL_OTHER = 0,
    SEAL_SAFETENSORS = 1,
    SEAL_ZIP = 2, /* torch.save, also the files of DCP */
    SEAL_INDEX = 3,
    SEAL_DCP_METADATA = 4,
    SEAL_DCP = 5, /* a file of DCP that is no zip */
    SEAL_FORMATS,
};

struct seal_entry {
    char *path; /* below the directory, '/' between names */
    uint64_t bytes;
    uint8_t format;
    uint64_t nan, inf,
        zero_pages; /* zero_pages: whole pages of zeros, which are normal in tensors */
    struct ckpt_digest digest;
    uint32_t *crc; /* of each block; NULL without any */
};

struct seal {
    uint64_t step; /* SEAL_NO_STEP: unknown */
    int64_t sealed_ns;
    struct seal_entry *file; /* ascending by path */
    size_t files, room;
};

void seal_fini(struct seal *seal);
uint64_t seal_bytes(const struct seal *seal);
/* One more file, unsorted; -ENOMEM. */
int seal_add(struct seal *seal, const char *path, uint64_t bytes, struct err *err);
/* Relative, at most SEAL_DEPTH_MAX names, none of them "", "." or "..", and nothing that hides text. */
bool seal_path_ok(const char *path);
void seal_encode(const struct seal *seal, struct buf *out);
int seal_parse(const void *data, size_t size, struct seal *ret, struct err *err); /* -EPROTO */

#endif
