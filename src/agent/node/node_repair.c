/* node_repair.c - the process of a repair, and the line that it prints: a result and a sentence.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/node_repair.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"

#define REPAIR_LIMIT_NS (240 * NS_PER_S) /* less than an order is waited for */
#define REPAIR_KILLED_NS (10 * NS_PER_S) /* for its end after the kill */

static _Noreturn void repair_exec(const char *node, const struct decision *order, int out)
{
    char action[24], device[24];
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;

    snprintf(action, sizeof(action), "%s", action_name(order->action));
    snprintf(device, sizeof(device), "%lld", (long long)order->argument);
    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execl("/proc/self/exe", "lockstep", "node-repair", "--action", action, "--node", node,
          "--device", device, (char *)NULL);
    _exit(127);
}

int node_repair_begin(struct node_repair *repair, const char *node, const struct decision *order,
                      int64_t now_ns)
{
    int fd[2];

    if (repair->hung)
        return -EBUSY;
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    *repair = (struct node_repair){ .fd = fd[0], .until_ns = now_ns + REPAIR_LIMIT_NS };
    repair->pid = fork();
    if (repair->pid == 0)
        repair_exec(node, order, fd[1]);
    close(fd[1]);
    if (repair->pid > 0) {
        setpgid(repair->pid, repair->pid); /* whoever of the two comes first */
        return 0;
    }
    repair->pid = 0;
    fd_clean(&repair->fd);
    return -EAGAIN;
}

void node_repair_reaped(struct node_repair *repair, pid_t pid, int status)
{
    if (repair->hung && pid == repair->hung)
        repair->hung = 0;
    if (!repair->pid || pid != repair->pid)
        return;
    repair->ended = true;
    repair->status = status;
}

static void repair_read(struct node_repair *repair)
{
    ssize_t got;

    while (repair->size + 1 < sizeof(repair->text) &&
           (got = read(repair->fd, repair->text + repair->size,
                       sizeof(repair->text) - 1 - repair->size)) > 0)
        repair->size += (size_t)got;
    repair->text[repair->size] = '\0';
}

/* "done GPU 0000:3b:00.0 was reset" */
static enum outcome_result repair_result(struct node_repair *repair, char *ret, size_t room)
{
    char *words;
    size_t size;
    unsigned result;

    repair->text[strcspn(repair->text, "\n")] = '\0';
    words = strchr(repair->text, ' ');
    if (!WIFEXITED(repair->status) || WEXITSTATUS(repair->status) != 0 || !words) {
        snprintf(ret, room, "the process that did it %s %d",
                 WIFEXITED(repair->status) ? "exited with" : "was killed by signal",
                 WIFEXITED(repair->status) ? WEXITSTATUS(repair->status)
                                           : WTERMSIG(repair->status));
        return OUTCOME_UNKNOWN;
    }
    *words++ = '\0';
    size = text_clean(words, strlen(words), false);
    snprintf(ret, room, "%.*s", (int)size, words);
    result = outcome_result_of(repair->text);
    return result ? (enum outcome_result)result : OUTCOME_UNKNOWN;
}

bool node_repair_turn(struct node_repair *repair, int64_t now_ns, enum outcome_result *result,
                      char *ret, size_t room)
{
    if (!repair->pid)
        return false;
    repair_read(repair);
    if (!repair->ended) {
        if (now_ns >= repair->until_ns)
            kill(-repair->pid, SIGKILL);
        if (now_ns < repair->until_ns + REPAIR_KILLED_NS)
            return false;
        snprintf(ret, room, "process %d that did it does not end, not even by a kill",
                 (int)repair->pid);
        *result = OUTCOME_UNKNOWN;
        fd_clean(&repair->fd);
        repair->hung = repair->pid;
        repair->pid = 0;
        return true;
    }
    repair_read(repair);
    *result = repair_result(repair, ret, room);
    fd_clean(&repair->fd);
    repair->pid = 0;
    return true;
}

void node_repair_fini(struct node_repair *repair)
{
    if (repair
            ->pid) /* a reset is not broken off; the next daemon reports that its end is not known */
        fd_clean(&repair->fd);
    repair->pid = 0;
}
