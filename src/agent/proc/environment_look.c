/* environment_look.c - the process is read with the rights of the run's user, and only while it is that user's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/environment_look.h"

#include <errno.h>
#include <stdio.h>

#include "core/clean.h"
#include "core/time.h"
#include "sense/environment/environment.h"

/* Its user is compared before and after: a program that became another user's meanwhile leaves nothing. */
static void environment_run(const struct proc_ref *proc, const void *arg, struct buf *answer)
{
    CLEAN(environment_fini)
    struct environment environment = { .node = "-" }; /* the parent sets it */

    (void)arg;
    if (proc_ref_check(proc) < 0 || environment_collect("", proc->dir_fd, &environment, NULL) < 0)
        return;
    environment.mono_ns = time_mono_ns();
    environment.real_ns = time_real_ns();
    if (proc_ref_check(proc) == 0)
        environment_put(answer, &environment);
}

int environment_look_begin(const struct proc_ref *proc, int64_t now_ns, struct proc_look **ret)
{
    return proc_look_begin(proc, environment_run, NULL, now_ns, ret);
}

int environment_look_poll(struct proc_look *look, int64_t now_ns, struct environment *ret)
{
    struct reader in;
    int result = proc_look_poll(look, now_ns, &in);

    if (result <= 0)
        return result;
    return environment_get(in, ret) < 0 ? -EIO : 1;
}
