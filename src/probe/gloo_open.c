/* gloo_open.c - a table by the work's address; a place is taken by compare-and-swap and given back the same way.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/gloo_open.h"

#include <stdatomic.h>
#include <stddef.h>

#include "core/time.h"
#include "probe/probe_private.h"

#define ROOM 512
#define WINDOW 16 /* a work is in one of so many places, from that of its address on */

/* Of a place: free, somebody is at it, or its end is known and not told; all else is the work's address. */
#define FREE ((uintptr_t)0)
#define BUSY ((uintptr_t)1)
#define OVER ((uintptr_t)2)

static _Atomic uintptr_t places[ROOM];
static _Atomic(const void *) threads[ROOM]; /* which launched what is there */
static struct gloo_op ops[ROOM];            /* belongs to who has made its place BUSY */
static _Atomic uint32_t count;              /* places that are not free */

static uint32_t gloo_open_place_of(uintptr_t work, uint32_t number)
{
    uint64_t mixed = (uint64_t)work * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)((mixed >> 40) + number) % ROOM;
}

static bool gloo_place_take(uint32_t at, uintptr_t from)
{
    return atomic_compare_exchange_strong_explicit(&places[at], &from, BUSY, memory_order_acquire,
                                                   memory_order_relaxed);
}

static void gloo_place_give(uint32_t at, uintptr_t as)
{
    atomic_store_explicit(&places[at], as, memory_order_release);
}

bool gloo_open_add(void *work, struct gloo_op op, const void *thread)
{
    for (uint32_t i = 0; i < WINDOW; i++) {
        uint32_t at = gloo_open_place_of((uintptr_t)work, i);

        if (!gloo_place_take(at, FREE))
            continue;
        ops[at] = op;
        atomic_store_explicit(&threads[at], thread, memory_order_relaxed);
        atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
        gloo_place_give(at, (uintptr_t)work);
        return true;
    }
    return false;
}

/* The place of this work, which is the caller's then; ROOM: it has none. */
static uint32_t gloo_place_find(const void *work)
{
    for (uint32_t i = 0; i < WINDOW; i++) {
        uint32_t at = gloo_open_place_of((uintptr_t)work, i);

        if (atomic_load_explicit(&places[at], memory_order_relaxed) == (uintptr_t)work &&
            gloo_place_take(at, (uintptr_t)work))
            return at;
    }
    return ROOM;
}

void gloo_open_over(const void *work, uint64_t now_ns)
{
    uint32_t at = gloo_place_find(work);

    if (at == ROOM)
        return;
    ops[at].end_ns = now_ns;
    gloo_place_give(at, OVER);
}

void gloo_open_forget(const void *work)
{
    uint32_t at = gloo_place_find(work);

    if (at == ROOM)
        return;
    atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
    gloo_place_give(at, FREE);
}

static void gloo_op_end(const struct gloo_op *op)
{
    struct lockstep_probe *probe = probe_current();

    if (op->epoch == probe_epoch(probe))
        lockstep_coll_end(probe, op->comm, op->key, op->end_ns);
}

uint32_t gloo_open_flush(const void *thread)
{
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
        return 0;
    for (uint32_t at = 0; at < ROOM; at++) {
        uintptr_t seen = atomic_load_explicit(&places[at], memory_order_relaxed);

        if (seen == FREE || seen == BUSY)
            continue;
        if (seen != OVER && atomic_load_explicit(&threads[at], memory_order_relaxed) != thread)
            continue;
        if (!gloo_place_take(at, seen))
            continue;
        gloo_op_end(&ops[at]); /* one not known to be over has no time, and ends now */
        atomic_fetch_sub_explicit(&count, 1, memory_order_relaxed);
        gloo_place_give(at, FREE);
    }
    return atomic_load_explicit(&count, memory_order_relaxed);
}
