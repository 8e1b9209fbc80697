/* why_site.h - `lockstep why` about a run that a site's controller has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_WHY_WHY_SITE_H
#define LOCKSTEP_CMD_WHY_WHY_SITE_H

#include <stdbool.h>

#include "cmd/site/site_ask.h"
#include "core/err.h"
#include "show/run_summary.h"

/* Asks the controller and prints its answer.  The exit status, or -errno. */
int why_site(struct site_ask *ask, const char *run, bool json, struct err *err);

/* True: the spools of this directory are a part of a run that was sent to a site, so judging them would judge half of the
 * job.  This was printed.
 */
bool why_is_part(const char *directory, const struct run_summary *summary, bool json);

#endif
