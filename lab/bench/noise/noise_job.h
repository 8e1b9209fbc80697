/* noise_job.h - a made-up job on hosts with recorded noise, laid before the judge state step by step.
 *
 * Tensor groups of 8 are hosts; replicas of a tensor index reduce gradients across all hosts; one
 * reduction over all ranks comes before the optimizer.  What the judges say while nothing is wrong is a
 * false alarm; then faults are made in the same noise, and must be found.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_NOISE_JOB_H
#define LOCKSTEP_LAB_BENCH_NOISE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "lab/bench/noise/noise.h"

struct noise_job_settings {
    uint32_t ranks; /* a multiple of NOISE_RANKS */
    uint64_t steps, seed;
    double step_s;    /* for how often pauses and bursts come ... */
    double often;     /* ... and so many times as often */
    double seconds;   /* of this machine's time, at most; 0: no limit */
    bool with_faults; /* afterwards */
    const struct noise_tape *tape;
    void (*progress)(void *arg, uint64_t steps, uint64_t alarms); /* NULL: nobody listens */
    void *arg;
};

#define NOISE_ALARMS_KEPT 16
#define NOISE_FAULTS 4

struct noise_fault { /* one that was made in the noise */
    const char *name;
    bool found;
    bool must;      /* else it may cost nobody anything, where others are slower each time */
    uint64_t steps; /* that it took */
    uint32_t wrong; /* verdicts meanwhile that are not about it */
};

struct noise_job_result {
    uint64_t steps;  /* made and judged with nothing wrong */
    uint64_t alarms; /* verdicts that opened in them, again or for the first time */
    uint64_t unfit;  /* steps whose replay did not fit: nothing was blamed in them */
    double judge_ms; /* of a step, mean */
    struct noise_tail compute, host, transfer;
    struct {
        uint64_t step;
        char text[200];
    } alarm[NOISE_ALARMS_KEPT];
    struct noise_fault fault[NOISE_FAULTS];
    uint32_t faults;
};

int noise_job_run(const struct noise_job_settings *settings, struct noise_job_result *ret,
                  struct err *err);
/* So many events were seen: with 95 % certainty no more than this were to be expected. */
double noise_upper_95(uint64_t events);

#endif
