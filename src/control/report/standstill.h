/* standstill.h - for how long no rank had advanced when a run ended or was last observed.
 *
 * The judge of hangs reports what it can explain, and leaves ranks alone that use a CPU: they may need long.  A run in which
 * no rank advances is not healthy all the same, so the run summary reports that it stood still.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_STANDSTILL_H
#define LOCKSTEP_CONTROL_REPORT_STANDSTILL_H

#include <stdbool.h>
#include <stdint.h>

#include "core/map.h"
#include "wire/facts.h"

struct standstill {
    struct map advanced; /* rank → time of its newest beat with progress, its node's clock */
    struct map newest;   /* rank → time of its newest beat */
    bool named; /* since the last progress outside, some rank was in a phase that may take long */
    uint32_t attempt;   /* of these */
    uint64_t steps;     /* of all ranks, in this attempt */
    int64_t longest_ns; /* of these */
};

void standstill_fini(struct standstill *still);
/* Both: 0 or -ENOMEM. */
int standstill_beat(struct standstill *still, const struct fact_beat *beat);
void standstill_step(struct standstill *still, const struct fact_step *step);
/* Nanoseconds; 0: some rank advanced within the limit, or too little is known. */
int64_t standstill_ns(const struct standstill *still, uint32_t ranks);

#endif
