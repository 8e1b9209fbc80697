/* export_hf.c - puts the tensors of all ranks together and writes plain safetensors files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/load/export_hf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/format/tensor_layout.h"
#include "ckpt/load/extents.h"
#include "ckpt/store/small_file.h"
#include "core/clean.h"

/* What a rank saved of a tensor. */
struct export_part {
    const struct ckpt_tensor *saved;
    uint32_t file;
};

/* A tensor as it will be: all of it, under its new name. */
struct export_tensor {
    struct ckpt_tensor tensor; /* its name points into a manifest */
    size_t part, parts;        /* of the list of parts */
    size_t shard;
};

struct exporter {
    struct export_hf *export;
    int point_fd, out_fd;
    struct manifest *manifest;
    uint32_t files;
    struct export_part *part;
    size_t parts, part_room;
    struct export_tensor *tensor;
    size_t tensors, tensor_room;
    size_t shards;
    _Atomic uint64_t done_bytes;
    /* The shard that is being written: */
    int fd;
    const uint64_t *place; /* by number of the tensor: where it begins in the file */
};

static void exporter_fini(struct exporter *exporter)
{
    for (uint32_t i = 0; i < exporter->files; i++)
        manifest_fini(&exporter->manifest[i]);
    free(exporter->manifest);
    free(exporter->part);
    free(exporter->tensor);
}

/* ---- which tensors ---- */

static int exporter_manifests_read(struct exporter *exporter, const struct commit *commit,
                                   struct err *err)
{
    exporter->manifest = calloc(commit->group, sizeof(*exporter->manifest));
    if (!exporter->manifest)
        return err_nomem(err);
    for (; exporter->files < commit->group; exporter->files++) {
        int result = point_manifest(exporter->point_fd, commit, exporter->files,
                                    &exporter->manifest[exporter->files], err);

        if (result < 0)
            return result;
    }
    return 0;
}

static int export_part_compare(const void *a, const void *b)
{
    const struct export_part *left = a, *right = b;
    int order = strcmp(left->saved->name, right->saved->name);

    return order ? order : (left->file > right->file) - (left->file < right->file);
}

static int exporter_parts_collect(struct exporter *exporter, struct err *err)
{
    for (uint32_t file = 0; file < exporter->files; file++) {
        const struct manifest *manifest = &exporter->manifest[file];

        if (!ARRAY_FIT(exporter->part, exporter->part_room,
                       exporter->parts + manifest->tensors + 1))
            return err_nomem(err);
        for (size_t i = 0; i < manifest->tensors; i++)
            exporter->part[exporter->parts++] = (struct export_part){ &manifest->tensor[i], file };
    }
    if (exporter->parts)
        qsort(exporter->part, exporter->parts, sizeof(*exporter->part), export_part_compare);
    return 0;
}

static bool export_same_place(const struct ckpt_tensor *one, const struct ckpt_tensor *other)
{
    return memcmp(one->offset, other->offset, sizeof(one->offset)) == 0 &&
           memcmp(one->shape, other->shape, sizeof(one->shape)) == 0;
}

/* Then that rank's copy is taken. */
static bool export_rank_has(const struct exporter *exporter, const struct export_tensor *tensor,
                            const struct export_part *part)
{
    for (size_t i = 0; i < tensor->parts; i++) {
        if (exporter->manifest[part[i].file].rank == exporter->export->rank &&
            export_same_place(part[0].saved, part[i].saved))
            return true;
    }
    return false;
}

/* Rows that two ranks saved must be the same rows. */
static int export_copies_compare(const struct exporter *exporter,
                                 const struct export_tensor *tensor, const struct export_part *part,
                                 struct err *err)
{
    const struct manifest *manifest = exporter->manifest;

