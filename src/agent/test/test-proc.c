/* test-proc.c - texts of /proc and control groups, and a process that is really there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/proc/proc.h"
#include "agent/proc/sample.h"
#include "core/clean.h"
#include "core/time.h"

static void stat_is_read_after_the_last_parenthesis(void **state)
{
    struct proc_stat stat;

    (void)state;
    assert_int_equal(proc_parse_stat("4711 (a) b) (c) T 1 4711 4711 0 -1 4194304 100 200 7 8 30 12 "
                                     "1 2 20 0 16 0 987654 1000000 250 18446744073709551615 1 1",
                                     &stat),
                     0);
    assert_int_equal(stat.state, 'T');
    assert_int_equal(stat.major_faults, 7);
    assert_int_equal(stat.cpu_ticks, 42);
    assert_int_equal(stat.threads, 16);
    assert_int_equal(stat.start, 987654);
}

static void broken_stats_are_refused(void **state)
{
    struct proc_stat stat;
    const char *texts[] = { "", "12", "12 (x", "12 (x)", "12 (x) ", "12 (x) S 1 2 3", "12 (x) 7" };

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(proc_parse_stat(texts[i], &stat), -EPROTO);
}

static void schedstat_is_cpu_time_and_run_delay(void **state)
{
    int64_t cpu, delay;

    (void)state;
    assert_int_equal(proc_parse_schedstat("83094 46048 2\n", &cpu, &delay), 0);
    assert_int_equal(cpu, 83094);
    assert_int_equal(delay, 46048);
    assert_int_equal(proc_parse_schedstat("83094\n", &cpu, &delay), -EPROTO);
    assert_int_equal(proc_parse_schedstat("-5 7 2\n", &cpu, &delay), -EPROTO);
    assert_int_equal(proc_parse_schedstat("99999999999999999999 7 2\n", &cpu, &delay), -EPROTO);
}

static void the_v1_cpu_hierarchy_comes_before_v2(void **state)
{
    struct proc_cgroup cgroup;

    (void)state;
    assert_int_equal(
        proc_parse_cgroup("0::/unified\n9:cpuset:/no\n3:cpu,cpuacct:/jobs/7\n", &cgroup), 0);
    assert_false(cgroup.v2);
    assert_string_equal(cgroup.controllers, "cpu,cpuacct");
    assert_string_equal(cgroup.path, "/jobs/7");
    assert_int_equal(proc_parse_cgroup("9:cpuset:/no\n0::/user.slice/x:y\n", &cgroup), 0);
    assert_true(cgroup.v2);
    assert_string_equal(cgroup.path, "/user.slice/x:y");
    assert_int_equal(proc_parse_cgroup("9:cpuset:/no\n1:\n", &cgroup), -ENOENT);
    assert_int_equal(proc_parse_cgroup("", &cgroup), -ENOENT);
}

static void throttling_is_nanoseconds_in_v1_and_microseconds_in_v2(void **state)
{
    int64_t throttled = -1;

    (void)state;
    assert_int_equal(
        proc_parse_cpu_stat("nr_periods 5\nnr_throttled 2\nthrottled_time 1234567\n", &throttled),
        0);
    assert_int_equal(throttled, 1234567);
    assert_int_equal(proc_parse_cpu_stat("usage_usec 9\nthrottled_usec 1234\n", &throttled), 0);
    assert_int_equal(throttled, 1234000);
    assert_int_equal(proc_parse_cpu_stat("usage_usec 9\n", &throttled), -ENOENT);
    assert_int_equal(proc_parse_cpu_stat("throttled_usec x\n", &throttled), -EPROTO);
}

static void the_innermost_pid_is_the_last(void **state)
{
    uint32_t pid;

    (void)state;
    assert_int_equal(proc_parse_nspid("Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t9\n", &pid), 0);
    assert_int_equal(pid, 1);
    assert_int_equal(proc_parse_nspid("Name:\tx\n", &pid), -ENOENT);
    assert_int_equal(proc_parse_nspid("Name:\tx\nNSpid:\t\n", &pid), -ENOENT);
}

static void samples_lie_on_the_line_between_looks(void **state)
{
    struct samples samples = { 0 };
    struct sample at;

    (void)state;
    assert_int_equal(samples_at(&samples, 5, &at), 0);
    for (int i = 0; i < 3 * SAMPLES; i++)
        samples_put(&samples, &(struct sample){ .time_ns = i * 100, .cpu_ns = i * 10 });
    assert_int_equal(samples_at(&samples, 100 * (3 * SAMPLES - 1) + 1, &at), 0); /* not yet */
    assert_int_equal(samples_at(&samples, 100 * (3 * SAMPLES - 2) + 50, &at), 1);
    assert_int_equal(at.cpu_ns, 10 * (3 * SAMPLES - 2) + 5);
    assert_int_equal(samples_at(&samples, 5, &at), -ENODATA); /* forgotten */
}

