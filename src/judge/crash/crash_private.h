/* crash_private.h - shared by the files of the crash judge: which exits are causes, and which are follow-on errors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_CRASH_CRASH_PRIVATE_H
#define LOCKSTEP_JUDGE_CRASH_CRASH_PRIVATE_H

#include "judge/state.h"

#define CRASH_UNCAUGHT STATE_UNCAUGHT /* "in thread NAME: " may be before it */
#define CRASH_RESTARTED "its launcher restarted the workers"
#define CRASH_NOTED "ended by an exception" /* text of an exit that is known only by a note */
#define CRASH_LOST "was lost with its node" /* of one that is known only by the node's loss */

/* crash_point.c: what a rank notes when its part of a checkpoint is verified: the step, and the step of the ring in which it
 * was saved.
 */
#define CRASH_POINT "checkpoint of step %" SCNu64 " is verified, saved in step %" SCNu64
#define CRASH_POINT_TEXT "checkpoint of step %" PRIu64 " is verified, saved in step %" PRIu64
/* Whether it was such a note. */
bool crash_point_note(struct judge_state *judge, const struct fact_note *fact);
/* What a rank notes when it goes on from a checkpoint; the demo's trainer and the Python package write it. */
#define CRASH_RESTORED "restored from checkpoint of step "
/* Whether it was such a note; of this attempt or the next one. */
bool crash_restored_note(struct judge_state *judge, const struct fact_note *fact);
/* Workers were begun again: checkpoints that only some of those before them have verified are forgotten. */
void crash_points_restart(struct judge_state *judge);
/* From where the job can continue, and what is lost. */
void crash_point_describe(const struct judge_state *judge, struct verdict *draft);
/* The training goes on: the line about it says so if a rank has noted that it restored another point than was expected. */
void crash_point_continued(const struct judge_state *judge, struct verdict *verdict);

/* crash_words.c: the line that says most, without its prefix; *size 0: there is none. */
const char *crash_best_line(const char *words, size_t *size);
/* The layer of the fault that the words name; `other`: they name none. */
unsigned crash_words_layer(const char *words, unsigned other);
bool crash_words_blame(const char *words);
/* Whether the text says that another rank is gone or does not answer: then this exit is a follow-on error ... */
bool crash_blames_others(const struct fact_exit *fact);
/* ... and that the rank waited until a timeout, rather than that a peer closed the connection. */
bool crash_gave_up(const struct fact_exit *fact);

/* The newest step of that rank; others may have gone on without it.  NULL: none is known. */
const struct past_step *crash_last_step_of(const struct judge_state *judge, uint32_t rank);
/* A rank that aborted because its library received what belongs to another collective.  false: it did not. */
bool crash_draft_disagree(const struct judge_state *judge, const struct fact_exit *noticed,
                          struct verdict *draft);

/* Its exit status is not known: its parent is no launcher of ours ... */
bool crash_is_unknown(const struct fact_exit *fact);
/* ... and only its ring, or a note, shows that it ended. */
bool crash_is_left(const struct fact_exit *fact);
/* Adds an exit that may be a cause or a follow-on error. */
void crash_add(struct judge_state *judge, const struct fact_exit *fact);
/* Such an exit, with what the rank noted before it. */
void crash_left_as(const struct judge_state *judge, const struct fact_exit *fact,
                   struct fact_exit *ret);
void crash_left_exit(struct judge_state *judge, const struct fact_exit *left);
/* The rank that closed its ring and left with an unknown status before `first` ended or lost a peer: as far as is known,
 * `first` ended because of it.  false: none.
 */
bool crash_left_first(const struct judge_state *judge, const struct fact_exit *first,
                      struct fact_exit *ret);
void crash_left_note(struct judge_state *judge, const struct fact_note *fact);
void crash_left_clear(struct judge_state *judge);
/* Makes an exit from a note: that of an interpreter which ended with this exception. */
void crash_fill_noted(const struct judge_state *judge, const struct fact_note *note,
                      struct fact_exit *ret);

/* An exit of a rank that the launcher ended: it needs no explanation, unless the rank had begun to fail before. */
void crash_launcher_exit(struct judge_state *judge, const struct fact_exit *fact);
/* All that ended badly lost a peer, and the launcher had ended one before: the attempt was stopped, and nobody crashed. */
bool crash_was_stopped(const struct judge_state *judge, const struct fact_exit *first);
/* Keeps notes of uncaught exceptions that blame no other rank. */
void crash_raised_note(struct judge_state *judge, const struct fact_note *fact);
/* The rank that had raised an exception before `first`, whose exit blames others: its interpreter shut down more slowly than
 * the others noticed.  false: none.  *ret is how it ended, as far as is known.
 */
bool crash_raised(const struct judge_state *judge, const struct fact_exit *first,
                  struct fact_exit *ret);

/* A rank that noted an uncaught exception has failed, though its process does not end: libraries may wait there for the other
 * ranks.  From now on that is its end.
 */
void crash_noted_end(struct judge_state *judge, uint32_t rank);

#endif
