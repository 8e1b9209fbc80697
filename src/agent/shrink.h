/* shrink.h - a spool that has grown too large is written anew, without what can be missed most.
 *
 * Steps and beats that the controller has go first and without a word, but for a ring's last step, from
 * which the next agent goes on.  Of those it does not have, the oldest go until the rest fits, and are told as
 * gaps.  All else is evidence of verdicts (exits, notes, hellos, shapes, stacks ...) and stays.
 */
#ifndef LOCKSTEP_AGENT_SHRINK_H
#define LOCKSTEP_AGENT_SHRINK_H

#include <stdint.h>

#include "core/err.h"
#include "wire/facts.h"

struct shrink_gaps {
    struct fact_gap *gap; /* steps that are lost, one a ring; free with shrink_gaps_fini() */
    size_t count, room;
};
void shrink_gaps_fini(struct shrink_gaps *gaps);

/* Copies `path` to `to`: of what was not acknowledged at most `bytes_max`.  The last frame always stays,
 * so that numbers go on.  Returns 0, and the caller puts `to` in its place.
 */
int shrink_copy(const char *path, const char *to, uint64_t bytes_max,
                uint64_t (*acknowledged)(const void *arg, uint64_t boot), const void *arg,
                struct shrink_gaps *ret, struct err *err);

#endif
