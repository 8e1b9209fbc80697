/* test-keeper-lease.c - once a lease is over, the keeper starts no rank until there is another one, and kills nobody else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "act/keeper/keeper.h"
#include "core/time.h"

static void keeper_begin(void)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static void no_rank_starts_after_the_lease(void **state)
{
    char *const argv[] = { (char[]){ "true" }, NULL };
    const struct keeper_command command = { .argv = argv };
    struct keeper_plan plan = { .command = &command, .commands = 1, .rings = "" };
    const struct keeper_job rank = { .level = TREE_RANKS, .out_fd = 1, .err_fd = 2 },
                            agent = { .level = TREE_AGENTS, .out_fd = 1, .err_fd = 2 };
    struct keeper *keeper = NULL;
    struct err err = { "" };
    pid_t pid;

    (void)state;
    keeper_begin();
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

#define TOLD(name, pause)                                                                          \
    "trap '" pause "echo " name " >>$LEASE_FILE; exit' TERM; echo ready >>$LEASE_FILE; "           \
    "while :; do sleep 0.05; done"

/* A launcher that dies with an agent, a controller and a lease that ends while the agent ends. */
static _Noreturn void launcher_dies(const char *file)
{
    char *const agent[] = { (char[]){ "sh" }, (char[]){ "-c" },
                            (char[]){ TOLD("agent", "sleep 2; ") }, NULL },
                *const control[] = { (char[]){ "sh" }, (char[]){ "-c" },
                                     (char[]){ TOLD("control", "") }, NULL };
    const struct keeper_command command[] = { { .argv = agent }, { .argv = control } };
    struct keeper_plan plan = {
        .command = command, .commands = 2, .rings = "", .drain_ns = 60 * NS_PER_S
    };
    struct keeper_job job = { .level = TREE_AGENTS, .out_fd = 1, .err_fd = 2 };
    struct keeper *keeper = NULL;
    char text[64] = "";
    FILE *in;
    pid_t pid;

    keeper_begin();
    setenv("LEASE_FILE", file, 1);
    getrlimit(RLIMIT_NOFILE, &plan.files);
    if (keeper_start(&plan, &keeper, NULL) < 0 || keeper_spawn(keeper, &job, &pid, NULL) < 0)
        _exit(1);
    job.command = job.token = 1;
    job.level = TREE_CONTROL;
    if (keeper_spawn(keeper, &job, &pid, NULL) < 0)
        _exit(1);
    while (strlen(text) < strlen("ready\nready\n")) {
        in = fopen(file, "re");
        text[in ? fread(text, 1, sizeof(text) - 1, in) : 0] = '\0';
        if (in)
            fclose(in);
        usleep(10000);
    }
    keeper_lease(keeper, time_boot_ns() + NS_PER_S / 2);
    _exit(0);
}

static void agents_have_their_time_when_the_lease_ends_after_the_ranks(void **state)
{
    char file[] = "/tmp/keeper-lease.XXXXXX", text[64] = "";
    int fd = mkstemp(file), status;
    pid_t launcher;

    (void)state;
    assert_true(fd >= 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    launcher = fork();
    if (launcher == 0)
        launcher_dies(file);
    while (wait(&status) > 0) /* the launcher, then its keeper, which has become our child */
        assert_int_equal(status, 0);
    assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
    assert_string_equal(text, "ready\nready\nagent\ncontrol\n");
    close(fd);
    unlink(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agents_have_their_time_when_the_lease_ends_after_the_ranks),
        cmocka_unit_test(no_rank_starts_after_the_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
