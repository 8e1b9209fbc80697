/* gpu_held.c - the open and the mapped files of all processes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/gpu_held.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/procs.h"
#include "core/clean.h"

/* 254 and 255 are the driver's own: nvidia-modeset and nvidiactl, which is open without a GPU, too. */
const struct gpu_files gpu_files_nvidia = { .major = 195, .last = 253, .name = "/dev/nvidia" };

static bool gpu_is_name(const struct gpu_files *gpus, const char *name)
{
    size_t size = strlen(gpus->name);

    return strncmp(name, gpus->name, size) == 0 && name[size] >= '0' && name[size] <= '9';
}

static bool gpu_is_open(const struct gpu_files *gpus, int dir_fd, const char *name)
{
    char target[256];
    ssize_t size = readlinkat(dir_fd, name, target, sizeof(target) - 1);
    struct statx st;

    if (size < 0)
        return errno != ENOENT && errno != EINVAL; /* closed by now, or "." */
    target[size] = '\0';
    if (gpu_is_name(gpus, target))
        return true;
    /* A server that does not answer is not waited for. */
    return statx(dir_fd, name, AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0 && S_ISCHR(st.stx_mode) &&
           st.stx_rdev_major == gpus->major && st.stx_rdev_minor <= gpus->last;
}

static bool gpu_is_mapped(const struct gpu_files *gpus, pid_t pid)
{
    char path[64], line[1024];
    CLEAN(file_clean) FILE *file = NULL;
    bool begins = true, held = false;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return errno != ENOENT && errno != ESRCH;
    while (!held && fgets(line, sizeof(line), file)) {
        const char *name = strchr(line, '/');

        held = begins && name && gpu_is_name(gpus, name);
        begins = strchr(line, '\n');
    }
    return held;
}

bool gpu_held_by(const struct gpu_files *gpus, pid_t pid)
{
    char path[64];
    CLEAN(dir_clean) DIR *dir = NULL;
    const struct dirent *entry;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    if (!dir)
        return errno != ENOENT && errno != ESRCH;
    while ((entry = readdir(dir)))
        if (gpu_is_open(gpus, dirfd(dir), entry->d_name))
            return true;
    return gpu_is_mapped(gpus, pid);
}

static void gpu_holder_name(pid_t pid, char *ret, size_t room)
{
    char path[64];
    CLEAN(file_clean) FILE *file = NULL;

    ret[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (file && fgets(ret, (int)room, file))
        ret[strcspn(ret, "\n")] = '\0';
}

bool gpu_held(const struct gpu_files *gpus, char *why, size_t room)
{
    struct procs procs = { 0 };
    bool held = procs_read(&procs) < 0;
    char name[24];

    if (held)
        snprintf(why, room, "who holds a GPU cannot be seen");
    for (size_t i = 0; i < procs.count && !held; i++) {
        pid_t pid = procs.list[i].pid;

        held = gpu_held_by(gpus, pid);
        if (!held)
            continue;
        gpu_holder_name(pid, name, sizeof(name));
        snprintf(why, room, "process %d%s%s%s holds a GPU", (int)pid, name[0] ? " (" : "", name,
                 name[0] ? ")" : "");
    }
    procs_fini(&procs);
    return held;
}
