/* test-gloo.c - all-reduces of gloo become records, and what is not known is not touched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include <errno.h>
#include <pthread.h>

#include "probe/test/gloo_play.h"

#define ROOM 4096

static struct lockstep_probe *probe;
static struct play_group group;
static struct play_tensor tensor;

static void begin(void)
{
    static struct gloo_torch torch;

    torch = play_torch();
    assert_int_equal(gloo_use(&torch, sizeof(torch)), 0);
    assert_int_equal(lockstep_probe_open(3, 4, &probe, NULL, 0), 0);
    group = (struct play_group){ .object.table = PLAY_GROUP_TABLE };
    tensor = play_tensor(1000, PLAY_FLOAT);
}

static int comm_add(uint64_t id)
{
    return lockstep_comm_add(probe, id, 4, 3, LOCKSTEP_COMM_DP, "replicas");
}

static void watch(void)
{
    assert_int_equal(gloo_watch(&group, probe, comm_add(1), 0xff80), 0);
}

static struct play_work work_make(unsigned class)
{
    return (struct play_work){ .object.table = play_work_table(class) };
}

static void end(void)
{
    gloo_over();
    gloo_watch(&group, probe, -1, 0);
    lockstep_probe_close(probe);
}

static size_t events(void **state, unsigned number, struct ring_event *event)
{
    struct ring_reader *reader = scene_read(*state, 3, number);
    uint64_t lost = 0;
    size_t count = scene_drain(reader, event, ROOM, &lost);

    assert_int_equal(lost, 0);
    ring_reader_close(reader);
    return count;
}

static void test_refuses_what_cannot_be(void **state)
{
    struct gloo_torch torch = play_torch(), odd;
    struct play_group other = { .object.table = play_work_table(0) };

    (void)state;
    assert_int_equal(gloo_watch(&other, NULL, 0, 0), -EINVAL); /* nobody has told what is what */
    assert_int_equal(gloo_use(&torch, sizeof(torch) - 1), -EINVAL);
    odd = torch, odd.group_allreduce = 256;
    assert_int_equal(gloo_use(&odd, sizeof(odd)), -EINVAL);
    odd = torch, odd.group_delete = UINT32_MAX;
    assert_int_equal(gloo_use(&odd, sizeof(odd)), -EINVAL);
    odd = torch, odd.work_delete = 64;
    assert_int_equal(gloo_use(&odd, sizeof(odd)), -EINVAL);
    odd = torch, odd.data_begin += 8;
    assert_int_equal(gloo_use(&odd, sizeof(odd)), -EINVAL);
    odd = torch, odd.data_end = (uintptr_t)(PLAY_GROUP_TABLE + 255);
    assert_int_equal(gloo_use(&odd, sizeof(odd)), -EINVAL);

    begin();
    assert_int_equal(gloo_watch(&other, probe, 0, 0), -EINVAL); /* of another class */
    assert_ptr_equal(other.object.table, play_work_table(0));
    assert_int_equal(gloo_watch(NULL, probe, 0, 0), -EINVAL);
    assert_int_equal(gloo_watch(&group, probe, RING_COMMS, 0), -EINVAL);
    assert_ptr_equal(group.object.table, PLAY_GROUP_TABLE);
    end();
}

