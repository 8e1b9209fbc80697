/* test-probe-threads.c - several threads write while someone reads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>

#define WRITERS 4
#define MARKS 200000u
#define ROOM 2048u

struct writer {
    struct lockstep_probe *probe;
    pthread_t thread;
    uint32_t number;
    _Atomic int *running;
    pid_t tid;
};

/* Each mark carries its own check: a mixture of two would not agree with itself. */
static void *writer_main(void *arg)
{
    struct writer *self = arg;

    for (uint64_t i = 0; i < MARKS; i++)
        lockstep_digest_put(self->probe, self->number, WRITERS, i, ~i * (self->number + 1));
    atomic_fetch_sub(self->running, 1);
    return NULL;
}

static uint64_t check_events(const struct ring_event *event, int count, uint64_t *next)
{
    for (int i = 0; i < count; i++) {
        uint32_t number = (uint32_t)event[i].a;

        assert_true(number < WRITERS);
        assert_int_equal(event[i].a >> 32, WRITERS);
        assert_true(event[i].b >= next[number]); /* in order, none twice */
        assert_int_equal(event[i].c, ~event[i].b * (number + 1));
        next[number] = event[i].b + 1;
    }
    return (uint64_t)count;
}

static void write_and_read(const struct scene *scene, const char *records)
{
    struct writer writer[WRITERS];
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event event[ROOM];
    uint64_t lost = 0, read = 0, next[WRITERS] = { 0 };
    _Atomic int running = WRITERS;
    int got;

    setenv("LOCKSTEP_RING_RECORDS", records, 1);
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(scene, 0, 0);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writer[i] = (struct writer){ .probe = probe, .number = i, .running = &running };
        assert_int_equal(pthread_create(&writer[i].thread, NULL, writer_main, &writer[i]), 0);
    }
    while (atomic_load(&running) > 0) {
        got = ring_reader_next(reader, event, ROOM, &lost, NULL);
        assert_true(got >= 0);
        read += check_events(event, got, next);
    }
    for (uint32_t i = 0; i < WRITERS; i++)
        pthread_join(writer[i].thread, NULL);
    while ((got = ring_reader_next(reader, event, ROOM, &lost, NULL)) > 0)
        read += check_events(event, got, next);
    assert_int_equal(got, 0);
    assert_int_equal(read + lost, WRITERS * (uint64_t)MARKS);
    for (uint32_t i = 0; i < WRITERS; i++)
        assert_int_equal(next[i], MARKS); /* the newest is always there */
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void what_is_read_and_what_is_lost_is_what_was_written(void **state)
{
    write_and_read(*state, "256"); /* small: the writers overtake the reader often */
}

/* The writers are always at work on a record that is just being copied. */
static void a_lane_of_four_records_gives_no_mixture(void **state)
{
    write_and_read(*state, "4");
}

static void *mark_once(void *arg)
{
    struct writer *self = arg;

    self->tid = (pid_t)syscall(SYS_gettid);
    lockstep_metric_put(self->probe, LOCKSTEP_METRIC_LOSS, self->number);
    return NULL;
}

/* A thread that was joined may still be on its way out in the kernel. */
static void await_gone(pid_t tid)
{
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0 || errno != ESRCH)
        sched_yield();
}

static void lanes_of_ended_threads_are_used_again(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[32];
    struct ring_info info;
    uint64_t lost = 0;

    setenv("LOCKSTEP_RING_LANES", "2", 1);
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    for (uint32_t i = 0; i < 10; i++) {
        struct writer writer = { .probe = probe, .number = i };

        assert_int_equal(pthread_create(&writer.thread, NULL, mark_once, &writer), 0);
        pthread_join(writer.thread, NULL);
        await_gone(writer.tid);
    }
    assert_int_equal(scene_drain(reader, e, 32, &lost), 10);
    assert_int_equal(lost, 0);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.dropped, 0);
    assert_int_equal(info.lanes_used, 2);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void *mark_hundred(void *arg)
{
    for (uint32_t i = 0; i < 100; i++)
        mark_once(arg);
    return NULL;
}

static void marks_of_threads_beyond_the_lanes_are_counted(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct ring_reader *reader;
    struct ring_event e[8];
    struct ring_info info;
    struct writer writer;
    uint64_t lost = 0;

    setenv("LOCKSTEP_RING_LANES", "1", 1);
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    writer = (struct writer){ .probe = probe };
    assert_int_equal(pthread_create(&writer.thread, NULL, mark_hundred, &writer), 0);
    pthread_join(writer.thread, NULL);
    lockstep_step_begin(probe, 1);
    assert_int_equal(scene_drain(reader, e, 8, &lost), 1);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.dropped, 100);
    assert_int_equal(info.lanes_used, 2);
    assert_int_equal(info.lanes, 1);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

#define CROWD 24u

struct crowd {
    struct lockstep_probe *probe;
    pthread_barrier_t *all;
};

/* All of them have marked before the first ends: none can take another's lane. */
static void *mark_in_a_crowd(void *arg)
{
    struct crowd *crowd = arg;

    for (uint64_t i = 0; i < 50; i++)
        lockstep_metric_put(crowd->probe, LOCKSTEP_METRIC_LOSS, (double)i);
    pthread_barrier_wait(crowd->all);
    return NULL;
}

