/* proc.h - what the kernel says about a rank's process.
 *
 * Bound to one process at open: everything is read below its directory in /proc, which stays open, so a reused pid is
 * never taken for it.  A ring only claims a pid, and anybody can write one: the process is looked at only while its
 * user is the ring's owner.
 * A sample is cheap: the files of known threads stay open and are read again; the list of threads is
 * read again when their number changes, and once a second.  CPU time and run delay of threads that have ended
 * stay in the sums.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_PROC_H
#define LOCKSTEP_AGENT_PROC_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/proc/sample.h"

struct proc;

struct proc_ref { /* one process, whoever gets its pid later */
    pid_t pid;    /* as we see it */
    int dir_fd;   /* on /proc/PID */
    uid_t owner;  /* that it must have: the ring's */
};
/* 0: it lives, and its real, effective, saved and file system user are the owner.  -ESRCH: it is gone; -EPERM. */
int proc_ref_check(const struct proc_ref *ref);

/* `pid` as the process itself saw it in the namespace `ns_inode` (0: unknown), `start` as field 22
 * of its stat file.  -ESRCH: it is gone; -ENOENT: it cannot be seen from here; -EPERM: it is another user's.
 */
int proc_open(uint32_t pid, uint64_t ns_inode, uint64_t start, uid_t owner, struct proc **ret);
void proc_close(struct proc *proc);
const struct proc_ref *proc_ref(const struct proc *proc); /* lives as long as `proc` */
/* State as in stat, 'X' when it is gone, '?' when it cannot be read; else *sample is set. */
char proc_sample(struct proc *proc, int64_t now_ns, struct sample *sample);
/* Does its first thread, in this state, wait for a file system or a disk? */
bool proc_waits_for_storage(const struct proc *proc, char state);
/* Once a second: threads come and go, and a process may be moved to another control group. */
void proc_refresh(struct proc *proc);

/* ---- the parsers; texts end with NUL ---- */

struct proc_stat {
    char state;
    uint64_t major_faults, cpu_ticks, threads, start;
};
int proc_parse_stat(const char *text, struct proc_stat *ret); /* -EPROTO */
int proc_parse_schedstat(const char *text, int64_t *cpu_ns, int64_t *run_delay_ns);
/* Where the time limits of this process are counted: its group in the v1 cpu hierarchy, else in v2. */
struct proc_cgroup {
    bool v2;
    char controllers[64]; /* v1: as mounted, "cpu,cpuacct" */
    char path[512];
};
int proc_parse_cgroup(const char *text, struct proc_cgroup *ret); /* -ENOENT, -EPROTO */
/* The same for another controller's hierarchy: "memory". */
int proc_parse_cgroup_of(const char *text, const char *controller, struct proc_cgroup *ret);
int proc_parse_oom_kill(const char *text, uint64_t *ret); /* memory.events, memory.oom_control */
int proc_parse_cpu_stat(const char *text, int64_t *throttled_ns); /* -ENOENT, -EPROTO */
int proc_parse_nspid(const char *status, uint32_t *innermost);    /* -ENOENT */
/* Real, effective, saved and file system user of a status file.  -ENOENT */
int proc_parse_uids(const char *status, uint32_t ret[static 4]);

#endif
