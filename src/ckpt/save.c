/* save.c - copies the tensors into an image and hands it to the writer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/engine_private.h"
#include "ckpt/format/tensor_layout.h"
#include "ckpt/store/held.h"
#include "ckpt/store/point.h"
#include "ckpt/store/threads.h"
#include "core/clean.h"
#include "core/time.h"

#define PIECE (UINT64_C(4) << 20) /* that a thread copies at a time */
#define COPIERS_MAX 8
#define HELD_LOOKS 50
#define HELD_LOOK_MS 20
#define LOOK_NS (100 * NS_PER_MS) /* for marks that other programs make */

/* ---- layout ---- */

static void save_layout_drop(struct lockstep_ckpt *ckpt)
{
    free(ckpt->layout.tensor);
    free(ckpt->layout.slice);
    free(ckpt->order);
    ckpt->order = NULL;
    ckpt->layout = (struct manifest){ .step = 0 };
    ckpt->header.size = 0;
    ckpt->laid_out = false;
}

static int save_layout_build(struct lockstep_ckpt *ckpt, struct err *err)
{
    struct manifest *layout = &ckpt->layout;

    save_layout_drop(ckpt);
    if (!ARRAY_FIT_ZERO(layout->tensor, layout->tensor_room, ckpt->tensors + 1))
        return err_nomem(err);
    ckpt->order = calloc(ckpt->tensors + 1, sizeof(*ckpt->order));
    if (!ckpt->order)
        return err_nomem(err);
    for (size_t i = 0; i < ckpt->tensors; i++) {
        layout->tensor[i] = ckpt->tensor[i].saved;
        layout->tensor[i].name = ckpt->tensor[i].part.name;
    }
    layout->tensors = ckpt->tensors;
    layout->rank = ckpt->settings.rank;
    layout->world = ckpt->settings.world;
    layout->group = ckpt->settings.group;
    layout->job = ckpt->settings.job;
    return layout_make(layout, ckpt->order, &ckpt->header, err);
}

/* Bytes of the draft, blobs of any size included. */
static uint64_t save_draft_room(const struct lockstep_ckpt *ckpt, struct err *err)
{
    struct buf bytes = { .data = NULL };
    uint64_t size;

    manifest_encode(&ckpt->layout, true, &bytes);
    size = bytes.size;
    if (bytes.failed)
        err_nomem(err);
    buf_fini(&bytes);
    return size + 2 * (uint64_t)CKPT_BLOBS_BYTES_MAX + ckpt->tensors * MANIFEST_SLICE_BYTES;
}

static bool save_images_busy(const struct lockstep_ckpt *ckpt)
{
    for (unsigned i = 0; i < ARENA_IMAGES; i++) {
        if (ckpt->image[i].state != IMAGE_FREE)
            return true;
    }
    return false;
}

/* In the background if there are GPUs: registering the memory for them takes long. */
static int save_arena_prepare(struct lockstep_ckpt *ckpt, struct err *err)
{
    uint64_t bytes = ckpt->arena.bytes;

    if (ckpt->copier.devices) {
        copier_arena_take(&ckpt->copier, &ckpt->arena);
        return 0;
    }
    if (arena_touch(&ckpt->arena))
        return 0;
    arena_destroy(&ckpt->arena);
    return err_set(err, -ENOMEM, "arena of %" PRIu64 " MiB: not enough memory", bytes >> 20);
}

/* The writer of the start before may keep its last image in memory.  This start is past its restore.  True: it is asked to let go. */
static bool save_held_release(const struct lockstep_ckpt *ckpt, struct held_image *held)
{
    int found = held_find(ckpt->dir_fd, ckpt->settings.rank, held, NULL);

    if (found == 0 ||
        found == -EXDEV) /* -EXDEV: the rank has moved; its writer there looks for the record */
        held_remove(ckpt->dir_fd, ckpt->settings.rank);
    return found == 0;
}

