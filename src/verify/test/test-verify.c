/* test-verify.c - each check fails where it should, and only there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"
#include "verify/check_report.h"
#include "verify/checks.h"
#include "verify/cpu_math.h"
#include "verify/inspection.h"
#include "verify/inventory.h"
#include "verify/machine_profile.h"
#include "verify/measured.h"
#include "verify/other_load.h"

static char script[] = "/tmp/test-verify-XXXXXX";

static void script_write(const char *text)
{
    FILE *file = fopen(script, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_profile_clean(struct machine_profile **profile)
{
    machine_profile_destroy(*profile);
}

/* ---- arithmetic ---- */

static void both_kernels_give_the_known_answer(void **state)
{
    (void)state;
    assert_true(cpu_math_integer(0) == CPU_MATH_INTEGER);
    assert_true(cpu_math_fma(0) == CPU_MATH_FMA);
}

static void one_wrong_bit_in_any_step_changes_the_answer(void **state)
{
    (void)state;
    for (uint32_t at = 1; at < 900000; at = at * 7 + 1)
        assert_true(cpu_math_integer(at) != CPU_MATH_INTEGER);
    for (uint32_t at = 1; at <= 200000; at = at * 7 + 1)
        assert_true(cpu_math_fma(at) != CPU_MATH_FMA);
    assert_true(cpu_math_fma(200000) != CPU_MATH_FMA);
}

/* ---- profile ---- */

