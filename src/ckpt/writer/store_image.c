/* store_image.c - writes an image to disk and digests it on the way.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/writer/store_image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/format/tensor_digests.h"
#include "ckpt/store/blocks.h"
#include "ckpt/store/point.h"
#include "ckpt/writer/replica_check.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

#define PIECE 131072u /* digested twice while it is in the cache */

struct digester {
    const struct store_image *store;
    struct tensor_digests digests;
    struct slice_digests slices;
};

static int digester_tensor(void *ctx, size_t tensor, const struct ckpt_digest *digest,
                           struct err *err)
{
    struct manifest *manifest = ctx;

    (void)err;
    manifest->tensor[tensor].digest = *digest;
    return 0;
}

static int store_digest_block(void *ctx, uint64_t index, const unsigned char *data, size_t size,
                              struct err *err)
{
    struct digester *digester = ctx;
    uint64_t at = index * CKPT_BLOCK;
    int64_t begin_ns = time_mono_ns();
    uint32_t crc = 0;
    int result = 0;

    for (size_t done = 0, part; result == 0 && done < size; done += part) {
        part = MIN(size - done, PIECE);
        crc = crc32c(crc, data + done, part);
        result = tensor_digests_add(&digester->digests, at + done, data + done, part, err);
    }
    digester->store->manifest->crc[index] = crc;
    slice_digests_add(&digester->slices, size);
    *digester->store->digest_ns += (uint64_t)(time_mono_ns() - begin_ns);
    return result;
}

static bool digester_stop(void *ctx)
{
    const struct digester *digester = ctx;

    return digester->store->stop && digester->store->stop(digester->store->ctx);
}

static int store_blocks_write(const struct store_image *store, int fd, enum blocks_way way,
                              struct err *err)
{
    struct manifest *manifest = store->manifest;
    struct digester digester = { .store = store,
                                 .digests = { .manifest = manifest, .each = digester_tensor } };
    struct blocks_job job = { .fd = fd,
                              .way = way,
                              .write = true,
                              .bytes = manifest->file_bytes,
                              .image = store->image,
                              .each = store_digest_block,
                              .ctx = &digester,
                              .bytes_per_s = store->bytes_per_s,
                              .stop = digester_stop };
    int result;

    digester.digests.ctx = manifest;
    *store->digest_ns = 0; /* of another try */
    result = tensor_digests_open(&digester.digests, err);
    if (result == 0)
        result = slice_digests_open(&digester.slices, manifest, store->image, err);
    if (result == 0)
        result = blocks_run(&job, err);
    if (result == 0)
        slice_digests_add(&digester.slices, UINT64_MAX);
    slice_digests_close(&digester.slices);
    tensor_digests_close(&digester.digests);
    return result;
}

/* Room first: better no file than half of one.  Many file systems of the network cannot promise it. */
static int store_room_take(int fd, uint64_t bytes, struct err *err)
{
    int result;

    do
        result = fallocate(fd, 0, 0, (off_t)bytes) < 0 ? -errno : 0;
    while (result == -EINTR);
    if (result == -EOPNOTSUPP || result == -ENOSYS || result == -EINVAL)
        return 0;
    return result < 0 ? err_set(err, result, "no room for %llu bytes: %s",
                                (unsigned long long)bytes, strerror(-result))
                      : 0;
}

/* One try, in one way, into a new file. */
static int store_file_write(const struct store_image *store, enum blocks_way way, const char *name,
                            struct err *err)
{
    int dir_fd = store->publish->fd, result;
    int fd =
        openat(dir_fd, name,
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | blocks_open_flags(way), 0644);

    if (fd < 0) {
        result = errno == EINVAL && way != BLOCKS_BUFFERED ? -EOPNOTSUPP : -errno;
        unlinkat(dir_fd, name, 0); /* the file is made before O_DIRECT is refused */
        return err_set(err, result, "open: %s", strerror(result == -EOPNOTSUPP ? EINVAL : -result));
    }
    result = store_room_take(fd, store->manifest->file_bytes, err);
    if (result == 0)
        result = store_blocks_write(store, fd, way, err);
    if (result == 0 && ftruncate(fd, (off_t)store->manifest->file_bytes) < 0)
        result = err_set(err, -errno, "ftruncate: %m");
    if (result == 0 && fsync(fd) < 0)
        result = err_set(err, -errno, "fsync: %m");
    if (close(fd) < 0 && result == 0)
        result = err_set(err, -errno, "close: %m");
    if (result < 0)
        unlinkat(dir_fd, name, 0);
    return result;
}

int store_image(const struct store_image *store, char *io, size_t io_room, struct err *err)
{
    struct manifest *manifest = store->manifest;
    enum blocks_way way = BLOCKS_URING;
    char name[64], temporary[64], why[256] = "";
    int result = -EOPNOTSUPP, tries = 0;

    free(manifest->crc);
    manifest->blocks = ckpt_blocks(manifest->file_bytes);
    manifest->crc = calloc(manifest->blocks + 1, sizeof(*manifest->crc));
    if (!manifest->crc)
        return err_nomem(err);
    point_rank_name(manifest->rank, "safetensors", name, sizeof(name));
    point_rank_name(manifest->rank, "tensors.tmp", temporary, sizeof(temporary));
    unlinkat(store->publish->fd, temporary, 0); /* of a writer that was killed */
    while (result < 0) {
        struct err reason = { "" };

        result = store_file_write(store, way, temporary, &reason);
        if (result == -EOPNOTSUPP && way + 1 < BLOCKS_WAYS) {
            size_t used = strlen(why);

            snprintf(why + used, sizeof(why) - used, "%s%s", used ? "; " : ", because ",
                     reason.text);
            way++;
        } else if (result < 0 && (result != -EIO || ++tries == 2)) {
            return err_set(err, result, "%s", reason.text);
        }
    }
    snprintf(io, io_room, "%s%s", blocks_way_name(way), why);
    if (renameat(store->publish->fd, temporary, store->publish->fd, name) < 0)
        return err_set(err, -errno, "%s: rename: %m", name);
    return 0;
}
