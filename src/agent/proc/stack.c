/* stack.c - the child that looks, and the pipe it answers through.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proc/nativestack.h"
#include "agent/proc/pystack.h"
#include "core/clean.h"
#include "core/time.h"

#define LOOK_SECONDS 3 /* then the child ends itself, and the kernel lets go of what it holds */
#define NICENESS 10 /* reading symbols takes a core for a moment: whoever trains there goes first */
#define ANSWER_NS ((LOOK_SECONDS + 2) * NS_PER_S)
#define ANSWER_BYTES 16384 /* fits a pipe: the child never waits for us */

struct stack {
    pid_t child;
    int fd;
    int64_t begun_ns;
};

static bool stack_file_read(int proc_fd, const char *name, char *ret, size_t room)
{
    CLEAN(fd_clean) int fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, ret, room - 1);

    ret[MAX(size, 0)] = '\0';
    return size > 0;
}

void stack_parse_kernel(const char *text, char *ret, size_t room)
{
    size_t used = 0;

    ret[0] = '\0';
    while (*text) {
        size_t line = strcspn(text, "\n"), begin = strcspn(text, "]"), end;

        if (begin + 2 < line) {
            begin += 2;
            end = begin + strcspn(text + begin, "+\n");
            if (used + end - begin + 2 > room)
                return;
            used += (size_t)snprintf(ret + used, room - used, "%s%.*s", used ? "\n" : "",
                                     (int)(end - begin), text + begin);
        }
        text += line + (text[line] == '\n');
    }
}

__attribute__((format(printf, 2, 3))) static void why_not(struct fact_stack *fact,
                                                          const char *format, ...)
{
    size_t used = strlen(fact->why_not);
    va_list args;

    if (used && used + 2 < sizeof(fact->why_not))
        used += (size_t)snprintf(fact->why_not + used, sizeof(fact->why_not) - used, "; ");
    va_start(args, format);
    vsnprintf(fact->why_not + MIN(used, sizeof(fact->why_not) - 1),
              sizeof(fact->why_not) - MIN(used, sizeof(fact->why_not) - 1), format, args);
    va_end(args);
}

static void look_at(const struct stack_ask *ask, struct fact_stack *ret)
{
    char text[8192];
    struct err err = { "" };
    int result;

    if (stack_file_read(ask->proc.dir_fd, "wchan", text, sizeof(text)) && strcmp(text, "0") != 0)
        snprintf(ret->channel, sizeof(ret->channel), "%s", text);
    if (stack_file_read(ask->proc.dir_fd, "stack", text, sizeof(text)))
        stack_parse_kernel(text, ret->kernel, sizeof(ret->kernel));
    result = pystack_read(&ask->proc, ret->python, sizeof(ret->python), &err);
    if (result < 0 && result != -ENOENT)
        why_not(ret, "python stack: %s", err.text);
    if (!ask->native)
        return;
    if (nativestack_read(&ask->proc, ret->native, sizeof(ret->native), &err) < 0)
        why_not(ret, "native stack: %s", err.text);
}

/* Its user is compared before and after: a pid that was reused, or a program that became another user's
 * meanwhile, leaves nothing of what was read.
 */
void stack_look(const struct stack_ask *ask, struct fact_stack *ret)
{
    const struct fact_stack nothing = {
        .rank = ask->rank, .attempt = ask->attempt, .state = ask->state, .mono_ns = time_mono_ns()
    };
    int result = proc_ref_check(&ask->proc);

    *ret = nothing;
    if (result == 0)
        look_at(ask, ret);
    if (result == 0)
        result = proc_ref_check(&ask->proc);
    if (result == 0)
        return;
    *ret = nothing;
    why_not(ret, "%s",
            result == -EPERM ? "its process belongs to another user" : "its process is gone");
}

/* Nothing of the agent's stays open here: its locks must end with it. */
static void stack_child_run(struct stack_ask *ask, int fd, pid_t parent)
{
    struct buf payload = { 0 };
    struct fact_stack fact;
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(LOOK_SECONDS);
    setpriority(PRIO_PROCESS, 0, NICENESS);
    fd = fcntl(fd, F_DUPFD, 3); /* above those that take their places */
    if (fd < 0 || dup2(ask->proc.dir_fd, STDOUT_FILENO) < 0 || dup2(fd, STDIN_FILENO) < 0)
        _exit(1); /* else the answer would go to whatever is there */
    /* Neither is used for input or output. */
    ask->proc.dir_fd = STDOUT_FILENO;
    close_range(3, ~0u, 0);
    if (getppid() != parent)
        _exit(1);
    stack_look(ask, &fact);
    fact_stack_put(&payload, &fact);
    _exit(payload.failed ||
          write(STDIN_FILENO, payload.data, payload.size) != (ssize_t)payload.size);
}

int stack_begin(const struct stack_ask *ask, int64_t now_ns, struct stack **ret)
{
    CLEAN(free_clean) struct stack *stack = calloc(1, sizeof(*stack));
    struct stack_ask inner = *ask;
    pid_t parent = getpid();
    int fd[2];

    if (!stack)
        return -ENOMEM;
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    stack->child = fork();
    if (stack->child == 0)
        stack_child_run(&inner, fd[1], parent);
    close(fd[1]);
    stack->fd = fd[0];
    stack->begun_ns = now_ns;
    if (stack->child < 0) {
        int result = -errno;

        close(fd[0]);
        return result;
    }
    *ret = TAKE(stack);
    return 0;
}

int stack_poll(struct stack *stack, int64_t now_ns, struct fact_stack *ret)
{
    unsigned char data[ANSWER_BYTES];
    ssize_t size;
    int status;

    if (waitpid(stack->child, &status, WNOHANG) != stack->child)
        return now_ns - stack->begun_ns > ANSWER_NS ? -ETIMEDOUT : 0;
    stack->child = 0;
    size = read(stack->fd, data, sizeof(data));
    if (size <= 0)
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? -ETIMEDOUT : -EIO;
    return fact_stack_get(reader_of(data, (size_t)size), ret) < 0 ? -EIO : 1;
}

void stack_end(struct stack *stack)
{
    if (!stack)
        return;
    if (stack->child > 0) { /* whatever it holds, the kernel lets go */
        kill(stack->child, SIGKILL);
        while (waitpid(stack->child, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close(stack->fd);
    free(stack);
}