static void test_launch_and_end_are_told(void **state)
{
    struct play_work work[2] = { work_make(0), work_make(1) };
    struct ring_event event[ROOM];
    uint64_t before_ns, launched_ns, over_ns;

    begin();
    watch();
    before_ns = lockstep_clock_ns();
    assert_ptr_equal(play_reduce(&group, &work[0], &tensor), &work[0]);
    launched_ns = lockstep_clock_ns();
    assert_ptr_equal(play_reduce(&group, &work[1], &tensor), &work[1]);
    assert_int_equal(group.calls, 2);
    assert_int_equal(gloo_look(), 2);

    play_delete(&work[1]);
    over_ns = lockstep_clock_ns();
    assert_int_equal(work[1].deleted, 1);
    assert_ptr_equal(work[1].object.table, play_work_table(1)); /* as torch's destructor knows it */
    assert_int_equal(gloo_look(), 1);
    gloo_over();
    assert_int_equal(gloo_look(), 0);
    play_delete(&work[0]); /* later than the reducer's waiting */
    assert_int_equal(work[0].deleted, 1);

    assert_int_equal(events(state, 0, event), 6);
    assert_int_equal(event[0].kind, RING_COLL_ENQUEUE);
    assert_int_equal(event[0].b, 4000);
    assert_int_equal(event[0].d, LOCKSTEP_DTYPE_FLOAT32);
    assert_int_equal(event[0].stream, 0xff80);
    assert_true(before_ns <= event[0].time_ns && event[0].time_ns <= launched_ns);
    assert_int_equal(event[1].kind, RING_COLL_START);
    assert_int_equal(event[1].time_ns, event[0].time_ns);
    assert_int_equal(event[4].kind, RING_COLL_END); /* when it was over, not when that was told */
    assert_int_equal(event[4].a, 1);
    assert_true(event[2].time_ns <= event[4].time_ns && event[4].time_ns <= over_ns);
    assert_int_equal(event[5].kind, RING_COLL_END);
    assert_int_equal(event[5].a, 0);
    assert_true(over_ns <= event[5].time_ns);
    end();
}

static void test_what_is_not_ours_passes(void **state)
{
    struct play_work work[4] = { work_make(0), work_make(0), work_make(0), work_make(0) };
    struct ring_event event[ROOM];
    jmp_buf there;

    begin();
    watch();
    gloo_aside(1);
    assert_ptr_equal(play_reduce(&group, &work[0], &tensor), &work[0]);
    gloo_aside(-1);
    assert_ptr_equal(work[0].object.table, play_work_table(0));
    assert_null(play_reduce(&group, NULL, &tensor));
    group.throws = &there; /* as an exception of C++ passes: nothing was launched */
    if (setjmp(there) == 0)
        play_reduce(&group, &work[1], &tensor);
    group.throws = NULL;

    gloo_watch(&group, probe, -1, 0);
    assert_ptr_equal(group.object.table, PLAY_GROUP_TABLE);
    assert_ptr_equal(play_reduce(&group, &work[2], &tensor), &work[2]);
    assert_int_equal(events(state, 0, event), 0);

    watch();
    lockstep_probe_close(probe);
    assert_ptr_equal(play_reduce(&group, &work[3], &tensor), &work[3]);
    assert_ptr_equal(work[3].object.table, play_work_table(0));
    assert_int_equal(group.calls, 5);
    assert_int_equal(gloo_look(), 0);
    gloo_watch(&group, probe, -1, 0);
}

static void test_groups_come_and_go(void **state)
{
    struct play_group many[RING_COMMS + 1];
    struct play_work work[3] = { work_make(0), work_make(0), work_make(0) };
    struct ring_event event[ROOM];
    int comm;

    begin();
    watch();
    assert_int_equal(gloo_watch(&group, probe, comm_add(2), 0xff81), 0); /* told anew */
    play_reduce(&group, &work[0], &tensor);
    play_delete(&group);
    assert_int_equal(group.deleted, 1);
    assert_ptr_equal(group.object.table, PLAY_GROUP_TABLE);
    /* Another one at the same address. */
    group = (struct play_group){ .object.table = PLAY_GROUP_TABLE };
    play_reduce(&group, &work[1], &tensor);
    watch();
    play_reduce(&group, &work[2], &tensor);
    gloo_over();
    assert_int_equal(events(state, 0, event), 6);
    assert_int_equal(event[0].comm, 1);
    assert_int_equal(event[0].stream, 0xff81);
    assert_int_equal(event[2].comm, 0);

    comm = comm_add(1);
    for (size_t i = 0; i <= RING_COMMS; i++)
        many[i] = (struct play_group){ .object.table = PLAY_GROUP_TABLE };
    for (size_t i = 0; i < RING_COMMS - 1; i++)
        assert_int_equal(gloo_watch(&many[i], probe, comm, 0), 0);
    assert_int_equal(gloo_watch(&many[RING_COMMS], probe, comm, 0), -ENOSPC);
    assert_ptr_equal(many[RING_COMMS].object.table, PLAY_GROUP_TABLE);
    for (size_t i = 0; i < RING_COMMS - 1; i++)
        play_delete(&many[i]);
    assert_int_equal(gloo_watch(&many[RING_COMMS], probe, comm, 0), 0);
    play_delete(&many[RING_COMMS]);
    end();
}

