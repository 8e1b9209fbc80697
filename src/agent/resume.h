/* resume.h - the facts that the spool of an agent already contains.
 *
 * Read once at the start.  Rings are then read again from their oldest record, and only missing facts are written:
 * each step is in the spool exactly once, however often the agent was killed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_RESUME_H
#define LOCKSTEP_AGENT_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/outbox.h"
#include "agent/ring/assemble.h"
#include "core/map.h"

struct resume_ring {
    uint32_t rank, attempt, ring;
    bool announced, has_layout;
    uint32_t pid;
    bool final, exited; /* its final beat and its exit were sent */
    struct assemble_done done;
};

struct resume {
    struct resume_ring *ring;
    size_t count, room;
    struct map comms;        /* hash of (rank, attempt, id) */
    struct map notes;        /* hash of (rank, attempt, time, text) */
    struct map method_count; /* hash of all that one says */
    struct map environments; /* hash of (rank, attempt) */
    struct outcome *outcome; /* of orders, not of single ranks */
    size_t outcomes, outcome_room;
};

/* A spool that is not there is an empty one.  Fills the cache of shapes, too. */
int resume_read(const char *path, int64_t skew_ns, struct resume *resume,
                struct shape_cache *shapes, struct err *err);
void resume_fini(struct resume *resume);

/* Lives until the next call; NULL: no memory.  One that was not known is added. */
struct resume_ring *resume_ring(struct resume *resume, uint32_t rank, uint32_t attempt,
                                uint32_t ring);
bool resume_has_comm(const struct resume *resume, const struct fact_comm *fact);
void resume_add_comm(struct resume *resume, const struct fact_comm *fact);
bool resume_has_note(const struct resume *resume, const struct fact_note *fact);
bool resume_has_environment(const struct resume *resume, uint32_t rank, uint32_t attempt);
void resume_add_environment(struct resume *resume, uint32_t rank, uint32_t attempt);
bool resume_has_method(const struct resume *resume, const struct fact_method *fact);

#endif
