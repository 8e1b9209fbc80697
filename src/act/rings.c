/* rings.c - the directory in which ranks make their rings.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/rings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/paths.h"
#include "core/clean.h"
#include "wire/ring.h"

static int rings_parent(const char *path, struct path *ret)
{
    size_t length = strlen(path);

    if (length >= sizeof(ret->text))
        return -ENAMETOOLONG;
    memcpy(ret->text, path, length + 1);
    dirname(ret->text);
    return 0;
}

static int rings_check(const char *path, struct err *err)
{
    struct stat info;

    if (lstat(path, &info) < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 022))
        return err_set(err, -EPERM, "%s: not a directory that only you can write to", path);
    return 0;
}

static int rings_make_once(const char *path, const char *parent, int fresh, struct err *err)
{
    int r = path_make(parent, err);

    if (r == 0)
        r = rings_check(parent, err);
    if (r < 0)
        return r;
    if (mkdir(path, 0700) < 0 && (errno != EEXIST || fresh))
        return err_set(err, -errno, "%s: %m", path);
    return rings_check(path, err);
}

int rings_make(const char *path, int fresh, struct err *err)
{
    struct path parent;
    int r = rings_parent(path, &parent);

    if (r < 0)
        return err_set(err, r, "%s: path is too long", path);
    /* Another run that ends at this moment may remove the directory above: it looked empty. */
    r = -ENOENT;
    for (int i = 0; i < 100 && r == -ENOENT; i++)
        r = rings_make_once(path, parent.text, fresh, err);
    return r;
}

int rings_private(const char *base, struct path *ret, struct err *err)
{
    struct stat info;
    int r;

    if (base[0] != '/')
        return err_set(err, -EINVAL, "%s: not an absolute path", base);
    if (stat(base, &info) < 0)
        return err_set(err, -errno, "%s: %m", base);
    if ((info.st_uid != geteuid() && info.st_uid != 0) ||
        ((info.st_mode & 022) && !(info.st_mode & S_ISVTX)))
        return err_set(err, -EPERM, "%s: other users can rename files in it", base);
    r = path_join(ret, base, "lockstep.XXXXXX", err);
    if (r == 0 && !mkdtemp(ret->text))
        r = err_set(err, -errno, "%s: %m", base);
    return r < 0 ? r : rings_check(ret->text, err);
}

/* Nothing but rings is ours to remove: the path may come from a run.json that somebody else wrote. */
void rings_remove(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    struct path parent;
    uint32_t rank, number;

    if (!dir) {
        fd_clean(&fd);
        return;
    }
    while ((entry = readdir(dir)))
        if (ring_name_parse(entry->d_name, &rank, &number))
            unlinkat(fd, entry->d_name, 0);
    closedir(dir);
    rmdir(path);
    if (rings_parent(path, &parent) == 0)
        rmdir(parent.text);
}

bool rings_any(const char *path)
{
    CLEAN(dir_clean) DIR *dir = opendir(path);
    uint32_t rank, number;
    bool found = false;

    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = ring_name_parse(entry->d_name, &rank, &number);
    return found;
}
