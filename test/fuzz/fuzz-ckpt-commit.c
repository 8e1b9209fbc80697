/* fuzz-ckpt-commit.c - the file COMMIT: refused with a reason, or written again as it was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/format/commit.h"
#include "core/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

static void feed(const uint8_t *data, size_t size)
{
    struct commit commit = { .step = 0 };
    struct buf again = { .data = NULL };
    struct err err = { "" };

    if (commit_parse(data, size, &commit, &err) < 0) {
        must(err.text[0] && !commit.rank);
        return;
    }
    for (uint32_t i = 0; i < commit.group; i++)
        must(commit.rank[i].rank < commit.world);
    commit_encode(&commit, &again);
    must(again.failed || (again.size == size && memcmp(again.data, data, size) == 0));
    buf_fini(&again);
    commit_fini(&commit);
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
