/* probe_table.c - what is recorded once: communicators and the parallel layout.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "probe/probe_private.h"

/* Of the first version of the struct. */
#define LAYOUT_BYTES (offsetof(struct lockstep_layout, ep) + sizeof(uint16_t))

static bool table_live(struct lockstep_probe *probe)
{
    return probe && atomic_load_explicit(&probe->epoch, memory_order_acquire) != 0;
}

/* The place of this id, or a free one now taken for it; -ENOSPC.  Without a lock: whoever
 * changes a free place to its id first has it, and places are never given back.
 */
static int table_place(struct lockstep_probe *probe, uint64_t id, bool *ret_mine)
{
    for (int i = 0; i < RING_COMMS; i++) {
        uint64_t holder = 0;

        if (atomic_compare_exchange_strong(&probe->claimed[i], &holder, ~id)) {
            *ret_mine = true;
            return i;
        }
        if (holder == ~id)
            return i;
    }
    return -ENOSPC;
}

int lockstep_comm_add(struct lockstep_probe *probe, uint64_t id, uint32_t size, uint32_t index,
                      enum lockstep_comm_kind kind, const char *name)
{
    struct ring_comm *comm;
    bool mine = false;
    int place;

    if (!table_live(probe))
        return -ENODEV;
    if (size == 0 || index >= size || (unsigned)kind >= LOCKSTEP_COMM_KIND_COUNT ||
        id == UINT64_MAX) /* its complement means "free" */
        return -EINVAL;
    place = table_place(probe, id, &mine);
    if (place < 0 || !mine)
        return place;
    comm = &probe->comm[place];
    comm->size = size;
    comm->index = index;
    comm->kind = kind;
    comm->id = id;
    if (name)
        memcpy(comm->name, name, strnlen(name, sizeof(comm->name)));
    atomic_store_explicit(&comm->ready, 1, memory_order_release);
    atomic_fetch_add_explicit(&probe->header->comms_used, 1, memory_order_relaxed);
    return place;
}

static bool probe_layout_valid(const struct lockstep_layout *layout)
{
    return layout->tp < layout->tp_size && layout->pp < layout->pp_size &&
           layout->dp < layout->dp_size && layout->cp < layout->cp_size &&
           layout->ep < layout->ep_size;
}

/* Seqlock again; of two threads that set it at the same time one is enough. */
int lockstep_layout_set(struct lockstep_probe *probe, const struct lockstep_layout *layout)
{
    struct ring_header *header;
    uint32_t seq;

    if (!layout || layout->size < LAYOUT_BYTES || !probe_layout_valid(layout))
        return -EINVAL;
    if (!table_live(probe))
        return -ENODEV;
    header = probe->header;
    seq = atomic_load_explicit(&header->layout_seq, memory_order_relaxed);
    if (seq % 2 || !atomic_compare_exchange_strong(&header->layout_seq, &seq, seq + 1))
        return 0;
    const uint16_t field[10] = {
        layout->tp_size, layout->pp_size, layout->dp_size, layout->cp_size, layout->ep_size,
        layout->tp,      layout->pp,      layout->dp,      layout->cp,      layout->ep,
    };
    for (int i = 0; i < 10; i++)
        atomic_store_explicit(&header->layout[i], field[i], memory_order_release);
    atomic_store_explicit(&header->layout_seq, seq + 2, memory_order_release);
    return 0;
}
