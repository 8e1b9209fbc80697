/* flight.h - flight-recorder dumps of PyTorch, one file per rank, collected in one table.
 *
 * A dump is a pickle or a JSON text: {version, pg_config {name: {name, desc, ranks "[0, 1]"}}, pg_status {local
 * number: {last_enqueued_collective, last_started_collective, last_completed_collective}}, entries [{pg_id,
 * process_group [name, desc], collective_seq_id, p2p_seq_id, is_p2p, profiling_name, input_sizes, ...}]}.  Older
 * dumps lack some parts; missing parts are unknown, not errors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_FLIGHT_H
#define LOCKSTEP_READ_FLIGHT_H

#include "core/map.h"
#include "read/value_tree.h"
#include "wire/dump.h"

struct flight { /* a gatherer; zero it before the first */
    struct dumps dumps;
    size_t rank_room, group_room, what_room;
    struct map groups, whats; /* content to index */
    struct budget *budget;    /* of its tables; NULL: no limit */
    int64_t written_ns;       /* the next file was written then; 0: not known */
};

bool flight_is(const struct value_tree *tree); /* is this a dump? by its keys */
/* One rank's dump.  -EPROTO: what is wrong with it; nothing of it is kept then.  -ENOMEM. */
int flight_add(struct flight *flight, uint32_t rank, const char *file,
               const struct value_tree *tree, struct err *err);
/* A rank of which a file exists that says nothing. */
int flight_add_left(struct flight *flight, uint32_t rank, const char *file, enum dump_left left);
/* Sorts, adds the ranks that groups name and that left nothing, and gives the table away. */
int flight_take(struct flight *flight, struct dumps *ret);
void flight_fini(struct flight *flight);

#endif