static void a_value_is_compared_with_good_nodes(void **state)
{
    CLEAN(test_profile_clean) struct machine_profile *profile = NULL;
    struct verify_report report = { 0 };

    (void)state;
    assert_int_equal(machine_profile_create("box", &profile), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(machine_profile_learn_value(profile, "memory-rate", 100 + i), 0);
    measured_result(&report, profile, "memory-rate", "", 101, "GB/s");
    measured_result(&report, profile, "memory-rate", "", 92, "GB/s");
    measured_result(&report, profile, "memory-rate", "", 80, "GB/s");
    measured_result(&report, profile, "memory-rate", "", 50, "GB/s");
    measured_result(&report, profile, "disk-write", "", 1, "GB/s");
    assert_int_equal(report.count, 5);
    assert_int_equal(report.result[0].state, CHECK_OK);
    assert_int_equal(report.result[1].state, CHECK_OK); /* within a tenth */
    assert_int_equal(report.result[2].state, CHECK_LIMITED);
    assert_int_equal(report.result[3].state, CHECK_FAILED); /* half of it */
    assert_int_equal(report.result[4].state, CHECK_OK);
    assert_false(report.result[4].has_expected);
    assert_non_null(strstr(report.result[4].why, "compared with nothing"));
}

static void a_latency_is_worse_the_more_it_is(void **state)
{
    CLEAN(test_profile_clean) struct machine_profile *profile = NULL;
    struct verify_report report = { 0 };

    (void)state;
    assert_int_equal(machine_profile_create("box", &profile), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(machine_profile_learn_value(profile, "disk-sync-latency", 2 + i * 0.01),
                         0);
    measured_latency(&report, profile, "disk-sync-latency", "", 0.1, "ms");
    measured_latency(&report, profile, "disk-sync-latency", "", 4.0, "ms");
    measured_latency(&report, profile, "disk-sync-latency", "", 4.1, "ms");
    measured_latency(&report, profile, "disk-sync-latency", "", 400, "ms");
    measured_latency(&report, profile, "disk-read-latency", "", 400, "ms");
    assert_int_equal(report.result[0].state, CHECK_OK);
    assert_int_equal(report.result[1].state, CHECK_OK); /* twice the median is the limit */
    assert_int_equal(report.result[2].state, CHECK_LIMITED);
    assert_int_equal(report.result[3].state, CHECK_LIMITED); /* a node is not failed for it */
    assert_non_null(strstr(report.result[3].why, "at most 4.040 expected"));
    assert_int_equal(report.result[4].state, CHECK_OK);
    assert_non_null(strstr(report.result[4].why, "compared with nothing"));
}

static void the_limit_is_wider_where_good_nodes_differ_more(void **state)
{
    CLEAN(test_profile_clean) struct machine_profile *profile = NULL;
    const double rate[] = { 80, 100, 90, 110, 120 };
    struct machine_profile_range range;

    (void)state;
    assert_int_equal(machine_profile_create("box", &profile), 0);
    for (size_t i = 0; i < COUNT(rate); i++)
        assert_int_equal(machine_profile_learn_value(profile, "x", rate[i]), 0);
    assert_true(machine_profile_range(profile, "x", &range));
    assert_true(range.median == 100 && range.low < 30);
    assert_true(range.spread > 14 && range.spread < 15); /* they differ by 10 from the median */
    assert_false(machine_profile_range(profile, "y", &range));
}

static void a_profile_is_read_as_it_was_written(void **state)
{
    CLEAN(test_profile_clean) struct machine_profile *profile = NULL;
    CLEAN(test_profile_clean) struct machine_profile *again = NULL;
    char path[] = "/tmp/test-profile-XXXXXX";
    struct machine_profile_range range;
    struct err err = { "" };

    (void)state;
    close(mkstemp(path));
    assert_int_equal(machine_profile_create("box", &profile), 0);
    machine_profile_learn_fact(profile, "gpu count", "8");
    machine_profile_learn_value(profile, "memory-rate", 12.5);
    assert_int_equal(machine_profile_save(profile, path, &err), 0);
    assert_int_equal(machine_profile_read(path, &again, &err), 0);
    assert_string_equal(machine_profile_machine(again), "box");
    assert_string_equal(machine_profile_fact(again, "gpu count"), "8");
    assert_true(machine_profile_range(again, "memory-rate", &range) && range.median == 12.5);
    unlink(path);
    assert_int_equal(machine_profile_read(path, &again, &err), -ENOENT);
}

static void what_is_no_profile_is_refused_with_the_reason(void **state)
{
    static const char *const bad[][2] = {
        { "", "no JSON object" },
        { "[]", "no JSON object" },
        { "{}", "expected \"format\"" },
        { "{\"format\":\"lockstep-check-profile\",\"version\":2}", "version 2, expected 1" },
        { "{\"format\":\"lockstep-check-profile\",\"version\":1}", "are missing" },
        { "{\"format\":\"lockstep-check-profile\",\"version\":1,\"machine\":\"m\",\"facts\":{\"a\":"
          "1},\"values\":{}}",
          "'a': expected a short text" },
        { "{\"format\":\"lockstep-check-profile\",\"version\":1,\"machine\":\"m\",\"facts\":{},"
          "\"values\":{\"a\":[]}}",
          "'a': expected 1 to" },
        { "{\"format\":\"lockstep-check-profile\",\"version\":1,\"machine\":\"m\",\"facts\":{},"
          "\"values\":{\"a\":[\"b\"]}}",
          "number 1 is none" },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct machine_profile *profile = NULL;
        struct err err = { "" };

        assert_int_equal(machine_profile_parse(bad[i][0], strlen(bad[i][0]), &profile, &err),
                         -EINVAL);
        assert_null(profile);
        if (!strstr(err.text, bad[i][1]))
            fail_msg("'%s': '%s' instead of '%s'", bad[i][0], err.text, bad[i][1]);
    }
}

/* ---- inventory ---- */

static unsigned inventory_worst_of(const char *name, const char *value, const char *expected)
{
    CLEAN(test_profile_clean) struct machine_profile *profile = NULL;
    static struct inventory inventory;
    struct verify_report report = { 0 };

    memset(&inventory, 0, sizeof(inventory));
    snprintf(inventory.machine, sizeof(inventory.machine), "box");
    snprintf(inventory.fact[0].name, sizeof(inventory.fact[0].name), "%s", name);
    snprintf(inventory.fact[0].value, sizeof(inventory.fact[0].value), "%s", value);
    inventory.count = value[0] ? 1 : 0;
    assert_int_equal(machine_profile_create("box", &profile), 0);
    machine_profile_learn_fact(profile, name, expected);
    inventory_compare(&inventory, profile, &report);
    assert_int_equal(report.count, 1);
    return report.result[0].state;
}

static void a_missing_part_is_a_fault_and_another_version_is_not(void **state)
{
    (void)state;
    assert_int_equal(inventory_worst_of("gpu count", "8", "8"), CHECK_OK);
    assert_int_equal(inventory_worst_of("gpu count", "7", "8"), CHECK_FAILED);
    assert_int_equal(inventory_worst_of("gpu count", "9", "8"), CHECK_LIMITED);
    assert_int_equal(inventory_worst_of("memory GiB", "1008", "2016"), CHECK_FAILED);
    assert_int_equal(inventory_worst_of("kernel", "6.1.1", "6.1.0"), CHECK_LIMITED);
    assert_int_equal(inventory_worst_of("nvidia driver", "", "580.1"), CHECK_LIMITED);
}

static void the_profile_of_another_machine_decides_nothing(void **state)
{
    CLEAN(test_profile_clean) struct machine_profile *profile = NULL;
    static struct inventory inventory;
    struct verify_report report = { 0 };

    (void)state;
    snprintf(inventory.machine, sizeof(inventory.machine), "box");
    assert_int_equal(machine_profile_create("other", &profile), 0);
    machine_profile_learn_fact(profile, "gpu count", "8");
    inventory_compare(&inventory, profile, &report);
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_UNKNOWN);
}

/* ---- GPUs ---- */

static struct verify_report gpu_report(const char *text)
{
    struct verify_place place = { .root = "", .nvml = getenv("FAKE_NVML"), .node = "n1" };
    struct verify_report report = { 0 };

    script_write(text);
    check_gpu_peers.run(&place, &report);
    return report;
}

static void gpus_that_are_alike_are_ok(void **state)
{
    struct verify_report report = gpu_report("nvml.count value 8\n");

    (void)state;
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_OK);
    assert_true(report.result[0].value == 8);
}

