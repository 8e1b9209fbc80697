/* test-rank-procs.c - which process is which rank, by rings and by environments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/proc/rank_procs.h"
#include "base/remove_tree.h"
#include "lockstep/probe.h"

struct place {
    char dir[64];
    char run[64];
};

static int place_make(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    if (!place)
        return -1;
    snprintf(place->dir, sizeof(place->dir), "/tmp/lockstep-rank-procs.XXXXXX");
    *state = place;
    if (!mkdtemp(place->dir))
        return -1;
    /* Another name for each test: a killed child of the one before may still be there. */
    snprintf(place->run, sizeof(place->run), "%s", place->dir + strlen("/tmp/"));
    return 0;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    int result = tree_remove(place->dir);

    free(place);
    return result;
}

/* A process that makes the ring of a rank and ends without closing it. */
static pid_t ring_leave(const struct place *place, uint32_t rank, const char *attempt)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct lockstep_probe *probe;

        setenv("LOCKSTEP_DIR", place->dir, 1);
        setenv("LOCKSTEP_RUN", place->run, 1);
        setenv("LOCKSTEP_RESTART", attempt, 1);
        _exit(lockstep_probe_open(rank, 4, &probe, NULL, 0) < 0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return pid;
}

static void the_newest_ring_of_a_rank_names_its_process(void **state)
{
    const struct place *place = *state;
    struct rank_procs procs = { 0 };
    struct err err = { "" };
    pid_t newest, other;

    ring_leave(place, 1, "0");
    newest = ring_leave(place, 1, "2");
    other = ring_leave(place, 0, "1");
    assert_int_equal(rank_procs_add_rings(&procs, place->dir, &err), 0);
    assert_string_equal(err.text, "");
    assert_int_equal(procs.count, 2);
    assert_int_equal(procs.list[0].rank, 0);
    assert_int_equal(procs.list[0].pid, other);
    assert_int_equal(procs.list[1].rank, 1);
    assert_int_equal(procs.list[1].attempt, 2);
    assert_int_equal(procs.list[1].pid, newest);
    assert_int_equal(procs.list[1].owner, geteuid());
    rank_procs_fini(&procs);
}

static void a_ring_that_cannot_be_read_hides_no_other(void **state)
{
    const struct place *place = *state;
    struct rank_procs procs = { 0 };
    struct err err = { "" };
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/rank-3.0.ring", place->dir);
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "junk", 4), 4);
    close(fd);
    ring_leave(place, 2, "0");
    assert_int_equal(rank_procs_add_rings(&procs, place->dir, &err), 0);
    assert_int_equal(procs.count, 1);
    assert_int_equal(procs.list[0].rank, 2);
    assert_string_not_equal(err.text, "");
    rank_procs_fini(&procs);
}

static void without_a_directory_there_are_no_rings(void **state)
{
    struct rank_procs procs = { 0 };
    struct err err = { "" };

    (void)state;
    assert_int_equal(rank_procs_add_rings(&procs, "/nonexistent/rings", &err), -ENOENT);
    assert_int_equal(procs.count, 0);
}

/* A shell with this environment, and a child of it that inherits that.  The shell has written when both are there. */
static pid_t shell_start(const char *run, const char *rank)
{
    char run_word[96], rank_word[32], byte;
    char *const env[] = { run_word, rank ? rank_word : NULL, NULL };
    int fd[2];
    pid_t pid;

    snprintf(run_word, sizeof(run_word), "LOCKSTEP_RUN=%s", run);
    snprintf(rank_word, sizeof(rank_word), "RANK=%s", rank ? rank : "");
    assert_int_equal(pipe(fd), 0);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        dup2(fd[1], STDOUT_FILENO);
        execle("/bin/sh", "sh", "-c", "sleep 600 & echo; wait", (char *)NULL, env);
        _exit(127);
    }
    setpgid(pid, pid);
    close(fd[1]);
    assert_int_equal(read(fd[0], &byte, 1), 1);
    close(fd[0]);
    return pid;
}

static void shell_end(pid_t pid)
{
    kill(-pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void a_rank_without_a_ring_is_found_by_its_environment(void **state)
{
    const struct place *place = *state;
    pid_t rank = shell_start(place->run, "7"), launcher = shell_start(place->run, NULL);
    pid_t foreign = shell_start("another-run", "5"), wrong = shell_start(place->run, "5x");
    struct rank_procs procs = { 0 };

    assert_int_equal(rank_procs_add_environment(&procs, place->run), 0);
    assert_int_equal(procs.count, 1); /* not its child, nor who has no rank */
    assert_int_equal(procs.list[0].rank, 7);
    assert_int_equal(procs.list[0].pid, rank);
    assert_int_equal(rank_procs_add_environment(&procs, place->run), 0);
    assert_int_equal(procs.count, 1); /* one that is known stays as it is */
    rank_procs_fini(&procs);
    shell_end(rank);
    shell_end(launcher);
    shell_end(foreign);
    shell_end(wrong);
}

static void a_command_that_is_no_rank_is_rank_0(void **state)
{
    const struct place *place = *state;
    pid_t command = shell_start(place->run, NULL);
    struct rank_procs procs = { 0 };

    assert_int_equal(rank_procs_add_environment(&procs, place->run), 0);
    assert_int_equal(procs.count, 1);
    assert_int_equal(procs.list[0].rank, 0);
    assert_int_equal(procs.list[0].pid, command);
    rank_procs_fini(&procs);
    shell_end(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_newest_ring_of_a_rank_names_its_process, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(a_ring_that_cannot_be_read_hides_no_other, place_make,
                                        place_remove),
        cmocka_unit_test(without_a_directory_there_are_no_rings),
        cmocka_unit_test_setup_teardown(a_rank_without_a_ring_is_found_by_its_environment,
                                        place_make, place_remove),
        cmocka_unit_test_setup_teardown(a_command_that_is_no_rank_is_rank_0, place_make,
                                        place_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
