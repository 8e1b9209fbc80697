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

#include "base/runfile.h"
#include "core/clean.h"

/* A run that was started with --dir has a directory of any name. */
static void rundir_name(struct rundir *dir)
{
    struct runfile file;

    snprintf(dir->run, sizeof(dir->run), "%s", strrchr(dir->path.text, '/') + 1);
    if (runfile_read(dir->path.text, &file, NULL) < 0)
        return;
    if (paths_check_run(file.id, NULL) == 0)
        snprintf(dir->run, sizeof(dir->run), "%s", file.id);
    runfile_fini(&file);
}

int rundir_open(struct rundir *ret, const char *path, struct err *err)
{
    struct stat st;
    int result;

    if (!realpath(path, ret->path.text))
        return err_set(err, -errno, "%s: %m; expected a run's directory", path);
    if (stat(ret->path.text, &st) < 0 || !S_ISDIR(st.st_mode))
        return err_set(err, -ENOTDIR, "%s: not a directory; expected a run's directory", path);
    rundir_name(ret);
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
