/* extents.c - plans and reads the bytes of wanted tensors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/load/extents.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "ckpt/store/held.h"
#include "ckpt/store/point.h"
#include "ckpt/store/threads.h"
#include "core/clean.h"
#include "core/hash.h"

void extents_fini(struct extents *extents)
{
    free(extents->part);
    free(extents->extent);
    *extents = (struct extents){ .part = NULL };
}

/* ---- planning ---- */

static uint64_t extents_rows(const struct ckpt_tensor *tensor)
{
    return tensor->dims ? tensor->shape[0] : 1;
}

static uint64_t extents_first_row(const struct ckpt_tensor *tensor)
{
    return tensor->dims ? tensor->offset[0] : 0;
}

/* Both are parts of one tensor and differ at most in their rows. */
static bool extents_match(const struct ckpt_tensor *a, const struct ckpt_tensor *b)
{
    if (a->dtype != b->dtype || a->dims != b->dims)
        return false;
    for (unsigned i = 0; i < a->dims; i++) {
        if (a->global_shape[i] != b->global_shape[i] ||
            (i && (a->shape[i] != b->shape[i] || a->offset[i] != b->offset[i])))
            return false;
    }
    return true;
}

int extents_add(struct extents *extents, struct extent_part part, const struct ckpt_tensor *wanted,
                const struct manifest *manifest, const struct ckpt_tensor *saved, struct err *err)
{
    if (!extents_match(wanted, saved) || saved->begin == saved->end)
        return 0;
    if (!ARRAY_FIT(extents->part, extents->part_room, extents->parts + 1))
        return err_nomem(err);
    part.row = extents_first_row(saved);
    part.rows = extents_rows(saved);
    part.at = manifest->data_at + saved->begin;
    extents->part[extents->parts++] = part;
    return 0;
}

static int extent_part_compare(const void *a, const void *b)
{
    const struct extent_part *left = a, *right = b;

    if (left->tensor != right->tensor)
        return left->tensor < right->tensor ? -1 : 1;
    if (left->preferred != right->preferred) /* the others fill what they lack */
        return left->preferred ? -1 : 1;
    if (left->row != right->row)
        return left->row < right->row ? -1 : 1;
    return (left->file > right->file) - (left->file < right->file);
}

/* The part that has the row, of those between. */
static const struct extent_part *extent_part_with(const struct extent_part *from,
                                                  const struct extent_part *end, uint64_t row)
{
    for (; from < end; from++) {
        if (row >= from->row && row - from->row < from->rows)
            return from;
    }
    return NULL;
}

int extents_cover(struct extents *extents, size_t tensor, const struct ckpt_tensor *wanted,
                  struct err *err)
{
    uint64_t first = extents_first_row(wanted), row = first, last = row + extents_rows(wanted),
             each = ckpt_row_bytes(wanted);
    const struct extent_part *from, *end;

    if (!extents->covered && extents->parts)
        qsort(extents->part, extents->parts, sizeof(*extents->part), extent_part_compare);
    from = end = extents->part + extents->covered;
    while (end < extents->part + extents->parts && end->tensor == tensor)
        end++;
    extents->covered = (size_t)(end - extents->part);
    while (each && row < last) {
        const struct extent_part *part = extent_part_with(from, end, row);
        uint64_t rows;

        if (!part)
            return err_set(err, -EINVAL,
                           from == end ? "the point has no tensor %s of this type and shape"
                                       : "the point has only a part of tensor %s",
                           wanted->name);
        rows = MIN(part->row + part->rows, last) - row;
        if (!ARRAY_FIT(extents->extent, extents->room, extents->count + 1))
            return err_nomem(err);
        extents->extent[extents->count++] =
            (struct extent){ .file = part->file,
                             .at = part->at + (row - part->row) * each,
                             .bytes = rows * each,
                             .tensor = tensor,
                             .tensor_at = (row - first) * each };
        row += rows;
    }
    return 0;
}

static int extent_compare(const void *a, const void *b)
{
    const struct extent *left = a, *right = b;

    if (left->file != right->file)
        return left->file < right->file ? -1 : 1;
    return (left->at > right->at) - (left->at < right->at);
}

/* ---- reading ---- */

struct loader {
    const struct manifest *manifest;
    const struct extent *extent; /* of this file, ascending */
    size_t extents;
    uint64_t *want;
    uint64_t wants;
    const struct extents_reader *reader;
    int fd;
    const unsigned char *memory; /* instead of fd */
    enum blocks_way way;
    unsigned runners;
    _Atomic unsigned taken;
    _Atomic int result;
    pthread_mutex_t lock;
    struct err *err;
};

static int loader_block(void *ctx, uint64_t index, const unsigned char *data, size_t size,
                        struct err *err)
{
    const struct loader *loader = ctx;
    uint64_t begin = index * CKPT_BLOCK, end = begin + size;
    size_t low = 0, high = loader->extents;
    int result = 0;