static void test_another_ring_gets_nothing_of_the_one_before(void **state)
{
    struct play_work work[3] = { work_make(0), work_make(0), work_make(0) };
    struct ring_event event[ROOM];

    begin();
    watch();
    play_reduce(&group, &work[0], &tensor);
    play_reduce(&group, &work[1], &tensor);
    play_delete(&work[0]); /* told by closing: it is over */
    lockstep_probe_close(probe);
    assert_int_equal(events(state, 0, event), 5);
    assert_int_equal(event[4].kind, RING_COLL_END);

    assert_int_equal(lockstep_probe_open(3, 4, &probe, NULL, 0), 0);
    play_delete(&work[1]);
    play_reduce(&group, &work[2], &tensor); /* nobody has said its place here */
    assert_int_equal(gloo_look(), 0);
    assert_int_equal(events(state, 1, event), 0);
    end();
}

static void test_a_work_of_any_op_ends_when_it_is_destroyed_or_waited_for(void **state)
{
    struct play_work work[4] = { work_make(2), work_make(3), work_make(2), work_make(2) };
    struct ring_event event[ROOM];
    uint64_t key[4];
    int comm;

    begin();
    comm = comm_add(1);
    assert_int_equal(gloo_work(NULL, probe, comm, 0), -EINVAL);
    assert_int_equal(gloo_work(&work[0], probe, -1, 0), -EINVAL);
    assert_int_equal(gloo_work(&work[0], probe, RING_COMMS, 0), -EINVAL);
    assert_ptr_equal(work[0].object.table, play_work_table(2));
    for (size_t i = 0; i < 3; i++) {
        key[i] = lockstep_coll_enqueue(
            probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_BROADCAST, .bytes = 8,
                                    .dtype = LOCKSTEP_DTYPE_INT8, .stream = 0xffc0,
                                    .flags = LOCKSTEP_FLAG_STARTED));
        assert_int_equal(gloo_work(&work[i], probe, comm, key[i]), 0);
    }
    assert_int_equal(gloo_work(&work[0], probe, comm, key[0]), -EINVAL); /* is watched */
    gloo_over(); /* a reducer has waited, for others */
    assert_int_equal(gloo_look(), 3);
    play_delete(&work[1]);
    assert_int_equal(gloo_look(), 2);
    gloo_done(&work[2]);
    gloo_done(&work[2]);
    gloo_done(&work[3]); /* never seen */
    assert_int_equal(gloo_look(), 1);
    play_delete(&work[2]);
    play_delete(&work[0]);
    assert_int_equal(gloo_look(), 0);
    assert_int_equal(work[0].deleted + work[1].deleted + work[2].deleted, 3);
    assert_int_equal(events(state, 0, event), 9);
    assert_int_equal(event[6].a, key[1]);
    assert_int_equal(event[7].a, key[2]);
    assert_int_equal(event[8].a, key[0]);
    lockstep_probe_close(probe);
    assert_int_equal(gloo_work(&work[3], probe, comm, 0), -EINVAL); /* there is no ring */
    assert_ptr_equal(work[3].object.table, play_work_table(2));
}

static void test_a_forked_child_tells_nothing(void **state)
{
    struct play_work work[2] = { work_make(0), work_make(0) };
    struct ring_event event[ROOM];
    pid_t pid;

    begin();
    watch();
    play_reduce(&group, &work[0], &tensor);
    pid = fork();
    if (pid == 0) {
        play_reduce(&group, &work[1], &tensor);
        play_delete(&work[0]);
        gloo_over();
        _exit(work[0].deleted == 1 && group.calls == 2 ? 0 : 1);
    }
    assert_int_equal(scene_wait(pid), 0);
    assert_int_equal(events(state, 0, event), 2);
    end();
}

