/* keeper.c - the launcher's end of the keeper.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/keeper/keeper.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/keeper/keeper_wire.h"
#include "base/procs.h"
#include "core/clean.h"
#include "core/time.h"

struct keeper {
    int socket; /* -1: it is gone */
    pid_t pid;
    int status;                  /* how it ended; -1: not known */
    struct process_tree *tree;   /* what it started: ours to end when it is gone */
    struct keeper_report *queue; /* came while we waited for the answer to a spawn */
    size_t queued, room;
    uint32_t end_token; /* of the latest request to end: answers to earlier ones are stale */
};

static void keeper_free(struct keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->socket >= 0)
        close(keeper->socket);
    process_tree_destroy(keeper->tree);
    free(keeper->queue);
    free(keeper);
}

static void keeper_clean(struct keeper **keeper)
{
    keeper_free(*keeper);
}

/* `sleep 60 & exec lockstep run …` makes us the parent of somebody else's process. */
static void keeper_spare_foreign(struct process_tree *tree)
{
    struct procs procs = { 0 };

    if (procs_read(&procs) == 0)
        for (size_t i = 0; i < procs.count; i++)
            if (procs.list[i].parent == getpid())
                process_tree_add(tree, procs.list[i].pid, 0, TREE_FOREIGN);
    procs_fini(&procs);
}

int keeper_start(const struct keeper_plan *plan, struct keeper **ret, struct err *err)
{
    CLEAN(keeper_clean) struct keeper *keeper = calloc(1, sizeof(*keeper));
    int pair[2];

    if (!keeper)
        return err_nomem(err);
    keeper->socket = -1;
    keeper->status = -1;
    if (process_tree_create(&keeper->tree) < 0)
        return err_nomem(err);
    keeper_spare_foreign(keeper->tree);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_set(err, -errno, "socketpair: %m");
    keeper->socket = pair[0];
    keeper->pid = fork();
    if (keeper->pid == 0) {
        close(pair[0]);
        keeper_serve(plan, pair[1]);
    }
    close(pair[1]);
    if (keeper->pid < 0)
        return err_set(err, -errno, "fork: %m");
    *ret = TAKE(keeper);
    return 0;
}

pid_t keeper_pid(const struct keeper *keeper)
{
    return keeper->pid;
}

int keeper_fd(const struct keeper *keeper)
{
    return keeper->socket;
}

bool keeper_lost(const struct keeper *keeper, int *ret_status)
{
    if (ret_status)
        *ret_status = keeper->status;
    return keeper->socket < 0;
}

static int keeper_send(struct keeper *keeper, const struct keeper_request *request,
                       const struct buf *env, const int *fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = { 0 };
    struct iovec part[2] = {
        { .iov_base = (void *)(uintptr_t)request, .iov_len = sizeof(*request) },
        { .iov_base = env ? env->data : NULL, .iov_len = env ? env->size : 0 },
    };
    struct msghdr message = { .msg_iov = part, .msg_iovlen = env && env->size ? 2 : 1 };

    if (fd) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.room);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fd, 2 * sizeof(int));
    }
    if (sendmsg(keeper->socket, &message, MSG_NOSIGNAL) < 0)
        return -errno;
    return 0;
}

static void keeper_lose(struct keeper *keeper)
{
    int status;

    close(TAKE_FD(keeper->socket));
    /* The socket's end comes with its death, a moment before it can be waited for.  If it only closed
     * its end (it cannot, but for a bug), it must not live on beside us.
     */
    kill(keeper->pid, SIGKILL);
    while (waitpid(keeper->pid, &status, 0) < 0 && errno == EINTR)
        ;
    keeper->status = status;
}

/* One report from the socket.  0: none now (or ever, when the keeper is gone). */
static int keeper_receive(struct keeper *keeper, int flags, struct keeper_report *ret)
{
    ssize_t got;

    if (keeper->socket < 0)
        return 0;
    do
        got = recv(keeper->socket, ret, sizeof(*ret), flags);
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof(*ret))
        return 1;
    if (got < 0 && errno == EAGAIN)
        return 0;
    keeper_lose(keeper);
    return 0;
}

static void keeper_queue(struct keeper *keeper, const struct keeper_report *report)
{
    if (!ARRAY_FIT(keeper->queue, keeper->room, keeper->queued + 1))
        abort(); /* an exit that is never reported would leave us waiting for ever */
    keeper->queue[keeper->queued++] = *report;
}

void keeper_promote(struct keeper *keeper, pid_t pid)
{
    const struct keeper_request request = { .ask = KEEPER_PROMOTE, .pid = pid };

    process_tree_set_level(keeper->tree, pid, TREE_RANKS);
    if (keeper->socket >= 0)
        keeper_send(keeper, &request, NULL, NULL); /* its loss is seen elsewhere */
}

