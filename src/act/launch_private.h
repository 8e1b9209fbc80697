/* launch_private.h - what the files of the launcher share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_LAUNCH_PRIVATE_H
#define LOCKSTEP_ACT_LAUNCH_PRIVATE_H

#include <poll.h>

#include "act/daemons.h"
#include "act/keeper.h"
#include "act/launch.h"
#include "act/launcher_log.h"
#include "act/output.h"
#include "act/rank_environment.h"
#include "act/run_directory.h"
#include "act/verdict_follow.h"

struct launch {
    const struct launch_plan *plan;
    struct run_directory run_dir;
    int signals;
    struct keeper *keeper;
    struct output *output;
    struct launcher_log *log;
    struct daemons *daemons; /* NULL: --no-watch */
    struct pollfd *poll;
    struct keeper_command *command;
    uint32_t count, running;       /* of ranks, or of the one command */
    struct verdict_follow *follow; /* NULL: no controller of ours writes any */
    int64_t attempt_real_ns;       /* when this attempt began */
    bool observed;                 /* some process opened a ring */
    char hang[160];                /* why this attempt was ended; "": no hang */
    bool failed;                   /* in this attempt */
    uint32_t culprit;              /* of the latest failed attempt */
    int culprit_status;
    int *end; /* by rank: how it ended by itself in this attempt; -1: it did not, or not yet */
    uint64_t log_bytes; /* of the controller's log, when this attempt failed */
    bool ending, ended; /* a level of the tree is being ended; it has ended */
    int64_t ending_ns;  /* since then */
    enum tree_level level;
    int end_signal;  /* what those are told that are being ended */
    bool signalled;  /* somebody wants us to end */
    int stop_signal; /* the signal that stopped the ranks; 0: none */
    bool lost_said, launcher_log_failed;
    int lost_status;
    struct rlimit files; /* of open files, as we found it */
    struct err starved;  /* why no process can be started as it should; "": they can */
};

/* launch.c */
void launch_turn(struct launch *launch, int64_t until_ns); /* waits and serves what happens */
void launch_end_wait(struct launch *launch, enum tree_level level, int64_t grace_ns);
void launch_log_run(struct launch *launch, enum run_event event, int status, const char *text);
void launch_write_file(struct launch *launch);

/* launch_verdicts.c */
void launch_say_attach(
    struct launch *launch); /* that Python programs cannot be observed, and why */
/* Prints the verdicts that came since the last call.  True: *ret asks for a restart of this attempt. */
bool launch_verdicts(struct launch *launch, struct verdict *ret);
/* When agents and controller have ended: the last verdicts, and how many there were. */
void launch_conclude(struct launch *launch);

/* launch_attempt.c */
void attempt_run(struct launch *launch);   /* from allocation until nobody is left */
bool attempt_again(struct launch *launch); /* waits for the next one; false: there is none */
int attempt_exit_status(const struct launch *launch);
/* Once the controller has told all that it will tell: the first that ended may have been an echo.  True: it
 * was, and another one is the culprit now.
 */
bool attempt_reconsider(struct launch *launch);
/* The ranks as a shell would start them, with nothing around them, when nothing else is left.  Does not return
 * where there is one. */
int bare_run(const struct launch_plan *plan, const struct launch *launch, int *ret_exit,
             struct err *err);
void attempt_why(const struct launch *launch, char *ret, size_t room);

#endif
