/* keeper_serve.c - the keeper's own life: start, reap, report, end.
 *
 * It has a session of its own, so that ^C reaches only the launcher, and its signals stay blocked:
 * only SIGKILL takes it away before its time.  Then the ranks get SIGKILL as their parent's death
 * signal, and agents and controller SIGTERM.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "act/keeper/keeper_wire.h"
#include "act/launcher_log.h"
#include "act/rings.h"
#include "core/clean.h"
#include "core/time.h"

#define LEASE_LOOK_NS (NS_PER_S / 4) /* poll() does not count the time of a suspended machine */

struct keeper_daemon { /* an agent or the controller, as it was started last */
    struct keeper_request request;
    pid_t pid; /* 0: it is not there */
    bool known;
};

struct serve {
    const struct keeper_plan *plan;
    struct process_tree *tree;
    struct keeper_daemon *daemon; /* one for each command of the plan */
    bool finished;                /* the launcher has ended everything in order */
    int socket, signals;
    bool alone;               /* the launcher is gone */
    enum tree_level level;    /* alone: now being ended */
    enum tree_level asked;    /* not alone: the level that is being ended */
    uint32_t end_token;       /* of the request that is being ended */
    int64_t lease_ns;         /* since boot: when the ranks are killed; 0: never */
    bool lease_over;          /* it came: no rank is started until there is another lease */
    char env[KEEPER_ENV_MAX]; /* of the request in hand */
};

static void serve_stdio(bool keep_stdin)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    /* Nobody who waits for the end of the launcher's output shall have to wait for us. */
    if (null < 0)
        return;
    if (!keep_stdin)
        dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    if (null > STDERR_FILENO)
        close(null);
}