static void the_gpu_with_a_narrow_link_is_named(void **state)
{
    struct verify_report report = gpu_report("nvml.count value 8\nnvml.3.pcie-width value 4\n");

    (void)state;
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_LIMITED);
    assert_string_equal(report.result[0].device, "gpu 3");
    assert_non_null(strstr(report.result[0].why, "7 others have 16"));
}

static void of_two_gpus_nobody_knows_the_odd_one(void **state)
{
    struct verify_report report = gpu_report("nvml.count value 2\nnvml.1.pcie-width value 4\n");

    (void)state;
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_OK);
    assert_non_null(strstr(report.result[0].why, "too few"));
}

static void a_gpu_that_is_lost_is_a_failure(void **state)
{
    struct verify_report report = gpu_report("nvml.count value 4\nnvml.2.* error 15\n");

    (void)state;
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_FAILED);
    assert_string_equal(report.result[0].device, "gpu 2");
}

/* ---- what runs them ---- */

struct collected {
    unsigned results, worst;
    double seconds;
    char why[200];
};

static void collect(void *user, const struct verify_check *check, const struct check *result)
{
    struct collected *all = user;

    (void)check;
    all->results++;
    all->worst = all->worst ? verify_worst(all->worst, result->state) : result->state;
    all->seconds = result->seconds;
    snprintf(all->why, sizeof(all->why), "%s", result->why);
    assert_string_equal(result->node, "n1");
}

struct collected_names {
    unsigned skipped;
    bool cpu_math;
};

static void collect_skipped(void *user, const struct verify_check *check,
                            const struct check *result)
{
    struct collected_names *all = user;

    if (strstr(result->why, "not run: the GPU driver did not answer")) {
        assert_int_equal(result->state, CHECK_UNKNOWN);
        all->skipped++;
    }
    all->cpu_math |= strcmp(check->name, "cpu-math") == 0;
}

static struct collected run_only(const char *name)
{
    struct verify_place place = { .root = "", .nvml = getenv("FAKE_NVML"), .node = "n1" };
    struct collected all = { 0 };
    struct verify_sink sink = { .result = collect, .user = &all };
    struct err err = { "" };

    assert_int_equal(verify_run(&place, name, &sink, &err), 0);
    return all;
}

static void a_driver_that_hangs_makes_its_check_unknown(void **state)
{
    struct collected all;

    (void)state;
    script_write("nvml.init hang\n");
    all = run_only("gpu-peers");
    assert_int_equal(all.results, 1);
    assert_int_equal(all.worst, CHECK_UNKNOWN);
    assert_non_null(strstr(all.why, "no answer within 4.0 s"));
}