void keeper_kill(struct keeper *keeper, pid_t pid)
{
    const struct keeper_request request = { .ask = KEEPER_KILL, .pid = pid };

    if (keeper->socket >= 0)
        keeper_send(keeper, &request, NULL, NULL); /* without a keeper nobody starts it again */
}

int keeper_spawn(struct keeper *keeper, const struct keeper_job *job, pid_t *ret, struct err *err)
{
    const int fd[2] = { job->out_fd, job->err_fd };
    const struct keeper_request request = {
        .ask = KEEPER_SPAWN,
        .command = job->command,
        .token = job->token,
        .level = job->level,
        .env_bytes = job->env ? (uint32_t)job->env->size : 0,
    };
    struct keeper_report report;
    int r;

    if (job->env && (job->env->failed || job->env->size > KEEPER_ENV_MAX))
        return err_set(err, -E2BIG, "the environment is too long");
    if (keeper->socket < 0)
        return err_set(err, -EPIPE, "the keeper process has ended");
    r = keeper_send(keeper, &request, job->env, fd);
    if (r < 0 && r != -EPIPE && r != -ECONNRESET)
        return err_set(err, r, "cannot ask the keeper: %s", strerror(-r));
    while (keeper_receive(keeper, 0, &report)) {
        if (report.event != KEEPER_SPAWNED) {
            keeper_queue(keeper, &report);
            continue;
        }
        if (report.pid <= 0)
            return err_set(err, report.status, "cannot start a process: %s",
                           strerror(-report.status));
        process_tree_add(keeper->tree, report.pid, job->token, job->level);
        *ret = report.pid;
        return 0;
    }
    return err_set(err, -EPIPE, "the keeper process has ended");
}

void keeper_lease(struct keeper *keeper, int64_t until_ns)
{
    const struct keeper_request request = { .ask = KEEPER_LEASE, .until_ns = until_ns };

    if (keeper->socket >= 0)
        keeper_send(keeper, &request, NULL, NULL); /* its loss ends the ranks as well */
}

void keeper_end(struct keeper *keeper, const struct process_tree_ending *ending_mode)
{
    const struct keeper_request request = { .ask = KEEPER_END,
                                            .token = ++keeper->end_token,
                                            .level = ending_mode->level,
                                            .signal = ending_mode->signal,
                                            .grace_ns = ending_mode->grace_ns };

    if (keeper->socket >= 0 && keeper_send(keeper, &request, NULL, NULL) == 0)
        return;
    /* Gone: keeper_next() will find out, if it has not yet, and goes on with our own tree. */
    process_tree_end(keeper->tree, ending_mode, time_mono_ns());
}

int64_t keeper_pause_ns(const struct keeper *keeper)
{
    if (keeper->queued)
        return 0;
    if (keeper->socket >= 0)
        return -1;
    return process_tree_pause_ns(keeper->tree, time_mono_ns());
}

static int keeper_next_own(struct keeper *keeper, struct keeper_report *ret)
{
    struct tree_exit exit;

    *ret = (struct keeper_report){ .mono_ns = time_mono_ns() };
    if (process_tree_reap(keeper->tree, &exit)) {
        ret->event = KEEPER_EXITED;
        ret->token = exit.token;
        ret->pid = exit.pid;
        ret->status = exit.status;
        return 1;
    }
    ret->event = KEEPER_ENDED;
    ret->token = keeper->end_token;
    if (!process_tree_step(keeper->tree, ret->mono_ns))
        return 0;
    ret->status = (int)process_tree_spared(keeper->tree);
    return 1;
}

static int keeper_next_any(struct keeper *keeper, struct keeper_report *ret)
{
    if (keeper->queued) {
        *ret = keeper->queue[0];
        memmove(keeper->queue, keeper->queue + 1, --keeper->queued * sizeof(*keeper->queue));
    } else if (!keeper_receive(keeper, MSG_DONTWAIT, ret)) {
        return keeper->socket < 0 ? keeper_next_own(keeper, ret) : 0;
    }
    if (ret->event == KEEPER_EXITED)
        process_tree_forget(keeper->tree, ret->pid);
    return 1;
}

int keeper_next(struct keeper *keeper, struct keeper_report *ret)
{
    int r;

    do
        r = keeper_next_any(keeper, ret);
    while (r && ret->event == KEEPER_ENDED && ret->token != keeper->end_token);
    return r;
}

void keeper_stop(struct keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->socket >= 0) {
        shutdown(keeper->socket, SHUT_RDWR);
        while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    keeper_free(keeper);
}
