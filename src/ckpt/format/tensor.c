/* tensor.c - data types, sizes and digests of tensors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/format/tensor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/clean.h"
#include "core/text.h"

#define BYTES_MAX (UINT64_C(1) << 62)

/* By number, as enum lockstep_ckpt_dtype.  Readers of sharded safetensors take an unknown type for their default
 * type without a word, so all but the plain ones are stored as bytes, with the true type beside them.
 */
static const struct ckpt_dtype dtypes[] = {
    { NULL, 0, false },      { "BOOL", 1, false },        { "U8", 1, true },
    { "I8", 1, true },       { "F8_E5M2", 1, false },     { "F8_E4M3", 1, false },
    { "F8_E8M0", 1, false }, { "F8_E4M3FNUZ", 1, false }, { "F8_E5M2FNUZ", 1, false },
    { "I16", 2, true },      { "U16", 2, false },         { "F16", 2, true },
    { "BF16", 2, true },     { "I32", 4, true },          { "U32", 4, false },
    { "F32", 4, true },      { "C64", 8, false },         { "F64", 8, true },
    { "I64", 8, true },      { "U64", 8, false },         { "C128", 16, false },
};

const struct ckpt_dtype *ckpt_dtype(uint32_t dtype)
{
    return dtype > 0 && dtype < COUNT(dtypes) ? &dtypes[dtype] : NULL;
}

int ckpt_tensor_bytes(const struct ckpt_tensor *tensor, uint64_t *ret, struct err *err)
{
    const struct ckpt_dtype *dtype = ckpt_dtype(tensor->dtype);
    uint64_t bytes, global_bytes;

    if (!dtype)
        return err_set(err, -EINVAL, "unknown data type %u", tensor->dtype);
    if (tensor->dims > CKPT_DIMS)
        return err_set(err, -EINVAL, "%u dimensions, at most %d", tensor->dims, CKPT_DIMS);
    bytes = global_bytes = dtype->bytes;
    for (unsigned i = 0; i < tensor->dims; i++) {
        if (tensor->offset[i] > tensor->global_shape[i] ||
            tensor->shape[i] > tensor->global_shape[i] - tensor->offset[i])
            return err_set(err, -EINVAL, "outside the global shape in dimension %u", i);
        if (__builtin_mul_overflow(bytes, tensor->shape[i], &bytes) ||
            __builtin_mul_overflow(global_bytes,
                                   tensor->global_shape[i] ? tensor->global_shape[i] : 1,
                                   &global_bytes) ||
            bytes > BYTES_MAX || global_bytes > BYTES_MAX)
            return err_set(err, -EINVAL, "too large");
    }
    *ret = bytes;
    return 0;
}

uint64_t ckpt_row_bytes(const struct ckpt_tensor *tensor)
{
    uint64_t bytes = ckpt_dtype(tensor->dtype)->bytes;

    for (unsigned i = 1; i < tensor->dims; i++)
        bytes *= tensor->shape[i];
    return bytes;
}

bool ckpt_name_ok(const char *name)
{
    size_t size = strnlen(name, CKPT_NAME_MAX + 1);

    if (!size || size > CKPT_NAME_MAX || strcmp(name, "__metadata__") == 0)
        return false;
    for (size_t at = 0, step; at < size; at += step) {
        step = text_char(name + at, size - at);
        if (!step)
            return false;
    }
    return true;
}

struct ckpt_hash {
    XXH3_state_t state;
};

struct ckpt_hash *ckpt_hash_create(void)
{
    struct ckpt_hash *hash = aligned_alloc(64, ckpt_round_up(sizeof(*hash), 64));

    if (hash)
        ckpt_hash_reset(hash);
    return hash;
}

void ckpt_hash_destroy(struct ckpt_hash *hash)
{
    free(hash);
}

void ckpt_hash_reset(struct ckpt_hash *hash)
{
    XXH3_128bits_reset(&hash->state);
}

void ckpt_hash_add(struct ckpt_hash *hash, const void *data, size_t size)
{
    XXH3_128bits_update(&hash->state, data, size);
}

static struct ckpt_digest tensor_digest_from(XXH128_hash_t value)
{
    struct ckpt_digest digest;
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, value);
    memcpy(digest.byte, canonical.digest, sizeof(digest.byte));
    return digest;
}

struct ckpt_digest ckpt_hash_end(struct ckpt_hash *hash)
{
    return tensor_digest_from(XXH3_128bits_digest(&hash->state));
}

struct ckpt_digest ckpt_digest_of(const void *data, size_t size)
{
    return tensor_digest_from(XXH3_128bits(data, size));
}
