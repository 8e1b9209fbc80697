/* test-slowfs.c - the slow file system: data is read back as written, and late when a delay is set.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/faults/slowfs.h"

struct stage {
    char top[64], backing[96], at[96], checkpoints[128], data[128];
    struct slowfs fs;
    struct err why;
};

static int stage_setup(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));

    strcpy(stage->top, "/tmp/lockstep-test-slowfs-XXXXXX");
    assert_non_null(mkdtemp(stage->top));
    snprintf(stage->backing, sizeof(stage->backing), "%s/backing", stage->top);
    snprintf(stage->at, sizeof(stage->at), "%s/at", stage->top);
    snprintf(stage->checkpoints, sizeof(stage->checkpoints), "%s/" SLOWFS_CHECKPOINTS, stage->at);
    snprintf(stage->data, sizeof(stage->data), "%s/" SLOWFS_DATA "/rank-00001.x", stage->at);
    slowfs_begin(stage->backing, stage->at, &stage->fs, &stage->why);
    *state = stage;
    return 0;
}

static int stage_teardown(void **state)
{
    struct stage *stage = *state;
    char command[160];

    slowfs_end(&stage->fs);
    snprintf(command, sizeof(command), "rm -rf %s", stage->top);
    assert_int_equal(system(command), 0);
    free(stage);
    return 0;
}

static void need_mount(const struct stage *stage)
{
    if (!stage->fs.order) {
        assert_true(stage->why.text[0] != '\0'); /* the reason is told */
        print_message("skipped: %s\n", stage->why.text);
        skip();
    }
}

/* As a writer of checkpoints does it: linked, and the directory renamed while it is open. */
static void points_are_written_renamed_and_read(void **state)
{
    struct stage *stage = *state;
    CLEAN(fd_clean) int top = -1, part = -1, fd = -1;
    static char value[300000], back[300000]; /* more than one request holds */
    struct stat before, after;

    need_mount(stage);
    memset(value, 7, sizeof(value));
    top = open(stage->checkpoints, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(top, ".part", 0755), 0);
    part = openat(top, ".part", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = openat(part, "rank-00003.tmp", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, value, sizeof(value)), sizeof(value));
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(renameat(part, "rank-00003.tmp", part, "rank-00003.file"), 0);
    assert_int_equal(linkat(part, "rank-00003.file", part, "COMMIT", 0), 0);
    assert_int_equal(linkat(part, "rank-00003.file", part, "COMMIT", 0), -1);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(fstat(part, &before), 0);
    assert_int_equal(renameat(top, ".part", top, "step-3"), 0);
    assert_int_equal(fstatat(top, "step-3", &after, 0), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(unlinkat(part, "COMMIT", 0), 0); /* below its new name */
    fd_clean(&fd);
    fd = openat(top, "step-3/rank-00003.file", O_RDONLY | O_DIRECT | O_CLOEXEC);
    assert_int_equal(pread(fd, back, 4096, 0), 4096);
    assert_memory_equal(value, back, 4096);
    fd_clean(&fd);
    /* And they are real files. */
    snprintf(stage->checkpoints, sizeof(stage->checkpoints),
             "%s/" SLOWFS_CHECKPOINTS "/step-3/rank-00003.file", stage->backing);
    fd = open(stage->checkpoints, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, back, sizeof(back)), sizeof(back));
    assert_memory_equal(value, back, sizeof(value));
}

static void one_rank_waits_as_long_as_told_and_others_do_not(void **state)
{
    struct stage *stage = *state;
    struct slowfs_order *order;
    CLEAN(fd_clean) int fd = -1;
    char byte = 1;
    int64_t began;

    need_mount(stage);
    order = stage->fs.order;
    fd = open(stage->data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    atomic_store(&order->rank, 2);
    atomic_store(&order->part, SLOWFS_IN_DATA);
    atomic_store(&order->delay_ns, 300 * NS_PER_MS);
    assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
    assert_int_equal(atomic_load(&order->hits), 0);
    atomic_store(&order->rank, 1);
    began = time_mono_ns();
    assert_int_equal(pread(fd, &byte, 1, 0), 1);
    assert_true(time_mono_ns() - began >= 300 * NS_PER_MS);
    assert_int_equal(atomic_load(&order->hits), 1);
    assert_true(atomic_load(&order->first_hit_ns) >= began);
}

static void who_is_never_answered_can_still_be_ended(void **state)
{
    struct stage *stage = *state;
    struct slowfs_order *order;
    int status;
    pid_t pid;

    need_mount(stage);
    order = stage->fs.order;
    atomic_store(&order->rank, SLOWFS_ANY);
    atomic_store(&order->part, SLOWFS_IN_DATA);
    atomic_store(&order->delay_ns, SLOWFS_FOREVER);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = open(stage->data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        _exit(fd >= 0 && write(fd, "x", 1) == 1 ? 0 : 1);
    }
    while (atomic_load(&order->hits) == 0)
        usleep(1000);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it waits */
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    pid = fork(); /* and the next one gets through */
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = open(stage->data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        _exit(fd >= 0 && write(fd, "x", 1) == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(points_are_written_renamed_and_read, stage_setup,
                                        stage_teardown),
        cmocka_unit_test_setup_teardown(one_rank_waits_as_long_as_told_and_others_do_not,
                                        stage_setup, stage_teardown),
        cmocka_unit_test_setup_teardown(who_is_never_answered_can_still_be_ended, stage_setup,
                                        stage_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
