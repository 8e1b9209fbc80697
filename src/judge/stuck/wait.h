/* wait.h - which rank waits for which, when nothing advances.
 *
 * The newest beat of each rank shows which operation each of its streams is in, and how far it came with each
 * communicator.  An operation that some rank has entered and not left is examined once: which members are in it, which
 * have left it, which are missing.  A missing member may wait in another operation, of another group or stream, and is
 * followed there; a member that waits for no other rank is the culprit.  A rank that is not observed is never named.
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
    bool device_wait; /* its stack shows that the host waits for its device, maybe spinning */
    char state;       /* of the process */
    uint8_t phase;    /* innermost */
    uint32_t phases;  /* all that are open, as bits */
    int64_t mono_ns;  /* of the beat, its node's clock */
    int64_t stuck_ns; /* for how long nothing has advanced */
    int64_t phase_age_ns;
    uint64_t step;
    double cpus; /* that it used between its last two beats; < 0: not known */
    uint32_t ops, channels;
    struct beat_op *op;           /* owned by whoever keeps the ranks */
    struct beat_channel *channel; /* by (comm, what, peer), as in the beat */
};

enum wait_cause {  /* why a rank is the culprit */
    WAIT_ABSENT,   /* it has not launched the operation */
    WAIT_LAUNCHED, /* its host has launched it, its device has not reached it */
    WAIT_GONE,     /* its process has ended */
    WAIT_STOPPED,  /* its process is stopped or in a debugger, possibly inside the operation */
    WAIT_LOCAL,    /* no rank waits for another: each is busy with local work that does not end */
    WAIT_DEVICE,   /* it has not launched the operation: its host waits for its device */
};

enum wait_kind {
    WAIT_NOTHING,
    WAIT_ROOTS,    /* some ranks block the others: `culprit` has them */
    WAIT_MISMATCH, /* ranks entered one operation with different arguments */
    WAIT_ORDER,    /* ranks entered operations of several communicators in different orders */
    WAIT_LINK, /* all have entered and nothing advances; culprits only if all stuck links share a node */
    WAIT_UNSEEN, /* all missing ranks are unobserved */
    WAIT_STILL,  /* all hosts wait for their devices; for what these wait is not observed */
};

#define WAIT_CULPRITS 64
#define WAIT_SIDES 2

struct wait_op {   /* an operation in which ranks wait */
    uint32_t comm; /* slot of the model; MODEL_NONE */
    bool p2p;
    uint8_t what, dtype;
    uint64_t key, bytes;
    uint32_t from, to; /* point-to-point: ranks */
    uint32_t inside, left, missing, unseen, members;
    uint32_t longest_rank; /* the rank that has been in it for longest ... */
    int64_t age_ns;        /* ... and for how long */
};

struct wait_side { /* ranks that agree with each other, in a disagreement */
    struct wait_op op;
    uint32_t count;
    uint32_t rank[WAIT_CULPRITS];
};

struct wait_finding {
    enum wait_kind kind;
    struct wait_op op; /* where the longest wait is */
    uint32_t culprits; /* all; the arrays hold the first ones */
    uint32_t culprit[WAIT_CULPRITS];
    enum wait_cause cause[WAIT_CULPRITS];
    struct wait_op missed_op[WAIT_CULPRITS]; /* what the culprit is missing from */
    uint32_t victims;                        /* ranks that wait */
    bool undecided;                          /* sides are equal: all are named */
    struct wait_side side[WAIT_SIDES];
};

struct wait_rule {
    double busy_cpus; /* a rank that uses this many works: it is slow, not stuck */
    int64_t limit_ns; /* how long a wait must last */
    int64_t stuck_ns; /* ... and how long its culprit must not have advanced */
    int64_t
        late_ns; /* both in init, comm-init, compile, checkpoint, evaluation, and for ranks that use CPUs */
};

/* Examines all ranks once.  Returns the number of findings in `ret` or -ENOMEM; there may be two, since one rank may be
 * stopped while others disagree.
 */
int wait_look(const struct model *model, const struct wait_rank *rank, const struct wait_rule *rule,
              struct wait_finding ret[2]);

/* Whether `who`, which may have ended, was in an operation that other ranks had entered with different arguments. */
bool wait_disagreed(const struct model *model, const struct wait_rank *rank, uint32_t who,
                    struct wait_finding *ret);

bool wait_is_named_phase(const struct wait_rank *rank); /* a phase with a limit of its own */

#endif
