/* test-sense.c - sensors over a tree that the test makes, and changes between reads.
 *
 * The tree is synthetic: the files and their forms are those of the kernel, the numbers are made up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/remove_tree.h"
#include "core/clean.h"
#include "core/time.h"
#include "sense/environment/environment.h"
#include "sense/job/job_cgroups.h"
#include "sense/job/job_mounts.h"
#include "sense/job/metadata_stats.h"
#include "sense/sense.h"
#include "sense/tree.h"

#define FOUND_MAX 32
#define GPU_DIR "/sys/bus/pci/devices/0000:3b:00.0"
#define NIC_DIR "/sys/bus/pci/devices/0000:5e:00.0"
#define IB "/sys/class/infiniband/mlx5_0/ports/1"
#define NET "/sys/class/net/ens1"

struct stage {
    char root[64];
    struct sense *sense;
    struct finding found[FOUND_MAX];
    size_t count;
    int64_t now_ns;
};

static void put(const struct stage *stage, const char *path, const char *text)
{
    char full[256];
    FILE *file;

    snprintf(full, sizeof(full), "%s%s", stage->root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    file = fopen(full, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void sink(void *user, const struct finding *finding, uint32_t line)
{
    struct stage *stage = user;

    (void)line;
    if (stage->count < FOUND_MAX)
        stage->found[stage->count++] = *finding;
}

static size_t step(struct stage *stage)
{
    struct sense_now now;

    stage->count = 0;
    stage->now_ns += 100 * NS_PER_S;
    now = (struct sense_now){ stage->now_ns, stage->now_ns + 1000 * NS_PER_S };
    sense_step(stage->sense, &now, sink, stage);
    return stage->count;
}

static const struct finding *found(const struct stage *stage, unsigned kind, const char *device)
{
    for (size_t i = 0; i < stage->count; i++) {
        if (stage->found[i].kind == kind && strcmp(stage->found[i].device, device) == 0)
            return &stage->found[i];
    }
    return NULL;
}

static void make_tree(struct stage *stage)
{
    put(stage, GPU_DIR "/class", "0x030200\n");
    put(stage, GPU_DIR "/vendor", "0x10de\n");
    put(stage, GPU_DIR "/current_link_width", "16\n");
    put(stage, GPU_DIR "/max_link_width", "16\n");
    put(stage, GPU_DIR "/current_link_speed", "2.5 GT/s PCIe\n"); /* idle */
    put(stage, GPU_DIR "/max_link_speed", "32.0 GT/s PCIe\n");
    put(stage, GPU_DIR "/aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n");
    put(stage, NIC_DIR "/class", "0x020700\n");
    put(stage, NIC_DIR "/current_link_width", "16\n");
    put(stage, NIC_DIR "/max_link_width", "16\n");
    put(stage, NIC_DIR "/current_link_speed", "32.0 GT/s PCIe\n");
    put(stage, NIC_DIR "/max_link_speed", "32.0 GT/s PCIe\n");
    put(stage, IB "/state", "4: ACTIVE\n");
    put(stage, IB "/rate", "400 Gb/sec (4X NDR)\n");
    put(stage, IB "/counters/link_downed", "3\n");
    put(stage, IB "/counters/symbol_error", "4294967290\n");
    put(stage, NET "/device/vendor", "0x15b3\n");
    put(stage, NET "/carrier", "0\n"); /* never up: nobody uses it */
    put(stage, "/sys/devices/system/edac/mc/mc0/ue_count", "0\n");
    put(stage, "/sys/devices/system/edac/mc/mc0/ce_count", "5\n");
    put(stage, "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "9\n");
    put(stage, "/proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
        "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
    put(stage, "/proc/stat", "cpu  100 0 100 1000 0 0 0 0 0 0\n");
    put(stage, "/sys/class/nvme/nvme0/state", "live\n");
    put(stage, "/sys/block/nvme0n1/queue/rotational", "0\n");
    put(stage, "/proc/diskstats", " 259 0 nvme0n1 100 0 800 50 100 0 800 50 0 100 100\n");
    put(stage, "/proc/4242/environ", "");
}

static void stage_begin(struct stage *stage)
{
    struct sense_place place = { .root = stage->root, .node = "n7", .from_start = true };

    *stage = (struct stage){ .root = "/tmp/test-sense-XXXXXX" };
    assert_non_null(mkdtemp(stage->root));
    make_tree(stage);
    assert_int_equal(sense_create(&place, NULL, &stage->sense), 0);
}

static void stage_end(struct stage *stage)
{
    char command[128];

    sense_destroy(stage->sense);
    snprintf(command, sizeof(command), "rm -rf %s", stage->root);
    assert_int_equal(system(command), 0);
}

static void a_healthy_node_is_silent(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    assert_int_equal(step(&stage), 0);
    assert_int_equal(step(&stage), 0);
    stage_end(&stage);
}

static void what_changes_is_found_once_while_it_lasts(void **state)
{
    struct stage stage;
    const struct finding *finding;
    char id[FINDING_ID];

    (void)state;
    stage_begin(&stage);
    assert_int_equal(step(&stage), 0);
    put(&stage, GPU_DIR "/current_link_width", "4\n");
    put(&stage, IB "/state", "1: DOWN\n");
    put(&stage, "/sys/class/nvme/nvme0/state", "resetting\n");
    put(&stage, "/proc/pressure/memory",
        "some avg10=80.00 avg60=0.00 avg300=0.00 total=0\n"
        "full avg10=55.10 avg60=0.00 avg300=0.00 total=0\n");
    assert_int_equal(step(&stage), 4);
    finding = found(&stage, FINDING_PCIE, "0000:3b:00.0");
    assert_non_null(finding);
    assert_int_equal(finding->severity, FINDING_ERROR);
    assert_non_null(strstr(finding->text, "x4, its maximum is x16"));
    assert_string_equal(finding->node, "n7");
    assert_true(finding->id[0]);
    finding = found(&stage, FINDING_PORT, "mlx5_0/1");
    assert_non_null(finding);
    assert_int_equal(finding->severity, FINDING_ERROR);
    snprintf(id, sizeof(id), "%s", finding->id);
    assert_non_null(found(&stage, FINDING_NVME, "nvme0"));
    assert_non_null(found(&stage, FINDING_HOST_PRESSURE, "memory"));
    assert_int_equal(step(&stage), 0);
    put(&stage, IB "/state", "4: ACTIVE\n");
    assert_int_equal(step(&stage), 1); /* the same finding, with how long it was down */
    finding = found(&stage, FINDING_PORT, "mlx5_0/1");
    assert_non_null(finding);
    assert_string_equal(finding->id, id);
    assert_int_equal(finding->severity, FINDING_WARN);
    assert_non_null(strstr(finding->text, "was down for"));
    put(&stage, IB "/state", "1: DOWN\n");
    assert_int_equal(step(&stage), 1);
    stage_end(&stage);
}

static void a_port_that_carries_no_data_is_not_in_use(void **state)
{
    struct stage stage;
    const struct finding *finding;

    (void)state;
    stage_begin(&stage);
    put(&stage, IB "/counters/port_xmit_data", "1000\n");
    assert_int_equal(step(&stage), 0);
    put(&stage, IB "/state", "1: DOWN\n");
    assert_int_equal(step(&stage), 1);
    finding = found(&stage, FINDING_PORT, "mlx5_0/1");
    assert_non_null(finding);
    assert_int_equal(finding->severity, FINDING_INFO);
    put(&stage, IB "/state", "4: ACTIVE\n");
    assert_int_equal(step(&stage), 1);
    put(&stage, IB "/counters/port_xmit_data", "90000000\n"); /* now it is */
    assert_int_equal(step(&stage), 0);
    put(&stage, IB "/state", "1: DOWN\n");
    assert_int_equal(step(&stage), 1);
    finding = found(&stage, FINDING_PORT, "mlx5_0/1");
    assert_non_null(finding);
    assert_int_equal(finding->severity, FINDING_ERROR);
    stage_end(&stage);
}

static void counters_count_what_is_new_also_after_a_reset(void **state)
{
    struct stage stage;
    const struct finding *finding;

    (void)state;
    stage_begin(&stage);
    assert_int_equal(step(&stage), 0);
    put(&stage, GPU_DIR "/aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 2\n");
    put(&stage, IB "/counters/link_downed", "4\n");
    put(&stage, IB "/counters/symbol_error", "150\n"); /* began again */
    put(&stage, "/sys/devices/system/edac/mc/mc0/ue_count", "1\n");
    put(&stage, "/sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", "12\n");
    put(&stage, "/proc/stat", "cpu  200 0 200 1000 0 0 0 200 0 0\n");
    assert_int_equal(step(&stage), 6);
    finding = found(&stage, FINDING_AER, "0000:3b:00.0");
    assert_non_null(finding);
    assert_int_equal(finding->count, 2);
    assert_non_null(found(&stage, FINDING_EDAC, "mc0"));
    assert_non_null(found(&stage, FINDING_THERMAL, "cpu0"));
    assert_non_null(found(&stage, FINDING_HOST_PRESSURE, "steal"));
    stage_end(&stage);
}

static void a_slow_disk_and_a_stuck_one_are_found(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    assert_int_equal(step(&stage), 0);
    put(&stage, "/proc/diskstats", " 259 0 nvme0n1 120 0 800 9050 100 0 800 50 3 100 100\n");
    assert_int_equal(step(&stage), 1);
    assert_non_null(strstr(stage.found[0].text, "takes 450 ms"));
    assert_int_equal(step(&stage), 0);
    assert_int_equal(step(&stage), 0);
    assert_int_equal(step(&stage), 1);
    assert_non_null(strstr(stage.found[0].text, "completes no request"));
    stage_end(&stage);
}

static void errors_that_rise_and_links_that_flap_are_foretold(void **state)
{
    struct stage stage;
    const struct finding *finding = NULL;
    int64_t errors = 5;

    (void)state;
    stage_begin(&stage);
    put(&stage, IB "/counters/port_xmit_data", "1000\n");
    step(&stage);
    for (int i = 0; i < 40; i++) { /* few in a read: no finding of its own, only more and more */
        char text[32];

        errors += i / 8;
        snprintf(text, sizeof(text), "%lld\n", (long long)errors);
        put(&stage, "/sys/devices/system/edac/mc/mc0/ce_count", text);
        step(&stage);
        if (!finding || finding->kind != FINDING_EDAC)
            finding = found(&stage, FINDING_EDAC, "mc0");
        if (finding)
            break;
    }
    assert_non_null(finding);
    assert_int_equal(finding->severity, FINDING_INFO); /* it explains no verdict */
    assert_non_null(strstr(finding->text, "forecast: "));
    for (int i = 0; i < 3; i++) {
        put(&stage, IB "/counters/port_xmit_data",
            (const char *const[]){ "90000000\n", "190000000\n", "290000000\n" }[i]);
        step(&stage);
        put(&stage, IB "/state", "1: DOWN\n");
        assert_int_equal(step(&stage), i < 2 ? 1 : 2);
        if (i < 2) {
            put(&stage, IB "/state", "4: ACTIVE\n");
            assert_int_equal(step(&stage), 1);
        }
    }
    finding = found(&stage, FINDING_PORT, "mlx5_0/1");
    assert_non_null(finding);
    assert_non_null(strstr(finding->text, "went down 3 times"));
    assert_non_null(strstr(finding->text, "forecast: "));
    stage_end(&stage);
}

static void a_device_that_vanishes_is_no_end_of_the_sensor(void **state)
{
    struct stage stage;
    char path[128];

    (void)state;
    stage_begin(&stage);
    assert_int_equal(step(&stage), 0);
    snprintf(path, sizeof(path), "%s%s", stage.root, IB "/state");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(step(&stage), 0); /* not known is not down */
    put(&stage, IB "/state", "1: DOWN\n");
    assert_int_equal(step(&stage), 1);
    stage_end(&stage);
}

static void every_sensor_says_how_it_is(void **state)
{
    struct stage stage;
    struct sense_state states[16];
    size_t count, reads = 0, absent = 0;

    (void)state;
    stage_begin(&stage);
    count = sense_states(stage.sense, states, 16);
    assert_int_equal(count, sensor_count);
    for (size_t i = 0; i < count; i++) {
        reads += states[i].result == 0;
        absent += states[i].result != 0;
        assert_true(states[i].result == 0 || states[i].why[0]);
        assert_true(states[i].sensor->fix[0]);
    }
    assert_int_equal(reads, 4); /* no kernel log, GPU library, GPU device or mounts in the tree */
    assert_int_equal(absent, 4);
    stage_end(&stage);
}

static void records_are_read_from_a_file(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    sense_destroy(stage.sense);
    put(&stage, "/dev/kmsg",
        "6,1,5000000,-;nvme nvme0: 8/0/0 default/read/poll queues\n"
        "3,2,900000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=9, name=python3, GPU has fallen off "
        "the "
        "bus.\n"
        "12,3,900000001,-;NVRM: Xid (PCI:0000:86:00): 79, pid=9, name=python3, GPU has fallen off "
        "the "
        "bus.\n");
    assert_int_equal(
        sense_create(&(struct sense_place){ .root = stage.root, .node = "n7", .from_start = true },
                     "kmsg", &stage.sense),
        0);
    assert_int_equal(step(&stage), 2);
    assert_int_equal(stage.found[0].pid, 9);
    assert_true(finding_confidence(&stage.found[0]) > 0.9);
    assert_int_equal(stage.found[1].origin, FINDING_FROM_USER);
    assert_true(finding_confidence(&stage.found[1]) <= 0.5);
    assert_int_equal(step(&stage), 0);
    stage_end(&stage);
}

static const struct environment_pair *pair_of(const struct environment *environment,
                                              const char *name)
{
    for (uint32_t i = 0; i < environment->count; i++) {
        if (strcmp(environment->pair[i].name, name) == 0)
            return &environment->pair[i];
    }
    return NULL;
}

static void secrets_never_leave(void **state)
{
    char *const variables[] = {
        (char[]){ "NCCL_IB_TIMEOUT=22" }, (char[]){ "WANDB_API_KEY=hunter2" },
        (char[]){ "HF_TOKEN=hunter2" },   (char[]){ "NCCL_SECRET_THING=hunter2" },
        (char[]){ "MY_DATA=hunter2" },    NULL
    };
    struct environment environment = { 0 };
    pid_t pid;

    (void)state;
    pid = fork();
    if (pid == 0) {
        execle("/bin/sleep", "sleep", "60", (char *)NULL, variables);
        _exit(127);
    }
    assert_true(pid > 0);
    while (!pair_of(&environment, "NCCL_IB_TIMEOUT")) { /* until the program has begun */
        environment_fini(&environment);
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
        environment = (struct environment){ 0 };
        assert_int_equal(environment_collect("", (uint32_t)pid, &environment, NULL), 0);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_non_null(pair_of(&environment, "NCCL_IB_TIMEOUT"));
    assert_string_equal(pair_of(&environment, "NCCL_IB_TIMEOUT")->value, "22");
    assert_non_null(pair_of(&environment, "kernel"));
    assert_null(pair_of(&environment, "WANDB_API_KEY"));
    assert_null(pair_of(&environment, "HF_TOKEN"));
    assert_null(pair_of(&environment, "NCCL_SECRET_THING"));
    assert_true(pair_of(&environment, "MY_DATA")->digest);
    for (uint32_t i = 0; i < environment.count; i++)
        assert_null(strstr(environment.pair[i].value, "hunter2"));
    environment_fini(&environment);
}

/* "A=b=c" is one variable: of a secret, "b" would be a name that is sent as it is. */
static void the_value_of_a_variable_is_no_variable(void **state)
{
    struct environment environment = { .pair =
                                           calloc(ENVIRONMENT_PAIRS, sizeof(*environment.pair)) };
    char text[] = "HF_TOKEN=hunter2=x\0NCCL_ALGO=allreduce:ring=1\0DATA=brand=a,driver>=1";

    (void)state;
    assert_non_null(environment.pair);
    environment_add_variables(&environment, text, sizeof(text));
    assert_int_equal(environment.count, 2);
    assert_string_equal(pair_of(&environment, "NCCL_ALGO")->value, "allreduce:ring=1");
    assert_true(pair_of(&environment, "DATA")->digest);
    environment_fini(&environment);
}

static uint64_t reads_so_far(void)
{
    FILE *file = fopen("/proc/self/io", "re");
    unsigned long long reads = 0;
    char line[64];

    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "syscr: %llu", &reads) == 1)
            break;
    }
    if (file)
        fclose(file);
    return reads;
}

