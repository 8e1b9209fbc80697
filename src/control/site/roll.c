/* roll.c - rings begin a rank, exits end it; a newer attempt begins it again. */
#include "control/site/roll.h"

#include <errno.h>
#include <stdint.h>

#include "core/clean.h"
#include "wire/facts.h"

static int roll_set(struct roll *roll, uint32_t rank, uint32_t attempt, bool ended)
{
    uint64_t state = (uint64_t)attempt * 2 + ended, *slot = map_get(&roll->rank, rank);

    if (!slot) {
        if (ended)
            return 0; /* it never opened a ring */
        roll->begun++;
        return map_put(&roll->rank, rank, state) ? 0 : -ENOMEM;
    }
    if (*slot / 2 > attempt)
        return 0;
    roll->gone -= *slot & 1;
    roll->gone += ended;
    *slot = state;
    return 0;
}

int roll_frame(struct roll *roll, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_ring ring;
    struct fact_exit ended;

    switch (frame->type) {
    case FRAME_RUN:
        roll->launched = true;
        return 0;
    case FRAME_RING:
        return fact_ring_get(in, &ring) < 0 ? 0 : roll_set(roll, ring.rank, ring.attempt, false);
    case FRAME_EXIT:
        return fact_exit_get(in, &ended) < 0 ? 0 : roll_set(roll, ended.rank, ended.attempt, true);
    default:
        return 0;
    }
}

bool roll_is_over(const struct roll *roll)
{
    return !roll->launched && roll->begun > 0 && roll->gone == roll->begun;
}

void roll_fini(struct roll *roll)
{
    map_fini(&roll->rank);
    *roll = (struct roll){ 0 };
}