/* With slices of other replicas if the memory suffices: a save that is not compared is better than none. */
static int save_arena_make(struct lockstep_ckpt *ckpt, struct err *err)
{
    uint64_t slices = replica_slices_room(ckpt), draft = save_draft_room(ckpt, err);
    int result = -ENOMEM;

    if (slices)
        result = arena_create(&ckpt->arena, manifest_slices_at(&ckpt->layout) + slices, draft,
                              ckpt->settings.images, err);
    ckpt->uncompared = slices && result == -ENOMEM;
    if (!slices || ckpt->uncompared)
        result =
            arena_create(&ckpt->arena, ckpt->layout.file_bytes, draft, ckpt->settings.images, err);
    return result;
}

/* Only where there is no room for both does the training wait for the image of the writer before. */
static int save_arena_replace(struct lockstep_ckpt *ckpt, struct err *err)
{
    struct held_image held;
    bool released = save_held_release(ckpt, &held);
    int result;

    copier_arena_drop(&ckpt->copier);
    arena_destroy(&ckpt->arena);
    result = save_arena_make(ckpt, err);
    if (!released || (result != -ENOMEM && !ckpt->uncompared))
        return result;
    for (int i = 0; i < HELD_LOOKS && held_is_alive(&held); i++)
        poll(NULL, 0, HELD_LOOK_MS);
    arena_destroy(&ckpt->arena);
    return save_arena_make(ckpt, err);
}

/* A new layout needs a new arena, and the writer must be done with the old one. */
static int save_engine_prepare(struct lockstep_ckpt *ckpt, struct err *err)
{
    int result;

    if (ckpt->laid_out)
        return 0;
    if (save_images_busy(ckpt))
        return err_set(err, -EBUSY, "tensors were added or changed while a save is being written");
    result = save_layout_build(ckpt, err);
    if (result < 0)
        return result;
    result = save_arena_replace(ckpt, err);
    if (result == 0)
        result = save_arena_prepare(ckpt, err);
    if (result == 0)
        result = writer_link_hello(ckpt, err);
    ckpt->status.arena_bytes = ckpt->arena.bytes;
    ckpt->laid_out = result == 0;
    return result;
}

int lockstep_ckpt_prepare(struct lockstep_ckpt *ckpt)
{
    if (!ckpt)
        return -ENODEV;
    if (engine_owner_check(ckpt, &ckpt->err) < 0)
        return -EPERM;
    writer_link_drain(ckpt, 0);
    return engine_result(ckpt, save_engine_prepare(ckpt, &ckpt->err));
}

/* ---- copy ---- */

struct copy {
    const struct lockstep_ckpt *ckpt;
    unsigned char *data; /* the data section of the image */
    uint64_t bytes;
    _Atomic uint64_t next;
};

