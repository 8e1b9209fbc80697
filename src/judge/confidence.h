/* confidence.h - how likely a verdict about slowness is right, by what it rests on: one function for all judges.
 *
 * Each judge says how much its kind of evidence proves at best.  What lowers that is the same for all of them: few peers or none,
 * an excess near the least that counts, hosts that stand for devices, and a step that the replay does not reproduce.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_CONFIDENCE_H
#define LOCKSTEP_JUDGE_CONFIDENCE_H

#include "judge/state.h"

enum confidence_against { /* what the slow one is held against */
    AGAINST_PEERS,        /* ranks that do the same: `rank` says which */
    AGAINST_OTHERS, /* other links, nodes or stages of the same step, or a limit that all can see */
    AGAINST_PAST,   /* the same thing before */
    AGAINST_JOB     /* the whole job before: whatever else changed is in it, too */
};

struct confidence {
    double best; /* of this kind of evidence */
    double
        best_host; /* ... where hosts stand for devices; 0: as for all that is held against the same */
    double margin; /* times the least that counts; 0: it is counted, not measured */
    enum confidence_against against;
    uint32_t rank;
    bool unpriced; /* no replay says what it costs */
};

double confidence_of(const struct judge_state *judge, const struct confidence *basis);

#endif
