/* node_idle.c - one pass over /proc: names of processes, and the time that those of one group used.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/node_idle.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"

#define WINDOW_NS (2 * NS_PER_S)
#define OTHERS_CPUS 1.5   /* daemons of a node use less ... */
#define OTHERS_SHARE 0.02 /* ... and a little more where there are many processors */
#define STEP_DAEMON "slurmstepd"

struct idle_pass {
    uint64_t busy, own; /* ticks */
    bool times, step;   /* both known; a step of a job is there */
};

void node_idle_init(struct node_idle *idle, const char *root)
{
    *idle = (struct node_idle){ .root = root, .others = -1 };
}

/* `ours`: it belongs to root, or to the user that we are. */
static bool idle_read(int directory, const char *name, char *text, size_t room, bool *ours)
{
    CLEAN(fd_clean) int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);
    struct stat st;

    if (got <= 0 || fstat(fd, &st) < 0)
        return false;
    text[got] = '\0';
    *ours = st.st_uid == 0 || st.st_uid == geteuid();
    return true;
}

/* "17 (name) S 1 GROUP ..." ; fields 14 to 17 are times, also of children that ended.  A name may hold anything. */
static void idle_take_process(struct idle_pass *pass, const char *stat, bool ours, pid_t group)
{
    const char *name = strchr(stat, '('), *end = strrchr(stat, ')');
    uint64_t time[4];
    long of = 0;

    if (!name || !end || end < name)
        return;
    pass->step |= ours && (size_t)(end - name) == sizeof(STEP_DAEMON) &&
                  strncmp(name + 1, STEP_DAEMON, sizeof(STEP_DAEMON) - 1) == 0;
    if (group &&
        sscanf(end + 1,
               " %*c %*d %ld %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               &of, &time[0], &time[1], &time[2], &time[3]) == 5 &&
        of == group)
        pass->own += time[0] + time[1] + time[2] + time[3];
}

/* "cpu  user nice system idle iowait irq softirq ..." */
static void idle_take_total(struct idle_pass *pass, const char *stat)
{
    uint64_t user, nice, system, irq, softirq;

    pass->times =
        sscanf(stat, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %*u %*u %" SCNu64 " %" SCNu64, &user,
               &nice, &system, &irq, &softirq) == 5;
    if (pass->times)
        pass->busy = user + nice + system + irq + softirq;
}

static void idle_look(const struct node_idle *idle, pid_t group, struct idle_pass *pass)
{
    char text[1024], name[64];
    struct path path;
    struct dirent *entry;
    DIR *directory;
    bool ours;

    *pass = (struct idle_pass){ .busy = 0 };
    snprintf(path.text, sizeof(path.text), "%.4000s/proc", idle->root);
    directory = opendir(path.text);
    if (!directory)
        return;
    while ((entry = readdir(directory))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(name, sizeof(name), "%.40s/stat", entry->d_name);
        if (idle_read(dirfd(directory), name, text, sizeof(text), &ours))
            idle_take_process(pass, text, ours, group);
    }
    if (idle_read(dirfd(directory), "stat", text, sizeof(text), &ours))
        idle_take_total(pass, text);
    closedir(directory);
}

/* Another process group starts our own measured times from zero. */
static void idle_measure(struct node_idle *idle, const struct idle_pass *pass, int64_t now_ns)
{
    double seconds = (double)(now_ns - idle->since_ns) / 1e9, ticks = (double)sysconf(_SC_CLK_TCK);
    int64_t others = (int64_t)(pass->busy - idle->busy) - (int64_t)(pass->own - idle->own);

    if (!pass->times || (idle->since_ns && now_ns - idle->since_ns < WINDOW_NS))
        return;
    if (idle->since_ns && pass->own >= idle->own)
        idle->others = (double)MAX(others, 0) / ticks / seconds;
    idle->since_ns = now_ns;
    idle->busy = pass->busy;
    idle->own = pass->own;
}

bool node_idle_is_used(struct node_idle *idle, pid_t group, int64_t now_ns, char *why, size_t room)
{
    double most = OTHERS_CPUS + OTHERS_SHARE * (double)sysconf(_SC_NPROCESSORS_ONLN);
    struct idle_pass pass;

    idle_look(idle, group, &pass);
    if (pass.step) {
        snprintf(why, room, "a Slurm job is on this node");
        return true;
    }
    idle_measure(idle, &pass, now_ns);
    if (idle->others <= most)
        return false;
    snprintf(why, room, "other programs use %.1f processors", idle->others);
    return true;
}