/* The first tensor that ends behind `at`. */
static size_t save_tensor_at(const struct manifest *layout, uint64_t at)
{
    size_t low = 0, high = layout->tensors;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (layout->tensor[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void *copy_run(void *ctx)
{
    struct copy *copy = ctx;
    const struct manifest *layout = &copy->ckpt->layout;
    uint64_t at;

    while ((at = atomic_fetch_add(&copy->next, PIECE)) < copy->bytes) {
        uint64_t end = MIN(at + PIECE, copy->bytes);

        for (size_t i = save_tensor_at(layout, at); at < end; i++) {
            const struct ckpt_tensor *tensor = &layout->tensor[i];
            const struct engine_tensor *from = &copy->ckpt->tensor[copy->ckpt->order[i]];
            uint64_t part = MIN(tensor->end, end) - at;

            if (from->device == LOCKSTEP_CKPT_CPU)
                memcpy(copy->data + at, from->from + (at - tensor->begin), part);
            at += part;
        }
    }
    return NULL;
}

static void save_image_fill(struct lockstep_ckpt *ckpt, unsigned image)
{
    unsigned char *base = arena_image(&ckpt->arena, image);
    struct copy copy = { .ckpt = ckpt,
                         .data = base + ckpt->layout.data_at,
                         .bytes = ckpt->layout.file_bytes - ckpt->layout.data_at };
    unsigned threads =
        ckpt->settings.threads ? ckpt->settings.threads : MIN(threads_cpus(), COPIERS_MAX);

    memcpy(base, ckpt->header.data, ckpt->header.size);
    threads_run((unsigned)MIN(threads, copy.bytes / (8 * PIECE) + 1), copy_run, &copy);
    replica_slices_copy(ckpt, image, threads);
}

/* ---- copies from GPUs ---- */

static int save_device_copies(struct lockstep_ckpt *ckpt, unsigned image, bool later,
                              struct err *err)
{
    unsigned char *data = arena_image(&ckpt->arena, image) + ckpt->layout.data_at;
    int result = 0;

    for (size_t i = 0; result == 0 && i < ckpt->layout.tensors; i++) {
        const struct ckpt_tensor *saved = &ckpt->layout.tensor[i];
        const struct engine_tensor *tensor = &ckpt->tensor[ckpt->order[i]];

        if (tensor->device != LOCKSTEP_CKPT_CUDA || tensor->later != later ||
            saved->begin == saved->end)
            continue;
        result = copier_copy_out(&ckpt->copier, tensor->device_index, data + saved->begin,
                                 (uint64_t)(uintptr_t)tensor->from, saved->end - saved->begin, err);
        if (result < 0)
            err_wrap(err, result, "tensor %s", saved->name);
    }
    return result < 0 ? result : replica_slices_device_copy(ckpt, image, later, err);
}

/* What may not change later goes first. */
static int save_device_start(struct lockstep_ckpt *ckpt, unsigned image, struct err *err)
{
    struct copier *copier = &ckpt->copier;
    int result = copier_order(copier, err);

    if (result == 0)
        result = save_device_copies(ckpt, image, false, err);
    if (result == 0)
        result = copier_mark(copier, COPIER_NOW, err);
    if (result == 0)
        result = save_device_copies(ckpt, image, true, err);
    if (result == 0)
        result = copier_mark(copier, COPIER_ALL, err);
    return result;
}

/* Until the arena can be written by the GPUs. */
static int save_device_ready(struct lockstep_ckpt *ckpt, struct err *err)
{
    struct lockstep_ckpt_status *status = &ckpt->status;
    int64_t begin_ns = time_mono_ns();
    int result = ckpt->copier.arena ? copier_arena_wait(&ckpt->copier, err) : 0;

    status->pin_wait_ns = (uint64_t)(time_mono_ns() - begin_ns);
    if (result < 0) {
        ckpt->laid_out = false; /* the next save tries again */
        return result;
    }
    snprintf(status->device, sizeof(status->device), "%s%.150s",
             ckpt->copier.registered ? "pinned" : "not pinned, because ", ckpt->copier.why.text);
    return 0;
}

/* The tensors, from everywhere.  After an error nothing is being copied. */
static int save_tensors_copy(struct lockstep_ckpt *ckpt, unsigned image, struct err *err)
{
    int result = 0;

    if (ckpt->copier.devices)
        result = save_device_start(ckpt, image, err);
    if (result == 0)
        save_image_fill(ckpt, image);
    if (result == 0 && ckpt->copier.devices)
        result = copier_wait(&ckpt->copier, COPIER_NOW, err);
    if (result < 0)
        copier_wait(&ckpt->copier, COPIER_ALL, NULL);
    return result;
}

static int save_draft_put(struct lockstep_ckpt *ckpt, unsigned image, uint64_t step,
                          struct err *err)
{
    struct manifest draft = ckpt->layout;
    struct buf bytes = { .data = NULL };
    int result = 0;

    draft.step = step;
    draft.blob = ckpt->blob;
    draft.blobs = ckpt->blobs;
    manifest_encode(&draft, true, &bytes);
    if (bytes.failed)
        result = err_nomem(err);
    else if (bytes.size > ckpt->arena.image_bytes - ckpt->arena.draft_at)
        result = err_set(err, -ENOSPC, "the blobs are too large");
    else
        memcpy(arena_image(&ckpt->arena, image) + ckpt->arena.draft_at, bytes.data, bytes.size);
    ckpt->image[image].save = (struct message_save){
        .image = image, .step = step, .draft_at = ckpt->arena.draft_at, .draft_bytes = bytes.size
    };
    buf_fini(&bytes);
    return result;
}

/* The one of the last save comes last: its writer may keep it for the next start. */
static int save_image_free(const struct lockstep_ckpt *ckpt, unsigned *ret)
{
    for (unsigned i = 1; i <= ckpt->arena.images; i++) {
        unsigned image = (ckpt->last_image + i) % ckpt->arena.images;

        if (ckpt->image[image].state == IMAGE_FREE) {
            *ret = image;
            return 0;
        }
    }
    return -EBUSY;
}

static int save_image_filled(const struct lockstep_ckpt *ckpt, unsigned *ret)
{
    for (unsigned i = 0; i < ARENA_IMAGES; i++) {
        if (ckpt->image[i].state == IMAGE_FILLED) {
            *ret = i;
            return 0;
        }
    }
    return -ENOENT;
}

static int save_start(struct lockstep_ckpt *ckpt, uint64_t step, struct err *err)
{
    int64_t begin_ns = time_mono_ns();
    unsigned image = 0;
    int result;

    writer_link_drain(ckpt, 0);
    if (step == UINT64_MAX)
        return err_set(err, -EINVAL, "step %" PRIu64 " is not valid", step);
    if (save_image_filled(ckpt, &image) == 0)
        return err_set(err, -EINPROGRESS, "the save before has had no fence");
    if (ckpt->socket < 0)
        return err_set(err, -EPIPE, "the writer process is gone");
    result = save_engine_prepare(ckpt, err);
    if (result == 0 && save_image_free(ckpt, &image) < 0)
        result =
            err_set(err, -EBUSY,
                    "the disk is slower than the saves: %" PRIu32 " images are still being written",
                    ckpt->arena.images);
    if (result == 0 && ckpt->copier.devices)
        result = save_device_ready(ckpt, err);
    if (result == 0)
        result = replica_slices_choose(ckpt, step, err);
    if (result == 0)
        result = save_draft_put(ckpt, image, step, err);
    if (result == 0)
        result = save_tensors_copy(ckpt, image, err);
    if (result < 0)
        return result;
    ckpt->image[image].state = IMAGE_FILLED;
    ckpt->status.copy_ns = (uint64_t)(time_mono_ns() - begin_ns);
    ckpt->image[image].save.copy_ns = ckpt->status.copy_ns;
    return 0;
}

int lockstep_ckpt_save_begin(struct lockstep_ckpt *ckpt, uint64_t step)
{
    int result;

    if (!ckpt)
        return -ENODEV;
    if (engine_owner_check(ckpt, &ckpt->err) < 0)
        return -EPERM;
    result = save_start(ckpt, step, &ckpt->err);
    if (result < 0) {
        ckpt->status.skipped++;
        writer_link_skip(ckpt, step, ckpt->err.text);
    }
    return engine_result(ckpt, result);
}

/* Copies of GPUs that were allowed to last until now. */
static int save_copies_end(struct lockstep_ckpt *ckpt, unsigned image)
{
    int64_t begin_ns = time_mono_ns();
    int result = ckpt->copier.devices ? copier_wait(&ckpt->copier, COPIER_ALL, &ckpt->err) : 0;

    ckpt->status.fence_wait_ns = (uint64_t)(time_mono_ns() - begin_ns);
    if (result == 0)
        return 0;
    ckpt->image[image].state = IMAGE_FREE;
    ckpt->status.failed++;
    snprintf(ckpt->failure, sizeof(ckpt->failure), "step %" PRIu64 ": %.200s",
             ckpt->image[image].save.step, ckpt->err.text);
    writer_link_skip(ckpt, ckpt->image[image].save.step, ckpt->err.text);
    return result;
}

int lockstep_ckpt_fence(struct lockstep_ckpt *ckpt)
{
    unsigned image;
    int result;

    if (!ckpt)
        return -ENODEV;
    if (engine_owner_check(ckpt, &ckpt->err) < 0)
        return -EPERM;
    if (save_image_filled(ckpt, &image) < 0)
        return err_set(&ckpt->err, -ENOENT, "no save has begun");
    result = save_copies_end(ckpt, image);
    if (result < 0)
        return result;
    ckpt->image[image].save.copy_ns += ckpt->status.fence_wait_ns;
    ckpt->image[image].save.number = ++ckpt->number;
    ckpt->fenced_step = ckpt->image[image].save.step;
    ckpt->last_image = image;
    ckpt->image[image].state = IMAGE_WRITING;
    ckpt->status.saved++;
    ckpt->fence_ns = time_mono_ns();
    result = writer_link_save(ckpt, image, &ckpt->err);
    if (result < 0) { /* the writer is gone, which drain() finds and mends */
        writer_link_drain(ckpt, 0);
        result = ckpt->failed == ckpt->number ? -EPIPE : 0;
    }
    return engine_result(ckpt, result);
}

int lockstep_ckpt_cancel(struct lockstep_ckpt *ckpt, const char *why)
{
    unsigned image;

    if (!ckpt)
        return -ENODEV;
    if (engine_owner_check(ckpt, &ckpt->err) < 0)
        return -EPERM;
    if (save_image_filled(ckpt, &image) < 0)
        return err_set(&ckpt->err, -ENOENT, "no save has begun");
    if (ckpt->copier.devices)
        copier_wait(&ckpt->copier, COPIER_ALL, NULL); /* nothing writes into the image any more */
    ckpt->image[image].state = IMAGE_FREE;
    ckpt->status.cancelled++;
    snprintf(ckpt->failure, sizeof(ckpt->failure), "step %" PRIu64 ": %s",
             ckpt->image[image].save.step, why ? why : "cancelled");
    writer_link_skip(ckpt, ckpt->image[image].save.step, why ? why : "cancelled");
    return engine_result(ckpt, 0);
}

/* ---- wait ---- */

/* Other programs make the copies, and leave a mark. */
static bool save_is_copied(const struct lockstep_ckpt *ckpt, enum lockstep_ckpt_stage stage)
{
    char name[64];
    CLEAN(fd_clean) int fd = -1;

    snprintf(name, sizeof(name), "step-%" PRIu64, ckpt->fenced_step);
    fd = openat(ckpt->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 &&
           point_was_copied(fd, stage == LOCKSTEP_CKPT_REPLICATED ? POINT_PEER : POINT_STORE,
                            ckpt->settings.job, NULL);
}

/* Other programs have to do something for it. */
static bool save_stage_is_copy(enum lockstep_ckpt_stage stage)
{
    return stage == LOCKSTEP_CKPT_REPLICATED || stage == LOCKSTEP_CKPT_UPLOADED;
}

static int save_stage_result(struct lockstep_ckpt *ckpt, enum lockstep_ckpt_stage stage)
{
    uint64_t done = stage == LOCKSTEP_CKPT_WRITTEN                                 ? ckpt->written
                    : stage == LOCKSTEP_CKPT_STORED && ckpt->failed < ckpt->number ? ckpt->stored
                                                                                   : ckpt->verified;

    if (save_stage_is_copy(stage) && ckpt->written >= ckpt->number)
        return save_is_copied(ckpt, stage) ? 0 : -EAGAIN;
    if (done >= ckpt->number)
        return 0;
    if (ckpt->failed >= ckpt->number)
        return err_set(&ckpt->err, -EIO, "%s", ckpt->failure);
    if (ckpt->socket < 0)
        return err_set(&ckpt->err, -EPIPE, "the writer process is gone");
    return -EAGAIN;
}

int lockstep_ckpt_wait(struct lockstep_ckpt *ckpt, enum lockstep_ckpt_stage stage, int timeout_ms)
{
    int64_t until_ns =
        timeout_ms < 0 ? INT64_MAX : time_mono_ns() + (int64_t)timeout_ms * NS_PER_MS;
    int result;

    if (!ckpt)
        return -ENODEV;
    if (engine_owner_check(ckpt, &ckpt->err) < 0)
        return -EPERM;
    if (stage == LOCKSTEP_CKPT_COPIED)
        return engine_result(ckpt, 0);
    if (stage < LOCKSTEP_CKPT_COPIED || stage > LOCKSTEP_CKPT_STORED)
        return err_set(&ckpt->err, -EINVAL, "there is no such stage");
    if (!ckpt->number)
        return err_set(&ckpt->err, -ENOENT, "nothing was saved");
    writer_link_drain(ckpt, 0);
    while ((result = save_stage_result(ckpt, stage)) == -EAGAIN) {
        int64_t now_ns = time_mono_ns();

        if (now_ns >= until_ns)
            return err_set(&ckpt->err, -ETIMEDOUT, "not done in %d ms", timeout_ms);
        writer_link_drain(
            ckpt,
            time_poll_ms(save_stage_is_copy(stage) ? MIN(until_ns, now_ns + LOOK_NS) : until_ns,
                         now_ns));
    }
    return engine_result(ckpt, result);
}
