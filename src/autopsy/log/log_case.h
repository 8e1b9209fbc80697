/* log_case.h - the events of a dead job's logs in the order of time; shared by the rules about logs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AUTOPSY_LOG_LOG_CASE_H
#define LOCKSTEP_AUTOPSY_LOG_LOG_CASE_H

#include "autopsy/postmortem_private.h"
#include "core/time.h"

enum log_strength { /* how well an event explains that a job ended */
    LOG_NO_CAUSE,
    LOG_LAST, /* where not even a peer is lost: aborted, or a warning of a library before a failure */
    LOG_WEAK,   /* only where there is nothing else */
    LOG_MEDIUM, /* may itself follow from something that the logs do not show */
    LOG_STRONG,
};

/* An error of its own in another log, so much later, is another fault: only waiting takes longer. */
#define LOG_OTHER_NS (600 * NS_PER_S)
#define LOG_FOLLOWS_NS (3900 * NS_PER_S) /* after its cause, at most */
#define LOG_UNDATED 0.55 /* confidence in a kernel's message without a date, at most */

struct log_item {
    const struct log_event *event;
    int64_t when_ns; /* its own date, or that of the line before it; 0: not known */
    uint32_t rank;   /* also by process or device; LOG_EVENT_NO_RANK */
    uint8_t strength;
    bool used;    /* as the cause or a part of it */
    bool undated; /* a kernel's message that may be older than the job */
};

struct log_case {
    const struct logs *logs;
    const char *run;
    struct findings *findings;
    struct thresholds limits;
    struct log_item *item; /* as far as dates and lines tell, in the order of time */
    size_t items;
    size_t lost, timeouts; /* ranks whose log ended so */
    bool dense;            /* there is a log of every rank, as far as names tell */
    bool job;              /* there is more than kernel logs */
};

/* Did `a` certainly come before `b`? */
bool log_before(const struct log_item *a, const struct log_item *b);
/* Do both mean the same, perhaps on different ranks? */
bool log_alike(const struct log_item *a, const struct log_item *b);
uint8_t log_ended(const struct logs *logs, uint32_t rank); /* enum log_event_kind, 0 */

/* log_survived.c: errors of programs that completed their training are no causes.  -ENOMEM. */
int log_drop_survived(struct log_case *of);

/* log_cause.c: the first cause, where there is one.  1: reported; 0: none; -ENOMEM. */
int log_find_cause(struct log_case *of);
/* Lines that show a failure, but hardly why.  1, 0 or -ENOMEM. */
int log_find_last(struct log_case *of);

/* log_who.c: the nodes of verdicts that name none: of their ranks or, of a device, the only one that the logs name. */
void log_name_places(const struct logs *logs, struct findings *findings);

/* log_hang.c: collectives that did not complete.  1, 0 or -ENOMEM. */
int log_find_hang(struct log_case *of);
/* The rank that ended without a line of its own. */
int log_find_silent(struct log_case *of);

/* log_follow_on.c: adds to a verdict what followed from it. */
void log_add_echoes(const struct log_case *of, struct verdict *verdict,
                    const struct log_item *cause);
void log_name_rank(struct verdict *verdict, uint32_t rank); /* once, in order */
/* A hang that dumps show of the same ranks is how the others saw the crash. */
struct verdict *log_take_over_hang(struct findings *findings, struct verdict *crash);
void log_clear_waiting(const struct logs *logs, struct findings *findings);
struct verdict *log_hang_of(struct findings *findings); /* NULL */

/* log_nodes.c: what kernels and networks report joins the verdicts, or becomes one.  -ENOMEM. */
int log_add_nodes(struct log_case *of);

#endif
