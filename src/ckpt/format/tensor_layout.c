/* tensor_layout.c - lays tensors out as a safetensors file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/format/tensor_layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

#define HEADER_MAX 100000000 /* what readers of safetensors accept */

static void tensor_text_put(struct buf *out, const char *text)
{
    buf_put(out, text, strlen(text));
}

/* Bytes as they stand inside a JSON string. */
static void tensor_escaped_put(struct buf *out, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char code[8];

        if (text[i] == '"' || text[i] == '\\') {
            buf_put_u8(out, '\\');
            buf_put_u8(out, (uint8_t)text[i]);
        } else if ((unsigned char)text[i] < 0x20) {
            snprintf(code, sizeof(code), "\\u%04x", (unsigned)text[i]);
            tensor_text_put(out, code);
        } else {
            buf_put_u8(out, (uint8_t)text[i]);
        }
    }
}

void layout_name_put(struct buf *out, const char *name)
{
    buf_put_u8(out, '"');
    tensor_escaped_put(out, name, strlen(name));
    buf_put_u8(out, '"');
}

static void tensor_numbers_put(struct buf *out, const uint64_t *number, unsigned count,
                               unsigned more)
{
    char text[32];

    buf_put_u8(out, '[');
    for (unsigned i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "%s%" PRIu64, i ? "," : "", number[i]);
        tensor_text_put(out, text);
    }
    if (more) { /* the bytes of an element, as one more dimension */
        snprintf(text, sizeof(text), "%s%u", count ? "," : "", more);
        tensor_text_put(out, text);
    }
    buf_put_u8(out, ']');
}

/* A type that is stored as bytes has its elements' bytes as last dimension, unless they are single bytes. */
static unsigned tensor_more_of(const struct ckpt_tensor *tensor)
{
    const struct ckpt_dtype *dtype = ckpt_dtype(tensor->dtype);

    return dtype->portable || dtype->bytes == 1 ? 0 : dtype->bytes;
}

static void tensor_sharding_put(const struct manifest *manifest, struct buf *out)
{
    static const uint64_t zero = 0;
    struct buf inner = { .data = NULL };

    buf_put_u8(&inner, '{');
    for (size_t i = 0; i < manifest->tensors; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];
        uint64_t offset[CKPT_DIMS + 1] = { 0 };
        unsigned dims = tensor->dims + (tensor_more_of(tensor) > 0);

        memcpy(offset, tensor->offset, tensor->dims * sizeof(*offset));
        if (i)
            buf_put_u8(&inner, ',');
        layout_name_put(&inner, tensor->name);
        tensor_text_put(&inner, ":{\"saved_offsets\":");
        tensor_numbers_put(&inner, dims ? offset : &zero, dims, 0);
        buf_put_u8(&inner, '}');
    }
    buf_put_u8(&inner, '}');
    if (inner.failed)
        out->failed = true;
    else
        tensor_escaped_put(out, (const char *)inner.data, inner.size);
    buf_fini(&inner);
}

static void tensor_dtypes_put(const struct manifest *manifest, struct buf *out)
{
    struct buf inner = { .data = NULL };

    buf_put_u8(&inner, '{');
    for (size_t i = 0; i < manifest->tensors; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];

        if (ckpt_dtype(tensor->dtype)->portable)
            continue;
        if (inner.size > 1)
            buf_put_u8(&inner, ',');
        layout_name_put(&inner, tensor->name);
        tensor_text_put(&inner, ":\"");
        tensor_text_put(&inner, ckpt_dtype(tensor->dtype)->name);
        buf_put_u8(&inner, '"');
    }
    buf_put_u8(&inner, '}');
    if (inner.failed)
        out->failed = true;
    else
        tensor_escaped_put(out, (const char *)inner.data, inner.size);
    buf_fini(&inner);
}

