/* fuzz-assemble.c - bytes into made-up events into the assembler.
 *
 * Whatever a ring says: nothing crashes, nothing grows without bound, steps come out in the order they
 * began, and every fact that comes out can be read back by its receiver, split or not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ring/assemble.h"
#include "core/clean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EVENT_BYTES 12
#define ALWAYS(true_thing)                                                                         \
    do {                                                                                           \
        if (!(true_thing))                                                                         \
            abort();                                                                               \
    } while (0)

/* As if every op were of this node: the first communicator has one member, the others two. */
static void split_step(struct assembled *out)
{
    struct nodesplit *split = nodesplit_create();
    uint32_t from = 0;

    ALWAYS(split != NULL);
    for (uint32_t i = 0; i < out->ops; i++) {
        struct fact_comm comm = { .rank = out->step.rank, .attempt = out->step.attempt };

        ALWAYS(out->op[i].item < out->shape.count && out->op[i].end_ns >= out->op[i].start_ns);
        comm.id = out->op[i].comm;
        comm.size = 1 + (comm.id != out->op[0].comm);
        nodesplit_comm(split, &comm);
        comm.index = comm.size - 1;
        comm.rank += comm.index;
        nodesplit_comm(split, &comm);
    }
    nodesplit_join(split, &out->step, out->op, out->ops);
    nodesplit_ready(split, out->op, out->ops, &from);
    nodesplit_sum(split, out->op, out->ops, &out->shape, &out->step);
    nodesplit_destroy(split);
}

static void check_step(const struct assembled *out)
{
    CLEAN(buf_fini) struct buf buf = { 0 };
    CLEAN(fact_step_fini) struct fact_step again = { 0 };
    CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };

    fact_shape_put(&buf, &out->shape);
    ALWAYS(fact_shape_get(reader_of(buf.data, buf.size), &shape) == 0);
    buf.size = 0;
    fact_step_put(&buf, &out->step, &out->shape);
    ALWAYS(buf.size <= FACT_STEP_BYTES_MAX);
    ALWAYS(fact_step_get(reader_of(buf.data, buf.size), &shape, &again) == 0);
    ALWAYS(again.step == out->step.step);
}

static void check(struct assembled *out)
{
    CLEAN(buf_fini) struct buf buf = { 0 };
    struct fact_gap gap;
    struct fact_note note;
    struct fact_method method;

    if (out->kind == ASSEMBLED_STEP) {
        check_step(out);
        split_step(out);
        check_step(out);
    }
    if (out->kind == ASSEMBLED_GAP) {
        fact_gap_put(&buf, &out->gap);
        ALWAYS(fact_gap_get(reader_of(buf.data, buf.size), &gap) == 0);
        ALWAYS(gap.records > 0);
    }
    if (out->kind == ASSEMBLED_NOTE) {
        fact_note_put(&buf, &out->note);
        ALWAYS(fact_note_get(reader_of(buf.data, buf.size), &note) == 0);
    }
    if (out->kind == ASSEMBLED_METHOD) {
        fact_method_put(&buf, &out->method);
        ALWAYS(fact_method_get(reader_of(buf.data, buf.size), &method) == 0);
    }
}

static void drain(struct assemble *assemble)
{
    struct assembled out = { 0 };

    for (int i = 0; assemble_take(assemble, &out) == 1; i++) {
        ALWAYS(i < 100); /* one event makes a few facts at most */
        check(&out);
        assembled_fini(&out);
    }
}

/* Small numbers meet each other; the high bits of some bytes make large ones. */
static uint64_t wide(uint8_t byte)
{
    return byte & 0x80 ? UINT64_MAX - (byte & 0x7f) : byte;
}

static struct ring_event event_of(const uint8_t *at, uint64_t *clock)
{
    struct ring_event event = { .kind = at[0] % (RING_KIND_COUNT + 2), .detail = at[1] };

    *clock += at[2];
    event.time_ns = at[3] & 0x80 ? *clock - at[3] % 128 : *clock; /* lanes come out of order */
    if (at[3] == 0xff)
        event.time_ns = wide(at[2]);
    event.step = at[4] % 16 == 15 ? wide(at[4]) : (*clock >> 6) - at[4] % 3;
    event.stream = at[5];
    event.comm = (int8_t)at[6];
    event.lane = at[7];
    event.a = event.kind == RING_SPAN ? *clock - at[8] : wide(at[8]);
    event.b = event.kind == RING_SPAN ? *clock : wide(at[9]);
    event.c = event.kind == RING_SPAN ? *clock + at[10] : wide(at[10]);
    event.d = wide(at[11]);
    if (event.kind == RING_KIND_COUNT)
        event.kind = RING_LOST;
    return event;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct assemble *assemble = assemble_create(&(struct assemble_id){ 1, 2, 3 });
    uint64_t clock = 1000;
    struct fact_beat beat = { 0 };

    if (!assemble)
        return 0;
    if (size && data[0] & 1)
        assemble_resume(assemble, &(struct assemble_done){ true, data[0] & 2, data[0] >> 4, 2000 });
    for (size_t at = 0; at + EVENT_BYTES <= size; at += EVENT_BYTES) {
        struct ring_event event = event_of(data + at, &clock);

        assemble_keep_ops(assemble, data[at + 1] & 0x04);
        if (data[at] == 0xfe)
            assemble_comm(assemble, data[at + 1], data[at + 2]);
        assemble_event(assemble, &event);
        if (data[at + 4] & 0x40) /* a device that ran a stamp, launched or not */
            assemble_stamp(assemble, event.a, (int64_t)(clock + data[at + 10]));
        if (data[at + 1] & 0x40)
            assemble_round(assemble);
        if (data[at + 1] & 0x20)
            assemble_sample(assemble, &(struct sample){ .time_ns = (int64_t)clock, .cpu_ns = 5 });
        if (!(data[at + 1] & 0x10)) /* nobody takes what is ready for a while */
            drain(assemble);
        if (data[at + 1] & 0x08)
            assemble_view(assemble, (int64_t)clock, &beat);
        ALWAYS(beat.ops <= BEAT_OPS_MAX);
    }
    assemble_finish(assemble, (int64_t)clock);
    drain(assemble);
    assemble_destroy(assemble);
    return 0;
}
