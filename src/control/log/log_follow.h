/* log_follow.h - a run's log as it grows: verdicts and ledgers as they come.
 *
 *     struct log_follow *follow;
 *     if (log_follow_open(run_dir, &follow, &err) == 0)
 *         while ((more = log_follow_read(follow, &calls, &err)) > 0)
 *             nap();
 *     log_follow_close(follow);
 *
 * The log need not be there yet.  One that is there is told from its beginning.
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

/* Calls for all that has come.  1: more may come; 0: the books are closed and all has been told,
 * or nobody writes any more; -errno.  Never blocks.
 */
int log_follow_read(struct log_follow *follow, const struct log_follow_calls *calls,
                    struct err *err);

#endif