static void test_more_than_there_is_room_for(void **state)
{
    static struct play_work work[2000];
    static struct ring_event event[3 * 2000];
    struct ring_reader *reader;
    uint64_t lost = 0, ended = 0;
    size_t count;
    uint32_t open;

    setenv("LOCKSTEP_RING_RECORDS", "8192", 1);
    begin();
    watch();
    for (size_t i = 0; i < 2000; i++) {
        work[i] = work_make((unsigned)(i % PLAY_CLASSES)); /* more classes than are known, too */
        assert_ptr_equal(play_reduce(&group, &work[i], &tensor), &work[i]);
    }
    open = gloo_look();
    assert_true(open > 300 && open <= 512);
    for (size_t i = 0; i < 2000; i++) {
        play_delete(&work[i]);
        assert_int_equal(work[i].deleted, 1);
    }
    assert_true(gloo_look() < open); /* those of classes beyond are over with the rest */
    gloo_over();
    assert_int_equal(gloo_look(), 0);
    reader = scene_read(*state, 3, 0);
    count = scene_drain(reader, event, 6000, &lost);
    ring_reader_close(reader);
    for (size_t i = 0; i < count; i++)
        ended += event[i].kind == RING_COLL_END;
    assert_int_equal(lost, 0);
    assert_int_equal(ended, 2000);
    end();
}

/* ---- threads ---- */

#define TURNS 3000
#define BESIDE 64

static struct play_work beside[2][BESIDE];
static _Atomic uint32_t launched[2], deleted[2];
static _Atomic bool done;

static void *reduces(void *arg)
{
    size_t which = *(size_t *)arg;
    struct play_group own = { .object.table = PLAY_GROUP_TABLE };

    own.object.table = group.object.table; /* watched, as the other */
    for (uint32_t i = 0; i < TURNS; i++) {
        while (i - atomic_load(&deleted[which]) >= BESIDE)
            ;
        beside[which][i % BESIDE] = work_make((unsigned)which);
        play_reduce(which ? &own : &group, &beside[which][i % BESIDE], &tensor);
        atomic_store(&launched[which], i + 1);
        if (i % 50 == 49)
            gloo_over();
    }
    return NULL;
}

static void *does(void *arg)
{
    size_t which = *(size_t *)arg;

    for (uint32_t i = 0; i < TURNS; i++) {
        while (atomic_load(&launched[which]) <= i)
            ;
        play_delete(&beside[which][i % BESIDE]);
        atomic_store(&deleted[which], i + 1);
    }
    return NULL;
}

static void *looks(void *arg)
{
    (void)arg;
    while (!atomic_load(&done))
        gloo_look();
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t thread[5];
    size_t which[2] = { 0, 1 };
    static struct ring_event event[8 * TURNS];
    struct ring_reader *reader;
    uint64_t lost = 0, ended = 0;
    size_t count;

    setenv("LOCKSTEP_RING_RECORDS", "16384", 1);
    begin();
    watch();
    for (size_t i = 0; i < 2; i++) {
        pthread_create(&thread[2 * i], NULL, reduces, &which[i]);
        pthread_create(&thread[2 * i + 1], NULL, does, &which[i]);
    }
    pthread_create(&thread[4], NULL, looks, NULL);
    for (size_t i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    atomic_store(&done, true);
    pthread_join(thread[4], NULL);
    assert_int_equal(gloo_look(), 0);
    reader = scene_read(*state, 3, 0);
    count = scene_drain(reader, event, 8 * TURNS, &lost);
    ring_reader_close(reader);
    for (size_t i = 0; i < count; i++)
        ended += event[i].kind == RING_COLL_END;
    assert_int_equal(lost, 0);
    assert_int_equal(count, 3 * ended);
    assert_int_equal(ended, TURNS); /* the other group is not one that we were told of */
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(test_refuses_what_cannot_be),
        SCENE_TEST(test_launch_and_end_are_told),
        SCENE_TEST(test_what_is_not_ours_passes),
        SCENE_TEST(test_groups_come_and_go),
        SCENE_TEST(test_another_ring_gets_nothing_of_the_one_before),
        SCENE_TEST(test_a_work_of_any_op_ends_when_it_is_destroyed_or_waited_for),
        SCENE_TEST(test_a_forked_child_tells_nothing),
        SCENE_TEST(test_more_than_there_is_room_for),
        SCENE_TEST(test_threads),
    };

#if !defined(__x86_64__)
    return 77; /* the package does it in Python */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
