/* corrupt_private.h - shared by the files of the judge of wrong numbers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_WRONG_CORRUPT_PRIVATE_H
#define LOCKSTEP_JUDGE_WRONG_CORRUPT_PRIVATE_H

#include "core/map.h"
#include "judge/state.h"
#include "judge/wrong/corrupt.h"
#include "wire/save_note.h"

#define CORRUPT_PARTS_MAX (1u << 20) /* remembered parts of all ranks */
#define CORRUPT_WINDOW 16            /* values of a rank that show what is typical */

#define DIGEST_LATE 8 /* a digest arrives at most so many steps after its turn */
#define NO_PART UINT32_MAX

struct digest_member {         /* a rank's digest of one part in one step */
    uint64_t turn;             /* the step in which it was taken */
    uint64_t replica_set, key; /* equal for replicas; and for digests of this part of them */
    uint64_t digest, class;
    uint32_t rank;
    uint32_t part_number, part_count;
    uint32_t part_slot; /* in replicas.part, or NO_PART */
    bool first;         /* the first digest of this part */
    bool same;          /* the digest is as it was the last time */
    bool updates;       /* an optimizer runs in the step that sent it */
};

struct part_seen { /* one part of one rank's parameters, at its last change */
    uint64_t digest;
    uint64_t step;
    uint32_t updates; /* of the rank, up to and including that step */
    bool changed;     /* it has changed in this attempt */
    bool differs;     /* from its replicas, at its last digest */
    bool stuck;       /* a verdict says that it does not change */
};

struct replicas {
    struct map clean_step;    /* ranks and part: newest step at which all were equal, plus one */
    struct map part_slot;     /* rank and part: its index in `part` */
    struct map shape_updates; /* hash of a shape: 1 if an optimizer runs in it */
    struct part_seen *part;
    uint32_t parts, room;
    struct digest_member *waiting; /* digests that wait for those of their replicas */
    uint32_t waiting_count, waiting_room;
};

enum value {
    VALUE_LOSS,
    VALUE_NORM,
    VALUE_COUNT
};

struct rank_values {
    double past[VALUE_COUNT][CORRUPT_WINDOW]; /* those that were not jumps */
    uint32_t count[VALUE_COUNT];
    uint64_t rise_step[VALUE_COUNT]; /* the step since which they are well above what is typical, */
    bool risen[VALUE_COUNT];         /* if they are */
    bool alone[VALUE_COUNT];         /* in that step all that had not risen were far below it */
    double height[VALUE_COUNT];      /* of the newest value; 1 and more: a jump */
    double most[VALUE_COUNT];        /* largest typical value so far, without its sign */
    uint32_t jump_values[VALUE_COUNT]; /* consecutive values far above it: jumps */
    uint32_t high_values[VALUE_COUNT]; /* consecutive values well above it that are no jumps */
};

struct rank_numbers {           /* by rank */
    uint32_t updates;           /* steps with an optimizer, before the newest */
    uint32_t longest_unchanged; /* largest number of updates between two changes of a part */
    uint32_t wrong_parts;       /* that differ or are stuck */
    uint32_t parts;             /* according to its newest digest; 0: it sends none */
    uint64_t turn;              /* of its newest digest, plus one */
    bool changed;               /* some part has changed in this attempt */
    bool not_finite;            /* its value in the first step of the streak */
    uint64_t
        moments_since; /* the step, plus one, of the first save that had its moments; 0: none */
    uint32_t moments_point; /* the number of the newest checkpoint that it has noted */
    struct rank_values values;
};

#define MOMENTS_NAMED 8 /* ranks that are known by number */

struct moments_point {     /* the newest checkpoint, as far as the notes of its ranks came */
    uint32_t number;       /* counted from 1 */
    uint64_t step, since;  /* since: the first save with these moments */
    uint64_t saved_in;     /* the newest step in which a rank saved it */
    bool waits;            /* notes came before the losses of the steps that they are about */
    uint32_t ranks, stale; /* stale: of them, with moments that rest */
    uint32_t rank[MOMENTS_NAMED]; /* the lowest of these */
    char verdict[20];             /* its id; "": none */
};

struct streak {          /* consecutive steps in which some value was not finite */
    uint64_t step, last; /* that the values are of */
    uint32_t steps;
    bool loss; /* of some rank's loss */
    bool reported;
    uint32_t reporters[VALUE_COUNT], not_finite[VALUE_COUNT]; /* ranks, in its first step */
};

struct corrupt_book {
    struct replicas replicas;
    struct rank_numbers *rank;
    uint32_t world;
    bool finite; /* a finite value was seen in this attempt */
    struct streak streak;
    struct moments_point moments;
    struct {
        uint64_t step;    /* of the newest checkpoint in which replicas differed */
        char verdict[20]; /* its id; "": none */
    } saved;
};

/* corrupt_groups.c: compares the digests that need not wait any longer. */
void groups_judge(struct judge_state *judge, struct corrupt_book *book);
/* corrupt_moments.c: judges a checkpoint again whose notes came before the losses. */
void moments_step(struct judge_state *judge, struct corrupt_book *book);
/* Verdicts from checkpoints are open until a checkpoint shows that they are over. */
void moments_stay(struct judge_state *judge, const struct corrupt_book *book);
/* corrupt_saved.c: a rank has verified its part of this checkpoint. */
void saved_verified(struct corrupt_book *book, uint64_t step);
/* corrupt_values.c: values that are not finite, and jumps. */
void values_step(struct judge_state *judge, struct corrupt_book *book);

/* The open verdict on the rank's numbers; NULL: none. */
static inline struct tracked_verdict *corrupt_open(struct judge_state *judge, uint32_t rank)
{
    return judge_state_open_verdict(judge, VERDICT_CORRUPTION, LAYER_COUNT, rank);
}

static inline struct part_seen *part_of(const struct corrupt_book *book,
                                        const struct digest_member *member)
{
    return member->part_slot == NO_PART ? NULL : &book->replicas.part[member->part_slot];
}

static inline void part_mark(struct corrupt_book *book, const struct digest_member *member,
                             bool *flag, bool on)
{
    if (*flag != on)
        book->rank[member->rank].wrong_parts += on ? 1 : UINT32_MAX;
    *flag = on;
}

static inline bool corrupt_has(const struct job_step *job_step, uint32_t rank)
{
    return job_step->shape_of[rank] != NULL;
}

#endif
