/* procs.h - the process tree from /proc.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_PROCS_H
#define LOCKSTEP_BASE_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct procs_one {
    pid_t pid, parent;
    uint64_t start; /* clock ticks after boot: with it a pid names one process, not its successor */
    uint64_t ticks; /* of processors, with those of its children that it has waited for */
    bool kernel;    /* a thread of the kernel's */
    pid_t root; /* the child of `top` that it descends from (itself, perhaps); 0: not below top */
};

struct procs {
    struct procs_one *list;
    size_t count, room;
};

/* Begins with `pid (name) state parent`; a name may hold anything, also ") R 1 (".  -EINVAL. */
int proc_parse(const char *stat, struct procs_one *ret);
/* Signals the process that was read, never another that has got its pid since.  -ESRCH: it is gone. */
int proc_signal(const struct procs_one *proc, int number);
/* False also when it cannot be seen. */
bool proc_ignores(const struct procs_one *proc, int number);
/* Reads all of /proc, sorted by pid.  The list is kept for the next call.  -errno. */
int procs_read(struct procs *procs);
void procs_fini(struct procs *procs);
/* Sets every root.  A process whose parent is not in the (sorted) list is below nobody. */
void procs_below(struct procs *procs, pid_t top);

#endif
