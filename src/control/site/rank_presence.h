/* rank_presence.h - which ranks of a run have begun, and which of them have ended.
 *
 * A launcher reports the end of its run.  Without a launcher (a scheduler's job under the node daemon) the only
 * evidence is that every process that opened a ring is gone.  Fed with a run's log, frame by frame.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_SITE_RANK_PRESENCE_H
#define LOCKSTEP_CONTROL_SITE_RANK_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/map.h"
#include "wire/frame.h"

struct rank_presence {
    struct map rank; /* → twice the attempt, plus one when it has ended */
    size_t begun, gone;
    bool launched; /* a launcher has sent a fact */
};

int rank_presence_frame(struct rank_presence *presence,
                        const struct frame *frame); /* 0 or -ENOMEM */
/* The run has no launcher, and all ranks that began are gone: it is over if no more facts arrive. */
bool rank_presence_is_over(const struct rank_presence *presence);
void rank_presence_fini(struct rank_presence *presence);

#endif
