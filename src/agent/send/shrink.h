/* shrink.h - rewrites a spool that is too large, with its oldest steps merged.
 *
 * Steps and beats that the controller has are dropped first, except for the last step of a ring, at which the next
 * agent resumes.  Of the others, the oldest steps are merged until the rest fits: blocks of 64 or more steps become
 * one frame with each rank's work, and their beats are dropped.  Everything else is evidence of verdicts and stays:
 * exits, notes, hellos, shapes, stacks, the last beat of a rank and the beats of a rank that did not advance.
 *
 * Losses, gradient norms and digests are evidence as well: which rank differed first is visible only in comparison
 * with others.  So a step with such a value loses only its ops (STEP_BARE).  If such steps alone are too many, the
 * oldest are merged as well, except for the first of each rank with a value that is not finite.
 *
 * A merged frame has the number of its last frame and counts the others, so lost frames can still be found by
 * number.  Frames that may have reached the controller without acknowledgement are not merged, because they would
 * count twice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_SEND_SHRINK_H
#define LOCKSTEP_AGENT_SEND_SHRINK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct shrink_settings {
    uint64_t bytes_max; /* of steps and beats that were not acknowledged */
    /* Up to which number of that boot the controller has everything. */
    uint64_t (*acknowledged)(const void *arg, uint64_t boot);
    const void *arg;
    bool any_sent; /* frames up to this number may have been sent; it goes on across boots */
    uint64_t sent_number;
};

struct shrink_counts { /* steps that were not so before */
    uint64_t merged;
    uint64_t bared;          /* whose ops are gone */
    uint64_t numbers_merged; /* of those merged, that had a loss, a norm or a digest */
};

/* Copies `path` to `to`, which the caller puts in its place.  The last frame always stays, so that
 * numbers go on.
 */
int shrink_copy(const char *path, const char *to, const struct shrink_settings *settings,
                struct shrink_counts *ret, struct err *err);

#endif
