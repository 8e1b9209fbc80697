/* orders.h - carries out decisions, each at most once, and reports what became of them.
 *
 * Whoever executes orders (a launcher, the agent of a node without a launcher) keeps the outcomes that it writes in its
 * spool.  The first one of a decision says that it begins, with the result UNKNOWN and without an end; the last one says how it
 * ended.  A process that was killed reads its spool again: a decision with an outcome is never begun again.  One without an
 * end stays reported as unknown, unless the same ranks can still be asked what they did.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ORDERS_ORDERS_H
#define LOCKSTEP_ACT_ORDERS_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "wire/decision.h"

struct orders;

/* Writes an outcome to the spool.  After -errno it is not there. */
typedef int orders_write(void *arg, const struct outcome *outcome);

/* `part`: as outcomes have it, "launcher" or "node n1". */
int orders_create(const char *part, orders_write *write, void *arg, struct orders **ret);
void orders_destroy(struct orders *orders); /* NULL is fine */

struct orders_now {
    int64_t mono_ns, real_ns;
    uint32_t attempt;
    uint32_t ranks; /* that the run has here; 0: not known */
    int rings_fd;   /* the directory of their rings; -1: none */
};

/* ---- after a start ---- */
int orders_replay(struct orders *orders, const struct outcome *outcome); /* of the own spool */
/* What had begun and did not end, and was not given again since (orders_ask_ranks), is reported as unknown. */
int orders_resume(struct orders *orders, const struct orders_now *now);

/* ---- orders ---- */
/* 1: begun, and the outcome that says so is written; 0: not to be done (known, too late, or of another attempt: that is
 * reported); -errno: nothing was written, try again.
 */
int orders_begin(struct orders *orders, const struct decision *decision,
                 const struct orders_now *now);
/* `text`: why. */
int orders_finish(struct orders *orders, const char *id, enum outcome_result result,
                  const char *text, const struct orders_now *now);

/* A checkpoint or another event depth: written to the rings of all ranks.  As orders_begin(); the end follows from
 * orders_look().
 */
int orders_ask_ranks(struct orders *orders, const struct decision *decision,
                     const struct orders_now *now);
/* Looks for answers of ranks.  1: something ended and was reported; 0: nothing did; -errno. */
int orders_look(struct orders *orders, const struct orders_now *now);
/* The ranks have ended: what they have not answered is reported. */
int orders_ranks_ended(struct orders *orders, const struct orders_now *now);
bool orders_wait(const struct orders *orders); /* for ranks */

#endif