static void a_driver_that_hangs_is_waited_for_once(void **state)
{
    struct verify_place place = {
        .root = "", .nvml = getenv("FAKE_NVML"), .node = "n1", .stage = VERIFY_PROLOG
    };
    struct collected_names all = { 0 };
    struct verify_sink sink = { .result = collect_skipped, .user = &all };
    struct err err = { "" };

    (void)state;
    script_write("nvml.init hang\ncuda.init hang\n");
    assert_int_equal(verify_run(&place, NULL, &sink, &err), 0);
    assert_int_equal(all.skipped, 3); /* arithmetic, memory and rate */
    assert_true(all.cpu_math);
}

/* ---- a second look ---- */

struct looked_twice {
    struct machine_profile *profile;
    unsigned begun, results;
    bool passes; /* the second time */
    struct check last;
};

static void twice_begin(void *user, const struct verify_check *check)
{
    struct looked_twice *twice = user;

    (void)check;
    if (++twice->begun == 2 && twice->passes) {
        for (int i = 0; i < 5; i++)
            machine_profile_learn_value(twice->profile, "memory-rate", 0.001);
    }
}

static void twice_result(void *user, const struct verify_check *check, const struct check *result)
{
    struct looked_twice *twice = user;

    (void)check;
    twice->results++;
    twice->last = *result;
}

static struct looked_twice memory_looked_twice(bool passes)
{
    struct looked_twice twice = { .passes = passes };
    struct verify_place place = { .root = "/nonexistent", .node = "n1", .stage = VERIFY_PROLOG };
    struct verify_sink sink = { twice_begin, twice_result, &twice };
    struct err err = { "" };

    assert_int_equal(machine_profile_create("box", &twice.profile), 0);
    machine_profile_learn_value(twice.profile, "memory-rate", 1e6); /* no machine has that */
    place.profile = twice.profile;
    assert_int_equal(verify_run(&place, "memory-rate", &sink, &err), 0);
    machine_profile_destroy(twice.profile);
    if (strstr(twice.last.why, "see the limits of its control group"))
        skip(); /* other programs had the processors, so nothing was measured */
    return twice;
}

static void a_rate_that_failed_once_is_measured_again(void **state)
{
    struct looked_twice twice = memory_looked_twice(false);

    (void)state;
    assert_int_equal(twice.begun, 2);
    assert_int_equal(twice.results, 1);
    assert_int_equal(twice.last.state, CHECK_FAILED);
    twice = memory_looked_twice(true);
    assert_int_equal(twice.begun, 2);
    assert_int_equal(twice.results, 1);
    assert_int_equal(twice.last.state, CHECK_LIMITED);
    assert_non_null(strstr(twice.last.why, "; a moment before "));
}

/* ---- mounts ---- */

#define MOUNTS_GOOD                                                                                \
    "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n"                              \
    "10.0.0.1@tcp:/fs /scratch lustre rw,flock 0 0\n/dev/loop3 /snap/core squashfs ro 0 0\n"       \
    "systemd-1 /home autofs rw 0 0\nfiler:/home/ann /home/ann nfs4 rw 0 0\n"                       \
    "overlay /var/lib/docker/overlay2/x overlay rw 0 0\n/dev/nvme0n1p2 /var/lib/kubelet/pods/1 "   \
    "ext4 rw 0 0\nbob@host:/ /mnt/bob fuse.sshfs rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n"

static void mounts_write(const char *root, const char *text)
{
    char path[80];
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc", root);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/proc/mounts", root);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* The results on a node with these mounts, compared with a good one. */
static struct verify_report mounts_compared(const char *text)
{
    char root[] = "/tmp/test-mounts-XXXXXX", path[80];
    static struct inventory good, now;
    CLEAN(test_profile_clean) struct machine_profile *profile = NULL;
    struct verify_report report = { 0 };

    assert_non_null(mkdtemp(root));
    mounts_write(root, MOUNTS_GOOD);
    inventory_read(root, &good);
    assert_int_equal(machine_profile_create(good.machine, &profile), 0);
    for (size_t i = 0; i < good.count; i++)
        machine_profile_learn_fact(profile, good.fact[i].name, good.fact[i].value);
    assert_string_equal(machine_profile_fact(profile, "mount /"), "ext4 rw");
    assert_string_equal(machine_profile_fact(profile, "mount /scratch"), "lustre rw");
    mounts_write(root, text);
    inventory_read(root, &now);
    inventory_compare(&now, profile, &report);
    snprintf(path, sizeof(path), "rm -r %s", root);
    assert_int_equal(system(path), 0);
    return report;
}

