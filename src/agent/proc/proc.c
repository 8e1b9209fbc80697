/* proc.c - a process bound by its open directory in /proc, and the sums over its threads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/proc/cgroup.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/names.h"

#define THREADS_MAX 1024 /* followed; the process's own clock counts the others' CPU time */
#define THREAD_FILES 256 /* kept open a process */

struct thread {
    pid_t tid;
    int fd; /* its schedstat, -1: opened for each reading */
    int64_t cpu_ns, run_delay_ns;
    bool listed;
};

struct proc {
    struct proc_ref ref;
    int stat_fd;
    bool foreign; /* it is another user's now: not looked at */
    struct thread *thread;
    size_t threads, room;
    uint64_t threads_listed; /* in stat, when they were listed last */
    int64_t ended_cpu_ns, ended_delay_ns;
    struct cgroup *cgroup;
    int64_t cgroup_base_ns; /* so that a move to another group does not make the sum jump */
    int64_t cgroup_last_ns;
};

static ssize_t proc_text_read(int fd, char *text, size_t room)
{
    ssize_t size = pread(fd, text, room - 1, 0);

    if (size < 0)
        return -errno;
    text[size] = '\0';
    return size > 0 ? size : -ESRCH;
}

static int proc_stat_read(int fd, struct proc_stat *ret)
{
    char text[1024];
    ssize_t size = proc_text_read(fd, text, sizeof(text));

    return size < 0 ? (int)size : proc_parse_stat(text, ret);
}

static ssize_t proc_file_read(int dir_fd, const char *name, char *text, size_t room)
{
    CLEAN(fd_clean) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

    return fd < 0 ? -errno : proc_text_read(fd, text, room);
}

static uint64_t proc_own_namespace(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

int proc_ref_check(const struct proc_ref *ref)
{
    char text[4096];
    uint32_t uid[4];
    ssize_t size = proc_file_read(ref->dir_fd, "status", text, sizeof(text));

    if (size < 0)
        return size == -ENOENT ? -ESRCH : (int)size;
    if (proc_parse_uids(text, uid) < 0)
        return -EPERM;
    for (size_t i = 0; i < COUNT(uid); i++) {
        if (uid[i] != ref->owner)
            return -EPERM;
    }
    return 0;
}

static int proc_dir_open(pid_t pid)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d", pid);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ESRCH ? -ESRCH : -errno;
    return fd;
}

/* -ESRCH: no such process, or a later one with that number; -EPERM: another user's. */
static int proc_bind_dir(struct proc *proc, pid_t pid, int *dir_fd, uint64_t start)
{
    CLEAN(fd_clean) int fd = openat(*dir_fd, "stat", O_RDONLY | O_CLOEXEC);
    struct proc_stat stat;
    int result;

    if (fd < 0)
        return errno == ENOENT || errno == ESRCH ? -ESRCH : -errno;
    result = proc_stat_read(fd, &stat);
    if (result < 0)
        return result;
    if (start && stat.start != start)
        return -ESRCH;
    proc->ref.pid = pid;
    proc->ref.dir_fd = TAKE_FD(*dir_fd);
    proc->stat_fd = TAKE_FD(fd);
    return proc_ref_check(&proc->ref);
}

static int proc_bind_pid(struct proc *proc, pid_t pid, uint64_t start)
{
    CLEAN(fd_clean) int dir = proc_dir_open(pid);

    return dir < 0 ? TAKE_FD(dir) : proc_bind_dir(proc, pid, &dir, start);
}

static bool proc_nspid_is(int dir_fd, uint32_t inner)
{
    char text[4096];
    uint32_t got;

    return proc_file_read(dir_fd, "status", text, sizeof(text)) > 0 &&
           proc_parse_nspid(text, &got) == 0 && got == inner;
}

static bool proc_namespace_is(int dir_fd, uint64_t inode)
{
    struct stat st;

    if (inode == 0)
        return true;
    /* It may be forbidden to us. */
    return fstatat(dir_fd, "ns/pid", &st, 0) != 0 || (uint64_t)st.st_ino == inode;
}

