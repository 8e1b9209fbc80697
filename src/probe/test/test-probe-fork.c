/* test-probe-fork.c - a forked child never writes its parent's ring.
 *
 * Built twice: as it is, and with a madvise() that knows no MADV_WIPEONFORK, as on a kernel
 * before 4.14, where the fork handler must do.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#ifdef TEST_OLD_KERNEL
int madvise(void *address, size_t size, int advice)
{
    (void)address;
    (void)size;
    (void)advice;
    errno = EINVAL;
    return -1;
}
#endif

/* Everything that could write. */
static void mark_all(struct lockstep_probe *probe)
{
    const struct lockstep_layout layout = {
        sizeof(struct lockstep_layout), 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, { 0, 0 }
    };
    uint64_t key;

    lockstep_layout_set(probe, &layout);
    lockstep_step_begin(probe, 99);
    lockstep_comm_add(probe, 4242, 2, 0, LOCKSTEP_COMM_TP, "child");
    key = lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = 0, .op = LOCKSTEP_OP_BARRIER));
    lockstep_coll_start(probe, 0, key, 0);
    lockstep_coll_end(probe, 0, key, 0);
    key =
        lockstep_p2p_enqueue(probe, LOCKSTEP_OP_DESC(.comm = 0, .op = LOCKSTEP_OP_SEND, .peer = 0));
    lockstep_p2p_start(probe, 0, key, 0);
    lockstep_p2p_end(probe, 0, key, 0);
    lockstep_phase_begin(probe, LOCKSTEP_PHASE_DATA);
    lockstep_phase_end(probe, LOCKSTEP_PHASE_DATA);
    lockstep_device_span(probe, 1, LOCKSTEP_PHASE_FORWARD, 1, 2, 3);
    lockstep_metric_put(probe, LOCKSTEP_METRIC_LOSS, 1);
    lockstep_digest_put(probe, 0, 1, 2, 3);
    lockstep_note_put(probe, "child");
    lockstep_step_end(probe, 99);
}

/* The file as bytes: the strictest witness. */
static unsigned char *file_bytes(const struct scene *scene, size_t *ret_size)
{
    unsigned char *bytes;
    char path[128];
    FILE *file;
    long size;

    scene_path(scene, 0, 0, path, sizeof(path));
    file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    bytes = malloc((size_t)size);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    fclose(file);
    *ret_size = (size_t)size;
    return bytes;
}

static struct lockstep_probe *parent_open(void)
{
    struct lockstep_probe *probe = NULL;

    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    assert_int_equal(lockstep_comm_add(probe, 1, 2, 0, LOCKSTEP_COMM_DP, "dp"), 0);
    lockstep_step_begin(probe, 1);
    return probe;
}

static void a_forked_child_changes_no_byte(void **state)
{
    struct lockstep_request request = { .size = sizeof(request), .kind = 1, .id = 1 };
    struct lockstep_probe *probe = parent_open();
    unsigned char *before, *after;
    size_t size;
    pid_t pid;

    before = file_bytes(*state, &size);
    pid = fork();
    if (pid == 0) {
        mark_all(probe);
        if (lockstep_request_get(probe, &request) != 0)
            _exit(1);
        lockstep_request_answer(probe, &request, LOCKSTEP_ANSWER_DONE);
        lockstep_probe_close(probe);
        pid = fork(); /* and its child neither */
        if (pid == 0) {
            mark_all(probe);
            _exit(0);
        }
        _exit(scene_wait(pid) != 0);
    }
    assert_int_equal(scene_wait(pid), 0);
    after = file_bytes(*state, &size);
    assert_memory_equal(before, after, size);
    free(before);
    free(after);
    lockstep_probe_close(probe);
}

static void *fork_in_thread(void *arg)
{
    struct lockstep_probe *probe = arg;
    static int status;
    pid_t pid;

    lockstep_phase_begin(probe, LOCKSTEP_PHASE_DATA); /* now this thread has a lane */
    pid = fork();
    if (pid == 0) {
        mark_all(probe);
        _exit(0);
    }
    status = scene_wait(pid);
    return &status;
}

static void a_child_forked_by_a_thread_with_a_lane_neither(void **state)
{
    struct lockstep_probe *probe = parent_open();
    struct ring_reader *reader = scene_read(*state, 0, 0);
    struct ring_comm_info comm;
    struct ring_event e[64];
    struct ring_info info;
    uint64_t lost = 0;
    pthread_t thread;
    void *status;

    assert_int_equal(pthread_create(&thread, NULL, fork_in_thread, probe), 0);
    pthread_join(thread, &status);
    assert_int_equal(*(int *)status, 0);
    assert_int_equal(scene_drain(reader, e, 64, &lost), 2);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.step, 1);
    assert_int_equal(info.lanes_used, 2);
    assert_int_equal(info.comms_used, 1);
    assert_int_equal(info.has_layout, 0);
    assert_int_equal(ring_reader_comm(reader, 0, &comm), 1);
    assert_int_equal(comm.coll_enqueued, 0);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

static void a_child_that_opens_gets_a_ring_of_its_own(void **state)
{
    struct lockstep_probe *probe = parent_open();
    struct ring_reader *reader;
    struct ring_event e[64];
    struct ring_info info;
    uint64_t lost = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct lockstep_probe *own = NULL;

        if (lockstep_probe_open(0, 1, &own, NULL, 0) < 0)
            _exit(1);
        lockstep_step_begin(own, 7);
        lockstep_step_end(own, 7);
        lockstep_probe_close(own);
        _exit(0);
    }
    assert_int_equal(scene_wait(pid), 0);
    lockstep_step_end(probe, 1); /* the parent goes on */
    reader = scene_read(*state, 0, 1);
    assert_int_equal(scene_drain(reader, e, 64, &lost), 2);
    assert_int_equal(e[0].step, 7);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.pid, pid);
    ring_reader_close(reader);
    reader = scene_read(*state, 0, 0);
    assert_int_equal(scene_drain(reader, e, 64, &lost), 2);
    assert_int_equal(e[1].kind, RING_STEP_END);
    assert_int_equal(e[1].step, 1);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_forked_child_changes_no_byte),
        SCENE_TEST(a_child_forked_by_a_thread_with_a_lane_neither),
        SCENE_TEST(a_child_that_opens_gets_a_ring_of_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
