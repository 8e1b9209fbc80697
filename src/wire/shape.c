/* shape.c - what a step is made of: hashing, and merging until a step fits its bound. */
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "lockstep/probe.h"
#include "wire/facts.h"

#define STEP_HEAD_BYTES 224 /* fixed fields of a step and its metrics, rounded up */
#define STEP_ITEM_BYTES 6
#define STEP_WAIT_BYTES 2 /* of a merged op, if the step is split: that the merging cannot know */

static uint64_t item_key(const struct shape_item *item) /* ops that may merge have the same */
{
    uint64_t key = hash64_u64(item->kind, item->what);

    key = hash64_u64(key, item->stream);
    key = hash64_u64(key, item->peer);
    return hash64_u64(key, item->comm);
}

/* One try with 2^shift ops a merged item.  Returns the count, or SIZE_MAX without memory. */
static size_t merge_by(const struct shape_item *item, size_t count, unsigned shift,
                       struct shape_item *merged, uint32_t *group)
{
    CLEAN(map_fini) struct map open = { 0 }; /* key → merged item that still has room */
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t *at = map_put(&open, item_key(&item[i]), SIZE_MAX);

        if (!at)
            return SIZE_MAX;
        if (*at == SIZE_MAX || merged[*at].count >= UINT32_C(1) << shift) {
            *at = used++;
            merged[*at] = item[i];
            merged[*at].count = 0;
            merged[*at].bytes = 0;
        }
        if (merged[*at].dtype != item[i].dtype) /* a type must not change what is merged */
            merged[*at].dtype = LOCKSTEP_DTYPE_MIXED;
        merged[*at].count += item[i].count;
        merged[*at].bytes += item[i].bytes;
        group[i] = (uint32_t)*at;
    }
    return used;
}

static bool step_fits(const struct shape_item *item, size_t count)
{
    size_t bytes = STEP_HEAD_BYTES + count * STEP_ITEM_BYTES;

    for (size_t i = 0; i < count && bytes <= FACT_STEP_BYTES_MAX; i++)
        bytes += item_has_wait(&item[i]) ? STEP_WAIT_BYTES : 0;
    return bytes <= FACT_STEP_BYTES_MAX;
}

size_t shape_merge(const struct shape_item *item, size_t count, struct shape_item *merged,
                   uint32_t *group)
{
    size_t used;

    for (unsigned shift = 0; shift < 20; shift++) {
        used = merge_by(item, count, shift, merged, group);
        if (used == SIZE_MAX)
            return 0;
        if (step_fits(merged, used))
            break;
    }
    for (size_t i = 0; i < used; i++)
        merged[i].bytes = bytes_round(merged[i].bytes);
    return used;
}

void shape_hash(struct fact_shape *shape)
{
    uint64_t hash = hash64_u64(1, shape->count), class = hash;

    for (uint32_t i = 0; i < shape->count; i++) {
        const struct shape_item *item = &shape->item[i];
        uint64_t work = (uint64_t)item->kind << 48 | (uint64_t)item->what << 32 | item->stream;

        work = hash64_u64(work, (uint64_t)item->count << 1);
        class = hash64_u64(class, work);
        /* Bytes are in the hash but not in the class: ranks that do the same work on
         * sequences of different lengths are peers.
         */
        hash = hash64_u64(hash, hash64_u64(work, item->bytes));
        hash = hash64_u64(hash, hash64_u64(item->comm, item->peer));
        if (item->dtype) /* shapes that do not tell keep the hash that they always had */
            hash = hash64_u64(hash, item->dtype);
    }
    shape->hash = hash ? hash : 1; /* 0 says "malformed" elsewhere */
    shape->class = class;
}