    if (export_rank_has(exporter, tensor, part))
        return 0;
    for (size_t i = 1; i < tensor->parts; i++) {
        const struct ckpt_tensor *first = part[0].saved, *other = part[i].saved;

        if (!export_same_place(first, other) ||
            memcmp(first->digest.byte, other->digest.byte, sizeof(first->digest.byte)) == 0)
            continue;
        return err_set(err, -ENOTSUP,
                       "tensor %s: ranks %" PRIu32 " and %" PRIu32
                       " saved different contents for the same place; --rank %" PRIu32
                       " takes that of rank %" PRIu32,
                       first->name, manifest[part[0].file].rank, manifest[part[i].file].rank,
                       manifest[part[0].file].rank, manifest[part[0].file].rank);
    }
    return 0;
}

static int export_tensor_check(const struct exporter *exporter, const struct export_tensor *tensor,
                               const struct export_part *part, struct err *err)
{
    const struct ckpt_tensor *first = part[0].saved;

    if (strcmp(ckpt_dtype(first->dtype)->name, "C128") == 0)
        return err_set(err, -ENOTSUP, "tensor %s: safetensors has no type for complex128",
                       first->name);
    for (size_t i = 0; i < tensor->parts; i++) {
        const struct ckpt_tensor *saved = part[i].saved;

        if (saved->dtype != first->dtype || saved->dims != first->dims ||
            memcmp(saved->global_shape, first->global_shape, sizeof(saved->global_shape)) != 0)
            return err_set(err, -ENOTSUP, "tensor %s: ranks have different types or shapes of it",
                           saved->name);
        for (unsigned k = 1; k < saved->dims; k++) {
            if (saved->shape[k] != saved->global_shape[k])
                return err_set(
                    err, -ENOTSUP,
                    "tensor %s is cut along dimension %u, only cuts along the first one can be "
                    "put together",
                    saved->name, k);
        }
    }
    return export_copies_compare(exporter, tensor, part, err);
}

static int exporter_tensor_add(struct exporter *exporter, size_t first, size_t end, struct err *err)
{
    const struct export_part *part = &exporter->part[first];
    size_t skip = strlen(exporter->export->prefix);
    struct export_tensor made = { .tensor = *part->saved, .part = first, .parts = end - first };

    if (strncmp(part->saved->name, exporter->export->prefix, skip) != 0) {
        exporter->export->left_out++;
        return 0;
    }
    made.tensor.name += skip;
    if (!ckpt_name_ok(made.tensor.name))
        return err_set(err, -ENOTSUP, "tensor %s would have no name", part->saved->name);
    memcpy(made.tensor.shape, made.tensor.global_shape, sizeof(made.tensor.shape));
    memset(made.tensor.offset, 0, sizeof(made.tensor.offset));
    if (!ARRAY_FIT(exporter->tensor, exporter->tensor_room, exporter->tensors + 1))
        return err_nomem(err);
    exporter->tensor[exporter->tensors++] = made;
    return export_tensor_check(exporter, &made, part, err);
}

/* In the order of their names, as many into a file as fit. */
static int exporter_tensors_choose(struct exporter *exporter, struct err *err)
{
    struct export_hf *export = exporter->export;
    uint64_t in_shard = 0, bytes = 0;
    int result = exporter_parts_collect(exporter, err);

    for (size_t i = 0, end; result == 0 && i < exporter->parts; i = end) {
        for (end = i; end < exporter->parts &&
                      strcmp(exporter->part[end].saved->name, exporter->part[i].saved->name) == 0;
             end++)
            ;
        result = exporter_tensor_add(exporter, i, end, err);
    }
    if (result == 0 && !exporter->tensors)
        result = err_set(err, -ENODATA, "no tensor of the point has a name that begins with '%s'",
                         export->prefix);
    for (size_t i = 0; result == 0 && i < exporter->tensors; i++) {
        result = ckpt_tensor_bytes(&exporter->tensor[i].tensor, &bytes, err);
        if (in_shard && in_shard + bytes > export->shard_bytes) {
            exporter->shards++;
            in_shard = 0;
        }
        exporter->tensor[i].shard = exporter->shards;
        in_shard += bytes;
        export->bytes += bytes;
    }
    exporter->shards++;
    export->tensors = exporter->tensors;
    export->files = exporter->shards;
    return result;
}