    if (crc32c(0, data, size) != loader->manifest->crc[index])
        return err_set(err, -EPROTO,
                       "rank-%05" PRIu32 ".safetensors: wrong checksum of bytes %" PRIu64
                       " to %" PRIu64,
                       loader->manifest->rank, begin, end - 1);
    while (low < high) { /* the first extent that ends behind the begin */
        size_t middle = low + (high - low) / 2;

        if (loader->extent[middle].at + loader->extent[middle].bytes <= begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; result == 0 && low < loader->extents && loader->extent[low].at < end; low++) {
        const struct extent *extent = &loader->extent[low];
        uint64_t from = MAX(extent->at, begin), to = MIN(extent->at + extent->bytes, end);

        result = loader->reader->put(loader->reader->ctx, extent, from - extent->at,
                                     data + (from - begin), (size_t)(to - from), err);
    }
    return result;
}

static bool loader_stop(void *ctx)
{
    return atomic_load(&((struct loader *)ctx)->result) < 0;
}

static void *loader_run(void *ctx)
{
    struct loader *loader = ctx;
    struct err err = { "" };
    struct blocks_job job = { .fd = loader->fd,
                              .way = loader->way,
                              .bytes = loader->manifest->file_bytes,
                              .want = loader->want,
                              .wants = loader->wants,
                              .first = atomic_fetch_add(&loader->taken, 1),
                              .stride = loader->runners,
                              .each = loader_block,
                              .ctx = loader,
                              .stop = loader_stop };
    int result = blocks_run(&job, &err);

    if (result < 0 && result != -ECANCELED) {
        pthread_mutex_lock(&loader->lock);
        if (atomic_load(&loader->result) == 0)
            *loader->err = err;
        atomic_store(&loader->result, result);
        pthread_mutex_unlock(&loader->lock);
    }
    return NULL;
}

static int loader_wants_make(struct loader *loader, struct err *err)
{
    loader->want = calloc(ckpt_blocks(loader->manifest->file_bytes) + 1, sizeof(*loader->want));
    if (!loader->want)
        return err_nomem(err);
    for (size_t i = 0; i < loader->extents; i++) {
        uint64_t block = loader->extent[i].at / CKPT_BLOCK,
                 last = (loader->extent[i].at + loader->extent[i].bytes - 1) / CKPT_BLOCK;

        if (loader->wants && loader->want[loader->wants - 1] >= block)
            block = loader->want[loader->wants - 1] + 1;
        for (; block <= last; block++)
            loader->want[loader->wants++] = block;
    }
    return 0;
}

/* ---- memory of a writer ---- */

static void *loader_memory_run(void *ctx)
{
    struct loader *loader = ctx;
    struct err err = { "" };
    int result = 0;

    for (size_t i = atomic_fetch_add(&loader->taken, 1);
         result == 0 && i < loader->wants && !loader_stop(loader); i += loader->runners) {
        uint64_t begin = loader->want[i] * CKPT_BLOCK;

        result = loader_block(loader, loader->want[i], loader->memory + begin,
                              (size_t)MIN(loader->manifest->file_bytes - begin, CKPT_BLOCK), &err);
    }
    if (result < 0)
        atomic_store(&loader->result, result);
    return NULL;
}

/* Whether all that is wanted of the file came from there. */
static bool extents_memory_read(const struct extents_reader *reader, const struct extent *extent,
                                size_t extents)
{
    const struct manifest *manifest = &reader->manifest[extent->file];
    struct loader loader = {
        .manifest = manifest, .extent = extent, .extents = extents, .reader = reader
    };
    struct held_map map = { .data = NULL };
    struct held_image held;
    int result;

    if (held_find(reader->dir_fd, manifest->rank, &held, NULL) < 0 || held.step != manifest->step ||
        held.job != manifest->job || held.file_bytes != manifest->file_bytes ||
        held_map_open(&held, &map, NULL) < 0)
        return false;
    loader.memory = map.data;
    result = loader_wants_make(&loader, NULL);
    loader.runners = reader->threads ? reader->threads : MIN(threads_cpus(), 8);
    loader.runners = (unsigned)MIN(loader.runners, MAX(loader.wants / 16, 1));
    while (result == 0 && atomic_load(&loader.taken) < loader.runners)
        threads_run(loader.runners - atomic_load(&loader.taken), loader_memory_run, &loader);
    result = result < 0 ? result : atomic_load(&loader.result);
    if (result == 0)
        *reader->memory_bytes += manifest->file_bytes;
    free(loader.want);
    held_map_close(&map);
    return result == 0;
}

/* ---- files ---- */

static int extents_file_read(const struct extents_reader *reader, const struct extent *extent,
                             size_t extents, struct err *err)
{
    const struct manifest *manifest = &reader->manifest[extent->file];
    int result = -EOPNOTSUPP;

    if (reader->held && extents_memory_read(reader, extent, extents))
        return 0;
    for (enum blocks_way way = BLOCKS_URING; result == -EOPNOTSUPP && way < BLOCKS_WAYS; way++) {
        CLEAN(fd_clean)
        int fd = point_file_open(reader->point_fd, manifest->rank, manifest->file_bytes, &way, err);
        struct loader loader = { .manifest = manifest,
                                 .extent = extent,
                                 .extents = extents,
                                 .reader = reader,
                                 .fd = fd,
                                 .way = way };

        if (fd < 0)
            return fd;
        loader.err = err;
        result = loader_wants_make(&loader, err);
        loader.runners = reader->threads ? reader->threads : MIN(threads_cpus(), 4);
        loader.runners = (unsigned)MIN(loader.runners, MAX(loader.wants / 16, 1));
        pthread_mutex_init(&loader.lock, NULL);
        while (result == 0 && atomic_load(&loader.taken) < loader.runners)
            threads_run(loader.runners - atomic_load(&loader.taken), loader_run, &loader);
        pthread_mutex_destroy(&loader.lock);
        free(loader.want);
        result = result < 0 ? result : atomic_load(&loader.result);
    }
    return result == -ENODATA ? -EPROTO : result;
}

int extents_read(struct extents *extents, const struct extents_reader *reader, struct err *err)
{
    int result = 0;

    if (extents->count)
        qsort(extents->extent, extents->count, sizeof(*extents->extent), extent_compare);
    for (size_t i = 0, end; result == 0 && i < extents->count; i = end) {
        for (end = i; end < extents->count && extents->extent[end].file == extents->extent[i].file;
             end++)
            ;
        result = extents_file_read(reader, &extents->extent[i], end - i, err);
    }
    return result;
}
