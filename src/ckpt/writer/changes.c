/* changes.c - compares the digests of a save with those of the save before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/writer/changes.h"

#include <string.h>

#include "core/hash.h"

static uint64_t changes_digest(const struct ckpt_tensor *tensor)
{
    uint64_t value;

    memcpy(&value, tensor->digest.byte, sizeof(value));
    return value;
}

/* Counters of steps are left out: they change whatever the optimizer does. */
static bool changes_is_moment(const struct ckpt_tensor *tensor)
{
    const struct ckpt_dtype *dtype = ckpt_dtype(tensor->dtype);

    return strncmp(tensor->name, "optim", 5) == 0 && tensor->dims && dtype &&
           tensor->end - tensor->begin > dtype->bytes;
}

void changes_take(struct changes *changes, const struct manifest *manifest)
{
    changes->tensors = changes->unchanged = changes->moments = changes->moments_unchanged = 0;
    for (size_t i = 0; i < manifest->tensors; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];
        uint64_t digest = changes_digest(tensor), *before;
        bool moment = changes_is_moment(tensor);

        if (tensor->begin == tensor->end)
            continue;
        before = map_put(&changes->digests, hash64(0, tensor->name, strlen(tensor->name)),
                         ~digest); /* without memory, or new: counts as changed */
        changes->tensors++;
        changes->moments += moment;
        if (!before)
            continue;
        changes->unchanged += *before == digest;
        changes->moments_unchanged += moment && *before == digest;
        *before = digest;
    }
    changes->step = manifest->step;
    changes->known = true;
}

void changes_fini(struct changes *changes)
{
    map_fini(&changes->digests);
}
