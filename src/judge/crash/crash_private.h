/* crash_private.h - what tells a culprit from those who only noticed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_CRASH_CRASH_PRIVATE_H
#define LOCKSTEP_JUDGE_CRASH_CRASH_PRIVATE_H

#include "judge/state.h"

#define CRASH_UNCAUGHT                                                                             \
    "uncaught " /* as the Python package begins its note; "in thread NAME: " may be before it */
#define CRASH_RESTARTED "its launcher restarted the workers"
#define CRASH_NOTED "ended by an exception" /* text of an exit that only a note tells of */

/* What a rank says when another one is gone or does not answer: its own end is an echo. */
bool crash_blames_others(const struct fact_exit *fact);
/* ... and that it waited until it gave up, rather than that somebody hung up on it. */
bool crash_gave_up(const struct fact_exit *fact);

/* Its exit status is known to nobody: no launcher of ours is its parent. */
bool crash_is_unknown(const struct fact_exit *fact);
/* ... and that it ended is known by its ring alone, or by what it noted. */
bool crash_is_left(const struct fact_exit *fact);
/* One that may be the culprit or an echo. */
void crash_add(struct judge_state *judge, const struct fact_exit *fact);
/* What such an exit was, with what the rank noted before it. */
void crash_left_as(const struct judge_state *judge, const struct fact_exit *fact,
                   struct fact_exit *ret);
void crash_left_exit(struct judge_state *judge, const struct fact_exit *left);
/* The rank that closed its ring and left, nobody knows with what, before `first` was gone or when it lost somebody: `first`
 * was then ended for its sake, for all that is known.  false: none.
 */
bool crash_left_first(const struct judge_state *judge, const struct fact_exit *first,
                      struct fact_exit *ret);
void crash_left_note(struct judge_state *judge, const struct fact_note *fact);
void crash_left_clear(struct judge_state *judge);
/* An exit for want of one: that of an interpreter which ended with this exception. */
void crash_fill_noted(const struct judge_state *judge, const struct fact_note *note,
                      struct fact_exit *ret);

/* An exit that nobody needs to explain, since its rank was told to end: it may have begun to before. */
void crash_told_exit(struct judge_state *judge, const struct fact_exit *fact);
/* Keeps notes of exceptions that nobody caught and that blame nobody else. */
void crash_raised_note(struct judge_state *judge, const struct fact_note *fact);
/* The rank that had raised before `first`, who blames others, ended: while its interpreter was being taken down
 * the others noticed and were quicker.  false: there is none.  *ret is how it ended, as far as that is known.
 */
bool crash_raised(const struct judge_state *judge, const struct fact_exit *first,
                  struct fact_exit *ret);

#endif
