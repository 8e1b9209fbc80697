/* compaction.h - writes a shorter log of an active run beside the old one.
 *
 *     compaction_begin(&settings, &compaction, &err);
 *     while ((result = compaction_turn(compaction, 20 * NS_PER_MS, &err)) == 0)
 *         go on with other work, also with writing the log;
 *     if (result == 1)
 *         compaction_finish(compaction, &ret, &err);
 *     compaction_destroy(compaction);
 *
 * Old steps are merged (merge.h); the newest part is copied byte by byte and fed to a new core.  When that has caught
 * up, the new log and the new core replace the old ones, so a log replay gives the same core as the live one.
 * Verdicts and ledger are carried over (carry.h).  A kill leaves the old log or the new one, each complete.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_COMPACTION_H
#define LOCKSTEP_CONTROL_LOG_COMPACTION_H

#include <stdint.h>

#include "control/log/log_replay.h"
#include "control/log/rundir.h"
#include "core/err.h"
#include "wire/spool.h"

struct compaction;

struct compaction_settings {
    const struct rundir *dir;
    const char *run;      /* the settings of the first core */
    uint64_t copied_from; /* bytes of the old log: from about there on it is copied */
    uint64_t merged;      /* merged frames in the old log: beyond some the oldest are joined */
};

struct compaction_result { /* all of it is the caller's now */
    struct spool_writer *writer;
    struct log_replay replay;
    uint64_t old_from, new_from; /* where the copied part begins in both */
    uint64_t bytes, merged;
    uint64_t stays; /* of the bytes: that no later compaction can drop */
};

int compaction_begin(const struct compaction_settings *settings, struct compaction **ret,
                     struct err *err);
/* Whether so many bytes can be written beside a log, with some to spare for others.  -ENOSPC. */
int compaction_space(const char *directory, uint64_t bytes, struct err *err);
uint64_t compaction_bytes(const struct compaction *compaction); /* of the new log so far */
/* 1: it has caught up and can be finished now; 0: not yet; -errno. */
int compaction_turn(struct compaction *compaction, int64_t budget_ns, struct err *err);
int compaction_finish(struct compaction *compaction, struct compaction_result *ret,
                      struct err *err);
void compaction_destroy(struct compaction *compaction); /* NULL is fine */

#endif