static int serve_signals(void)
{
    sigset_t mask;

    /* Blocked, not ignored: those that we start would inherit that they are ignored. */
    sigemptyset(&mask);
    for (size_t i = 0; i < 5; i++)
        sigaddset(&mask, (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD }[i]);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    return signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void serve_report(struct serve *serve, const struct keeper_report *report)
{
    if (serve->alone)
        return;
    /* It may block while the launcher is stopped; its death ends that. */
    while (send(serve->socket, report, sizeof(*report), MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

void child_environment(const char *env, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t length = strnlen(env + at, size - at);
        const char *equals = memchr(env + at, '=', length);
        char name[64];

        if (equals && length < size - at && (size_t)(equals - (env + at)) < sizeof(name)) {
            snprintf(name, sizeof(name), "%.*s", (int)(equals - (env + at)), env + at);
            setenv(name, equals + 1, 1);
        }
        at += length + 1;
    }
}

/* Everything as after boot, whatever we were born with: a rank that ignores SIGTERM could not save its
 * work, and one that ignores SIGCHLD cannot wait for its data loaders.  The terminal's signals do not
 * reach the keeper's session, so nohup loses nothing.
 */
void child_signals(bool daemon)
{
    static const uint64_t by_default[4]; /* the kernel's own struct, all zero: SIG_DFL, no flags */
    sigset_t mask;

    /* Not by signal(), which refuses the two that libc keeps for itself: they, too, may have been
     * ignored by whoever started us.
     */
    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, by_default, NULL, sizeof(uint64_t));
    sigemptyset(&mask);
    if (daemon)
        sigaddset(&mask, SIGTERM); /* keeper_spawn() says why */
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* The other end of an inherited pipe may wait until it is closed. */
static void keeper_child_descriptors(int life)
{
    if (life <= STDERR_FILENO) {
        closefrom(STDERR_FILENO + 1);
        return;
    }
    if (life > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)life - 1, 0);
    closefrom(life + 1);
    fcntl(life, F_SETFD, 0);
}

/* Between fork and exec.  The keeper has one thread, so that anything may be called here. */
static _Noreturn void keeper_child_run(const struct keeper_plan *plan,
                                       const struct keeper_request *request, const char *env,
                                       const int fd[2], pid_t keeper)
{
    const struct keeper_command *command = &plan->command[request->command];
    bool daemon = request->level != TREE_RANKS && !command->standby;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, daemon ? SIGTERM : SIGKILL);
    if (getppid() != keeper)
        _exit(125); /* it died before we could ask for the signal */
    dup2(fd[0], STDOUT_FILENO);
    dup2(fd[1], STDERR_FILENO);
    setrlimit(RLIMIT_NOFILE, &plan->files);
    child_environment(env, request->env_bytes);
    child_signals(daemon);
    keeper_child_descriptors(daemon ? 0 : plan->life);
    if (command->path)
        execv(command->path, command->argv);
    else
        execvp(command->argv[0], command->argv);
    launcher_log_exec_failed(command->argv[0]);
    _exit(errno == ENOENT ? 127 : 126);
}

/* Whoever asked waits for an answer. */
static void serve_refuse(struct serve *serve, const struct keeper_request *request, int why)
{
    const struct keeper_report report = { .event = KEEPER_SPAWNED,
                                          .token = request->token,
                                          .pid = -1,
                                          .status = why,
                                          .mono_ns = time_mono_ns() };

    serve_report(serve, &report);
}

static void serve_spawn(struct serve *serve, const struct keeper_request *request, const int fd[2])
{
    struct keeper_report report = { .event = KEEPER_SPAWNED, .token = request->token };
    pid_t self = getpid(), pid;

    pid = fork();
    if (pid == 0)
        keeper_child_run(serve->plan, request, serve->env, fd, self);
    report.pid = pid;
    report.status = pid < 0 ? -errno : 0;
    report.mono_ns = time_mono_ns();
    if (pid > 0) {
        setpgid(pid, pid); /* so that it has its group when the launcher hears of it */
        process_tree_add(serve->tree, pid, request->token, request->level);
        serve->finished = false;
        if (request->level != TREE_RANKS && !serve->plan->command[request->command].standby)
            serve->daemon[request->command] =
                (struct keeper_daemon){ .request = *request, .pid = pid, .known = true };
    }
    serve_report(serve, &report);
}

/* The ranks have ended with the launcher.  Of those that tell what they did one may have died shortly
 * before, and nobody else would start it again: its ranks' last steps would be lost with the rings.
 */
static void serve_last_words(struct serve *serve)
{
    static const int null[2] = { STDOUT_FILENO, STDERR_FILENO };

    for (size_t i = 0; i < serve->plan->commands && !serve->finished; i++) {
        struct keeper_request request = serve->daemon[i].request;

        request.env_bytes = 0; /* they have none of their own */
        if (serve->daemon[i].known && !serve->daemon[i].pid)
            serve_spawn(serve, &request, null);
    }
}

static void serve_alone(struct serve *serve, enum tree_level level)
{
    const struct process_tree_ending ending_mode = {
        .level = level,
        .signal = SIGTERM,
        .grace_ns = level == TREE_RANKS ? serve->plan->grace_ns : serve->plan->drain_ns,
    };

    serve->alone = true;
    serve->level = level;
    process_tree_end(serve->tree, &ending_mode, time_mono_ns());
}

static void serve_kill_ranks(struct serve *serve)
{
    process_tree_end(serve->tree,
                     &(struct process_tree_ending){ .level = TREE_RANKS, .signal = SIGKILL },
                     time_mono_ns());
}

/* Also one whose end nobody has looked at yet. */
static bool serve_lease_is_over(const struct serve *serve)
{
    return serve->lease_over || (serve->lease_ns && time_boot_ns() >= serve->lease_ns);
}

/* Takes the two descriptors out of a message; -1 where there are none. */
static void keeper_message_fds(struct msghdr *message, int fd[2])
{
    const struct cmsghdr *control = CMSG_FIRSTHDR(message);

    fd[0] = fd[1] = -1;
    if (control && control->cmsg_type == SCM_RIGHTS &&
        control->cmsg_len == CMSG_LEN(2 * sizeof(int)))
        memcpy(fd, CMSG_DATA(control), 2 * sizeof(int));
    else if (control && control->cmsg_type == SCM_RIGHTS &&
             control->cmsg_len == CMSG_LEN(sizeof(int))) { /* there was room for one of them */
        memcpy(fd, CMSG_DATA(control), sizeof(int));
        close(TAKE_FD(fd[0]));
    }
}

static void serve_request(struct serve *serve)
{
    struct keeper_request request;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part[2] = { { &request, sizeof(request) }, { serve->env, sizeof(serve->env) } };
    struct msghdr message = {
        .msg_iov = part, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control)
    };
    ssize_t got = recvmsg(serve->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    int fd[2];

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got < (ssize_t)sizeof(request)) {
        serve_alone(serve, TREE_RANKS);
        return;
    }
    keeper_message_fds(&message, fd);
    if (request.ask == KEEPER_END) {
        serve->end_token = request.token;
        serve->asked = request.level;
        process_tree_end(serve->tree,
                         &(struct process_tree_ending){ .level = request.level,
                                                        .signal = request.signal,
                                                        .grace_ns = request.grace_ns },
                         time_mono_ns());
    } else if (request.ask == KEEPER_LEASE) {
        serve->lease_ns = request.until_ns;
        serve->lease_over = false;
    } else if (request.ask == KEEPER_KILL) {
        if (process_tree_has(serve->tree, request.pid))
            kill(request.pid, SIGKILL);
    } else if (request.ask == KEEPER_PROMOTE) {
        process_tree_set_level(serve->tree, request.pid, TREE_RANKS);
        if (serve->lease_over)
            serve_kill_ranks(serve);
    } else if (request.level == TREE_RANKS && serve_lease_is_over(serve)) {
        serve_refuse(serve, &request, -ETIMEDOUT);
    } else if (request.command < serve->plan->commands && fd[0] >= 0 &&
               request.env_bytes == (size_t)got - sizeof(request)) {
        serve_spawn(serve, &request, fd);
    } else { /* the limit of open files keeps descriptors from coming */
        serve_refuse(serve, &request, fd[0] < 0 ? -EMFILE : -EINVAL);
    }
    fd_clean(&fd[0]);
    fd_clean(&fd[1]);
}

