/* straggler_private.h - what the files of the straggler judge share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_STRAGGLER_PRIVATE_H
#define LOCKSTEP_JUDGE_SLOW_STRAGGLER_PRIVATE_H

#include "judge/slow/signals.h"

struct straggler_pattern { /* of a rank over the steps that are kept */
    uint32_t rank, window;
    uint32_t hits, runs;       /* steps in which it was far off; how often that began */
    uint32_t span, slow;       /* steps since the first of them; those that were about as slow */
    uint64_t first, last;      /* such steps */
    uint32_t gap, gaps;        /* between its first two beginnings, and how many are like that */
    uint64_t began;            /* the newest beginning */
    double excess_ms, mean_ms; /* over its hits; over the window */
    double compute_ms, starved_ms; /* over its hits */
};

struct straggler_pattern straggler_pattern(const struct judge_state *judge, uint32_t rank);
bool straggler_wavers(const struct straggler_pattern *pattern); /* in between it is as its peers */
/* A rank that comes and goes; `open`: its verdict, if there is one. */
void straggler_comes(struct judge_state *judge, const struct straggler_pattern *pattern,
                     struct tracked_verdict *open, double cost_ms, double least_ms);
void straggler_moves(struct judge_state *judge); /* from rank to rank */

/* The phase in which the host holds up the device most, against its peers, over those of the last steps that count; NULL:
 * all do.
 */
typedef bool straggler_counts(const struct judge_state *judge, const struct past_step *past,
                              uint32_t rank);
unsigned straggler_longest_phase(const struct judge_state *judge, uint32_t rank, uint32_t steps,
                                 straggler_counts *counts, double *own_ms, double *peers_ms);

/* Where devices tell their collectives alone: did the others wait for it there of late?  True where they tell more. */
bool straggler_is_waited_for(const struct judge_state *judge, uint32_t rank);

#endif
