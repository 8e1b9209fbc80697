/* seal.c - makes and verifies seals: several files at once, each read once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/seal/seal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/seal/complete.h"
#include "ckpt/seal/seal_tree.h"
#include "ckpt/store/small_file.h"
#include "ckpt/store/threads.h"
#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"

struct seal_pass {
    int dir_fd;
    const struct seal_run *run;
    bool making; /* else only checksums are wanted */
    struct seal *seal;
    uint64_t bytes;
    _Atomic size_t taken;
    _Atomic int result;
    pthread_mutex_t lock; /* of what follows */
    uint64_t done_bytes;
    size_t failed; /* the first file that failed */
    struct err *err;
};

static void seal_pass_add(void *ctx, size_t bytes)
{
    struct seal_pass *scan = ctx;

    pthread_mutex_lock(&scan->lock);
    scan->done_bytes += bytes;
    if (scan->run->progress)
        scan->run->progress(scan->run->ctx, scan->done_bytes, scan->bytes);
    pthread_mutex_unlock(&scan->lock);
}

static int seal_entry_check(const struct seal_pass *all, const struct seal_scan *scan,
                            const struct seal_entry *file, struct err *err)
{
    int result = all->run->allow_zeros ? 0 : complete_zeros(file, scan, err);
    char name[120];

    if (result == 0 && scan->nan_tensor && !all->run->allow_nan)
        result = err_set(
            err, -EPROTO, "%" PRIu64 " numbers are NaN, first in tensor %s", file->nan,
            text_shorten(scan->nan_tensor->name, scan->nan_tensor->name_bytes, name, sizeof(name)));
    return result;
}

