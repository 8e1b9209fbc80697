/* proc_look.c - the child that looks, and the pipe it answers through.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/proc_look.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define NICENESS 10 /* reading symbols takes a core for a moment: whoever trains there goes first */
#define ANSWER_NS ((PROC_LOOK_SECONDS + 2) * NS_PER_S)
#define END_LOOKS 100 /* for the end of a killed child, 1 ms each */

struct proc_look {
    pid_t child; /* 0: it has ended */
    int fd;
    int64_t begun_ns;
    struct buf answer;
    bool failed;
};

static void proc_answer_write(const struct buf *answer)
{
    size_t done = 0;

    while (!answer->failed && done < answer->size) {
        ssize_t size = write(STDIN_FILENO, answer->data + done, answer->size - done);

        if (size < 0 && errno != EINTR)
            _exit(1);
        done += (size_t)MAX(size, 0);
    }
    _exit(answer->failed);
}

/* Nothing of the agent's stays open here: its locks must end with it. */
static void look_child_run(struct proc_ref proc, proc_look_run *run, const void *arg, int fd,
                           pid_t parent)
{
    struct buf answer = { 0 };
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(PROC_LOOK_SECONDS);
    setpriority(PRIO_PROCESS, 0, NICENESS);
    fd = fcntl(fd, F_DUPFD, 3); /* above those that take their places */
    if (fd < 0 || dup2(proc.dir_fd, STDOUT_FILENO) < 0 || dup2(fd, STDIN_FILENO) < 0)
        _exit(1); /* else the answer would go to whatever is there */
    /* Neither is used for input or output. */
    proc.dir_fd = STDOUT_FILENO;
    close_range(3, ~0u, 0);
    if (getppid() != parent)
        _exit(1);
    run(&proc, arg, &answer);
    proc_answer_write(&answer);
}

int proc_look_begin(const struct proc_ref *proc, proc_look_run *run, const void *arg,
                    int64_t now_ns, struct proc_look **ret)
{
    CLEAN(free_clean) struct proc_look *look = calloc(1, sizeof(*look));
    pid_t parent = getpid();
    int fd[2], result = 0;

    if (!look)
        return -ENOMEM;
    if (pipe2(fd, O_CLOEXEC) < 0)
        return -errno;
    if (fcntl(fd[0], F_SETFL, O_NONBLOCK) < 0)
        result = -errno;
    if (result == 0)
        look->child = fork();
    if (result == 0 && look->child == 0)
        look_child_run(*proc, run, arg, fd[1], parent);
    if (look->child < 0)
        result = -errno;
    close(fd[1]);
    look->fd = fd[0];
    look->begun_ns = now_ns;
    if (result < 0) {
        close(fd[0]);
        return result;
    }
    *ret = TAKE(look);
    return 0;
}

/* An answer may be longer than a pipe: the child then waits for us, until its alarm. */
static void proc_answer_read(struct proc_look *look)
{
    unsigned char data[16384];
    ssize_t size;

    while ((size = read(look->fd, data, sizeof(data))) > 0) {
        look->failed |= look->answer.size + (size_t)size > PROC_LOOK_MAX;
        if (!look->failed)
            buf_put(&look->answer, data, (size_t)size);
    }
}

int proc_look_poll(struct proc_look *look, int64_t now_ns, struct reader *ret)
{
    pid_t ended;
    int status;

    ended = waitpid(look->child, &status, WNOHANG); /* first: then all that it wrote is there */
    proc_answer_read(look);
    if (ended != look->child)
        return now_ns - look->begun_ns > ANSWER_NS ? -ETIMEDOUT : 0;
    look->child = 0;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return -ETIMEDOUT;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || look->failed || look->answer.failed ||
        !look->answer.size)
        return -EIO;
    *ret = reader_of(look->answer.data, look->answer.size);
    return 1;
}

bool proc_look_end(struct proc_look *look)
{
    const struct timespec nap = time_spec(NS_PER_MS);
    pid_t child;

    if (!look)
        return true;
    child = look->child;
    if (child > 0)
        kill(child, SIGKILL);
    for (int i = 0; child > 0 && i < END_LOOKS; i++) { /* whatever it holds, the kernel lets go */
        if (waitpid(child, NULL, WNOHANG) == child)
            child = 0;
        else
            nanosleep(&nap, NULL);
    }
    close(look->fd);
    buf_fini(&look->answer);
    free(look);
    return child <= 0;
}
