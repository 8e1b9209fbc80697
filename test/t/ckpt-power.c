/* ckpt-power.c - cuts the power of a file system at the N-th system call of the checkpoint writer.
 *
 * usage: ckpt-power N MOUNT COMMAND [ARG...]
 *
 * Runs the command; its child lockstep-ckpt-writer is stopped at each system call.  When its N-th call is about to begin, all
 * its threads are stopped, the file system is shut down without a flush (FS_IOC_SHUTDOWN), and all processes are killed.
 * N 0: no cut; prints how many calls there were.  Exit 0: the cut was made, or N is 0; 4: the writer ended before.
 *
 * The cut is never made inside a call: one that races with fsync loses data that the file system had just reported as synced.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHUTDOWN _IOR('X', 125, uint32_t)
#define SHUTDOWN_NOLOGFLUSH 2
#define TASKS 256

struct task {
    pid_t pid;
    bool writer, inside, stopped;
};

struct power {
    struct task task[TASKS];
    int tasks;
    long calls, at;
    const char *mount;
};

static struct task *task_of(struct power *power, pid_t pid)
{
    for (int i = 0; i < power->tasks; i++) {
        if (power->task[i].pid == pid)
            return &power->task[i];
    }
    if (power->tasks == TASKS)
        exit(3);
    power->task[power->tasks] = (struct task){ .pid = pid };
    return &power->task[power->tasks++];
}

static void task_end(struct power *power, pid_t pid)
{
    struct task *task = task_of(power, pid);

    *task = power->task[--power->tasks];
}

static bool is_writer(pid_t pid)
{
    char link[64], path[PATH_MAX] = "";

    snprintf(link, sizeof(link), "/proc/%d/exe", pid);
    return readlink(link, path, sizeof(path) - 1) > 0 && strstr(path, "lockstep-ckpt-writer");
}

/* Every other thread of the writer stops, too. */
static void others_stop(struct power *power)
{
    for (int i = 0; i < power->tasks; i++) {
        struct task *task = &power->task[i];
        int status;

        if (!task->writer || task->stopped)
            continue;
        if (ptrace(PTRACE_INTERRUPT, task->pid, 0, 0) == 0)
            waitpid(task->pid, &status, __WALL);
        task->stopped = true;
    }
}

static int cut(struct power *power)
{
    uint32_t how = SHUTDOWN_NOLOGFLUSH;
    int fd = open(power->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC), result, status;
    pid_t pid;

    others_stop(power);
    result = fd < 0 ? -1 : ioctl(fd, SHUTDOWN, &how);
    if (result < 0)
        perror("ckpt-power: shutdown");
    for (int i = 0; i < power->tasks; i++)
        kill(power->task[i].pid, SIGKILL);
    close(fd);
    while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (pid > 0 && WIFSTOPPED(status)) /* it was born a moment before the cut */
            kill(pid, SIGKILL);
    }
    return result < 0 ? 3 : 0;
}

/* A stop: 1 when the cut is due. */
static int stop_handle(struct power *power, pid_t pid, int status)
{
    struct task *task = task_of(power, pid);
    int event = status >> 16, signal = WSTOPSIG(status), deliver = 0;

    task->stopped = true;
    if (!task->writer && is_writer(pid))
        task->writer = true;
    if (signal == (SIGTRAP | 0x80)) {
        task->inside = !task->inside;
        if (task->inside && ++power->calls == power->at)
            return 1;
    } else if (!event && signal != SIGTRAP && signal != SIGSTOP) {
        deliver = signal;
    }
    if (event == PTRACE_EVENT_EXEC)
        task->inside = true; /* its exit comes next */
    task->stopped = false;
    ptrace(task->writer ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, deliver);
    return 0;
}

int main(int argc, char **argv)
{
    static struct power power;
    pid_t child, pid;
    int status;

    if (argc < 4)
        return 2;
    power.at = atol(argv[1]);
    power.mount = argv[2];
    child = fork();
    if (child == 0) {
        raise(SIGSTOP);
        execv(argv[3], argv + 3);
        _exit(127);
    }
    waitpid(child, &status, WUNTRACED);
    if (ptrace(PTRACE_SEIZE, child, 0,
               PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                   PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) < 0) {
        perror("ckpt-power: ptrace");
        kill(child, SIGKILL);
        return 3;
    }
    task_of(&power, child);
    kill(child, SIGCONT);
    while ((pid = waitpid(-1, &status, __WALL)) > 0 || errno == EINTR) {
        if (pid <= 0)
            continue;
        if (!WIFSTOPPED(status))
            task_end(&power, pid);
        else if (stop_handle(&power, pid, status))
            return cut(&power);
    }
    printf("%ld\n", power.calls);
    return power.at ? 4 : 0;
}
