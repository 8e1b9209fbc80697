/* test-probe.c - what is marked is what is read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "probe/probe_private.h"

static void a_launch_is_an_enqueue_and_a_start_at_one_time(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[8];
    struct ring_comm_info info;
    uint64_t lost = 0;
    int comm;

    assert_int_equal(lockstep_probe_open(3, 8, &probe, NULL, 0), 0);
    reader = scene_read(*state, 3, 0);
    comm = lockstep_comm_add(probe, 77, 4, 1, LOCKSTEP_COMM_DP, "dp");
    lockstep_coll_enqueue(probe,
                          LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_BARRIER, .stream = 1));
    assert_int_equal(
        lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_ALL_REDUCE,
                                                      .bytes = 64, .dtype = LOCKSTEP_DTYPE_FLOAT32,
                                                      .stream = 7, .flags = LOCKSTEP_FLAG_STARTED)),
        1);
    assert_int_equal(
        lockstep_coll_enqueue(
            probe, LOCKSTEP_OP_DESC(.comm = RING_COMMS, .op = LOCKSTEP_OP_ALL_REDUCE, .bytes = 1,
                                    .dtype = 1, .stream = 1, .flags = LOCKSTEP_FLAG_STARTED)),
        0);
    assert_int_equal(
        lockstep_coll_enqueue(NULL, LOCKSTEP_OP_DESC(.comm = 0, .op = LOCKSTEP_OP_ALL_REDUCE,
                                                     .bytes = 1, .dtype = 1, .stream = 1,
                                                     .flags = LOCKSTEP_FLAG_STARTED)),
        0);
    assert_int_equal(scene_drain(reader, e, 8, &lost), 3);
    assert_int_equal(e[1].kind, RING_COLL_ENQUEUE);
    assert_int_equal(e[1].a, 1);
    assert_int_equal(e[1].b, 64);
    assert_int_equal(e[1].d, LOCKSTEP_DTYPE_FLOAT32);
    assert_int_equal(e[1].stream, 7);
    assert_int_equal(e[2].kind, RING_COLL_START);
    assert_int_equal(e[2].a, 1);
    assert_int_equal(e[2].time_ns, e[1].time_ns);
    assert_int_equal(ring_reader_comm(reader, (uint32_t)comm, &info), 1);
    assert_int_equal(info.coll_enqueued, 2);
    assert_int_equal(info.coll_started, 1);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void a_type_that_is_none_is_not_told(void **state)
{
    const int dtype[] = { -1, LOCKSTEP_DTYPE_COUNT, LOCKSTEP_DTYPE_MIXED };
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[8];
    uint64_t lost = 0;
    int comm;

    assert_int_equal(lockstep_probe_open(3, 8, &probe, NULL, 0), 0);
    reader = scene_read(*state, 3, 0);
    comm = lockstep_comm_add(probe, 77, 4, 1, LOCKSTEP_COMM_DP, "dp");
    for (int i = 0; i < 3; i++)
        lockstep_p2p_enqueue(probe,
                             LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_RECV, .bytes = 64,
                                              .dtype = (enum lockstep_dtype)dtype[i], .peer = 2,
                                              .stream = 1));
    assert_int_equal(scene_drain(reader, e, 8, &lost), 3);
    assert_int_equal(e[0].d, LOCKSTEP_DTYPE_UNKNOWN);
    assert_int_equal(e[1].d, LOCKSTEP_DTYPE_UNKNOWN);
    assert_int_equal(e[2].d, LOCKSTEP_DTYPE_MIXED);
    assert_int_equal(e[2].c, 2);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void how_a_collective_is_moved_is_told_with_its_bounds(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[8];
    uint64_t lost = 0;
    int comm;

    assert_int_equal(lockstep_probe_open(3, 8, &probe, NULL, 0), 0);
    reader = scene_read(*state, 3, 0);
    comm = lockstep_comm_add(probe, 77, 4, 1, LOCKSTEP_COMM_DP, "dp");
    lockstep_coll_method(probe, comm, LOCKSTEP_OP_ALL_REDUCE, 4096, 16, "RING/SIMPLE");
    lockstep_coll_method(probe, comm, LOCKSTEP_OP_ALL_GATHER, UINT64_MAX, 70000,
                         "a name that is longer than what a record has room for");
    lockstep_coll_method(probe, comm, LOCKSTEP_OP_SEND, 1, 1, "RING/LL"); /* no collective */
    lockstep_coll_method(probe, comm, LOCKSTEP_OP_ALL_REDUCE, 1, 1, NULL);
    lockstep_coll_method(probe, RING_COMMS, LOCKSTEP_OP_ALL_REDUCE, 1, 1, "RING/LL");
    assert_int_equal(scene_drain(reader, e, 8, &lost), 2);
    assert_int_equal(e[0].kind, RING_COLL_METHOD);
    assert_int_equal(e[0].detail, LOCKSTEP_OP_ALL_REDUCE);
    assert_int_equal(e[0].comm, comm);
    assert_int_equal(e[0].a, 4096 | UINT64_C(16) << 48);
    assert_memory_equal(&e[0].b, "RING/SIM", 8);
    assert_memory_equal(&e[0].c, "PLE\0\0\0\0\0", 8);
    assert_int_equal(e[1].a, UINT64_MAX);
    assert_memory_equal(&e[1].d, "onger th", 8);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

