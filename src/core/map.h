/* map.h - 64-bit key to 64-bit value, open addressing, grows by doubling.
 *
 * Value and key may be anything.  Memory is the map's own; map_fini() frees it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CORE_MAP_H
#define LOCKSTEP_CORE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_slot {
    uint64_t key, value;
    bool used;
};

struct map {
    struct map_slot *slot;
    size_t size, used; /* size is 0 or a power of two */
};

uint64_t *map_get(const struct map *map, uint64_t key); /* NULL: not there */
/* The value's place, set to `fresh` if the key was not there.  NULL: no memory. */
uint64_t *map_put(struct map *map, uint64_t key, uint64_t fresh);
void map_fini(struct map *map);
static inline size_t map_bytes(const struct map *map) /* of memory */
{
    return map->size * sizeof(struct map_slot);
}

#endif
