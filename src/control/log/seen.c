/* seen.c - frame numbers by sender and boot.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/seen.h"

#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"
#include "core/hash.h"

void seen_fini(struct seen *seen)
{
    map_fini(&seen->map);
    free(seen->origin);
    *seen = (struct seen){ 0 };
}

size_t seen_bytes(const struct seen *seen)
{
    return map_bytes(&seen->map) + seen->room * sizeof(*seen->origin);
}

static uint64_t *seen_place_of(struct seen *seen, const struct frame *frame)
{
    return map_put(&seen->map, hash64_u64(frame->sender, frame->boot), UINT64_MAX);
}

static int seen_origin_add(struct seen *seen, const struct frame *frame, uint64_t *place)
{
    if (!ARRAY_FIT(seen->origin, seen->room, seen->count + 1))
        return -ENOMEM;
    *place = seen->count;
    seen->origin[seen->count++] =
        (struct seen_origin){ .sender = frame->sender, .boot = frame->boot };
    return 0;
}

int seen_mark(struct seen *seen, const struct frame *frame)
{
    uint64_t *place = seen_place_of(seen, frame);

    if (!place || (*place == UINT64_MAX && seen_origin_add(seen, frame, place) < 0))
        return -ENOMEM;
    if (frame->number >= seen->origin[*place].next && frame->number < UINT64_MAX)
        seen->origin[*place].next = frame->number + 1;
    return 0;
}

uint64_t seen_next(const struct seen *seen, uint64_t sender, uint64_t boot)
{
    const uint64_t *place = map_get(&seen->map, hash64_u64(sender, boot));

    return place && *place < seen->count ? seen->origin[*place].next : 0;
}

bool seen_has(const struct seen *seen, const struct frame *frame)
{
    return frame->number < seen_next(seen, frame->sender, frame->boot);
}

int seen_set(struct seen *seen, uint64_t sender, uint64_t boot, uint64_t next)
{
    struct frame last = { .sender = sender, .boot = boot, .number = next - 1 };

    return next ? seen_mark(seen, &last) : 0;
}