static void proc_unbind(struct proc *proc)
{
    fd_clean(&proc->stat_fd);
    fd_clean(&proc->ref.dir_fd);
    proc->stat_fd = proc->ref.dir_fd = -1;
}

#define INIT_NAMESPACE UINT64_C(0xeffffffc) /* PROC_PID_INIT_INO: from there all are seen */

/* In another pid namespace: the process whose innermost pid, namespace, start time and user fit. */
static int proc_bind_foreign(struct proc *proc, uint32_t inner, uint64_t inode, uint64_t start)
{
    CLEAN(dir_clean) DIR *dir = opendir("/proc");
    struct dirent *entry;
    int result = proc_own_namespace() == INIT_NAMESPACE && geteuid() == 0 ? -ESRCH : -ENOENT;

    if (!dir)
        return -errno;
    while ((entry = readdir(dir))) {
        CLEAN(fd_clean) int fd = -1;
        char *end;
        long pid = strtol(entry->d_name, &end, 10);

        if (pid <= 0 || *end != '\0')
            continue;
        fd = proc_dir_open((pid_t)pid);
        if (fd < 0 || !proc_nspid_is(fd, inner) || !proc_namespace_is(fd, inode))
            continue;
        if (proc_bind_dir(proc, (pid_t)pid, &fd, start) == 0)
            return 0;
        proc_unbind(proc);
    }
    return result;
}

int proc_open(uint32_t pid, uint64_t ns_inode, uint64_t start, uid_t owner, struct proc **ret)
{
    struct proc *proc = calloc(1, sizeof(*proc));
    int result;

    if (!proc)
        return -ENOMEM;
    proc->stat_fd = proc->ref.dir_fd = -1;
    proc->ref.owner = owner;
    if (ns_inode == 0 || ns_inode == proc_own_namespace())
        result = proc_bind_pid(proc, (pid_t)pid, start);
    else
        result = proc_bind_foreign(proc, pid, ns_inode, start);
    if (result < 0) {
        proc_close(proc);
        return result;
    }
    proc_refresh(proc);
    *ret = proc;
    return 0;
}

static void thread_forget(struct proc *proc, size_t at)
{
    struct thread *thread = &proc->thread[at];

    proc->ended_cpu_ns += thread->cpu_ns;
    proc->ended_delay_ns += thread->run_delay_ns;
    if (thread->fd >= 0)
        close(thread->fd);
    *thread = proc->thread[--proc->threads];
}

void proc_close(struct proc *proc)
{
    if (!proc)
        return;
    while (proc->threads)
        thread_forget(proc, proc->threads - 1);
    free(proc->thread);
    cgroup_close(proc->cgroup);
    proc_unbind(proc);
    free(proc);
}

const struct proc_ref *proc_ref(const struct proc *proc)
{
    return &proc->ref;
}

static struct thread *thread_find(struct proc *proc, pid_t tid)
{
    struct thread *thread;

    for (size_t i = 0; i < proc->threads; i++) {
        if (proc->thread[i].tid == tid)
            return &proc->thread[i];
    }
    if (proc->threads == THREADS_MAX || !ARRAY_FIT(proc->thread, proc->room, proc->threads + 1))
        return NULL;
    thread = &proc->thread[proc->threads++];
    *thread = (struct thread){ .tid = tid, .fd = -1 };
    return thread;
}

static int thread_open(const struct proc *proc, pid_t tid)
{
    char path[64];

    snprintf(path, sizeof(path), "task/%d/schedstat", tid);
    return openat(proc->ref.dir_fd, path, O_RDONLY | O_CLOEXEC);
}