/* ---- one file ---- */

static void export_shard_name(const struct exporter *exporter, size_t shard, char *out, size_t room)
{
    if (exporter->shards == 1)
        snprintf(out, room, "model.safetensors");
    else
        snprintf(out, room, "model-%05zu-of-%05zu.safetensors", shard + 1, exporter->shards);
}

static int export_write(int fd, const unsigned char *data, size_t size, uint64_t at,
                        struct err *err)
{
    while (size > 0) {
        ssize_t put = pwrite(fd, data, size, (off_t)at);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return err_set(err, put < 0 ? -errno : -ENOSPC, "write: %s",
                           strerror(put < 0 ? errno : ENOSPC));
        data += put;
        size -= (size_t)put;
        at += (uint64_t)put;
    }
    return 0;
}

static int exporter_bytes_put(void *ctx, const struct extent *extent, uint64_t at,
                              const unsigned char *data, size_t size, struct err *err)
{
    struct exporter *exporter = ctx;
    uint64_t done = atomic_fetch_add(&exporter->done_bytes, size) + size;

    if (exporter->export->progress)
        exporter->export->progress(exporter->export->ctx, done, exporter->export->bytes);
    return export_write(exporter->fd, data, size,
                        exporter->place[extent->tensor] + extent->tensor_at + at, err);
}

static int exporter_extents_make(const struct exporter *exporter, size_t shard,
                                 struct extents *extents, struct err *err)
{
    int result = 0;

    for (size_t i = 0; result == 0 && i < exporter->tensors; i++) {
        const struct export_tensor *tensor = &exporter->tensor[i];

        for (size_t k = 0; tensor->shard == shard && result == 0 && k < tensor->parts; k++) {
            const struct export_part *part = &exporter->part[tensor->part + k];
            const struct manifest *manifest = &exporter->manifest[part->file];

            result = extents_add(
                extents,
                (struct extent_part){ .tensor = i,
                                      .file = part->file,
                                      .preferred = manifest->rank == exporter->export->rank },
                &tensor->tensor, manifest, part->saved, err);
        }
    }
    for (size_t i = 0; result == 0 && i < exporter->tensors; i++) {
        if (exporter->tensor[i].shard == shard)
            result = extents_cover(extents, i, &exporter->tensor[i].tensor, err);
    }
    return result == -EINVAL ? -ENOTSUP : result; /* a rank's part is missing */
}

/* The header, and where each tensor begins. */
static int exporter_layout_make(const struct exporter *exporter, size_t shard, struct buf *header,
                                uint64_t *place, struct err *err)
{
    CLEAN(free_clean) size_t *order = calloc(exporter->tensors, sizeof(*order));
    CLEAN(free_clean) size_t *number = calloc(exporter->tensors, sizeof(*number));
    struct manifest layout = { .step = 0 };
    int result;

    if (!order || !number || !ARRAY_FIT_ZERO(layout.tensor, layout.tensor_room, exporter->tensors))
        return err_nomem(err);
    for (size_t i = 0; i < exporter->tensors; i++) {
        if (exporter->tensor[i].shard != shard)
            continue;
        number[layout.tensors] = i;
        layout.tensor[layout.tensors++] = exporter->tensor[i].tensor;
    }
    result = layout_make_plain(&layout, order, header, err);
    for (size_t i = 0; result == 0 && i < layout.tensors; i++)
        place[number[order[i]]] = layout.data_at + layout.tensor[i].begin;
    free(layout.tensor); /* the names are borrowed */
    return result;
}

