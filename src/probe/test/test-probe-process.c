/* test-probe-process.c - ranks that are killed, stopped, replaced, or have nowhere to write.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define MARKS 1000u

/* A child that marks, says so on a pipe and goes on marking or waits. */
static pid_t child_start(int *ret_ready, int endless)
{
    struct lockstep_probe *probe = NULL;
    int ready[2], comm;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid > 0) {
        close(ready[1]);
        *ret_ready = ready[0];
        return pid;
    }
    if (lockstep_probe_open(0, 1, &probe, NULL, 0) < 0)
        _exit(1);
    comm = lockstep_comm_add(probe, 1, 1, 0, LOCKSTEP_COMM_DP, "dp");
    lockstep_step_begin(probe, 12);
    for (uint64_t i = 1; endless || i < MARKS; i++) {
        lockstep_coll_enqueue(probe, LOCKSTEP_OP_DESC(.comm = comm, .op = LOCKSTEP_OP_BARRIER,
                                                      .bytes = i, .stream = 1));
        if (i == MARKS - 1 && write(ready[1], "x", 1) != 1)
            _exit(1);
    }
    for (;;)
        pause();
}

static void child_await(int ready)
{
    char byte;

    assert_int_equal(read(ready, &byte, 1), 1);
    close(ready);
}

static void a_killed_ranks_last_marks_are_read(void **state)
{
    static struct ring_event e[2 * MARKS];
    struct ring_comm_info comm;
    struct ring_reader *reader;
    struct ring_info info;
    uint64_t lost = 0;
    int ready;
    pid_t pid = child_start(&ready, 0);

    child_await(ready);
    kill(pid, SIGKILL);
    assert_true(WIFSIGNALED(scene_wait(pid)));
    reader = scene_read(*state, 0, 0);
    assert_int_equal(scene_drain(reader, e, 2 * MARKS, &lost), MARKS);
    assert_int_equal(lost, 0);
    assert_int_equal(e[MARKS - 1].a, MARKS - 2);
    assert_int_equal(e[MARKS - 1].step, 12);
    assert_int_equal(ring_reader_info(reader, &info, NULL), 0);
    assert_int_equal(info.closed, 0); /* it did not end in order */
    assert_int_equal(info.pid, pid);
    assert_int_equal(ring_reader_comm(reader, 0, &comm), 1);
    assert_int_equal(comm.coll_enqueued, MARKS - 1);
    ring_reader_close(reader);
}

static void a_stopped_rank_is_read_to_its_last_mark(void **state)
{
    static struct ring_event e[RING_RECORDS_DEFAULT];
    struct ring_comm_info comm;
    struct ring_reader *reader;
    uint64_t lost = 0;
    size_t got;
    int ready, status;
    pid_t pid = child_start(&ready, 1);

    child_await(ready);
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    reader = scene_read(*state, 0, 0);
    got = scene_drain(reader, e, RING_RECORDS_DEFAULT, &lost);
    assert_true(got >= MARKS - 1);
    assert_int_equal(ring_reader_comm(reader, 0, &comm), 1);
    /* Stopped anywhere: the last count may be one ahead of the last record. */
    assert_in_range(comm.coll_enqueued - e[got - 1].a, 1, 2);
    assert_int_equal(lost + got, e[got - 1].a + 2); /* with the step's begin */
    assert_int_equal(ring_reader_next(reader, e, 1, &lost, NULL), 0);
    kill(pid, SIGKILL);
    scene_wait(pid);
    ring_reader_close(reader);
}

static int after_exec(void)
{
    struct lockstep_probe *probe = NULL;

    if (lockstep_probe_open(0, 1, &probe, NULL, 0) < 0)
        return 1;
    lockstep_step_begin(probe, 2);
    return 0; /* without close: as programs end */
}

static void after_exec_the_program_opens_a_new_ring(void **state)
{
    struct ring_reader *reader;
    struct ring_event e[8];
    uint64_t lost = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct lockstep_probe *probe = NULL;

        if (lockstep_probe_open(0, 1, &probe, NULL, 0) < 0)
            _exit(1);
        lockstep_step_begin(probe, 1);
        execl("/proc/self/exe", "test", "--after-exec", (char *)NULL);
        _exit(2);
    }
    assert_int_equal(scene_wait(pid), 0);
    for (unsigned number = 0; number < 2; number++) {
        reader = scene_read(*state, 0, number);
        assert_int_equal(scene_drain(reader, e, 8, &lost), 1);
        assert_int_equal(e[0].step, number + 1);
        ring_reader_close(reader);
    }
}

