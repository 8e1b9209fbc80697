/* slurm_call.c - Slurm's programs as children.
 *
 * The child is in a process group of its own, which is killed as a whole at the deadline, and dies with us.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "slurm/slurm_call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/text.h"

#define CALL_CHANGES 8
#define CALL_LOOK_NS (5 * NS_PER_MS)
#define CALL_MISSING 127

/* `in`: its standard input, and it ends neither with us nor by SIGTERM; -1: none. */
static _Noreturn void call_child(char *const argv[], int in, int out)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;

    setpgid(0, 0);
    if (in < 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    else
        signal(SIGTERM, SIG_IGN);
    dup2(in < 0 ? null : in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGCHLD, SIG_DFL);
    if (chdir("/proc") < 0) /* scontrol leaves files where it can */
        _exit(CALL_MISSING - 1);
    setenv("SLURM_TIME_FORMAT", "%s", 1);
    setenv("LC_ALL", "C", 1);
    execvp(argv[0], argv);
    _exit(errno == ENOENT ? CALL_MISSING : CALL_MISSING - 1);
}

/* It has begun with the second line: only a little is waited for now. */
static bool call_has_second(struct slurm_answer *answer)
{
    static const char prompt[] = "scontrol: ";
    char *first, *second;

    answer->text[answer->size] = '\0';
    first = strstr(answer->text, prompt);
    second = first ? strstr(first + 1, prompt) : NULL;
    return second && strchr(second, '\n');
}

/* Until its end, or the deadline.  -ETIME, -EMSGSIZE.  `lines`: it reads such ones; 1: it was long enough for the second one. */
static int call_read(int fd, bool lines, int64_t until_ns, struct slurm_answer *answer)
{
    bool sent = false;

    for (;;) {
        struct pollfd in = { .fd = fd, .events = POLLIN };
        size_t room = SLURM_ANSWER - answer->size;
        ssize_t got;

        if (!room)
            return -EMSGSIZE;
        if (poll(&in, 1, time_poll_ms(until_ns, time_mono_ns())) == 0)
            return sent ? 1 : -ETIME;
        got = read(fd, answer->text + answer->size, room);
        if (got == 0)
            return 0;
        if (got > 0)
            answer->size += (size_t)got;
        else if (errno != EINTR && errno != EAGAIN)
            return -errno;
        if (lines && !sent && call_has_second(answer)) {
            sent = true;
            until_ns = MIN(until_ns, time_mono_ns() + SLURM_SENT_NS);
        }
        if (time_mono_ns() >= until_ns)
            return sent ? 1 : -ETIME;
    }
}

/* It may close its output and go on. */
static int call_wait(pid_t pid, int64_t until_ns, int *status)
{
    const struct timespec look = time_spec(CALL_LOOK_NS);
    pid_t ended;

    while ((ended = waitpid(pid, status, WNOHANG)) == 0 && time_mono_ns() < until_ns)
        nanosleep(&look, NULL);
    return ended == pid ? 0 : -ETIME;
}

static void call_kill(pid_t pid, int *status)
{
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
}

/* What it printed, as one clean line. */
static const char *call_words(struct slurm_answer *answer, char *ret, size_t room)
{
    size_t size = strcspn(answer->text, "\n");

    size = text_clean(answer->text, size, false);
    return size ? text_shorten(answer->text, size, ret, room) : "it printed nothing";
}

static int call_judge(const char *program, int status, struct slurm_answer *answer, struct err *err)
{
    static const char *const refusals[] = { "ermission denied", "Invalid user id",
                                            "not authorized" };
    char words[200];

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == CALL_MISSING)
        return err_set(err, -ENOENT, "%s is not installed", program);
    if (!WIFEXITED(status))
        return err_set(err, -EIO, "%s was killed by signal %d", program, WTERMSIG(status));
    for (size_t i = 0; i < COUNT(refusals); i++) {
        if (strstr(answer->text, refusals[i]))
            return err_set(err, -EPERM, "%s: %s", program,
                           call_words(answer, words, sizeof(words)));
    }
    return err_set(err, -EIO, "%s exited with %d: %s", program, WEXITSTATUS(status),
                   call_words(answer, words, sizeof(words)));
}

static int call_run(char *const argv[], int in, int64_t until_ns, struct slurm_answer *answer,
                    struct err *err)
{
    int fd[2], status = 0, r;
    pid_t pid;

