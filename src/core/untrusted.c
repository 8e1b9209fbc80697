/* untrusted.c - opens files of other users safely.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/untrusted.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"

#define SAFE_FLAGS (O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* Kernels before 5.6, and some sandboxes, do not have openat2: then the device is compared after the fact. */
static int untrusted_open_and_compare(int dir_fd, const char *name, int flags, unsigned mode)
{
    CLEAN(fd_clean) int fd = openat(dir_fd, name, flags, mode);
    struct stat above, st;

    if (fd < 0 || fstat(dir_fd, &above) < 0 || fstat(fd, &st) < 0)
        return -errno;
    return st.st_dev == above.st_dev ? TAKE_FD(fd) : -EXDEV;
}

static int untrusted_open_below(int dir_fd, const char *name, int flags)
{
    unsigned mode = flags & O_CREAT ? 0600 : 0;
    struct open_how how = {
        .flags = (uint64_t)flags,
        .mode = mode,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
    };
    int fd;

    if (strchr(name, '/'))
        return -EINVAL;
    fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        return untrusted_open_and_compare(dir_fd, name, flags, mode);
    return fd < 0 ? -errno : fd;
}

static int untrusted_open_name(int dir_fd, const char *name, int flags, struct err *err)
{
    int fd;

    flags |= SAFE_FLAGS;
    if (dir_fd == AT_FDCWD) {
        fd = open(name, flags, 0600);
        fd = fd < 0 ? -errno : fd;
    } else {
        fd = untrusted_open_below(dir_fd, name, flags);
    }
    if (fd < 0) {
        errno = -fd;
        return err_set(err, fd, "%s: %m", name);
    }
    return fd;
}

static int untrusted_check_owner(const struct stat *st, const char *name, uid_t owner,
                                 struct err *err)
{
    if (owner != UNTRUSTED_ANY_OWNER && st->st_uid != owner)
        return err_set(err, -EPERM, "%s: owner is user %u, not %u", name, st->st_uid, owner);
    return 0;
}

int untrusted_open(int dir_fd, const char *name, int flags, uid_t owner, struct err *err)
{
    CLEAN(fd_clean) int fd = untrusted_open_name(dir_fd, name, flags, err);
    struct stat st;
    int result;

    if (fd < 0)
        return TAKE_FD(fd);
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", name);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EPROTO, "%s: not a regular file", name);
    result = untrusted_check_owner(&st, name, owner, err);
    return result < 0 ? result : TAKE_FD(fd);
}

/* Links are resolved inside that root; without openat2, as far as the kernel lets us. */
int untrusted_open_inside(int root_fd, const char *path, struct err *err)
{
    struct open_how how = { .flags = O_RDONLY | SAFE_FLAGS,
                            .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
    CLEAN(fd_clean) int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    struct stat st;

    if (fd < 0 && (errno == ENOSYS || errno == EPERM))
        fd = openat(root_fd, path + strspn(path, "/"), O_RDONLY | SAFE_FLAGS);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EPROTO, "%s: not a regular file", path);
    return TAKE_FD(fd);
}

int untrusted_open_any_dir(int dir_fd, const char *name, struct err *err)
{
    return untrusted_open_name(dir_fd, name, O_RDONLY | O_DIRECTORY, err);
}

int untrusted_open_dir(int dir_fd, const char *name, uid_t owner, struct err *err)
{
    CLEAN(fd_clean) int fd = untrusted_open_any_dir(dir_fd, name, err);
    struct stat st;
    int result;

    if (fd < 0)
        return TAKE_FD(fd);
    if (fstat(fd, &st) < 0)
        return err_set(err, -errno, "%s: %m", name);
    result = untrusted_check_owner(&st, name, owner, err);
    if (result == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)))
        result = err_set(err, -EPERM, "%s: mode %04o lets other users write to it", name,
                         st.st_mode & 07777);
    return result < 0 ? result : TAKE_FD(fd);
}
