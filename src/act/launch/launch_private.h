/* launch_private.h - what the files of the launcher share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_LAUNCH_PRIVATE_H
#define LOCKSTEP_ACT_LAUNCH_PRIVATE_H

#include <poll.h>

#include "act/daemons.h"
#include "act/job_rendezvous.h"
#include "act/keeper/keeper.h"
#include "act/launch/launch.h"
#include "act/launcher_log.h"
#include "act/life_socket.h"
#include "act/output/output.h"
#include "act/rank_environment.h"
#include "act/run_directory.h"
#include "act/verdict_follow.h"

#define LAUNCH_WARM_TOKEN 0x40000000u /* of standby processes, plus the rank */

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
    uint32_t count, running;           /* of ranks, or of the one command */
    struct verdict_follow *follow;     /* NULL: no controller of ours writes any */
    struct launch_orders *orders;      /* NULL: there are none */
    struct launch_crew *crew;          /* NULL: there is no other launcher */
    struct job_rendezvous *rendezvous; /* NULL: a site has the controller, or this one is alone */
    struct launch_warm *warm;          /* NULL: no standby processes */
    uint32_t warm_command;             /* of the keeper: what starts them */
    struct err warm_trouble;           /* why --warm has no effect; "": it has, or was not given */
    int64_t attempt_real_ns;           /* when this attempt began */
    bool page_printed;
    bool observed;             /* some process opened a ring */
    char hang[160];            /* why this attempt was ended; "": no hang */
    struct policy_means means; /* as they were sent; mode 0: not yet */
    bool given_up;             /* no further attempt */
    uint32_t failed_soon;      /* attempts in a row that did not last a minute */
    bool failed;               /* in this attempt */
    uint32_t culprit;          /* of the latest failed attempt */
    int culprit_status;
    int *end; /* by rank: how it ended by itself in this attempt; -1: it did not, or not yet */
    uint64_t log_bytes; /* of the controller's log, when this attempt failed */
    bool ending, ended; /* a level of the tree is being ended; it has ended */
    int64_t ending_ns;  /* since then */
    int64_t kill_ns;    /* not before that, SIGKILL is sent */
    enum tree_level level;
    int end_signal;  /* what those are told that are being ended */
    bool signalled;  /* somebody wants us to end */
    int stop_signal; /* the signal that stopped the ranks; 0: none */
    struct launch_save {
        int signal;
        int64_t began_ns, until_ns; /* 0: no checkpoint is waited for */
        int64_t ask_ns;             /* then it is asked for here; INT64_MAX: it was */
        char order[DECISION_ID];    /* the newest; "": none yet */
        uint64_t step;
    } save;
    bool keeper_lost_seen, launcher_log_failed;
    int lost_status;
    struct rlimit files; /* of open files, as we found it */
    struct life_socket life;
    struct err starved; /* why no process can be started as it should; "": they can */
};

/* launch.c */
void launch_turn(struct launch *launch, int64_t until_ns); /* waits and serves what happens */
void launch_end_wait(struct launch *launch, enum tree_level level, int64_t grace_ns);
void launch_log_run(struct launch *launch, enum run_event event, int status, const char *text);
void launch_write_file(struct launch *launch);

/* launch_print.c */
void launch_print_attach(
    struct launch *launch);                  /* that Python programs cannot be observed, and why */
void launch_verdicts(struct launch *launch); /* prints those that came since the last call */
/* When agents and controller have ended: the last verdicts, and how many there were. */
void launch_conclude(struct launch *launch);

/* launch_orders.c: what the controller orders.  NULL orders: nothing happens. */
void launch_orders_open(struct launch *launch);
void launch_orders_close(struct launch *launch);
void launch_orders_begin(struct launch *launch);   /* an attempt begins: consents to restarts */
void launch_orders_turn(struct launch *launch);    /* carries out what has come */
void launch_orders_between(struct launch *launch); /* two attempts: whether to give up */
void launch_orders_end(struct launch *launch);     /* the ranks of the attempt have ended */
/* The end of an order that a launcher of several has begun. */
void launch_orders_answer(struct launch *launch, const struct decision *decision,
                          enum outcome_result result, const char *text);

/* launch_crew.c: a launcher that is one of several.  NULL crew: as if it were the only one. */
#define CREW_BEATS 64

