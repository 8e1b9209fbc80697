/* why_child.c - runs `lockstep why --json` on files in a process of its own, and measures it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/why_child.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/lab_child.h"

void why_child_fini(struct why_child *child)
{
    json_object_put(child->answer);
    *child = (struct why_child){ 0 };
}

static double why_seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void why_child_reap(pid_t pid, struct why_child *child)
{
    struct rusage usage = { 0 };
    int status = 0;

    while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR)
        continue;
    child->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    child->cpu_seconds = why_seconds_of(usage.ru_utime) + why_seconds_of(usage.ru_stime);
    child->peak_bytes = (int64_t)usage.ru_maxrss * 1024;
}

int why_child_run(const char *operand, double limit_seconds, struct why_child *ret, struct err *err)
{
    CLEAN(buf_fini) struct buf text = { 0 };
    struct why_child child = { 0 };
    struct words words = { 0 };
    int64_t began = time_mono_ns();
    struct lab_child process;
    bool ended;
    int result;

    words_add(&words, "lockstep");
    words_add(&words, "why");
    words_add(&words, "--json");
    words_add(&words, "%s", operand);
    result = lab_child_start("lockstep", &words, NULL, -1, &process, err);
    if (result < 0)
        return result;
    ended = lab_child_read(&process, &text, began + (int64_t)(limit_seconds * NS_PER_S));
    close(process.out_fd);
    if (!ended)
        kill(process.pid, SIGKILL);
    why_child_reap(process.pid, &child);
    if (!ended)
        return err_set(err, -ETIMEDOUT, "%s: 'lockstep why' did not end within %.0f s", operand,
                       limit_seconds);
    child.wall_seconds = (double)(time_mono_ns() - began) / 1e9;
    buf_put_u8(&text, 0);
    child.answer = text.failed ? NULL : json_tokener_parse((const char *)text.data);
    *ret = child;
    return 0;
}
