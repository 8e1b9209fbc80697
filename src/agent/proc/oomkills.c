/* oomkills.c - the oom_kill count of a memory control group, v1 or v2.
 *
 * The kernel counts the victim in its own group, wherever the limit is that was hit; in v2, where a group need not
 * have the memory controller, in the nearest group above that has.  The file stays open: who is killed leaves no
 * /proc entry from which its group could be read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/oomkills.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc/proc.h"
#include "core/clean.h"

struct oomkills {
    const char *root; /* before /sys */
    char path[512];
    int fd;
    uint64_t base, last; /* of the group that is followed now */
    uint32_t before;     /* in groups that it has left */
};

static const struct oom_file {
    bool v2;
    const char *mount, *file;
} places[] = {
    { false, "/sys/fs/cgroup/memory", "memory.oom_control" },
    { true, "/sys/fs/cgroup", "memory.events" },
    { true, "/sys/fs/cgroup/unified", "memory.events" },
};

struct oomkills *oomkills_create(const char *root)
{
    struct oomkills *kills = calloc(1, sizeof(*kills));

    if (!kills)
        return NULL;
    kills->root = root ? root : "";
    kills->fd = -1;
    return kills;
}

void oomkills_destroy(struct oomkills *kills)
{
    if (!kills)
        return;
    fd_clean(&kills->fd);
    free(kills);
}

static bool oomkills_count_read(int fd, uint64_t *ret)
{
    char text[1024];
    ssize_t size = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

    if (size <= 0)
        return false;
    text[size] = '\0';
    return proc_parse_oom_kill(text, ret) == 0;
}

static int oomkills_text_of(int proc_fd, char *text, size_t room)
{
    CLEAN(fd_clean) int fd = openat(proc_fd, "cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, text, room - 1);

    text[MAX(size, 0)] = '\0';
    return size > 0 ? 0 : -1;
}

/* Opens the file of the group, or of the nearest one above it. */
static int oomkills_group_open(const struct oomkills *kills, const struct oom_file *place,
                               const char *group)
{
    size_t size = strlen(group);
    char path[1400];
    int fd;

    while (size > 0 && group[size - 1] == '/')
        size--;
    for (;;) {
        snprintf(path, sizeof(path), "%s%s%.*s/%s", kills->root, place->mount, (int)size, group,
                 place->file);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 || size == 0 || !place->v2)
            return fd;
        while (size > 0 && group[size - 1] != '/')
            size--;
        while (size > 0 && group[size - 1] == '/')
            size--;
    }
}

void oomkills_follow(struct oomkills *kills, int proc_fd)
{
    struct proc_cgroup where;
    char text[4096];

    if (oomkills_text_of(proc_fd, text, sizeof(text)) < 0 ||
        proc_parse_cgroup_of(text, "memory", &where) < 0 || strstr(where.path, "/.."))
        return;
    if (kills->fd >= 0 && strcmp(where.path, kills->path) == 0)
        return;
    kills->before += (uint32_t)(kills->last - kills->base);
    fd_clean(&kills->fd);
    kills->fd = -1;
    kills->base = kills->last = 0;
    snprintf(kills->path, sizeof(kills->path), "%s", where.path);
    for (size_t i = 0; i < COUNT(places) && kills->fd < 0; i++) {
        if (places[i].v2 == where.v2)
            kills->fd = oomkills_group_open(kills, &places[i], where.path);
    }
    if (oomkills_count_read(kills->fd, &kills->base))
        kills->last = kills->base;
}

uint32_t oomkills_count(struct oomkills *kills)
{
    uint64_t now;

    if (oomkills_count_read(kills->fd, &now) && now >= kills->last)
        kills->last = now;
    return kills->before + (uint32_t)(kills->last - kills->base);
}
