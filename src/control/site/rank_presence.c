/* rank_presence.c - a ring begins a rank, an exit ends it, a newer attempt begins it again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/rank_presence.h"

#include <errno.h>
#include <stdint.h>

#include "core/clean.h"
#include "wire/facts.h"

static int rank_presence_set(struct rank_presence *presence, uint32_t rank, uint32_t attempt,
                             bool ended)
{
    uint64_t state = (uint64_t)attempt * 2 + ended, *slot = map_get(&presence->rank, rank);

    if (!slot) {
        if (ended)
            return 0; /* it never opened a ring */
        presence->begun++;
        return map_put(&presence->rank, rank, state) ? 0 : -ENOMEM;
    }
    if (*slot / 2 > attempt)
        return 0;
    presence->gone -= *slot & 1;
    presence->gone += ended;
    *slot = state;
    return 0;
}

int rank_presence_frame(struct rank_presence *presence, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_ring ring;
    struct fact_exit ended;

    switch (frame->type) {
    case FRAME_RUN:
        presence->launched = true;
        return 0;
    case FRAME_RING:
        return fact_ring_get(in, &ring) < 0
                   ? 0
                   : rank_presence_set(presence, ring.rank, ring.attempt, false);
    case FRAME_EXIT:
        return fact_exit_get(in, &ended) < 0
                   ? 0
                   : rank_presence_set(presence, ended.rank, ended.attempt, true);
    default:
        return 0;
    }
}

bool rank_presence_is_over(const struct rank_presence *presence)
{
    return !presence->launched && presence->begun > 0 && presence->gone == presence->begun;
}

void rank_presence_fini(struct rank_presence *presence)
{
    map_fini(&presence->rank);
    *presence = (struct rank_presence){ 0 };
}
