/* test-probe.c - what is marked is what is read. */
#include "probe/test/scene.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static void every_mark_is_read_back_as_it_was_told(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[32];
    uint64_t lost = 0;
    double value;
    int comm;

    assert_int_equal(lockstep_probe_open(3, 8, &probe), 0);
    reader = scene_read(*state, 3, 0);
    comm = lockstep_comm_add(probe, 77, 4, 1, LOCKSTEP_COMM_DP, "dp");
    assert_int_equal(comm, 0);
    lockstep_phase_begin(probe, LOCKSTEP_PHASE_INIT);
    lockstep_step_begin(probe, 41);
    lockstep_device_span(probe, 2, LOCKSTEP_PHASE_FORWARD, 5, 6, 7);
    assert_int_equal(lockstep_coll_enqueue(probe, comm, LOCKSTEP_OP_ALL_REDUCE, 1024, 9), 0);
    assert_int_equal(lockstep_coll_enqueue(probe, comm, LOCKSTEP_OP_BARRIER, 0, 9), 1);
    lockstep_coll_start(probe, comm, 1, 0);
    lockstep_coll_end(probe, comm, 1, 0);
    assert_int_equal(lockstep_p2p_enqueue(probe, comm, LOCKSTEP_OP_SEND, 3, 64, 1), 0);
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
    assert_int_equal(e[4].a, 1);
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
    struct lockstep_layout layout = { 2, 2, 2, 1, 1, 1, 0, 1, 0, 0 };
    struct lockstep_probe *probe = NULL;
    struct ring_comm_info comm;
    struct ring_reader *reader;
    struct ring_info info;

    setenv("LOCKSTEP_RUN", "r1", 1);
    setenv("LOCKSTEP_RESTART", "2", 1);
    assert_int_equal(lockstep_probe_open(5, 8, &probe), 0);
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
    assert_int_equal(lockstep_coll_enqueue(probe, 0, LOCKSTEP_OP_ALL_GATHER, 8, 1), 0);
    lockstep_probe_close(probe);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.has_layout, 1);
    assert_memory_equal(info.layout, &layout, sizeof(layout));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(every_mark_is_read_back_as_it_was_told),
        SCENE_TEST(header_and_table_say_who_the_rank_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
