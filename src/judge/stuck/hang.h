/* hang.h - hangs: which rank blocks which, and since when.
 *
 * Once a second wait.h examines the newest beats of all ranks.  A result is reported if it was found twice in a row.  A
 * verdict keeps its identity while the same ranks block the others, also if more is learnt about it (stacks, further
 * culprits).  It closes when the ranks advance, or with the first step after a restart.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_STUCK_HANG_H
#define LOCKSTEP_JUDGE_STUCK_HANG_H

#include "judge/state.h"
#include "judge/stuck/wait.h"

struct hang;

int hang_create(struct hang **ret);
void hang_destroy(struct hang *hang);

void hang_attempt(
    struct judge_state *judge); /* a new one begins: forgets the beats of the old one */
void hang_step(struct judge_state *judge,
               const struct job_step *job_step); /* how long steps take */
int hang_beat(struct judge_state *judge, const struct fact_beat *fact);
int hang_stack(struct judge_state *judge, const struct fact_stack *fact);
void hang_judge(struct judge_state *judge, int64_t now_ns);

/* The hang or desync that is open in this attempt: exits after it are follow-on errors.  NULL: none. */
struct tracked_verdict *hang_open(struct judge_state *judge);
/* A rank has given up waiting before the limit of a hang was reached, as some phases have a long one.  Examines what it
 * waited for while the beats still show it.
 */
void hang_gave_up(struct judge_state *judge, const struct fact_exit *fact);
/* The launcher ended a rank, though none had failed: reports what was found once and is still true. */
void hang_launcher_exit(struct judge_state *judge, const struct fact_exit *fact);
/* Reports what was found when a rank gave up; NULL: nothing. */
struct tracked_verdict *hang_given_up(struct judge_state *judge, int64_t now_ns);
/* Whether a rank that ended was in a collective that others had entered with different arguments: some libraries notice
 * this and exit.  Then the draft says so.
 */
bool hang_disagreed(const struct judge_state *judge, const struct fact_exit *fact,
                    struct verdict *draft);
bool hang_is_gone(const struct judge_state *judge, uint32_t rank); /* its process was seen to end */
bool hang_is_alive(const struct judge_state *judge,
                   uint32_t rank); /* its newest beat was not its last */
/* Kills in the memory groups of the rank's process since it was observed. */
uint32_t hang_oom_kills(const struct judge_state *judge, uint32_t rank);
/* The stack that its agent sent; false: none. */
bool hang_stack_of(const struct judge_state *judge, uint32_t rank, struct fact_stack *ret);
size_t hang_bytes(const struct hang *hang);

/* hang_text.c: the text.  A limit of 0: a rank gave up before it.  `late`: before three complete steps, and in phases
 * with a limit of their own.
 */
void hang_draft(const struct judge_state *judge, const struct wait_rank *rank,
                const struct wait_finding *finding, int64_t limit_ns, bool late,
                struct verdict *draft);

#endif
