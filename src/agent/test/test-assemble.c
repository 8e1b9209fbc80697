/* test-assemble.c - made-up events in, steps out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/test/assemble_feed.h"
#include "core/clean.h"
#include "core/rand.h"

static void an_ordinary_step_comes_out_whole(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    assemble_comm(a, 0, 77);
    put(a, 100, 7, RING_STEP_BEGIN);
    put_phase(a, 100, 7, RING_PHASE_BEGIN, LOCKSTEP_PHASE_FORWARD);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 40);
    put_phase(a, 120, 7, RING_PHASE_END, LOCKSTEP_PHASE_FORWARD);
    put_span(a, 130, 7, 105, 106, 125);
    put_op(a, 130, 7, RING_COLL_START, 40);
    put_op(a, 140, 7, RING_COLL_END, 40);
    put(a, 150, 7, RING_STEP_END);
    take_nothing(a); /* its tail is not known */
    put(a, 160, 8, RING_STEP_BEGIN);
    take_nothing(a); /* another lane may have more of it */
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.rank, 3);
    assert_int_equal(out.step.attempt, 1);
    assert_int_equal(out.step.ring, 2);
    assert_int_equal(out.step.step, 7);
    assert_int_equal(out.step.begin_ns, 100 * MS);
    assert_int_equal(out.step.duration_ns, 50 * MS);
    assert_int_equal(out.step.tail_ns, 10 * MS);
    assert_int_equal(out.step.flags, 0);
    assert_int_equal(out.shape.count, 3); /* by launch: phase, span, collective */
    assert_int_equal(out.shape.item[0].kind, ITEM_PHASE);
    assert_int_equal(out.shape.item[1].kind, ITEM_SPAN);
    assert_int_equal(out.shape.item[2].kind, ITEM_COLL);
    assert_int_equal(out.shape.item[2].comm, 77);
    assert_int_equal(out.shape.item[2].bytes, bytes_round(1000));
    assert_int_equal(out.shape.item[2].dtype, LOCKSTEP_DTYPE_FLOAT16);
    assert_int_equal(out.shape.item[1].dtype, LOCKSTEP_DTYPE_UNKNOWN);
    assert_int_equal(out.step.time[2].enqueue_ns, 10 * MS);
    assert_int_equal(out.step.time[2].start_ns, 30 * MS);
    assert_int_equal(out.step.time[2].end_ns, 40 * MS);
    take_nothing(a);
}

static void a_step_waits_for_its_last_operation(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 1);
    put(a, 150, 7, RING_STEP_END);
    put(a, 160, 8, RING_STEP_BEGIN);
    assemble_round(a);
    take_nothing(a);
    put_op(a, 170, 8, RING_COLL_END, 1); /* without a start: that was its launch */
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.flags, STEP_HOST_VIEW);
    assert_int_equal(out.step.time[0].start_ns, 10 * MS);
    assert_int_equal(out.step.time[0].end_ns, 70 * MS);
}

static void a_step_waits_for_two_later_ones_at_most(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 1);
    for (uint64_t step = 8; step < 10; step++) {
        put(a, (int64_t)step * 20, step, RING_STEP_BEGIN);
        assemble_round(a);
        take_nothing(a);
        put(a, (int64_t)step * 20 + 10, step, RING_STEP_END);
    }
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.step, 7);
    assert_true(out.step.flags & STEP_UNFINISHED);
}

static void events_of_lanes_may_come_in_any_order_and_twice(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    put_op(a, 140, 7, RING_COLL_END, 1);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 1); /* the lane of the begin is read last */
    put(a, 100, 7, RING_STEP_BEGIN);
    put(a, 100, 7, RING_STEP_BEGIN);
    put_op(a, 130, 7, RING_COLL_START, 1);
    put_op(a, 130, 7, RING_COLL_START, 1);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 2);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 2);
    put_op(a, 150, 7, RING_COLL_END, 2);
    put(a, 160, 8, RING_STEP_BEGIN);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.shape.count, 2);
    assert_int_equal(out.step.flags, STEP_HOST_VIEW);
    assert_int_equal(out.step.time[0].start_ns, 30 * MS);
    assert_int_equal(out.step.time[0].end_ns, 40 * MS);
    assert_int_equal(out.step.duration_ns, 60 * MS); /* no end: until the next begin */
    take_nothing(a);
}

