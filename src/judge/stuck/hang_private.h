/* hang_private.h - shared by the files of the hang judge: hang.c keeps the beats, hang_judge.c examines them and has the
 * verdicts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STUCK_HANG_PRIVATE_H
#define LOCKSTEP_JUDGE_STUCK_HANG_PRIVATE_H

#include "core/sketch.h"
#include "core/time.h"
#include "judge/stuck/hang.h"

#define HANG_SHAPES 16 /* whose steps are timed; the one not seen for longest is replaced */
#define HANG_KINDS 2   /* findings at once: hang and desync */

struct beat_kept {       /* of a rank, beside what wait.h examines */
    bool known, arrived; /* there is a beat; it arrived since the last examination */
    int64_t arrived_ns;
    int64_t advanced_ns; /* on its node's clock: the newest beat in which something had advanced */
    int64_t cpu_at_ns;
    double cpu_ns;
    uint32_t oom_kills;
    size_t room;          /* bytes behind op and channel */
    unsigned char *stack; /* an encoded fact_stack: most are far shorter than the struct */
    size_t stack_bytes;
};

struct shape_time {
    uint64_t class, used; /* used: when last, in steps */
    struct sketch sketch;
};

struct repeated_finding { /* of the last examination, one for each kind of verdict */
    uint64_t signature;   /* 0: nothing */
    uint32_t times;       /* in a row */
    char id[20];          /* of its open verdict; "": none */
    uint32_t victims;     /* the largest number of waiting ranks while it was open */
    uint32_t away;        /* examinations in a row in which it was not found, and somebody moved */
    int64_t away_ns;      /* the first of them */
    uint32_t gone;        /* ranks that had ended when it was found */
};

struct hang {
    uint32_t world;
    size_t bytes; /* behind op and stack of all ranks */
    struct wait_rank *rank;
    struct beat_kept *kept;
    struct shape_time *shape[HANG_SHAPES];
    uint64_t steps; /* complete ones, of all attempts */
    uint64_t class; /* of the newest step */
    uint32_t warm;  /* complete steps of this attempt */
    int64_t look_ns;
    struct repeated_finding repeated[HANG_KINDS];
    struct wait_finding finding[2];
    struct verdict
        given_up; /* on what the first rank that gave up had waited for; kind 0: not known */
};

/* hang.c */
bool hang_is_late(const struct judge_state *judge); /* too few steps to know how long one takes */
struct wait_rule hang_rule(struct judge_state *judge);

#endif
