/* when.c - the time of a fact, without decoding the rest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/facts.h"
#include "wire/frame.h"

#define STEP_BEGIN_AT 28 /* shape u64, rank, attempt, ring u32, step u64 come before */
#define BEAT_TIME_AT 12
#define EXIT_TIME_AT 8
#define NOTE_TIME_AT 16
#define STACK_TIME_AT 8
#define RUN_TIME_AT 17

static int64_t when_time_at(struct reader in, size_t offset)
{
    reader_get(&in, offset);
    return (int64_t)reader_get_u64(&in); /* 0 when the payload is short */
}

static int64_t when_step_end(struct reader in)
{
    uint64_t begin_ns = (uint64_t)when_time_at(in, STEP_BEGIN_AT);
    uint64_t duration_ns = (uint64_t)when_time_at(in, STEP_BEGIN_AT + 8);

    return (int64_t)(begin_ns + duration_ns); /* untrusted: must not overflow as signed */
}

int64_t fact_when(uint16_t type, struct reader in)
{
    struct fact_hello hello;
    struct fact_ring ring;

    switch (type) {
    case FRAME_HELLO:
        return fact_hello_get(in, &hello) < 0 ? 0 : hello.mono_ns;
    case FRAME_RING:
        return fact_ring_get(in, &ring) < 0 ? 0 : ring.open_ns;
    case FRAME_STEP:
        return when_step_end(in);
    case FRAME_BEAT:
        return when_time_at(in, BEAT_TIME_AT);
    case FRAME_EXIT:
        return when_time_at(in, EXIT_TIME_AT);
    case FRAME_NOTE:
    case FRAME_METHOD: /* behind the same fields */
        return when_time_at(in, NOTE_TIME_AT);
    case FRAME_STACK:
        return when_time_at(in, STACK_TIME_AT);
    case FRAME_RUN:
        return when_time_at(in, RUN_TIME_AT);
    case FRAME_TICK:
    case FRAME_TRAFFIC:
    case FRAME_FINDING:
    case FRAME_OUTCOME:
    case FRAME_PLACES:
    case FRAME_CHECK:
    case FRAME_ENVIRONMENT:
    case FRAME_REQUEST:
    case FRAME_POLICY:
    case FRAME_MEANS:
    case FRAME_MEMBER:
        return when_time_at(in, 0);
    default:
        return 0;
    }
}