static void a_missing_or_read_only_file_system_is_limited(void **state)
{
    struct verify_report report = mounts_compared(MOUNTS_GOOD);

    (void)state;
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_OK);
    /* Of users, containers, snaps and the automounter nothing is expected. */
    report = mounts_compared("/dev/nvme0n1p2 / ext4 rw,relatime 0 0\n"
                             "10.0.0.1@tcp:/fs /scratch lustre rw 0 0\nnonsense\n\n");
    assert_int_equal(report.result[0].state, CHECK_OK);
    report = mounts_compared("/dev/nvme0n1p2 / ext4 rw 0 0\n");
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_LIMITED);
    assert_string_equal(report.result[0].why,
                        "mount /scratch: not found, the profile has lustre rw");
    report = mounts_compared("/dev/nvme0n1p2 / ext4 ro,relatime 0 0\n"
                             "10.0.0.1@tcp:/fs /scratch lustre rw 0 0\n");
    assert_int_equal(report.count, 1);
    assert_string_equal(report.result[0].why, "mount /: ext4 ro, the profile has ext4 rw");
}

/* ---- what others did meanwhile ---- */

static void other_load_stat_write(const char *root, unsigned ticks)
{
    char path[80];
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/stat", root);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "cpu  %u 0 50 1000 0 0 0 0 0 0\n", ticks);
    fclose(file);
}

static unsigned other_load_judged(unsigned ticks, unsigned state)
{
    char root[] = "/tmp/test-others-XXXXXX", path[80];
    struct verify_report report = { 0 };
    const struct timespec moment = time_spec(100 * NS_PER_MS);
    struct check *result;
    struct other_load load;

    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/proc", root);
    assert_int_equal(mkdir(path, 0700), 0);
    other_load_stat_write(root, 1000);
    other_load_begin(&load, root, NULL);
    nanosleep(&moment, NULL);
    other_load_stat_write(root, 1000 + ticks);
    result = verify_result(&report, state, "", "50.0 GB/s, at least 100.0 expected");
    result->has_value = result->has_expected = true;
    other_load_judge(&load, 0, &report, 0);
    snprintf(path, sizeof(path), "rm -r %s", root);
    assert_int_equal(system(path), 0);
    return report.result[0].state;
}

static void a_rate_beside_other_programs_proves_nothing(void **state)
{
    unsigned all =
        100 * (unsigned)sysconf(_SC_NPROCESSORS_ONLN); /* ticks of a whole second, in a tenth */

    (void)state;
    assert_int_equal(other_load_judged(all, CHECK_FAILED), CHECK_UNKNOWN);
    assert_int_equal(other_load_judged(all, CHECK_LIMITED), CHECK_UNKNOWN);
    assert_int_equal(other_load_judged(all, CHECK_OK), CHECK_OK);
    assert_int_equal(other_load_judged(0, CHECK_FAILED), CHECK_FAILED);
}

/* As in a control group that has fewer processors than the machine. */
static void a_check_that_gets_no_processor_proves_nothing(void **state)
{
    CLEAN(test_profile_clean) struct machine_profile *profile = NULL;
    struct verify_place place = { .root = "/nonexistent", .node = "n1", .stage = VERIFY_PROLOG };
    struct verify_report report = { 0 };
    cpu_set_t own, one;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !CPU_ISSET(0, &own))
        skip();
    assert_int_equal(machine_profile_create("box", &profile), 0);
    assert_int_equal(machine_profile_learn_value(profile, "memory-rate", 1e6), 0);
    place.profile = profile;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    check_memory_rate.run(&place, &report);
    assert_int_equal(sched_setaffinity(0, sizeof(own), &own), 0);
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_UNKNOWN);
    assert_non_null(strstr(report.result[0].why, "see the limits of its control group"));
}

static void cpus_that_were_not_tested_are_unknown(void **state)
{
    struct verify_place place = { .root = "", .node = "n1", .stage = VERIFY_QUICK };
    struct verify_report report = { 0 };
    cpu_set_t own, one;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !CPU_ISSET(0, &own))
        skip();
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    check_cpu_math.run(&place, &report);
    assert_int_equal(sched_setaffinity(0, sizeof(own), &own), 0);
    assert_int_equal(report.count, 2);
    assert_int_equal(report.result[0].state, CHECK_OK);
    assert_int_equal(report.result[1].state, CHECK_UNKNOWN);
    assert_non_null(strstr(report.result[1].why, "CPUs were not tested"));
}

