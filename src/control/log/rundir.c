/* rundir.c - names in a run's directory, and the locks of its processes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"

int rundir_open(struct rundir *ret, const char *path, struct err *err)
{
    struct stat st;
    int result;

    if (!realpath(path, ret->path.text))
        return err_set(err, -errno, "%s: %m; expected a run's directory", path);
    if (stat(ret->path.text, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(err, -ENOTDIR, "%s: not a directory; expected a run's directory", path);
    snprintf(ret->run, sizeof(ret->run), "%s", strrchr(ret->path.text, '/') + 1);
    result = path_join(&ret->log, ret->path.text, "log.lsf", err);
    if (result == 0)
        result = path_join(&ret->spool, ret->path.text, "spool", err);
    if (result == 0)
        result = path_join(&ret->launcher, ret->spool.text, "launcher.lsf", err);
    return result;
}

bool rundir_is_written(const char *file)
{
    CLEAN(fd_clean) int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

bool rundir_is_controlled(const struct rundir *dir)
{
    return rundir_is_written(dir->log.text);
}

bool rundir_is_alive(const struct rundir *dir)
{
    return rundir_is_controlled(dir) || rundir_is_written(dir->launcher.text);
}
