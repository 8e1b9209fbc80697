/* test-sense.c - sensors over a tree that the test makes, and changes between reads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/remove_tree.h"
#include "sense/test/stage.h"
#include "sense/tree.h"

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
    static const char old[] = "bond0: link status definitely down for interface eth7, disabling it";
    static const char all[] = "bond0: now running without any active interface!";
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
    assert_int_equal(bond_severity(&tree, "eth7", old), FINDING_WARN);
    assert_int_equal(bond_severity(&tree, "", all), FINDING_WARN); /* no such bond */
    put(&tree, "/sys/class/net/bond0/bonding/mode", "active-backup 1\n");
    put(&tree, "/sys/class/net/bond0/carrier", "1\n");
    assert_int_equal(bond_severity(&tree, "", all), FINDING_WARN);
    put(&tree, "/sys/class/net/bond0/carrier", "0\n");
    assert_int_equal(bond_severity(&tree, "", all), FINDING_ERROR);
    stage_end(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bond_is_believed_where_an_adapter_of_the_node_has_no_link),
        cmocka_unit_test(devices_that_go_are_found_and_may_return),
        cmocka_unit_test(devices_that_come_are_watched),
        cmocka_unit_test(a_list_of_the_kernel_is_read_to_its_end),
        cmocka_unit_test(a_healthy_node_is_silent),
        cmocka_unit_test(what_changes_is_found_once_while_it_lasts),
        cmocka_unit_test(a_port_that_carries_no_data_is_not_in_use),
        cmocka_unit_test(counters_count_what_is_new_also_after_a_reset),
        cmocka_unit_test(a_slow_disk_and_a_stuck_one_are_found),
        cmocka_unit_test(errors_that_rise_and_links_that_flap_are_foretold),
        cmocka_unit_test(a_device_that_vanishes_is_no_end_of_the_sensor),
        cmocka_unit_test(every_sensor_says_how_it_is),
        cmocka_unit_test(records_are_read_from_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