static void what_is_wrong_stays_wrong_beside_other_programs(void **state)
{
    struct other_load load = { .root = "/nonexistent", .has_times = false };
    struct verify_report report = { 0 };

    (void)state;
    verify_result(&report, CHECK_FAILED, "", "memory gave back other bytes than were written");
    other_load_judge(&load, 1, &report, 0);
    assert_int_equal(report.result[0].state, CHECK_FAILED);
}

/* ---- sensors ---- */

static unsigned sensors_state_of(const char *line)
{
    char root[] = "/tmp/test-sensors-XXXXXX", path[80];
    struct sense_place place = { .root = root, .node = "n1", .from_start = true };
    struct inspection *inspection;
    struct check check = { .state = 0 };
    unsigned found = 0;
    FILE *file;

    assert_non_null(mkdtemp(root));
    snprintf(path, sizeof(path), "%s/dev", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/dev/kmsg", root);
    file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "3,2,2000000,-;%s\n", line);
    fclose(file);
    inspection = inspection_begin(&place, 1);
    assert_non_null(inspection);
    for (int64_t now_ns = 1; !inspection_turn(inspection, now_ns); now_ns += NS_PER_S)
        ;
    for (size_t i = 0; i < inspection_checks(inspection); i++) {
        inspection_check(inspection, i, &check);
        if (strcmp(check.name, "kmsg") == 0)
            found = check.state;
    }
    inspection_destroy(inspection);
    snprintf(path, sizeof(path), "rm -r %s", root);
    assert_int_equal(system(path), 0);
    return found;
}

static void only_broken_parts_of_the_node_are_failures(void **state)
{
    (void)state;
    assert_int_equal(sensors_state_of("NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python, GPU "
                                      "has fallen off the bus."),
                     CHECK_FAILED);
    assert_int_equal(sensors_state_of("Aborting journal on device sda1-8."), CHECK_FAILED);
    assert_int_equal(sensors_state_of("Aborting journal on device loop0-8."), CHECK_OK);
    /* A program may run into it. */
    assert_int_equal(
        sensors_state_of("BUG: kernel NULL pointer dereference, address: 0000000000000008"),
        CHECK_LIMITED);
    assert_int_equal(sensors_state_of("usb 1-1: new high-speed USB device"), CHECK_OK);
}

/* ---- reports ---- */

struct taken {
    size_t count;
    int result;
    char last[FACT_NAME];
};

static int taken_take(void *arg, const struct check *check)
{
    struct taken *taken = arg;

    taken->count++;
    memcpy(taken->last, check->name, sizeof(taken->last));
    return taken->result;
}

