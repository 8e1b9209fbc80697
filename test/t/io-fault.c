/* io-fault.c - a disk that fails, for one file: preloaded into a program under test.
 *
 * While the file $IO_FAULT says so, calls on files whose name ends in $IO_FAULT_NAME fail.  What it may
 * say: "fdatasync" (fails with EIO), "pwrite" (half is written, then there is no room) and "ftruncate" (fails
 * with EIO), in any combination.  Each failed call appends its name to $IO_FAULT.log.
 *
 * What a failed sync leaves is as on a real disk: it can still be read, later syncs say yes to it, and in the end
 * (after the next good one) it is gone, unless it was written again or cut off.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static off64_t synced, lost_from, lost_to; /* of the one file */

static bool name_is_meant(int fd)
{
    const char *wanted = getenv("IO_FAULT_NAME");
    char link[64], path[PATH_MAX];
    ssize_t size;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof(path) - 1);
    if (!wanted || size < (ssize_t)strlen(wanted))
        return false;
    path[size] = '\0';
    return strcmp(path + size - strlen(wanted), wanted) == 0;
}

static bool is_to_fail(int fd, const char *call)
{
    const char *file = getenv("IO_FAULT");
    char text[256] = "", log[PATH_MAX];
    int from = file ? open(file, O_RDONLY | O_CLOEXEC) : -1, to;
    ssize_t got = from >= 0 ? read(from, text, sizeof(text) - 1) : -1;

    if (from >= 0)
        close(from);
    if (got <= 0 || !strstr(text, call) || !name_is_meant(fd))
        return false;
    snprintf(log, sizeof(log), "%s.log", file);
    to = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (to >= 0) {
        dprintf(to, "%s\n", call);
        close(to);
    }
    return true;
}

typedef ssize_t write_fn(int fd, const void *data, size_t size, off64_t at);

static write_fn *real_write(void)
{
    return (write_fn *)dlsym(RTLD_NEXT, "pwrite64");
}

static void lose(int fd)
{
    static const char nothing[4096];

    while (lost_from < lost_to) {
        off64_t left = lost_to - lost_from;
        size_t size = left < (off64_t)sizeof(nothing) ? (size_t)left : sizeof(nothing);

        if (real_write()(fd, nothing, size, lost_from) <= 0)
            abort();
        lost_from += (off64_t)size;
    }
}

int fdatasync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    off64_t size = lseek64(fd, 0, SEEK_END);

    if (!name_is_meant(fd))
        return real(fd);
    if (is_to_fail(fd, "fdatasync")) {
        if (lost_from >= lost_to)
            lost_from = synced;
        lost_to = size;
        errno = EIO;
        return -1;
    }
    if (real(fd) < 0)
        return -1;
    synced = size;
    lose(fd);
    return 0;
}

int ftruncate64(int fd, off64_t size)
{
    int (*real)(int, off64_t) = (int (*)(int, off64_t))dlsym(RTLD_NEXT, "ftruncate64");

    if (is_to_fail(fd, "ftruncate")) {
        errno = EIO;
        return -1;
    }
    if (name_is_meant(fd)) {
        lost_to = size < lost_to ? size : lost_to;
        synced = size < synced ? size : synced;
    }
    return real(fd, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    bool fails = is_to_fail(fd, "pwrite");

    if (name_is_meant(fd) && at < lost_to) /* what is written again is not lost */
        lost_to = at;
    return real_write()(fd, data, fails ? size / 2 + 1 : size, at);
}
