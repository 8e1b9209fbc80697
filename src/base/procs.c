/* procs.c - the process tree from /proc.
 *
 * The list is not one moment's truth: processes fork and end while we read.  Callers that
 * need to know that nobody is left therefore look twice (process_tree.c).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/clean.h"

#define KERNEL_THREAD 0x200000u /* PF_KTHREAD */

int proc_parse(const char *stat, struct procs_one *ret)
{
    const char *after = strrchr(stat, ')');
    struct procs_one proc = { 0 };
    uint64_t ticks[4];
    unsigned flags;
    char state;
    int pid, parent;

    if (!after || sscanf(stat, "%d (", &pid) != 1)
        return -EINVAL;
    /* Fields 3, 4, 9, 14 to 17 and 22 of proc(5). */
    if (sscanf(after + 1,
               " %c %d %*s %*s %*s %*s %u %*s %*s %*s %*s %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %*s %*s %*s %*s %" SCNu64,
               &state, &parent, &flags, &ticks[0], &ticks[1], &ticks[2], &ticks[3],
               &proc.start) != 8 ||
        pid <= 0 || parent < 0)
        return -EINVAL;
    proc.pid = pid;
    proc.parent = parent;
    proc.kernel = flags & KERNEL_THREAD;
    proc.ticks = ticks[0] + ticks[1] + ticks[2] + ticks[3];
    *ret = proc;
    return 0;
}

static int proc_read(int proc_fd, const char *name, struct procs_one *ret)
{
    CLEAN(fd_clean) int fd = -1;
    char path[64], text[512];
    ssize_t got;

    snprintf(path, sizeof(path), "%.40s/stat", name);
    fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    got = read(fd, text, sizeof(text) - 1);
    if (got <= 0)
        return -ESRCH; /* it ended between open and read */
    text[got] = '\0';
    return proc_parse(text, ret);
}

/* A pidfd holds on to one process; that it is the one we mean is seen after it was opened.  Kernels
 * before 5.3 have none: then a moment remains between the look and the signal.
 */
int proc_signal(const struct procs_one *proc, int number)
{
    CLEAN(fd_clean) int fd = (int)syscall(SYS_pidfd_open, proc->pid, 0);
    struct procs_one now;
    char path[32];

    if (fd < 0 && errno == ESRCH)
        return -ESRCH;
    snprintf(path, sizeof(path), "/proc/%d", (int)proc->pid);
    if (proc_read(AT_FDCWD, path, &now) < 0 || now.start != proc->start)
        return -ESRCH;
    if ((fd < 0 ? kill(proc->pid, number) : syscall(SYS_pidfd_send_signal, fd, number, NULL, 0)) <
        0)
        return -errno;
    return 0;
}

bool proc_ignores(const struct procs_one *proc, int number)
{
    char path[40], line[256];
    unsigned long long ignored = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)proc->pid);
    file = fopen(path, "re");
    if (!file)
        return false;
    while (fgets(line, sizeof(line), file) && sscanf(line, "SigIgn: %llx", &ignored) != 1)
        ;
    fclose(file);
    return ignored >> (number - 1) & 1;
}

static int procs_add(struct procs *procs, const struct procs_one *proc)
{
    if (!ARRAY_FIT(procs->list, procs->room, procs->count + 1))
        return -ENOMEM;
    procs->list[procs->count++] = *proc;
    return 0;
}

static int proc_compare(const void *a, const void *b)
{
    const struct procs_one *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

int procs_read(struct procs *procs)
{
    CLEAN(dir_clean) DIR *dir = opendir("/proc");
    const struct dirent *entry;

    if (!dir)
        return -errno;
    procs->count = 0;
    while ((entry = readdir(dir))) {
        struct procs_one proc;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        if (proc_read(dirfd(dir), entry->d_name, &proc) == 0 && procs_add(procs, &proc) < 0)
            return -ENOMEM;
    }
    if (procs->count)
        qsort(procs->list, procs->count, sizeof(*procs->list), proc_compare);
    return 0;
}

void procs_fini(struct procs *procs)
{
    free(procs->list);
    *procs = (struct procs){ 0 };
}

static const struct procs_one *procs_find(const struct procs *procs, pid_t pid)
{
    const struct procs_one key = { .pid = pid };

    return bsearch(&key, procs->list, procs->count, sizeof(key), proc_compare);
}

void procs_below(struct procs *procs, pid_t top)
{
    for (size_t i = 0; i < procs->count; i++) {
        const struct procs_one *at = &procs->list[i];

        procs->list[i].root = 0;
        /* A snapshot that is no tree (pids reused while we read) must not keep us climbing. */
        for (size_t depth = 0; at && at->pid != top && depth < procs->count; depth++) {
            if (at->parent == top) {
                procs->list[i].root = at->pid;
                break;
            }
            at = procs_find(procs, at->parent);
        }
    }
}