static void a_phase_over_a_border_is_split_at_it(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled first = { 0 }, second = { 0 };
    struct fact_beat beat = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put_phase(a, 140, 7, RING_PHASE_BEGIN, LOCKSTEP_PHASE_CHECKPOINT);
    put(a, 150, 7, RING_STEP_END);
    put(a, 160, 8, RING_STEP_BEGIN);
    assemble_view(a, 165 * MS, &beat);
    assert_int_equal(beat.phase, LOCKSTEP_PHASE_CHECKPOINT);
    assert_int_equal(beat.phase_age_ns, 25 * MS); /* of the phase, not of its part */
    put_phase(a, 170, 8, RING_PHASE_END, LOCKSTEP_PHASE_CHECKPOINT);
    put(a, 200, 9, RING_STEP_BEGIN);
    assemble_round(a);
    first = take(a, ASSEMBLED_STEP);
    second = take(a, ASSEMBLED_STEP);
    assert_int_equal(first.step.time[0].start_ns, 40 * MS);
    assert_int_equal(first.step.time[0].end_ns, 60 * MS);
    assert_int_equal(second.shape.item[0].what, LOCKSTEP_PHASE_CHECKPOINT);
    assert_int_equal(second.step.time[0].start_ns, 0);
    assert_int_equal(second.step.time[0].end_ns, 10 * MS);
}

static void the_end_of_a_phase_ends_what_is_left_open_inside_it(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    struct fact_beat beat = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put_phase(a, 110, 7, RING_PHASE_BEGIN, LOCKSTEP_PHASE_FORWARD);
    put_phase(a, 120, 7, RING_PHASE_BEGIN, LOCKSTEP_PHASE_GC);
    put_phase(a, 130, 7, RING_PHASE_END, LOCKSTEP_PHASE_FORWARD);
    assemble_view(a, 140 * MS, &beat);
    assert_int_equal(beat.phase, 0);
}

static void spans_told_a_step_late_belong_where_they_were_launched(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    unsigned with_spans = 0;

    (void)state;
    for (uint64_t step = 0; step < 8; step++) {
        int64_t begin = 100 + 100 * (int64_t)step;
        struct assembled out = { 0 };

        put(a, begin, step, RING_STEP_BEGIN);
        if (step > 0)
            put_span(a, begin + 10, step, begin - 90, begin - 80, begin - 20);
        assemble_round(a);
        put(a, begin + 50, step, RING_STEP_END);
        while (assemble_take(a, &out) == 1) { /* held until the spans have come */
            assert_int_equal(out.kind, ASSEMBLED_STEP);
            assert_int_equal(out.shape.count, 1);
            assert_int_equal(out.step.time[0].enqueue_ns, 10 * MS);
            assert_int_equal(out.step.flags & STEP_HOST_VIEW, 0);
            with_spans++;
            assembled_fini(&out);
        }
    }
    assert_true(with_spans >= 5);
}

static void point_to_point_keeps_its_peer(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put_op(a, 110, 7, RING_P2P_ENQUEUE, 1);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 1); /* the same key, another count */
    put_op(a, 120, 7, RING_P2P_END, 1);
    put_op(a, 130, 7, RING_COLL_END, 1);
    put(a, 160, 8, RING_STEP_BEGIN);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.shape.item[0].kind, ITEM_P2P);
    assert_int_equal(out.shape.item[0].what, LOCKSTEP_OP_SEND);
    assert_int_equal(out.shape.item[0].peer, 5);
    assert_int_equal(out.step.time[0].end_ns, 20 * MS);
    assert_int_equal(out.step.time[1].end_ns, 30 * MS);
}

