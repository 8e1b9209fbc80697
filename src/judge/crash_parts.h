/* crash_parts.h - what tells a culprit from those who only noticed. */
#ifndef LOCKSTEP_JUDGE_CRASH_PARTS_H
#define LOCKSTEP_JUDGE_CRASH_PARTS_H

#include "judge/court.h"

/* What a rank says when another one is gone or does not answer: its own end is an echo. */
bool crash_blames_others(const struct fact_exit *fact);
/* ... and that it waited until it gave up, rather than that somebody hung up on it. */
bool crash_gave_up(const struct fact_exit *fact);

/* An exit that nobody needs to explain, since its rank was told to end: it may have begun to before. */
void crash_told_exit(struct court *court, const struct fact_exit *fact);
/* Keeps notes of exceptions that nobody caught and that blame nobody else. */
void crash_raised_note(struct court *court, const struct fact_note *fact);
/* The rank that had raised before `first`, who blames others, ended: while its interpreter was being taken down
 * the others noticed and were quicker.  false: there is none.  *ret is how it ended, as far as that is known.
 */
bool crash_raised(const struct court *court, const struct fact_exit *first, struct fact_exit *ret);

#endif
