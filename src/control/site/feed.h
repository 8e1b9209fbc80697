/* feed.h - the spools of a run on this machine, as a source of its facts beside HTTP.
 *
 * A turn reads the spools up to a limit and logs each frame, so a burst of facts delays neither ticks nor requests.
 * If the log cannot be written, facts stay in the spools and the next turn tries again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_FEED_H
#define LOCKSTEP_CONTROL_SITE_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct site_run;
struct spools;

struct feed {
    struct spools *spools;
    bool stopping;       /* the run ends when the spools are empty */
    bool busy;           /* the newest turn found frames */
    unsigned quiet;      /* turns in a row that found none, since the stop */
    int64_t deadline_ns; /* after it, an error ends the run unfinished */
};

int feed_open(struct site_run *run, struct err *err);
void feed_close(struct feed *feed);

/* Logs what the spools have, up to a limit.  Returns how many frames it read.  -EAGAIN: the log itself is still being read;
 * -errno: the log cannot be written now; -ENOMEM, -ESTALE: only a new process can continue.
 */
int feed_turn(struct site_run *run, struct err *err);

/* From now on the run ends as soon as its spools have been read to their end. */
void feed_stop(struct site_run *run);
/* After each turn of a stopping feed, with its result.  1: the run is closed and its log is on disk; 0: not yet; -errno. */
int feed_finish(struct site_run *run, int result, struct err *err);

#endif