static void threads_list(struct proc *proc)
{
    int fd = openat(proc->ref.dir_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEAN(dir_clean) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir) {
        fd_clean(&fd);
        return;
    }
    for (size_t i = 0; i < proc->threads; i++)
        proc->thread[i].listed = false;
    while ((entry = readdir(dir))) {
        long tid = strtol(entry->d_name, NULL, 10);
        struct thread *thread = tid > 0 ? thread_find(proc, (pid_t)tid) : NULL;

        if (!thread)
            continue;
        thread->listed = true;
        if (thread->fd < 0 && proc->threads <= THREAD_FILES)
            thread->fd = thread_open(proc, thread->tid);
    }
    for (size_t i = proc->threads; i > 0; i--) {
        if (!proc->thread[i - 1].listed)
            thread_forget(proc, i - 1);
    }
}

/* A thread that has ended keeps its last sums until it is forgotten into those of the ended. */
static bool thread_read(const struct proc *proc, struct thread *thread)
{
    CLEAN(fd_clean) int own = thread->fd < 0 ? thread_open(proc, thread->tid) : -1;
    int fd = thread->fd < 0 ? own : thread->fd;
    int64_t cpu, delay;
    char text[96];

    if (fd < 0 || proc_text_read(fd, text, sizeof(text)) < 0 ||
        proc_parse_schedstat(text, &cpu, &delay) < 0)
        return false;
    thread->cpu_ns = MAX(thread->cpu_ns, cpu);
    thread->run_delay_ns = MAX(thread->run_delay_ns, delay);
    return true;
}

void proc_refresh(struct proc *proc)
{
    proc->foreign = proc_ref_check(&proc->ref) == -EPERM;
    if (proc->foreign)
        return;
    cgroup_follow(proc->ref.dir_fd, &proc->cgroup);
    threads_list(proc);
}

static int64_t proc_throttled_ns(struct proc *proc, int64_t now_ns)
{
    int64_t now = cgroup_throttled_ns(proc->cgroup, now_ns);

    if (now < proc->cgroup_last_ns) /* another group, which has counted less */
        proc->cgroup_base_ns += proc->cgroup_last_ns - now;
    proc->cgroup_last_ns = now;
    return proc->cgroup_base_ns + now;
}

bool proc_waits_for_storage(const struct proc *proc, char state)
{
    char text[128];

    if (state != 'S' && state != 'D')
        return false;
    /* Not for us to see, or nothing told: a plain sleep is no sign, state D nearly always is. */
    if (proc_file_read(proc->ref.dir_fd, "wchan", text, sizeof(text)) < 0 || strcmp(text, "0") == 0)
        return state == 'D';
    return name_is_storage_wait(text);
}

char proc_sample(struct proc *proc, int64_t now_ns, struct sample *sample)
{
    struct proc_stat stat;
    bool any = false;
    int result = proc_stat_read(proc->stat_fd, &stat);

    if (result < 0)
        return result == -ESRCH ? 'X' : '?';
    if (proc->foreign)
        return '?';
    if (stat.threads != proc->threads_listed) {
        threads_list(proc);
        proc->threads_listed = stat.threads;
    }
    *sample = (struct sample){ .time_ns = now_ns,
                               .cpu_ns = proc->ended_cpu_ns,
                               .run_delay_ns = proc->ended_delay_ns,
                               .major_faults = (int64_t)MIN(stat.major_faults, INT64_MAX) };
    for (size_t i = 0; i < proc->threads; i++) {
        any |= thread_read(proc, &proc->thread[i]);
        sample->cpu_ns += proc->thread[i].cpu_ns;
        sample->run_delay_ns += proc->thread[i].run_delay_ns;
    }
    /* No schedstat in this kernel, or more threads than are followed: the process's own clock,
     * in steps of a tick, and no run delay.
     */
    if (!any || stat.threads > THREADS_MAX)
        sample->cpu_ns =
            MAX(sample->cpu_ns, (int64_t)(stat.cpu_ticks % (uint64_t)(INT64_MAX / NS_PER_S)) *
                                    (NS_PER_S / sysconf(_SC_CLK_TCK)));
    sample->throttled_ns = proc_throttled_ns(proc, now_ns);
    /* A first thread that has ended before the others looks like a zombie; the process lives. */
    return stat.state == 'Z' && stat.threads > 1 ? 'S' : stat.state;
}
