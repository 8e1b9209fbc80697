/* retention.h - what is removed when logs are too large or too old.
 *
 * Only closed runs that no process uses.  Their spools are removed first, because the log has all their frames.
 * Then the log is compacted: the steps of single ranks are merged, 64 at a time, into one frame with each rank's
 * work and excess, and all beats but the last of each rank are dropped.  Verdicts, ledgers, exits, runs, rings,
 * communicators, shapes, gaps, notes and settings are never dropped.  A compacted log is reported as before and
 * cannot be replayed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_RETENTION_H
#define LOCKSTEP_CONTROL_LOG_RETENTION_H

#include <stdint.h>

#include "core/err.h"

struct retention {
    uint64_t bytes; /* of all runs; 0: no limit */
    int64_t age_ns; /* since a log was last written; 0: no limit */
};

struct retention_counts {
    uint64_t runs, compacted, bytes_before, bytes_after; /* runs: that were looked at */
    uint64_t still_above; /* bytes beyond the limit that nothing may be dropped for */
};

/* Oldest first: all that are too old, then others while all together are too large. */
int retention_apply(const char *state, const struct retention *keep, int64_t now_real_ns,
                    struct retention_counts *ret, struct err *err);

#endif