static void totals_never_go_down(void **state)
{
    struct samples samples = { 0 };
    struct sample at;

    (void)state;
    samples_put(&samples, &(struct sample){ .time_ns = 100, .cpu_ns = 50, .throttled_ns = 9 });
    samples_put(&samples, &(struct sample){ .time_ns = 200, .cpu_ns = 40 });
    samples_put(&samples, &(struct sample){ .time_ns = 150, .cpu_ns = 90 }); /* out of order */
    assert_int_equal(samples_at(&samples, 200, &at), 1);
    assert_int_equal(at.cpu_ns, 50);
    assert_int_equal(at.throttled_ns, 9);
}

static uint64_t start_of(pid_t pid)
{
    struct proc_stat stat;
    char path[64], text[1024];
    FILE *file;
    size_t size;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    assert_non_null(file);
    size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[size] = '\0';
    assert_int_equal(proc_parse_stat(text, &stat), 0);
    return stat.start;
}

static void a_process_is_followed_until_it_is_gone(void **state)
{
    struct proc *proc;
    struct sample before, after;
    struct stat ns;
    volatile uint64_t spin = 0;
    pid_t pid = fork();
    char seen;

    (void)state;
    if (pid == 0) {
        for (;;)
            spin++;
    }
    assert_int_equal(stat("/proc/self/ns/pid", &ns), 0);
    assert_int_equal(proc_open((uint32_t)pid, ns.st_ino, start_of(pid) + 1, geteuid(), &proc),
                     -ESRCH);
    assert_int_equal(proc_open((uint32_t)pid, ns.st_ino, start_of(pid), geteuid(), &proc), 0);
    assert_int_equal(proc_ref(proc)->pid, pid);
    assert_int_not_equal(proc_sample(proc, time_mono_ns(), &before), 'X');
    do
        assert_int_not_equal(proc_sample(proc, time_mono_ns(), &after), 'X');
    while (after.cpu_ns < before.cpu_ns + 10 * NS_PER_MS); /* it burns */
    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
    assert_int_equal(proc_sample(proc, time_mono_ns(), &after), 'T');
    kill(pid, SIGKILL);
    do
        seen = proc_sample(proc, time_mono_ns(), &after);
    while (seen != 'Z' && seen != 'X'); /* its threads end one by one */
    assert_int_equal(seen, 'Z');
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(proc_sample(proc, time_mono_ns(), &after), 'X');
    proc_close(proc);
    assert_int_equal(proc_open((uint32_t)pid, ns.st_ino, 1, geteuid(), &proc), -ESRCH);
}

