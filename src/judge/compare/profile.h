/* profile.h - what a run's steps are made of, for comparing it with another run.
 *
 * Steps with the same ops on all ranks go together; those that come most often are the run.  Of
 * each rank's time only what is its own is kept (device work, transfers, host time with an idle
 * device), never waiting: who waits is not who is slow.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_COMPARE_PROFILE_H
#define LOCKSTEP_JUDGE_COMPARE_PROFILE_H

#include "judge/state.h"

struct profile_op { /* of a step, in launch order */
    uint8_t kind, what, dtype;
    uint32_t count, group; /* group: in profile.group; MODEL_NONE */
    uint64_t bytes;
};

struct profile_group { /* a communicator */
    char name[FACT_NAME];
    uint32_t size, kind;
};

enum profile_source {
    PROFILE_DEVICE,   /* work of the device, by phase */
    PROFILE_TRANSFER, /* of an op in a group */
    PROFILE_HOST,     /* the device is idle while the host is in a phase */
    PROFILE_QUEUED    /* launched work that does not run */
};

struct profile_part { /* where time goes */
    uint8_t source, what;
    char group[FACT_NAME]; /* "": none */
    double *ms;            /* by rank: a step's, summed over the steps until profile_end() */
};

struct profile_body { /* steps that are alike */
    uint64_t signature, steps;
    double period_ms;
    uint32_t *ops;          /* by rank: how many */
    struct profile_op **op; /* by rank */
    struct profile_part *part;
    uint32_t parts, part_room;
};
#define PROFILE_BODIES 16

struct profile {
    uint32_t world;
    uint64_t skipped; /* steps at the beginning of attempts, and those that did not find room */
    bool has_layout, host_view, failed;
    uint16_t size[LAYOUT_FIELDS];
    double micro_batches;    /* 0: not told */
    char (*node)[FACT_NAME]; /* by rank */
    struct profile_group *group;
    uint32_t groups, group_room;
    struct profile_body body[PROFILE_BODIES];
    uint32_t bodies;
    uint32_t most; /* the body that comes most often; set by profile_end() */
};

void profile_fini(struct profile *profile);
/* The step that the judge state has just judged. */
void profile_step(struct profile *profile, const struct judge_state *judge,
                  const struct job_step *job_step);
int profile_end(struct profile *profile); /* -ENODATA: no step; -ENOMEM */

static inline const struct profile_body *profile_most(const struct profile *profile)
{
    return &profile->body[profile->most];
}

/* ---- two of them ---- */

#define DIFF_PLACES 8
#define DIFF_RANKS 64

struct diff_place {                       /* where the second run is slower */
    const struct profile_part *part;      /* of the second run */
    double before_ms, after_ms;           /* mean over the ranks that are slower */
    uint32_t rank[DIFF_RANKS], ranks, of; /* those that are, and all that have the part */
    const char (*name)[FACT_NAME];        /* by rank: its node */
    char node[FACT_NAME];                 /* all of them are all that this node has; "": not so */
};

struct diff {
    bool same_program;
    char program[200]; /* what differs first, when it does */
    uint32_t rank, op; /* the first op that differs; op MODEL_NONE: it is not about one */
    char one[96], other[96];
    double before_ms, after_ms; /* a step */
    bool slower, faster;
    struct diff_place place[DIFF_PLACES];
    uint32_t places;
};

/* `share` of the step: what differs by less is not told; `alike`: ranks that grew by so much of the most belong to it. */
int diff_profiles(const struct profile *before, const struct profile *after, double share,
                  double alike, struct diff *ret);
const char *profile_part_text(const struct profile_part *part, char *out, size_t room);

#endif
