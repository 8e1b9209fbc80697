/* test-inject.c - faults from outside come at their step, hit their node only, and are taken back.
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
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/faults/inject.h"
#include "lockstep/probe.h"

#define RANKS 2

struct job { /* two processes that do nothing but steps, on a node each */
    char dir[64];
    pid_t pid[RANKS];
};

static void rank_main(uint32_t rank)
{
    struct lockstep_probe *probe = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (lockstep_probe_open(rank, RANKS, &probe, NULL, 0) < 0)
        _exit(1);
    for (uint64_t step = 0;; step++) {
        lockstep_step_begin(probe, step);
        nanosleep(&(struct timespec){ .tv_nsec = 2 * NS_PER_MS }, NULL);
        lockstep_step_end(probe, step);
    }
}

static void job_start(struct job *job)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        job->pid[rank] = fork();
        assert_true(job->pid[rank] >= 0);
        if (job->pid[rank] == 0)
            rank_main(rank);
    }
}

static void job_kill(struct job *job)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        kill(job->pid[rank], SIGKILL);
        assert_int_equal(waitpid(job->pid[rank], NULL, 0), job->pid[rank]);
    }
}

static void job_sweep(const struct job *job)
{
    DIR *dir = opendir(job->dir);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

static int job_setup(void **state)
{
    struct job *job = calloc(1, sizeof(*job));

    strcpy(job->dir, "/tmp/lockstep-test-inject-XXXXXX");
    assert_non_null(mkdtemp(job->dir));
    setenv("LOCKSTEP_DIR", job->dir, 1);
    job_start(job);
    *state = job;
    return 0;
}

static int job_teardown(void **state)
{
    struct job *job = *state;

    job_kill(job);
    assert_true(waitpid(-1, NULL, 0) < 0 && errno == ECHILD); /* no neighbour is left */
    job_sweep(job);
    rmdir(job->dir);
    free(job);
    return 0;
}

/* Ticks until the first fault is in `state`, or skipped; gives up after a minute. */
static enum inject_state until(struct inject *inject, enum inject_state state,
                               struct inject_report *report)
{
    int64_t end = time_mono_ns() + 60 * NS_PER_S;

    do {
        inject_tick(inject, time_mono_ns());
        assert_int_equal(inject_read(inject, 0, report), 0);
        nanosleep(&(struct timespec){ .tv_nsec = 5 * NS_PER_MS }, NULL);
    } while (report->state < state && time_mono_ns() < end);
    return report->state;
}

static int cpus_of(pid_t pid)
{
    cpu_set_t set;

    assert_int_equal(sched_getaffinity(pid, sizeof(set), &set), 0);
    return CPU_COUNT(&set);
}

/* An agent that has read the rings of the dead removes them: the next ones get the same names. */
static void restarted_ranks_are_known_again_though_their_rings_have_the_old_names(void **state)
{
    struct job *job = *state;
    char dir[sizeof(job->dir)];
    const struct inject_config config = { .ring_dir = dir, .world = RANKS, .nodes = 2 };
    struct fault_plan plan = { .count = 1 };
    struct inject *inject = NULL;
    struct inject_report report;
    int64_t end;

    memcpy(dir, job->dir, sizeof(dir));
    assert_int_equal(fault_parse("neighbours:node=1,count=1,step=20", &plan.fault[0], NULL), 0);
    assert_int_equal(inject_create(&plan, &config, &inject, NULL), 0);
    dir[0] = '\0'; /* the name was the caller's */
    assert_int_equal(until(inject, INJECT_ACTIVE, &report), INJECT_ACTIVE);
    job_kill(job);
    job_sweep(job);
    job_start(job);
    /* It is taken from the old ranks, and made again on the new ones at its step. */
    end = time_mono_ns() + 60 * NS_PER_S;
    do {
        inject_tick(inject, time_mono_ns());
        assert_int_equal(inject_read(inject, 0, &report), 0);
        nanosleep(&(struct timespec){ .tv_nsec = 5 * NS_PER_MS }, NULL);
    } while (report.state == INJECT_ACTIVE && time_mono_ns() < end);
    assert_int_equal(report.state, INJECT_WAITING);
    assert_int_equal(until(inject, INJECT_ACTIVE, &report), INJECT_ACTIVE);
    inject_destroy(inject);
}

static void neighbours_come_at_their_step_and_leave(void **state)
{
    struct job *job = *state;
    const struct inject_config config = { .ring_dir = job->dir, .world = RANKS, .nodes = 2 };
    struct fault_plan plan = { .count = 2 };
    struct inject *inject = NULL;
    struct inject_report report;
    int cpus = cpus_of(job->pid[1]);

    assert_int_equal(
        fault_parse("neighbours:node=1,count=1,step=20,steps=400", &plan.fault[0], NULL), 0);
    assert_int_equal(fault_parse("kill:rank=0", &plan.fault[1], NULL), 0);
    assert_int_equal(inject_create(&plan, &config, &inject, NULL), 0);
    assert_int_equal(inject_read(inject, 1, &report), -ENOENT); /* the trainer's */
    assert_int_equal(until(inject, INJECT_ACTIVE, &report), INJECT_ACTIVE);
    assert_true(report.step >= 20);
    assert_true(report.time_ns > 0);
    assert_non_null(strstr(report.method, "1 busy processes and 1 host threads share CPU"));
    assert_int_equal(cpus_of(job->pid[1]), 1);
    assert_int_equal(cpus_of(job->pid[0]), MAX(cpus - 1, 1)); /* another node has other CPUs */
    assert_int_equal(until(inject, INJECT_OVER, &report), INJECT_OVER);
    assert_int_equal(cpus_of(job->pid[1]), cpus);
    assert_int_equal(cpus_of(job->pid[0]), cpus);
    inject_destroy(inject);
}

static void what_is_active_is_taken_back_at_the_end(void **state)
{
    struct job *job = *state;
    const struct inject_config config = { .ring_dir = job->dir, .world = RANKS, .nodes = 2 };
    struct fault_plan plan = { .count = 1 };
    struct inject *inject = NULL;
    struct inject_report report;
    int cpus = cpus_of(job->pid[0]);

    assert_int_equal(fault_parse("neighbours:node=0,count=3,step=1", &plan.fault[0], NULL), 0);
    assert_int_equal(inject_create(&plan, &config, &inject, NULL), 0);
    assert_int_equal(until(inject, INJECT_ACTIVE, &report), INJECT_ACTIVE);
    inject_destroy(inject);
    assert_int_equal(cpus_of(job->pid[0]), cpus);
}

/* All lines of /proc/PID/cgroup. */
static void groups_of(pid_t pid, char out[static 4096])
{
    char path[64];
    size_t size;

    snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    CLEAN(file_clean) FILE *file = fopen(path, "re");

    assert_non_null(file);
    size = fread(out, 1, 4095, file);
    out[size] = '\0';
}

static void a_quota_moves_the_node_into_a_group_and_back(void **state)
{
    struct job *job = *state;
    const struct inject_config config = { .ring_dir = job->dir, .world = RANKS, .nodes = 2 };
    struct fault_plan plan = { .count = 1 };
    struct inject *inject = NULL;
    struct inject_report report;
    char before[4096], now[4096];

    groups_of(job->pid[1], before);
    assert_int_equal(fault_parse("cpu-quota:node=1,factor=1.5,step=5", &plan.fault[0], NULL), 0);
    assert_int_equal(inject_create(&plan, &config, &inject, NULL), 0);
    if (until(inject, INJECT_ACTIVE, &report) == INJECT_SKIPPED) {
        assert_true(report.method[0] != '\0'); /* never without a reason */
        inject_destroy(inject);
        groups_of(job->pid[1], now);
        assert_string_equal(now, before); /* and nothing half done */
        print_message("skipped: %s\n", report.method);
        skip();
    }
    assert_int_equal(report.state, INJECT_ACTIVE);
    groups_of(job->pid[1], now);
    assert_non_null(strstr(now, "lockstep-quota-"));
    groups_of(job->pid[0], now);
    assert_null(strstr(now, "lockstep-quota-"));
    inject_destroy(inject);
    groups_of(job->pid[1], now);
    assert_string_equal(now, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(neighbours_come_at_their_step_and_leave, job_setup,
                                        job_teardown),
        cmocka_unit_test_setup_teardown(
            restarted_ranks_are_known_again_though_their_rings_have_the_old_names, job_setup,
            job_teardown),
        cmocka_unit_test_setup_teardown(what_is_active_is_taken_back_at_the_end, job_setup,
                                        job_teardown),
        cmocka_unit_test_setup_teardown(a_quota_moves_the_node_into_a_group_and_back, job_setup,
                                        job_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