static void more_operations_than_fit_are_merged(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };
    CLEAN(buf_fini) struct buf buf = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    for (uint64_t key = 0; key < 20000; key++) {
        put_op(a, 100, 7, RING_COLL_ENQUEUE, key);
        put_op(a, 100, 7, RING_COLL_START, key);
        put_op(a, 101, 7, RING_COLL_END, key);
    }
    put(a, 160, 8, RING_STEP_BEGIN);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    fact_step_put(&buf, &out.step, &out.shape);
    assert_true(buf.size <= FACT_STEP_BYTES_MAX);
    assert_true(out.shape.item[0].count > 1);
    assert_int_equal(out.step.time[0].end_ns, out.shape.item[0].count * MS);
}

static void what_a_rank_does_after_its_last_step_is_that_steps_tail(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put(a, 150, 7, RING_STEP_END);
    put_phase(a, 151, 7, RING_PHASE_BEGIN, LOCKSTEP_PHASE_CHECKPOINT);
    put_phase(a, 158, 7, RING_PHASE_END, LOCKSTEP_PHASE_CHECKPOINT);
    assemble_finish(a, 200 * MS);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.duration_ns, 50 * MS);
    assert_int_equal(out.step.tail_ns, 8 * MS);
}

static void the_last_step_comes_out_when_the_rank_is_gone(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 1);
    assemble_finish(a, 500 * MS);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.flags, STEP_HOST_VIEW | STEP_UNFINISHED | STEP_LAST);
    assert_int_equal(out.step.duration_ns, 400 * MS);
    assert_int_equal(out.step.time[0].end_ns, 400 * MS);
    take_nothing(a);
}

static void scheduler_times_are_taken_at_the_borders(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };

    (void)state;
    for (int i = 0; i < 2; i++)
        assemble_sample(a, &(struct sample){ .time_ns = i * 100 * MS, .cpu_ns = i * 50 * MS });
    put(a, 50, 7, RING_STEP_BEGIN);
    put(a, 150, 7, RING_STEP_END);
    put(a, 160, 8, RING_STEP_BEGIN);
    assemble_round(a);
    take_nothing(a); /* nobody has looked since it ended */
    assemble_sample(a, &(struct sample){ .time_ns = 200 * MS, .cpu_ns = 150 * MS });
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.cpu_ns, 75 * MS); /* half of 50, half of 100 */
}

static void put_note(struct assemble *a, uint32_t lane, uint8_t detail, const char *text)
{
    struct ring_event event = at(120, 7, RING_NOTE);
    char bytes[32] = { 0 };

    memcpy(bytes, text, strnlen(text, sizeof(bytes)));
    event.lane = lane;
    event.detail = detail;
    memcpy(&event.a, bytes, 8);
    memcpy(&event.b, bytes + 8, 8);
    memcpy(&event.c, bytes + 16, 8);
    memcpy(&event.d, bytes + 24, 8);
    assemble_event(a, &event);
}

static void notes_of_two_threads_are_joined_apart(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled note = { 0 };

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    put_note(a, 1, 0x80, "0123456789abcdef0123456789abcdef");
    put_note(a, 2, 0x00, "short");
    note = take(a, ASSEMBLED_NOTE);
    assert_string_equal(note.note.text, "short");
    put_note(a, 1, 0x01, "tail");
    note = take(a, ASSEMBLED_NOTE);
    assert_string_equal(note.note.text, "0123456789abcdef0123456789abcdeftail");
    assert_int_equal(note.note.step, 7);
    put_note(a, 1, 0x01, "a tail whose beginning is lost");
    take_nothing(a);
}

static void put_method(struct assemble *a, int32_t comm, uint64_t bytes, uint64_t channels,
                       const char *text)
{
    struct ring_event event = at(120, 7, RING_COLL_METHOD);
    char words[24] = { 0 };

    memcpy(words, text, strnlen(text, sizeof(words)));
    event.detail = LOCKSTEP_OP_ALL_REDUCE;
    event.comm = comm;
    event.a = bytes | channels << 48;
    memcpy(&event.b, words, 8);
    memcpy(&event.c, words + 8, 8);
    memcpy(&event.d, words + 16, 8);
    assemble_event(a, &event);
}

