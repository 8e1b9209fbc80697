/* manifest.c - writes and reads the manifest of a rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/format/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

static const char magic[8] = { 'L', 'S', 'C', 'K', 'M', 'A', 'N', 'I' };
#define VERSION 1
#define FLAG_DRAFT 1u
#define TENSOR_BYTES_MIN (2 + 1 + 1 + 8 + 8 + 16)
#define BLOB_BYTES_MIN (2 + 8)

void manifest_fini(struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->tensors; i++)
        free(manifest->tensor[i].name);
    for (size_t i = 0; i < manifest->blobs; i++) {
        free(manifest->blob[i].name);
        free(manifest->blob[i].data);
    }
    free(manifest->tensor);
    free(manifest->blob);
    free(manifest->crc);
    free(manifest->slice);
    *manifest = (struct manifest){ .step = 0 };
}

static void manifest_tensor_put(const struct ckpt_tensor *tensor, struct buf *out)
{
    buf_put_str(out, tensor->name);
    buf_put_u8(out, tensor->dtype);
    buf_put_u8(out, tensor->dims);
    for (unsigned i = 0; i < tensor->dims; i++) {
        buf_put_u64(out, tensor->shape[i]);
        buf_put_u64(out, tensor->global_shape[i]);
        buf_put_u64(out, tensor->offset[i]);
    }
    buf_put_u64(out, tensor->begin);
    buf_put_u64(out, tensor->end);
    buf_put(out, tensor->digest.byte, sizeof(tensor->digest.byte));
}

uint64_t manifest_slice_bytes(const struct manifest *manifest, const struct replica_slice *slice)
{
    return slice->rows * ckpt_row_bytes(&manifest->tensor[slice->tensor]);
}

static void manifest_slices_put(const struct manifest *manifest, struct buf *out)
{
    buf_put_u64(out, manifest->slices);
    for (size_t i = 0; i < manifest->slices; i++) {
        buf_put_u32(out, manifest->slice[i].tensor);
        buf_put_u64(out, manifest->slice[i].row);
        buf_put_u64(out, manifest->slice[i].rows);
    }
}

void manifest_encode(const struct manifest *manifest, bool draft, struct buf *out)
{
    size_t begin = out->size;

    buf_put(out, magic, sizeof(magic));
    buf_put_u32(out, VERSION);
    buf_put_u32(out, draft ? FLAG_DRAFT : 0);
    buf_put_u64(out, manifest->step);
    buf_put_u64(out, manifest->job);
    buf_put_u32(out, manifest->rank);
    buf_put_u32(out, manifest->world);
    buf_put_u32(out, manifest->group);
    buf_put_u32(out, CKPT_BLOCK);
    buf_put_u64(out, manifest->file_bytes);
    buf_put_u64(out, manifest->data_at);
    buf_put_u64(out, manifest->tensors);
    buf_put_u64(out, manifest->blobs);
    buf_put_u64(out, draft ? 0 : manifest->blocks);
    for (size_t i = 0; i < manifest->tensors; i++)
        manifest_tensor_put(&manifest->tensor[i], out);
    for (size_t i = 0; i < manifest->blobs; i++) {
        buf_put_str(out, manifest->blob[i].name);
        buf_put_u64(out, manifest->blob[i].size);
        buf_put(out, manifest->blob[i].data, manifest->blob[i].size);
    }
    if (draft)
        manifest_slices_put(manifest, out);
    for (size_t i = 0; !draft && i < manifest->blocks; i++)
        buf_put_u32(out, manifest->crc[i]);
    if (!out->failed)
        buf_put_u32(out, crc32c(0, out->data + begin, out->size - begin));
}

/* ---- reading ---- */

static char *manifest_name_get(struct reader *in)
{
    char name[CKPT_NAME_MAX + 1] = "";
    size_t size = reader_get_u16(in);
    const void *text = size <= CKPT_NAME_MAX ? reader_get(in, size) : NULL;

    if (!text || memchr(text, '\0', size))
        return NULL;
    memcpy(name, text, size);
    return ckpt_name_ok(name) ? strdup(name) : NULL;
}

static int manifest_tensor_get(struct reader *in, uint64_t *at, struct ckpt_tensor *tensor,
                               struct err *err)
{
    const void *digest;
    uint64_t bytes = 0;
    int result;

