/* optable.h - operations that have not ended: (communicator, kind, key) to times.
 *
 * Open addressing with removal.  Bounded: a full table refuses an entry, and the caller counts it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_RING_OPTABLE_H
#define LOCKSTEP_AGENT_RING_OPTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTABLE_MAX 65536

struct open_op {
    bool used, p2p;
    bool enqueued, started, ended; /* which of its records have come */
    uint8_t what, dtype;           /* enum lockstep_op and lockstep_dtype, once enqueued */
    uint16_t stream;
    int32_t comm;
    uint64_t key;
    uint64_t bytes;
    uint32_t peer;
    uint64_t ordinal; /* of its channel */
    int64_t enqueue_ns, start_ns, end_ns;
    uint64_t build; /* serial of the step it belongs to; 0: none (start-up, or already sent) */
    uint32_t item;  /* its place there */
    uint64_t since; /* serial of the newest step when it was first seen: strays are swept by it */
};

struct optable {
    struct open_op *slot;
    size_t size, used; /* size is 0 or a power of two */
};

/* Finds or adds.  NULL: full, or no memory.  Pointers live until the next put or remove. */
struct open_op *optable_put(struct optable *table, int32_t comm, bool p2p, uint64_t key);
void optable_remove(struct optable *table, struct open_op *op);
void optable_fini(struct optable *table);

#endif
