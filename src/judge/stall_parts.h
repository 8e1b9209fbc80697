/* stall_parts.h - what the files of the stall judge share. */
#ifndef LOCKSTEP_JUDGE_STALL_PARTS_H
#define LOCKSTEP_JUDGE_STALL_PARTS_H

#include "judge/stall.h"

#define STALL_STEPS HISTORY_STEPS

struct stall_level { /* how long the ranks of a step waited for their batches */
    uint64_t step;
    double ms;        /* the median rank of the peers that waited longest */
    double period_ms; /* of the step */
};

struct stall_input {
    struct stall_level level[STALL_STEPS]; /* ring */
    uint64_t count;                        /* ever put */
    double base_ms;    /* typical of the steps before anything went wrong; -1: not known yet */
    double newest_ms;  /* the largest of the newest step */
    int64_t *level_ns; /* by rank: what its median peer waited in the newest step */
    uint32_t world;    /* room of that */
};

struct stall {
    struct stall_input input;
};

/* Over the last n steps: the median rank's median of a part. */
double stall_typical_ms(const struct court *court, uint32_t steps, split_part *part);
int64_t stall_starved_ns(const struct rank_split *split);
void stall_input_step(struct court *court); /* stall_input.c */
void stall_input_fini(struct stall_input *input);

#endif
