/* test-nccl-threads.c - one thread launches, another tells of the kernels, someone reads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/nccl_stage.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "probe/nccl_private.h"

#define COMMS 2
#define LAUNCHES 20000u
#define QUEUE 4096u

/* NCCL's work queue: tasks go from one thread to the other. */
struct pair {
    void *context;
    uint32_t room;        /* launches that may be under way */
    uint32_t forget;      /* every so many are told of in part only; 0: none */
    _Atomic uint32_t put; /* launches so far */
    _Atomic uint32_t got;
    void *_Atomic task[QUEUE];
    pthread_t launcher, teller;
};

static void *launch(void *arg)
{
    struct pair *pair = arg;

    for (uint32_t i = 0; i < LAUNCHES; i++) {
        void *group;

        while (i - atomic_load(&pair->got) >= pair->room)
            sched_yield();
        group = i % 3 == 0 ? play_group(pair->context) : NULL;
        atomic_store(&pair->task[i % QUEUE],
                     play_coll(pair->context, group, play_all_reduce(i % 64, 2)));
        atomic_store(&pair->put, i + 1);
        play_stop(group);
    }
    return NULL;
}

static void *put_events(void *arg)
{
    struct pair *pair = arg;

    for (uint32_t i = 0; i < LAUNCHES; i++) {
        void *task, *kernel[2];

        while (atomic_load(&pair->put) <= i)
            sched_yield();
        task = atomic_load(&pair->task[i % QUEUE]);
        for (uint8_t k = 0; k < 2; k++)
            kernel[k] = play_kernel(pair->context, task, k, play_timer(lockstep_clock_ns()));
        play_kernel_end(kernel[0], play_timer(lockstep_clock_ns()));
        if (!pair->forget || i % pair->forget != 0 || i == LAUNCHES - 1)
            play_kernel_end(kernel[1], play_timer(lockstep_clock_ns()));
        atomic_store(&pair->got, i + 1);
    }
    return NULL;
}

struct seen { /* records of each communicator */
    uint64_t enqueued[COMMS], started[COMMS], ended[COMMS];
};

static int look(struct ring_reader *reader, struct seen *seen, uint64_t *lost)
{
    static struct ring_event event[4096];
    int got = ring_reader_next(reader, event, 4096, lost, NULL);

    assert_true(got >= 0);
    for (int i = 0; i < got; i++) {
        if (event[i].kind == RING_COLL_METHOD)
            continue;
        assert_true(event[i].comm >= 0 && event[i].comm < COMMS);
        seen->enqueued[event[i].comm] += event[i].kind == RING_COLL_ENQUEUE;
        seen->started[event[i].comm] += event[i].kind == RING_COLL_START;
        seen->ended[event[i].comm] += event[i].kind == RING_COLL_END;
    }
    return got;
}

static void play(void **state, uint32_t room, uint32_t forget)
{
    static struct pair pair[COMMS];
    struct lockstep_probe *probe = NULL;
    struct ring_comm_info comm;
    struct ring_reader *reader;
    struct seen seen = { 0 };
    uint64_t lost = 0;

    setenv("LOCKSTEP_RING_RECORDS", "65536", 1);
    assert_int_equal(lockstep_probe_open(STAGE_RANK, STAGE_RANKS, &probe, NULL, 0), 0);
    reader = scene_read(*state, STAGE_RANK, 0);
    for (uint64_t i = 0; i < COMMS; i++) {
        atomic_store(&pair[i].put, 0);
        atomic_store(&pair[i].got, 0);
        pair[i].room = room;
        pair[i].forget = forget;
        pair[i].context = play_init(77 + i, "dp", STAGE_RANKS, STAGE_RANK);
        assert_non_null(pair[i].context);
    }
    for (int i = 0; i < COMMS; i++) {
        assert_int_equal(pthread_create(&pair[i].launcher, NULL, launch, &pair[i]), 0);
        assert_int_equal(pthread_create(&pair[i].teller, NULL, put_events, &pair[i]), 0);
    }
    while (atomic_load(&pair[0].got) < LAUNCHES || atomic_load(&pair[1].got) < LAUNCHES) {
        look(reader, &seen, &lost);
        usleep(1000);
    }
    for (int i = 0; i < COMMS; i++) {
        pthread_join(pair[i].launcher, NULL);
        pthread_join(pair[i].teller, NULL);
        play_finalize(pair[i].context);
    }
    while (look(reader, &seen, &lost) > 0)
        ;
    for (uint32_t i = 0; i < COMMS; i++) {
        assert_int_equal(ring_reader_comm(reader, i, &comm), 1);
        assert_int_equal(comm.coll_enqueued, LAUNCHES);
        assert_true(comm.coll_ended <= comm.coll_started && comm.coll_started <= LAUNCHES);
        if (room <= NCCL_OPS)
            assert_int_equal(comm.coll_ended, LAUNCHES);
        if (lost == 0) {
            assert_int_equal(seen.enqueued[i], comm.coll_enqueued);
            assert_int_equal(seen.started[i], comm.coll_started);
            assert_int_equal(seen.ended[i], comm.coll_ended);
        }
    }
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void what_one_launches_the_other_ends(void **state)
{
    play(state, 1000, 0);
}

static void stops_that_are_missing_are_settled_meanwhile(void **state)
{
    play(state, 64, 5);
}

static void launches_that_run_far_ahead_are_let_go_whole(void **state)
{
    play(state, QUEUE, 7); /* more than are remembered */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(what_one_launches_the_other_ends),
        STAGE_TEST(stops_that_are_missing_are_settled_meanwhile),
        STAGE_TEST(launches_that_run_far_ahead_are_let_go_whole),
    };
    int failed = 0;

    for (play_version = 4; play_version <= 6; play_version++)
        failed += cmocka_run_group_tests_name(play_names[play_version], tests, NULL, NULL);
    return failed;
}
