/* cause.h - joins what nodes observed to the verdicts: why a rank is slow, stuck or dead.
 *
 * One pass after all judges, at each tick.  No judge knows it: a verdict names the culprit, and a finding on its node, of
 * its time and of a matching kind explains it.  The earliest sufficient finding sets layer and cause; later ones are
 * follow-on errors.  A finding that hurts no rank is a node fault of its own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_CAUSE_H
#define LOCKSTEP_JUDGE_CAUSE_H

#include "judge/state.h"
#include "wire/finding.h"

struct cause_facts {
    const struct finding *const *finding; /* of this run's nodes, in any order */
    size_t count;
    int64_t bridge_ns; /* a port that is down for so long ends the communication (settings.h) */
    int64_t now_real_ns;
    bool last; /* the run is over: what has hurt no rank will not */
};

/* Lines that a program wrote have no effect. */
void cause_judge(struct judge_state *judge, const struct cause_facts *facts);

#endif
