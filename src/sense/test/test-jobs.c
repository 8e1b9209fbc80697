/* test-jobs.c - what sensors know of jobs: their control groups, their mounts and disks, the metadata of their file servers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sense/job/job_cgroups.h"
#include "sense/job/job_mounts.h"
#include "sense/job/metadata_stats.h"
#include "sense/test/stage.h"

#define GROUP "/sys/fs/cgroup/slurm/job_7/step_0"
#define JOB 4711

static void job_begin(struct stage *stage)
{
    const uint32_t pid[] = { JOB };

    put(stage, "/proc/4711/status", "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\n");
    put(stage, "/proc/4711/cgroup", "0::/slurm/job_7/step_0\n");
    put(stage, GROUP "/cpu.stat", "usage_usec 5\nnr_periods 1000\nnr_throttled 10\n");
    put(stage, GROUP "/memory.events", "low 0\nhigh 3\nmax 0\noom 0\noom_kill 1\n");
    put(stage, "/sys/fs/cgroup/slurm/job_7/cpu.stat", "nr_periods 100\nnr_throttled 10\n");
    put(stage, "/sys/fs/cgroup/slurm/job_7/memory.events", "high 7\nmax 0\noom_kill 2\n");
    put(stage, "/sys/fs/cgroup/slurm/job_7/memory.events.local", "high 0\nmax 0\noom_kill 0\n");
    sense_set_jobs(stage->sense, pid, COUNT(pid), false);
}

static void limits_of_a_jobs_cgroup_are_findings(void **state)
{
    const struct finding *finding;
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    job_begin(&stage);
    assert_int_equal(step(&stage), 0); /* what was before the first look counts for nothing */
    put(&stage, GROUP "/cpu.stat", "usage_usec 9\nnr_periods 1100\nnr_throttled 58\n");
    put(&stage, GROUP "/memory.events", "low 0\nhigh 3\nmax 4\noom 1\noom_kill 2\n");
    assert_int_equal(step(&stage), 3);
    finding = found(&stage, FINDING_OOM, "/slurm/job_7/step_0");
    assert_non_null(finding);
    assert_int_equal(finding->severity, FINDING_ERROR);
    assert_non_null(found(&stage, FINDING_HOST_PRESSURE, "/slurm/job_7/step_0"));
    for (size_t i = 0; i < 3; i++) { /* any user can make a group and fill it */
        assert_int_equal(stage.found[i].pid, JOB);
        assert_true(finding_is_of_program(&stage.found[i]));
    }
    assert_non_null(strstr(stage.found[0].text, "48 %"));
    assert_int_equal(step(&stage), 0);
    /* The limit of the job, and what another step of it caused. */
    put(&stage, "/sys/fs/cgroup/slurm/job_7/memory.events", "high 99\nmax 9\noom_kill 9\n");
    assert_int_equal(step(&stage), 0);
    put(&stage, "/sys/fs/cgroup/slurm/job_7/memory.events.local", "high 2\nmax 0\noom_kill 0\n");
    assert_int_equal(step(&stage), 1);
    assert_non_null(found(&stage, FINDING_HOST_PRESSURE, "/slurm/job_7"));
    stage_end(&stage);
}

/* A group of two users is evidence for both, and the many groups of one leave room for those of the other. */
static void each_user_has_groups_of_its_own(void **state)
{
    struct job_cgroups *cgroups = job_cgroups_create();
    struct job_process process = { .pid = 1, .uid = 1000, .now_ns = 1 };
    size_t many;
    char text[64];

    (void)state;
    assert_non_null(cgroups);
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof(text), "0::/shared/%d\n", i);
        job_cgroups_take(cgroups, &process, text);
    }
    many = job_cgroups_count(cgroups);
    assert_in_range(many, 2, 64);
    process = (struct job_process){ .pid = 2, .uid = 1001, .now_ns = 1 };
    snprintf(text, sizeof(text), "0::/shared/0\n");
    job_cgroups_take(cgroups, &process, text);
    assert_int_equal(job_cgroups_count(cgroups), many + 2);
    job_cgroups_destroy(cgroups);
}

