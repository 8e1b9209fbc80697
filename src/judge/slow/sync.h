/* sync.h - transfers that take longer than they did: which communicators, and where.
 *
 * A transfer is what is left of a collective when waiting for the last member is taken away, so that
 * a late rank does not make it longer.  Each communicator (and each pair of a pipeline) is held
 * against its own past, and against others of its kind.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_SLOW_SYNC_H
#define LOCKSTEP_JUDGE_SLOW_SYNC_H

#include "judge/state.h"

int sync_create(struct sync **ret);
void sync_destroy(struct sync *sync);
size_t sync_bytes(const struct sync *sync); /* of memory, about */
/* A new one begins: its communicators are others, but those of the same name took as long. */
void sync_attempt(struct judge_state *judge);
/* How the communication library moves collectives of a rank from now on. */
int sync_method(struct judge_state *judge, const struct fact_method *fact);

#endif