    if (pipe2(fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    pid = fork();
    if (pid == 0)
        call_child(argv, in, fd[1]);
    close(fd[1]);
    if (pid < 0) {
        r = err_set(err, -errno, "fork: %m");
        close(fd[0]);
        return r;
    }
    setpgid(pid, pid);
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    r = call_read(fd[0], in >= 0, until_ns, answer);
    close(fd[0]);
    answer->text[answer->size] = '\0';
    if (r == 0)
        r = call_wait(pid, until_ns, &status);
    if (r != 0)
        call_kill(pid, &status);
    if (r == 1)
        return 0;
    if (r == -EMSGSIZE)
        return err_set(err, r, "%s printed more than %d bytes", argv[0], SLURM_ANSWER);
    if (r == -ETIME)
        return err_set(err, r, "%s did not answer in time and was killed", argv[0]);
    return r < 0 ? err_set(err, r, "%s: %s", argv[0], strerror(-r))
                 : call_judge(argv[0], status, answer, err);
}

int slurm_call(char *const argv[], int64_t limit_ns, struct slurm_answer *ret, struct err *err)
{
    CLEAN(free_clean) struct slurm_answer *own = NULL;

    if (!ret)
        ret = own = malloc(sizeof(*own));
    if (!ret)
        return err_nomem(err);
    ret->size = 0;
    ret->text[0] = '\0';
    return call_run(argv, -1, time_mono_ns() + limit_ns, ret, err);
}

/* ---- scontrol ---- */

static char *call_word(const char *word) /* exec takes them without const, and changes none */
{
    return (char *)(uintptr_t)word;
}

int slurm_control(const char *lines, int64_t limit_ns, struct slurm_answer *ret, struct err *err)
{
    char *const argv[] = { call_word("scontrol"), NULL };
    CLEAN(fd_clean) int in = memfd_create("scontrol", MFD_CLOEXEC);
    size_t size = strlen(lines);

    if (in < 0 || write(in, lines, size) != (ssize_t)size || lseek(in, 0, SEEK_SET) < 0)
        return err_set(err, errno ? -errno : -EIO, "lines for scontrol: %m");
    ret->size = 0;
    ret->text[0] = '\0';
    return call_run(argv, in, time_mono_ns() + limit_ns, ret, err);
}

int slurm_job_show(uint64_t job, int64_t limit_ns, struct slurm_job *ret, struct err *err)
{
    CLEAN(free_clean) struct slurm_answer *answer = malloc(sizeof(*answer));
    char number[32];
    char *const argv[] = { call_word("scontrol"), call_word("show"), call_word("job"), number,
                           NULL };
    struct slurm_job found;
    int r;

    if (!answer)
        return err_nomem(err);
    snprintf(number, sizeof(number), "%llu", (unsigned long long)job);
    r = slurm_call(argv, limit_ns, answer, err);
    if (r == 0)
        r = slurm_job_parse(answer->text, answer->size, &found, err);
    if (r == 0 && found.id != job)
        r = err_set(err, -EBADMSG, "scontrol printed job %llu instead of %s",
                    (unsigned long long)found.id, number);
    if (r == 0)
        *ret = found;
    return r;
}

int slurm_node_show(const char *node, int64_t limit_ns, struct slurm_node *ret, struct err *err)
{
    CLEAN(free_clean) struct slurm_answer *answer = malloc(sizeof(*answer));
    char *const argv[] = { call_word("scontrol"), call_word("show"), call_word("node"),
                           call_word(node), NULL };
    struct slurm_node found;
    int r;

    if (!answer)
        return err_nomem(err);
    if (!slurm_is_node_name(node))
        return err_set(err, -EINVAL, "'%.60s' is no name of a node", node);
    r = slurm_call(argv, limit_ns, answer, err);
    if (r == 0)
        r = slurm_node_parse(answer->text, answer->size, &found, err);
    if (r == 0 && strcmp(found.name, node) != 0)
        r = err_set(err, -EBADMSG, "scontrol printed node %s instead of %s", found.name, node);
    if (r == 0)
        *ret = found;
    return r;
}

static int call_update(const char *what, const char *const change[], int64_t limit_ns,
                       struct err *err)
{
    char *argv[3 + CALL_CHANGES + 1] = { call_word("scontrol"), call_word("update"),
                                         call_word(what) };
    size_t count = 3;

    for (size_t i = 0; change[i]; i++) {
        if (i == CALL_CHANGES)
            return err_set(err, -EINVAL, "too many changes for scontrol");
        argv[count++] = call_word(change[i]);
    }
    return slurm_call(argv, limit_ns, NULL, err);
}

int slurm_job_cancel(uint64_t job, int64_t limit_ns, struct err *err)
{
    char number[32];
    char *const argv[] = { call_word("scancel"), number, NULL };

    snprintf(number, sizeof(number), "%llu", (unsigned long long)job);
    return slurm_call(argv, limit_ns, NULL, err);
}

int slurm_job_update(uint64_t job, const char *const change[], int64_t limit_ns, struct err *err)
{
    char what[40];

    snprintf(what, sizeof(what), "JobId=%llu", (unsigned long long)job);
    return call_update(what, change, limit_ns, err);
}

int slurm_node_update(const char *node, const char *const change[], int64_t limit_ns,
                      struct err *err)
{
    char what[SLURM_NAME + 16];

    if (!slurm_is_node_name(node))
        return err_set(err, -EINVAL, "'%.60s' is no name of a node", node);
    snprintf(what, sizeof(what), "NodeName=%s", node);
    return call_update(what, change, limit_ns, err);
}
