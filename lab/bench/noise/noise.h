/* noise.h - noise as it was recorded, drawn again for as many hosts and steps as are wanted.
 *
 * A tape is a healthy run of one host's ranks: how far each rank was from its own median in each
 * step.  Every host of a made-up job plays blocks of it, all its ranks the same steps, so what goes together
 * on a host or in time stays together.  Beyond what the tape has seen the tails go on: values above a
 * high quantile are drawn from a Pareto distribution fitted to them (Hill's estimate).  Bursts of a
 * whole host and long pauses of a rank, which heal, come on top.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_NOISE_H
#define LOCKSTEP_LAB_BENCH_NOISE_H

#include <stdint.h>
#include <stdio.h>

#include "core/rand.h"
#include "judge/state.h"

#define NOISE_RANKS 8 /* of a tape, and of a host that plays it */
#define NOISE_STEPS_MAX 1024

struct noise_sample { /* of a rank in a step, in ten-thousandths */
    int16_t compute;  /* of its median device compute: by how much it took longer */
    int16_t host;     /* of the step: device idle for the host, more than its median */
    int16_t delay;    /* of the step: ready to run but without a cpu */
};

struct noise_tape {
    uint32_t steps;
    struct noise_sample sample[NOISE_STEPS_MAX][NOISE_RANKS];
    int16_t transfer
        [NOISE_STEPS_MAX]; /* of the median transfer: by how much the median rank's took longer */
};

extern const struct noise_tape noise_tape_recorded; /* noise_tape.c says when and where */

/* Records: call it with each step of a run of NOISE_RANKS ranks, then noise_taper_end(). */
struct noise_taper;
int noise_taper_create(struct noise_taper **ret);
void noise_taper_destroy(struct noise_taper *taper);
void noise_taper_step(struct noise_taper *taper, const struct judge_state *judge);
int noise_taper_end(struct noise_taper *taper, struct noise_tape *ret); /* -ENODATA: too short */
void noise_tape_print(const struct noise_tape *tape, FILE *out);        /* as noise_tape.c has it */

struct noise_tail { /* of one series: from `from` on it falls as x^-index */
    double from, index;
};

struct noise_host {
    uint32_t at, left; /* the block that it plays */
    uint32_t burst;    /* steps that a burst still lasts */
};

struct noise {
    const struct noise_tape *tape;
    struct noise_tail compute, host, transfer;
    struct rand rand;
    double burst_odds, pause_odds; /* of a host, of a rank, in a step */
};

struct noise_draw { /* shares: of the work, of the step, of the step, of the transfer */
    double compute, host, delay;
};

/* Bursts and pauses come `often` times as often as once a day and once a week. */
void noise_init(struct noise *noise, const struct noise_tape *tape, uint64_t seed, double step_s,
                double often);
/* The next step of a host's ranks. */
void noise_next(struct noise *noise, struct noise_host *host, struct noise_draw ret[NOISE_RANKS]);
double noise_transfer(struct noise *noise);

#endif