static void what_is_cut_off_is_not_complete(void **state)
{
    CLEAN(free_clean) char *text = malloc(400000);
    static struct job_mounts index;
    struct job_mount mount;
    size_t used = 0;
    struct stage stage;

    (void)state;
    assert_non_null(text);
    for (int i = 0; i < 5000; i++)
        used += (size_t)sprintf(text + used, "%d 20 0:%d / /m%d rw - tmpfs none rw\n", 5020 - i,
                                i + 50, i);
    job_mounts_index(&index, text);
    assert_true(index.cut);
    assert_int_equal(index.count, JOB_MOUNTS_MAX);
    assert_true(job_mounts_find(&index, 5000, 0, &mount)); /* by its id ... */
    assert_string_equal(mount.point, "/m20");
    assert_true(job_mounts_find(&index, 0, 60, &mount)); /* ... and by its device */
    assert_string_equal(mount.point, "/m10");
    assert_false(job_mounts_find(&index, 21, 0, &mount));
    *strchr(text, '\n') = '\0';
    job_mounts_index(&index, text);
    assert_false(index.cut);

    stage_begin(&stage);
    for (used = 0; used < 200 * 46;) /* more disks than are observed */
        used +=
            (size_t)sprintf(text + used, " 8 0 disk%04zu 1 0 8 1 1 0 8 1 0 1 1 0 0 0 0\n", used);
    put(&stage, "/proc/diskstats", text);
    for (char *at = text; (at = strstr(at, "disk")); at += 8) {
        char path[64];

        snprintf(path, sizeof(path), "/sys/block/%.*s/queue/rotational", (int)strcspn(at, " "), at);
        put(&stage, path, "0\n");
    }
    step(&stage);
    assert_non_null(found(&stage, FINDING_SENSOR, "storage"));
    stage_end(&stage);
}

static void put_mountstats(const struct stage *stage, long long opens, long long ms,
                           long long reads)
{
    char text[1024];

    snprintf(text, sizeof(text),
             "device proc mounted on /proc with fstype proc\n"
             "device filer:/home mounted on /home with fstype nfs4 statvers=1.1\n"
             "\topts:\trw,vers=4.2\n\tage:\t100\n\tper-op statistics\n"
             "\t        NULL: 1 1 0 44 24 0 0 0 0\n"
             "\t        READ: %lld 10 0 1800 40960 1 20 22 0\n"
             "\t       RENEW: 999999 10 0 1800 40960 1 20 999999 0\n"
             "\t        OPEN: %lld 10 0 1800 40960 1 20 %lld 0\n"
             "\t     GETATTR: 5 5 0 900 1200 0 4 5 0\n",
             reads, opens, ms);
    put(stage, "/proc/1/mountstats", text);
}

static void a_storm_at_a_file_server_is_found_if_it_lasts(void **state)
{
    const struct finding *finding;
    struct stage stage;
    long long opens = 1000000, ms = 9000000;

    (void)state;
    stage_begin(&stage);
    put_mountstats(&stage, opens, ms, 7);
    step(&stage);
    step(&stage); /* what was before counts for nothing */
    put_mountstats(&stage, opens += 400000, ms += 800000, 7); /* in 100 s */
    assert_null(step(&stage) ? found(&stage, FINDING_STORAGE, "/home") : NULL);
    put_mountstats(&stage, opens += 400000, ms += 800000, 1007);
    step(&stage);
    finding = found(&stage, FINDING_STORAGE, "/home");
    assert_non_null(finding);
    assert_int_equal(finding->code, 2);
    assert_non_null(strstr(finding->text, "4000 opens"));
    assert_non_null(strstr(finding->text, "2 ms each; 10 reads"));
    put_mountstats(&stage, opens += 400000, ms += 800000, 1007);
    assert_int_equal(step(&stage), 0); /* it lasts */
    assert_int_equal(step(&stage), 0); /* it is over */
    /* Few, but the server is slow. */
    for (int i = 0; i < 2; i++) {
        put_mountstats(&stage, opens += 30000, ms += 3000000, 1007);
        step(&stage);
    }
    assert_non_null(found(&stage, FINDING_STORAGE, "/home"));
    stage_end(&stage);
}

static void lustre_counts_its_operations(void **state)
{
    struct metadata_stats stats = { .ops = -1 };

    (void)state;
    metadata_lustre_read("snapshot_time 1700000000.1 secs.usecs\n"
                         "read_bytes 100 samples [bytes] 4096 1048576 99999\n"
                         "open 12345 samples [usec] 3 900 5000000\n"
                         "getattr 55 samples [regs]\n"
                         "ioctl 9 samples [regs]\n",
                         &stats);
    assert_int_equal(stats.ops, 12400);
    assert_int_equal(stats.ms, 5000);
    assert_int_equal(stats.data, 100);
}

