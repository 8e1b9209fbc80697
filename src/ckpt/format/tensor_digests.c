/* tensor_digests.c - digests tensors whose bytes arrive in order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/format/tensor_digests.h"

#include "core/clean.h"

int tensor_digests_open(struct tensor_digests *digests, struct err *err)
{
    digests->tensor = 0;
    digests->hash = ckpt_hash_create();
    return digests->hash ? 0 : err_nomem(err);
}

void tensor_digests_close(struct tensor_digests *digests)
{
    ckpt_hash_destroy(digests->hash);
    digests->hash = NULL;
}

int tensor_digests_add(struct tensor_digests *digests, uint64_t at, const unsigned char *data,
                       size_t size, struct err *err)
{
    const struct manifest *manifest = digests->manifest;
    size_t head = at < manifest->data_at ? (size_t)MIN(manifest->data_at - at, size) : 0;

    if (head == size && at + size < manifest->file_bytes)
        return 0;
    at += head - manifest->data_at; /* from here on in the data section */
    data += head;
    size -= head;
    while (digests->tensor < manifest->tensors) {
        const struct ckpt_tensor *tensor = &manifest->tensor[digests->tensor];
        size_t part = (size_t)MIN(tensor->end - at, size);
        struct ckpt_digest digest;
        int result;

        ckpt_hash_add(digests->hash, data, part);
        at += part;
        data += part;
        size -= part;
        if (at < tensor->end)
            return 0;
        digest = ckpt_hash_end(digests->hash);
        ckpt_hash_reset(digests->hash);
        result = digests->each(digests->ctx, digests->tensor++, &digest, err);
        if (result < 0)
            return result;
    }
    return 0;
}