    tensor->dtype = reader_get_u8(in);
    tensor->dims = reader_get_u8(in);
    if (tensor->dims > CKPT_DIMS)
        return err_set(err, -EPROTO, "%u dimensions", tensor->dims);
    for (unsigned i = 0; i < tensor->dims; i++) {
        tensor->shape[i] = reader_get_u64(in);
        tensor->global_shape[i] = reader_get_u64(in);
        tensor->offset[i] = reader_get_u64(in);
    }
    tensor->begin = reader_get_u64(in);
    tensor->end = reader_get_u64(in);
    digest = reader_get(in, sizeof(tensor->digest.byte));
    if (!digest)
        return err_set(err, -EPROTO, "too short");
    memcpy(tensor->digest.byte, digest, sizeof(tensor->digest.byte));
    result = ckpt_tensor_bytes(tensor, &bytes, err);
    if (result < 0)
        return -EPROTO;
    if (tensor->begin != *at || tensor->end < tensor->begin || tensor->end - tensor->begin != bytes)
        return err_set(err, -EPROTO, "is not behind the tensor before it");
    *at = tensor->end;
    return 0;
}

static int manifest_tensors_get(struct reader *in, uint64_t count, struct manifest *ret,
                                struct err *err)
{
    uint64_t at = 0;

    if (count > reader_left(in) / TENSOR_BYTES_MIN)
        return err_set(err, -EPROTO, "too short for its tensors");
    if (!ARRAY_FIT_ZERO(ret->tensor, ret->tensor_room, count + 1))
        return err_nomem(err);
    for (; ret->tensors < count; ret->tensors++) {
        struct ckpt_tensor *tensor = &ret->tensor[ret->tensors];
        int result;

        tensor->name = manifest_name_get(in);
        if (!tensor->name)
            return err_set(err, -EPROTO, "tensor %zu has no usable name", ret->tensors);
        result = manifest_tensor_get(in, &at, tensor, err);
        if (result < 0) {
            err_wrap(err, result, "tensor %s", tensor->name);
            free(TAKE(tensor->name));
            return result;
        }
    }
    return at == ret->file_bytes - ret->data_at
               ? 0
               : err_set(err, -EPROTO, "tensors do not cover the file");
}

static int manifest_blobs_get(struct reader *in, uint64_t count, struct manifest *ret,
                              struct err *err)
{
    uint64_t sum = 0;

    if (count > reader_left(in) / BLOB_BYTES_MIN)
        return err_set(err, -EPROTO, "too short for its blobs");
    if (!ARRAY_FIT_ZERO(ret->blob, ret->blob_room, count + 1))
        return err_nomem(err);
    for (; ret->blobs < count; ret->blobs++) {
        struct ckpt_blob *blob = &ret->blob[ret->blobs];
        CLEAN(free_clean) char *name = manifest_name_get(in);
        uint64_t size = reader_get_u64(in);
        const void *data = size <= CKPT_BLOBS_BYTES_MAX ? reader_get(in, size) : NULL;

        sum += size;
        if (!name || !data || sum > CKPT_BLOBS_BYTES_MAX)
            return err_set(err, -EPROTO, "blob %zu is not valid", ret->blobs);
        blob->data = malloc(size + 1);
        if (!blob->data)
            return err_nomem(err);
        memcpy(blob->data, data, size);
        blob->size = size;
        blob->name = TAKE(name);
    }
    return 0;
}

static bool manifest_slice_ok(const struct manifest *manifest, const struct replica_slice *slice)
{
    const struct ckpt_tensor *tensor;

    if (slice->tensor >= manifest->tensors || !slice->rows)
        return false;
    tensor = &manifest->tensor[slice->tensor];
    if (!tensor->dims)
        return slice->row == 0 && slice->rows == 1;
    return slice->row <= tensor->global_shape[0] &&
           slice->rows <= tensor->global_shape[0] - slice->row; /* so its bytes can be counted */
}