/* ---- nowhere to write ---- */

/* Opens in a child; `said` is the reason that open gave, after whatever it wrote to stderr.  Returns
 * the child's wait status: what open returned, negated, is its exit status; 77: the scene could
 * not be set.
 */
static int child_fails(int (*scene)(const void *arg), const void *arg, char *said, size_t room)
{
    size_t used = 0;
    ssize_t got;
    int out[2];
    pid_t pid;

    assert_int_equal(pipe(out), 0);
    pid = fork();
    if (pid == 0) {
        struct lockstep_probe *probe = NULL;
        char why[256] = "";
        int result;

        dup2(out[1], STDERR_FILENO);
        if (scene(arg) < 0)
            _exit(77);
        result = lockstep_probe_open(3, 8, &probe, why, sizeof(why));
        if (write(out[1], why, strlen(why)) < 0)
            _exit(78);
        lockstep_step_begin(probe, 1); /* training goes on */
        lockstep_probe_close(probe);
        _exit(-result);
    }
    close(out[1]);
    while ((got = read(out[0], said + used, room - 1 - used)) > 0)
        used += (size_t)got;
    said[used] = 0;
    close(out[0]);
    return WEXITSTATUS(scene_wait(pid));
}

static int as_nobody(const void *arg)
{
    (void)arg;
    return geteuid() == 0 ? setresuid(65534, 65534, 65534) : 0;
}

static void an_unwritable_directory_is_the_reason(void **state)
{
    struct scene *scene = *state;
    char said[1024], expected[256];

    assert_int_equal(chmod(scene->dir, 0555), 0);
    assert_int_equal(child_fails(as_nobody, NULL, said, sizeof(said)), EACCES);
    snprintf(expected, sizeof(expected), "%s/rank-3.0.ring: Permission denied", scene->dir);
    assert_string_equal(said, expected);
}

static void a_reason_is_cut_to_its_buffer(void **state)
{
    struct lockstep_probe *probe = NULL;
    char why[8] = "";

    (void)state;
    assert_int_equal(lockstep_probe_open(8, 8, &probe, why, sizeof(why)), -EINVAL);
    assert_string_equal(why, "rank 8 ");
    assert_int_equal(lockstep_probe_open(8, 8, &probe, why, 0), -EINVAL);
    assert_int_equal(lockstep_probe_open(8, 8, &probe, NULL, 9), -EINVAL);
    assert_null(probe);
}

static int on_small_tmpfs(const void *arg)
{
    const struct scene *scene = arg;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", scene->dir, "tmpfs", 0, "size=1m,mode=0700") < 0)
        return -1;
    return 0;
}

/* The same, and the failed file must be gone again: asked from inside, where the mount is. */
static int on_small_tmpfs_twice(const void *arg)
{
    struct lockstep_probe *probe = NULL;
    const struct scene *scene = arg;
    char path[128];

    if (on_small_tmpfs(arg) < 0)
        return -1;
    if (lockstep_probe_open(3, 8, &probe, NULL, 0) != -ENOSPC)
        _exit(1);
    scene_path(scene, 3, 0, path, sizeof(path));
    if (access(path, F_OK) == 0)
        _exit(2);
    return 0;
}

static void a_full_tmpfs_is_the_reason_and_leaves_nothing(void **state)
{
    struct scene *scene = *state;
    char said[1024], expected[256];
    int result = child_fails(on_small_tmpfs_twice, scene, said, sizeof(said));

    if (result == 77) {
        print_message("no right to mount a tmpfs here\n");
        skip();
    }
    assert_int_equal(result, ENOSPC);
    snprintf(expected, sizeof(expected), "%s/rank-3.0.ring: No space left on device", scene->dir);
    assert_string_equal(said, expected);
}

static int with_small_files(const void *arg)
{
    const struct rlimit limit = { 65536, 65536 };

    (void)arg;
    return setrlimit(RLIMIT_FSIZE, &limit);
}

