/* assemble_feed.c - one event a call, at milliseconds of our choosing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/test/assemble_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

const struct assemble_id id = { 3, 1, 2 };

void destroy(struct assemble **assemble)
{
    assemble_destroy(*assemble);
}

struct ring_event at(int64_t ms, uint64_t step, uint8_t kind)
{
    return (struct ring_event){
        .time_ns = (uint64_t)(ms * MS), .step = step, .kind = kind, .comm = -1
    };
}

void put(struct assemble *a, int64_t ms, uint64_t step, uint8_t kind)
{
    struct ring_event event = at(ms, step, kind);

    assemble_event(a, &event);
}

void put_phase(struct assemble *a, int64_t ms, uint64_t step, uint8_t kind, uint8_t phase)
{
    struct ring_event event = at(ms, step, kind);

    event.detail = phase;
    assemble_event(a, &event);
}

void put_op(struct assemble *a, int64_t ms, uint64_t step, uint8_t kind, uint64_t key)
{
    struct ring_event event = at(ms, step, kind);

    event.comm = 0;
    event.stream = 2;
    event.detail = kind == RING_P2P_ENQUEUE ? LOCKSTEP_OP_SEND : LOCKSTEP_OP_ALL_REDUCE;
    event.a = key;
    event.b = 1000;
    event.c = kind == RING_P2P_ENQUEUE ? 5 : 0;
    event.d = kind == RING_P2P_ENQUEUE ? UINT64_C(1) << 32 : LOCKSTEP_DTYPE_FLOAT16;
    assemble_event(a, &event);
}

void put_span(struct assemble *a, int64_t ms, uint64_t step, int64_t enqueue, int64_t begin,
              int64_t end)
{
    struct ring_event event = at(ms, step, RING_SPAN);

    event.stream = 1;
    event.detail = LOCKSTEP_PHASE_FORWARD;
    event.a = (uint64_t)(enqueue * MS);
    event.b = (uint64_t)(begin * MS);
    event.c = (uint64_t)(end * MS);
    assemble_event(a, &event);
}

void put_lost(struct assemble *a, int64_t ms, uint64_t before, uint64_t after, uint8_t kind,
              uint64_t records)
{
    struct ring_event event = at(ms, after, RING_LOST);

    event.detail = kind;
    event.a = records;
    event.b = before;
    assemble_event(a, &event);
}

struct assembled take(struct assemble *a, enum assembled_kind kind)
{
    struct assembled out = { 0 };

    assert_int_equal(assemble_take(a, &out), 1);
    assert_int_equal(out.kind, kind);
    return out;
}

void take_nothing(struct assemble *a)
{
    struct assembled out = { 0 };

    assert_int_equal(assemble_take(a, &out), 0);
}
