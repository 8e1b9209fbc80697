/* lab_child.c - fork, exec, and reading a pipe with a time limit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/lab_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/sibling.h"
#include "core/clean.h"
#include "core/time.h"

#define ANSWER_BYTES (16u << 20)

static void child_exec(const char *program, const struct words *words, const char *state, int out,
                       int errors)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (state)
        setenv("LOCKSTEP_STATE", state, 1);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(errors < 0 ? null : errors, STDERR_FILENO);
    execv(program, words->argv);
    _exit(127);
}

int lab_child_start(const char *program, const struct words *words, const char *state,
                    int errors_fd, struct lab_child *ret, struct err *err)
{
    CLEAN(fd_clean) int in = -1;
    CLEAN(fd_clean) int out = -1;
    int pipe_fd[2], result;
    struct path path;
    pid_t pid;

    if (words->full)
        return err_set(err, -E2BIG, "the command line of '%s' is too long", program);
    result = sibling_find(program, &path, err);
    if (result < 0)
        return result;
    if (pipe2(pipe_fd, O_CLOEXEC) < 0)
        return err_set(err, -errno, "pipe: %m");
    in = pipe_fd[0];
    out = pipe_fd[1];
    pid = fork();
    if (pid < 0)
        return err_set(err, -errno, "fork: %m");
    if (pid == 0)
        child_exec(path.text, words, state, out, errors_fd);
    *ret = (struct lab_child){ .pid = pid, .out_fd = TAKE_FD(in) };
    return 0;
}

bool lab_child_read(const struct lab_child *child, struct buf *out, int64_t limit_ns)
{
    char chunk[65536];

    while (out->size < ANSWER_BYTES) {
        int left_ms = time_poll_ms(limit_ns, time_mono_ns());
        struct pollfd poll_fd = { .fd = child->out_fd, .events = POLLIN };
        ssize_t got;

        if (!left_ms)
            return false;
        if (poll(&poll_fd, 1, left_ms) <= 0)
            continue;
        got = read(child->out_fd, chunk, sizeof(chunk));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        buf_put(out, chunk, (size_t)got);
    }
    return false;
}
