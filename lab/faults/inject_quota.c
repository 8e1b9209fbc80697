/* inject_quota.c - a cgroup that gives the host threads of a node too little CPU.
 *
 * Version 1: a directory below our own in the cpu hierarchy, threads in `tasks`.
 * Version 2: a threaded directory below our own, threads in `cgroup.threads`; the kernel
 * permits it only where our own group has no domain controllers switched on for its children.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clean.h"
#include "lab/faults/inject_private.h"

#define QUOTA_PATH 1024
#define QUOTA_LEAST_US 1000.0 /* the kernel takes no less */
#define QUOTA_US 1500.0       /* what we rather give: short periods stall less at a time */
#define PERIOD_LEAST_US 10000.0
#define PERIOD_MOST_US 1000000.0

struct quota {
    char home[QUOTA_PATH], path[QUOTA_PATH]; /* where the threads came from; ours */
    const char *threads;                     /* the file that takes thread ids */
    int version;
};

static int inject_file_put(const char *dir, const char *name, const char *text, struct err *err)
{
    char path[QUOTA_PATH + 64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    CLEAN(fd_clean) int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return err_set(err, -errno, "%s: %m", path);
    return 0;
}

static int inject_file_put_number(const char *dir, const char *name, long long number,
                                  struct err *err)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", number);
    return inject_file_put(dir, name, text, err);
}

/* Is `word` one of the comma-separated words of `list`? */
static bool inject_quota_list_has(const char *list, const char *word)
{
    size_t size = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += size)
        if ((at == list || at[-1] == ',') && (at[size] == ',' || at[size] == '\0'))
            return true;
    return false;
}

/* Where the cpu controller is mounted; *version 1 or 2. */
static int quota_mount(char out[static QUOTA_PATH], int *version, struct err *err)
{
    CLEAN(file_clean) FILE *file = fopen("/proc/self/mounts", "re");
    char line[4096];

    *version = 0;
    while (file && fgets(line, sizeof(line), file)) {
        char where[QUOTA_PATH], type[32], options[512];

        if (sscanf(line, "%*s %1023s %31s %511s", where, type, options) != 3)
            continue;
        if (strcmp(type, "cgroup") == 0 && inject_quota_list_has(options, "cpu")) {
            strcpy(out, where); /* same size */
            *version = 1;
            return 0;
        }
        if (strcmp(type, "cgroup2") == 0) {
            strcpy(out, where);
            *version = 2;
        }
    }
    return *version ? 0 : err_set(err, -ENODEV, "no cgroup file system is mounted");
}

/* The group that the threads are in now, as a path below the mount. */
static int quota_home(pid_t tid, int version, char out[static QUOTA_PATH], struct err *err)
{
    char path[64], line[QUOTA_PATH + 128];

    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)tid);
    CLEAN(file_clean) FILE *file = fopen(path, "re");

    while (file && fgets(line, sizeof(line), file)) {
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        controllers++;
        if ((version == 1 && inject_quota_list_has(controllers, "cpu")) ||
            (version == 2 && !*controllers)) {
            snprintf(out, QUOTA_PATH, "%s", group);
            return 0;
        }
    }
    return err_set(err, -ENODEV, "%s: contains no cpu cgroup", path);
}

static int quota_tune(void *state, const struct inject_target *target, struct err *err)
{
    const struct quota *quota = state;
    double period_us = MIN(MAX(QUOTA_US / target->share, PERIOD_LEAST_US), PERIOD_MOST_US);
    double quota_us = MAX(target->share * period_us, QUOTA_LEAST_US);
    char text[64];
    int result;

    snprintf(target->method, target->method_room,
             "%.1f ms of CPU time per %.0f ms for %u host threads", quota_us / 1e3, period_us / 1e3,
             target->count);
    if (quota->version == 2) {
        snprintf(text, sizeof(text), "%.0f %.0f", quota_us, period_us);
        return inject_file_put(quota->path, "cpu.max", text, err);
    }
    result = inject_file_put_number(quota->path, "cpu.cfs_period_us", (long long)period_us, err);
    if (result == 0)
        result = inject_file_put_number(quota->path, "cpu.cfs_quota_us", (long long)quota_us, err);
    return result;
}

static int quota_fill(struct quota *quota, const struct inject_target *target, struct err *err)
{
    int result = 0;

    if (mkdir(quota->path, 0755) < 0)
        return err_set(err, -errno, "%s: %m", quota->path);
    if (quota->version == 2) {
        result = inject_file_put(quota->path, "cgroup.type", "threaded", err);
        if (result == 0)
            result = inject_file_put(quota->home, "cgroup.subtree_control", "+cpu", err);
    }
    if (result == 0)
        result = quota_tune(quota, target, err);
    for (uint32_t i = 0; i < target->count && result == 0; i++)
        result = inject_file_put_number(quota->path, quota->threads, target->tid[i], err);
    return result;
}

static void quota_undo(void *state, const struct inject_target *target)
{
    struct quota *quota = state;

    for (uint32_t i = 0; i < target->count; i++) /* those that are gone need no way back */
        (void)inject_file_put_number(quota->home, quota->threads, target->tid[i], NULL);
    (void)rmdir(quota->path);
    free(quota);
}

static int quota_make(const struct inject_target *target, void **state, struct err *err)
{
    CLEAN(free_clean) struct quota *quota = calloc(1, sizeof(*quota));
    char mount[QUOTA_PATH] = "", group[QUOTA_PATH] = "";
    int result;

    if (!quota)
        return err_nomem(err);
    result = quota_mount(mount, &quota->version, err);
    if (result == 0)
        result = quota_home(target->tid[0], quota->version, group, err);
    if (result < 0)
        return result;
    quota->threads = quota->version == 2 ? "cgroup.threads" : "tasks";
    snprintf(quota->home, sizeof(quota->home), "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    snprintf(quota->path, sizeof(quota->path), "%s/lockstep-quota-%d", quota->home,
             (int)target->tid[0]);
    result = quota_fill(quota, target, err);
    if (result < 0) {
        quota_undo(TAKE(quota), target);
        return result;
    }
    *state = TAKE(quota);
    return 0;
}

const struct inject_way inject_quota = { quota_make, quota_tune, quota_undo, NULL };
