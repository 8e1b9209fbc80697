/* keeper.h - the process that is the parent of everything that runs.
 *
 * The launcher may be killed at any moment; the keeper then sees the end of their socket and
 * ends the whole tree: ranks, then agents, then the controller.  It does nothing else that
 * could go wrong: it starts what it is asked to start, reports how it ended, and ends levels of
 * the tree (process_tree.h) on request.
 *
 * When it is the keeper that is killed, its children come to the launcher, which must be a
 * child subreaper too: these functions then go on with a tree of their own.  Nothing can be started
 * any more, but every exit is still reported and every level can still be ended.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_KEEPER_H
#define LOCKSTEP_ACT_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "act/keeper/process_tree.h"
#include "core/buf.h"
#include "core/err.h"

#define KEEPER_ENV_MAX 16384

/* What can be started is known before the keeper is, so that requests are small. */
struct keeper_command {
    const char *path; /* NULL: argv[0] is looked for in PATH */
    bool standby;     /* a rank to be: as ranks are, and never started again by the keeper */
    char *const *argv;
};

struct keeper_plan {
    const struct keeper_command *command;
    size_t commands;
    bool keep_stdin;     /* else they read /dev/null */
    int64_t grace_ns;    /* for the ranks, when the launcher is gone */
    int64_t drain_ns;    /* for agents and controller */
    const char *rings;   /* removed when the launcher is gone and all has ended */
    struct rlimit files; /* how many files they may open: the keeper itself may open more */
    int life; /* a descriptor that the ranks inherit, so that it is open while one of them lives; 0: none */
};

struct keeper_job {
    uint32_t command, token;
    enum tree_level level;
    const struct buf *env; /* NAME=VALUE and a NUL, again and again; added to our own */
    int out_fd, err_fd;
};

enum keeper_event {
    KEEPER_EXITED = 1,
    KEEPER_ENDED = 2
};

struct keeper_report {
    uint32_t event; /* enum keeper_event */
    uint32_t token; /* exited */
    int32_t pid;    /* exited */
    int32_t status; /* exited: as waitpid() gives it; ended: how many could not be ended */
    int64_t mono_ns;
};

struct keeper;

/* The caller has one thread, is a child subreaper, and has SIGCHLD blocked. */
int keeper_start(const struct keeper_plan *plan, struct keeper **ret, struct err *err);
pid_t keeper_pid(const struct keeper *keeper);
/* -EPIPE: the keeper is gone.  An agent or controller is started with SIGTERM blocked, and takes it when it
 * is ready for it: so one that has only just begun still does its work before it ends.
 */
int keeper_spawn(struct keeper *keeper, const struct keeper_job *job, pid_t *ret, struct err *err);
/* A standby process is a rank from now on: it is ended with the ranks. */
void keeper_promote(struct keeper *keeper, pid_t pid);
/* SIGKILL to one process that was started.  The keeper, which reaps it, knows whether it still is that process. */
void keeper_kill(struct keeper *keeper, pid_t pid);
/* When that time since boot has come (time_boot_ns()), the ranks are killed, whatever the launcher does; 0: never.  A later call
 * replaces it.
 */
void keeper_lease(struct keeper *keeper, int64_t until_ns);
void keeper_end(struct keeper *keeper, const struct process_tree_ending *ending_mode);

int keeper_fd(const struct keeper *keeper); /* poll it for reading; -1: the keeper is gone */
int64_t keeper_pause_ns(
    const struct keeper *keeper); /* call keeper_next() after this; -1: need not */
/* 1 and *ret, or 0: nothing for now. */
int keeper_next(struct keeper *keeper, struct keeper_report *ret);
bool keeper_lost(const struct keeper *keeper, int *ret_status); /* how it ended; -1: not known */

/* Everything must have been ended.  Waits until the keeper has gone, too.  NULL is fine. */
void keeper_stop(struct keeper *keeper);

#endif
