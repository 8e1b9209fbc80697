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

#define DRILL_NODES 64
#define DRILL_VICTIMS 4

struct drill_target {
    struct path directory;
    struct drill_node { /* of each launcher that lives on this machine */
        struct path directory;
        int32_t launcher, keeper;
        bool leads, trains; /* it has the controller; it has ranks */
    } node[DRILL_NODES];
    uint32_t nodes;
    struct runfile file; /* of the first of them */
    uint32_t ranks;      /* processes of ranks, here */
    struct procs procs;
    struct procs_one victim[DRILL_VICTIMS]; /* of the fault that is being injected */
    uint32_t victims;
    uint32_t rank;    /* of the victim */
    int64_t until_ns; /* rank-slowed: while it is stopped and let go in turn */
    int guard_fd;     /* of the guard's pipe; guard 0: none */
    pid_t guard;
};

/* -EACCES: it did not consent, or is somebody else's; -ESRCH: it is over. */
int drill_target_open(const char *run, struct drill_target *ret, struct err *err);
void drill_target_close(struct drill_target *target);

/* Reads run.json and /proc again. */
int drill_target_look(struct drill_target *target, struct err *err);
/* -ESRCH: there is no process of that rank on this machine. */
int drill_target_rank(struct drill_target *target, uint32_t rank, struct err *err);
bool drill_target_lives(const struct drill_target *target);
/* The launcher and the keeper of a node whose ranks a spare can take: that of the rank, or else of another one, which `rank` is then.
 * -ESRCH: there is none, with the reason.
 */
int drill_target_node(struct drill_target *target, struct err *err);
/* What connects such a node to the controller: the processes that send its facts and fetch its orders. */
int drill_target_link(struct drill_target *target, struct err *err);
/* From now on the victims go on (SIGCONT) when this process ends, however it ends: a drill that is interrupted, or killed, leaves no rank of a
 * job stopped.  drill_target_release() ends that, and lets it go on.
 */
int drill_target_guard(struct drill_target *target, struct err *err);
void drill_target_release(struct drill_target *target);
/* The controller of the run.  -ESRCH: it has none here. */
int drill_target_controller(struct drill_target *target, struct err *err);

#endif