static void reports_are_taken_once_and_in_their_order(void **state)
{
    struct check check[2] = {
        { .state = CHECK_OK, .stage = "quick", .name = "kmsg", .node = "n1" },
        { .state = CHECK_OK, .stage = "quick", .name = "all", .node = "n1" }
    };
    char directory[] = "/tmp/test-report-XXXXXX", path[80];
    struct taken taken = { .result = -EFBIG };
    struct err err = { "" };
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(check_report_take(directory, taken_take, &taken, &err), 0);
    assert_int_equal(check_report_write(directory, check, 2, &err), -ENOENT);
    assert_non_null(strstr(err.text, "the daemon of this node"));
    assert_int_equal(check_report_make(directory, &err), 0);
    assert_int_equal(check_report_write(directory, check, 2, &err), 0);
    assert_int_equal(check_report_take(directory, taken_take, &taken, &err), -EFBIG);
    taken = (struct taken){ .count = 0 }; /* it stayed */
    assert_int_equal(check_report_take(directory, taken_take, &taken, &err), 1);
    assert_int_equal(taken.count, 2);
    assert_string_equal(taken.last, "all");
    assert_int_equal(check_report_take(directory, taken_take, &taken, &err), 0);
    assert_int_equal(taken.count, 2);

    /* Bytes that are no report are removed, and what is under way is left alone. */
    snprintf(path, sizeof(path), "%s/checks/1.lsf", directory);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("nonsense that is longer than the header of a frame, and then some more of it\n", file);
    fclose(file);
    snprintf(path, sizeof(path), "%s/checks/making-1", directory);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(check_report_take(directory, taken_take, &taken, &err), 1);
    assert_int_equal(taken.count, 2);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof(path), "%s/checks", directory);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void faults_of_the_site_are_known_while_the_controller_says_so(void **state)
{
    static const char names[2][FACT_NAME] = { "gpu-rate", "kmsg" };
    struct timespec before[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    char directory[] = "/tmp/test-report-XXXXXX", path[80];
    struct err err = { "" };

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(check_report_make(directory, &err), 0);
    assert_false(check_is_site_fault(directory, "kmsg"));
    assert_int_equal(check_site_faults_keep(directory, names, 2), 0);
    assert_true(check_is_site_fault(directory, "kmsg") &&
                check_is_site_fault(directory, "gpu-rate"));
    assert_false(check_is_site_fault(directory, "gpu") || check_is_site_fault(directory, ""));
    snprintf(path, sizeof(path), "%s/checks/site-faults", directory);
    assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0); /* the controller is gone */
    assert_false(check_is_site_fault(directory, "kmsg"));
    assert_int_equal(check_site_faults_keep(directory, names, 2), 0);
    assert_true(check_is_site_fault(directory, "kmsg"));
    assert_int_equal(check_site_faults_keep(directory, names, 0), 0);
    assert_false(check_is_site_fault(directory, "kmsg"));
    snprintf(path, sizeof(path), "%s/checks", directory);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* Holds the node with a child of its own, as checks do. */
static pid_t background_start(const char *directory)
{
    int ready[2], fd = -1;
    char byte;
    pid_t pid;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        struct err err = { "" };
        pid_t parent = getpid();

        byte = (char)('0' - check_background_begin(directory, &fd, &err));
        if (byte == '0' && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() == parent) /* else it has ended before */
                pause();
            _exit(0);
        }
        _exit(write(ready[1], &byte, 1) == 1 && byte == '0' ? (pause(), 0) : 1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, '0');
    close(ready[0]);
    return pid;
}

static void a_check_in_the_background_ends_with_all_its_processes(void **state)
{
    char directory[] = "/tmp/test-report-XXXXXX", path[80];
    struct timespec before[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    struct err err = { "" };
    int status, fd = -1;
    pid_t pid;

    (void)state;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(check_background_end(directory, &err), 0);
    assert_int_equal(check_background_begin(directory, &fd, &err), -ENOENT);
    assert_int_equal(check_report_make(directory, &err), 0);
    pid = background_start(directory);
    assert_int_equal(check_background_begin(directory, &fd, &err), -EBUSY);
    assert_int_equal(check_background_end(directory, &err), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(check_background_end(directory, &err), 0);

    /* Whoever ended it has the node for a while. */
    assert_int_equal(check_background_begin(directory, &fd, &err), -EAGAIN);
    snprintf(path, sizeof(path), "%s/checks/running", directory);
    assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0);
    assert_int_equal(check_background_begin(directory, &fd, &err), 0);
    close(fd);
    unlink(path);
    snprintf(path, sizeof(path), "%s/checks", directory);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void a_check_that_nobody_knows_is_refused(void **state)
{
    struct verify_place place = { .root = "", .node = "n1" };
    struct verify_sink sink = { .result = collect };
    struct err err = { "" };

    (void)state;
    assert_int_equal(verify_run(&place, "nonsense", &sink, &err), -ENOENT);
}

static void the_worst_result_decides(void **state)
{
    (void)state;
    assert_int_equal(verify_worst(CHECK_OK, CHECK_LIMITED), CHECK_LIMITED);
    assert_int_equal(verify_worst(CHECK_UNKNOWN, CHECK_LIMITED), CHECK_UNKNOWN);
    assert_int_equal(verify_worst(CHECK_UNKNOWN, CHECK_FAILED), CHECK_FAILED);
}

static void more_results_than_fit_keep_the_worst(void **state)
{
    static struct verify_report report;

    (void)state;
    for (int i = 0; i < VERIFY_RESULTS + 5; i++)
        verify_result(&report, CHECK_OK, "", "fine");
    verify_result(&report, CHECK_FAILED, "", "not");
    assert_int_equal(report.count, VERIFY_RESULTS);
    assert_int_equal(report.result[VERIFY_RESULTS - 1].state, CHECK_FAILED);
}

static bool small_reads_are_short;

/* In place of the C library's. */
ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    bool is_short = small_reads_are_short && size == 4096;
    ssize_t n = syscall(SYS_pread64, fd, data, is_short ? size / 2 : size, at);

    if (is_short)
        errno = EACCES; /* as of an earlier call */
    return n;
}

static void a_short_read_is_an_error_of_the_disk(void **state)
{
    const struct verify_place place = {
        .root = "", .node = "n1", .dir = "/tmp", .stage = VERIFY_PROLOG
    };
    struct verify_report report = { 0 };

    (void)state;
    small_reads_are_short = true;
    check_disk_rate.run(&place, &report);
    small_reads_are_short = false;
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_FAILED);
    assert_non_null(strstr(report.result[0].why, "short"));
}

