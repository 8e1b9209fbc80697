/* incident.h - what happened around one verdict, from the directory of its run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_INCIDENT_H
#define LOCKSTEP_CONTROL_REPORT_INCIDENT_H

#include "core/err.h"
#include "show/incident_view.h"

/* -ENOENT: the run has no verdict with this id. */
int incident_read(const char *run_dir, const char *id, struct incident *ret, struct err *err);

#endif
