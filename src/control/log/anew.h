/* anew.h - the log of a run that goes on, written anew beside itself, shorter.
 *
 *     anew_begin(&settings, &anew, &err);
 *     while ((result = anew_turn(anew, 20 * NS_PER_MS, &err)) == 0)
 *         go on with other work, also with writing the log;
 *     if (result == 1)
 *         anew_finish(anew, &ret, &err);
 *     anew_destroy(anew);
 *
 * Old steps are merged (merge.h); the newest part is copied byte by byte, and a new core hears it.  When that has caught
 * up, the new log takes the old one's place, and the new core the old one's: so whoever reads the log again
 * gets the very core that speaks.  What was said stays, and is carried on (carry.h).  A kill leaves
 * the old log or the new one, each whole.
 */
#ifndef LOCKSTEP_CONTROL_LOG_ANEW_H
#define LOCKSTEP_CONTROL_LOG_ANEW_H

#include <stdint.h>

#include "control/log/log_replay.h"
#include "control/log/rundir.h"
#include "core/err.h"
#include "wire/spool.h"

struct anew;

struct anew_settings {
    const struct rundir *dir;
    const char *run;     /* as the first core was told */
    uint64_t whole_from; /* bytes of the old log: from about there on it is copied */
    uint64_t merged;     /* merged frames in the old log: beyond some the oldest are joined */
};

struct anew_result { /* all of it is the caller's now */
    struct spool_writer *writer;
    struct log_replay replay;
    uint64_t old_from, new_from; /* where the copied part begins in both */
    uint64_t bytes, merged;
    uint64_t stays; /* of the bytes: that no later compaction can drop */
};

int anew_begin(const struct anew_settings *settings, struct anew **ret, struct err *err);
/* Whether so many bytes can be written beside a log, with some to spare for others.  -ENOSPC. */
int anew_space(const char *directory, uint64_t bytes, struct err *err);
uint64_t anew_bytes(const struct anew *anew); /* of the new log so far */
/* 1: it has caught up and can be finished now; 0: not yet; -errno. */
int anew_turn(struct anew *anew, int64_t budget_ns, struct err *err);
int anew_finish(struct anew *anew, struct anew_result *ret, struct err *err);
void anew_destroy(struct anew *anew); /* NULL is fine */

#endif
