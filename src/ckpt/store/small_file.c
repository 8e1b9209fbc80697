/* small_file.c - small files of a checkpoint directory.
 *
 * A failed fsync is never tried again: the kernel may have dropped the data and report success the next time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/store/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"

static int small_file_size_of(int dir_fd, const char *name, int flags, uint64_t *ret)
{
    struct statx st;

    if (statx(dir_fd, name, flags, STATX_TYPE | STATX_SIZE, &st) < 0)
        return -errno;
    if (!S_ISREG(st.stx_mode))
        return -EINVAL;
    *ret = st.stx_size;
    return 0;
}

int small_file_size(int dir_fd, const char *name, uint64_t *ret)
{
    return small_file_size_of(dir_fd, name, AT_SYMLINK_NOFOLLOW, ret);
}

int small_file_size_fd(int fd, uint64_t *ret)
{
    return small_file_size_of(fd, "", AT_EMPTY_PATH, ret);
}

int small_file_read(int dir_fd, const char *name, size_t most, struct buf *ret, struct err *err)
{
    CLEAN(fd_clean)
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    unsigned char piece[16384];
    uint64_t size = 0;
    ssize_t got;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", name);
    if (small_file_size_fd(fd, &size) < 0)
        return err_set(err, -EINVAL, "%s: not a regular file", name);
    if (size > most)
        return err_set(err, -EFBIG, "%s: larger than %zu bytes", name, most);
    while ((got = read(fd, piece, sizeof(piece))) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set(err, -errno, "%s: %m", name);
        if (ret->size + (size_t)got > most)
            return err_set(err, -EFBIG, "%s: larger than %zu bytes", name, most);
        buf_put(ret, piece, (size_t)got);
    }
    return ret->failed ? err_nomem(err) : 0;
}

int small_file_create(int dir_fd, const char *name, const void *data, size_t size, struct err *err)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    const unsigned char *at = data;
    int result = 0;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", name);
    while (result == 0 && size > 0) {
        ssize_t put = write(fd, at, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            result = err_set(err, put < 0 ? -errno : -ENOSPC, "%s: %m", name);
        } else {
            at += put;
            size -= (size_t)put;
        }
    }
    if (result == 0 && fsync(fd) < 0)
        result = err_set(err, -errno, "%s: fsync: %m", name);
    if (close(fd) < 0 && result == 0) /* network file systems report lost writes here */
        result = err_set(err, -errno, "%s: close: %m", name);
    if (result < 0)
        unlinkat(dir_fd, name, 0);
    return result;
}

int directory_sync(int dir_fd, struct err *err)
{
    return fsync(dir_fd) < 0 ? err_set(err, -errno, "fsync of the directory: %m") : 0;
}

int small_file_replace(int dir_fd, const char *name, const char *temporary, const struct buf *data,
                       struct err *err)
{
    int result;

    if (data->failed)
        return err_nomem(err);
    unlinkat(dir_fd, temporary, 0); /* of a writer that was killed */
    result = small_file_create(dir_fd, temporary, data->data, data->size, err);
    if (result < 0)
        return result;
    if (renameat(dir_fd, temporary, dir_fd, name) < 0)
        return err_set(err, -errno, "%s: rename: %m", name);
    return directory_sync(dir_fd, err);
}
