/* outbox.h - writes the agent's frames to its spool.
 *
 * If a frame cannot be written (disk full), the put returns -errno without effect, and the caller repeats it.  The
 * begin and the end of such a failure are logged, at most once a minute.  The simulated clock skew of the node is
 * added here and nowhere else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_OUTBOX_H
#define LOCKSTEP_AGENT_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/err.h"
#include "wire/decision.h"
#include "wire/facts.h"
#include "wire/finding.h"
#include "wire/spool.h"

#define SHAPE_SETS                                                                                 \
    256 /* shapes known to be in the spool: 4 a set, the one not used for longest goes */
#define SHAPE_WAYS 4

/* Of one attempt: the controller forgets what former ones used. */
struct shape_cache {
    uint32_t attempt;
    uint64_t hash[SHAPE_SETS][SHAPE_WAYS]; /* newest first; 0: none */
};
bool shape_cache_has(struct shape_cache *cache, uint64_t hash); /* and makes it the newest */
void shape_cache_add(struct shape_cache *cache, uint64_t hash);
void shape_cache_attempt(struct shape_cache *cache, uint32_t attempt); /* a later one empties it */

struct outbox {
    struct spool_writer *writer;
    struct buf payload;
    int64_t skew_ns;
    bool blocked;                /* it did not take the latest frame */
    int64_t since_ns, failed_ns; /* trouble: since when, 0: none; and when last */
    int64_t trouble_again_ns;    /* not sooner: a disk that is almost full takes some frames */
    struct err why;
    struct shape_cache shapes;
};

void outbox_fini(struct outbox *outbox);
int outbox_hello(struct outbox *outbox, const char *run, const char *node);
int outbox_ring(struct outbox *outbox, const struct fact_ring *fact);
int outbox_comm(struct outbox *outbox, const struct fact_comm *fact);
int outbox_step(struct outbox *outbox, const struct fact_step *step,
                const struct fact_shape *shape); /* and the shape, if it is new */
int outbox_beat(struct outbox *outbox, const struct fact_beat *fact);
int outbox_gap(struct outbox *outbox, const struct fact_gap *fact);
int outbox_method(struct outbox *outbox, const struct fact_method *fact);
int outbox_note(struct outbox *outbox, const struct fact_note *fact);
int outbox_traffic(struct outbox *outbox, const struct fact_traffic *fact);
int outbox_stack(struct outbox *outbox, const struct fact_stack *fact);
int outbox_environment(struct outbox *outbox, const struct environment *environment);
int outbox_finding(struct outbox *outbox, const struct finding *finding);
int outbox_exit(struct outbox *outbox, const struct fact_exit *fact);
int outbox_outcome(struct outbox *outbox, const struct outcome *outcome);

#endif
