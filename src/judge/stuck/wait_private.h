/* wait_private.h - what the files that follow the waiting share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STUCK_WAIT_PRIVATE_H
#define LOCKSTEP_JUDGE_STUCK_WAIT_PRIVATE_H

#include "judge/stuck/wait.h"

enum wait_place { /* of a member, seen from one operation */
    PLACE_UNSEEN,
    PLACE_MOVES, /* something of it ends: where it is now cannot be told, and it is not stuck */
    PLACE_ABSENT,
    PLACE_LAUNCHED,
    PLACE_INSIDE,
    PLACE_LEFT
};

struct instance { /* an operation that somebody waits in */
    struct wait_op op;
    struct beat_op message; /* of point-to-point: as the one that waits has it */
    uint32_t missing;       /* the first who is not there, when op.missing */
    bool begins;            /* somebody has waited in it for too long */
    bool reached;           /* from one that begins */
    bool moves;             /* a member is not stuck, or nobody knows the members */
};

struct look { /* all that one look needs */
    const struct model *model;
    const struct wait_rank *rank;
    const struct wait_rule *rule;
    struct map by_key; /* of an operation, to its place in `at` */
    struct instance *at;
    uint32_t count, room;
    bool *waits, *follow, *followed; /* by rank */
    uint32_t *missed_at;             /* by rank: where it begins; instance + 1 */
    uint8_t *how;                    /* by rank: enum wait_how */
    uint32_t roots;
};

enum wait_place wait_place_coll(const struct wait_rank *rank, uint64_t comm, uint64_t key);
struct instance *look_instance(const struct look *look, uint32_t rank, const struct beat_op *op);
const struct instance *look_longest(const struct look *look);

/* wait_sides.c: when nobody alone is where it begins.  Each returns whether it has found something. */
bool wait_mismatch(const struct look *look, struct wait_finding *ret);
bool wait_cycle(const struct look *look, struct wait_finding *ret); /* another order */

/* wait_link.c: all are in, nothing moves. */
bool wait_stuck(const struct look *look, struct wait_finding *ret);

#endif
