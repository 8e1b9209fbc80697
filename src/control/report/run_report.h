/* run_report.h - reads the directory of a run and fills a run summary.
 *
 * The log of a running controller, or of a closed run, is used unchanged.  Otherwise the core reads the log again,
 * then the frames that only the spools have, with the times of the facts: the same judges explain a run whose
 * controller never ran or died.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_RUN_REPORT_H
#define LOCKSTEP_CONTROL_REPORT_RUN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "control/core.h"
#include "control/environments.h"
#include "core/err.h"
#include "show/run_summary.h"

/* `every_state`: each verdict as it was opened, changed and closed, in that order; otherwise the
 * last state of each, open ones first.
 */
int run_report_read(const char *run_dir, bool every_state, struct run_summary *ret,
                    struct err *err);
/* The core judges the facts of a run that has ended, whatever its log says: the judges may be later ones. */
int run_report_judge_again(const char *run_dir, bool every_state, struct run_summary *ret,
                           struct err *err);
void run_report_fini(struct run_summary *summary);

/* Every whole step of the run, through the core: its log, then what the spools have beyond it.  `environments`: those of its
 * ranks, free with environments_fini(); may be NULL.
 */
int run_report_watch(const char *run_dir, core_watch *watch, void *arg,
                     struct environments *environments, struct err *err);

/* The log through the core again, compared byte by byte with what it says. */
struct run_report_replay {
    uint64_t facts, ticks, equal, different;
    uint64_t missing; /* the core says it, the log does not */
};
/* -ENOENT: no log; -ENODATA: an empty one. */
int run_report_replay(const char *run_dir, struct run_report_replay *ret, struct err *err);

#endif
