/* fuzz-ckpt-seal.c - the file lockstep.seal: refused with a reason, or written again as it was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/seal/seal.h"
#include "core/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void feed(const uint8_t *data, size_t size)
{
    struct seal seal = { .step = 0 };
    struct buf again = { .data = NULL };
    struct err err = { "" };

    if (seal_parse(data, size, &seal, &err) < 0) {
        must(err.text[0] && !seal.file);
        return;
    }
    for (size_t i = 0; i < seal.files; i++)
        must(seal_path_ok(seal.file[i].path));
    must(seal_compare(&seal, &seal, true, &err) == 0);
    seal_encode(&seal, &again);
    must(again.failed || (again.size == size && memcmp(again.data, data, size) == 0));
    buf_fini(&again);
    seal_fini(&seal);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);

    must(copy != NULL);
    memcpy(copy, data, size);
    feed(copy, size);
    if (size >= 4) {
        uint32_t crc = crc32c(0, copy, size - 4);

        for (int i = 0; i < 4; i++)
            copy[size - 4 + (size_t)i] = (uint8_t)(crc >> (8 * i));
    }
    feed(copy, size);
    free(copy);
    return 0;
}
