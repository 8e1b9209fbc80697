/* run_facts.h - the findings, checks, outcomes and environments of a run, as far as later judgements need them.
 *
 * Everything is bounded: the newest findings, outcomes and checks stay, and of the environments what environments.h says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_RUN_FACTS_H
#define LOCKSTEP_CONTROL_RUN_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/environments.h"
#include "wire/decision.h"
#include "wire/finding.h"
#include "wire/frame.h"

#define RUN_FACTS_FINDINGS 512
#define RUN_FACTS_CHECKS 512
#define RUN_FACTS_OUTCOMES 512

struct run_finding {
    struct finding finding;
    bool root; /* a node's root daemon sent it, not a process of the run's user */
};

struct run_facts {
    struct run_finding *finding; /* oldest first; so are the others */
    size_t findings, finding_room;
    struct check *check;
    size_t checks, check_room;
    struct outcome *outcome;
    size_t outcomes, outcome_room;
    struct environments environments;
    struct places places; /* newest; allocated 0: none came */
    uint64_t forgotten;   /* older ones */
};

void run_facts_fini(struct run_facts *facts);
size_t run_facts_bytes(const struct run_facts *facts);
/* A frame of one of these types.  `ranks`: those that there are; environments of others have no effect.  -EPROTO,
 * -ENOMEM.
 */
int run_facts_feed(struct run_facts *facts, const struct frame *frame, uint32_t ranks);
bool run_facts_has(uint16_t type); /* whether it is one of them */

#endif
