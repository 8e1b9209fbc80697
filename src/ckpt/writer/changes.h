/* changes.h - which tensors a save has that the save before did not have.
 *
 * Programs have saved the same bytes for days, because the list of their tensors pointed to memory that was no longer trained.  Every
 * checksum of such a point is right.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_WRITER_CHANGES_H
#define LOCKSTEP_CKPT_WRITER_CHANGES_H

#include "ckpt/format/manifest.h"
#include "core/map.h"

struct changes {
    struct map digests; /* of the save before: hash of a name, to the first bytes of its digest */
    uint64_t step;      /* of it */
    bool known;
    /* Of the last save: tensors with elements, and of them the optimizer's that are no single number: its moments.  Their
     * names begin with "optim".
     */
    uint64_t tensors, unchanged, moments, moments_unchanged;
};

/* After the digests of a save are known. */
void changes_take(struct changes *changes, const struct manifest *manifest);
void changes_fini(struct changes *changes);

#endif
