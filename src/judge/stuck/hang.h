/* hang.h - hangs: which rank blocks which, and since when.
 *
 * Beats come in as they are; once a second all of them are laid before wait.h.  What is found twice in a
 * row in the same way is said.  A verdict stays one while the same thing holds, also when more is learnt about it
 * (stacks, further culprits), and is over when the ranks go on, or with the first step after a restart.
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
    struct judge_state *judge); /* a new one begins: nothing of the old one is waited for */
void hang_step(struct judge_state *judge,
               const struct job_step *job_step); /* how long steps take */
int hang_beat(struct judge_state *judge, const struct fact_beat *fact);
int hang_stack(struct judge_state *judge, const struct fact_stack *fact);
void hang_judge(struct judge_state *judge, int64_t now_ns);

/* A hang or desync that is open in this attempt: the exits that follow are its echoes.  NULL: none. */
struct tracked_verdict *hang_open(struct judge_state *judge);
/* A rank has given up waiting, before the limit of a hang was reached: some phases have a long one.  Whom it waited
 * for is looked at now, while it can still be seen.
 */
void hang_gave_up(struct judge_state *judge, const struct fact_exit *fact);
/* A rank was told to end, though none had failed: what was found once, and holds to this moment, is said. */
void hang_told_exit(struct judge_state *judge, const struct fact_exit *fact);
/* Says what was found when somebody gave up; NULL: nothing. */
struct tracked_verdict *hang_given_up(struct judge_state *judge, int64_t now_ns);
/* Whether a rank that ended was in a collective that others had entered with other arguments: some libraries notice
 * and end.  Then the draft says so.
 */
bool hang_disagreed(const struct judge_state *judge, const struct fact_exit *fact,
                    struct verdict *draft);
/* Memory groups of a rank's process have seen so many kills since it was watched. */
bool hang_is_gone(const struct judge_state *judge, uint32_t rank); /* its process was seen to end */
bool hang_is_alive(const struct judge_state *judge,
                   uint32_t rank); /* its newest beat was not its last */
uint32_t hang_oom_kills(const struct judge_state *judge, uint32_t rank);
/* What its agent saw it doing; false: nothing. */
bool hang_stack_of(const struct judge_state *judge, uint32_t rank, struct fact_stack *ret);
size_t hang_bytes(const struct hang *hang);

/* hang_say.c: the words.  A limit of 0: somebody gave up before it.  `late` is said before three whole steps and in
 * phases with a limit of their own.
 */
void hang_draft(const struct judge_state *judge, const struct wait_rank *rank,
                const struct wait_finding *finding, int64_t limit_ns, bool late,
                struct verdict *draft);

#endif
