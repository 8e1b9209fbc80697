/* score_tally.h - results counted by family.
 *
 * Precision and recall are over ranks.  Their lower bounds are over cases, since the ranks of one case are no
 * independent trials: a case in which one rank is named wrongly, or missing, is wholly bad there.  So the bound
 * holds for the mean over cases too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_SCORE_TALLY_H
#define LOCKSTEP_LAB_SCORE_SCORE_TALLY_H

#include "lab/score/score.h"

#define SCORE_CASES_MAX 1024
#define SCORE_FAMILIES_MAX 48

struct score_tally { /* of a family, or of all */
    const char *family;
    uint32_t cases, found, layers, right, wrong, expected;
    uint32_t spoken,
        clean;         /* cases in which anything was said; of these, with nothing wrong in it */
    uint32_t complete; /* cases in which everybody who is to be named was */
    uint32_t verdicts;
    double brier; /* sum */
    double seconds[SCORE_CASES_MAX], steps[SCORE_CASES_MAX];
    uint32_t timed;
};

struct score_calm { /* runs about which nothing must be said: healthy ones, traps */
    const char *family;
    uint32_t cases, false_alarms;
    double seconds;
};

struct score_board {
    struct score_tally all, family[SCORE_FAMILIES_MAX];
    struct score_calm calm, calm_family[8]; /* of all, and by family */
    uint32_t families, calm_families, skipped;
};

void score_board_add(struct score_board *board, const struct score_case *at,
                     const struct score_result *result);

double score_precision(const struct score_tally *tally);
double score_precision_low95(const struct score_tally *tally);
double score_recall(const struct score_tally *tally);
double score_recall_low95(const struct score_tally *tally);
double score_layer_exact(const struct score_tally *tally);
double score_brier(const struct score_tally *tally); /* mean over verdicts; 0 where none was said */
double score_seconds(struct score_tally *tally,
                     double at); /* quantile, from the fault to the verdict */
double score_steps(struct score_tally *tally, double at);
double score_alarms_per_hour(const struct score_calm *calm);
double score_alarms_per_hour_high95(const struct score_calm *calm);

/* Was everything right about it? */
bool score_result_good(const struct score_case *at, const struct score_result *result);

#endif
