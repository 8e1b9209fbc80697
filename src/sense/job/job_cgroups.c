/* job_cgroups.c - cpu.stat and memory.events of the groups that processes of jobs are in, and of the groups above them.
 *
 * A limit may sit on any level (the pod's, not the container's).  Throttling is counted on the level that has the limit; events of
 * memory are counted there and on all levels above, so of these only the local count says something about a job.
 *
 * Users make groups as they like, so what a group says is of the user whose process is in it: each user's groups are kept, and
 * limited, by themselves, and a finding names the process that led to the group.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/job/job_cgroups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "wire/decision.h"

#define GROUPS_MAX 1024
#define USER_GROUPS 64
#define PATH_ROOM 256
#define LOOK_NS (30 * NS_PER_S) /* where the processes are */
#define FORGET_NS (300 * NS_PER_S)
#define PERIODS_LEAST 10
#define THROTTLED_LEAST 0.25 /* of the periods */

struct job_group {
    char path[PATH_ROOM]; /* below /sys/fs/cgroup */
    uint32_t uid, pid; /* of a process in it, or below; the same one for as long as it is there */
    uint32_t pid_now;  /* of the look at hand */
    bool v1_memory, v1_cpu, leaf;
    int64_t seen_ns; /* a process of a job was in it, or below */
    struct tree_counter periods, throttled, high, most, killed;
};

struct job_cgroups {
    struct job_group group[GROUPS_MAX];
    size_t groups;
    int64_t look_ns;
};

struct job_cgroups *job_cgroups_create(void)
{
    return calloc(1, sizeof(struct job_cgroups));
}

void job_cgroups_destroy(struct job_cgroups *cgroups)
{
    free(cgroups);
}

static struct job_group *cgroups_find(struct job_cgroups *cgroups, uint32_t uid, const char *path,
                                      size_t bytes)
{
    struct job_group *group;
    size_t of_user = 0;

    for (size_t i = 0; i < cgroups->groups; i++) {
        group = &cgroups->group[i];
        if (group->uid != uid)
            continue;
        if (strncmp(group->path, path, bytes) == 0 && !group->path[bytes])
            return group;
        of_user++;
    }
    if (cgroups->groups == GROUPS_MAX || of_user >= USER_GROUPS || bytes >= PATH_ROOM)
        return NULL;
    group = &cgroups->group[cgroups->groups++];
    *group = (struct job_group){ .uid = uid };
    memcpy(group->path, path, bytes);
    return group;
}

/* The group and those above it, but not the root, which has no limit. */
static void cgroups_add(struct job_cgroups *cgroups, const struct job_process *process,
                        const char *path, bool v1_cpu, bool v1_memory)
{
    size_t bytes = strlen(path), base = 0;

    if (v1_cpu || v1_memory)
        base = strcspn(path + 1, "/") + 1; /* "/memory/..." */
    for (bool leaf = true; bytes > base + 1; leaf = false) {
        struct job_group *group = cgroups_find(cgroups, process->uid, path, bytes);

        if (group) {
            if (group->seen_ns != process->now_ns || group->pid == process->pid)
                group->pid_now = process->pid;
            group->seen_ns = process->now_ns;
            group->leaf |= leaf;
            group->v1_cpu = v1_cpu;
            group->v1_memory = v1_memory;
        }
        while (bytes > 0 && path[--bytes] != '/')
            continue;
    }
}

static bool cgroups_has_controller(const char *list, const char *name)
{
    size_t bytes = strlen(name);

    for (const char *at = list; (at = strstr(at, name)); at++) {
        if ((at == list || at[-1] == ',') && (at[bytes] == ',' || !at[bytes]))
            return true;
    }
    return false;
}

/* "0::/a/b" or "4:cpu,cpuacct:/a/b" */
static void cgroups_line(struct job_cgroups *cgroups, const struct job_process *process, char *line)
{
    char *controllers = strchr(line, ':'), *path, full[PATH_ROOM];
    bool cpu, memory;

    path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path || path[1] != '/' || strstr(path, "/.."))
        return;
    *path++ = '\0';
    controllers++;
    if (!*controllers) {
        cgroups_add(cgroups, process, path, false, false);
        return;
    }
    cpu = cgroups_has_controller(controllers, "cpu");
    memory = cgroups_has_controller(controllers, "memory");
    if ((cpu || memory) && path[1] &&
        (size_t)snprintf(full, sizeof(full), "/%s%s", cpu ? "cpu" : "memory", path) < sizeof(full))
        cgroups_add(cgroups, process, full, cpu, memory && !cpu);
}

void job_cgroups_take(struct job_cgroups *cgroups, const struct job_process *process, char *text)
{
    for (char *line = text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        cgroups_line(cgroups, process, line);
    }
}

size_t job_cgroups_count(const struct job_cgroups *cgroups)
{
    return cgroups->groups;
}