/* 64 libraries of at most 10 reads each, 512 pages of maps, 64 of environ; a process without them needs few. */
static void the_reads_of_an_environment_are_bounded(void **state)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    uint64_t before = reads_so_far();

    (void)state;
    if (!before)
        skip();
    assert_int_equal(environment_collect("", (uint32_t)getpid(), &environment, NULL), 0);
    assert_true(environment.count > 0);
    assert_true(reads_so_far() - before < 200);
}

/* ---- devices that come and go ---- */

static void take_away(const struct stage *stage, const char *path)
{
    char full[256];

    snprintf(full, sizeof(full), "%s%s", stage->root, path);
    tree_remove(full);
}

static bool found_within(struct stage *stage, int steps, unsigned kind, const char *device)
{
    for (int i = 0; i < steps; i++) {
        step(stage);
        if (found(stage, kind, device))
            return true;
    }
    return false;
}

static void devices_that_go_are_found_and_may_return(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    put(&stage, "/sys/class/nvme/nvme0/transport", "pcie\n");
    put(&stage, "/sys/class/nvme/nvme1/transport", "tcp\n");
    put(&stage, "/sys/class/nvme/nvme1/state", "live\n");
    assert_int_equal(step(&stage), 0);
    take_away(&stage, "/sys/class/nvme/nvme0");
    take_away(&stage, "/sys/class/nvme/nvme1"); /* a disk behind a network */
    assert_int_equal(step(&stage), 1);
    assert_string_equal(stage.found[0].text, "disk controller nvme0 is gone");
    take_away(&stage, "/sys/class/infiniband/mlx5_0");
    assert_int_equal(step(&stage), 1);
    assert_string_equal(stage.found[0].text, "port mlx5_0/1 is gone");
    assert_int_equal(stage.found[0].severity, FINDING_ERROR);
    take_away(&stage, GPU_DIR);
    assert_true(found_within(&stage, 8, FINDING_PCIE, "0000:3b:00.0"));
    assert_string_equal(stage.found[0].text, "GPU 0000:3b:00.0 is gone from the PCI bus");
    make_tree(&stage);
    assert_int_equal(step(&stage), 1); /* how long the port was down */
    assert_non_null(strstr(stage.found[0].text, "was down for"));
    stage_end(&stage);
}

