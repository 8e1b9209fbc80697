/* why_artifacts.h - `lockstep why` of files that another job left, or that lie in the directory of a run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_WHY_WHY_ARTIFACTS_H
#define LOCKSTEP_CMD_WHY_WHY_ARTIFACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/err.h"
#include "judge/thresholds.h"
#include "show/run_summary.h"

/* Files, directories, archives and "-", in any mix.  Prints the answer and returns the exit status; -ENOENT when there is
 * nothing in them.
 */
int why_artifacts(const char *const *operand, size_t count, bool json,
                  const struct thresholds *limits, struct err *err);
/* What others laid into a run's directory: kernel logs join the account's verdicts, once the run is over; those of
 * dumps are added to them.
 */
int why_add_artifacts(const char *directory, const struct thresholds *limits,
                      struct run_summary *summary, struct err *err);

#endif