static void tensor_json_put(const struct manifest *manifest, bool plain, struct buf *out)
{
    tensor_text_put(out, "{\"__metadata__\":{\"format\":\"pt\"");
    if (!plain) {
        tensor_text_put(out, ",\"DCP_VERSION\":\"1.0\",\"DCP_SHARDING_INFO\":\"");
        tensor_sharding_put(manifest, out);
        tensor_text_put(out, "\",\"LOCKSTEP_DTYPES\":\"");
        tensor_dtypes_put(manifest, out);
        buf_put_u8(out, '"');
    }
    buf_put_u8(out, '}');
    for (size_t i = 0; i < manifest->tensors; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];
        const struct ckpt_dtype *dtype = ckpt_dtype(tensor->dtype);

        buf_put_u8(out, ',');
        layout_name_put(out, tensor->name);
        tensor_text_put(out, ":{\"dtype\":\"");
        tensor_text_put(out, plain || dtype->portable ? dtype->name : "U8");
        tensor_text_put(out, "\",\"shape\":");
        tensor_numbers_put(out, tensor->shape, tensor->dims, plain ? 0 : tensor_more_of(tensor));
        tensor_text_put(out, ",\"data_offsets\":");
        tensor_numbers_put(out, (const uint64_t[]){ tensor->begin, tensor->end }, 2, 0);
        buf_put_u8(out, '}');
    }
    buf_put_u8(out, '}');
}

/* ---- order ---- */

struct tensor_place {
    struct ckpt_tensor tensor;
    size_t from;
};

static int place_compare(const void *a, const void *b)
{
    const struct tensor_place *left = a, *right = b;
    int left_bytes = ckpt_dtype(left->tensor.dtype)->bytes,
        right_bytes = ckpt_dtype(right->tensor.dtype)->bytes;

    if (left_bytes != right_bytes)
        return left_bytes < right_bytes ? 1 : -1;
    return strcmp(left->tensor.name, right->tensor.name);
}

static int tensor_name_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int tensor_names_check(const struct manifest *manifest, struct err *err)
{
    CLEAN(free_clean) const char **name = calloc(manifest->tensors + 1, sizeof(*name));

    if (!name)
        return err_nomem(err);
    for (size_t i = 0; i < manifest->tensors; i++)
        name[i] = manifest->tensor[i].name;
    qsort(name, manifest->tensors, sizeof(*name), tensor_name_compare);
    for (size_t i = 1; i < manifest->tensors; i++) {
        if (strcmp(name[i - 1], name[i]) == 0)
            return err_set(err, -EEXIST, "two tensors have the name %s", name[i]);
    }
    return 0;
}

static int tensor_layout_make(struct manifest *manifest, bool plain, size_t *order,
                              struct buf *header, struct err *err)
{
    CLEAN(free_clean) struct tensor_place *place = calloc(manifest->tensors + 1, sizeof(*place));
    size_t start = header->size;
    uint64_t at = 0, bytes, json;
    int result = tensor_names_check(manifest, err);

    if (!place)
        return err_nomem(err);
    for (size_t i = 0; result == 0 && i < manifest->tensors; i++) {
        place[i] = (struct tensor_place){ manifest->tensor[i], i };
        result = ckpt_tensor_bytes(&manifest->tensor[i], &bytes, err);
        if (result < 0)
            err_wrap(err, result, "tensor %s", manifest->tensor[i].name);
    }
    if (result < 0)
        return result;
    qsort(place, manifest->tensors, sizeof(*place), place_compare);
    for (size_t i = 0; i < manifest->tensors; i++) {
        struct ckpt_tensor *tensor = &manifest->tensor[i];

        *tensor = place[i].tensor;
        order[i] = place[i].from;
        ckpt_tensor_bytes(tensor, &bytes, NULL);
        tensor->begin = at;
        if (__builtin_add_overflow(at, bytes, &at) || at > UINT64_C(1) << 61)
            return err_set(err, -EINVAL, "the tensors are too large together");
        tensor->end = at;
    }
    buf_put_u64(header, 0);
    tensor_json_put(manifest, plain, header);
    while (!header->failed && (header->size - start) % CKPT_PAGE)
        buf_put_u8(header, ' ');
    if (header->failed)
        return err_nomem(err);
    manifest->data_at = header->size - start;
    manifest->file_bytes = manifest->data_at + at;
    json = manifest->data_at - 8;
    if (json > HEADER_MAX)
        return err_set(err, -EINVAL, "too many tensors: the header would have %" PRIu64 " bytes",
                       json);
    for (int i = 0; i < 8; i++)
        header->data[start + (size_t)i] = (unsigned char)(json >> (8 * i));
    return 0;
}

int layout_make(struct manifest *manifest, size_t *order, struct buf *header, struct err *err)
{
    return tensor_layout_make(manifest, false, order, header, err);
}

int layout_make_plain(struct manifest *manifest, size_t *order, struct buf *header, struct err *err)
{
    return tensor_layout_make(manifest, true, order, header, err);
}
