/* replica_slices.c - this rank's copies of slices that other ranks save.
 *
 * Each rank saves one slice of a replicated tensor.  If replicas have drifted apart, such a point is a mixture that no rank ever
 * trained, and every checksum of it is right.  So each rank also copies the slice of another replica, another one from step to step;
 * the writer digests it and compares it with what that rank has saved.  Every byte of a point is thus compared with one other replica, for
 * the price of one more copy of a slice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/engine_private.h"
#include "ckpt/store/threads.h"
#include "core/clean.h"
#include "core/hash.h"

#define PIECE (UINT64_C(4) << 20)

/* Of the ranks that save into this directory, since only their files can be compared here.  Returns false if there is no other. */
static bool replica_other(const struct lockstep_ckpt *ckpt, const struct engine_tensor *tensor,
                          uint64_t step, uint32_t *ret)
{
    uint32_t others = MIN(tensor->replicas, ckpt->settings.group) - 1;

    if (!tensor->compared || !others)
        return false;
    *ret = (tensor->replica + 1 + (uint32_t)(hash64_u64(0, step) % others)) % tensor->replicas;
    return true;
}

static bool replica_slice_of(const struct lockstep_ckpt *ckpt, size_t i, uint64_t step,
                             struct replica_slice *ret)
{
    const struct engine_tensor *tensor = &ckpt->tensor[ckpt->order[i]];
    uint64_t first = 0, end = 1;
    uint32_t other;

    if (!replica_other(ckpt, tensor, step, &other))
        return false;
    if (tensor->part.dims)
        engine_replica_rows(tensor, other, &first, &end);
    *ret = (struct replica_slice){ .tensor = (uint32_t)i,
                                   .row = first + (tensor->part.dims ? tensor->part.offset[0] : 0),
                                   .rows = end - first };
    return end > first && ckpt_row_bytes(&tensor->part);
}

int replica_slices_choose(struct lockstep_ckpt *ckpt, uint64_t step, struct err *err)
{
    struct manifest *layout = &ckpt->layout;

    layout->slices = 0;
    for (size_t i = 0; !ckpt->uncompared && i < layout->tensors; i++) {
        struct replica_slice slice;

        if (!replica_slice_of(ckpt, i, step, &slice))
            continue;
        if (!ARRAY_FIT(layout->slice, layout->slice_room, layout->slices + 1))
            return err_nomem(err);
        layout->slice[layout->slices++] = slice;
    }
    ckpt->status.compared = layout->slices;
    return 0;
}

uint64_t replica_slices_room(const struct lockstep_ckpt *ckpt)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < ckpt->tensors; i++) {
        const struct engine_tensor *tensor = &ckpt->tensor[i];
        uint64_t rows = tensor->part.dims ? tensor->part.shape[0] : 1;
        uint32_t other;

        if (replica_other(ckpt, tensor, 0, &other))
            sum += (rows / tensor->replicas + 1) * ckpt_row_bytes(&tensor->part);
    }
    return sum;
}

/* ---- copies ---- */

static const unsigned char *replica_slice_from(const struct lockstep_ckpt *ckpt,
                                               const struct replica_slice *slice)
{
    const struct engine_tensor *tensor = &ckpt->tensor[ckpt->order[slice->tensor]];
    uint64_t first = tensor->part.dims ? tensor->part.offset[0] : 0;

    return tensor->data + (slice->row - first) * ckpt_row_bytes(&tensor->part);
}

struct slices_copy {
    const struct lockstep_ckpt *ckpt;
    unsigned char *to;
    _Atomic uint64_t next;
};

static void *slices_copy_run(void *ctx)
{
    struct slices_copy *copy = ctx;
    const struct lockstep_ckpt *ckpt = copy->ckpt;
    uint64_t mine = atomic_fetch_add(&copy->next, PIECE), at = 0;

    for (size_t i = 0; i < ckpt->layout.slices; i++) {
        const struct replica_slice *slice = &ckpt->layout.slice[i];
        uint64_t end = at + manifest_slice_bytes(&ckpt->layout, slice);
        bool here = ckpt->tensor[ckpt->order[slice->tensor]].device == LOCKSTEP_CKPT_CPU;

        while (mine < end) { /* a piece may reach into the slices behind this one */
            uint64_t from = MAX(mine, at), to = MIN(mine + PIECE, end);

            if (here)
                memcpy(copy->to + from, replica_slice_from(ckpt, slice) + (from - at), to - from);
            if (mine + PIECE > end)
                break;
            mine = atomic_fetch_add(&copy->next, PIECE);
        }
        at = end;
    }
    return NULL;
}

static uint64_t replica_slices_bytes(const struct manifest *layout)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < layout->slices; i++)
        sum += manifest_slice_bytes(layout, &layout->slice[i]);
    return sum;
}

void replica_slices_copy(struct lockstep_ckpt *ckpt, unsigned image, unsigned threads)
{
    struct slices_copy copy = { .ckpt = ckpt };
    uint64_t bytes = replica_slices_bytes(&ckpt->layout);

    copy.to = arena_image(&ckpt->arena, image) + manifest_slices_at(&ckpt->layout);
    if (bytes)
        threads_run((unsigned)MIN(threads, bytes / (8 * PIECE) + 1), slices_copy_run, &copy);
}

int replica_slices_device_copy(struct lockstep_ckpt *ckpt, unsigned image, bool later,
                               struct err *err)
{
    unsigned char *to = arena_image(&ckpt->arena, image) + manifest_slices_at(&ckpt->layout);
    int result = 0;

    for (size_t i = 0; result == 0 && i < ckpt->layout.slices; i++) {
        const struct replica_slice *slice = &ckpt->layout.slice[i];
        const struct engine_tensor *tensor = &ckpt->tensor[ckpt->order[slice->tensor]];
        uint64_t bytes = manifest_slice_bytes(&ckpt->layout, slice);

        if (tensor->device == LOCKSTEP_CKPT_CUDA && tensor->later == later)
            result =
                copier_copy_out(&ckpt->copier, tensor->device_index, to,
                                (uint64_t)(uintptr_t)replica_slice_from(ckpt, slice), bytes, err);
        if (result < 0)
            err_wrap(err, result, "tensor %s", tensor->part.name);
        to += bytes;
    }
    return result;
}