static void ways_of_moving_come_out_in_order_and_once(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    struct assembled out;

    (void)state;
    assemble_comm(a, 3, 77);
    put_method(a, 3, 4096, 16, "RING/SIMPLE");
    put_method(a, 3, 8192, 16, "RING/SIMPLE");
    put_method(a, 3, 4096, 16, "RING/SIMPLE"); /* nothing new */
    put_method(a, 3, 4096, 2, "TREE/LL\n0123456789abcdefgh");
    out = take(a, ASSEMBLED_METHOD);
    assert_int_equal(out.method.rank, id.rank);
    assert_int_equal(out.method.comm, 77);
    assert_int_equal(out.method.op, LOCKSTEP_OP_ALL_REDUCE);
    assert_int_equal(out.method.bytes, 4096);
    assert_int_equal(out.method.channels, 16);
    assert_int_equal(out.method.step, 7);
    assert_string_equal(out.method.text, "RING/SIMPLE");
    out = take(a, ASSEMBLED_METHOD);
    assert_int_equal(out.method.bytes, 8192);
    out = take(a, ASSEMBLED_METHOD);
    assert_int_equal(out.method.channels, 2);
    assert_string_equal(out.method.text, "TREE/LL?0123456789abcdef"); /* one line, 24 bytes */
    take_nothing(a);
}

static void one_whose_communicator_is_not_known_waits_for_it(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    struct assembled out;

    (void)state;
    assemble_comm(a, 3, 77);
    put_method(a, 4, 4096, 16, "RING/SIMPLE");
    put_method(a, 3, 4096, 8, "RING/SIMPLE");
    put_method(a, -1, 4096, 8, "RING/SIMPLE"); /* of none at all */
    out = take(a, ASSEMBLED_METHOD);
    assert_int_equal(out.method.comm, 77);
    take_nothing(a);
    assemble_comm(a, 4, 78);
    out = take(a, ASSEMBLED_METHOD);
    assert_int_equal(out.method.comm, 78);
    put_method(a, 5, 4096, 16, "RING/SIMPLE");
    assert_int_equal(assemble_methods_dropped(a), 0);
    assemble_finish(a, 0);
    take_nothing(a);
    assert_int_equal(assemble_methods_dropped(a), 1); /* nobody will ever know whose it was */
}

/* Nobody takes them; or a library that goes to and fro with every collective. */
static void what_is_too_much_of_it_is_counted(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    struct assembled out = { 0 };
    uint64_t methods = 0;

    (void)state;
    assemble_comm(a, 3, 77);
    for (uint64_t i = 0; i < 20; i++)
        put_method(a, 3, UINT64_C(1) << i, 16, "RING/SIMPLE");
    for (uint64_t i = 0; i < 1000; i++) {
        while (assemble_take(a, &out) == 1) {
            methods += out.kind == ASSEMBLED_METHOD;
            assembled_fini(&out);
        }
        put_method(a, 3, 3000 + i % 7, 1 + i % 2, "RING/SIMPLE"); /* sizes of one class */
    }
    take_nothing(a);
    assert_int_equal(methods, 16 + 32);
    assert_int_equal(assemble_methods_dropped(a),
                     4 + (1000 - 32) / 2); /* every second one is as the last that was told */
}

