/* signals.h - what is measured, of what, held against what; and whether a rank has had too much of it for long enough.
 *
 * signal_table has a row for each kind of slowness: all judges of this folder take from it what a finding must be, what it is called
 * and how sure it may be.
 *
 * Durations of a rank are held against those of its peers in the same step.  They go through the same
 * sequential test (judge/detect), whose bar follows from the false alarms that a site accepts.  Two questions are asked of each
 * rank: is it longer on average, and is it far too long more often than the others are?  The latter finds what comes every few
 * steps, and, asked of the job, what moves from rank to rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_SIGNALS_H
#define LOCKSTEP_JUDGE_SLOW_SIGNALS_H

#include "judge/confidence.h"
#include "judge/state.h"

enum signal_unit { /* what a signal is measured of */
    UNIT_RANK,
    UNIT_NODE,
    UNIT_LINK, /* the members of a communicator, or a pair in one */
    UNIT_STAGE,
    UNIT_JOB
};

/* The first are the series of a rank that go through the tests here. */
enum signal_id {
    SIGNAL_WORK = SERIES_LOCAL,
    SIGNAL_COMPUTE = SERIES_COMPUTE,
    SIGNAL_HITS,    /* work that is far too long now and then */
    SIGNAL_MOVES,   /* ... of another rank each time */
    SIGNAL_TREND,   /* work that grows */
    SIGNAL_ARRIVAL, /* last at collectives */
    SIGNAL_BATCHES, /* a rank's own input */
    SIGNAL_CPU,
    SIGNAL_INPUT, /* the job's */
    SIGNAL_INPUT_ALWAYS,
    SIGNAL_PAUSE, /* one that is longer than usual */
    SIGNAL_PAUSES,
    SIGNAL_LONG_WAIT, /* for one batch */
    SIGNAL_SKIPS,     /* checkpoints that were not saved */
    SIGNAL_FIRST_STEP,
    SIGNAL_BIRTH, /* what a rank did of its own before its first step */
    SIGNAL_START,
    SIGNAL_NIC, /* transfers, by where the slow ones are: at one node */
    SIGNAL_FABRIC,
    SIGNAL_FABRIC_PART, /* some communicators between nodes */
    SIGNAL_INSIDE,      /* nodes */
    SIGNAL_LENGTHS,
    SIGNAL_STAGE,
    SIGNAL_STEP, /* of the whole job */
    SIGNAL_STEP_SLOWLY,
    SIGNALS
};

struct signal {
    const char *what; /* is measured; in evidence */
    const char *cause;
    enum signal_unit unit;
    enum confidence_against against; /* what it is held against */
    uint8_t kind, layer;             /* of the verdict, where nothing else is known */
    double best;                     /* confidence that this evidence deserves at best ... */
    double best_host;                /* ... and where hosts stand for devices; 0: confidence.c */
    size_t least, least_host;        /* thresholds: of the step, what it must be or cost */
};
extern const struct signal signal_table[SIGNALS];

/* Of the step: what it must be, or cost, to be worth a word. */
double signal_least(const struct judge_state *judge, enum signal_id id);
struct detect_rule signal_rule(const struct judge_state *judge, enum signal_id id, double series);
/* A draft with kind, layer, cause and confidence; of `basis` only margin, rank and unpriced count; NULL: none of them. */
struct verdict signal_draft(const struct judge_state *judge, enum signal_id id,
                            const struct confidence *basis);

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
/* By how much more a host must cost that is compared with a single peer's. */
double signals_pair_times(const struct judge_state *judge, uint32_t rank);

/* By how much its work exceeds that of its peers: the larger of both series, as noise hides but does not slow down. */
double signals_excess_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps);
/* ... without the time that all ranks of its node wait longer for a CPU, where that is a large part of it. */
double signals_own_work_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps);

#define SIGNALS_BLUR 2 /* standard errors by which a mean wait for a CPU may be off */
/* What the other ranks on its node wait for a CPU, the median of them; -1: there are none. */
double signals_neighbours_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps);
/* Whether that explains what it took longer; whether it may. */
bool signals_is_starved(const struct judge_state *judge, uint32_t rank, uint32_t steps);
bool signals_may_be_starved(const struct judge_state *judge, uint32_t rank, uint32_t steps);

/* Its batches came late in the newest step that was looked at, those of its peers did not: it holds up the step as much as one that
 * is slow, whether or not that is worth a verdict.
 */
void signals_mark(struct judge_state *judge, uint32_t rank, bool late);
bool signals_is_marked(const struct judge_state *judge, uint32_t rank);

/* What the rank of a node that waits longest for a CPU waits, against the node's own past; NULL: not known. */
const struct detect_past *signals_node(const struct judge_state *judge, uint32_t node);

/* In most of the newest steps some rank is far slower than its peers, more often than usual in this job. */
bool signals_job_is_uneven(const struct judge_state *judge);
/* The rank that was, `back` steps ago; MODEL_NONE: none. */
uint32_t signals_slowest(const struct judge_state *judge, uint32_t back);

#endif
