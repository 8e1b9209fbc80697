/* runlog.h - a run's log and its core; the same for a single run and for a site.
 *
 * Facts and ticks are logged before the core gets them, so the state of the core can always be rebuilt from the log
 * (log_replay.h).  After -errno a call may be repeated.  If runlog_sync() fails, data since the last successful sync
 * is truncated, now or as soon as possible: then runlog_was_truncated() is true, or any call returns -ESTALE; close the
 * log and open it again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_RUNLOG_H
#define LOCKSTEP_CONTROL_LOG_RUNLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/core.h"
#include "control/log/rundir.h"
#include "control/log/seen.h"
#include "core/err.h"
#include "wire/frame.h"

struct runlog;

struct runlog_settings {
    const struct rundir *dir;
    struct seen *seen;    /* gets what is in the log, and later what is taken */
    int64_t lock_wait_ns; /* a reader may hold the lock for a moment */
    /* Values from settings files, or NULL.  A value that was removed from the files is logged. */
    const struct thresholds *thresholds;
    uint64_t memory_max; /* of what the facts make us keep; 0: no limit */
    uint64_t disk_max;   /* of the log's bytes: facts beyond that are not taken; 0: no limit */
    /* If not NULL: every frame of the log, in its order; `live` when it was not read back. */
    void (*observe)(void *arg, const struct frame *frame, bool live);
    void *arg;
};

/* Reads the log again, a little at a time, completes what a killed one left undone, says hello.  No other function is called
 * before runlog_load() returned 1.  0: there is more to read; -errno: close it.  -EBUSY: another controller has it; -EDQUOT:
 * its facts need more than memory_max.
 */
int runlog_begin(const struct runlog_settings *settings, struct runlog **ret, struct err *err);
int runlog_load(struct runlog *log, int64_t budget_ns, struct err *err);
void runlog_loaded(const struct runlog *log, uint64_t *bytes, uint64_t *of); /* so far */
void runlog_close(struct runlog *log);                                       /* NULL is fine */

/* Facts that are not in the log yet.  All of them are written, or none.  -EFBIG: the log has disk_max and none is
 * written; -EDQUOT: they are, but need more than memory_max: close it.
 */
int runlog_take(struct runlog *log, const struct frame *frame, size_t count, struct err *err);
/* Writes output of the core that could not be logged (disk full).  Call it before any other write. */
int runlog_write_output(struct runlog *log, struct err *err);
int runlog_tick(struct runlog *log, uint8_t flags, struct err *err);
/* Facts have come since the last tick, or it was more than a second ago and the books are open. */
bool runlog_tick_is_due(const struct runlog *log);
bool runlog_is_closed(const struct runlog *log); /* the books: the newest tick was the last */
bool runlog_is_dirty(const struct runlog *log);  /* written since the last sync */
int runlog_sync(struct runlog *log, struct err *err);
uint64_t runlog_memory(const struct runlog *log); /* that its facts take, about */
uint64_t runlog_disk(const struct runlog *log);   /* that it takes, with a next one in the making */
uint64_t runlog_facts(const struct runlog *log);  /* that it has ever had */
bool runlog_was_truncated(const struct runlog *log); /* the core knows more than the log */

/* Once a turn: compacts the log when it is larger than `bytes_max` (compaction.h), for `budget_ns` each time.
 * 1: it has just been done, `ret` says what is where now; 0: nothing to do, or not yet; -errno: it is tried again
 * later; -ESTALE: close the log and open it again.
 */
struct
    runlog_shift { /* a part of the log lies elsewhere in it now, all before is not what it was */
    uint64_t old_from, new_from, bytes_before, bytes;
};
int runlog_compact(struct runlog *log, uint64_t bytes_max, int64_t budget_ns,
                   struct runlog_shift *ret, struct err *err);

/* Changes a threshold of the judges, from the next tick on, and logs who did.  -ENOENT, -ERANGE: no such name or
 * value; -EALREADY: the books are closed.
 */
int runlog_set(struct runlog *log, const char *name, double value, const char *who,
               struct err *err);
void runlog_thresholds(const struct runlog *log, struct thresholds *ret);

/* Files a request: fills in its id and times, and logs it.  -EALREADY: the books are closed. */
int runlog_request(struct runlog *log, struct request *request, struct err *err);
const struct policy *runlog_policy(
    const struct runlog *log); /* to ask it; NULL: there is none yet */

/* The run's clock is that of its launcher's node.  Where that is another machine, ticks are given in its
 * time: what is added to our monotonic clock.
 */
void runlog_clock(struct runlog *log, int64_t hello_mono_ns, int64_t hello_real_ns);

/* As core_node_clock(). */
bool runlog_node_clock(const struct runlog *log, const char *node, int64_t *offset_ns,
                       int64_t *error_ns);
/* As core_touch(). */
struct finding;
enum core_touch runlog_touch(const struct runlog *log, struct finding *finding);
/* As core_verdict_cost(). */
double runlog_verdict_cost(const struct runlog *log, const char *id);
void runlog_counts(const struct runlog *log, struct core_counts *ret);

#endif