/* "Uid:\t1000\t...": real, effective … */
static uint32_t cgroups_uid(const struct tree *tree, uint32_t pid)
{
    char text[4096];
    const char *at;

    if (tree_read(tree, text, sizeof(text), "/proc/%u/status", pid) <= 0)
        return UINT32_MAX;
    at = strstr(text, "\nUid:");
    return at ? (uint32_t)strtoul(at + strlen("\nUid:"), NULL, 10) : UINT32_MAX;
}

static void cgroups_look(struct job_cgroups *cgroups, const struct tree *tree,
                         const struct sense_jobs *jobs, int64_t now_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < jobs->count; i++) {
        struct job_process process = { .pid = jobs->pid[i], .now_ns = now_ns };
        char text[4096];

        process.uid = cgroups_uid(tree, jobs->pid[i]);
        if (tree_read(tree, text, sizeof(text), "/proc/%u/cgroup", jobs->pid[i]) > 0)
            job_cgroups_take(cgroups, &process, text);
    }
    for (size_t i = 0; i < cgroups->groups; i++) {
        cgroups->group[i].pid = cgroups->group[i].pid_now;
        if (now_ns - cgroups->group[i].seen_ns < FORGET_NS)
            cgroups->group[kept++] = cgroups->group[i];
    }
    cgroups->groups = kept;
}

/* The end of a path says more than its begin. */
static const char *cgroups_name(const struct job_group *group)
{
    size_t bytes = strlen(group->path);

    return bytes < FACT_NAME ? group->path : group->path + bytes - (FACT_NAME - 1);
}

static void cgroups_throttled(struct job_group *group, const char *text,
                              const struct sense_now *now, struct sense_report *report)
{
    int64_t periods, throttled;
    struct finding finding;

    if (!tree_field(text, "nr_periods", &periods) || !tree_field(text, "nr_throttled", &throttled))
        return;
    periods = tree_counter_grown(&group->periods, periods);
    throttled = tree_counter_grown(&group->throttled, throttled);
    if (periods < PERIODS_LEAST || (double)throttled < THROTTLED_LEAST * (double)periods)
        return;
    finding = sense_finding(now, FINDING_HOST_PRESSURE, FINDING_CLASS_HOST, FINDING_WARN,
                            cgroups_name(group),
                            "the CPU limit of a cgroup held its processes back in %.0f %% of the "
                            "time slices",
                            100.0 * (double)throttled / (double)periods);
    finding.code = FINDING_PRESSURE_CPU;
    finding.pid = group->pid;
    sense_hold(report, &finding);
}

static void cgroups_memory(struct job_group *group, const char *text, const struct sense_now *now,
                           struct sense_report *report)
{
    int64_t high = 0, most = 0, killed = 0;
    struct finding finding;

    if (tree_field(text, "high", &high))
        high = tree_counter_grown(&group->high, high);
    if (tree_field(text, "max", &most))
        most = tree_counter_grown(&group->most, most);
    if (tree_field(text, "oom_kill", &killed))
        killed = tree_counter_grown(&group->killed, killed);
    if (killed) {
        finding = sense_finding(
            now, FINDING_OOM, FINDING_CLASS_HOST, FINDING_ERROR, cgroups_name(group),
            "the kernel killed %lld processes of a cgroup for want of memory", (long long)killed);
        finding.pid = group->pid;
        finding.count = (uint32_t)MIN(killed, (int64_t)UINT32_MAX);
        sense_report(report, &finding, 0);
    }
    if (high || most) {
        finding = sense_finding(now, FINDING_HOST_PRESSURE, FINDING_CLASS_HOST, FINDING_WARN,
                                cgroups_name(group),
                                "a cgroup reached its memory limit %lld times, and its processes "
                                "wait until memory is free",
                                (long long)(high + most));
        finding.code = FINDING_PRESSURE_MEMORY;
        finding.pid = group->pid;
        sense_hold(report, &finding);
    }
}

static void cgroups_group(struct job_group *group, const struct tree *tree,
                          const struct sense_now *now, struct sense_report *report)
{
    char text[1024];

    if (!group->v1_memory &&
        tree_read(tree, text, sizeof(text), "/sys/fs/cgroup%s/cpu.stat", group->path) > 0)
        cgroups_throttled(group, text, now, report);
    if (group->v1_cpu)
        return;
    if (tree_read(tree, text, sizeof(text), "/sys/fs/cgroup%s/%s", group->path,
                  group->v1_memory ? "memory.oom_control"
                  : group->leaf    ? "memory.events"
                                   : "memory.events.local") > 0)
        cgroups_memory(group, text, now, report);
}

void job_cgroups_read(struct job_cgroups *cgroups, const struct tree *tree,
                      const struct sense_jobs *jobs, const struct sense_now *now,
                      struct sense_report *report)
{
    if (!cgroups->look_ns || now->mono_ns - cgroups->look_ns >= LOOK_NS ||
        (!cgroups->groups && jobs->count)) {
        cgroups->look_ns = now->mono_ns;
        cgroups_look(cgroups, tree, jobs, now->mono_ns);
    }
    for (size_t i = 0; i < cgroups->groups; i++)
        cgroups_group(&cgroups->group[i], tree, now, report);
}
