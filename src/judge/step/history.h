/* history.h - the last steps, rank by rank, and how far each was from its peers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STEP_HISTORY_H
#define LOCKSTEP_JUDGE_STEP_HISTORY_H

#include "judge/step/model.h"
#include "judge/step/split.h"
#include "judge/thresholds.h"

#define HISTORY_STEPS 32

struct node_typical { /* of a step, or of the steps before anything went wrong; -1: not known yet */
    double pressure;  /* share of time its ranks waited for a cpu */
    double host_ms;   /* host time that a device had to wait for: the worst of its ranks */
    double starved_ms; /* ready to run but without a cpu: the worst of its ranks */
};

/* Two ways to be slower than one's peers.  Device compute alone is the quieter one: where hosts are
 * noisy a slow device is clear in it long before it is in all local work.
 */
enum series {
    SERIES_LOCAL,
    SERIES_COMPUTE,
    SERIES_COUNT
};

struct past_step {
    uint64_t step;
    int64_t begin_ns;                           /* of the earliest rank, common clock */
    int64_t measured_ns, replayed_ns, ideal_ns; /* replayed and ideal 0: not replayed or no fit */
    struct rank_split *split;                   /* by rank */
    float *excess_ms; /* by rank: local work over the median of its peers, lengths explained away */
    float *typical_ms; /* by rank: that median of its peers */
    float *compute_ms; /* by rank: as the excess, of device compute alone */
    float *length_ms;  /* by rank: what its lengths explain, over the median of its peers */
    float *input_ms;   /* by rank: what it waits for input longer than its peers */
    double uneven_ms;  /* what even lengths would give back: the longest over the mean, by those */
    struct node_typical *node; /* by node: of this step */
    uint32_t nodes;
};

struct history {
    struct past_step step[HISTORY_STEPS];
    uint32_t world, count;         /* count: steps ever put since the last reset */
    double noise_ms[SERIES_COUNT]; /* how much a rank's excess moves from step to step, typically */
    uint32_t look_steps; /* steps in which one disturbance of a node is seen once, at most */
    bool host_view;      /* no device times in the newest step: host phases stand for the work */
    double explained;    /* share of the spread between ranks that lengths explain, 0 … 1 */
    bool lengths_vary;
    double base_period_ms;        /* typical period of the steps before anything went wrong */
    struct node_typical *typical; /* by node */
    uint32_t nodes;
};

void history_fini(struct history *history);
size_t history_bytes(const struct history *history); /* of memory, about */
void history_reset(struct history *history);         /* a new attempt: nothing is comparable */
/* Begins the next step: fill its split, then call history_judge().  NULL: no memory. */
struct past_step *history_next(struct history *history, uint32_t world, uint64_t step);
int history_judge(struct history *history, const struct model *model,
                  const struct thresholds *limits);
/* `back` 0 is the newest; NULL when there are not so many. */
const struct past_step *history_back(const struct history *history, uint32_t back);
/* So many of the newest steps are kept, `steps` at most. */
uint32_t history_window(const struct history *history, uint32_t steps);

/* Steps that give so many independent looks, as far as the window goes.  A node holds up a process for tens of
 * milliseconds, again and again: short steps show one such disturbance several times.
 */
uint32_t history_looks(const struct history *history, uint32_t looks);

/* Over the last n steps: medians of a rank's excess and of its peers' local work. */
double history_excess_ms(const struct history *history, enum series series, uint32_t rank,
                         uint32_t steps);
double history_typical_ms(const struct history *history, uint32_t rank, uint32_t steps);
double history_period_ms(const struct history *history, uint32_t steps); /* median */
/* A node in the last n steps: the values that `above` of them exceed, so n / 2 gives the median and 1
 * the second largest.
 */
struct node_typical history_node(const struct history *history, uint32_t node, uint32_t steps,
                                 uint32_t above);
/* Median of a part of the split over the last n steps. */
typedef int64_t split_part(const struct rank_split *split);
double history_part_ms(const struct history *history, uint32_t rank, uint32_t steps,
                       split_part *part);
/* ... and the median of that over the rank's peers, itself left out; *count: how many. */
double history_peers_ms(const struct history *history, const struct model *model, uint32_t rank,
                        uint32_t steps, split_part *part, uint32_t *count);

/* Runnable but without a CPU, a step of the last n: the mean over those of which the kernel tells it, which are few where steps
 * are short; and the median of that over the rank's peers.
 */
double history_starved_ms(const struct history *history, uint32_t rank, uint32_t steps);
/* ... and the standard error of that mean: waits differ much from step to step. */
double history_starved_error_ms(const struct history *history, uint32_t rank, uint32_t steps);
double history_peers_starved_ms(const struct history *history, const struct model *model,
                                uint32_t rank, uint32_t steps);

#endif