static void devices_that_come_are_watched(void **state)
{
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    assert_int_equal(step(&stage), 0);
    put(&stage, "/sys/bus/pci/devices/0000:d8:00.0/class", "0x030200\n");
    put(&stage, "/sys/bus/pci/devices/0000:d8:00.0/vendor", "0x10de\n");
    put(&stage, "/sys/bus/pci/devices/0000:d8:00.0/current_link_width", "16\n");
    put(&stage, "/sys/bus/pci/devices/0000:d8:00.0/max_link_width", "16\n");
    put(&stage, "/sys/class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE\n");
    assert_false(found_within(&stage, 12, FINDING_PCIE, "0000:d8:00.0"));
    put(&stage, "/sys/bus/pci/devices/0000:d8:00.0/current_link_width", "8\n");
    put(&stage, "/sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    step(&stage);
    assert_non_null(found(&stage, FINDING_PCIE, "0000:d8:00.0"));
    assert_int_equal(found(&stage, FINDING_PCIE, "0000:d8:00.0")->severity, FINDING_ERROR);
    assert_non_null(found(&stage, FINDING_PORT, "mlx5_1/1"));
    stage_end(&stage);
}

/* ---- what leads to the file servers ---- */

static const char *value_of(const struct environment *environment, const char *name)
{
    const struct environment_pair *pair = pair_of(environment, name);

    return pair ? pair->value : "none";
}

static void the_name_of_the_gpu_is_its_drivers(void **state)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    struct stage stage;

    (void)state;
    stage_begin(&stage);
    put(&stage, "/proc/7/environ", "A=1");
    put(&stage, "/proc/driver/nvidia/gpus/0000:4e:00.0/information",
        "Model: \t\t NVIDIA H200\nIRQ:   \t\t 5\n");
    put(&stage, "/proc/driver/nvidia/gpus/0000:5e:00.0/information", "Model: other\n");
    assert_int_equal(environment_collect(stage.root, 7, &environment, NULL), 0);
    assert_string_equal(value_of(&environment, ENVIRONMENT_GPU), "NVIDIA H200");
    stage_end(&stage);
}

