/* cgroup.c - cpu.stat of a process's control group and of the groups above it.
 *
 * A limit may sit on any level (the pod's, not the container's), and only the level that has
 * it counts.  Ranks of one group share nothing here: reading costs about 2 µs a level.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc/proc.h"
#include "core/clean.h"
#include "core/time.h"

#define LEVELS 8

struct cgroup {
    struct proc_cgroup where;
    int fd[LEVELS];
    int64_t last_ns[LEVELS]; /* a level that cannot be read any more keeps its sum */
    unsigned levels;
    int64_t read_at_ns, throttled_ns;
};

static const char *const v1_mounts[] = { "/sys/fs/cgroup/%s", "/sys/fs/cgroup/cpu",
                                         "/sys/fs/cgroup/cpu,cpuacct" };
static const char *const v2_mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };

void cgroup_close(struct cgroup *cgroup)
{
    if (!cgroup)
        return;
    for (unsigned i = 0; i < cgroup->levels; i++)
        close(cgroup->fd[i]);
    free(cgroup);
}

static int cgroup_level_open(const char *mount, const char *path)
{
    char file[1024];

    if ((size_t)snprintf(file, sizeof(file), "%s%s/cpu.stat", mount, path) >= sizeof(file))
        return -1;
    return open(file, O_RDONLY | O_CLOEXEC);
}

/* From the process's group up.  A path that is not there (another cgroup namespace) is left for
 * its parents, at last for the mount itself, which is then the group we and it are in.
 */
static void cgroup_levels_open(struct cgroup *cgroup, const char *mount)
{
    char path[sizeof(cgroup->where.path)];
    char *slash;

    snprintf(path, sizeof(path), "%s", cgroup->where.path);
    for (;;) {
        size_t size = strlen(path);
        int fd;

        while (size > 0 && path[size - 1] == '/')
            path[--size] = '\0';
        fd = cgroup->levels < LEVELS && !strstr(path, "/..") ? cgroup_level_open(mount, path) : -1;
        if (fd >= 0)
            cgroup->fd[cgroup->levels++] = fd;
        slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

static void cgroup_mounts_open(struct cgroup *cgroup)
{
    char mount[128];

    if (cgroup->where.v2) {
        for (size_t i = 0; i < COUNT(v2_mounts) && cgroup->levels == 0; i++)
            cgroup_levels_open(cgroup, v2_mounts[i]);
        return;
    }
    snprintf(mount, sizeof(mount), "/sys/fs/cgroup/%s", cgroup->where.controllers);
    cgroup_levels_open(cgroup, mount);
    for (size_t i = 1; i < COUNT(v1_mounts) && cgroup->levels == 0; i++)
        cgroup_levels_open(cgroup, v1_mounts[i]);
}

static int cgroup_where_read(int proc_fd, struct proc_cgroup *ret)
{
    CLEAN(fd_clean) int fd = openat(proc_fd, "cgroup", O_RDONLY | O_CLOEXEC);
    char text[4096];
    ssize_t size;

    if (fd < 0)
        return -errno;
    size = read(fd, text, sizeof(text) - 1);
    if (size < 0)
        return -errno;
    text[size] = '\0';
    return proc_parse_cgroup(text, ret);
}

int cgroup_follow(int proc_fd, struct cgroup **keep)
{
    struct proc_cgroup where;
    struct cgroup *cgroup;
    int result = cgroup_where_read(proc_fd, &where);

    if (result < 0)
        return result;
    if (*keep && (*keep)->where.v2 == where.v2 && strcmp((*keep)->where.path, where.path) == 0)
        return 0;
    cgroup = calloc(1, sizeof(*cgroup));
    if (!cgroup)
        return -ENOMEM;
    cgroup->where = where;
    cgroup_mounts_open(cgroup);
    cgroup_close(*keep);
    *keep = cgroup;
    return cgroup->levels ? 0 : -ENOENT;
}

int64_t cgroup_throttled_ns(struct cgroup *cgroup, int64_t now_ns)
{
    int64_t sum = 0;

    if (!cgroup)
        return 0;
    if (cgroup->read_at_ns && now_ns - cgroup->read_at_ns < 50 * NS_PER_MS)
        return cgroup->throttled_ns;
    for (unsigned i = 0; i < cgroup->levels; i++) {
        char text[1024];
        ssize_t size = pread(cgroup->fd[i], text, sizeof(text) - 1, 0);

        if (size > 0) {
            text[size] = '\0';
            proc_parse_cpu_stat(text, &cgroup->last_ns[i]);
        }
        sum += cgroup->last_ns[i];
    }
    cgroup->read_at_ns = now_ns;
    cgroup->throttled_ns = sum;
    return sum;
}
