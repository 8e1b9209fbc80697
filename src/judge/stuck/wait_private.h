/* wait_private.h - shared by the files that follow waits to their culprit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STUCK_WAIT_PRIVATE_H
#define LOCKSTEP_JUDGE_STUCK_WAIT_PRIVATE_H

#include "judge/stuck/wait.h"

enum wait_position { /* of a member in one operation */
    POSITION_UNSEEN,
    POSITION_ADVANCING, /* it ends operations, so it is not stuck; where it is now is not known */
    POSITION_ABSENT,
    POSITION_LAUNCHED,
    POSITION_INSIDE,
    POSITION_LEFT
};

struct wait_instance { /* an operation in which some rank waits */
    struct wait_op op;
    struct beat_op message; /* of point-to-point: as the waiting rank has it */
    uint32_t first_missing; /* the first rank that has not entered it, if op.missing */
    bool too_long;          /* some rank has waited in it for too long */
    bool reached;           /* by following missing members from one that is too_long */
    bool may_advance;       /* a member is not stuck, or the members are not known */
};

struct look { /* one examination of all ranks */
    const struct model *model;
    const struct wait_rank *rank;
    const struct wait_rule *rule;
    struct map by_key;         /* key of an operation to its index in `instance` */
    struct map least_launched; /* by communicator: how many its last member has launched */
    struct wait_instance *instance;
    uint32_t count, room;
    bool *waits, *follow, *followed; /* by rank */
    uint32_t *missed_at; /* by rank: index of the instance that it is missing from, plus one */
    uint8_t *cause;      /* by rank: enum wait_cause */
    uint32_t roots;
};

bool wait_is_stopped(const struct wait_rank *rank);
const struct beat_channel *wait_channel_find(const struct wait_rank *rank, uint64_t comm,
                                             uint8_t what, uint32_t peer);
enum wait_position wait_position_coll(const struct wait_rank *rank, uint64_t comm, uint64_t key);
/* Of the operations of a rank's beat, and then of its channels with launches only; NULL: it does not wait there. */
struct wait_instance *look_instance_at(const struct look *look, uint32_t rank, uint32_t at);
const struct wait_instance *look_longest(const struct look *look);

/* wait_sides.c: hangs without a single culprit.  Each returns whether it has found something. */
bool wait_mismatch(const struct look *look, struct wait_finding *ret);
bool wait_cycle(const struct look *look, struct wait_finding *ret); /* two orders of operations */

/* wait_local.c: no rank is known to wait for another, and none advances. */
bool wait_find_local(const struct look *look, struct wait_finding *ret);

/* wait_link.c: all members have entered and nothing advances. */
bool wait_stuck(const struct look *look, struct wait_finding *ret);

#endif
