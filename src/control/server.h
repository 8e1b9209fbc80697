/* server.h - the controller of one run: spools in, one log out, the core between them.
 *
 * One process, one thread.  It may be killed at any time and started again: no fact in the log is lost or duplicated
 * (log_replay.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SERVER_H
#define LOCKSTEP_CONTROL_SERVER_H

#include <stdint.h>

#include "core/err.h"
#include "judge/thresholds.h"

struct server_settings {
    const char *run_dir;
    int64_t tick_ns; /* how long it sleeps when nothing came */
    uint64_t
        log_max; /* bytes; beyond them what is old in the log is merged (compaction.h); 0: never */
    const struct thresholds *thresholds; /* that settings files give; NULL: the defaults */
};

/* Runs until SIGTERM, SIGINT or SIGHUP comes or the parent is gone; then it reads every spool to
 * its end and closes the books.  Blocks these signals and ignores SIGPIPE.  -EBUSY: another
 * controller has the log; -errno with a sentence when it cannot go on.
 */
int server_run(const struct server_settings *settings, struct err *err);

#endif
