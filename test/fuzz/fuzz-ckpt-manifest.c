/* fuzz-ckpt-manifest.c - the manifest of a rank, as a file and as a draft: refused with a reason, or written again as it was.
 *
 * The checksum at the end is made right first, so that what lies behind it is reached.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/format/manifest.h"
#include "core/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void feed(const uint8_t *data, size_t size, bool draft)
{
    struct manifest manifest = { .step = 0 };
    struct buf again = { .data = NULL };
    struct err err = { "" };

    if (manifest_parse(data, size, draft, &manifest, &err) < 0) {
        must(err.text[0] && !manifest.tensor);
        return;
    }
    for (size_t i = 0; i < manifest.tensors; i++)
        must(manifest.tensor[i].end <= manifest.file_bytes - manifest.data_at);
    must(draft || manifest.blocks == ckpt_blocks(manifest.file_bytes));
    manifest_encode(&manifest, draft, &again);
    must(again.failed || (again.size == size && memcmp(again.data, data, size) == 0));
    buf_fini(&again);
    manifest_fini(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);

    must(copy != NULL);
    memcpy(copy, data, size);
    feed(copy, size, false);
    if (size >= 4) {
        uint32_t crc = crc32c(0, copy, size - 4);

        for (int i = 0; i < 4; i++)
            copy[size - 4 + (size_t)i] = (uint8_t)(crc >> (8 * i));
    }
    feed(copy, size, false);
    feed(copy, size, true);
    free(copy);
    return 0;
}
