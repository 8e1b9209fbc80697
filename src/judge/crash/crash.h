/* crash.h - which rank died first, and why.
 *
 * When a rank dies, its peers lose a connection and end as well.  The culprit is the first rank that ended badly; if two
 * are observed at once, one that was killed by a signal comes before one that exited.  The errors of all other ranks are
 * follow-on errors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_CRASH_CRASH_H
#define LOCKSTEP_JUDGE_CRASH_CRASH_H

#include "judge/state.h"

void crash_exit(struct judge_state *judge, const struct fact_exit *fact);
/* A node is lost, and its ranks with it; `ended`: they have ended for certain.  real_ns: the last that was heard of it. */
void crash_node_lost(struct judge_state *judge, const char *node, int64_t real_ns, bool ended);
void crash_note(struct judge_state *judge, const struct fact_note *fact); /* a rank's own words */
/* The attempt is over, and not well: ranks that are gone, nobody knows how, may be why. */
void crash_failed(struct judge_state *judge);
/* Workers were begun again within the attempt: how those before them left is over. */
void crash_workers_restarted(struct judge_state *judge);
/* All that ended lost a peer, and the controller may learn within so long that a node is lost: 0: it does not. */
bool crash_awaits_loss(const struct judge_state *judge, int64_t now_ns, int64_t loss_ns);
/* Judges the exits so far.  `over`: the attempt has ended; else it waits a little for more. */
void crash_judge(struct judge_state *judge, int64_t now_ns, bool over);
/* The node's agent may tell of an OOM kill only after the launcher's word about the exit was judged, on a busy
 * machine even after the next attempt began: then the verdict says it from now on.
 */
void crash_beat(struct judge_state *judge, const struct fact_beat *fact);
/* A new attempt begins: that is what was done about what ended the one before. */
void crash_restarted(struct judge_state *judge, uint32_t attempt);
/* The first step of a new attempt closes the crash that ended the one before. */
void crash_recovered(struct judge_state *judge, const struct past_step *past);

#endif