static void the_adapter_of_file_servers_is_known(void **state)
{
    static const char mounts[] =
        "20 1 253:0 / / rw - ext4 /dev/mapper/root rw\n"
        "29 20 0:44 / /data rw shared:9 - nfs4 filer:/set "
        "rw,vers=4.2,hard,clientaddr=10.1.0.7,addr=10.1.9.5\n"
        "30 20 0:45 / /scratch rw - lustre 10.2.0.1@o2ib:/fs rw,flock\n"
        "31 20 0:46 / /old rw - nfs elsewhere:/x rw,password=abc,addr=192.168.9.9\n";
    static const char routes[] =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
        "eth9\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        "eth0\t0000010A\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0\n"
        "ib0\t0000020A\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0\n";
    struct environment environment = { .pair = calloc(ENVIRONMENT_PAIRS,
                                                      sizeof(struct environment_pair)) };
    struct stage stage;

    (void)state;
    assert_non_null(environment.pair);
    stage_begin(&stage);
    put(&stage, "/sys/class/net/ib0/device/infiniband/mlx5_0/node_type", "1: CA\n");
    put(&stage, "/sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002\n");
    environment_add_storage(&environment, stage.root, mounts, routes);
    assert_string_equal(value_of(&environment, "firmware mlx5_0"), "28.39.1002");
    assert_string_equal(value_of(&environment, "mount /data"), "nfs4 rw,vers=4.2,hard");
    assert_string_equal(value_of(&environment, "mount /scratch"), "lustre rw,flock");
    assert_string_equal(value_of(&environment, "mount /old"), "nfs rw");
    assert_string_equal(value_of(&environment, "mount /"), "none");
    assert_int_equal(environment.count, 7);
    assert_string_equal(environment.pair[2].value, "eth0");
    assert_string_equal(environment.pair[4].value, "ib0 mlx5_0");
    assert_string_equal(environment.pair[6].value, "eth9");
    environment_fini(&environment);
    stage_end(&stage);
}