static void threads_beyond_the_lanes_share_the_last_one(void **state)
{
    static struct ring_event e[4096];
    struct lockstep_probe *probe = NULL;
    pthread_t thread[CROWD];
    pthread_barrier_t all;
    struct crowd crowd;
    struct ring_reader *reader;
    struct ring_info info;
    uint64_t lost = 0;
    size_t count;

    setenv("LOCKSTEP_RING_LANES", "8", 1);
    setenv("LOCKSTEP_RING_RECORDS", "4096", 1);
    assert_int_equal(pthread_barrier_init(&all, NULL, CROWD), 0);
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    crowd = (struct crowd){ .probe = probe, .all = &all };
    for (uint32_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, mark_in_a_crowd, &crowd), 0);
    for (uint32_t i = 0; i < CROWD; i++)
        pthread_join(thread[i], NULL);
    count = scene_drain(reader, e, 4096, &lost);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(lost, 0);
    assert_int_equal(count + info.dropped, CROWD * 50); /* each is there, or counted */
    assert_true(count > 7 * 50);                        /* more than the lanes of their own hold */
    for (size_t i = 0; i < count; i++)
        assert_int_equal(e[i].kind, RING_METRIC);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
    pthread_barrier_destroy(&all);
}

static void *add_comms(void *arg)
{
    struct writer *self = arg;

    for (uint64_t id = 1; id <= 32; id++)
        if (lockstep_comm_add(self->probe, id, 2, 0, LOCKSTEP_COMM_DP, "same for all") < 0)
            return self;
    return NULL;
}

static void threads_that_add_the_same_communicators_share_them(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct writer writer[WRITERS];
    struct ring_reader *reader;
    struct ring_info info;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writer[i] = (struct writer){ .probe = probe };
        assert_int_equal(pthread_create(&writer[i].thread, NULL, add_comms, &writer[i]), 0);
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        void *failed = NULL;

        pthread_join(writer[i].thread, &failed);
        assert_null(failed);
    }
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.comms_used, 32);
    for (uint32_t i = 0; i < 32; i++) {
        struct ring_comm_info comm;

        assert_int_equal(ring_reader_comm(reader, i, &comm), 1);
        assert_string_equal(comm.name, "same for all");
    }
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

struct layouts {
    struct lockstep_probe *probe;
    _Atomic int stop;
};

static void *set_layouts(void *arg)
{
    struct layouts *self = arg;

    uint16_t i = 0;

    do { /* once at least, however late this thread begins */
        i = i < 60000 ? i + 1 : 1;
        const struct lockstep_layout layout = {
            sizeof(struct lockstep_layout), i, i, i, i, i, 0, 0, 0, 0, 0, { 0, 0 }
        };

        lockstep_layout_set(self->probe, &layout);
    } while (!atomic_load(&self->stop));
    return NULL;
}

static void a_layout_is_read_whole_or_not_at_all(void **state)
{
    struct layouts layouts = { 0 };
    struct ring_reader *reader;
    pthread_t thread;
    int whole = 0;

    assert_int_equal(lockstep_probe_open(0, 1, &layouts.probe, NULL, 0), 0);
    reader = scene_read(*state, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, set_layouts, &layouts), 0);
    for (int i = 0; i < 2000; i++) {
        struct ring_info info;

        assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
        for (int k = 1; info.has_layout && k < 5; k++)
            assert_int_equal(info.layout[k], info.layout[0]);
        whole += info.has_layout;
    }
    atomic_store(&layouts.stop, 1);
    pthread_join(thread, NULL);
    if (whole == 0) { /* never in a quiet moment: then now */
        struct ring_info info;

        assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
        assert_int_equal(info.has_layout, 1);
    }
    ring_reader_close(reader);
    lockstep_probe_close(layouts.probe);
}

struct requests {
    struct ring_reader *reader;
    _Atomic int stop;
    int result;
};

static void *write_requests(void *arg)
{
    struct requests *self = arg;
    uint64_t i = 0;

    do { /* once at least, however late this thread begins */
        i++;
        const struct ring_request request = {
            .id = i, .step = ~i, .argument = i * i, .kind = RING_REQUEST_CHECKPOINT
        };

        self->result |= ring_reader_request(self->reader, &request);
    } while (!atomic_load(&self->stop));
    return NULL;
}

static void a_request_is_read_whole_or_not_at_all(void **state)
{
    struct lockstep_request got = { .size = sizeof(got) };
    struct requests requests = { 0 };
    struct lockstep_probe *probe = NULL;
    struct ring_answer answer = { 0 };
    pthread_t thread;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    requests.reader = scene_read(*state, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, write_requests, &requests), 0);
    for (int i = 0; i < 200000; i++)
        if (lockstep_request_get(probe, &got) == 1) {
            assert_int_equal(got.step, ~got.id);
            assert_int_equal(got.argument, got.id * got.id);
            lockstep_request_answer(probe, &got, LOCKSTEP_ANSWER_DONE);
        }
    atomic_store(&requests.stop, 1);
    pthread_join(thread, NULL);
    assert_int_equal(requests.result, 0);
    if (lockstep_request_get(probe, &got) == 1) /* the last one may be answered already */
        lockstep_request_answer(probe, &got, LOCKSTEP_ANSWER_DONE);
    assert_int_equal(ring_reader_answer(requests.reader, RING_REQUEST_CHECKPOINT, &answer), 1);
    assert_int_equal(answer.id, got.id);
    ring_reader_close(requests.reader);
    lockstep_probe_close(probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(what_is_read_and_what_is_lost_is_what_was_written),
        SCENE_TEST(a_lane_of_four_records_gives_no_mixture),
        SCENE_TEST(lanes_of_ended_threads_are_used_again),
        SCENE_TEST(marks_of_threads_beyond_the_lanes_are_counted),
        SCENE_TEST(threads_beyond_the_lanes_share_the_last_one),
        SCENE_TEST(threads_that_add_the_same_communicators_share_them),
        SCENE_TEST(a_layout_is_read_whole_or_not_at_all),
        SCENE_TEST(a_request_is_read_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