/* Its pid is right in every other respect. */
static void a_process_of_another_user_is_not_looked_at(void **state)
{
    struct proc *proc = NULL;
    pid_t pid = fork();

    (void)state;
    if (pid == 0) {
        for (;;)
            pause();
    }
    assert_int_equal(proc_open((uint32_t)pid, 0, start_of(pid), geteuid() + 1, &proc), -EPERM);
    assert_null(proc);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* A directory in /proc that is open is of that process for ever. */
static void one_that_becomes_another_users_is_left_alone(void **state)
{
    struct sample sample;
    struct proc *proc;
    int go[2];
    pid_t pid;
    char c;

    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (pid == 0) {
        if (read(go[0], &c, 1) != 1 || setuid(4711) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(proc_open((uint32_t)pid, 0, start_of(pid), 0, &proc), 0);
    assert_int_not_equal(proc_sample(proc, time_mono_ns(), &sample), '?');
    assert_int_equal(write(go[1], "", 1), 1);
    while (proc_ref_check(proc_ref(proc)) == 0)
        usleep(1000);
    assert_int_equal(proc_ref_check(proc_ref(proc)), -EPERM);
    proc_refresh(proc);
    assert_int_equal(proc_sample(proc, time_mono_ns(), &sample), '?');
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(proc_ref_check(proc_ref(proc)), -ESRCH);
    proc_close(proc);
    close(go[0]);
    close(go[1]);
}

static void the_users_of_a_process_are_read(void **state)
{
    uint32_t uid[4] = { 0 };

    (void)state;
    assert_int_equal(proc_parse_uids("Name:\tUid: 0\nUid:\t1\t2\t3\t4294967295\nGid:\t0\n", uid),
                     0);
    assert_int_equal(uid[0], 1);
    assert_int_equal(uid[3], UINT32_MAX);
    assert_int_equal(proc_parse_uids("Uid:\t1\t2\t3\n", uid), -ENOENT);
    assert_int_equal(proc_parse_uids("Uid:\t1\t2\t3\t4294967296\n", uid), -ENOENT);
    assert_int_equal(proc_parse_uids("Gid:\t1\t2\t3\t4\n", uid), -ENOENT);
    assert_int_equal(proc_parse_uids("", uid), -ENOENT);
}

static bool put_text(const char *directory, const char *name, const char *text)
{
    char path[160];
    FILE *file;
    bool put;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "we");
    if (!file)
        return false;
    put = fputs(text, file) >= 0;
    return fclose(file) == 0 && put;
}

/* A group that may run a tenth of a CPU; false where we may not make one. */
static bool make_group(char *directory, size_t room)
{
    snprintf(directory, room, "/sys/fs/cgroup/cpu/lockstep-test-%d", getpid());
    if (mkdir(directory, 0700) == 0)
        return put_text(directory, "cpu.cfs_quota_us", "10000") || rmdir(directory) != 0;
    snprintf(directory, room, "/sys/fs/cgroup/lockstep-test-%d", getpid());
    if (mkdir(directory, 0700) < 0)
        return false;
    return put_text(directory, "cpu.max", "10000 100000") || rmdir(directory) != 0;
}

static void a_process_that_is_held_back_is_seen_so(void **state)
{
    char directory[96], text[16];
    struct sample sample = { 0 };
    struct proc *proc;
    volatile uint64_t spin = 0;
    int64_t refresh = 0;
    pid_t pid;

    (void)state;
    if (!make_group(directory, sizeof(directory)))
        skip();
    pid = fork();
    if (pid == 0) {
        for (;;)
            spin++;
    }
    assert_int_equal(proc_open((uint32_t)pid, 0, start_of(pid), geteuid(), &proc), 0);
    snprintf(text, sizeof(text), "%d", pid);
    assert_true(put_text(directory, "cgroup.procs", text)); /* moved while it is followed */
    while (sample.throttled_ns < 100 * NS_PER_MS) {
        struct timespec pause = time_spec(10 * NS_PER_MS);

        if (time_mono_ns() > refresh) {
            proc_refresh(proc);
            refresh = time_mono_ns() + NS_PER_S;
        }
        assert_int_not_equal(proc_sample(proc, time_mono_ns(), &sample), 'X');
        nanosleep(&pause, NULL);
    }
    proc_close(proc);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stat_is_read_after_the_last_parenthesis),
        cmocka_unit_test(broken_stats_are_refused),
        cmocka_unit_test(schedstat_is_cpu_time_and_run_delay),
        cmocka_unit_test(the_v1_cpu_hierarchy_comes_before_v2),
        cmocka_unit_test(throttling_is_nanoseconds_in_v1_and_microseconds_in_v2),
        cmocka_unit_test(the_innermost_pid_is_the_last),
        cmocka_unit_test(samples_lie_on_the_line_between_looks),
        cmocka_unit_test(totals_never_go_down),
        cmocka_unit_test(a_process_is_followed_until_it_is_gone),
        cmocka_unit_test(a_process_of_another_user_is_not_looked_at),
        cmocka_unit_test(one_that_becomes_another_users_is_left_alone),
        cmocka_unit_test(the_users_of_a_process_are_read),
        cmocka_unit_test(a_process_that_is_held_back_is_seen_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