/* ---- jobs ---- */

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

static void link_to(const struct stage *stage, const char *target, const char *path)
{
    char full[256];

    put(stage, path, ""); /* and its folders */
    snprintf(full, sizeof(full), "%s%s", stage->root, path);
    assert_int_equal(unlink(full), 0);
    assert_int_equal(symlink(target, full), 0);
}

/* ---- lists that are too long ---- */

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

/* One read of a list in /proc gives a page, so a long one takes several. */
static void a_list_of_the_kernel_is_read_to_its_end(void **state)
{
    const struct tree tree = { "" };
    char text[65536];
    const long page = sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, (size_t)page * 256, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(memory != MAP_FAILED);
    for (int i = 0; i < 256; i += 2) /* a line for each */
        assert_int_equal(mprotect(memory + i * page, (size_t)page, PROT_NONE), 0);
    assert_in_range(tree_read(&tree, text, sizeof(text), "/proc/self/maps"), 8192, sizeof(text));
    munmap(memory, (size_t)page * 256);
}

/* ---- metadata of file servers ---- */

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

/* ---- images ---- */

static void the_image_of_a_rank_is_known_by_its_content(void **state)
{
    struct environment environment = { .pair = calloc(ENVIRONMENT_PAIRS,
                                                      sizeof(struct environment_pair)) };
    static const char variables[] = "HOME=/root\0SINGULARITY_CONTAINER=/images/train.sif";
    const struct environment_texts texts = { variables, sizeof(variables),
                                             "20 1 0:44 / / rw - overlay overlay rw\n" };
    char path[128], before[128];
    struct stage stage;
    int fd;

    (void)state;
    stage_begin(&stage);
    put(&stage, "/proc/4711/root/usr/lib/os-release", "NAME=x\nPRETTY_NAME=\"Ubuntu 22.04\"\n");
    link_to(&stage, "/usr/lib/os-release", "/proc/4711/root/etc/os-release"); /* below its root */
    put(&stage, "/proc/4711/root/var/lib/dpkg/status", "Package: a\nVersion: 1\n");
    snprintf(path, sizeof(path), "%s/proc/4711", stage.root);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    environment_add_image(&environment, fd, &texts);
    if (!pair_of(&environment, "image.os"))
        skip(); /* a kernel without openat2() */
    assert_string_equal(value_of(&environment, "image"), "/images/train.sif");
    assert_string_equal(value_of(&environment, "image.root"), "overlay");
    assert_string_equal(value_of(&environment, "image.os"), "Ubuntu 22.04");
    assert_true(pair_of(&environment, "image.packages")->digest);
    snprintf(before, sizeof(before), "%s", value_of(&environment, "image.packages"));
    environment.count = 0;
    put(&stage, "/proc/4711/root/var/lib/dpkg/status", "Package: a\nVersion: 2\n");
    environment_add_image(&environment, fd, &texts);
    assert_string_not_equal(value_of(&environment, "image.packages"), before);
    close(fd);
    environment_fini(&environment);
    stage_end(&stage);
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
    } while (found(&stage, FINDING_STORAGE, "nvme0n1")->severity != FINDING_INFO && done < 200000);
    assert_int_equal(found(&stage, FINDING_STORAGE, "nvme0n1")->severity, FINDING_INFO);
    assert_non_null(strstr(found(&stage, FINDING_STORAGE, "nvme0n1")->text, "no file of a job"));
    assert_int_equal(found(&stage, FINDING_STORAGE, "nvme1n1")->severity, FINDING_WARN);
    assert_int_equal(found(&stage, FINDING_STORAGE, "sda")->severity, FINDING_WARN);
    stage_end(&stage);
}

