/* ckpt-fault.c - a disk and a kernel that fail, for the writer of checkpoints: preloaded into the trainer, active in the writer.
 *
 * $CKPT_FAULT is a list of words: fsync=N (the N-th fails with EIO), fallocate (no room), full (no room after some writes), short
 * (pwrite writes a part), uring (io_uring_setup is not permitted), direct (O_DIRECT is refused), term (SIGTERM comes when the writer has just taken the name
 * under which it holds an image), unlink (removing a file takes a while), slow (reading a block takes 0.5 s),
 * nolink (no hard links), noreplace (renameat2 takes no flags).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool fails(const char *word, const char **value)
{
    const char *list = getenv("CKPT_FAULT"), *at = list ? strstr(list, word) : NULL;
    char path[PATH_MAX];
    ssize_t size = at ? readlink("/proc/self/exe", path, sizeof(path) - 1) : -1;
    static const char program[] = "lockstep-ckpt-writer";

    if (size < (ssize_t)sizeof(program) ||
        memcmp(path + size - (sizeof(program) - 1), program, sizeof(program) - 1) != 0)
        return false;
    if (value)
        *value = at + strlen(word);
    return true;
}

int fsync(int fd)
{
    static _Atomic int count;
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const char *number;

    if (fails("fsync=", &number) && atomic_fetch_add(&count, 1) + 1 == atoi(number)) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int prctl(int option, ...)
{
    int (*real)(int, ...) = (int (*)(int, ...))dlsym(RTLD_NEXT, "prctl");
    unsigned long value[4];
    va_list args;
    int result;

    va_start(args, option);
    for (int i = 0; i < 4; i++)
        value[i] = va_arg(args, unsigned long);
    va_end(args);
    result = real(option, value[0], value[1], value[2], value[3]);
    if (option == PR_SET_NAME && strcmp((const char *)value[0], "ckpt-held") == 0 && // NOLINT
        fails("term", NULL))
        kill(getpid(), SIGTERM);
    return result;
}

int unlinkat(int dir, const char *path, int flags)
{
    int (*real)(int, const char *, int) =
        (int (*)(int, const char *, int))dlsym(RTLD_NEXT, "unlinkat");

    if (fails("unlink", NULL))
        usleep(50000);
    return real(dir, path, flags);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    int (*real)(int, const char *, int, const char *, int) =
        (int (*)(int, const char *, int, const char *, int))dlsym(RTLD_NEXT, "linkat");

    if (fails("nolink", NULL)) {
        errno = EPERM;
        return -1;
    }
    return real(from_dir, from, to_dir, to, flags);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    int (*real)(int, const char *, int, const char *, unsigned) =
        (int (*)(int, const char *, int, const char *, unsigned))dlsym(RTLD_NEXT, "renameat2");

    if (flags && fails("noreplace", NULL)) {
        errno = EINVAL;
        return -1;
    }
    return real(from_dir, from, to_dir, to, flags);
}

int fallocate64(int fd, int mode, off64_t at, off64_t size)
{
    int (*real)(int, int, off64_t, off64_t) =
        (int (*)(int, int, off64_t, off64_t))dlsym(RTLD_NEXT, "fallocate64");

    if (fails("fallocate", NULL)) {
        errno = ENOSPC;
        return -1;
    }
    if (fails("full", NULL)) { /* as on a file system that cannot promise room */
        errno = EOPNOTSUPP;
        return -1;
    }
    return real(fd, mode, at, size);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    static _Atomic int count;
    ssize_t (*real)(int, const void *, size_t, off64_t) =
        (ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");

    if (fails("full", NULL) && atomic_fetch_add(&count, 1) >= 1) {
        errno = ENOSPC;
        return -1;
    }
    if (fails("short", NULL) &&
        size > 8192) /* a sector behind a page: direct I/O has to go back to it */
        size = (size / 2 & ~(size_t)4095) + 512;
    return real(fd, data, size, at);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t at)
{
    ssize_t (*real)(int, void *, size_t, off64_t) =
        (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");

    if (fails("slow", NULL))
        usleep(500000);
    return real(fd, data, size, at);
}

int openat64(int dir, const char *path, int flags, ...)
{
    int (*real)(int, const char *, int, ...) =
        (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat64");
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if ((flags & O_DIRECT) && fails("direct", NULL)) {
        errno = EINVAL;
        return -1;
    }
    return real(dir, path, flags, mode);
}

long syscall(long number, ...)
{
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    va_list args;
    long arg[6];

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_io_uring_setup && fails("uring", NULL)) {
        errno = EPERM;
        return -1;
    }
    return real(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}
