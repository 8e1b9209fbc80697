/* sample.h - the scheduler's view of a process at one moment, and between two.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_SAMPLE_H
#define LOCKSTEP_AGENT_PROC_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

struct sample { /* totals since the process began; they never go down */
    int64_t time_ns;
    int64_t cpu_ns, run_delay_ns, throttled_ns, major_faults;
};

#define SAMPLES 32 /* 3.2 s of them at 100 ms */

struct samples { /* the latest ones, oldest overwritten */
    struct sample ring[SAMPLES];
    uint64_t count;
};

void samples_put(struct samples *samples, const struct sample *sample);

/* Totals at `time_ns`, on the straight line between the samples around it.  1; 0: no sample at or after
 * that time yet; -ENODATA: older than all samples that are kept.
 *
 * Error: none when the process ran evenly between the two samples; never more than what it used
 * between them.  A step has two such borders, so its figures are within what was used in the two
 * sampling intervals that hold its begin and its end; the errors of consecutive steps cancel.
 */
int samples_at(const struct samples *samples, int64_t time_ns, struct sample *ret);

#endif
