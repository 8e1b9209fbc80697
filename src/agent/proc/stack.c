/* stack.c - wait channel, kernel stack, Python and native stack of one process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/proc/nativestack.h"
#include "agent/proc/pystack.h"
#include "agent/proc/ras_look.h"
#include "core/clean.h"
#include "core/time.h"

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

/* Half a second before the look ends itself: the stacks that were read are worth more. */
#define RAS_OVER_NS (PROC_LOOK_SECONDS * NS_PER_S - NS_PER_S / 2)

static void stack_look_at(const struct stack_ask *ask, struct fact_stack *ret)
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
    if (ask->native && nativestack_read(&ask->proc, ret->native, sizeof(ret->native), &err) < 0)
        why_not(ret, "native stack: %s", err.text);
    ras_look(&ask->proc, ret->mono_ns + RAS_OVER_NS, ret->ras, sizeof(ret->ras));
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
        stack_look_at(ask, ret);
    if (result == 0)
        result = proc_ref_check(&ask->proc);
    if (result == 0)
        return;
    *ret = nothing;
    why_not(ret, "%s",
            result == -EPERM ? "its process belongs to another user" : "its process is gone");
}

static void stack_run(const struct proc_ref *proc, const void *arg, struct buf *answer)
{
    struct stack_ask ask = *(const struct stack_ask *)arg;
    struct fact_stack fact;

    ask.proc = *proc;
    stack_look(&ask, &fact);
    fact_stack_put(answer, &fact);
}

int stack_begin(const struct stack_ask *ask, int64_t now_ns, struct proc_look **ret)
{
    return proc_look_begin(&ask->proc, stack_run, ask, now_ns, ret);
}

int stack_poll(struct proc_look *look, int64_t now_ns, struct fact_stack *ret)
{
    struct reader in;
    int result = proc_look_poll(look, now_ns, &in);

    if (result <= 0)
        return result;
    return fact_stack_get(in, ret) < 0 ? -EIO : 1;
}
