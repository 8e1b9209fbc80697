/* detect_sim.h - the sequential test (judge/detect) alone, on made-up series: how late it is, and how often wrong.
 *
 * Nothing of a job is simulated here, so that weeks of thousands of ranks take seconds; bench noise without --detect judges a
 * whole job.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_DETECT_SIM_H
#define LOCKSTEP_LAB_BENCH_DETECT_SIM_H

#include <stdbool.h>
#include <stdint.h>

#define DETECT_SIM_DELAYS 12
#define DETECT_SIM_ALARMS 6

struct detect_sim_delay { /* a rank becomes slower, among so many */
    double rise, noise;   /* shares of its work: by how much; deviation of a step */
    uint32_t units;
    double bound; /* steps that no test with as few false alarms can beat, on average */
    double mean;  /* steps until the alarm; */
    double p90;
};

struct detect_sim_alarms { /* nothing becomes slower */
    const char *noise;
    uint32_t units;
    double weeks;
    double asked;  /* false alarms in them, of all units together */
    double raised; /* as many as there were */
};

struct detect_sim {
    struct detect_sim_delay delay[DETECT_SIM_DELAYS];
    struct detect_sim_alarms alarms[DETECT_SIM_ALARMS];
    uint32_t delays, alarm_rows;
    bool
        good; /* each mean is at most DETECT_SIM_LATE bounds, and no more alarms were raised than asked for */
};

#define DETECT_SIM_LATE 1.5

struct detect_sim_settings {
    uint64_t seed;
    double step_s;  /* duration of a step */
    uint32_t runs;  /* for each delay */
    uint64_t steps; /* for each count of alarms, of all units together */
};

int /* -ENOMEM */
detect_sim_run(const struct detect_sim_settings *settings, struct detect_sim *ret);

#endif
