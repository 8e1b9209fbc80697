/* others.c - sums the processor time of all processes that are not below us, once a second.
 *
 * With a process's own time goes that of its children that it has waited for: so nothing is lost or counted twice when
 * one ends, and those count that begin and end between two looks.
 */
#include "lab/others.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/map.h"
#include "core/time.h"

#define SECONDS_KEPT 1024
#define DEPTH_MAX 64            /* of ancestors */
#define KERNEL_THREAD 0x200000u /* PF_KTHREAD */

struct second {
    int64_t end_ns;
    double cores;
};

struct sum { /* since the machine began */
    int64_t at_ns;
    uint64_t ticks, stolen;
};

struct others {
    struct sum before;
    struct second second[SECONDS_KEPT];
    uint64_t seconds; /* ever */
};

int others_create(struct others **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : -ENOMEM;
}

void others_destroy(struct others *others)
{
    free(others);
}

/* The name is in brackets and may hold anything: what follows begins after the last one. */
int others_parse_process(const char *text, struct others_process *ret)
{
    const char *end = strrchr(text, ')');
    unsigned long long own[2], children[2];
    unsigned flags;
    int pid, parent;

    if (!end || sscanf(text, "%d", &pid) != 1 ||
        sscanf(end + 1, " %*c %d %*d %*d %*d %*d %u %*u %*u %*u %*u %llu %llu %llu %llu", &parent,
               &flags, &own[0], &own[1], &children[0], &children[1]) != 6)
        return -EPROTO;
    *ret = (struct others_process){ .pid = pid,
                                    .parent = parent,
                                    .kernel = flags & KERNEL_THREAD,
                                    .ticks = own[0] + own[1] + children[0] + children[1] };
    return 0;
}

int others_parse_stolen(const char *text, uint64_t *ticks)
{
    return sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, ticks) == 1 ? 0 : -EPROTO;
}

static int text_read(const char *path, char *text, size_t room)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

    if (got < 0)
        return -errno;
    text[got] = '\0';
    return 0;
}

struct table { /* of all processes */
    struct others_process *process;
    size_t count, room;
};

static void table_fini(struct table *table)
{
    free(table->process);
}

static int table_add(struct table *table, const struct others_process *process)
{
    if (table->count == table->room) {
        size_t room = table->room ? 2 * table->room : 256;
        struct others_process *grown = reallocarray(table->process, room, sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        table->process = grown;
        table->room = room;
    }
    table->process[table->count++] = *process;
    return 0;
}

static int table_read(struct table *table)
{
    CLEAN(dir_clean) DIR *dir = opendir("/proc");
    const struct dirent *entry;
    int result = dir ? 0 : -errno;

    while (result == 0 && (entry = readdir(dir))) {
        struct others_process process;
        char path[300], text[1024];

        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        if (text_read(path, text, sizeof(text)) == 0 && others_parse_process(text, &process) == 0)
            result = table_add(table, &process);
    }
    return result;
}

/* ---- who is whose ---- */

static bool is_below(const struct others_process *process, const struct map *place, size_t at,
                     pid_t us)
{
    for (int i = 0; i < DEPTH_MAX && process[at].pid != us; i++) {
        const uint64_t *parent = map_get(place, (uint64_t)process[at].parent);

        if (!parent)
            return false;
        at = *parent;
    }
    return process[at].pid == us;
}

int others_sum(const struct others_process *process, size_t count, pid_t us, uint64_t *ticks)
{
    CLEAN(map_fini) struct map place = { 0 }; /* pid → index */
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++) {
        if (!map_put(&place, (uint64_t)process[i].pid, i))
            return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        if (!process[i].kernel && !is_below(process, &place, i, us))
            sum += process[i].ticks;
    }
    *ticks = sum;
    return 0;
}

static int sum_read(struct sum *ret)
{
    CLEAN(table_fini) struct table table = { 0 };
    struct sum sum = { .at_ns = time_mono_ns() };
    char text[1024];
    int result = text_read("/proc/stat", text, sizeof(text));

    if (result == 0)
        result = others_parse_stolen(text, &sum.stolen);
    if (result == 0)
        result = table_read(&table);
    if (result == 0)
        result = others_sum(table.process, table.count, getpid(), &sum.ticks);
    *ret = sum;
    return result;
}

/* Those whose parents do not wait for them take their time with them: then the sum falls. */
static double cores_between(const struct sum *before, const struct sum *now)
{
    double second = (double)sysconf(_SC_CLK_TCK) * (double)(now->at_ns - before->at_ns) / NS_PER_S;
    uint64_t ticks = now->ticks > before->ticks ? now->ticks - before->ticks : 0;
    uint64_t stolen = now->stolen > before->stolen ? now->stolen - before->stolen : 0;

    return (double)(ticks + stolen) / second;
}

void others_look(struct others *others)
{
    struct sum now;

    if (!others || time_mono_ns() - others->before.at_ns < NS_PER_S || sum_read(&now) < 0)
        return;
    if (others->before.at_ns)
        others->second[others->seconds++ % SECONDS_KEPT] =
            (struct second){ now.at_ns, cores_between(&others->before, &now) };
    others->before = now;
}

double others_most(const struct others *others, int64_t since_ns)
{
    double most = 0;

    for (uint64_t i = 0; others && i < MIN(others->seconds, SECONDS_KEPT); i++) {
        if (others->second[i].end_ns > since_ns)
            most = MAX(most, others->second[i].cores);
    }
    return most;
}
