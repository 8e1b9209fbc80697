/* drill_target.h - a job of this machine that consented to a drill: its processes, and what a drill does to them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_DRILL_DRILL_TARGET_H
#define LOCKSTEP_LAB_DRILL_DRILL_TARGET_H

#include "base/paths.h"
#include "base/procs.h"
#include "base/runfile.h"
#include "core/err.h"

struct drill_target {
    struct path directory;
    struct runfile file;
    struct procs procs;
    struct procs_one victim; /* of the fault that is being injected; pid 0: none */
    uint32_t rank;           /* of the victim */
    int64_t until_ns;        /* rank-slowed: while it is stopped and let go in turn */
    int guard_fd;            /* of the guard's pipe; guard 0: none */
    pid_t guard;
};

/* -EACCES: it did not consent, or is somebody else's; -ESRCH: it is over. */
int drill_target_open(const char *run, struct drill_target *ret, struct err *err);
void drill_target_close(struct drill_target *target);

/* Reads run.json and /proc again. */
int drill_target_look(struct drill_target *target, struct err *err);
/* -ESRCH: there is no process of that rank on this machine. */
int drill_target_rank(struct drill_target *target, uint32_t rank, struct err *err);
/* From now on the victim goes on (SIGCONT) when this process ends, however it ends: a drill that is interrupted, or killed, leaves no rank of a
 * job stopped.  drill_target_release() ends that, and lets it go on.
 */
int drill_target_guard(struct drill_target *target, struct err *err);
void drill_target_release(struct drill_target *target);
/* The controller of the run.  -ESRCH: it has none here. */
int drill_target_controller(struct drill_target *target, struct err *err);

#endif
