/* score_card.h - fills the score card of a run from its directory.
 *
 *     score_card_read(run_dir, &(struct score_question){ .price = 2 }, card, &err);
 *
 * One pass gives the summary that `why` prints, another the steps.  A hundred bytes are kept for each step, and at most
 * SCORE_STEPS steps; those beyond it are counted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_SCORE_CARD_H
#define LOCKSTEP_CONTROL_REPORT_SCORE_CARD_H

#include <stddef.h>

#include "core/err.h"
#include "show/score_view.h"

#define SCORE_STEPS (1u << 20)

struct score_question {                /* 0: not given */
    double flop_per_token, peak_flops; /* peak: of one GPU, a second; else by its name */
    const char *precision;             /* of the peak by name; NULL: bf16 */
    double price;                      /* of a GPU-hour */
};

int score_card_read(const char *run_dir, const struct score_question *question,
                    struct score_card *ret, struct err *err);

/* Goodput, ETTR, MTTF and the dearest verdicts of several runs together. */
void score_card_sum(const struct score_card *card, size_t count, struct score_card *ret);

/* Mean time to failure and its 95 % interval from that many failures in that many seconds, failures being Poisson; NAN: not
 * known, and without a failure there is only a lower bound.
 */
void score_card_mttf(double seconds, uint32_t failures, double *middle, double *low, double *high);

#endif
