/* ledger_private.h - what the files of the ledger share: the account of each step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_LEDGER_PRIVATE_H
#define LOCKSTEP_JUDGE_LEDGER_PRIVATE_H

#include "judge/ledger.h"

#define KEPT_STEPS 8192 /* a rollback further back than this is counted from here on only */

struct step_account { /* of all ranks together */
    uint64_t step;    /* number + 1; 0: an empty place */
    bool scarce;      /* it has been booked anew */
    double seconds[LEDGER_BUCKETS];
    double
        evaluated; /* of the productive ones: a pause that is wanted, in some steps and not in others */
};

/* ledger_scarce.c */
struct scarce_typical { /* a step before cpus became scarce */
    uint64_t before;    /* the step since which they are; 0: none yet */
    double seconds[LEDGER_BUCKETS];
};

/* Books the steps anew that scarce cpus have made longer, from where the open verdicts say that it began. */
void scarce_rebook(struct scarce_typical *typical, const struct judge_state *judge, uint64_t newest,
                   struct step_account step[KEPT_STEPS], double total[LEDGER_BUCKETS]);

#endif