/* NOLINTNEXTLINE(readability-function-size): one of each */
static void every_mark_is_read_back_as_it_was_told(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[32];
    uint64_t lost = 0;
    double value;
    int comm;

    assert_int_equal(lockstep_probe_open(3, 8, &probe, NULL, 0), 0);
    reader = scene_read(*state, 3, 0);
    comm = lockstep_comm_add(probe, 77, 4, 1, LOCKSTEP_COMM_DP, "dp");
    assert_int_equal(comm, 0);
    lockstep_phase_begin(probe, LOCKSTEP_PHASE_INIT);
    lockstep_step_begin(probe, 41);
    lockstep_device_span(probe, 2, LOCKSTEP_PHASE_FORWARD, 5, 6, 7);
    assert_int_equal(
        lockstep_coll_enqueue(
            probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_ALL_REDUCE, .bytes = 1024,
                                    .dtype = LOCKSTEP_DTYPE_BFLOAT16, .stream = 9)),
        0);
    assert_int_equal(
        lockstep_coll_enqueue(
            probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_BARRIER, .stream = 9)),
        1);
    lockstep_coll_start(probe, comm, 1, 0);
    lockstep_coll_end(probe, comm, 1, 0);
    assert_int_equal(
        lockstep_p2p_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_SEND,
                                                     .bytes = 64, .peer = 3, .stream = 1)),
        0);
    lockstep_p2p_start(probe, comm, 0, 0);
    lockstep_p2p_end(probe, comm, 0, 0);
    lockstep_metric_put(probe, LOCKSTEP_METRIC_LOSS, 2.5);
    lockstep_digest_put(probe, 1, 4, 10, 11);
    lockstep_phase_end(probe, LOCKSTEP_PHASE_INIT);
    lockstep_step_end(probe, 41);

    assert_int_equal(scene_drain(reader, e, 32, &lost), 14);
    assert_int_equal(lost, 0);
    assert_int_equal(e[0].kind, RING_PHASE_BEGIN);
    assert_int_equal(e[0].step, RING_NO_STEP);
    assert_int_equal(e[0].comm, -1);
    assert_int_equal(e[1].kind, RING_STEP_BEGIN);
    assert_int_equal(e[1].step, 41);
    assert_int_equal(e[2].kind, RING_SPAN);
    assert_int_equal(e[2].stream, 2);
    assert_int_equal(e[2].detail, LOCKSTEP_PHASE_FORWARD);
    assert_int_equal(e[2].a, 5);
    assert_int_equal(e[2].b, 6);
    assert_int_equal(e[2].c, 7);
    assert_int_equal(e[3].kind, RING_COLL_ENQUEUE);
    assert_int_equal(e[3].detail, LOCKSTEP_OP_ALL_REDUCE);
    assert_int_equal(e[3].stream, 9);
    assert_int_equal(e[3].comm, comm);
    assert_int_equal(e[3].a, 0);
    assert_int_equal(e[3].b, 1024);
    assert_int_equal(e[3].d, LOCKSTEP_DTYPE_BFLOAT16);
    assert_int_equal(e[4].a, 1);
    assert_int_equal(e[4].d, LOCKSTEP_DTYPE_UNKNOWN);
    assert_int_equal(e[5].kind, RING_COLL_START);
    assert_int_equal(e[5].a, 1);
    assert_int_equal(e[6].kind, RING_COLL_END);
    assert_int_equal(e[7].kind, RING_P2P_ENQUEUE);
    assert_int_equal(e[7].detail, LOCKSTEP_OP_SEND);
    assert_int_equal(e[7].b, 64);
    assert_int_equal(e[7].c, 3);
    assert_int_equal(e[8].kind, RING_P2P_START);
    assert_int_equal(e[9].kind, RING_P2P_END);
    assert_int_equal(e[10].kind, RING_METRIC);
    memcpy(&value, &e[10].a, sizeof(value));
    assert_true(fabs(value - 2.5) < 1e-12);
    assert_int_equal(e[11].kind, RING_DIGEST);
    assert_int_equal(e[11].a, 1 | UINT64_C(4) << 32);
    assert_int_equal(e[11].b, 10);
    assert_int_equal(e[11].c, 11);
    assert_int_equal(e[12].kind, RING_PHASE_END);
    assert_int_equal(e[13].kind, RING_STEP_END);
    for (int i = 1; i < 14; i++)
        assert_true(e[i - 1].time_ns <= e[i].time_ns);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void header_and_table_say_who_the_rank_is(void **state)
{
    struct lockstep_layout layout = {
        sizeof(struct lockstep_layout), 2, 2, 2, 1, 1, 1, 0, 1, 0, 0, { 0, 0 }
    };
    struct lockstep_probe *probe = NULL;
    struct ring_comm_info comm;
    struct ring_reader *reader;
    struct ring_info info;

    setenv("LOCKSTEP_RUN", "r1", 1);
    setenv("LOCKSTEP_RESTART", "2", 1);
    assert_int_equal(lockstep_probe_open(5, 8, &probe, NULL, 0), 0);
    reader = scene_read(*state, 5, 0);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.rank, 5);
    assert_int_equal(info.world, 8);
    assert_int_equal(info.attempt, 2);
    assert_int_equal(info.pid, getpid());
    assert_int_equal(info.uid, geteuid());
    assert_int_not_equal(info.pid_start, 0);
    assert_string_equal(info.run, "r1");
    assert_int_equal(info.step, RING_NO_STEP);
    assert_int_equal(info.has_layout, 0);
    assert_int_equal(info.lanes_used, 1);
    assert_int_equal(ring_reader_comm(reader, 0, &comm), 0);

    lockstep_layout_set(probe, &layout);
    lockstep_step_begin(probe, 7);
    assert_int_equal(
        lockstep_comm_add(probe, 9, 2, 1, LOCKSTEP_COMM_TP, "a name of more than thirty-two bytes"),
        0);
    assert_int_equal(
        lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = 0, .op = LOCKSTEP_OP_ALL_GATHER,
                                                      .bytes = 8, .stream = 1)),
        0);
    lockstep_probe_close(probe);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.has_layout, 1);
    assert_memory_equal(info.layout, &layout.tp_size, sizeof(info.layout));
    assert_int_equal(info.step, 7);
    assert_int_equal(info.comms_used, 1);
    assert_int_equal(info.closed, 1);
    assert_int_equal(ring_reader_comm(reader, 0, &comm), 1);
    assert_int_equal(comm.id, 9);
    assert_int_equal(comm.size, 2);
    assert_int_equal(comm.index, 1);
    assert_string_equal(comm.name, "a name of more than thirty-two b");
    assert_int_equal(comm.coll_enqueued, 1);
    assert_int_equal(comm.coll_started, 0);
    ring_reader_close(reader);
}

