/* site_log.h - the site's log, STATE/site.lsf: the facts of nodes, which belong to no run, and the core that reads them.
 *
 * The format and the replay rule are those of a run's log: facts and ticks are written before the core gets them, the output
 * of a tick follows it, and a log that is read again gives the same core and the same output bytes.  Facts are on disk
 * when site_log_take() returns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_NODES_SITE_LOG_H
#define LOCKSTEP_CONTROL_NODES_SITE_LOG_H

#include <stdint.h>

#include "control/log/seen.h"
#include "control/nodes/site_core.h"
#include "core/err.h"
#include "wire/frame.h"

struct site_log;

/* Reads the log again and completes what a killed controller left undone.  -EBUSY: another controller has it. */
int site_log_open(const char *path, struct site_log **ret, struct err *err);
void site_log_close(struct site_log *log); /* NULL is fine */

const struct site_core *site_log_core(const struct site_log *log);
struct seen *site_log_seen(struct site_log *log);
/* Names this log among all that a site has had: the boot of the frames that are copied from it. */
uint64_t site_log_id(const struct site_log *log);

/* All of them are written and synced, or none.  -ESTALE: close it and open it again. */
int site_log_take(struct site_log *log, const struct frame *frame, size_t count, struct err *err);
/* Ticks when facts have come, or when the state of a node changes because results become old. */
int site_log_turn(struct site_log *log, struct err *err);

/* What the site's own people ask of a node; the next turn decides.  Fills in time and id.  -EAGAIN: too many wait. */
int site_log_request(struct site_log *log, struct request *request, struct err *err);
/* A setting (SITE_BUDGET, SITE_MODE ...) as a fact of the log, if it is not the one that is there. */
int site_log_set(struct site_log *log, const char *name, double value, struct err *err);
/* A verdict of some run that names nodes: new, changed or over. */
int site_log_verdict(struct site_log *log, const struct verdict *verdict, struct err *err);
/* What became of something that the controller did itself. */
int site_log_outcome(struct site_log *log, const struct outcome *outcome, struct err *err);
/* Orders with larger numbers are not on disk, and must not be given out. */
uint64_t site_log_on_disk(const struct site_log *log);

/* Begins another log in its place if it is larger than `bytes_max`: with what was seen, and with what the states of nodes
 * rest on.  The old one stays beside it, as PATH.old.  Call it only when no finding is needed any more.  0: not
 * necessary; -ESTALE: done, close it and open it again; -errno: it goes on as it is.
 */
int site_log_rotate(struct site_log *log, uint64_t bytes_max, struct err *err);

struct site_log_counts {
    uint64_t facts, ticks, equal;
    uint64_t
        different; /* output in the log that this program does not compute, or that is missing */
    uint64_t bytes;
};
void site_log_counts(const struct site_log *log, struct site_log_counts *ret);

#endif
