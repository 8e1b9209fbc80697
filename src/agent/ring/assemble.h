/* assemble.h - one ring's events in, steps out.
 *
 * Pure: no clock, no file.  Events may come in any order between lanes, twice, or not at all;
 * nothing here grows without bound and nothing crashes on a hostile ring.
 *
 * A step goes out when the next one has begun, a further pass over the lanes has found
 * nothing more of it, all its operations have ended and the scheduler has been sampled after its end; at the
 * latest when two later steps have ended, or when the ring is final.
 *
 * Records that were overwritten unread tear the steps they belonged to.  A torn step of which
 * begin and end survived goes out with STEP_TORN and without items: its duration, metrics and
 * scheduler times are true, but an op list with holes would be a shape that no peer has.  A step
 * whose begin is lost goes into the gap.  A gap goes out just before the step after it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_RING_ASSEMBLE_H
#define LOCKSTEP_AGENT_RING_ASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/proc/sample.h"
#include "agent/ring/nodesplit.h"
#include "wire/facts.h"
#include "wire/ring.h"

struct assemble;

struct assemble_id {
    uint32_t rank, attempt, ring;
};

/* The facts of a ring that are already in the spool. */
struct assemble_done {
    bool any;         /* something has */
    bool gap;         /* and a gap was the last of it */
    uint64_t step;    /* the last step sent, or the last one of that gap */
    int64_t begin_ns; /* of the last step sent, in the ring's clock; INT64_MIN: none */
};

enum assembled_kind {
    ASSEMBLED_NONE = 0,
    ASSEMBLED_STEP,
    ASSEMBLED_GAP,
    ASSEMBLED_NOTE,
    ASSEMBLED_METHOD
};

struct assembled { /* a zeroed one is empty; release with assembled_fini() */
    enum assembled_kind kind;
    struct fact_shape shape;
    struct fact_step step;
    struct fact_gap gap;
    struct fact_note note;
    struct fact_method method;
    struct split_op *op; /* the step's single ops, where they were merged or asked for */
    uint32_t ops;
};
void assembled_fini(struct assembled *out);

struct assemble *assemble_create(const struct assemble_id *id); /* NULL: no memory */
void assemble_destroy(struct assemble *assemble);

void assemble_resume(struct assemble *assemble, const struct assemble_done *done);
void assemble_comm(struct assemble *assemble, uint32_t index, uint64_t id);
bool assemble_knows_comm(const struct assemble *assemble, int32_t index);
/* Steps come with their single ops also when none was merged. */
void assemble_keep_ops(struct assemble *assemble, bool keep);
void assemble_event(struct assemble *assemble, const struct ring_event *event);
/* A stamp that the device has run, and when, by the host's clock. */
void assemble_stamp(struct assemble *assemble, uint64_t tag, int64_t time_ns);
/* All lanes have been read as far as they went. */
void assemble_round(struct assemble *assemble);
void assemble_sample(struct assemble *assemble, const struct sample *sample);
/* No more events will come.  `gone_ns`: until when the rank is known to have lived; 0: unknown. */
void assemble_finish(struct assemble *assemble, int64_t gone_ns);

/* The next thing to send, in order.  1 with *out set, 0 when there is none now, -ENOMEM (try
 * again).  *out must be empty.
 */
int assemble_take(struct assemble *assemble, struct assembled *out);

/* Where the rank is now: sets phase, step, ages, ops and the advanced flags, which compare with
 * the call before.  `now_ns` in the ring's clock.
 */
unsigned assemble_phase(const struct assemble *assemble); /* the innermost open one; 0: none */
void assemble_view(struct assemble *assemble, int64_t now_ns, struct fact_beat *beat);
/* Methods that were not recorded, because there are too many or they change too often. */
uint64_t assemble_methods_dropped(const struct assemble *assemble);

#endif
