/* test-others.c - who is whose, and what they took. */
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
#include "lab/others.h"

static void a_process_is_read(void **state)
{
    struct others_process process;

    (void)state;
    assert_int_equal(others_parse_process("712 (a) (b) R 7 712 700 34816 712 4194304 91 0 2 0 "
                                          "120 30 5 6 20 0 1 0 4711 1000 20 18446744073709551615",
                                          &process),
                     0);
    assert_int_equal(process.pid, 712);
    assert_int_equal(process.parent, 7);
    assert_int_equal(process.ticks, 161);
    assert_false(process.kernel);
    assert_int_equal(others_parse_process(
                         "15 (rcu_preempt) I 2 0 0 0 -1 2129984 0 0 0 0 0 5800 0 0 20 0", &process),
                     0);
    assert_true(process.kernel);
    assert_int_equal(others_parse_process("", &process), -EPROTO);
    assert_int_equal(others_parse_process("1 (init) S 0 1 1 0 -1 4194560", &process), -EPROTO);
}

static void stolen_time_is_read(void **state)
{
    uint64_t ticks;

    (void)state;
    assert_int_equal(
        others_parse_stolen("cpu  4780859 745115 1723508 4853327 27805 0 61625 8639 0 0\ncpu0 1\n",
                            &ticks),
        0);
    assert_int_equal(ticks, 8639);
    assert_int_equal(others_parse_stolen("cpu  1 2 3\n", &ticks), -EPROTO);
}

static void descendants_and_the_kernel_are_no_others(void **state)
{
    const struct others_process process[] = {
        { 1, 0, false, 1 },     { 2, 0, true, 10 },      { 30, 2, true, 100 },
        { 50, 1, false, 1000 }, { 60, 50, false, 2000 }, { 70, 60, false, 4000 },
        { 80, 1, false, 5 },    { 81, 80, false, 7 },    { 90, 77, false, 11 }, /* 77 is gone */
        { 98, 99, false, 13 },  { 99, 98, false, 17 }, /* read while they changed */
    };
    uint64_t ticks;

    (void)state;
    assert_int_equal(others_sum(process, COUNT(process), 50, &ticks), 0);
    assert_int_equal(ticks, 1 + 5 + 7 + 11 + 13 + 17);
    assert_int_equal(others_sum(process, 0, 50, &ticks), 0);
    assert_int_equal(ticks, 0);
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
    struct others *others;
    pid_t stranger;

    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    assert_int_equal(others_create(&others), 0);
    others_look(others);
    assert_true(others_most(others, 0) == 0); /* nothing to compare with */
    stranger = stranger_start();
    while (others_most(others, began_ns) < 0.1 && time_mono_ns() - began_ns < 9 * NS_PER_S) {
        usleep(100000);
        others_look(others);
    }
    kill(stranger, SIGKILL);
    assert_true(others_most(others, began_ns) >= 0.1);
    assert_true(others_most(others, time_mono_ns()) == 0); /* since then nothing was looked at */
    others_destroy(others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_read),
        cmocka_unit_test(stolen_time_is_read),
        cmocka_unit_test(descendants_and_the_kernel_are_no_others),
        cmocka_unit_test(a_stranger_at_work_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
