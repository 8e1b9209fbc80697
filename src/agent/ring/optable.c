/* optable.c - linear probing; removal shifts back, so there are no tombstones to collect.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/ring/optable.h"

#include <stdlib.h>

#include "core/hash.h"

static size_t optable_home(const struct optable *table, int32_t comm, bool p2p, uint64_t key)
{
    return hash64_u64((uint64_t)(uint32_t)comm << 1 | p2p, key) & (table->size - 1);
}

static struct open_op *optable_find(const struct optable *table, int32_t comm, bool p2p,
                                    uint64_t key)
{
    size_t at = optable_home(table, comm, p2p, key);

    for (;; at = (at + 1) & (table->size - 1)) {
        struct open_op *op = &table->slot[at];

        if (!op->used || (op->key == key && op->comm == comm && op->p2p == p2p))
            return op;
    }
}

static struct open_op *optable_get(const struct optable *table, int32_t comm, bool p2p,
                                   uint64_t key)
{
    struct open_op *op = table->size ? optable_find(table, comm, p2p, key) : NULL;

    return op && op->used ? op : NULL;
}

static bool optable_grow(struct optable *table)
{
    struct optable grown = { .size = table->size ? table->size * 2 : 64, .used = table->used };

    grown.slot = calloc(grown.size, sizeof(*grown.slot));
    if (!grown.slot)
        return false;
    for (size_t i = 0; i < table->size; i++) {
        const struct open_op *op = &table->slot[i];

        if (op->used)
            *optable_find(&grown, op->comm, op->p2p, op->key) = *op;
    }
    free(table->slot);
    *table = grown;
    return true;
}

struct open_op *optable_put(struct optable *table, int32_t comm, bool p2p, uint64_t key)
{
    struct open_op *op = optable_get(table, comm, p2p, key);

    if (op)
        return op;
    if (table->used >= OPTABLE_MAX || (table->used * 4 >= table->size * 3 && !optable_grow(table)))
        return NULL;
    op = optable_find(table, comm, p2p, key);
    *op = (struct open_op){ .used = true, .p2p = p2p, .comm = comm, .key = key };
    table->used++;
    return op;
}

void optable_remove(struct optable *table, struct open_op *op)
{
    size_t mask = table->size - 1, hole = (size_t)(op - table->slot), at = hole;

    table->used--;
    for (;;) {
        const struct open_op *next;
        size_t want;

        at = (at + 1) & mask;
        next = &table->slot[at];
        if (!next->used)
            break;
        want = optable_home(table, next->comm, next->p2p, next->key);
        if (((at - want) & mask) >= ((at - hole) & mask)) { /* it may move back to the hole */
            table->slot[hole] = *next;
            hole = at;
        }
    }
    table->slot[hole] = (struct open_op){ 0 };
}

void optable_fini(struct optable *table)
{
    free(table->slot);
    *table = (struct optable){ 0 };
}
