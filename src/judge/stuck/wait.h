/* wait.h - who waits for whom, when nothing moves.
 *
 * From the newest beat of every rank: what each of its streams is in, and how far it has come with each
 * communicator.  An operation that somebody has entered and not left is looked at once for all who are in it: who
 * else is in, who has left, who is not there.  Who is not there may itself wait in another operation, of
 * another group or stream, so it is followed there; one that waits for nobody is where it begins.
 * What cannot be seen is never named.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STUCK_WAIT_H
#define LOCKSTEP_JUDGE_STUCK_WAIT_H

#include "judge/step/model.h"

/* A rank as its newest beat shows it. */
struct wait_rank {
    bool seen;        /* it has a beat of this attempt that is not too old, or is gone */
    bool gone;        /* its process has ended; the beat is its last */
    bool advanced;    /* since the beat before */
    char state;       /* of the process */
    uint8_t phase;    /* innermost */
    uint32_t phases;  /* all that are open, as bits */
    int64_t mono_ns;  /* of the beat, its node's clock */
    int64_t stuck_ns; /* for how long nothing has advanced */
    int64_t phase_age_ns;
    uint64_t step;
    double burns; /* CPUs that it used between its last two beats; < 0: not known */
    uint32_t ops, channels;
    struct beat_op *op;           /* owned by whoever keeps the ranks */
    struct beat_channel *channel; /* by (comm, what, peer), as it was told */
};

enum wait_how {    /* why somebody is where it begins */
    WAIT_ABSENT,   /* it has not launched the operation */
    WAIT_LAUNCHED, /* launched by its host, but its device has not come to it */
    WAIT_GONE,     /* its process has ended */
    WAIT_HELD,     /* its process is stopped, or in a debugger: also when it had entered */
    WAIT_LOCAL,    /* nobody waits for anybody: all do something of their own, without end */
};

enum wait_kind {
    WAIT_NOTHING,
    WAIT_ROOTS,    /* some ranks hold the others: `culprit` has them */
    WAIT_MISMATCH, /* one operation, entered with other arguments by some */
    WAIT_ORDER,    /* two or more communicators, entered in another order by some */
    WAIT_LINK, /* all have entered and nothing moves; culprits only where one node is common to it */
    WAIT_UNSEEN, /* only ranks that cannot be seen are missing */
};

#define WAIT_CULPRITS 64
#define WAIT_SIDES 2

struct wait_op {   /* an operation that is waited in */
    uint32_t comm; /* slot of the model; MODEL_NONE */
    bool p2p;
    uint8_t what, dtype;
    uint64_t key, bytes;
    uint32_t from, to; /* point-to-point: ranks */
    uint32_t inside, left, missing, unseen, members;
    uint32_t first; /* one that is in it */
    int64_t age_ns; /* of the one that has been in it for longest */
};

struct wait_side { /* of those who disagree */
    struct wait_op op;
    uint32_t count;
    uint32_t rank[WAIT_CULPRITS];
};

struct wait_finding {
    enum wait_kind kind;
    struct wait_op op; /* where the longest wait is */
    uint32_t culprits; /* all; the arrays hold the first ones */
    uint32_t culprit[WAIT_CULPRITS];
    enum wait_how how[WAIT_CULPRITS];
    struct wait_op missed[WAIT_CULPRITS]; /* what the culprit is missing from */
    uint32_t victims;                     /* ranks that wait */
    bool undecided;                       /* sides are equal: all are named */
    struct wait_side side[WAIT_SIDES];
};

struct wait_rule {
    double burns;     /* CPUs: who uses as many works, and is slow rather than stuck */
    int64_t limit_ns; /* how long a wait must last */
    int64_t stuck_ns; /* ... and the one that it begins with have done nothing */
    int64_t
        late_ns; /* ... in init, comm-init, compile, checkpoint, evaluation, and of those who burn CPU */
};

/* Looks once.  `ret` gets what is found; up to two findings, as one rank may be stopped while others
 * disagree.  Returns how many, or -ENOMEM.
 */
int wait_look(const struct model *model, const struct wait_rank *rank, const struct wait_rule *rule,
              struct wait_finding ret[2]);

/* Whether `who`, which may have ended, was in an operation that others had entered with other arguments. */
bool wait_disagreed(const struct model *model, const struct wait_rank *rank, uint32_t who,
                    struct wait_finding *ret);

bool wait_is_named_phase(const struct wait_rank *rank); /* one that has a limit of its own */

#endif