static int manifest_slices_get(struct reader *in, struct manifest *ret, struct err *err)
{
    uint64_t count = reader_get_u64(in), sum = 0;

    if (in->bad || reader_left(in) % MANIFEST_SLICE_BYTES ||
        count != reader_left(in) / MANIFEST_SLICE_BYTES)
        return err_set(err, -EPROTO, "its length is not right");
    if (!ARRAY_FIT_ZERO(ret->slice, ret->slice_room, count + 1))
        return err_nomem(err);
    for (; ret->slices < count; ret->slices++) {
        struct replica_slice *slice = &ret->slice[ret->slices];

        slice->tensor = reader_get_u32(in);
        slice->row = reader_get_u64(in);
        slice->rows = reader_get_u64(in);
        if (!manifest_slice_ok(ret, slice) ||
            __builtin_add_overflow(sum, manifest_slice_bytes(ret, slice), &sum) ||
            sum > UINT64_C(1) << 61)
            return err_set(err, -EPROTO, "slice %zu is not valid", ret->slices);
    }
    return 0;
}

static int manifest_crcs_get(struct reader *in, uint64_t count, struct manifest *ret,
                             struct err *err)
{
    if (reader_left(in) % 4 || count != reader_left(in) / 4)
        return err_set(err, -EPROTO, "its length is not right");
    ret->crc = malloc((count + 1) * sizeof(*ret->crc));
    if (!ret->crc)
        return err_nomem(err);
    for (; ret->blocks < count; ret->blocks++)
        ret->crc[ret->blocks] = reader_get_u32(in);
    return 0;
}

static int manifest_get(struct reader *in, bool draft, struct manifest *ret, struct err *err)
{
    uint64_t tensors, blobs, blocks;
    uint32_t block;
    int result;

    ret->step = reader_get_u64(in);
    ret->job = reader_get_u64(in);
    ret->rank = reader_get_u32(in);
    ret->world = reader_get_u32(in);
    ret->group = reader_get_u32(in);
    block = reader_get_u32(in);
    ret->file_bytes = reader_get_u64(in);
    ret->data_at = reader_get_u64(in);
    tensors = reader_get_u64(in);
    blobs = reader_get_u64(in);
    blocks = reader_get_u64(in);
    if (in->bad || block != CKPT_BLOCK)
        return err_set(err, -EPROTO, in->bad ? "too short" : "unknown block size");
    if (ret->world > CKPT_RANKS_MAX || ret->rank >= ret->world || !ret->group ||
        ret->group > ret->world || ret->step == UINT64_MAX)
        return err_set(err, -EPROTO, "rank %u of %u is not valid", ret->rank, ret->world);
    if (ret->data_at > ret->file_bytes || ret->data_at < 8 || ret->file_bytes > UINT64_C(1) << 62 ||
        blocks != (draft ? 0 : ckpt_blocks(ret->file_bytes)))
        return err_set(err, -EPROTO, "sizes contradict each other");
    result = manifest_tensors_get(in, tensors, ret, err);
    if (result == 0)
        result = manifest_blobs_get(in, blobs, ret, err);
    if (result == 0)
        result =
            draft ? manifest_slices_get(in, ret, err) : manifest_crcs_get(in, blocks, ret, err);
    return result == 0 && in->bad ? err_set(err, -EPROTO, "too short") : result;
}

int manifest_parse(const void *data, size_t size, bool draft, struct manifest *ret, struct err *err)
{
    struct reader in = reader_of(data, size < 4 ? 0 : size - 4),
                  last =
                      reader_of((const char *)data + (size < 4 ? 0 : size - 4), size < 4 ? 0 : 4);
    struct manifest made = { .step = 0 };
    const void *start = reader_get(&in, sizeof(magic));
    uint32_t version = reader_get_u32(&in), flags = reader_get_u32(&in);
    int result;

    if (in.bad || memcmp(start, magic, sizeof(magic)) != 0)
        return err_set(err, -EPROTO, "not a manifest");
    if (version != VERSION)
        return err_set(err, -EPROTO, "manifest of version %u, this program reads %d", version,
                       VERSION);
    if (reader_get_u32(&last) != crc32c(0, data, size - 4))
        return err_set(err, -EPROTO, "checksum of the manifest is wrong");
    if (flags != (draft ? FLAG_DRAFT : 0))
        return err_set(err, -EPROTO, "unknown flags");
    result = manifest_get(&in, draft, &made, err);
    if (result < 0)
        manifest_fini(&made);
    else
        *ret = made;
    return result;
}
