/* launch_bare.c - the ranks as a shell would start them, when there is nothing left to keep them with.
 *
 * Without a descriptor or a process for a keeper nobody can be watched, restarted or ended as a tree; but whoever asked for
 * a training shall have one.  A single command takes the place of this process: its output and its exit status are its own.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/keeper_wire.h"
#include "act/launch_private.h"
#include "core/clean.h"

/* `parent` 0: in its place. */
static _Noreturn void bare_exec(const struct launch *launch, uint32_t rank, uint16_t port,
                                pid_t parent)
{
    const struct launch_plan *plan = launch->plan;
    const struct layout_start start = { .run = launch->run_dir.file.id,
                                        .attempt = launch->run_dir.file.attempt,
                                        .max_restarts = plan->max_restarts,
                                        .port = port,
                                        .omp_threads = getenv("OMP_NUM_THREADS") != NULL };
    struct buf env = { 0 };

    layout_env(&launch->run_dir.file.layout, &start, rank, &env);
    if (!env.failed)
        child_environment((const char *)env.data, env.size);
    setrlimit(RLIMIT_NOFILE, &launch->files);
    child_signals(false);
    if (parent && (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || getppid() != parent))
        _exit(125);
    execvp(plan->command[0], plan->command);
    dprintf(STDERR_FILENO, "lockstep run: %s: %m\n", plan->command[0]);
    _exit(errno == ENOENT ? 127 : 126);
}

/* The first that does not end well takes the others with it. */
static int bare_wait(const pid_t *pid, uint32_t count)
{
    int status, result = 0;

    for (pid_t ended; (ended = wait(&status)) > 0 || errno == EINTR;) {
        if (ended <= 0 || status == 0 || result != 0)
            continue;
        result = launcher_log_status_code(status);
        for (uint32_t i = 0; i < count; i++)
            if (pid[i] > 0 && pid[i] != ended)
                kill(pid[i], SIGTERM);
    }
    return result;
}

int bare_run(const struct launch_plan *plan, const struct launch *launch, int *ret_exit,
             struct err *err)
{
    uint32_t count = MAX(plan->ranks, 1u);
    CLEAN(free_clean) pid_t *pid = calloc(count, sizeof(*pid));
    uint16_t port = 0;
    int why = 0;

    dprintf(STDERR_FILENO, "lockstep run: %s; the command is started without being watched\n",
            launch->starved.text);
    if (plan->ranks && layout_port(&port, err) < 0)
        port = 29500; /* as torchrun has it; nobody can be asked whether it is free */
    if (count == 1)
        bare_exec(launch, 0, port, 0);
    child_signals(false); /* whoever ends us ends the ranks with us */
    for (uint32_t rank = 0; pid && rank < count && !why; rank++) {
        pid_t self = getpid();

        pid[rank] = fork();
        if (pid[rank] == 0)
            bare_exec(launch, rank, port, self);
        why = pid[rank] < 0 ? -errno : 0;
        if (why < 0)
            err_set(err, why, "rank %u could not be started: %s", rank, strerror(-why));
    }
    for (uint32_t i = 0; why < 0 && i < count; i++)
        if (pid[i] > 0)
            kill(pid[i], SIGTERM);
    if (pid)
        *ret_exit = bare_wait(pid, count);
    return pid ? why : err_nomem(err);
}
