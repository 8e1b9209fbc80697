/* safetensors.c - reads and checks the header of a safetensors file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/seal/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/text.h"
#include "read/jsontext.h"

#define TREE_BYTES_MAX ((size_t)1 << 30)

static const struct dtype {
    const char *name;
    unsigned bits;
    enum floats floats;
} dtypes[] = {
    { "BOOL", 8, FLOATS_NONE },        { "U8", 8, FLOATS_NONE },
    { "I8", 8, FLOATS_NONE },          { "I16", 16, FLOATS_NONE },
    { "U16", 16, FLOATS_NONE },        { "I32", 32, FLOATS_NONE },
    { "U32", 32, FLOATS_NONE },        { "I64", 64, FLOATS_NONE },
    { "U64", 64, FLOATS_NONE },        { "F4", 4, FLOATS_NONE },
    { "F6_E2M3", 6, FLOATS_NONE },     { "F6_E3M2", 6, FLOATS_NONE },
    { "F8_E5M2", 8, FLOATS_E5M2 },     { "F8_E4M3", 8, FLOATS_E4M3 },
    { "F8_E5M2FNUZ", 8, FLOATS_FNUZ }, { "F8_E4M3FNUZ", 8, FLOATS_FNUZ },
    { "F8_E8M0", 8, FLOATS_E8M0 },     { "F16", 16, FLOATS_F16 },
    { "BF16", 16, FLOATS_BF16 },       { "F32", 32, FLOATS_F32 },
    { "F64", 64, FLOATS_F64 },         { "C64", 64, FLOATS_F32 },
};

void safetensors_fini(struct safetensors *file)
{
    free(file->text);
    free(file->tensor);
    *file = (struct safetensors){ .text = NULL };
}

int safetensors_header(const unsigned char first[static 8], uint64_t file_bytes, uint64_t *ret,
                       struct err *err)
{
    uint64_t size = 0;

    for (int i = 0; i < 8; i++)
        size |= (uint64_t)first[i] << (8 * i);
    if (size > SAFETENSORS_HEADER_MAX)
        return err_set(err, -EPROTO, "a header of %" PRIu64 " bytes, at most %u are allowed", size,
                       SAFETENSORS_HEADER_MAX);
    if (file_bytes < 8 || size > file_bytes - 8)
        return err_set(err, -EPROTO, "truncated inside its header of %" PRIu64 " bytes", size);
    *ret = size;
    return 0;
}

static const struct dtype *dtype_of(const struct value_tree *tree, uint32_t node)
{
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        if (value_text_is(tree, node, dtypes[i].name))
            return &dtypes[i];
    }
    return NULL;
}

static bool safetensors_number_get(const struct value_tree *tree, uint32_t node, uint64_t *ret)
{
    int64_t value;

    if (!value_is(tree, node, VALUE_INT) || !value_integer(tree, node, &value) || value < 0)
        return false;
    *ret = (uint64_t)value;
    return true;
}

/* Whether the shape has this many bytes. */
static bool safetensors_shape_fits(const struct value_tree *tree, uint32_t shape, unsigned bits,
                                   uint64_t bytes)
{
    uint64_t count = 1, length, total;

    for (uint32_t cell = value_first(tree, shape); cell != VALUE_NIL;
         cell = tree->cell[cell].next) {
        if (!safetensors_number_get(tree, tree->cell[cell].node, &length) ||
            __builtin_mul_overflow(count, length, &count))
            return false;
    }
    return !__builtin_mul_overflow(count, bits, &total) && total % 8 == 0 && total / 8 == bytes;
}

static int safetensors_tensor_get(const struct value_tree *tree, uint32_t node,
                                  struct safetensors *ret, struct safetensors_tensor *tensor,
                                  struct err *err)
{
    uint32_t type = value_get(tree, node, "dtype"), shape = value_get(tree, node, "shape"),
             place = value_get(tree, node, "data_offsets");
    const struct dtype *dtype = dtype_of(tree, type);

