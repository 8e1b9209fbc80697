/* launch.h - one run from its first attempt to its end.
 *
 * The calling process becomes the launcher: it must have one thread.  Its stdout and stderr carry
 * what the ranks print, and its own words.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_LAUNCH_H
#define LOCKSTEP_ACT_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"
#include "wire/policy_table.h"
#include "wire/verdict.h"

#define LAUNCH_MISSING 16

/* Nodes for want of which a run on several nodes has ended; those that it did without, if it ended well. */
struct launch_missing {
    bool reports; /* this launcher is the one of the run that says so */
    int signal; /* that has ended the run, after a checkpoint was asked for; 0: none, or not that of rank 0's launcher */
    uint32_t count;
    char node[LAUNCH_MISSING][64];
};

struct launch_plan {
    const char *name;              /* NULL: a fresh one */
    const char *directory;         /* NULL: the state directory's */
    uint32_t ranks;                /* 0: one command that is no rank */
    uint32_t nodes;                /* pretended; 1: this host */
    const char *node;              /* name of this node; NULL: the host's */
    uint32_t nodes_min, nodes_max; /* that start such a launcher; 0: this is the only one */
    const char *checkpoints;       /* their directory, for LOCKSTEP_RESUME; NULL: not known */
    const char *rendezvous; /* HOST:PORT: a launcher has the controller there; NULL: a site has */
    const char *job_key;    /* file with the key that all launchers have; NULL: it is found */
    const char *address;    /* at which the other nodes reach this one; NULL: it is found out */
    int64_t lease_ns;       /* a node that is not heard of for so long is lost */
    bool trust_ends;        /* it is lost as soon as all that hold its life socket have ended */
    int64_t join_ns;        /* how long to wait for missing nodes */
    int64_t
        rejoin_ns; /* the same once the run has begun, if the scheduler may start the job again; 0: as long */
    int64_t save_ns; /* for a checkpoint, when a signal other than SIGINT ends the run; 0: none */
    uint32_t max_restarts;
    int64_t grace_ns;   /* between SIGTERM, or the signal that came, and SIGKILL */
    bool restart_hangs; /* a verdict that ranks hang ends the attempt, where a restart is left */
    int64_t
        arena_hold_ns; /* a copy of the last checkpoint stays in memory so long between two attempts */
    int64_t backoff_ns; /* before the second restart; doubled each time, to a minute */
    const struct policy_table *table; /* what is done about verdicts */
    bool warm;                        /* standby processes */
    bool alert;     /* alerts are passed on: LOCKSTEP_ALERT_WEBHOOK, LOCKSTEP_ALERT_EXEC */
    bool act;       /* it is done; else it is only written down */
    uint64_t steps; /* that the job shall make; 0: not known */
    bool quiet, watch;
    bool drill;  /* 'lockstep drill' may inject faults into it */
    bool page;   /* a link to the page of the run's controller is printed */
    bool remote; /* facts are sent to the controller that LOCKSTEP_CONTROL names, or `rendezvous` */
    char **command; /* ends with NULL */
    /* Set by the launcher that reports the end of the run, when no rank of it is left on any node that is still there; NULL:
     * not wanted. */
    struct launch_missing *missing;
    /* Writes a verdict as lines, to be printed when it is reached; NULL: verdicts are not printed. */
    void (*brief)(const struct verdict *verdict, FILE *out);
};

/* -EINVAL with a sentence: the plan is at fault. */
int launch_check(const struct launch_plan *plan, struct err *err);
/* Whether a program is there, by its path or in PATH: -errno with a sentence if it certainly cannot be executed. */
int launch_check_executable(const char *name, struct err *err);
/* The same of the program of a plan. */
int launch_check_program(const struct launch_plan *plan, struct err *err);

/* Returns when everything has ended.  *ret_exit: 0 when all ended well, else as the first that did
 * not; 128+n for a signal, to it or to us.  -EINVAL when the plan is at fault, -EBUSY when the run is
 * running, -EEXIST when it has ended well; other -errno when not even a process can be started.
 */
int launch_run(const struct launch_plan *plan, int *ret_exit, struct err *err);

/* What would be started, and where. */
int launch_show(const struct launch_plan *plan, FILE *out, struct err *err);

#endif
