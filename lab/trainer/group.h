/* group.h - the ranks that reduce together, over one socket per pair that talks.
 *
 * All-reduce by recursive doubling: log2(n) exchanges of the whole buffer, which for
 * buckets of a few kilobytes on one machine costs far fewer wake-ups than a ring's 2(n-1).
 * In each exchange both sides add the same two numbers, so every member ends with the same
 * bits, and the order of additions depends on nothing but the size of the group.  With n no
 * power of two, the first members fold pairwise: the odd one gives its buffer to the even one
 * before and gets the result after.
 *
 * Each message carries the latest time at which any member it speaks for came in.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_TRAINER_GROUP_H
#define LOCKSTEP_LAB_TRAINER_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "lab/trainer/socket.h"

#define GROUP_NAME 24

enum group_op {
    GROUP_SUM_F32,
    GROUP_SUM_F64,
    GROUP_MIN_U64
};

struct group {
    uint64_t id;
    char name[GROUP_NAME]; /* "dp0" */
    uint32_t size, index;
    uint32_t *rank; /* of each member */
    int *fd;        /* of each member, -1 where we never talk */
    uint64_t done;  /* reductions finished */
    char *scratch;  /* one message */
    size_t scratch_room;
    struct socket_wait wait;
};

/* Takes no sockets: the caller fills fd[] where group_talks().  Members are copied. */
int group_init(struct group *group, const char *name, uint64_t id, const uint32_t *rank,
               uint32_t size, uint32_t index);
void group_fini(struct group *group); /* closes the sockets; all zero is fine */
bool group_talks(uint32_t size, uint32_t a, uint32_t b);

/* Reduces `count` numbers in place.  *latest_ns comes in as the time of our own arrival and goes
 * out as that of the latest member.  A lost peer is named in err.
 */
int group_reduce(struct group *group, enum group_op op, void *data, size_t count,
                 int64_t *latest_ns, struct err *err);

#endif
