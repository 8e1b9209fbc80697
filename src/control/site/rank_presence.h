/* rank_presence.h - which ranks of a run have begun, and which of them have ended.
 *
 * A run with a launcher ends when that says so.  Where there is none (a scheduler's job under the daemon of each node),
 * all that can be seen is that every process which ever opened a ring is gone.  Fed with a run's log, frame by frame.
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
    bool launched; /* a launcher has spoken */
};

int rank_presence_frame(struct rank_presence *presence,
                        const struct frame *frame); /* 0 or -ENOMEM */
/* Nobody launched it through us, and all that began are gone: it is over if nobody speaks any more. */
bool rank_presence_is_over(const struct rank_presence *presence);
void rank_presence_fini(struct rank_presence *presence);

#endif
