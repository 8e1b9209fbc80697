/* local.h - the controller of one run, with all its files in that run's directory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_LOCAL_H
#define LOCKSTEP_CONTROL_SITE_LOCAL_H

#include <stdint.h>

#include "core/err.h"

struct site;

/* -ENOENT, -ENOTDIR: no such directory; -EBUSY: another controller has the log. */
int local_open(struct site *site, struct err *err);
/* One turn of the run: spools, tick, and its end when it is time.  Returns how long to wait for the next one. */
int64_t local_turn(struct site *site, int64_t now_ns);
void local_close(struct site *site);

#endif
