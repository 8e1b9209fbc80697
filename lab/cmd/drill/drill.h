/* drill.h - the two kinds of drill, which drill.c starts: in a job of this machine, and a night on a cluster.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_CMD_DRILL_DRILL_H
#define LOCKSTEP_LAB_CMD_DRILL_DRILL_H

#include "cmd/lab/drill_options.h"
#include "core/err.h"
#include "lab/drill/drill_page.h"

/* -EPERM, -ENOENT: what is missing for it, with the reason; -EINTR: somebody ended it. */
int drill_night(const struct drill_settings *settings, uint64_t seed, struct drill_page *ret,
                struct err *err);

/* -EACCES: the run did not consent; -ESRCH: it is not there, or is over. */
int drill_job(const struct drill_settings *settings, const char *run, struct drill_page *ret,
              struct err *err);
void drill_job_list(FILE *out);

#endif