static void metrics_and_digest_come_through(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    CLEAN(assembled_fini) struct assembled out = { 0 };
    struct ring_event event = at(110, 7, RING_METRIC);
    double loss = 2.5;

    (void)state;
    put(a, 100, 7, RING_STEP_BEGIN);
    event.detail = LOCKSTEP_METRIC_LOSS;
    memcpy(&event.a, &loss, sizeof(loss));
    assemble_event(a, &event);
    event = at(110, 7, RING_DIGEST);
    event.a = UINT64_C(4) << 32 | 1;
    event.b = 11;
    event.c = 12;
    assemble_event(a, &event);
    put(a, 160, 8, RING_STEP_BEGIN);
    assemble_round(a);
    out = take(a, ASSEMBLED_STEP);
    assert_int_equal(out.step.metric_set, 1u << LOCKSTEP_METRIC_LOSS);
    assert_true(out.step.metric[LOCKSTEP_METRIC_LOSS] == 2.5);
    assert_int_equal(out.step.digest_parts, 4);
    assert_int_equal(out.step.digest_part, 1);
    assert_int_equal(out.step.digest[1], 12);
}

static void a_view_says_what_each_stream_is_in(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    struct fact_beat beat = { 0 };

    (void)state;
    assemble_comm(a, 0, 77);
    put(a, 100, 7, RING_STEP_BEGIN);
    put_op(a, 110, 7, RING_COLL_ENQUEUE, 1);
    put_op(a, 112, 7, RING_COLL_ENQUEUE, 2);
    put_op(a, 120, 7, RING_COLL_START, 1);
    assemble_view(a, 150 * MS, &beat);
    assert_int_equal(beat.step, 7);
    assert_int_equal(beat.step_age_ns, 50 * MS);
    assert_int_equal(beat.ops, 1);
    assert_int_equal(beat.op[0].comm, 77);
    assert_int_equal(beat.op[0].key, 1);
    assert_int_equal(beat.op[0].age_ns, 30 * MS);
    assert_true(beat.advanced && beat.op[0].advanced && beat.op[0].started);
    assemble_view(a, 250 * MS, &beat);
    assert_true(!beat.advanced && !beat.op[0].advanced); /* it hangs */
    put_op(a, 260, 7, RING_COLL_END, 1);
    assemble_view(a, 270 * MS, &beat);
    assert_int_equal(beat.op[0].key, 2);
    assert_true(beat.op[0].advanced && !beat.op[0].started);
}

static void put_message(struct assemble *a, int64_t ms, uint8_t kind, uint64_t key, uint8_t what,
                        uint64_t peer)
{
    struct ring_event event = at(ms, 7, kind);

    event.detail = what;
    event.comm = 0;
    event.stream = 4;
    event.a = key;
    event.b = 2048;
    event.c = peer;
    assemble_event(a, &event);
}

static const struct beat_channel *channel_of(const struct fact_beat *beat, uint8_t what,
                                             uint32_t peer)
{
    for (uint32_t i = 0; i < beat->channels; i++) {
        if (beat->channel[i].what == what && beat->channel[i].peer == peer)
            return &beat->channel[i];
    }
    fail();
    return NULL;
}

static void a_view_says_how_far_each_channel_is_while_nothing_ends(void **state)
{
    CLEAN(destroy) struct assemble *a = assemble_create(&id);
    struct fact_beat beat = { 0 };

    (void)state;
    assemble_comm(a, 0, 77);
    put(a, 100, 7, RING_STEP_BEGIN);
    for (uint64_t key = 0; key < 4; key++)
        put_op(a, 110, 7, RING_COLL_ENQUEUE, key);
    put_op(a, 120, 7, RING_COLL_START, 0);
    put_op(a, 121, 7, RING_COLL_END, 0);
    put_op(a, 122, 7, RING_COLL_START, 1);
    /* Two to one peer and one to another: each is counted for itself. */
    put_message(a, 130, RING_P2P_ENQUEUE, 0, LOCKSTEP_OP_SEND, 3);
    put_message(a, 131, RING_P2P_ENQUEUE, 1, LOCKSTEP_OP_RECV, 5);
    put_message(a, 132, RING_P2P_ENQUEUE, 2, LOCKSTEP_OP_SEND, 3);
    put_message(a, 133, RING_P2P_START, 0, 0, 0);
    assemble_view(a, 150 * MS, &beat);
    assert_int_equal(beat.channels, 0); /* something ended */
    assemble_view(a, 250 * MS, &beat);
    assert_int_equal(beat.channels, 3);
    assert_int_equal(channel_of(&beat, 0, 0)->enqueued, 4);
    assert_int_equal(channel_of(&beat, 0, 0)->started, 2);
    assert_int_equal(channel_of(&beat, 0, 0)->ended, 1);
    assert_int_equal(channel_of(&beat, LOCKSTEP_OP_SEND, 3)->enqueued, 2);
    assert_int_equal(channel_of(&beat, LOCKSTEP_OP_SEND, 3)->started, 1);
    assert_int_equal(channel_of(&beat, LOCKSTEP_OP_RECV, 5)->enqueued, 1);
    for (uint32_t i = 0; i < beat.ops; i++) /* messages tell none here */
        assert_int_equal(beat.op[i].dtype,
                         beat.op[i].kind == ITEM_COLL ? LOCKSTEP_DTYPE_FLOAT16 : 0);
    assemble_view(a, 350 * MS, &beat);
    assert_int_equal(beat.channels, 3); /* again, and not twice */
    put_lost(a, 360, 7, 7, RING_STEP_BEGIN, 5);
    assemble_view(a, 450 * MS, &beat);
    assert_int_equal(beat.channels, 1); /* messages cannot be counted any more */
}

