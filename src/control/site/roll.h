/* roll.h - which ranks of a run have begun, and which of them have ended.
 *
 * A run with a launcher ends when that says so.  Where there is none (a scheduler's job under the daemon of each node),
 * all that can be seen is that every process which ever opened a ring is gone.  Fed with a run's log, frame by frame.
 */
#ifndef LOCKSTEP_CONTROL_SITE_ROLL_H
#define LOCKSTEP_CONTROL_SITE_ROLL_H

#include <stdbool.h>
#include <stddef.h>

#include "core/map.h"
#include "wire/frame.h"

struct roll {
    struct map rank; /* → twice the attempt, plus one when it has ended */
    size_t begun, gone;
    bool launched; /* a launcher has spoken */
};

int roll_frame(struct roll *roll, const struct frame *frame); /* 0 or -ENOMEM */
/* Nobody launched it through us, and all that began are gone: it is over if nobody speaks any more. */
bool roll_is_over(const struct roll *roll);
void roll_fini(struct roll *roll);

#endif