static int exporter_shard_fill(struct exporter *exporter, size_t shard, struct err *err)
{
    CLEAN(free_clean) uint64_t *place = calloc(exporter->tensors, sizeof(*place));
    struct extents extents = { .part = NULL };
    struct buf header = { .data = NULL };
    struct extents_reader reader = { .point_fd = exporter->point_fd,
                                     .manifest = exporter->manifest,
                                     .threads = 1,
                                     .put = exporter_bytes_put,
                                     .ctx = exporter };
    int result = place ? exporter_extents_make(exporter, shard, &extents, err) : err_nomem(err);

    if (result == 0)
        result = exporter_layout_make(exporter, shard, &header, place, err);
    if (result == 0 && !exporter->export->dry_run) {
        exporter->place = place;
        result = export_write(exporter->fd, header.data, header.size, 0, err);
        if (result == 0)
            result = extents_read(&extents, &reader, err);
    }
    buf_fini(&header);
    extents_fini(&extents);
    return result;
}

static int exporter_shard_write(struct exporter *exporter, size_t shard, struct err *err)
{
    char name[64];
    int result;

    if (exporter->export->dry_run)
        return exporter_shard_fill(exporter, shard, err);
    export_shard_name(exporter, shard, name, sizeof(name));
    exporter->fd =
        openat(exporter->out_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (exporter->fd < 0)
        return err_set(err, -errno, "%s: %m", name);
    result = exporter_shard_fill(exporter, shard, err);
    if (result == 0 && fsync(exporter->fd) < 0)
        result = err_set(err, -errno, "%s: fsync: %m", name);
    if (close(exporter->fd) < 0 && result == 0)
        result = err_set(err, -errno, "%s: close: %m", name);
    return result;
}

/* ---- the index ---- */

static int exporter_index_write(const struct exporter *exporter, struct err *err)
{
    struct buf text = { .data = NULL };
    char piece[160];
    int size = snprintf(piece, sizeof(piece),
                        "{\n  \"metadata\": {\"total_size\": %" PRIu64 "},\n  \"weight_map\": {",
                        exporter->export->bytes),
        result;

    buf_put(&text, piece, (size_t)size);
    for (size_t i = 0; i < exporter->tensors; i++) {
        char name[64];

        buf_put(&text, i ? ",\n    " : "\n    ", i ? 6 : 5);
        layout_name_put(&text, exporter->tensor[i].tensor.name);
        export_shard_name(exporter, exporter->tensor[i].shard, name, sizeof(name));
        size = snprintf(piece, sizeof(piece), ": \"%s\"", name);
        buf_put(&text, piece, (size_t)size);
    }
    buf_put(&text, "\n  }\n}\n", 7);
    result = text.failed ? err_nomem(err)
                         : small_file_create(exporter->out_fd, "model.safetensors.index.json",
                                             text.data, text.size, err);
    buf_fini(&text);
    return result;
}

int export_hf(int dir_fd, const struct point *point, int out_fd, struct export_hf *export,
              struct err *err)
{
    CLEAN(fd_clean) int fd = point_open(dir_fd, point, err);
    struct exporter exporter = { .export = export, .point_fd = fd, .out_fd = out_fd, .fd = -1 };
    struct commit commit = { .step = 0 };
    int result;

    if (fd < 0)
        return fd;
    export->tensors = export->files = export->left_out = 0;
    export->bytes = 0;
    result = point_commit(fd, point->step, &commit, err);
    if (result == 0 && commit.group != commit.world)
        result =
            err_set(err, -ENOTSUP,
                    "this directory has %" PRIu32 " of %" PRIu32 " ranks: each node saved its own",
                    commit.group, commit.world);
    if (result == 0)
        result = exporter_manifests_read(&exporter, &commit, err);
    if (result == 0)
        result = exporter_tensors_choose(&exporter, err);
    for (size_t i = 0; result == 0 && i < exporter.shards; i++)
        result = exporter_shard_write(&exporter, i, err);
    if (result == 0 && exporter.shards > 1 && !export->dry_run)
        result = exporter_index_write(&exporter, err);
    if (result == 0 && !export->dry_run)
        result = directory_sync(out_fd, err);
    commit_fini(&commit);
    exporter_fini(&exporter);
    return result;
}
