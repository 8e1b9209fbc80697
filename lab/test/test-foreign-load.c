/* test-foreign-load.c - who is whose, and what they took.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/score/foreign_load.h"

static void stolen_time_is_read(void **state)
{
    uint64_t ticks;

    (void)state;
    assert_int_equal(
        foreign_load_parse_stolen(
            "cpu  4780859 745115 1723508 4853327 27805 0 61625 8639 0 0\ncpu0 1\n", &ticks),
        0);
    assert_int_equal(ticks, 8639);
    assert_int_equal(foreign_load_parse_stolen("cpu  1 2 3\n", &ticks), -EPROTO);
}

static void descendants_and_the_kernel_are_no_others(void **state)
{
    struct procs_one list[] = {
        { .pid = 1, .ticks = 1 },
        { .pid = 2, .kernel = true, .ticks = 10 },
        { .pid = 30, .parent = 2, .kernel = true, .ticks = 100 },
        { .pid = 50, .parent = 1, .ticks = 1000 },
        { .pid = 60, .parent = 50, .ticks = 2000 },
        { .pid = 70, .parent = 60, .ticks = 4000 },
        { .pid = 80, .parent = 1, .ticks = 5 },
        { .pid = 81, .parent = 80, .ticks = 7 },
        { .pid = 90, .parent = 77, .ticks = 11 }, /* 77 is gone */
    };
    struct procs procs = { .list = list, .count = COUNT(list) };

    (void)state;
    assert_int_equal(foreign_load_sum(&procs, 50), 1 + 5 + 7 + 11);
}

/* A grandchild whose parent is gone is not below us; it works for ten seconds at most. */
static pid_t stranger_start(void)
{
    int fd[2];
    pid_t pid = -1, parent;

    assert_int_equal(pipe(fd), 0);
    parent = fork();
    if (parent == 0) {
        pid = fork();
        if (pid == 0) {
            alarm(10);
            for (;;)
                continue;
        }
        _exit(write(fd[1], &pid, sizeof(pid)) == sizeof(pid) ? 0 : 1);
    }
    assert_int_equal(read(fd[0], &pid, sizeof(pid)), sizeof(pid));
    close(fd[0]);
    close(fd[1]);
    waitpid(parent, NULL, 0);
    return pid;
}

static void a_stranger_at_work_is_seen(void **state)
{
    int64_t began_ns = time_mono_ns();
    struct foreign_load *foreign_load;
    pid_t stranger;

    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    assert_int_equal(foreign_load_create(&foreign_load), 0);
    foreign_load_look(foreign_load);
    assert_true(foreign_load_most(foreign_load, 0) == 0); /* nothing to compare with */
    stranger = stranger_start();
    while (foreign_load_most(foreign_load, began_ns) < 0.1 &&
           time_mono_ns() - began_ns < 9 * NS_PER_S) {
        usleep(100000);
        foreign_load_look(foreign_load);
    }
    kill(stranger, SIGKILL);
    assert_true(foreign_load_most(foreign_load, began_ns) >= 0.1);
    assert_true(foreign_load_most(foreign_load, time_mono_ns()) ==
                0); /* since then nothing was looked at */
    foreign_load_destroy(foreign_load);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stolen_time_is_read),
        cmocka_unit_test(descendants_and_the_kernel_are_no_others),
        cmocka_unit_test(a_stranger_at_work_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
