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
#include "lab/trainer/shard.h"

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

static void shards_are_written_listed_read_and_swept(void **state)
{
    struct stage *stage = *state;
    float value[70000], back[70000]; /* more than one request holds */
    struct shard shard = { .seed = 7,
                           .rank = 3,
                           .world = 4,
                           .tp = 1,
                           .pp = 1,
                           .dp = 4,
                           .count = COUNT(value),
                           .value = value };
    uint64_t step[8];
    struct err err = { "" };

    need_mount(stage);
    for (size_t i = 0; i < COUNT(value); i++)
        value[i] = (float)i;
    for (shard.step = 1; shard.step <= 3; shard.step++)
        assert_int_equal(shard_write(stage->checkpoints, &shard, &err), 0);
    assert_int_equal(shard_list(stage->checkpoints, 3, step, COUNT(step), &err), 3);
    shard.step = 3;
    assert_int_equal(shard_prune(stage->checkpoints, 3, 3, 2, &err), 0);
    assert_int_equal(shard_list(stage->checkpoints, 3, step, COUNT(step), &err), 2);
    assert_int_equal(shard_read(stage->checkpoints, &shard, back, &err), 0);
    assert_memory_equal(value, back, sizeof(value));
    /* And they are real files. */
    snprintf(stage->checkpoints, sizeof(stage->checkpoints), "%s/" SLOWFS_CHECKPOINTS,
             stage->backing);
    assert_int_equal(shard_read(stage->checkpoints, &shard, back, &err), 0);
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
        cmocka_unit_test_setup_teardown(shards_are_written_listed_read_and_swept, stage_setup,
                                        stage_teardown),
        cmocka_unit_test_setup_teardown(one_rank_waits_as_long_as_told_and_others_do_not,
                                        stage_setup, stage_teardown),
        cmocka_unit_test_setup_teardown(who_is_never_answered_can_still_be_ended, stage_setup,
                                        stage_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
