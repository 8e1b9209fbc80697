/* backtest.h - what a policy would have done in a recorded run.
 *
 * The log is fed to the core again with another table, everything allowed and the end of the run known.  The run goes on as
 * it was recorded: nothing that is decided here changes what follows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_BACKTEST_H
#define LOCKSTEP_CONTROL_REPORT_BACKTEST_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/policy_table.h"

struct backtest {
    char run[FACT_NAME];
    struct decision *decision; /* in order */
    size_t decisions, room;
    uint32_t actions; /* of them, that would have been done */
    uint32_t blocked; /* others */
    uint32_t
        healthy_nodes; /* taken from the run, though no finding says that something is wrong with them */
    double saves_gpu_seconds, costs_gpu_seconds; /* of the actions */
};

/* -ENODATA: the run has no log, or one that was compacted. */
int backtest_run(const char *run_dir, const struct policy_table *table, struct backtest *ret,
                 struct err *err);
void backtest_fini(struct backtest *backtest);

#endif