static void serve_reap(struct serve *serve)
{
    struct tree_exit exit;

    while (process_tree_reap(serve->tree, &exit)) {
        const struct keeper_report report = { .event = KEEPER_EXITED,
                                              .token = exit.token,
                                              .pid = exit.pid,
                                              .status = exit.status,
                                              .mono_ns = time_mono_ns() };

        for (size_t i = 0; i < serve->plan->commands; i++)
            if (serve->daemon[i].pid == exit.pid)
                serve->daemon[i].pid = 0;
        serve_report(serve, &report);
    }
}

static void serve_end(struct serve *serve)
{
    struct keeper_report report = { .event = KEEPER_ENDED, .token = serve->end_token };

    while (process_tree_step(serve->tree, time_mono_ns()) && serve->alone &&
           serve->level < TREE_CONTROL) {
        if (serve->level == TREE_RANKS)
            serve_last_words(serve);
        serve_alone(serve, serve->level + 1);
    }
    if (process_tree_ending(serve->tree))
        return;
    serve->finished = serve->asked == TREE_CONTROL;
    if (serve->alone) {
        rings_remove(serve->plan->rings);
        _exit(0);
    }
    report.status = (int)process_tree_spared(serve->tree);
    report.mono_ns = time_mono_ns();
    serve_report(serve, &report);
}

/* Another node may have the places of our ranks from now on. */
static void serve_lease(struct serve *serve)
{
    if (serve->alone && serve->level > TREE_RANKS) /* they have ended; agents have their own time */
        serve->lease_ns = 0;
    if (!serve->lease_ns || time_boot_ns() < serve->lease_ns)
        return;
    serve->lease_ns = 0;
    serve->lease_over = true;
    serve_kill_ranks(serve);
}

static int64_t serve_pause_ns(const struct serve *serve)
{
    int64_t now_ns = time_mono_ns(),
            pause_ns =
                process_tree_ending(serve->tree) ? process_tree_pause_ns(serve->tree, now_ns) : -1,
            left_ns = MIN(MAX(serve->lease_ns - time_boot_ns(), 0), LEASE_LOOK_NS) + NS_PER_MS;

    if (!serve->lease_ns)
        return pause_ns;
    return pause_ns < 0 ? left_ns : MIN(pause_ns, left_ns);
}

/* poll() and not base/loop.h: with two descriptors and one deadline a loop would add code, memory that can be refused
 * and an epoll descriptor that can fail, to the one process that must not fail.
 */
static void serve_wait(struct serve *serve)
{
    struct pollfd fd[2] = { { .fd = serve->signals, .events = POLLIN },
                            { .fd = serve->alone ? -1 : serve->socket, .events = POLLIN } };
    int64_t pause_ns = serve_pause_ns(serve);
    struct signalfd_siginfo info;

    poll(fd, 2, pause_ns < 0 ? -1 : (int)(pause_ns / NS_PER_MS));
    while (read(serve->signals, &info, sizeof(info)) > 0)
        ;
    if (fd[1].revents)
        serve_request(serve);
}

_Noreturn void keeper_serve(const struct keeper_plan *plan, int socket)
{
    struct serve serve = { .plan = plan, .socket = socket };

    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "lockstep-keeper");
    serve_stdio(plan->keep_stdin);
    serve.signals = serve_signals();
    serve.daemon = calloc(plan->commands, sizeof(*serve.daemon));
    if (serve.signals < 0 || !serve.daemon || process_tree_create(&serve.tree) < 0)
        _exit(1);
    for (;;) {
        serve_wait(&serve);
        serve_reap(&serve);
        serve_lease(&serve);
        if (process_tree_ending(serve.tree))
            serve_end(&serve);
    }
}
