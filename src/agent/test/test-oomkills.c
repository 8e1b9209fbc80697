/* test-oomkills.c - control groups as they are found on machines: v1, v2, both, and none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "agent/proc/oomkills.h"
#include "core/clean.h"

#define PID 4711
#define V2_EVENTS "low 0\nhigh 0\nmax 17\noom %d\noom_kill %d\noom_group_kill 0\n"
#define V1_CONTROL "oom_kill_disable 0\nunder_oom 0\noom_kill %d\n"

/* systemd with control groups v2, as Debian 12 has it: a step of Slurm below it. */
#define V2_SLURM "/system.slice/slurmstepd.scope/job_12/step_0/user/task_3"
#define V2_CGROUP "0::" V2_SLURM "\n"
/* v1 with everything mounted, as this is in many containers. */
#define V1_CGROUP                                                                                  \
    "12:pids:/docker/f00d\n11:memory:/docker/f00d\n4:cpu,cpuacct:/docker/f00d\n0::/docker/f00d\n"
/* Both: controllers in v1 but for memory, which is in v2 at /sys/fs/cgroup/unified. */
#define HYBRID_CGROUP "4:cpu,cpuacct:/job\n0::/job\n"

struct tree {
    char root[64];
    struct oomkills *kills;
};

static int tree_setup(void **state)
{
    struct tree *tree = calloc(1, sizeof(*tree));

    strcpy(tree->root, "/tmp/lockstep-test-oomkills-XXXXXX");
    assert_non_null(mkdtemp(tree->root));
    tree->kills = oomkills_create(tree->root);
    assert_non_null(tree->kills);
    *state = tree;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static int tree_teardown(void **state)
{
    struct tree *tree = *state;

    oomkills_destroy(tree->kills);
    nftw(tree->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(tree);
    return 0;
}

/* As of the process whose directory in /proc that would be. */
static void follow(const struct tree *tree)
{
    CLEAN(fd_clean) int fd = -1;
    char path[128];

    snprintf(path, sizeof(path), "%s/proc/%d", tree->root, PID);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    oomkills_follow(tree->kills, fd);
}

/* Writes a file in place, as the kernel changes it, and makes the directories above it. */
__attribute__((format(printf, 3, 4))) static void put(const struct tree *tree, const char *path,
                                                      const char *format, ...)
{
    char full[512];
    va_list args;
    FILE *file;

    snprintf(full, sizeof(full), "%s%s", tree->root, path);
    for (char *at = full + strlen(tree->root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    file = fopen(full, "w");
    assert_non_null(file);
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

static void a_kill_in_a_group_of_v2_is_counted(void **state)
{
    struct tree *tree = *state;

    put(tree, "/proc/4711/cgroup", V2_CGROUP);
    put(tree, "/sys/fs/cgroup" V2_SLURM "/memory.events", V2_EVENTS, 2, 2);
    follow(tree);
    assert_int_equal(oomkills_count(tree->kills), 0); /* those before it was followed */
    put(tree, "/sys/fs/cgroup" V2_SLURM "/memory.events", V2_EVENTS, 3, 3);
    assert_int_equal(oomkills_count(tree->kills), 1);
    put(tree, "/sys/fs/cgroup" V2_SLURM "/memory.events", V2_EVENTS, 4, 3); /* a limit, no kill */
    assert_int_equal(oomkills_count(tree->kills), 1);
}

static void a_group_of_v2_without_the_memory_controller_is_counted_above(void **state)
{
    struct tree *tree = *state;

    put(tree, "/proc/4711/cgroup", V2_CGROUP);
    put(tree, "/sys/fs/cgroup" V2_SLURM "/cgroup.procs", "4711\n");
    put(tree, "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/memory.events", V2_EVENTS, 0, 0);
    put(tree, "/sys/fs/cgroup/system.slice/memory.events", V2_EVENTS, 9, 9);
    follow(tree);
    put(tree, "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_12/memory.events", V2_EVENTS, 1, 1);
    put(tree, "/sys/fs/cgroup/system.slice/memory.events", V2_EVENTS, 19, 19);
    assert_int_equal(oomkills_count(tree->kills), 1);
}

static void a_container_sees_its_own_group_as_the_root(void **state)
{
    struct tree *tree = *state;

    put(tree, "/proc/4711/cgroup", "0::/\n");
    put(tree, "/sys/fs/cgroup/memory.events", V2_EVENTS, 0, 0);
    follow(tree);
    put(tree, "/sys/fs/cgroup/memory.events", V2_EVENTS, 1, 1);
    assert_int_equal(oomkills_count(tree->kills), 1);
}

static void a_kill_in_a_group_of_v1_is_counted_and_not_above(void **state)
{
    struct tree *tree = *state;

    put(tree, "/proc/4711/cgroup", V1_CGROUP);
    put(tree, "/sys/fs/cgroup/memory/docker/f00d/memory.oom_control", V1_CONTROL, 0);
    follow(tree);
    put(tree, "/sys/fs/cgroup/memory/docker/f00d/memory.oom_control", V1_CONTROL, 2);
    put(tree, "/sys/fs/cgroup/memory/memory.oom_control", V1_CONTROL, 7);
    assert_int_equal(oomkills_count(tree->kills), 2);
}

static void both_at_once_are_read_where_memory_is(void **state)
{
    struct tree *tree = *state;

    put(tree, "/proc/4711/cgroup", HYBRID_CGROUP);
    put(tree, "/sys/fs/cgroup/unified/job/memory.events", V2_EVENTS, 0, 0);
    follow(tree);
    put(tree, "/sys/fs/cgroup/unified/job/memory.events", V2_EVENTS, 1, 1);
    assert_int_equal(oomkills_count(tree->kills), 1);
}

static void one_that_moves_to_another_group_takes_its_count_along(void **state)
{
    struct tree *tree = *state;

    put(tree, "/proc/4711/cgroup", "0::/a\n");
    put(tree, "/sys/fs/cgroup/a/memory.events", V2_EVENTS, 0, 0);
    put(tree, "/sys/fs/cgroup/b/memory.events", V2_EVENTS, 5, 5);
    follow(tree);
    put(tree, "/sys/fs/cgroup/a/memory.events", V2_EVENTS, 1, 1);
    assert_int_equal(oomkills_count(tree->kills), 1);
    put(tree, "/proc/4711/cgroup", "0::/b\n");
    follow(tree);
    assert_int_equal(oomkills_count(tree->kills), 1);
    put(tree, "/sys/fs/cgroup/b/memory.events", V2_EVENTS, 6, 6);
    assert_int_equal(oomkills_count(tree->kills), 2);
}

static void what_cannot_be_read_counts_nothing(void **state)
{
    static const char *const groups[] = { "", "nonsense\n", "0::/../outside\n", "0::/nowhere\n" };
    struct tree *tree = *state;

    follow(tree); /* no such process */
    assert_int_equal(oomkills_count(tree->kills), 0);
    put(tree, "/sys/outside/memory.events", V2_EVENTS, 1, 1);
    for (size_t i = 0; i < COUNT(groups); i++) {
        put(tree, "/proc/4711/cgroup", "%s", groups[i]);
        follow(tree);
        assert_int_equal(oomkills_count(tree->kills), 0);
    }
    put(tree, "/proc/4711/cgroup", "0::/damaged\n");
    put(tree, "/sys/fs/cgroup/damaged/memory.events", "oom_kill many\n");
    follow(tree);
    assert_int_equal(oomkills_count(tree->kills), 0);
}

#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TREE(a_kill_in_a_group_of_v2_is_counted),
        WITH_TREE(a_group_of_v2_without_the_memory_controller_is_counted_above),
        WITH_TREE(a_container_sees_its_own_group_as_the_root),
        WITH_TREE(a_kill_in_a_group_of_v1_is_counted_and_not_above),
        WITH_TREE(both_at_once_are_read_where_memory_is),
        WITH_TREE(one_that_moves_to_another_group_takes_its_count_along),
        WITH_TREE(what_cannot_be_read_counts_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
