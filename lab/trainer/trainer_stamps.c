/* trainer_stamps.c - a device that reports what one under NCCL reports: stamps and operations, no spans.
 *
 * The device is modelled, so what it would have written into the ring is written for it, when its stream gets there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/time.h"
#include "lab/trainer/trainer_private.h"
#include "probe/probe_private.h"
#include "probe/stamp.h"

static struct ring_stamps_head *stamps_head(const struct trainer *trainer)
{
    const struct ring_header *header = trainer->probe ? trainer->probe->header : NULL;

    if (!header || !header->stamps)
        return NULL;
    return (void *)((unsigned char *)trainer->probe->header +
                    ring_stamps_offset(header->lanes, header->lane_records));
}

/* Its clock is the host's. */
void trainer_stamps_begin(struct trainer *trainer)
{
    struct ring_stamps_head *head = trainer->config->stamps ? stamps_head(trainer) : NULL;

    if (!head)
        return;
    atomic_store(&head->at_ns, (uint64_t)time_mono_ns());
    atomic_store_explicit(&head->clock_seq, 2, memory_order_release);
}

uint64_t trainer_stamp_mark(struct trainer *trainer, enum ring_stamp_what what,
                            enum lockstep_phase phase)
{
    const struct stamp stamp = { .what = what, .phase = phase, .comm = -1 };
    uint64_t tag = ++trainer->stamps;

    return stamps_head(trainer) && probe_stamp_mark(trainer->probe, &stamp, tag) ? tag : 0;
}

static void trainer_stamp_write(struct trainer *trainer, uint64_t tag, int64_t ran_ns)
{
    struct ring_stamps_head *head = stamps_head(trainer);
    volatile struct ring_stamp *place;
    uint64_t count;

    if (!head || !tag)
        return;
    count = trainer->stamps_ran++;
    place = (volatile struct ring_stamp *)(head + 1) + count % trainer->probe->header->stamps;
    place->count = 0;
    place->tag = tag;
    place->device_ns = (uint64_t)ran_ns;
    place->check = ring_stamp_check(count + 1, tag, (uint64_t)ran_ns);
    place->count = count + 1;
}

int trainer_run_stamp(struct device_work *work, void *context, struct err *err)
{
    (void)context;
    (void)err;
    work->end_ns = work->begin_ns;
    return 0;
}

void trainer_stamp_ended(struct device_work *work, void *context)
{
    trainer_stamp_write(context, work->key, work->end_ns);
}

/* NCCL's ops lie on a line of their communicator; messages that come and those that go run beside each other. */
uint16_t trainer_op_stream(const struct trainer *trainer, uint16_t stream, int comm)
{
    if (!trainer->config->stamps || comm < 0)
        return stream;
    return (uint16_t)(LOCKSTEP_DEVICE_OPS + comm + (stream == STREAM_SEND ? COMM_COUNT + 1 : 0));
}