static unsigned bond_severity(const struct stage *tree, const char *device, const char *line)
{
    struct sense_place place = { .root = tree->root, .node = "n7" };
    struct stage stage = { .now_ns = 0 };
    char fifo[128], text[256];
    int fd;

    snprintf(fifo, sizeof(fifo), "%s/fifo", tree->root);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    place.kmsg = fifo;
    assert_int_equal(sense_create(&place, "kmsg", &stage.sense), 0);
    fd = open(fifo, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(step(&stage), 0);
    snprintf(text, sizeof(text), "3,7,2000000,-;%s\n", line);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    step(&stage);
    close(fd);
    assert_int_equal(unlink(fifo), 0);
    sense_destroy(stage.sense);
    return found(&stage, FINDING_NIC, device) ? found(&stage, FINDING_NIC, device)->severity : 0;
}

/* In a network of his own every user can bond devices and call them eth0. */
static void a_bond_is_believed_where_an_adapter_of_the_node_has_no_link(void **state)
{
    static const char line[] = "bond0: (slave eth7): link status definitely down, disabling slave";
    struct stage tree;

    (void)state;
    stage_begin(&tree);
    assert_int_equal(bond_severity(&tree, "eth7", line), FINDING_WARN); /* no such adapter */
    put(&tree, "/sys/class/net/eth7/carrier", "0\n");
    assert_int_equal(bond_severity(&tree, "eth7", line), FINDING_WARN); /* no adapter */
    put(&tree, "/sys/class/net/eth7/device/vendor", "0x15b3\n");
    assert_int_equal(bond_severity(&tree, "eth7", line), FINDING_ERROR);
    put(&tree, "/sys/class/net/eth7/carrier", "1\n");
    assert_int_equal(bond_severity(&tree, "eth7", line), FINDING_WARN); /* it has a link */
    stage_end(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bond_is_believed_where_an_adapter_of_the_node_has_no_link),
        cmocka_unit_test(devices_that_go_are_found_and_may_return),
        cmocka_unit_test(devices_that_come_are_watched),
        cmocka_unit_test(the_name_of_the_gpu_is_its_drivers),
        cmocka_unit_test(the_adapter_of_file_servers_is_known),
        cmocka_unit_test(limits_of_a_jobs_cgroup_are_findings),
        cmocka_unit_test(each_user_has_groups_of_its_own),
        cmocka_unit_test(a_slow_disk_without_files_of_jobs_is_no_fault),
        cmocka_unit_test(what_is_cut_off_is_not_complete),
        cmocka_unit_test(a_list_of_the_kernel_is_read_to_its_end),
        cmocka_unit_test(a_storm_at_a_file_server_is_found_if_it_lasts),
        cmocka_unit_test(lustre_counts_its_operations),
        cmocka_unit_test(the_image_of_a_rank_is_known_by_its_content),
        cmocka_unit_test(the_reads_of_an_environment_are_bounded),
        cmocka_unit_test(a_healthy_node_is_silent),
        cmocka_unit_test(what_changes_is_found_once_while_it_lasts),
        cmocka_unit_test(a_port_that_carries_no_data_is_not_in_use),
        cmocka_unit_test(counters_count_what_is_new_also_after_a_reset),
        cmocka_unit_test(a_slow_disk_and_a_stuck_one_are_found),
        cmocka_unit_test(errors_that_rise_and_links_that_flap_are_foretold),
        cmocka_unit_test(a_device_that_vanishes_is_no_end_of_the_sensor),
        cmocka_unit_test(every_sensor_says_how_it_is),
        cmocka_unit_test(records_are_read_from_a_file),
        cmocka_unit_test(secrets_never_leave),
        cmocka_unit_test(the_value_of_a_variable_is_no_variable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
