/* tensor.h - what a checkpoint knows of a tensor, and the data types.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_FORMAT_TENSOR_H
#define LOCKSTEP_CKPT_FORMAT_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define CKPT_DIMS 8
#define CKPT_NAME_MAX 1000     /* bytes, without the NUL */
#define CKPT_PAGE 4096u        /* alignment of the data section, and of direct I/O */
#define CKPT_BLOCK (4u << 20)  /* bytes of one checksum */
#define CKPT_RANKS_MAX 1048576 /* as many as a layout may have */
#define CKPT_PARTS_MAX 4096u   /* of a file, of which a save reads one back */

struct ckpt_digest {
    unsigned char byte[16]; /* XXH3-128, big-endian as its canonical form is */
};

struct ckpt_dtype {
    const char *name; /* as safetensors has it */
    uint8_t bytes;
    bool portable; /* every reader of safetensors knows it; others are stored as U8 */
};

struct ckpt_tensor {
    char *name;
    uint8_t dtype, dims;
    uint64_t shape[CKPT_DIMS], global_shape[CKPT_DIMS], offset[CKPT_DIMS];
    uint64_t begin, end; /* in the data section of the file */
    struct ckpt_digest digest;
};

const struct ckpt_dtype *ckpt_dtype(uint32_t dtype); /* NULL: there is none */
/* Bytes of its shape.  -EINVAL: an unknown type, too many dimensions, more than 2^62 bytes, or outside its global shape. */
int ckpt_tensor_bytes(const struct ckpt_tensor *tensor, uint64_t *ret, struct err *err);
uint64_t ckpt_row_bytes(const struct ckpt_tensor *tensor); /* of one index of the first dimension */
bool ckpt_name_ok(const char *name);

static inline uint64_t ckpt_round_up(uint64_t value, uint64_t to) /* a power of two */
{
    return (value + to - 1) & ~(to - 1);
}

static inline uint64_t ckpt_blocks(uint64_t bytes)
{
    return (bytes + CKPT_BLOCK - 1) / CKPT_BLOCK;
}

/* XXH3-128 of bytes that arrive in pieces. */
struct ckpt_hash;
struct ckpt_hash *ckpt_hash_create(void); /* NULL: no memory */
void ckpt_hash_destroy(struct ckpt_hash *hash);
void ckpt_hash_reset(struct ckpt_hash *hash);
void ckpt_hash_add(struct ckpt_hash *hash, const void *data, size_t size);
struct ckpt_digest ckpt_hash_end(struct ckpt_hash *hash);
struct ckpt_digest ckpt_digest_of(const void *data, size_t size);

#endif
