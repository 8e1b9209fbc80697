/* memory_left.c - how much memory this process may still take.
 *
 * A control group above its limit loses a process to SIGKILL, so the groups count as much as the machine does.  A container may see
 * its own group as the root of the mount, whatever /proc/self/cgroup says, so the root is asked, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/memory_left.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"

#define LINE 512

/* The two versions of control groups, as a process may be in both. */
static const struct memory_groups {
    const char *mount, *limit, *used, *cache[2];
} memory_groups[] = {
    { "/sys/fs/cgroup", "memory.max", "memory.current", { "inactive_file ", "active_file " } },
    { "/sys/fs/cgroup/memory",
      "memory.limit_in_bytes",
      "memory.usage_in_bytes",
      { "total_inactive_file ", "total_active_file " } },
};

static FILE *memory_file_open(const char *group, const char *name)
{
    char path[LINE + 128];

    snprintf(path, sizeof(path), "%s/%s", group, name);
    return fopen(path, "re");
}

static uint64_t memory_number(const char *group, const char *name, uint64_t otherwise)
{
    CLEAN(file_clean) FILE *file = memory_file_open(group, name);
    uint64_t number;

    return file && fscanf(file, "%" SCNu64, &number) == 1 ? number : otherwise;
}

static uint64_t memory_cache(const char *group, const char *const cache[2])
{
    CLEAN(file_clean) FILE *file = memory_file_open(group, "memory.stat");
    uint64_t bytes = 0, value;
    char line[LINE];

    while (file && fgets(line, sizeof(line), file)) {
        for (int i = 0; i < 2; i++) {
            size_t size = strlen(cache[i]);

            if (strncmp(line, cache[i], size) == 0 && sscanf(line + size, "%" SCNu64, &value) == 1)
                bytes += value;
        }
    }
    return bytes;
}

static uint64_t memory_left_in(const char *group, const struct memory_groups *groups)
{
    uint64_t most = memory_number(group, groups->limit, UINT64_MAX), used;

    if (most >= INT64_MAX >> 12 << 12) /* no limit; version 1 has a number for that */
        return UINT64_MAX;
    used = memory_number(group, groups->used, 0);
    used -= MIN(used, memory_cache(group, groups->cache));
    return most - MIN(most, used);
}

/* The smallest rest of the group and of those above it. */
static uint64_t memory_left_above(char *path, const struct memory_groups *groups)
{
    uint64_t least = UINT64_MAX;
    char group[LINE + 64];

    for (;;) {
        char *end = strrchr(path, '/');

        snprintf(group, sizeof(group), "%s%s", groups->mount, path);
        least = MIN(least, memory_left_in(group, groups));
        if (!end)
            return least;
        *end = '\0';
    }
}

/* The path in a line of /proc/self/cgroup, "ID:CONTROLLERS:PATH"; NULL: the line is not about memory. */
static char *memory_line_path(char *line, const struct memory_groups **ret)
{
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;
    char *rest, *one;

    if (!path)
        return NULL;
    *path++ = '\0';
    path[strcspn(path, "\n")] = '\0';
    *ret = &memory_groups[0];
    if (controllers[1] == '\0') /* version 2 */
        return path;
    *ret = &memory_groups[1];
    rest = controllers + 1;
    while ((one = strsep(&rest, ","))) {
        if (strcmp(one, "memory") == 0)
            return path;
    }
    return NULL;
}

uint64_t memory_left(void)
{
    CLEAN(file_clean) FILE *machine = fopen("/proc/meminfo", "re");
    CLEAN(file_clean) FILE *own = fopen("/proc/self/cgroup", "re");
    const struct memory_groups *groups;
    uint64_t kib = UINT64_MAX >> 10, least;
    char line[LINE], *path;

    while (machine && fgets(line, sizeof(line), machine) &&
           sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
        ;
    least = kib << 10;
    while (own && fgets(line, sizeof(line), own)) {
        path = memory_line_path(line, &groups);
        if (path)
            least = MIN(least, memory_left_above(path, groups));
    }
    return least;
}
