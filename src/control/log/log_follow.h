/* log_follow.h - follows a growing log: verdicts and ledgers as they are written.
 *
 *     struct log_follow *follow;
 *     if (log_follow_open(run_dir, &follow, &err) == 0)
 *         while ((more = log_follow_read(follow, &calls, &err)) > 0)
 *             nap();
 *     log_follow_close(follow);
 *
 * The log may not exist yet.  An existing log is read from its beginning.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_LOG_FOLLOW_H
#define LOCKSTEP_CONTROL_LOG_LOG_FOLLOW_H

#include <stdint.h>

#include "core/err.h"
#include "wire/facts.h"
#include "wire/verdict.h"

struct log_follow;

struct log_follow_calls {                                      /* any may be NULL */
    void (*verdict)(void *arg, const struct verdict *verdict); /* opened, changed or closed */
    void (*ledger)(void *arg, const struct ledger *ledger);
    void (*run)(void *arg, const struct fact_run *run);
    void *arg;
};

int log_follow_open(const char *run_dir, struct log_follow **ret, struct err *err);
void log_follow_close(struct log_follow *follow); /* NULL is fine */

/* Calls back for all that has arrived.  1: more may arrive; 0: the run is closed and all was delivered,
 * or nobody writes any more; -errno.  Never blocks.
 */
int log_follow_read(struct log_follow *follow, const struct log_follow_calls *calls,
                    struct err *err);

#endif