struct launch_crew {
    struct member self; /* as it was reported last */
    struct crew_beat {
        uint64_t number; /* of its frame */
        int64_t boot_ns;
    } beat[CREW_BEATS]; /* a ring */
    uint32_t beats;
    int64_t due_ns; /* of the next one */
    bool known;     /* some controller has heard of us */
    bool joined_printed;
    int64_t moved_ns;               /* since boot: when we went on to the next endpoint; 0: never */
    int64_t acked_ns;               /* since boot: of the newest that the controller has; 0: none */
    int acknowledged;               /* the file */
    enum member_state result;       /* of the newest attempt here, or MEMBER_IDLE */
    struct decision start;          /* the attempt to start; id "": none */
    struct layout_place place;      /* in the newest attempt */
    bool in_attempt, leads, silent; /* silent: the controller was not heard of in time */
    bool fenced;                    /* a later attempt was started, without these ranks */
    bool reports;                   /* we report the end of the run */
    struct decision stop;           /* of the attempt; id "": none */
    struct decision end;            /* of the run; id "": none */
};

int launch_crew_open(struct launch *launch, struct err *err);
void launch_crew_close(struct launch *launch);
void launch_crew_turn(struct launch *launch); /* reports, and looks whether it is heard */
int64_t launch_crew_due_ns(const struct launch *launch);
void launch_crew_attempts(struct launch *launch); /* from joining to the end of the run */
/* START, STOP and END, which is obeyed where it is meant for this launcher. */
bool launch_crew_is_meant(const struct launch *launch, const struct decision *decision);
/* A later attempt was started: the ranks of this one end, whomever the order names. */
void launch_crew_fence(struct launch *launch, const struct decision *decision);
/* True: the order to start may be older than the controller's patience, and is not carried out. */
bool launch_crew_refuses(struct launch *launch, const struct decision *decision);
void launch_crew_order(struct launch *launch, const struct decision *decision);
bool launch_crew_waits(const struct launch *launch); /* for an order, without ranks */
bool launch_crew_stops(const struct launch *launch); /* the attempt must end */
int64_t launch_crew_grace_ns(const struct launch *launch);
void launch_crew_started(struct launch *launch, const char *failed); /* NULL: it did not */
void launch_crew_failed(struct launch *launch, uint32_t rank, int status);
int launch_crew_status(const struct launch *launch, int own); /* `own`: of what happened here */
const char *launch_crew_why(const struct launch *launch);     /* NULL: nothing happened elsewhere */
const struct layout_place *launch_crew_place(const struct launch *launch);
uint32_t launch_crew_rank(const struct launch *launch, uint32_t rank); /* of the first here: 0 */
bool launch_crew_is_over(const struct launch *launch);     /* the run, for good; there is a crew */
bool launch_crew_leads(const struct launch *launch);       /* reports the attempts of the run */
bool launch_crew_reports_end(const struct launch *launch); /* of the run */
int64_t launch_crew_mono_ns(const struct launch *launch);  /* by the run's clock */
/* Of the checkpoint that all nodes begin with; false: this is the only node. */
bool launch_crew_resume(const struct launch *launch, uint64_t *ret);

/* launch_policy.c: the table, what may be done, and who says so */
void launch_policy_open(struct launch *launch);  /* sends the table */
void launch_policy_means(struct launch *launch); /* sends what changed: the kill switch, restarts */
/* Right before something is done: false if the kill switch is on, with the reason. */
bool launch_policy_allows(struct launch *launch, char *ret, size_t room);
bool launch_policy_is_off(const struct launch *launch);           /* the kill switch is on here */
bool launch_policy_ends(const struct launch *launch, int status); /* it means: do not restart */
void launch_policy_print(struct launch *launch, const struct decision *decision);

/* launch_save.c: a checkpoint before a signal ends the run */
/* True: it does not end the ranks, or not yet. */
bool launch_save_begin(struct launch *launch, int number);
void launch_save_order(struct launch *launch, const struct decision *decision); /* carried out */
void launch_save_outcome(struct launch *launch, const struct outcome *outcome);
void launch_save_turn(struct launch *launch);

/* launch_warm.c: standby processes.  NULL warm: nothing happens. */
void launch_warm_open(struct launch *launch);
void launch_warm_close(struct launch *launch);
const char *launch_warm_modules(const struct launch *launch); /* a file; NULL: none */
char *const *launch_warm_argv(const struct launch *launch);   /* what starts one; NULL: none */
void launch_warm_begin(struct launch *launch);                /* an attempt begins */
void launch_warm_note(struct launch *launch, uint32_t rank, const struct buf *env); /* of a rank */
/* Starts those that are missing, and notes those that are ready. */
void launch_warm_turn(struct launch *launch);
/* True: it was one, and is dealt with.  One that had become a rank gets the token of that rank. */
bool launch_warm_exited(struct launch *launch, struct keeper_report *report);
/* The standby of the rank becomes it.  False: it must be started. */
bool launch_warm_use(struct launch *launch, uint32_t rank, struct buf *env, const int out[2]);

/* launch_attempt.c */
void attempt_restart(struct launch *launch, const struct decision *decision);
void attempt_give_up(struct launch *launch, const struct decision *decision);
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
