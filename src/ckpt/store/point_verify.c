/* point_verify.c - reads a point and compares it with its checksums.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/format/tensor_digests.h"
#include "ckpt/store/point.h"
#include "ckpt/store/small_file.h"
#include "ckpt/store/threads.h"
#include "core/clean.h"
#include "core/hash.h"

int point_manifest(int point_fd, const struct commit *commit, uint32_t i, struct manifest *ret,
                   struct err *err)
{
    const struct commit_rank *rank = &commit->rank[i];
    struct buf bytes = { .data = NULL };
    struct ckpt_digest digest;
    char name[64];
    int result;

    point_rank_name(rank->rank, "manifest", name, sizeof(name));
    result = small_file_read(point_fd, name, CKPT_MANIFEST_MAX, &bytes, err);
    if (result == -ENOENT || result == -EFBIG || result == -EINVAL)
        result = -EPROTO;
    if (result == 0) {
        digest = ckpt_digest_of(bytes.data, bytes.size);
        if (bytes.size != rank->manifest_bytes ||
            memcmp(digest.byte, rank->manifest.byte, sizeof(digest.byte)) != 0)
            result = err_set(err, -EPROTO, "%s: not the one that was committed", name);
    }
    if (result == 0)
        result = manifest_parse(bytes.data, bytes.size, false, ret, err);
    buf_fini(&bytes);
    if (result < 0)
        return result;
    if (ret->step == commit->step && ret->job == commit->job && ret->world == commit->world &&
        ret->rank == rank->rank && ret->file_bytes == rank->file_bytes)
        return 0;
    manifest_fini(ret);
    return err_set(err, -EPROTO, "%s: contradicts COMMIT", name);
}

int point_file_open(int point_fd, uint32_t rank, uint64_t bytes, enum blocks_way *way,
                    struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    char name[64];
    uint64_t size = 0;
    int result;

    point_rank_name(rank, "safetensors", name, sizeof(name));
    for (; fd < 0 && *way < BLOCKS_WAYS; *way += fd < 0) { /* a FIFO must not block */
        fd = openat(point_fd, name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                        blocks_open_flags(*way));
        if (fd < 0 && errno != EINVAL)
            break;
    }
    if (fd < 0)
        return errno == ENOENT ? err_set(err, -EPROTO, "%s: missing", name)
               : errno == ELOOP || errno == ENXIO
                   ? err_set(err, -EPROTO, "%s: not a regular file", name)
                   : err_set(err, -errno, "%s: %m", name);
    result = small_file_size_fd(
        fd, &size); /* of what was opened: the name may be another file's by now */
    if (result == -EINVAL)
        return err_set(err, -EPROTO, "%s: not a regular file", name);
    if (result < 0)
        return err_set(err, result, "%s: %s", name, strerror(-result));
    if (size != bytes)
        return err_set(err, -EPROTO, "%s: has %" PRIu64 " bytes, %" PRIu64 " were saved", name,
                       size, bytes);
    if (fcntl(fd, F_SETFL, blocks_open_flags(*way)) < 0) /* io_uring must wait for it */
        return err_set(err, -errno, "%s: %m", name);
    if (*way == BLOCKS_BUFFERED)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* from the disk, not from memory */
    return TAKE_FD(fd);
}

struct checker {
    const struct manifest *manifest;
    const struct point_check *check;
    int fd;
    enum blocks_way way;
    unsigned runners;
    uint64_t first, parts; /* block */
    _Atomic unsigned taken;
    _Atomic uint64_t done_bytes;
    _Atomic int result;
    pthread_mutex_t lock;
    struct tensor_digests digests;
    struct err *err;
};

static int checker_tensor(void *ctx, size_t tensor, const struct ckpt_digest *digest,
                          struct err *err)
{
    const struct manifest *manifest = ((struct checker *)ctx)->manifest;

    if (memcmp(digest->byte, manifest->tensor[tensor].digest.byte, sizeof(digest->byte)) == 0)
        return 0;
    return err_set(err, -EPROTO, "rank-%05" PRIu32 ".safetensors: wrong digest of tensor %s",
                   manifest->rank, manifest->tensor[tensor].name);
}