    if (!value_is(tree, node, VALUE_DICT) || !value_is(tree, type, VALUE_TEXT) ||
        !value_is_list(tree, shape) || !value_is_list(tree, place) ||
        tree->node[place].count != 2 ||
        !safetensors_number_get(tree, value_item(tree, place, 0), &tensor->begin) ||
        !safetensors_number_get(tree, value_item(tree, place, 1), &tensor->end) ||
        tensor->end < tensor->begin)
        return err_set(err, -EPROTO, "dtype, shape or data_offsets are not valid");
    if (dtype && !safetensors_shape_fits(tree, shape, dtype->bits, tensor->end - tensor->begin))
        return err_set(err, -EPROTO, "its shape does not have %" PRIu64 " bytes",
                       tensor->end - tensor->begin);
    tensor->floats = dtype ? dtype->floats : FLOATS_NONE;
    ret->unknown_type |= !dtype;
    return 0;
}

static int safetensors_tensors_get(const struct value_tree *tree, struct safetensors *ret,
                                   struct err *err)
{
    uint32_t cell = value_first(tree, tree->root);

    while (cell != VALUE_NIL) {
        const struct value_node *key = &tree->node[tree->cell[cell].node];
        uint32_t value = tree->cell[cell].next;
        struct safetensors_tensor tensor = { .name = key->text, .name_bytes = key->count };
        int result;

        cell = tree->cell[value].next;
        if (key->count == 12 && memcmp(key->text, "__metadata__", 12) == 0)
            continue;
        result = safetensors_tensor_get(tree, tree->cell[value].node, ret, &tensor, err);
        if (result < 0) {
            char name[120];

            return err_wrap(err, result, "tensor %s",
                            text_shorten(tensor.name, tensor.name_bytes, name, sizeof(name)));
        }
        if (!ARRAY_FIT(ret->tensor, ret->room, ret->tensors + 1))
            return err_nomem(err);
        ret->tensor[ret->tensors++] = tensor;
    }
    return 0;
}

static int safetensors_name_compare(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;
    int order = memcmp(left->name, right->name, MIN(left->name_bytes, right->name_bytes));

    return order ? order
                 : (left->name_bytes > right->name_bytes) - (left->name_bytes < right->name_bytes);
}

static int safetensors_place_compare(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;

    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

static int safetensors_tensors_check(struct safetensors *ret, uint64_t data_at, uint64_t file_bytes,
                                     struct err *err)
{
    uint64_t at = 0;
    size_t count = ret->tensors;

    if (count)
        qsort(ret->tensor, count, sizeof(*ret->tensor), safetensors_name_compare);
    for (size_t i = 1; i < count; i++) {
        if (safetensors_name_compare(&ret->tensor[i - 1], &ret->tensor[i]) == 0)
            return err_set(err, -EPROTO, "two tensors have one name");
    }
    if (count)
        qsort(ret->tensor, count, sizeof(*ret->tensor), safetensors_place_compare);
    for (size_t i = 0; i < count; i++) {
        if (ret->tensor[i].begin != at)
            return err_set(err, -EPROTO, "tensors overlap or leave a hole at byte %" PRIu64, at);
        at = ret->tensor[i].end;
    }
    if (at != file_bytes - data_at)
        return err_set(
            err, -EPROTO, "%s: has %" PRIu64 " bytes of tensors, its header has %" PRIu64,
            at > file_bytes - data_at ? "truncated" : "too long", file_bytes - data_at, at);
    for (size_t i = 0; i < count; i++) {
        ret->tensor[i].begin += data_at;
        ret->tensor[i].end += data_at;
    }
    return 0;
}

int safetensors_parse(char *text, size_t bytes, uint64_t file_bytes, struct safetensors *ret,
                      struct err *err)
{
    struct budget budget = { .limit = TREE_BYTES_MAX };
    struct value_tree tree = { .budget = &budget };
    struct safetensors made = { .text = text };
    int result = jsontext_read(text, bytes, &tree, err);

    if (result < 0)
        err_wrap(err, result, "header");
    else if (!value_is(&tree, tree.root, VALUE_DICT))
        result = err_set(err, -EPROTO, "header is not a JSON object");
    else
        result = safetensors_tensors_get(&tree, &made, err);
    if (result == 0)
        result = safetensors_tensors_check(&made, 8 + bytes, file_bytes, err);
    value_fini(&tree);
    if (result < 0)
        safetensors_fini(&made);
    else
        *ret = made;
    return result == -EFBIG ? -EPROTO : result;
}
