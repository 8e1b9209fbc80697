/* map.c - linear probing without removal.
 *
 * The place of a key depends on the address of the map's memory, which is not known outside: keys cannot be chosen
 * so that they all collide.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/map.h"

#include <stdlib.h>

#include "core/hash.h"

static struct map_slot *map_find(const struct map *map, uint64_t key)
{
    size_t at = hash64_u64((uint64_t)(uintptr_t)map->slot, key) & (map->size - 1);

    while (map->slot[at].used && map->slot[at].key != key)
        at = (at + 1) & (map->size - 1);
    return &map->slot[at];
}

uint64_t *map_get(const struct map *map, uint64_t key)
{
    struct map_slot *slot;

    if (!map->size)
        return NULL;
    slot = map_find(map, key);
    return slot->used ? &slot->value : NULL;
}

static bool map_grow(struct map *map)
{
    struct map grown = { .size = map->size ? map->size * 2 : 16, .used = map->used };

    grown.slot = calloc(grown.size, sizeof(*grown.slot));
    if (!grown.slot)
        return false;
    for (size_t i = 0; i < map->size; i++) {
        if (map->slot[i].used)
            *map_find(&grown, map->slot[i].key) = map->slot[i];
    }
    free(map->slot);
    *map = grown;
    return true;
}

uint64_t *map_put(struct map *map, uint64_t key, uint64_t fresh)
{
    struct map_slot *slot;

    if (map->used * 4 >= map->size * 3 && !map_grow(map))
        return NULL;
    slot = map_find(map, key);
    if (!slot->used) {
        *slot = (struct map_slot){ .key = key, .value = fresh, .used = true };
        map->used++;
    }
    return &slot->value;
}

void map_fini(struct map *map)
{
    free(map->slot);
    *map = (struct map){ 0 };
}