/* From the disk, not from memory: a seal must not outlive data that was never written. */
static int seal_entry_sync(const struct seal_pass *all, int fd, struct err *err)
{
    if (all->making && fsync(fd) < 0 && errno != EROFS && errno != EINVAL)
        return err_set(err, -errno, "fsync: %m");
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static bool seal_entry_changed(const struct stat *before, const struct stat *after)
{
    return before->st_size != after->st_size || before->st_mtim.tv_sec != after->st_mtim.tv_sec ||
           before->st_mtim.tv_nsec != after->st_mtim.tv_nsec;
}

static int seal_entry_scan(struct seal_pass *all, struct seal_entry *file, unsigned char *buffer,
                           struct err *err)
{
    CLEAN(fd_clean) int fd = seal_tree_open(all->dir_fd, file->path, err);
    struct safetensors tensors = { .text = NULL };
    struct seal_scan scan = { .each = seal_pass_add, .ctx = all, .buffer = buffer };
    struct stat before, after;
    int result;

    if (fd < 0)
        return fd == -ENOENT ? -EPROTO : fd;
    if (fstat(fd, &before) < 0)
        return err_set(err, -errno, "%s: %m", file->path);
    result = (uint64_t)before.st_size == file->bytes
                 ? seal_entry_sync(all, fd, err)
                 : err_set(err, -EPROTO, "changed while it was read");
    if (result == 0 && all->making)
        result = complete_file(fd, file, &tensors, err);
    if (tensors.text)
        scan.tensors = &tensors;
    if (result == 0)
        result = seal_scan_file(fd, &scan, file, err);
    if (result == 0 && all->making)
        result = seal_entry_check(all, &scan, file, err);
    if (result == 0 && (fstat(fd, &after) < 0 || seal_entry_changed(&before, &after)))
        result = err_set(err, -EPROTO, "changed while it was read");
    safetensors_fini(&tensors);
    return result < 0 ? err_wrap(err, result, "%s", file->path) : 0;
}

static void *seal_pass_run(void *ctx)
{
    struct seal_pass *all = ctx;
    CLEAN(free_clean) unsigned char *buffer = malloc(CKPT_BLOCK);

    while (atomic_load(&all->result) == 0) {
        struct err err = { "" };
        size_t i = atomic_fetch_add(&all->taken, 1);
        int result;

        if (i >= all->seal->files)
            break;
        result = buffer ? seal_entry_scan(all, &all->seal->file[i], buffer, &err) : err_nomem(&err);
        if (result == 0)
            continue;
        pthread_mutex_lock(&all->lock);
        if (atomic_load(&all->result) == 0 || i < all->failed) {
            all->failed = i;
            if (all->err)
                *all->err = err;
            atomic_store(&all->result, result);
        }
        pthread_mutex_unlock(&all->lock);
    }
    return NULL;
}

static int seal_pass_all(int dir_fd, const struct seal_run *run, bool making, struct seal *seal,
                         struct err *err)
{
    struct seal_pass all = { .dir_fd = dir_fd, .run = run, .making = making, .seal = seal };
    unsigned threads = run->threads ? run->threads : MIN(threads_cpus(), 4);

    all.bytes = seal_bytes(seal);
    all.err = err;
    pthread_mutex_init(&all.lock, NULL);
    threads_run((unsigned)MIN(threads, MAX(seal->files, 1)), seal_pass_run, &all);
    pthread_mutex_destroy(&all.lock);
    return atomic_load(&all.result);
}

/* ---- making ---- */

static int seal_again(int dir_fd, const struct seal *seal, struct err *err)
{
    int result = seal_verify_sizes(dir_fd, seal, err);

    return result < 0 ? err_wrap(err, result, "changed while it was read") : 0;
}

int seal_make(int dir_fd, const struct seal_run *run, struct seal *ret, struct err *err)
{
    struct seal made = { .step = SEAL_NO_STEP };
    int result = seal_tree_read(dir_fd, &made, err);

    if (result == 0 && !made.files)
        result = err_set(err, -ENODATA, "there are no files");
    if (result == 0)
        result = seal_pass_all(dir_fd, run, true, &made, err);
    if (result == 0)
        result = complete_tree(dir_fd, &made, err);
    if (result == 0)
        result = seal_again(dir_fd, &made, err);
    made.sealed_ns = time_real_ns();
    if (result < 0)
        seal_fini(&made);
    else
        *ret = made;
    return result;
}

int seal_write(int dir_fd, const struct seal *seal, struct err *err)
{
    struct buf bytes = { .data = NULL };
    int result;

    seal_encode(seal, &bytes);
    result = bytes.size > SEAL_FILE_MAX
                 ? err_set(err, -EFBIG, "the seal would be larger than 1 GiB")
                 : small_file_replace(dir_fd, SEAL_NAME, SEAL_TEMPORARY, &bytes, err);
    buf_fini(&bytes);
    return result;
}

int seal_read(int dir_fd, struct seal *ret, struct err *err)
{
    struct buf bytes = { .data = NULL };
    int result = small_file_read(dir_fd, SEAL_NAME, SEAL_FILE_MAX, &bytes, err);

    if (result == -EFBIG || result == -EINVAL || result == -ELOOP)
        result = -EPROTO;
    if (result == 0)
        result = seal_parse(bytes.data, bytes.size, ret, err);
    buf_fini(&bytes);
    return result;
}

/* ---- comparing ---- */

static bool seal_digest_same(const struct seal_entry *a, const struct seal_entry *b)
{
    return a->bytes == b->bytes && memcmp(&a->digest, &b->digest, sizeof(a->digest)) == 0;
}

/* Which sealed file has these contents; NULL: none. */
static const char *seal_contents_of(const struct seal *seal, const struct seal_entry *found)
{
    for (size_t i = 0; i < seal->files; i++) {
        if (seal_digest_same(&seal->file[i], found))
            return seal->file[i].path;
    }
    return NULL;
}

static int seal_contents_compare(const struct seal *seal, const struct seal_entry *file,
                                 const struct seal_entry *found, struct err *err)
{
    const char *other = seal_digest_same(file, found) ? NULL : seal_contents_of(seal, found);

    if (other)
        return err_set(err, -EPROTO, "%s: has the contents of %s", file->path, other);
    for (uint64_t i = 0; i < ckpt_blocks(file->bytes); i++) {
        if (file->crc[i] != found->crc[i])
            return err_set(
                err, -EPROTO, "%s: changed: wrong checksum of bytes %" PRIu64 " to %" PRIu64 "%s",
                file->path, i * CKPT_BLOCK, MIN((i + 1) * CKPT_BLOCK, file->bytes) - 1,
                found->zero_pages > file->zero_pages ? "; there are new pages of zeros" : "");
    }
    return seal_digest_same(file, found)
               ? 0
               : err_set(err, -EPROTO, "%s: changed: wrong digest", file->path);
}

int seal_compare(const struct seal *seal, const struct seal *found, bool contents, struct err *err)
{
    size_t i = 0, k = 0;

    while (i < seal->files || k < found->files) {
        const struct seal_entry *file = i < seal->files ? &seal->file[i] : NULL,
                                *now = k < found->files ? &found->file[k] : NULL;
        int order = !file ? 1 : !now ? -1 : strcmp(file->path, now->path), result = 0;

        if (order < 0)
            return err_set(err, -EPROTO, "%s: missing", file->path);
        if (order > 0)
            return err_set(err, -EPROTO, "%s: added after the directory was sealed", now->path);
        if (file->bytes != now->bytes)
            return err_set(err, -EPROTO, "%s: %s: has %" PRIu64 " bytes, %" PRIu64 " were sealed",
                           file->path, now->bytes < file->bytes ? "truncated" : "grown", now->bytes,
                           file->bytes);
        if (contents)
            result = seal_contents_compare(seal, file, now, err);
        if (result < 0)
            return result;
        i++;
        k++;
    }
    return 0;
}

int seal_verify_sizes(int dir_fd, const struct seal *seal, struct err *err)
{
    struct seal found = { .step = SEAL_NO_STEP };
    int result = seal_tree_read(dir_fd, &found, err);

    if (result == 0)
        result = seal_compare(seal, &found, false, err);
    seal_fini(&found);
    return result;
}

int seal_verify(int dir_fd, const struct seal *seal, const struct seal_run *run, struct err *err)
{
    struct seal found = { .step = SEAL_NO_STEP };
    int result = seal_tree_read(dir_fd, &found, err);

    if (result == 0)
        result = seal_compare(seal, &found, false, err); /* before hours of reading */
    if (result == 0)
        result = seal_pass_all(dir_fd, run, false, &found, err);
    if (result == 0)
        result = seal_compare(seal, &found, true, err);
    seal_fini(&found);
    return result;
}

uint64_t seal_step_of(const char *name)
{
    static const char *const words[] = { "step", "iter", "checkpoint", "ckpt", "epoch" };

    for (size_t i = 0; i < COUNT(words); i++) {
        const char *at = strstr(name, words[i]);
        uint64_t step;
        char *end;

        if (!at)
            continue;
        at += strlen(words[i]);
        at += strspn(at, "-_=");
        errno = 0;
        step = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : SEAL_NO_STEP;
        if (!errno && step != SEAL_NO_STEP)
            return step;
    }
    return SEAL_NO_STEP;
}