static void a_limit_on_files_is_the_reason_and_kills_nobody(void **state)
{
    struct scene *scene = *state;
    char said[1024], expected[256];

    assert_int_equal(child_fails(with_small_files, NULL, said, sizeof(said)), EFBIG);
    snprintf(expected, sizeof(expected), "%s/rank-3.0.ring: File too large", scene->dir);
    assert_string_equal(said, expected);
}

static int with_bad_size(const void *arg)
{
    return setenv("LOCKSTEP_RING_RECORDS", arg, 1);
}

static void a_senseless_size_is_the_reason(void **state)
{
    char said[1024];

    (void)state;
    assert_int_equal(child_fails(with_bad_size, "1000", said, sizeof(said)), EINVAL);
    assert_non_null(strstr(said, "1000 records"));
    assert_int_equal(child_fails(with_bad_size, "many", said, sizeof(said)), EINVAL);
    assert_non_null(strstr(said, "LOCKSTEP_RING_RECORDS is \"many\""));
    assert_int_equal(child_fails(with_bad_size, "-4096", said, sizeof(said)), EINVAL);
}

static void a_directory_open_to_others_is_refused(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct scene *scene = *state;

    assert_int_equal(chmod(scene->dir, 0777), 0);
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), -EPERM);
    assert_int_equal(chmod(scene->dir, 01777), 0); /* as /tmp: names are safe there */
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    lockstep_probe_close(probe);
}

static void a_link_under_our_name_is_passed_over(void **state)
{
    struct lockstep_probe *probe = NULL;
    struct scene *scene = *state;
    char path[128], target[128];
    struct ring_reader *reader;
    struct stat st;

    scene_path(scene, 0, 0, path, sizeof(path));
    snprintf(target, sizeof(target), "%s/target", scene->dir);
    assert_int_equal(symlink(target, path), 0);
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    assert_int_equal(access(target, F_OK), -1);
    reader = scene_read(scene, 0, 1);
    ring_reader_close(reader);
    scene_path(scene, 0, 1, path, sizeof(path));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size); /* not sparse */
    lockstep_probe_close(probe);
}

static void without_a_directory_given_it_goes_to_its_users_own(void **state)
{
    struct lockstep_probe *probe = NULL;
    char path[128], ring[160];
    struct stat st;

    (void)state;
    unsetenv("LOCKSTEP_DIR");
    snprintf(path, sizeof(path), "a/../run %u", (unsigned)getpid());
    setenv("LOCKSTEP_RUN", path, 1);
    assert_int_equal(lockstep_probe_open(0, 1, &probe, NULL, 0), 0);
    lockstep_probe_close(probe);
    snprintf(path, sizeof(path), "/dev/shm/lockstep-%u/a_.._run_%u", geteuid(), (unsigned)getpid());
    if (stat(path, &st) < 0) /* no room in /dev/shm: then in the temp directory */
        snprintf(path, sizeof(path), "/tmp/lockstep-%u/a_.._run_%u", geteuid(), (unsigned)getpid());
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    snprintf(ring, sizeof(ring), "%s/rank-0.0.ring", path);
    assert_int_equal(unlink(ring), 0);
    assert_int_equal(rmdir(path), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SCENE_TEST(a_killed_ranks_last_marks_are_read),
        SCENE_TEST(a_stopped_rank_is_read_to_its_last_mark),
        SCENE_TEST(after_exec_the_program_opens_a_new_ring),
        SCENE_TEST(an_unwritable_directory_is_the_reason),
        SCENE_TEST(a_reason_is_cut_to_its_buffer),
        SCENE_TEST(a_full_tmpfs_is_the_reason_and_leaves_nothing),
        SCENE_TEST(a_limit_on_files_is_the_reason_and_kills_nobody),
        SCENE_TEST(a_senseless_size_is_the_reason),
        SCENE_TEST(a_directory_open_to_others_is_refused),
        SCENE_TEST(a_link_under_our_name_is_passed_over),
        SCENE_TEST(without_a_directory_given_it_goes_to_its_users_own),
    };

    if (argc == 2 && strcmp(argv[1], "--after-exec") == 0)
        return after_exec();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
