/* shrink.h - a spool that has grown too large is written anew, with its oldest steps merged.
 *
 * Steps and beats that the controller has go first and without a word, but for a ring's last step, from which
 * the next agent goes on.  Of those it does not have, the oldest steps are merged until the rest fits: blocks of
 * 64 steps, or of as many more as it takes, become one frame of what each rank worked; beats go with
 * them.  All else is evidence of verdicts and stays: exits, notes, hellos, shapes, stacks, the last beat of a rank and
 * those of a rank that stood still.
 *
 * Losses, gradient norms and digests are evidence, too, whatever they are: who was first to differ is seen only beside
 * the others.  So of a step that has one only the ops go (STEP_BARE).  When such steps alone are too many, the oldest
 * are merged after all, but for the first of each rank with a number that is not finite.
 *
 * A merged frame has the number of the last one that went into it, and says how many others went, so that
 * numbers still tell what is lost.  What may have reached the controller unacknowledged is not merged:
 * it would be told twice.
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
