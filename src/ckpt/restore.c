/* restore.c - fills the registered tensors from a point.
 *
 * What a rank needs may lie in the files of several ranks: load/extents.h finds and reads it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt/engine_private.h"
#include "ckpt/load/extents.h"
#include "ckpt/store/point.h"
#include "core/clean.h"

#define LISTS_MAX 16 /* how often the directory is read if points are removed meanwhile */

/* ---- a point ---- */

static int restore_extents_make(struct lockstep_ckpt *ckpt, const struct manifest *manifest,
                                uint32_t files, struct extents *extents, struct err *err)
{
    int result = 0;

    for (uint32_t file = 0; file < files; file++) {
        for (size_t i = 0; result == 0 && i < manifest[file].tensors; i++) {
            const struct ckpt_tensor *saved = &manifest[file].tensor[i];
            const struct engine_tensor *tensor = engine_find(ckpt, saved->name);

            if (tensor)
                result = extents_add(
                    extents,
                    (struct extent_part){ .tensor = (size_t)(tensor - ckpt->tensor),
                                          .file = file,
                                          .preferred = manifest[file].rank == ckpt->settings.rank },
                    &tensor->part, &manifest[file], saved, err);
        }
    }
    for (size_t i = 0; result == 0 && i < ckpt->tensors; i++) {
        uint32_t one, other;

        if (ckpt->tensor[i].equal && !extents_agree(extents, i, &one, &other))
            return err_set(err, -ENOTSUP,
                           "tensor %s: ranks %" PRIu32 " and %" PRIu32
                           " saved different contents for the same place, so %" PRIu32
                           " ranks cannot load it",
                           ckpt->tensor[i].part.name, manifest[one].rank, manifest[other].rank,
                           ckpt->settings.world);
        result = extents_cover(extents, i, &ckpt->tensor[i].part, err);
    }
    return result;
}

static int restore_bytes_put(void *ctx, const struct extent *extent, uint64_t at,
                             const unsigned char *data, size_t size, struct err *err)
{
    struct lockstep_ckpt *ckpt = ctx;
    const struct engine_tensor *tensor = &ckpt->tensor[extent->tensor];
    unsigned char *to = tensor->data + extent->tensor_at + at;

    if (tensor->device == LOCKSTEP_CKPT_CUDA)
        return copier_copy_in(&ckpt->copier, tensor->device_index, (uint64_t)(uintptr_t)to, data,
                              size, err);
    memcpy(to, data, size);
    return 0;
}

static int restore_blobs_load(struct lockstep_ckpt *ckpt, const struct manifest *manifest,
                              uint32_t files)
{
    const struct manifest *own = &manifest[0];
    int result = 0;

    for (uint32_t i = 0; i < files; i++) {
        if (manifest[i].rank == ckpt->settings.rank)
            own = &manifest[i];
    }
    while (ckpt->blobs)
        engine_blob_set(ckpt, ckpt->blob[0].name, NULL, 0);
    for (size_t i = 0; result == 0 && i < own->blobs; i++)
        result = engine_blob_set(ckpt, own->blob[i].name, own->blob[i].data, own->blob[i].size);
    return result;
}

static int restore_manifests_load(struct lockstep_ckpt *ckpt, int fd,
                                  const struct manifest *manifest, uint32_t files, struct err *err)
{
    struct extents extents = { .part = NULL };
    struct extents_reader reader = { .point_fd = fd,
                                     .manifest = manifest,
                                     .threads = ckpt->settings.threads,
                                     .put = restore_bytes_put,
                                     .ctx = ckpt,
                                     .held = true,
                                     .dir_fd = ckpt->dir_fd,
                                     .memory_bytes = &ckpt->status.memory_bytes };
    int result = restore_extents_make(ckpt, manifest, files, &extents, err);

    ckpt->status.memory_bytes = 0;
    if (result == 0) /* the training may still read what is overwritten here */
        result = copier_order(&ckpt->copier, err);
    if (result == 0)
        result = extents_read(&extents, &reader, err);
    if (result == 0)
        result = restore_blobs_load(ckpt, manifest, files);
    extents_fini(&extents);
    return result;
}

/* With as many ranks as before, a rank mostly finds all of its tensors in its own file.  Then thousands of ranks need not read
 * each other's manifests.
 */
static int restore_own_file_load(struct lockstep_ckpt *ckpt, int fd, const struct commit *commit,
                                 struct err *err)
{
    struct manifest manifest = { .step = 0 };
    uint32_t i = 0;
    int result;

    while (i < commit->group && commit->rank[i].rank != ckpt->settings.rank)
        i++;
    if (i == commit->group || commit->world != ckpt->settings.world)
        return -EINVAL;
    result = point_manifest(fd, commit, i, &manifest, err);
    if (result < 0)
        return result;
    result = restore_manifests_load(ckpt, fd, &manifest, 1, err);
    manifest_fini(&manifest);
    return result;
}

