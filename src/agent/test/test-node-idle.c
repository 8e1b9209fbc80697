/* test-node-idle.c - who uses a node, from the files of /proc.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/node_idle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"

static char root[] = "/tmp/test-idle-XXXXXX";

static int root_make(void **state)
{
    char path[80];

    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/proc", root);
    return mkdir(path, 0755);
}

static int root_remove(void **state)
{
    char command[80];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

static void cpu_write(unsigned user, unsigned idle)
{
    char path[80];
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/stat", root);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "cpu  %u 0 0 %u 0 0 0 0 0 0\ncpu0 1 2 3\n", user, idle);
    fclose(file);
}

static void process_path(unsigned pid, char *ret, size_t room)
{
    snprintf(ret, room, "%s/proc/%u", root, pid);
}

static void process_write(unsigned pid, const char *name, unsigned group, unsigned ticks, uid_t uid)
{
    char path[80], stat[100];
    FILE *file;

    process_path(pid, path, sizeof(path));
    mkdir(path, 0755);
    snprintf(stat, sizeof(stat), "%s/stat", path);
    file = fopen(stat, "w");
    assert_non_null(file);
    fprintf(file, "%u (%s) S 1 %u %u 0 -1 0 0 0 0 0 %u 0 0 0 20 0 1 0 9 0 0\n", pid, name, group,
            group, ticks);
    fclose(file);
    if (uid != getuid())
        assert_int_equal(chown(stat, uid, (gid_t)-1), 0);
}

static void process_remove(unsigned pid)
{
    char path[80], command[100];

    process_path(pid, path, sizeof(path));
    snprintf(command, sizeof(command), "rm -r %s", path);
    assert_int_equal(system(command), 0);
}

static void a_step_of_a_job_uses_the_node(void **state)
{
    struct node_idle idle;
    char why[120] = "";

    (void)state;
    node_idle_init(&idle, root);
    cpu_write(100, 1000);
    process_write(10, "systemd", 10, 5, getuid());
    process_write(11, "my slurmstepd", 11, 5, getuid());
    process_write(12, "slurmstepd) R 1 (", 12, 5, getuid());
    assert_false(node_idle_is_used(&idle, 0, NS_PER_S, why, sizeof(why)));
    process_write(13, "slurmstepd", 13, 5, getuid());
    assert_true(node_idle_is_used(&idle, 0, 2 * NS_PER_S, why, sizeof(why)));
    assert_string_equal(why, "a Slurm job is on this node");
    process_remove(13);
    if (getuid() == 0) { /* anybody can call a program so */
        process_write(14, "slurmstepd", 14, 5, 65534);
        assert_false(node_idle_is_used(&idle, 0, 2 * NS_PER_S, why, sizeof(why)));
        process_remove(14);
    }
}

static void programs_that_use_processors_use_the_node(void **state)
{
    unsigned second = (unsigned)sysconf(_SC_CLK_TCK),
             cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned busy = 1000;
    struct node_idle idle;
    char why[120] = "";

    (void)state;
    node_idle_init(&idle, root);
    cpu_write(busy, 0);
    assert_false(node_idle_is_used(&idle, 0, NS_PER_S, why, sizeof(why)));
    busy += 3 * second; /* one processor, in three seconds: what daemons of a node need */
    cpu_write(busy, 0);
    assert_false(node_idle_is_used(&idle, 0, 4 * NS_PER_S, why, sizeof(why)));
    busy += 3 * second * (cpus + 3);
    cpu_write(busy, 0);
    assert_true(node_idle_is_used(&idle, 0, 7 * NS_PER_S, why, sizeof(why)));
    assert_non_null(strstr(why, "other programs use "));
    cpu_write(busy, 0); /* they have ended */
    assert_false(node_idle_is_used(&idle, 0, 10 * NS_PER_S, why, sizeof(why)));
}

static void our_own_checks_are_nobody(void **state)
{
    unsigned second = (unsigned)sysconf(_SC_CLK_TCK),
             cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    unsigned load = 3 * second * (cpus + 3);
    struct node_idle idle;
    char why[120] = "";

    (void)state;
    node_idle_init(&idle, root);
    cpu_write(1000, 0);
    process_write(20, "lockstep", 20, 0, getuid());
    process_write(21, "lockstep", 20, 0, getuid());
    assert_false(node_idle_is_used(&idle, 20, NS_PER_S, why, sizeof(why)));
    cpu_write(1000 + load, 0);
    process_write(21, "lockstep", 20, load, getuid());
    assert_false(node_idle_is_used(&idle, 20, 4 * NS_PER_S, why, sizeof(why)));
    cpu_write(1000 + 2 * load, 0); /* now it is somebody else */
    assert_true(node_idle_is_used(&idle, 20, 7 * NS_PER_S, why, sizeof(why)));
    process_remove(20);
    process_remove(21);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_of_a_job_uses_the_node),
        cmocka_unit_test(programs_that_use_processors_use_the_node),
        cmocka_unit_test(our_own_checks_are_nobody),
    };

    return cmocka_run_group_tests(tests, root_make, root_remove);
}
