/* price.h - what each of several suspects costs the newest step, priced together by replay.
 *
 * Of two ranks that are equally slow neither costs anything alone, since the other holds up the step just as much.  So suspects are
 * removed one after the other, the dearest first by the first-order costs of one backward pass; each costs what its removal gives
 * back then, and the mean of that and of the reverse order counts.  The sum is what the removal of all gives back: no second is
 * blamed twice, and what only follows from something else costs little beside it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_PRICE_H
#define LOCKSTEP_JUDGE_PRICE_H

#include "judge/state.h"

#define PRICE_NOBODY 0xff
#define PRICE_MAX 64     /* suspects */
#define PRICE_REPLAYS 32 /* of a step, at most */

struct price {
    double all_ms;             /* had all suspects been as their peers; -1: not known (no fit) */
    double cost_ms[PRICE_MAX]; /* by suspect; they add up to all_ms */
};

/* who[rank]: its suspect, below `count`, or PRICE_NOBODY; several ranks may be one suspect. */
void price_ranks(struct judge_state *judge, const uint8_t *who, uint32_t count, struct price *ret);
/* Open verdicts about slowness that were seen in the newest step, of whatever judge: where there are several, what each costs
 * beside the others, in the same way.  Those without a remedy (state.h) keep their cost.
 */
void price_verdicts(struct judge_state *judge);
/* The remedy of a straggler: its ranks do their work as their peers do.  Not of one that moves, nor of a node without CPUs. */
bool price_remedy_ranks(struct judge_state *judge, const struct tracked_verdict *tracked);
/* Of one rank alone; -1: not known. */
double price_rank_ms(struct judge_state *judge, uint32_t rank);

/* The line of evidence that says what would be gained, and the same with the cost of now: a verdict has one cost, of the
 * same steps wherever it is told.
 */
void price_because(struct verdict *draft, double period_ms, const char *shorter_if);
void price_renew(struct verdict *verdict, double period_ms);

#endif