static int restore_commit_load(struct lockstep_ckpt *ckpt, int fd, const struct commit *commit,
                               struct err *err)
{
    CLEAN(free_clean) struct manifest *manifest = calloc(commit->group, sizeof(*manifest));
    uint32_t read = 0;
    int result = manifest ? restore_own_file_load(ckpt, fd, commit, err) : err_nomem(err);

    if (result != -EINVAL)
        return result;
    for (result = 0; result == 0 && read < commit->group; read += result == 0)
        result = point_manifest(fd, commit, read, &manifest[read], err);
    if (result == 0)
        result = restore_manifests_load(ckpt, fd, manifest, commit->group, err);
    for (uint32_t i = 0; i < read; i++)
        manifest_fini(&manifest[i]);
    return result;
}

static int restore_point_load(struct lockstep_ckpt *ckpt, const struct point *point,
                              struct err *err)
{
    CLEAN(fd_clean) int fd = point_open(ckpt->dir_fd, point, err);
    struct commit commit = { .step = 0 };
    int result;

    if (fd < 0)
        return fd;
    result = point_commit(fd, point->step, &commit, err);
    if (result == 0)
        result = restore_commit_load(ckpt, fd, &commit, err);
    commit_fini(&commit);
    return result;
}

static bool restore_point_gone(const struct lockstep_ckpt *ckpt, const struct point *point)
{
    CLEAN(fd_clean) int fd = point_open(ckpt->dir_fd, point, NULL);

    return fd == -ENOENT || fd == -ESTALE;
}

/* -EAGAIN: not this one, see the reason.  -ESTALE: it was removed meanwhile. */
static int restore_point_try(struct lockstep_ckpt *ckpt, const struct point *point, struct err *why)
{
    struct err err = { "" };
    int result;

    if (point->state != POINT_COMMITTED) {
        err_set(why, 0, "step %" PRIu64 ": %s", point->step, point->why);
        return point->state == POINT_GONE ? -ESTALE : -EAGAIN;
    }
    result = restore_point_load(ckpt, point, &err);
    if (result < 0 && restore_point_gone(ckpt, point))
        return err_set(why, -ESTALE, "step %" PRIu64 ": was removed meanwhile", point->step);
    if (result == -EPROTO)
        point_refuse(ckpt->dir_fd, point, err.text);
    if (result == -EPROTO || result == -EIO || result == -ENOENT) {
        err_set(why, 0, "step %" PRIu64 ": %s", point->step, err.text);
        return -EAGAIN;
    }
    if (result < 0)
        err_set(why, 0, "step %" PRIu64 ": %s", point->step, err.text);
    return result;
}

/* -EAGAIN: none of them.  -ESTALE: one was removed meanwhile, so there may be a newer one. */
static int restore_points_try(struct lockstep_ckpt *ckpt, struct points *points, uint64_t step,
                              struct restored *ret)
{
    int result = -EAGAIN;

    for (size_t i = 0; result == -EAGAIN && i < points->count; i++) {
        struct point *point = &points->point[i];

        if (step != LOCKSTEP_CKPT_NEWEST && point->step != step)
            continue;
        point_read(ckpt->dir_fd, false, point);
        ret->refused |= point->state == POINT_COMMITTED || point->state == POINT_REFUSED;
        result = restore_point_try(ckpt, point, &ret->why);
        if (result == 0)
            ret->step = point->step;
    }
    return result;
}

int restore_alone(struct lockstep_ckpt *ckpt, uint64_t step, struct restored *ret, struct err *err)
{
    int result = -ESTALE;

    *ret = (struct restored){ .why = { "there is none" } };
    /* The writer of the start before may still remove points, after it has written newer ones. */
    for (int i = 0; result == -ESTALE && i < LISTS_MAX; i++) {
        struct points points = { .point = NULL };

        result = points_read(ckpt->dir_fd, POINTS_NAMES, &points, err);
        if (result < 0)
            return result;
        result = restore_points_try(ckpt, &points, step, ret);
        points_fini(&points);
    }
    if (result == -EAGAIN || result == -ESTALE)
        return err_set(err, ret->refused ? -EBADMSG : -ENODATA, "%s%s",
                       step == LOCKSTEP_CKPT_NEWEST || !ret->refused ? "no point can be restored: "
                                                                     : "",
                       ret->why.text);
    return result < 0 ? err_set(err, result, "%s", ret->why.text) : 0;
}

int lockstep_ckpt_restore(struct lockstep_ckpt *ckpt, uint64_t step, uint64_t *ret_step)
{
    struct restored restored = { .step = 0 };
    int result;

    if (!ckpt)
        return -ENODEV;
    if (!ret_step)
        return err_set(&ckpt->err, -EINVAL, "no place for the step");
    engine_failures_forget(ckpt);
    if (ckpt->settings.world == 1 || step != LOCKSTEP_CKPT_NEWEST)
        result = restore_alone(ckpt, step, &restored, &ckpt->err);
    else if (ckpt->settings.agree)
        result = restore_agreed(ckpt, &restored, &ckpt->err);
    else
        result = err_set(&ckpt->err, -EINVAL,
                         "several ranks must agree on the newest point: set `agree`");
    if (result == 0)
        *ret_step = restored.step;
    return engine_result(ckpt, result);
}
