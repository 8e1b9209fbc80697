/* dump.h - the collectives that the ranks of a dead job recorded.
 *
 * Readers fill it from flight-recorder dumps (read/flight.h); autopsy/postmortem.h finds the culprit.  A rank
 * records an op when its host enqueues it; only some recorders know whether the device has started or finished it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_WIRE_DUMP_H
#define LOCKSTEP_WIRE_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DUMP_NONE UINT32_MAX
#define DUMP_UNKNOWN INT64_MIN /* an unknown number */

enum dump_state { /* of an op */
    DUMP_SCHEDULED = 1,
    DUMP_STARTED = 2,
    DUMP_COMPLETED = 3,
};

enum dump_left { /* what a rank left */
    DUMP_NOTHING,
    DUMP_READ,
    DUMP_EMPTY,   /* a dump without a single op */
    DUMP_DAMAGED, /* one that cannot be read */
    DUMP_TRUNCATED, /* one that ends in the middle: its process was ended while it wrote, so it was alive until then */
};

struct dump_group {
    char name[40], about[64]; /* the name is the same on all ranks; about: what it is for */
    uint32_t *member;         /* sorted ranks; a member's index here is its rank in the group */
    uint32_t members;
    bool given; /* the dumps list the members; else they are the ranks that used it */
    bool
        messages; /* some of its numbers were messages between unknown ranks: numbers cannot be compared */
};

struct dump_what { /* an op without its number */
    char name[40], dtype[40], sizes[64];
    uint64_t in_count, out_count; /* elements */
};

struct dump_op {
    int64_t seq; /* of collectives of this group; of point-to-point: of those */
    int64_t created_ns;
    uint32_t group, what;
    uint32_t peer; /* of point-to-point: the other's rank; DUMP_NONE: a collective */
    uint8_t state; /* enum dump_state */
    bool sends;
};

struct dump_status {                      /* what a rank says of a group as a whole */
    uint32_t group;                       /* DUMP_NONE: only its local number is known */
    int64_t local;                        /* that number */
    int64_t enqueued, started, completed; /* DUMP_UNKNOWN; -1: none yet */
};

struct dump_rank {
    uint32_t rank;
    uint8_t left; /* enum dump_left */
    struct dump_op *op;
    struct dump_status *status;
    size_t ops, statuses;
    bool complete;      /* it holds every op since the start: nothing was overwritten */
    int64_t written_ns; /* when the file was written; 0: not known */
    char file[64];      /* "" : none */
};

struct dumps {
    struct dump_rank *rank; /* sorted by rank */
    struct dump_group *group;
    struct dump_what *what;
    size_t ranks, groups, whats;
};

void dumps_fini(struct dumps *dumps);

#endif
