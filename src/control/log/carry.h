/* carry.h - carries verdicts and ledger over to the new judges after a compaction.
 *
 * The new judges know only the facts of the newest part of the log, and their output on it is dropped.  From then
 * on: a verdict that was open before and that they have open as well keeps its earlier start, and its earlier costs
 * are added.  A verdict that they do not know stays open until they name it or the run is closed, because nothing
 * shows that it is over.  Verdicts about a time that they have not observed completely are dropped.  The ledger
 * continues from its last value.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_CARRY_H
#define LOCKSTEP_CONTROL_LOG_CARRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/core.h"
#include "core/buf.h"
#include "core/map.h"
#include "wire/facts.h"
#include "wire/verdict.h"

struct carried {
    struct verdict old, warm; /* by the old judges, by the new ones; id "": nothing */
    uint64_t warm_tick;       /* at which the new judges wrote it */
    double before_seconds;    /* what it had cost by then that the new ones do not count */
    bool goes_on;             /* both have it open */
    bool orphan;              /* open, and only the old ones knew */
    bool hidden;              /* the new ones have it open, of a time before theirs */
    bool unwritten;           /* the new judges have it open, and it was not written */
};

struct carry {
    bool active; /* the new judges speak */
    struct carried *one;
    size_t count, room;
    struct map id;
    uint64_t tick;            /* counts those that the new judges heard in silence */
    uint64_t reported_tick;   /* at this one all open verdicts were written; 0: not yet */
    int64_t complete_real_ns; /* from here on the new judges have seen everything */
    bool has_ledger;          /* both ledgers are known at the same tick */
    struct ledger before;     /* to be added to the new one's */
};

void carry_fini(struct carry *carry);
/* A verdict or ledger of the old judges; `core`: the new one, at the same tick, or NULL. */
int carry_output(struct carry *carry, uint16_t type, struct reader in, const struct core *core);
int carry_warm(struct carry *carry, uint16_t type, const struct buf *payload); /* of the new ones */
bool carry_is_ready(
    const struct carry *carry); /* costs and ledgers of both are known at the same ticks */
void carry_speak(struct carry *carry);
/* The output of the new judges at a tick, as it is written; then once a tick, after all of it. */
void carry_emit(struct carry *carry, uint16_t type, const struct buf *payload, core_emit *emit,
                void *arg);
void carry_tick(struct carry *carry, const struct fact_tick *tick, core_emit *emit, void *arg);

#endif