static int point_block_check(void *ctx, uint64_t index, const unsigned char *data, size_t size,
                             struct err *err)
{
    struct checker *checker = ctx;
    const struct manifest *manifest = checker->manifest;

    if (crc32c(0, data, size) != manifest->crc[index])
        return err_set(err, -EPROTO,
                       "rank-%05" PRIu32 ".safetensors: wrong checksum of bytes %" PRIu64
                       " to %" PRIu64,
                       manifest->rank, index * CKPT_BLOCK, index * CKPT_BLOCK + size - 1);
    atomic_fetch_add(&checker->done_bytes, size);
    if (checker->check->next)
        *checker->check->next = index + checker->parts;
    if (checker->check->progress && atomic_load(&checker->taken) == 1)
        checker->check->progress(checker->check->ctx,
                                 checker->check->done_bytes + atomic_load(&checker->done_bytes),
                                 MAX(checker->check->bytes, manifest->file_bytes));
    return checker->check->digests
               ? tensor_digests_add(&checker->digests, index * CKPT_BLOCK, data, size, err)
               : 0;
}

static bool checker_stop(void *ctx)
{
    const struct checker *checker = ctx;

    return atomic_load(&checker->result) < 0 ||
           (checker->check->stop && checker->check->stop(checker->check->ctx));
}

static void *checker_run(void *ctx)
{
    struct checker *checker = ctx;
    struct err err = { "" };
    struct blocks_job job = { .fd = checker->fd,
                              .way = checker->way,
                              .bytes = checker->manifest->file_bytes,
                              .first = checker->first +
                                       atomic_fetch_add(&checker->taken, 1) * checker->parts,
                              .stride = checker->runners * checker->parts,
                              .ordered = checker->check->digests || checker->check->next,
                              .each = point_block_check,
                              .ctx = checker,
                              .bytes_per_s = checker->check->bytes_per_s / checker->runners,
                              .stop = checker_stop };
    int result = blocks_run(&job, &err);

    if (result < 0) {
        pthread_mutex_lock(&checker->lock);
        if (atomic_load(&checker->result) == 0 || atomic_load(&checker->result) == -ECANCELED) {
            if (checker->err)
                *checker->err = err;
            atomic_store(&checker->result, result);
        }
        pthread_mutex_unlock(&checker->lock);
    }
    return NULL;
}

static int checker_digests_open(struct checker *checker, struct err *err)
{
    checker->digests = (struct tensor_digests){ .manifest = checker->manifest,
                                                .each = checker_tensor,
                                                .ctx = checker };
    return checker->check->digests ? tensor_digests_open(&checker->digests, err) : 0;
}

uint32_t point_file_parts(const struct manifest *manifest, uint32_t parts)
{
    return parts && ckpt_blocks(manifest->file_bytes) >= parts ? parts : 1;
}

int point_verify_file(int point_fd, const struct manifest *manifest,
                      const struct point_check *check, struct err *err)
{
    int result = -EOPNOTSUPP;

    for (enum blocks_way way = BLOCKS_URING; result == -EOPNOTSUPP && way < BLOCKS_WAYS; way++) {
        CLEAN(fd_clean)
        int fd = point_file_open(point_fd, manifest->rank, manifest->file_bytes, &way, err);
        struct checker checker = { .manifest = manifest, .check = check, .fd = fd, .way = way };

        if (fd < 0)
            return fd;
        checker.err = err;
        checker.runners = check->threads ? check->threads : MIN(threads_cpus(), 4);
        checker.runners =
            (unsigned)MIN(checker.runners, MAX(ckpt_blocks(manifest->file_bytes) / 16, 1));
        if (check->digests || check->next)
            checker.runners = 1;
        checker.parts = check->digests ? 1 : point_file_parts(manifest, check->parts);
        checker.first = check->part % checker.parts;
        if (check->next)
            checker.first = MAX(checker.first, *check->next);
        result = checker_digests_open(&checker, err);
        pthread_mutex_init(&checker.lock, NULL);
        /* A thread that does not start would leave its blocks unread. */
        for (unsigned i = 0; result == 0 && i < checker.runners;) {
            threads_run(checker.runners - i, checker_run, &checker);
            i = atomic_load(&checker.taken);
        }
        pthread_mutex_destroy(&checker.lock);
        tensor_digests_close(&checker.digests);
        result = result < 0 ? result : atomic_load(&checker.result);
    }
    return result == -ENODATA ? -EPROTO : result;
}

