/* rank_procs.c - rings first: what a process says in its environment is inherited by all of its children.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/proc/rank_procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/layout.h"
#include "base/procs.h"
#include "core/clean.h"
#include "wire/ring.h"

#define ENVIRON_BYTES (256 * 1024)

static struct rank_proc *rank_procs_find(const struct rank_procs *procs, uint32_t rank)
{
    for (size_t i = 0; i < procs->count; i++)
        if (procs->list[i].rank == rank)
            return &procs->list[i];
    return NULL;
}

static int rank_proc_compare(const void *a, const void *b)
{
    const struct rank_proc *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

static void rank_procs_sort(struct rank_procs *procs)
{
    if (procs->count)
        qsort(procs->list, procs->count, sizeof(*procs->list), rank_proc_compare);
}

static int rank_procs_add(struct rank_procs *procs, const struct rank_proc *proc)
{
    if (!ARRAY_FIT(procs->list, procs->room, procs->count + 1))
        return -ENOMEM;
    procs->list[procs->count++] = *proc;
    return 0;
}

void rank_procs_fini(struct rank_procs *procs)
{
    free(procs->list);
    *procs = (struct rank_procs){ 0 };
}

/* ---- rings ---- */

static int ring_proc_read(int dir_fd, const char *name, struct rank_proc *ret, struct err *err)
{
    struct ring_reader *reader = NULL;
    struct ring_info info;
    int result = ring_reader_open_at(dir_fd, name, &reader, err);

    if (result < 0)
        return result;
    result = ring_reader_info(reader, &info, err);
    if (result == 0)
        *ret = (struct rank_proc){ .rank = info.rank,
                                   .attempt = info.attempt,
                                   .pid = info.pid,
                                   .pid_ns_inode = info.pid_ns_inode,
                                   .pid_start = info.pid_start,
                                   .owner = ring_reader_owner(reader),
                                   .open_ns = MAX(info.open_mono_ns, UINT64_C(1)) };
    ring_reader_close(reader);
    return result;
}

static int ring_proc_add(struct rank_procs *procs, const struct rank_proc *proc)
{
    struct rank_proc *old = rank_procs_find(procs, proc->rank);

    if (!old)
        return rank_procs_add(procs, proc);
    if (proc->attempt > old->attempt ||
        (proc->attempt == old->attempt && proc->open_ns > old->open_ns))
        *old = *proc;
    return 0;
}

int rank_procs_add_rings(struct rank_procs *procs, const char *rings, struct err *err)
{
    CLEAN(dir_clean) DIR *dir = opendir(rings);
    const struct dirent *entry;
    uint32_t rank, number;

    if (!dir)
        return err_set(err, -errno, "%s: %m", rings);
    while ((entry = readdir(dir))) {
        struct err why = { "" };
        struct rank_proc proc;

        if (!ring_name_parse(entry->d_name, &rank, &number))
            continue;
        if (ring_proc_read(dirfd(dir), entry->d_name, &proc, &why) < 0) {
            if (err && !err->text[0])
                *err = why;
            continue;
        }
        if (ring_proc_add(procs, &proc) < 0)
            return err_nomem(err);
    }
    rank_procs_sort(procs);
    return 0;
}

/* ---- environments ---- */

struct proc_names { /* what a process has in its environment */
    bool ours, ranked;
    uint32_t rank, attempt;
    uid_t owner;
};

static bool procs_name_is(const char *entry, const char *name, const char **ret_value)
{
    size_t size = strlen(name);

    *ret_value = entry + size + 1;
    return strncmp(entry, name, size) == 0 && entry[size] == '=';
}

static void names_parse(const char *text, size_t size, const char *run, struct proc_names *ret)
{
    for (const char *at = text; at < text + size; at += strlen(at) + 1) {
        const char *value;
        char *end;

        if (procs_name_is(at, "LOCKSTEP_RUN", &value)) {
            ret->ours = strcmp(value, run) == 0;
        } else if (procs_name_is(at, "LOCKSTEP_RESTART", &value)) {
            ret->attempt = (uint32_t)strtoul(value, NULL, 10);
        } else if (procs_name_is(at, "RANK", &value)) {
            unsigned long rank = strtoul(value, &end, 10);

            ret->ranked = *value && !*end && rank < LAYOUT_RANKS_MAX;
            ret->rank = (uint32_t)rank;
        }
    }
}

/* One that may not be read, or is gone, is not ours. */
static void names_read(pid_t pid, const char *run, char *buffer, struct proc_names *ret)
{
    CLEAN(fd_clean) int fd = -1;
    char path[40];
    struct stat st;
    size_t size = 0;
    ssize_t got = 0;

    *ret = (struct proc_names){ 0 };
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    ret->owner = st.st_uid;
    do {
        got = read(fd, buffer + size, ENVIRON_BYTES - 1 - size);
        size += (size_t)MAX(got, 0);
    } while (got > 0 && size < ENVIRON_BYTES - 1);
    buffer[size] = '\0';
    names_parse(buffer, size, run, ret);
}

/* Its children inherit its environment: the rank is the one whose parent is not that rank. */
static bool procs_is_topmost(const struct procs *all, const struct proc_names *names, size_t at)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i].pid != all->list[at].parent)
            continue;
        return !names[i].ours || names[i].ranked != names[at].ranked ||
               names[i].rank != names[at].rank;
    }
    return true;
}

static int procs_environment_add(struct rank_procs *procs, const struct procs *all,
                                 const struct proc_names *names, bool ranked)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct rank_proc proc = { .rank = names[i].rank,
                                        .attempt = names[i].attempt,
                                        .pid = (uint32_t)all->list[i].pid,
                                        .pid_start = all->list[i].start,
                                        .owner = names[i].owner };

        if (!names[i].ours || names[i].ranked != ranked || rank_procs_find(procs, proc.rank) ||
            !procs_is_topmost(all, names, i))
            continue;
        if (rank_procs_add(procs, &proc) < 0)
            return -ENOMEM;
    }
    return 0;
}

int rank_procs_add_environment(struct rank_procs *procs, const char *run)
{
    CLEAN(procs_fini) struct procs all = { 0 };
    CLEAN(free_clean) struct proc_names *names = NULL;
    CLEAN(free_clean) char *buffer = malloc(ENVIRON_BYTES);
    int result = buffer ? procs_read(&all) : -ENOMEM;

    if (result < 0)
        return result;
    names = calloc(MAX(all.count, (size_t)1), sizeof(*names));
    if (!names)
        return -ENOMEM;
    for (size_t i = 0; i < all.count; i++)
        if (!all.list[i].kernel)
            names_read(all.list[i].pid, run, buffer, &names[i]);
    result = procs_environment_add(procs, &all, names, true);
    if (result == 0 && procs->count == 0)
        result = procs_environment_add(procs, &all, names, false);
    rank_procs_sort(procs);
    return result;
}