/* Whatever happens to the order of lanes, every step comes out once and in order. */
static void shuffled_lanes_give_every_step_once(void **state)
{
    struct rand rand = { 4711 };

    (void)state;
    for (int round = 0; round < 50; round++) {
        CLEAN(destroy) struct assemble *a = assemble_create(&id);
        uint64_t next = 0;

        for (uint64_t step = 0; step < 40; step++) {
            int64_t begin = (int64_t)step * 10;
            struct assembled out = { 0 };

            if (rand_below(&rand, 2))
                put_op(a, begin + 1, step, RING_COLL_ENQUEUE, step);
            put(a, begin, step, RING_STEP_BEGIN);
            put_op(a, begin + 1, step, RING_COLL_ENQUEUE, step);
            if (step && rand_below(&rand, 2))
                put_op(a, begin + 2, step, RING_COLL_END, step - 1);
            put(a, begin + 8, step, RING_STEP_END);
            if (rand_below(&rand, 3))
                assemble_round(a);
            while (assemble_take(a, &out) == 1) {
                assert_int_equal(out.step.step, next++);
                assert_int_equal(out.shape.count, 1);
                assembled_fini(&out);
            }
        }
        assert_true(next >= 37);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_step_comes_out_whole),
        cmocka_unit_test(a_step_waits_for_its_last_operation),
        cmocka_unit_test(a_step_waits_for_two_later_ones_at_most),
        cmocka_unit_test(events_of_lanes_may_come_in_any_order_and_twice),
        cmocka_unit_test(a_phase_over_a_border_is_split_at_it),
        cmocka_unit_test(the_end_of_a_phase_ends_what_is_left_open_inside_it),
        cmocka_unit_test(spans_told_a_step_late_belong_where_they_were_launched),
        cmocka_unit_test(point_to_point_keeps_its_peer),
        cmocka_unit_test(more_operations_than_fit_are_merged),
        cmocka_unit_test(what_a_rank_does_after_its_last_step_is_that_steps_tail),
        cmocka_unit_test(the_last_step_comes_out_when_the_rank_is_gone),
        cmocka_unit_test(scheduler_times_are_taken_at_the_borders),
        cmocka_unit_test(notes_of_two_threads_are_joined_apart),
        cmocka_unit_test(ways_of_moving_come_out_in_order_and_once),
        cmocka_unit_test(one_whose_communicator_is_not_known_waits_for_it),
        cmocka_unit_test(what_is_too_much_of_it_is_counted),
        cmocka_unit_test(metrics_and_digest_come_through),
        cmocka_unit_test(a_view_says_what_each_stream_is_in),
        cmocka_unit_test(a_view_says_how_far_each_channel_is_while_nothing_ends),
        cmocka_unit_test(shuffled_lanes_give_every_step_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