/* Readers of safetensors take every such file of the directory. */
static int point_strangers_check(int point_fd, const struct commit *commit, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = fdopendir(openat(point_fd, ".", O_RDONLY | O_CLOEXEC));
    const struct dirent *entry;
    uint32_t found = 0;

    if (!dir)
        return err_set(err, -errno, "%m");
    while ((entry = readdir(dir))) {
        const char *end = strrchr(entry->d_name, '.');

        found += end && strcmp(end, ".safetensors") == 0;
    }
    return found == commit->group
               ? 0
               : err_set(err, -EPROTO,
                         "has %" PRIu32 " files of tensors, %" PRIu32 " were committed", found,
                         commit->group);
}

static int point_verify_rank(int point_fd, const struct commit *commit, uint32_t i,
                             const struct point_check *check, struct err *err)
{
    struct manifest manifest = { .step = 0 };
    int result = point_manifest(point_fd, commit, i, &manifest, err);

    if (result < 0)
        return result;
    result = point_verify_file(point_fd, &manifest, check, err);
    manifest_fini(&manifest);
    if (result == 0 && check->mark && point_rank_parts(point_fd, &commit->rank[i]) != 1)
        point_mark_verified(point_fd, commit->rank[i].rank, &commit->rank[i].manifest, 1, NULL);
    return result;
}

/* Damage, unless the point was removed or replaced while it was read. */
static int point_verify_still_there(int dir_fd, const struct point *point, struct err *err)
{
    struct err gone = { "" };
    CLEAN(fd_clean) int fd = point_open(dir_fd, point, &gone);

    return fd < 0 ? err_set(err, -ESTALE, "%s", gone.text) : 0;
}

int point_verify(int dir_fd, const struct point *point, const struct point_check *check,
                 struct err *err)
{
    CLEAN(fd_clean) int fd = -1;
    struct point_check part = *check;
    struct commit commit = { .step = 0 };
    int result;

    if (point->state != POINT_COMMITTED)
        return err_set(err, -EPROTO, "%s", point->why);
    fd = point_open(dir_fd, point, err);
    if (fd < 0)
        return fd == -ENOENT ? -ESTALE : fd;
    result = point_commit(fd, point->step, &commit, err);
    if (result == 0)
        result = point_strangers_check(fd, &commit, err);
    part.bytes = MAX(check->bytes, check->done_bytes + point->bytes);
    for (uint32_t i = 0; result == 0 && i < commit.group; i++) {
        result = point_verify_rank(fd, &commit, i, &part, err);
        part.done_bytes += commit.rank[i].file_bytes;
    }
    commit_fini(&commit);
    if (result < 0 && point_verify_still_there(dir_fd, point, err) < 0)
        return -ESTALE;
    return result;
}

static void point_contents_add(struct ckpt_hash *hash, const struct manifest *manifest)
{
    for (size_t i = 0; i < manifest->tensors; i++) {
        const struct ckpt_tensor *tensor = &manifest->tensor[i];

        if (tensor->begin == tensor->end)
            continue;
        ckpt_hash_add(hash, tensor->name, strlen(tensor->name) + 1);
        ckpt_hash_add(hash, tensor->digest.byte, sizeof(tensor->digest.byte));
    }
}

int point_contents(int dir_fd, const struct point *point, struct ckpt_digest *ret, struct err *err)
{
    CLEAN(fd_clean) int fd = point_open(dir_fd, point, err);
    struct ckpt_hash *hash = ckpt_hash_create();
    struct commit commit = { .step = 0 };
    int result = fd < 0 ? fd : hash ? 0 : err_nomem(err);

    if (result == 0)
        result = point_commit(fd, point->step, &commit, err);
    for (uint32_t i = 0; result == 0 && i < commit.group; i++) {
        struct manifest manifest = { .step = 0 };

        result = point_manifest(fd, &commit, i, &manifest, err);
        if (result < 0)
            break;
        point_contents_add(hash, &manifest);
        manifest_fini(&manifest);
    }
    if (result == 0)
        *ret = ckpt_hash_end(hash);
    commit_fini(&commit);
    ckpt_hash_destroy(hash);
    return result;
}