/* Puts the parts of a note together again; returns how many records it took. */
static size_t note_join(const struct ring_event *event, char *out)
{
    for (size_t i = 0;; i++) {
        memcpy(out + 32 * i, &event[i].a, 32);
        out[32 * i + 32] = 0;
        if (event[i].kind != RING_NOTE || (event[i].detail & 0x7f) != i)
            return 0;
        if (!(event[i].detail & 0x80))
            return i + 1;
    }
}

static void a_note_goes_over_as_many_records_as_it_needs(void **state)
{
    static const struct {
        size_t size, kept, records;
    } cases[] = { { 0, 0, 1 },   { 1, 1, 1 },      { 32, 32, 1 },    { 33, 33, 2 },
                  { 64, 64, 2 }, { 320, 320, 10 }, { 1000, 320, 10 } };
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    char text[1001], joined[353];
    uint64_t lost = 0;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ring_event event[16];

        for (size_t k = 0; k < cases[i].size; k++)
            text[k] = (char)('a' + k % 26);
        text[cases[i].size] = 0;
        lockstep_note_put(probe, text);
        assert_int_equal(scene_drain(reader, event, 16, &lost), cases[i].records);
        assert_int_equal(note_join(event, joined), cases[i].records);
        text[cases[i].kept] = 0;
        assert_string_equal(joined, text);
    }
    lockstep_note_put(probe, NULL);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void request_depth(struct ring_reader *reader, uint64_t id, uint64_t step, uint64_t depth)
{
    const struct ring_request request = {
        .id = id, .step = step, .argument = depth, .kind = RING_REQUEST_DEPTH
    };

    assert_int_equal(ring_reader_request(reader, &request), 0);
}

