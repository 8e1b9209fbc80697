/* ledger_scores.h - how many of the seconds that faults cost are in the bucket where they belong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_LEDGER_SCORES_H
#define LOCKSTEP_LAB_SCORE_LEDGER_SCORES_H

#include "lab/score/score.h"
#include "lab/score/score_tally.h"

struct score_booked { /* a case with a fault and a twin */
    uint32_t number;
    double due, found; /* GPU-seconds lost, and of them in their bucket */
    double error;      /* as a share of them */
};

struct score_book { /* of several together */
    const char *name;
    double due, found;
};

struct ledger_scores {
    uint32_t count;
    struct score_booked at[SCORE_CASES_MAX];
    double error[SCORE_CASES_MAX]; /* of each, for its quantiles */
    double most;                   /* the largest, either way */
    double blur;   /* share of a run by which two healthy ones with the same seed differ, at most */
    uint32_t good; /* within 5 % */
    uint32_t blurred; /* not, but within that blur */
    struct score_book all, family[16];
    uint32_t families;
};

void ledger_scores_fill(const struct score_case *cases, const struct score_result *results,
                        uint32_t count, struct ledger_scores *ledger_scores);
double score_book_error(const struct score_book *book); /* share of what is due */
/* Every family's within 5 %, and every case's within 5 % or a blur that is itself below 1 %. */
bool ledger_scores_good(const struct ledger_scores *ledger_scores);

#endif
