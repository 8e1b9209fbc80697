/* ledger.h - every allocated GPU-second into exactly one bucket.
 *
 * Each rank has a time up to which it is accounted for; whatever happens next moves that
 * time on, so the sum is always ranks × wall time.  Places for ranks beyond these (decision.h) have no
 * account of their own: their count is integrated over time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_LEDGER_H
#define LOCKSTEP_JUDGE_LEDGER_H

#include "judge/state.h"
#include "wire/decision.h"
#include "wire/facts.h"

struct ledger_book;

int ledger_book_create(struct ledger_book **ret);
void ledger_book_destroy(struct ledger_book *book);

size_t ledger_book_bytes(const struct ledger_book *book);
void ledger_run(struct ledger_book *book, uint32_t ranks, int64_t mono_ns); /* allocation begins */
/* It began with more ranks than were believed in.  -ENOMEM. */
int ledger_grow(struct ledger_book *book, uint32_t ranks);
void ledger_attempt(struct ledger_book *book, uint32_t attempt, int64_t mono_ns); /* one begins */
/* Within an attempt all ranks begin again, on purpose, in a world of this size; the others are spare. */
void ledger_workers_restarted(struct ledger_book *book, uint32_t world, int64_t mono_ns);
/* It ended; steps of it may still come.  Not well: the work since its last step is lost. */
void ledger_attempt_end(struct ledger_book *book, uint32_t attempt, int64_t mono_ns, bool well);
void ledger_step(struct ledger_book *book, const struct judge_state *judge,
                 const struct past_step *past);
void ledger_bare(struct ledger_book *book, const struct judge_state *judge,
                 const struct job_step *job_step); /* a step without its operations */
/* From then on the run has these places; those beyond its ranks are spare or down. */
void ledger_places(struct ledger_book *book, const struct places *places);
void ledger_end(struct ledger_book *book, int64_t mono_ns); /* the run is over */
/* Nothing has moved since then, and whatever this attempt has left of it is hang ... */
void ledger_hang(struct ledger_book *book, int64_t since_ns);
void ledger_hang_lasts(struct ledger_book *book, int64_t now_ns); /* ... so far, if there is one */
void ledger_hang_over(struct ledger_book *book, int64_t now_ns);  /* it moves again */
/* Whether a hang began, or went on, in that step. */
bool ledger_was_hung(const struct ledger_book *book, const struct judge_state *judge,
                     const struct past_step *past);
int64_t ledger_began_ns(
    const struct ledger_book *book); /* this attempt: the first, the allocation */
/* The ledger as of now; what is not accounted for yet is not in wall time yet. */
void ledger_read(const struct ledger_book *book, struct ledger *ret);
/* GPU-seconds of restart, hang and lost work since the last attempt began: what a crash has cost. */
double ledger_crash_seconds(const struct ledger_book *book);

#endif
