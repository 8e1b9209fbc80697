/* score_pool.h - cases run one after the other, or several at a time where that does not disturb.
 *
 * Only those that mostly sleep share the machine (score_case_shares); every other one has it for itself, so the order
 * is not that of the cases.
 *
 * A machine that others use is itself a fault, and judges report it.  So a case during which they took too much may be run
 * again; its verdicts are not looked at.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_SCORE_POOL_H
#define LOCKSTEP_LAB_SCORE_SCORE_POOL_H

#include "lab/score/score.h"

#define SCORE_JOBS_MAX 16
#define SCORE_FOREIGN_LOAD_LIMIT 0.1 /* cores: more than that in a second of a case is too much */

struct score_pool {
    const struct score_case *cases;
    uint32_t count, jobs;
    const bool *known; /* those that need not be run; NULL: none */
    const char *state; /* runs are kept below it: */
    bool keep_all;     /* else only those that were not right */
    uint32_t retries;  /* so often a case is run again at most */
    /* After each: -errno ends it all. */
    int (*done)(void *arg, uint32_t number, const struct score_result *result, struct err *err);
    void *arg;
};

/* 0, or -errno: what ran at that moment is stopped and lost, what was done is not. */
int score_pool_run(const struct score_pool *pool, struct err *err);

#endif
