/* oom.c - a memory group with a small limit, and a process that does not fit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/faults/oom.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"

#define LIMIT "33554432"  /* bytes */
#define MOST (256u << 20) /* taken at most: were there no limit, the machine must not suffer */
#define CHUNK (1u << 20)
#define CHUNK_NS                                                                                   \
    64000000 /* a leak of 16 MiB/s: an agent, which looks once a second, sees it in its group */
#define PREFIX "lockstep-oom-"

static const struct mount { /* v1, then the two places of v2 */
    const char *path, *limit, *swap;
} mounts[] = {
    { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes" },
    { "/sys/fs/cgroup", "memory.max", "memory.swap.max" },
    { "/sys/fs/cgroup/unified", "memory.max", "memory.swap.max" },
};

static bool oom_write_file(const char *directory, const char *name, const char *text)
{
    char path[320];
    CLEAN(fd_clean) int fd = -1;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool oom_group_enter(const struct mount *mount)
{
    const char *run = getenv("LOCKSTEP_RUN");
    char directory[256], pid[16];

    snprintf(directory, sizeof(directory), "%s/" PREFIX "%.128s.%d", mount->path, run ? run : "",
             (int)getpid());
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    if (mkdir(directory, 0700) < 0)
        return false;
    if (oom_write_file(directory, mount->limit, LIMIT) &&
        oom_write_file(directory, "cgroup.procs", pid)) {
        oom_write_file(directory, mount->swap,
                       strcmp(mount->limit, "memory.max") == 0 ? "0" : LIMIT);
        return true;
    }
    rmdir(directory);
    return false;
}

void oom_provoke(void)
{
    bool inside = false;

    for (size_t i = 0; i < COUNT(mounts) && !inside; i++)
        inside = oom_group_enter(&mounts[i]);
    for (size_t taken = 0; inside && taken < MOST; taken += CHUNK) {
        char *chunk = malloc(CHUNK); /* never given back: that is the point */

        clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = CHUNK_NS }, NULL);
        if (chunk)
            memset(chunk, 0x5a, CHUNK);
    }
}

/* Those of others stay: what the kernel counted in one is read by its run's agent, which has a second for that. */
void oom_sweep(const char *run)
{
    char prefix[160];

    snprintf(prefix, sizeof(prefix), PREFIX "%.128s.", run);
    for (size_t i = 0; i < COUNT(mounts); i++) {
        DIR *dir = opendir(mounts[i].path);
        const struct dirent *entry;

        while (dir && (entry = readdir(dir))) {
            char path[512];

            if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
                continue;
            snprintf(path, sizeof(path), "%s/%s", mounts[i].path, entry->d_name);
            rmdir(path); /* one that is still used stays */
        }
        if (dir)
            closedir(dir);
    }
}