static void answer_is(struct ring_reader *reader, uint32_t kind, struct ring_answer expected)
{
    struct ring_answer answer = { 0 };

    assert_int_equal(ring_reader_answer(reader, kind, &answer), expected.id ? 1 : 0);
    assert_int_equal(answer.id, expected.id);
    assert_int_equal(answer.step, expected.step);
    assert_int_equal(answer.answer, expected.answer);
}

static void a_depth_takes_effect_at_its_step_and_leaves_a_record(void **state)
{
    const uint64_t depth_1 = UINT64_C(1) << RING_DEPTH_SHIFT;
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[16];
    uint64_t lost = 0;
    int comm;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    comm = lockstep_comm_add(probe, 1, 1, 0, LOCKSTEP_COMM_DP, "dp");
    request_depth(reader, 1, 2, 1);
    lockstep_step_begin(probe, 1); /* seen, but for a later step */
    lockstep_phase_begin(probe, LOCKSTEP_PHASE_DATA);
    answer_is(reader, RING_REQUEST_DEPTH, (struct ring_answer){ 0 });
    assert_int_equal(scene_drain(reader, e, 16, &lost), 2);
    lockstep_step_begin(probe, 2);
    answer_is(reader, RING_REQUEST_DEPTH, (struct ring_answer){ 1, 2, LOCKSTEP_ANSWER_DONE });
    lockstep_phase_begin(probe, LOCKSTEP_PHASE_DATA);
    lockstep_device_span(probe, 1, LOCKSTEP_PHASE_FORWARD, 1, 2, 3);
    lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_BARRIER));
    assert_int_equal(scene_drain(reader, e, 16, &lost), 3);
    assert_int_equal(e[0].kind, RING_DEPTH);
    assert_int_equal(e[0].a, depth_1);
    assert_int_equal(e[0].step, 2);
    assert_int_equal(e[1].kind, RING_STEP_BEGIN);
    assert_int_equal(e[2].kind, RING_COLL_ENQUEUE);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void recording_can_be_turned_off_and_on_and_counts_go_on(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[16];
    uint64_t lost = 0;
    int comm;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    comm = lockstep_comm_add(probe, 1, 1, 0, LOCKSTEP_COMM_DP, "dp");
    request_depth(reader, 2, 0, RING_REQUEST_DEPTH_OFF); /* a step that is over: from now on */
    lockstep_step_begin(probe, 2);
    answer_is(reader, RING_REQUEST_DEPTH, (struct ring_answer){ 2, 2, LOCKSTEP_ANSWER_DONE });
    lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_BARRIER));
    lockstep_note_put(probe, "nobody hears");
    lockstep_metric_put(probe, LOCKSTEP_METRIC_LOSS, 1);
    lockstep_step_end(probe, 2);
    assert_int_equal(scene_drain(reader, e, 16, &lost), 1);
    assert_int_equal(e[0].kind, RING_DEPTH);
    assert_int_equal(e[0].a, RING_DEPTH_OFF);
    request_depth(reader, 3, 0, 77); /* no such depth */
    lockstep_step_begin(probe, 3);
    answer_is(reader, RING_REQUEST_DEPTH, (struct ring_answer){ 3, 3, LOCKSTEP_ANSWER_REFUSED });
    assert_int_equal(scene_drain(reader, e, 16, &lost), 0);
    request_depth(reader, 4, 0, 0);
    lockstep_step_begin(probe, 4);
    lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_BARRIER));
    assert_int_equal(scene_drain(reader, e, 16, &lost), 3);
    assert_int_equal(e[0].kind, RING_DEPTH);
    assert_int_equal(e[1].kind, RING_STEP_BEGIN);
    assert_int_equal(e[2].a, 1);   /* the count went on in the dark */
    lockstep_step_begin(probe, 5); /* nothing new: no record */
    assert_int_equal(scene_drain(reader, e, 16, &lost), 1);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void a_request_is_there_until_it_is_answered(void **state)
{
    struct lockstep_request got = { .size = sizeof(got) };
    struct ring_request request = { .id = 5, .step = 40, .kind = RING_REQUEST_CHECKPOINT };
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    assert_int_equal(lockstep_request_get(probe, &got), 0);
    assert_int_equal(ring_reader_request(reader, &request), 0);
    lockstep_step_begin(probe, 41);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lockstep_request_get(probe, &got), 1);
        assert_int_equal(got.kind, LOCKSTEP_REQUEST_CHECKPOINT);
        assert_int_equal(got.step, 40);
        assert_int_equal(got.id, 5);
    }
    answer_is(reader, got.kind, (struct ring_answer){ 0 });
    lockstep_request_answer(probe, &got, LOCKSTEP_ANSWER_PAST);
    answer_is(reader, got.kind, (struct ring_answer){ 5, 41, LOCKSTEP_ANSWER_PAST });
    assert_int_equal(lockstep_request_get(probe, &got), 0);
    assert_int_equal(ring_reader_request(reader, &request), 0); /* the same again: it is answered */
    assert_int_equal(lockstep_request_get(probe, &got), 0);
    request = (struct ring_request){ .id = 6, .step = 60, .kind = RING_REQUEST_CHECKPOINT };
    assert_int_equal(ring_reader_request(reader, &request), 0);
    assert_int_equal(lockstep_request_get(probe, &got), 1);
    assert_int_equal(got.step, 60);
    lockstep_request_answer(probe, &got, LOCKSTEP_ANSWER_DONE);
    answer_is(reader, got.kind, (struct ring_answer){ 6, 41, LOCKSTEP_ANSWER_DONE });
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void a_request_that_is_not_whole_is_not_read(void **state)
{
    struct lockstep_request got = { .size = sizeof(got) };
    const struct ring_request request = { .id = 5, .step = 40, .kind = RING_REQUEST_CHECKPOINT };
    struct lockstep_probe *probe = NULL;
    struct ring_request_place *place;
    struct ring_reader *reader;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    assert_int_equal(ring_reader_request(reader, &request), 0);
    place = &probe->header->request[0];
    place->seq++; /* its writer is at work */
    assert_int_equal(lockstep_request_get(probe, &got), 0);
    place->seq++;
    assert_int_equal(lockstep_request_get(probe, &got), 1);
    place->step ^= 1; /* half of another */
    assert_int_equal(lockstep_request_get(probe, &got), 0);
    place->step ^= 1;
    got.size = sizeof(got) - 1; /* of no version */
    assert_int_equal(lockstep_request_get(probe, &got), -EINVAL);
    assert_int_equal(lockstep_request_get(probe, NULL), -EINVAL);
    lockstep_request_answer(probe, &got, LOCKSTEP_ANSWER_DONE);
    got = (struct lockstep_request){ .size = sizeof(got), .kind = 1, .id = 5 };
    lockstep_request_answer(probe, &got, (enum lockstep_answer)0);
    lockstep_request_answer(probe, &got, (enum lockstep_answer)4);
    lockstep_request_answer(probe, NULL, LOCKSTEP_ANSWER_DONE);
    got.kind = RING_REQUESTS + 1;
    lockstep_request_answer(probe, &got, LOCKSTEP_ANSWER_DONE);
    answer_is(reader, 1, (struct ring_answer){ 0 });
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void structs_without_a_size_are_ignored(void **state)
{
    const struct lockstep_op_desc small = { .size = sizeof(small) - 1, .op = 1 };
    struct lockstep_layout layout = { 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, { 0, 0 } };
    struct {
        struct lockstep_op_desc desc;
        uint64_t later[4];
    } large = { .desc = { .size = sizeof(large), .op = LOCKSTEP_OP_BARRIER } };
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[4];
    uint64_t lost = 0;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    assert_int_equal(lockstep_comm_add(probe, 1, 1, 0, LOCKSTEP_COMM_DP, "dp"), 0);
    lockstep_coll_enqueue(probe, &small);
    lockstep_coll_enqueue(probe, NULL);
    lockstep_p2p_enqueue(probe, &small);
    lockstep_p2p_enqueue(probe, NULL);
    assert_int_equal(scene_drain(reader, e, 4, &lost), 0);
    lockstep_coll_enqueue(probe, &large.desc); /* of a newer header */
    assert_int_equal(scene_drain(reader, e, 4, &lost), 1);
    assert_int_equal(lockstep_layout_set(probe, &layout), -EINVAL);
    layout.size = sizeof(layout);
    assert_int_equal(lockstep_layout_set(probe, &layout), 0);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void a_message_can_start_when_it_is_enqueued(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[4];
    uint64_t lost = 0;

    assert_int_equal(lockstep_probe_open(0, 2, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    assert_int_equal(lockstep_comm_add(probe, 1, 2, 0, LOCKSTEP_COMM_PP, "pp"), 0);
    lockstep_p2p_enqueue(probe, LOCKSTEP_OP_DESC(.op = LOCKSTEP_OP_SEND, .peer = 1, .time_ns = 5,
                                                 .flags = LOCKSTEP_FLAG_STARTED));
    assert_int_equal(probe_p2p_launch(probe, 0, LOCKSTEP_OP_RECV, 1, 8, 1, LOCKSTEP_DTYPE_INT8), 1);
    assert_int_equal(scene_drain(reader, e, 4, &lost), 4);
    assert_int_equal(e[0].kind, RING_P2P_ENQUEUE);
    assert_int_equal(e[0].time_ns, 5);
    assert_int_equal(e[1].kind, RING_P2P_START);
    assert_int_equal(e[1].time_ns, 5);
    assert_int_equal(e[2].d, LOCKSTEP_DTYPE_INT8);
    assert_int_equal(e[3].kind, RING_P2P_START);
    assert_int_equal(e[3].time_ns, e[2].time_ns);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void a_second_open_of_the_same_rank_gives_the_same_probe(void **state)
{
    struct lockstep_probe *first = NULL, *second = NULL, *other = NULL;
    struct ring_reader *reader;
    struct ring_event e[4];
    struct ring_info info;
    uint64_t lost = 0;

    assert_int_equal(lockstep_probe_open(2, 4, &first, NULL, 0), 0);
    assert_int_equal(lockstep_probe_open(2, 4, &second, NULL, 0), 0);
    assert_ptr_equal(first, second);
    assert_int_equal(lockstep_probe_open(3, 4, &other, NULL, 0), -EBUSY);
    assert_null(other);
    reader = scene_read(*state, 2, 0);
    lockstep_probe_close(first);
    lockstep_step_begin(second, 1);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.closed, 0);
    lockstep_probe_close(second);
    lockstep_step_begin(second, 2); /* closed: dropped */
    lockstep_probe_close(second);   /* once too often: no harm */
    assert_int_equal(scene_drain(reader, e, 4, &lost), 1);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.closed, 1);
    ring_reader_close(reader);

    assert_int_equal(lockstep_probe_open(3, 4, &other, NULL, 0),
                     0); /* free again, and a ring of its own */
    lockstep_step_begin(other, 5);
    reader = scene_read(*state, 3, 0);
    assert_int_equal(scene_drain(reader, e, 4, &lost), 1);
    assert_int_equal(e[0].step, 5);
    ring_reader_close(reader);
    lockstep_probe_close(other);
}

/* A thread may be held up in the middle of a mark while others close and open. */
static void a_mark_that_comes_after_the_next_open_falls_on_memory_of_nobody(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_header *old;
    struct ring_event e[4];
    uint64_t lost = 0;

    assert_int_equal(lockstep_probe_open(2, 4, &probe, NULL, 0), 0);
    old = probe->header;
    lockstep_probe_close(probe);
    assert_int_equal(lockstep_probe_open(2, 4, &probe, NULL, 0), 0);
    assert_ptr_not_equal(old, probe->header);
    atomic_store(&old->dropped, 1);
    memset((unsigned char *)old + RING_LANES_OFFSET, 0xff, 4096);
    lockstep_step_begin(probe, 7);
    reader = scene_read(*state, 2, 1);
    assert_int_equal(scene_drain(reader, e, 4, &lost), 1);
    assert_int_equal(e[0].step, 7);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void communicators_are_known_by_their_id(void **state)
{
    struct lockstep_probe *probe = NULL;

    (void)state;
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    assert_int_equal(lockstep_comm_add(probe, 5, 2, 0, LOCKSTEP_COMM_DP, "a"), 0);
    assert_int_equal(lockstep_comm_add(probe, 6, 2, 0, LOCKSTEP_COMM_DP, NULL), 1);
    assert_int_equal(lockstep_comm_add(probe, 5, 2, 0, LOCKSTEP_COMM_DP, "a"), 0);
    assert_int_equal(lockstep_comm_add(probe, 0, 2, 0, LOCKSTEP_COMM_DP, "zero is an id"), 2);
    assert_int_equal(lockstep_comm_add(probe, 7, 0, 0, LOCKSTEP_COMM_DP, "x"), -EINVAL);
    assert_int_equal(lockstep_comm_add(probe, 7, 2, 2, LOCKSTEP_COMM_DP, "x"), -EINVAL);
    for (uint64_t i = 3; i < RING_COMMS; i++)
        assert_int_equal(lockstep_comm_add(probe, 100 + i, 2, 0, LOCKSTEP_COMM_DP, "n"), i);
    assert_int_equal(lockstep_comm_add(probe, 7, 2, 0, LOCKSTEP_COMM_DP, "x"), -ENOSPC);
    assert_int_equal(lockstep_comm_add(NULL, 7, 2, 0, LOCKSTEP_COMM_DP, "x"), -ENODEV);
    lockstep_probe_close(probe);
}

static void senseless_arguments_leave_no_mark(void **state)
{
    const struct lockstep_layout zero = { .size = sizeof(zero) };
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_info info;
    struct ring_event e[4];
    uint64_t lost = 0;

    assert_int_equal(lockstep_probe_open(1, 1, &probe, NULL, 0), -EINVAL);
    assert_int_equal(lockstep_probe_open(0, 0, &probe, NULL, 0), -EINVAL);
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    lockstep_phase_begin(probe, (enum lockstep_phase)0);
    lockstep_phase_end(probe, LOCKSTEP_PHASE_COUNT);
    lockstep_metric_put(probe, LOCKSTEP_METRIC_COUNT, 1);
    lockstep_coll_start(probe, -ENOSPC, 0, 0);
    lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = RING_COMMS, .op = LOCKSTEP_OP_BARRIER));
    lockstep_p2p_enqueue(probe, LOCKSTEP_OP_DESC(.comm = 0, .op = LOCKSTEP_OP_BARRIER, .peer = 0));
    assert_int_equal(lockstep_layout_set(probe, &zero), -EINVAL);
    assert_int_equal(lockstep_layout_set(probe, NULL), -EINVAL);
    assert_int_equal(scene_drain(reader, e, 4, &lost), 0);
    assert_int_equal(lost, 0);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.has_layout, 0);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void without_a_probe_every_call_does_nothing(void **state)
{
    const struct lockstep_layout layout = {
        sizeof(struct lockstep_layout), 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, { 0, 0 }
    };
    struct lockstep_request request = { .size = sizeof(request) };

    (void)state;
    lockstep_probe_close(NULL);
    assert_int_equal(lockstep_layout_set(NULL, &layout), -ENODEV);
    lockstep_step_begin(NULL, 1);
    lockstep_step_end(NULL, 1);
    lockstep_phase_begin(NULL, LOCKSTEP_PHASE_DATA);
    lockstep_phase_end(NULL, LOCKSTEP_PHASE_DATA);
    lockstep_device_span(NULL, 1, LOCKSTEP_PHASE_DATA, 1, 2, 3);
    assert_int_equal(
        lockstep_coll_enqueue(NULL, LOCKSTEP_OP_DESC(.comm = 0, .op = LOCKSTEP_OP_BARRIER)), 0);
    lockstep_coll_start(NULL, 0, 0, 0);
    lockstep_coll_end(NULL, 0, 0, 0);
    assert_int_equal(
        lockstep_p2p_enqueue(NULL, LOCKSTEP_OP_DESC(.comm = 0, .op = LOCKSTEP_OP_SEND, .peer = 0)),
        0);
    lockstep_p2p_start(NULL, 0, 0, 0);
    lockstep_p2p_end(NULL, 0, 0, 0);
    lockstep_metric_put(NULL, LOCKSTEP_METRIC_LOSS, 1);
    lockstep_digest_put(NULL, 0, 1, 0, 0);
    lockstep_note_put(NULL, "x");
    assert_int_equal(lockstep_request_get(NULL, &request), 0);
    lockstep_request_answer(NULL, &request, LOCKSTEP_ANSWER_DONE);
    assert_true(lockstep_clock_ns() > 0);
    assert_string_equal(lockstep_version(), LOCKSTEP_VERSION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(how_a_collective_is_moved_is_told_with_its_bounds),
        SCENE_TEST(every_mark_is_read_back_as_it_was_told),
        SCENE_TEST(a_type_that_is_none_is_not_told),
        SCENE_TEST(a_launch_is_an_enqueue_and_a_start_at_one_time),
        SCENE_TEST(header_and_table_say_who_the_rank_is),
        SCENE_TEST(a_note_goes_over_as_many_records_as_it_needs),
        SCENE_TEST(a_depth_takes_effect_at_its_step_and_leaves_a_record),
        SCENE_TEST(recording_can_be_turned_off_and_on_and_counts_go_on),
        SCENE_TEST(a_request_is_there_until_it_is_answered),
        SCENE_TEST(a_request_that_is_not_whole_is_not_read),
        SCENE_TEST(structs_without_a_size_are_ignored),
        SCENE_TEST(a_message_can_start_when_it_is_enqueued),
        SCENE_TEST(a_second_open_of_the_same_rank_gives_the_same_probe),
        SCENE_TEST(a_mark_that_comes_after_the_next_open_falls_on_memory_of_nobody),
        SCENE_TEST(communicators_are_known_by_their_id),
        SCENE_TEST(senseless_arguments_leave_no_mark),
        SCENE_TEST(without_a_probe_every_call_does_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
