/* test-keeper-lease.c - once a lease is over, the keeper starts no rank until there is another one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/keeper/keeper.h"
#include "core/time.h"

static void no_rank_starts_after_the_lease(void **state)
{
    char *const argv[] = { (char[]){ "true" }, NULL };
    const struct keeper_command command = { .argv = argv };
    struct keeper_plan plan = { .command = &command, .commands = 1, .rings = "" };
    const struct keeper_job rank = { .level = TREE_RANKS, .out_fd = 1, .err_fd = 2 },
                            agent = { .level = TREE_AGENTS, .out_fd = 1, .err_fd = 2 };
    struct keeper *keeper = NULL;
    struct err err = { "" };
    sigset_t mask;
    pid_t pid;

    (void)state;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    getrlimit(RLIMIT_NOFILE, &plan.files);
    assert_int_equal(keeper_start(&plan, &keeper, &err), 0);
    keeper_lease(keeper, time_boot_ns() - NS_PER_S);
    assert_int_equal(keeper_spawn(keeper, &rank, &pid, &err), -ETIMEDOUT);
    assert_int_equal(keeper_spawn(keeper, &rank, &pid, &err), -ETIMEDOUT);
    assert_int_equal(keeper_spawn(keeper, &agent, &pid, &err), 0); /* it has no lease */
    keeper_lease(keeper, time_boot_ns() + 3600 * NS_PER_S);
    assert_int_equal(keeper_spawn(keeper, &rank, &pid, &err), 0);
    keeper_lease(keeper, time_boot_ns() - NS_PER_S);
    keeper_lease(keeper, 0);
    assert_int_equal(keeper_spawn(keeper, &rank, &pid, &err), 0);
    keeper_stop(keeper);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_rank_starts_after_the_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
