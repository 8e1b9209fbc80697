/* fuzz-shard.c - a checkpoint's shard from a disk that lies.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "core/clean.h"
#include "lab/trainer/shard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is taken must be written again as the very same bytes: nothing was made up. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEAN(buf_fini) struct buf image = { 0 };
    CLEAN(free_clean) float *value = NULL;
    struct shard shard;
    const void *values;
    struct err err;

    if (shard_get(data, size, &shard, &values, &err) < 0)
        return 0;
    value = malloc(shard.count * sizeof(*value) + 1);
    if (!value)
        return 0;
    memcpy(value, values, shard.count * sizeof(*value));
    shard.value = value;
    shard_put(&image, &shard);
    if (image.failed || image.size != size || memcmp(image.data, data, size) != 0)
        abort();
    return 0;
}
