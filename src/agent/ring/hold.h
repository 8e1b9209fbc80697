/* hold.h - facts of one ring that are held until the node's split is known, or behind such a fact.
 *
 * Order is kept: a resumed agent assumes that everything up to the last step in its spool was written.  Facts here
 * are not in the spool yet, so an agent that is killed finds them in the ring again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_RING_HOLD_H
#define LOCKSTEP_AGENT_RING_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/ring/assemble.h"
#include "agent/ring/nodesplit.h"

#define HOLD_FACTS 4 /* a ring is read some steps at a time, before those of the other ranks */
#define HOLD_NS (500 * INT64_C(1000000))

struct held_fact {
    struct assembled fact;
    int64_t since_ns;
    uint32_t met; /* ops known to have met */
};

struct hold { /* a zeroed one is empty */
    struct held_fact held[HOLD_FACTS];
    unsigned count;
};
void hold_fini(struct hold *hold);

bool hold_is_full(const struct hold *hold);
/* Takes the fact, and leaves *fact empty, unless it can go at once. */
void hold_put(struct hold *hold, struct nodesplit *split, struct assembled *fact, int64_t now_ns);
/* The oldest one, if all that it waits for has come, or it has waited long enough; *fact must be
 * empty.  INT64_MAX is always long enough.
 */
bool hold_take(struct hold *hold, const struct nodesplit *split, int64_t now_ns,
               struct assembled *fact);

#endif
