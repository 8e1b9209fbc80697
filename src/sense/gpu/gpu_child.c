/* gpu_child.c - asks NVML, one message for each request.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/gpu/gpu_child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/err.h"
#include "core/time.h"

#define CHILD_FD 3 /* the only descriptor of the child beside the standard ones */
#define CLOSE_WAIT_MS 50
#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* ---- in the child ---- */

static void child_look(struct nvml *nvml, bool all, struct gpu_answer *answer)
{
    struct nvml_identity identity;
    struct err err = { "" };

    answer->result = nvml_count(nvml, &answer->count, &err);
    answer->count = MIN(answer->count, (unsigned)GPUS_MAX);
    for (unsigned i = 0; answer->result == 0 && i < answer->count; i++) {
        struct gpu_report *gpu = &answer->gpu[i];

        gpu->result = nvml_identify(nvml, i, &identity, &err);
        if (gpu->result == 0) {
            snprintf(gpu->pci, sizeof(gpu->pci), "%s", identity.pci);
            gpu->result = nvml_read(nvml, i, &gpu->sample, &err);
        }
        if (gpu->result == 0)
            gpu->processes = (unsigned)MAX(nvml_processes_read(nvml, i, gpu->process), 0);
        if (gpu->result == 0 && all) {
            gpu->links = nvml_links_read(nvml, i, gpu->link);
            nvml_activity_read(nvml, i, &gpu->sample);
        }
    }
    answer->has_links = all;
    answer->read_ns = time_mono_ns();
    if (answer->result == 0)
        answer->events = nvml_events_read(nvml, answer->count, answer->event, EVENTS_MAX);
    snprintf(answer->why, sizeof(answer->why), "%.119s", err.text);
}

/* The driver's library gets none of the parent's files, sockets and blocked signals. */
static bool child_isolate(int fd)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return (fd == CHILD_FD || dup2(fd, CHILD_FD) == CHILD_FD) &&
           close_range(CHILD_FD + 1, ~0u, 0) == 0;
}

__attribute__((noreturn)) static void child_run(int fd, const char *library)
{
    struct gpu_answer answer = { 0 };
    struct nvml *nvml = NULL;
    struct err err = { "" };
    char all = 1;

    if (!child_isolate(fd))
        _exit(1);
    answer.result = nvml_open(library, &nvml, &err);
    snprintf(answer.why, sizeof(answer.why), "%.119s", err.text);
    do {
        if (nvml) {
            answer = (struct gpu_answer){ 0 };
            child_look(nvml, all, &answer);
        }
        if (send(CHILD_FD, &answer, sizeof(answer), MSG_NOSIGNAL) != sizeof(answer))
            _exit(1);
    } while (nvml && recv(CHILD_FD, &all, 1, 0) == 1);
    _exit(0);
}

/* ---- in the parent ---- */

int gpu_child_start(struct gpu_child *child, const char *library)
{
    int fd[2], pidfd, result;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        child_run(fd[1], library);
    result = -errno;
    close(fd[1]);
    if (pid < 0) {
        close(fd[0]);
        return result;
    }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* nobody has reaped it yet */
    if (pidfd < 0) {
        result = -errno;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0); /* it has hardly begun */
        close(fd[0]);
        return result;
    }
    child->fd = fd[0];
    child->pidfd = pidfd;
    return 0;
}

int gpu_child_ask(struct gpu_child *child, bool all)
{
    char request = (char)all;

    return send(child->fd, &request, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -EIO;
}

/* The library may have written anywhere in the memory of that process. */
static bool child_answer_is_sane(struct gpu_answer *answer)
{
    bool sane = answer->count <= GPUS_MAX && answer->events <= EVENTS_MAX && answer->result <= 0;

    answer->why[sizeof(answer->why) - 1] = '\0';
    for (unsigned i = 0; sane && i < answer->events; i++)
        sane = answer->event[i].gpu < answer->count;
    for (unsigned i = 0; sane && i < answer->count; i++) {
        struct gpu_report *gpu = &answer->gpu[i];

        gpu->pci[sizeof(gpu->pci) - 1] = '\0';
        sane = gpu->result <= 0 && gpu->links <= NVML_LINKS && gpu->processes <= NVML_PROCESSES;
    }
    return sane;
}

int gpu_child_receive(struct gpu_child *child, struct gpu_answer *answer, int wait_ms)
{
    struct pollfd ready = { .fd = child->fd, .events = POLLIN };
    ssize_t bytes;

    if (poll(&ready, 1, wait_ms) <= 0)
        return 0;
    bytes = recv(child->fd, answer, sizeof(*answer), MSG_DONTWAIT);
    if (bytes < 0 && errno == EAGAIN)
        return 0;
    return bytes == sizeof(*answer) && child_answer_is_sane(answer) ? 1 : -EIO;
}

void gpu_child_kill(struct gpu_child *child)
{
    fd_clean(&child->fd);
    child->fd = -1;
    if (child->pidfd >= 0)
        syscall(SYS_pidfd_send_signal, child->pidfd, SIGKILL, NULL, 0);
}

bool gpu_child_gone(struct gpu_child *child, int wait_ms)
{
    struct pollfd ended = { .fd = child->pidfd, .events = POLLIN };
    siginfo_t info;

    if (child->pidfd < 0)
        return true;
    if (poll(&ended, 1, wait_ms) <= 0)
        return false;
    waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED | WNOHANG); /* unless the parent did */
    fd_clean(&child->pidfd);
    child->pidfd = -1;
    return true;
}

void gpu_child_close(struct gpu_child *child)
{
    gpu_child_kill(child);
    if (!gpu_child_gone(child, CLOSE_WAIT_MS))
        fd_clean(&child->pidfd);
    child->pidfd = -1;
}
