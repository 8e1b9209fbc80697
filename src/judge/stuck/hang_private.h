/* hang_private.h - what the parts of the hang judge share: hang.c keeps what is seen, hang_judge.c looks at it, also
 * when somebody ends, and has the verdicts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STUCK_HANG_PRIVATE_H
#define LOCKSTEP_JUDGE_STUCK_HANG_PRIVATE_H

#include "core/sketch.h"
#include "core/time.h"
#include "judge/stuck/hang.h"

#define SHAPES 16 /* whose steps are timed; the one not seen for longest goes */
#define KINDS 2   /* findings at once: hang and desync */

struct beat_kept {     /* of a rank, beside what wait.h looks at */
    bool any, arrived; /* arrived: since the last look */
    int64_t arrived_ns;
    int64_t advanced_ns; /* on its node's clock: the newest beat in which something had moved */
    int64_t cpu_at_ns;
    double cpu_ns;
    uint32_t oom_kills;
    size_t room;          /* bytes behind op and channel */
    unsigned char *stack; /* a fact_stack as it travels: most are far shorter than they may be */
    size_t stack_bytes;
};

struct shape_time {
    uint64_t class, used; /* used: when last, in steps */
    struct sketch sketch;
};

struct found {          /* what the last look found, one place a kind of verdict */
    uint64_t signature; /* 0: nothing */
    uint32_t times;     /* in a row */
    char id[20];        /* of the verdict that is open for it; "": none */
    uint32_t victims;   /* the most that waited while it was open */
};

struct hang {
    uint32_t world;
    size_t bytes; /* behind op and stack of all ranks */
    struct wait_rank *rank;
    struct beat_kept *kept;
    struct shape_time *shape[SHAPES];
    uint64_t steps; /* whole ones, of all attempts */
    uint64_t class; /* of the newest step */
    uint32_t warm;  /* whole steps of this attempt */
    int64_t look_ns;
    struct found found[KINDS];
    struct wait_finding finding[2];
    struct verdict
        given_up; /* what the first to give up had waited for; kind 0: nothing is known */
};

/* hang.c */
bool hang_is_late(const struct judge_state *judge); /* too few steps to know how long one takes */
struct wait_rule hang_rule(struct judge_state *judge);

#endif