static void a_disk_is_measured_and_nothing_is_left(void **state)
{
    struct verify_place place = { .root = "", .node = "n1", .dir = "/tmp", .stage = VERIFY_PROLOG };
    struct verify_report report = { 0 };

    (void)state;
    check_disk_rate.run(&place, &report);
    assert_true(report.count >= 7);
    for (size_t i = 0; i < 7; i++) {
        const struct check *result = &report.result[i];

        assert_true(result->has_value && result->value > 0);
        if (strstr(result->name, "-99")) /* the median comes before it */
            assert_true(result->value >= report.result[i - 1].value);
    }
    assert_string_equal(report.result[3].name, "disk-read-latency");
    assert_string_equal(report.result[6].name, "disk-sync-latency-99");
    place.dir = "/nonexistent";
    report.count = 0;
    check_disk_rate.run(&place, &report);
    assert_int_equal(report.count, 1);
    assert_int_equal(report.result[0].state, CHECK_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_kernels_give_the_known_answer),
        cmocka_unit_test(one_wrong_bit_in_any_step_changes_the_answer),
        cmocka_unit_test(a_value_is_compared_with_good_nodes),
        cmocka_unit_test(a_latency_is_worse_the_more_it_is),
        cmocka_unit_test(the_limit_is_wider_where_good_nodes_differ_more),
        cmocka_unit_test(a_profile_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_profile_is_refused_with_the_reason),
        cmocka_unit_test(a_missing_part_is_a_fault_and_another_version_is_not),
        cmocka_unit_test(the_profile_of_another_machine_decides_nothing),
        cmocka_unit_test(gpus_that_are_alike_are_ok),
        cmocka_unit_test(the_gpu_with_a_narrow_link_is_named),
        cmocka_unit_test(of_two_gpus_nobody_knows_the_odd_one),
        cmocka_unit_test(a_gpu_that_is_lost_is_a_failure),
        cmocka_unit_test(a_driver_that_hangs_makes_its_check_unknown),
        cmocka_unit_test(a_driver_that_hangs_is_waited_for_once),
        cmocka_unit_test(a_rate_that_failed_once_is_measured_again),
        cmocka_unit_test(a_rate_beside_other_programs_proves_nothing),
        cmocka_unit_test(a_missing_or_read_only_file_system_is_limited),
        cmocka_unit_test(a_check_that_gets_no_processor_proves_nothing),
        cmocka_unit_test(cpus_that_were_not_tested_are_unknown),
        cmocka_unit_test(what_is_wrong_stays_wrong_beside_other_programs),
        cmocka_unit_test(only_broken_parts_of_the_node_are_failures),
        cmocka_unit_test(reports_are_taken_once_and_in_their_order),
        cmocka_unit_test(faults_of_the_site_are_known_while_the_controller_says_so),
        cmocka_unit_test(a_check_in_the_background_ends_with_all_its_processes),
        cmocka_unit_test(a_check_that_nobody_knows_is_refused),
        cmocka_unit_test(the_worst_result_decides),
        cmocka_unit_test(more_results_than_fit_keep_the_worst),
        cmocka_unit_test(a_disk_is_measured_and_nothing_is_left),
        cmocka_unit_test(a_short_read_is_an_error_of_the_disk),
    };
    int failed;

    close(mkstemp(script));
    setenv("LOCKSTEP_FAKE_DEVICE", script, 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(script);
    return failed;
}
