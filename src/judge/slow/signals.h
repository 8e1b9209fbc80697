/* signals.h - what is measured of every rank in every step, and whether it has been too much for long enough.
 *
 * A signal is a duration of a rank that is held against that of its peers in the same step.  All of them go through the same
 * sequential test (judge/detect), whose bar follows from the false alarms that a site accepts.  Two questions are asked of each
 * rank: is it longer on average, and is it far too long more often than the others are?  The latter finds what comes every few
 * steps, and, asked of the job, what moves from rank to rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_SIGNALS_H
#define LOCKSTEP_JUDGE_SLOW_SIGNALS_H

#include "judge/state.h"

struct signal {
    const char *what; /* in evidence */
    split_part *part; /* of the split step */
    unsigned layer;
};
extern const struct signal signal_table[SERIES_COUNT];

int signals_create(struct signals **ret);
void signals_destroy(struct signals *signals);
size_t signals_bytes(const struct signals *signals); /* of memory, about */
void signals_attempt(struct signals *signals);       /* a new one begins: nothing is comparable */

/* Its work is longer than that of its peers: since so many of the newest steps; 0: it is not. */
uint32_t signals_slow_steps(const struct judge_state *judge, uint32_t rank);
/* ... or it was far longer in some of the newest steps, more often than the others are. */
bool signals_comes_and_goes(const struct judge_state *judge, uint32_t rank);
/* In this step it was far longer. */
bool signals_is_far(const struct judge_state *judge, const struct past_step *past, uint32_t rank);
/* The least excess of a rank that counts. */
double signals_least_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps);

/* What the rank of a node that waits longest for a CPU waits, against the node's own past; NULL: not known. */
const struct detect_past *signals_node(const struct judge_state *judge, uint32_t node);

/* In most of the newest steps some rank is far slower than its peers, more often than usual in this job. */
bool signals_job_is_uneven(const struct judge_state *judge);
/* The rank that was, `back` steps ago; MODEL_NONE: none. */
uint32_t signals_slowest(const struct judge_state *judge, uint32_t back);

#endif