/* The job has a file on the second partition of nvme1n1, and maps one that lies on a volume on sda. */
static void files_begin(struct stage *stage)
{
    put(stage, "/sys/devices/nvme1n1/nvme1n1p2/partition", "2\n");
    put(stage, "/sys/devices/dm-0/slaves/sda", "");
    put(stage, "/sys/block/nvme1n1/queue/rotational", "0\n");
    put(stage, "/sys/block/sda/queue/rotational", "0\n");
    link_to(stage, "../../devices/nvme1n1/nvme1n1p2", "/sys/dev/block/259:3");
    link_to(stage, "../../devices/nvme1n1/nvme1n1p2", "/sys/class/block/nvme1n1p2");
    link_to(stage, "../../devices/dm-0", "/sys/dev/block/253:0");
    link_to(stage, "../../devices/dm-0", "/sys/class/block/dm-0");
    put(stage, "/proc/4711/mountinfo",
        "20 1 253:0 / / rw - ext4 /dev/mapper/root rw\n"
        "29 20 259:3 / /data rw,noatime shared:1 - xfs /dev/nvme1n1p2 rw\n"
        "30 20 0:44 / /home rw - nfs4 filer:/home rw\n");
    put(stage, "/proc/4711/fdinfo/5", "pos:\t0\nflags:\t0100000\nmnt_id:\t29\nino:\t7\n");
    put(stage, "/proc/4711/fdinfo/6", "pos:\t0\nflags:\t0100000\nmnt_id:\t30\nino:\t7\n");
    link_to(stage, "/data/shard-0", "/proc/4711/fd/5");
    link_to(stage, "/home/ada/train.py", "/proc/4711/fd/6");
    link_to(stage, "socket:[77]", "/proc/4711/fd/7");
    put(stage, "/proc/4711/maps",
        "55d0-55d1 r-xp 00000000 fd:00 1234                   /usr/bin/python3\n"
        "7ffc-7ffd rw-p 00000000 00:00 0                      [stack]\n");
}

static void put_disks(const struct stage *stage, long long done, long long ms)
{
    static const char *const names[] = { "nvme0n1", "nvme1n1", "sda" };
    char text[512] = "";

    for (size_t i = 0; i < COUNT(names); i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 " 259 0 %s %lld 0 800 %lld 0 0 0 0 0 100 100\n", names[i], done, ms);
    put(stage, "/proc/diskstats", text);
}

static void a_slow_disk_without_files_of_jobs_is_no_fault(void **state)
{
    struct stage stage;
    long long done = 0, ms = 0;

    (void)state;
    stage_begin(&stage);
    job_begin(&stage);
    files_begin(&stage);
    put_disks(&stage, done, ms);
    step(&stage);
    /* A child looks; until it has answered, any disk may be in use. */
    do {
        usleep(20000);
        put_disks(&stage, done += 100, ms); /* all is well in between */
        step(&stage);
        put_disks(&stage, done += 100, ms += 90000);
        step(&stage);
    } while (found(&stage, FINDING_STORAGE, "nvme0n1")->severity != FINDING_INFO && done < 600000);
    assert_int_equal(found(&stage, FINDING_STORAGE, "nvme0n1")->severity, FINDING_INFO);
    assert_non_null(strstr(found(&stage, FINDING_STORAGE, "nvme0n1")->text, "no file of a job"));
    assert_int_equal(found(&stage, FINDING_STORAGE, "nvme1n1")->severity, FINDING_WARN);
    assert_int_equal(found(&stage, FINDING_STORAGE, "sda")->severity, FINDING_WARN);
    stage_end(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_of_a_jobs_cgroup_are_findings),
        cmocka_unit_test(each_user_has_groups_of_its_own),
        cmocka_unit_test(a_slow_disk_without_files_of_jobs_is_no_fault),
        cmocka_unit_test(what_is_cut_off_is_not_complete),
        cmocka_unit_test(a_storm_at_a_file_server_is_found_if_it_lasts),
        cmocka_unit_test(lustre_counts_its_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
