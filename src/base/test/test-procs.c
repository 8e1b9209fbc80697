/* test-procs.c - who descends from whom.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/procs.h"
#include "core/clean.h"

static void reads_a_name_that_looks_like_the_rest(void **state)
{
    struct procs_one proc;

    (void)state;
    assert_int_equal(proc_parse("42 (a) R 1 (b) S 7 42 42 0 -1 4194560 1 0 0 0 2 1 0 0 20 0 1 0 "
                                "918273 2719744 512 18446744073709551615\n",
                                &proc),
                     0);
    assert_int_equal(proc.pid, 42);
    assert_int_equal(proc.parent, 7);
    assert_int_equal(proc.start, 918273);
    assert_int_equal(proc.ticks, 3);
    assert_false(proc.kernel);
    assert_int_equal(
        proc_parse("15 (rcu_preempt) I 2 0 0 0 -1 2129984 0 0 0 0 0 5800 5 6 20 0 1 0 12 0", &proc),
        0);
    assert_int_equal(proc.ticks, 5811);
    assert_true(proc.kernel);
}

static void refuses_what_is_no_stat(void **state)
{
    const char *bad[] = { "",          "42",         "42 (sh",      "x (sh) S 1",
                          "42 (sh) S", "0 (sh) S 1", "42 (sh) S -1" };
    struct procs_one proc;

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_int_equal(proc_parse(bad[i], &proc), -EINVAL);
}

static void finds_the_child_that_each_descends_from(void **state)
{
    struct procs_one list[] = { { .pid = 1, .parent = 0 },   { .pid = 10, .parent = 1 },
                                { .pid = 11, .parent = 10 }, { .pid = 12, .parent = 10 },
                                { .pid = 20, .parent = 12 }, { .pid = 21, .parent = 20 },
                                { .pid = 30, .parent = 1 },  { .pid = 31, .parent = 999 } };
    struct procs procs = { .list = list, .count = COUNT(list) };

    (void)state;
    procs_below(&procs, 10);
    assert_int_equal(list[0].root, 0);
    assert_int_equal(list[1].root, 0); /* itself is not below itself */
    assert_int_equal(list[2].root, 11);
    assert_int_equal(list[3].root, 12);
    assert_int_equal(list[4].root, 12);
    assert_int_equal(list[5].root, 12);
    assert_int_equal(list[6].root, 0);
    assert_int_equal(list[7].root, 0); /* its parent is not in the list */
}

static void ends_on_a_list_that_is_no_tree(void **state)
{
    struct procs_one list[] = { { .pid = 5, .parent = 6 }, { .pid = 6, .parent = 5 } };
    struct procs procs = { .list = list, .count = COUNT(list) };

    (void)state;
    procs_below(&procs, 1);
    assert_int_equal(list[0].root, 0);
    assert_int_equal(list[1].root, 0);
}

static void signals_a_process_but_not_its_successor(void **state)
{
    struct procs procs = { 0 };
    struct procs_one child = { 0 }, other;
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(procs_read(&procs), 0);
    for (size_t i = 0; i < procs.count; i++)
        if (procs.list[i].pid == pid)
            child = procs.list[i];
    assert_int_equal(child.pid, pid);
    other = child;
    other.start++; /* the pid as it might come again */
    assert_int_equal(proc_signal(&other, SIGKILL), -ESRCH);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    assert_int_equal(proc_signal(&child, SIGTERM), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WTERMSIG(status), SIGTERM);
    assert_int_equal(proc_signal(&child, SIGTERM), -ESRCH);
    procs_fini(&procs);
}

static void sees_a_child_of_this_process(void **state)
{
    struct procs procs = { 0 };
    pid_t pid = fork(), found = 0;

    (void)state;
    if (pid == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(procs_read(&procs), 0);
    procs_below(&procs, getpid());
    for (size_t i = 0; i < procs.count; i++)
        if (procs.list[i].root == pid)
            found = procs.list[i].pid;
    assert_int_equal(found, pid);
    procs_fini(&procs);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_name_that_looks_like_the_rest),
        cmocka_unit_test(refuses_what_is_no_stat),
        cmocka_unit_test(finds_the_child_that_each_descends_from),
        cmocka_unit_test(ends_on_a_list_that_is_no_tree),
        cmocka_unit_test(signals_a_process_but_not_its_successor),
        cmocka_unit_test(sees_a_child_of_this_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
