/* inject_neighbours.c - busy processes on the one CPU where a node's host threads must run.
 *
 * Each neighbour weighs as much as a host thread.  A host that wakes up waits for about one
 * slice of each, so their number is the strength of the fault.  One of them may be busy for a part
 * of the time only, for faults that are slighter than a whole one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/faults/inject_private.h"

#define HOG_PERIOD_NS 20000000 /* of one that is busy for a part of the time */

struct neighbours {
    pid_t hog[INJECT_HOGS];
    uint32_t hogs; /* that are always busy */
    pid_t part;    /* one that is not; 0: none */
    int cpu;
    cpu_set_t one, rest, before; /* the CPU; the others; where the host threads might run */
};

/* Busy for `share` of the time. */
static pid_t inject_hog_start(const cpu_set_t *cpu, double share)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, "neighbour");
    setsid(); /* kernels that group by session would give all of them together one share */
    if (getppid() != parent || sched_setaffinity(0, sizeof(*cpu), cpu) < 0)
        _exit(1);
    signal(SIGTERM, SIG_DFL);
    for (int64_t begin = time_mono_ns();; begin += HOG_PERIOD_NS) {
        struct timespec next = time_spec(begin + HOG_PERIOD_NS);

        while ((double)(time_mono_ns() - begin) < share * HOG_PERIOD_NS)
            ;
        if (share < 1)
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
}

static void inject_hog_stop(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static void neighbours_undo(void *state, const struct inject_target *target)
{
    struct neighbours *neighbours = state;

    while (neighbours->hogs > 0)
        inject_hog_stop(neighbours->hog[--neighbours->hogs]);
    if (neighbours->part > 0)
        inject_hog_stop(neighbours->part);
    for (uint32_t i = 0; i < target->count; i++) /* those that are gone need no way back */
        (void)sched_setaffinity(target->tid[i], sizeof(neighbours->before), &neighbours->before);
    for (uint32_t i = 0; i < target->foreign_load; i++)
        (void)sched_setaffinity(target->other[i], sizeof(neighbours->before), &neighbours->before);
    free(neighbours);
}

/* The last CPU that the hosts may use: the first one is where the rest of a machine likes to be. */
static int neighbours_cpu(struct neighbours *neighbours, struct err *err)
{
    for (int i = CPU_SETSIZE; i-- > 0;) {
        if (!CPU_ISSET(i, &neighbours->before))
            continue;
        CPU_ZERO(&neighbours->one);
        CPU_SET(i, &neighbours->one);
        CPU_XOR(&neighbours->rest, &neighbours->before, &neighbours->one);
        neighbours->cpu = i;
        return 0;
    }
    return err_set(err, -ENODEV, "the host threads are not allowed on any CPU");
}

static int neighbours_tune(void *state, const struct inject_target *target, struct err *err)
{
    struct neighbours *neighbours = state;
    uint32_t full = (uint32_t)MIN(target->hogs, (double)INJECT_HOGS);
    double part = MIN(target->hogs, (double)INJECT_HOGS) - full;

    while (neighbours->hogs > full)
        inject_hog_stop(neighbours->hog[--neighbours->hogs]);
    while (neighbours->hogs < full) {
        pid_t pid = inject_hog_start(&neighbours->one, 1);

        if (pid < 0)
            return err_set(err, -errno, "cannot start a busy process: %m");
        neighbours->hog[neighbours->hogs++] = pid;
    }
    if (neighbours->part > 0)
        inject_hog_stop(neighbours->part);
    neighbours->part = part > 0 ? inject_hog_start(&neighbours->one, part) : 0;
    if (neighbours->part < 0)
        return err_set(err, -errno, "cannot start a busy process: %m");
    snprintf(target->method, target->method_room,
             "%.3g busy processes and %u host threads share CPU %d", full + part, target->count,
             neighbours->cpu);
    return 0;
}

static int neighbours_make(const struct inject_target *target, void **state, struct err *err)
{
    CLEAN(free_clean) struct neighbours *neighbours = calloc(1, sizeof(*neighbours));
    int result;

    if (!neighbours)
        return err_nomem(err);
    if (sched_getaffinity(target->tid[0], sizeof(neighbours->before), &neighbours->before) < 0)
        return err_set(err, -errno, "thread %d: %m", (int)target->tid[0]);
    result = neighbours_cpu(neighbours, err);
    for (uint32_t i = 0; i < target->count && result == 0; i++)
        if (sched_setaffinity(target->tid[i], sizeof(neighbours->one), &neighbours->one) < 0)
            result = err_set(err, -errno, "cannot pin thread %d: %m", (int)target->tid[i]);
    /* The ranks of other nodes have CPUs of their own, where there are any. */
    for (uint32_t i = 0; CPU_COUNT(&neighbours->rest) && i < target->foreign_load && result == 0;
         i++)
        if (sched_setaffinity(target->other[i], sizeof(neighbours->rest), &neighbours->rest) < 0)
            result = err_set(err, -errno, "cannot pin thread %d: %m", (int)target->other[i]);
    if (result == 0)
        result = neighbours_tune(neighbours, target, err);
    if (result < 0) {
        neighbours_undo(TAKE(neighbours), target);
        return result;
    }
    *state = TAKE(neighbours);
    return 0;
}

const struct inject_way inject_neighbours = { neighbours_make, neighbours_tune, neighbours_undo,
                                              NULL };
