/* score_plan.h - which cases a score has: those that are drawn for a wish, or all there are.
 *
 * A full score has every fault of every family on the first, middle and last rank of 4, 8 and 16 ranks, in layouts that
 * the seed chooses; each family keeps its cases when others grow.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_SCORE_PLAN_H
#define LOCKSTEP_LAB_SCORE_SCORE_PLAN_H

#include "lab/score/score.h"

#define SCORE_PLAN_DEFAULT UINT32_MAX

struct score_filter {
    uint64_t seed;
    bool all;                /* the full score, of `only` where that is given */
    const char *only;        /* families or sets, a comma between; NULL: the usual set, or all */
    uint32_t cases, healthy; /* SCORE_PLAN_DEFAULT; in a full score of each family, at most */
    double healthy_seconds;  /* of long healthy runs besides */
};

/* Returns how many cases there are; their twins (score.h) come after them. */
uint32_t score_plan(const struct score_filter *filter, struct score_case *ret, uint32_t room);
bool score_plan_has(const char *family);       /* whether --only may name it */
void score_plan_names(char *out, size_t room); /* all that it may name */

/* May it run beside others?  Those that mostly sleep, and are not held against the clock. */
bool score_case_shares(const struct score_case *at);

#endif
