/* foreign_load.c - sums the processor time of all processes that are not below us, once a second.
 *
 * With a process's own time goes that of its children that it has waited for: so nothing is lost or counted twice when
 * one ends, and those count that begin and end between two looks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/score/foreign_load.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define SECONDS_KEPT 1024

struct second {
    int64_t end_ns;
    double cores;
};

struct sum { /* since the machine began */
    int64_t at_ns;
    uint64_t ticks, stolen;
};

struct foreign_load {
    struct procs procs;
    struct sum before;
    struct second second[SECONDS_KEPT];
    uint64_t seconds; /* ever */
};

int foreign_load_create(struct foreign_load **ret)
{
    struct foreign_load *load = calloc(1, sizeof(*load));

    if (!load)
        return -ENOMEM;
    *ret = load;
    return 0;
}

void foreign_load_destroy(struct foreign_load *foreign_load)
{
    if (foreign_load)
        procs_fini(&foreign_load->procs);
    free(foreign_load);
}

int foreign_load_parse_stolen(const char *text, uint64_t *ticks)
{
    return sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, ticks) == 1 ? 0 : -EPROTO;
}

static int foreign_load_others_text_read(const char *path, char *text, size_t room)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

    if (got < 0)
        return -errno;
    text[got] = '\0';
    return 0;
}

uint64_t foreign_load_sum(struct procs *procs, pid_t us)
{
    uint64_t sum = 0;

    procs_below(procs, us);
    for (size_t i = 0; i < procs->count; i++) {
        const struct procs_one *proc = &procs->list[i];

        if (!proc->kernel && !proc->root && proc->pid != us)
            sum += proc->ticks;
    }
    return sum;
}

static int sum_read(struct foreign_load *foreign_load, struct sum *ret)
{
    struct sum sum = { .at_ns = time_mono_ns() };
    char text[1024];
    int result = foreign_load_others_text_read("/proc/stat", text, sizeof(text));

    if (result == 0)
        result = foreign_load_parse_stolen(text, &sum.stolen);
    if (result == 0)
        result = procs_read(&foreign_load->procs);
    sum.ticks = result == 0 ? foreign_load_sum(&foreign_load->procs, getpid()) : 0;
    *ret = sum;
    return result;
}

/* Those whose parents do not wait for them take their time with them: then the sum falls. */
static double foreign_load_cores_between(const struct sum *before, const struct sum *now)
{
    double second = (double)sysconf(_SC_CLK_TCK) * (double)(now->at_ns - before->at_ns) / NS_PER_S;
    uint64_t ticks = now->ticks > before->ticks ? now->ticks - before->ticks : 0;
    uint64_t stolen = now->stolen > before->stolen ? now->stolen - before->stolen : 0;

    return (double)(ticks + stolen) / second;
}

void foreign_load_look(struct foreign_load *foreign_load)
{
    struct sum now;

    if (!foreign_load || time_mono_ns() - foreign_load->before.at_ns < NS_PER_S ||
        sum_read(foreign_load, &now) < 0)
        return;
    if (foreign_load->before.at_ns)
        foreign_load->second[foreign_load->seconds++ % SECONDS_KEPT] =
            (struct second){ now.at_ns, foreign_load_cores_between(&foreign_load->before, &now) };
    foreign_load->before = now;
}

double foreign_load_most(const struct foreign_load *foreign_load, int64_t since_ns)
{
    double most = 0;

    for (uint64_t i = 0; foreign_load && i < MIN(foreign_load->seconds, SECONDS_KEPT); i++) {
        if (foreign_load->second[i].end_ns > since_ns)
            most = MAX(most, foreign_load->second[i].cores);
    }
    return most;
}
