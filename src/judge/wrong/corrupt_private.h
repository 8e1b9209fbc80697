/* corrupt_private.h - what the files of the judge of wrong numbers share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_WRONG_CORRUPT_PRIVATE_H
#define LOCKSTEP_JUDGE_WRONG_CORRUPT_PRIVATE_H

#include "core/map.h"
#include "judge/state.h"
#include "judge/wrong/corrupt.h"

#define CORRUPT_PARTS_MAX (1u << 20) /* parts of all ranks that are remembered */
#define CORRUPT_WINDOW 16            /* values of a rank that say what is typical */

#define DIGEST_LATE 8 /* steps after its turn in which a digest is told, at most */
#define NO_PART UINT32_MAX

struct digest_member {  /* a rank's digest of one part in one step */
    uint64_t turn;      /* the step in which it was taken */
    uint64_t crew, key; /* common to replicas; and to those of this part */
    uint64_t digest, class;
    uint32_t rank;
    uint32_t number, of; /* which part */
    uint32_t part;       /* in replicas.part, or NO_PART */
    bool first;          /* none of this part was seen before */
    bool same;           /* as when it was last seen */
    bool updates;        /* an optimizer runs in the step that told it */
};

struct part_seen { /* one part of one rank's parameters, when it last became what it is */
    uint64_t digest;
    uint64_t step;
    uint32_t updates; /* of the rank's, up to and with that step */
    bool changed;     /* it was something else before, in this attempt */
    bool differs;     /* from its replicas, when it was last seen */
    bool stuck;       /* it does not change, as a verdict says */
};

struct replicas {
    struct map clean;    /* ranks and part: newest step at which all of them were equal, plus one */
    struct map place;    /* rank and part: where it is in `part` */
    struct map updating; /* shape's hash: 1 when an optimizer runs in it */
    struct part_seen *part;
    uint32_t parts, room;
    struct digest_member *hold; /* digests that wait for those of their replicas */
    uint32_t holds, hold_room;
};

enum value {
    VALUE_LOSS,
    VALUE_NORM,
    VALUE_COUNT
};

struct rank_values {
    double past[VALUE_COUNT][CORRUPT_WINDOW]; /* those that were not jumps */
    uint32_t count[VALUE_COUNT];
    uint64_t rise_step[VALUE_COUNT]; /* since which they are well above what is typical; */
    bool risen[VALUE_COUNT];         /* ... if they are */
    uint32_t jumps[VALUE_COUNT];     /* values in a row that are far above it */
    uint32_t aloft[VALUE_COUNT];     /* values in a row that are well above it, not far */
};

struct rank_numbers { /* by rank */
    uint32_t updates; /* steps with an optimizer, before the newest */
    uint32_t longest; /* updates between two changes of any part, at most */
    uint32_t wrong;   /* its parts that differ or are stuck */
    uint32_t parts;   /* as its newest digest says; 0: it tells none */
    uint64_t turn;    /* of its newest digest, plus one */
    bool changed;     /* some part has, in this attempt */
    bool odd;         /* not finite at the first step of the streak */
    struct rank_values values;
};

struct streak { /* steps in a row in which something was not finite */
    uint64_t step;
    uint32_t steps;
    bool loss; /* some rank's loss was among it */
    bool told;
    uint32_t reporters[VALUE_COUNT], odd[VALUE_COUNT]; /* in its first step */
};

struct corrupt_book {
    struct replicas replicas;
    struct rank_numbers *rank;
    uint32_t world;
    bool finite; /* something finite was seen in this attempt */
    struct streak streak;
};

/* corrupt_groups.c: compares what need not wait any longer. */
void groups_judge(struct judge_state *judge, struct corrupt_book *book);
/* corrupt_values.c: what is not finite, and jumps. */
void values_step(struct judge_state *judge, struct corrupt_book *book);

/* The open verdict on these numbers of the rank; NULL: none. */
static inline struct tracked_verdict *corrupt_open(struct judge_state *judge, uint32_t rank)
{
    return judge_state_open_verdict(judge, VERDICT_CORRUPTION, LAYER_COUNT, rank);
}

static inline struct part_seen *part_of(const struct corrupt_book *book,
                                        const struct digest_member *member)
{
    return member->part == NO_PART ? NULL : &book->replicas.part[member->part];
}

static inline void part_mark(struct corrupt_book *book, const struct digest_member *member,
                             bool *flag, bool on)
{
    if (*flag != on)
        book->rank[member->rank].wrong += on ? 1 : UINT32_MAX;
    *flag = on;
}

static inline bool corrupt_has(const struct job_step *job_step, uint32_t rank)
{
    return job_step->shape_of[rank] != NULL;
}

#endif
