/* node_tree.c - writes the tree.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/bench/node_tree.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clean.h"

#define CPUS 192
#define DISKS 8
#define GPU_BUS 0x10
#define ADAPTER_BUS 0x40
#define DISK_BUS 0x60

#define PCI_ERRORS "RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\n"
#define PRESSURE                                                                                   \
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=812\n"                                           \
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=401\n"

/* '@' in a path is a number, '#' one in hexadecimal: from `first` on, `count` of them. */
static const struct tree_row {
    const char *path, *text;
    unsigned first, count;
} rows[] = {
    { "sys/bus/pci/devices/0000:#:00.0/class", "0x030200", GPU_BUS, NODE_TREE_GPUS },
    { "sys/bus/pci/devices/0000:#:00.0/vendor", "0x10de", GPU_BUS, NODE_TREE_GPUS },
    { "sys/bus/pci/devices/0000:#:00.0/class", "0x020700", ADAPTER_BUS, NODE_TREE_ADAPTERS },
    { "sys/bus/pci/devices/0000:#:00.0/vendor", "0x15b3", ADAPTER_BUS, NODE_TREE_ADAPTERS },
    { "sys/bus/pci/devices/0000:#:00.0/class", "0x010802", DISK_BUS, DISKS },
    { "sys/bus/pci/devices/0000:#:00.0/vendor", "0x144d", DISK_BUS, DISKS },
    { "sys/class/infiniband/mlx5_@/ports/1/state", "4: ACTIVE", 0, NODE_TREE_ADAPTERS },
    { "sys/class/infiniband/mlx5_@/ports/1/phys_state", "5: LinkUp", 0, NODE_TREE_ADAPTERS },
    { "sys/class/infiniband/mlx5_@/ports/1/rate", "400 Gb/sec (4X NDR)", 0, NODE_TREE_ADAPTERS },
    { "sys/class/infiniband/mlx5_@/ports/1/link_layer", "InfiniBand", 0, NODE_TREE_ADAPTERS },
    { "sys/class/net/ib@/device/vendor", "0x15b3", 0, NODE_TREE_ADAPTERS },
    { "sys/class/net/ib@/carrier", "1", 0, NODE_TREE_ADAPTERS },
    { "sys/class/net/ib@/carrier_down_count", "1", 0, NODE_TREE_ADAPTERS },
    { "sys/class/net/ib@/speed", "400000", 0, NODE_TREE_ADAPTERS },
    { "sys/class/net/ib@/statistics/rx_crc_errors", "0", 0, NODE_TREE_ADAPTERS },
    { "sys/class/net/ib@/statistics/rx_errors", "0", 0, NODE_TREE_ADAPTERS },
    { "sys/class/net/ib@/statistics/tx_errors", "0", 0, NODE_TREE_ADAPTERS },
    { "sys/class/nvme/nvme@/state", "live", 0, DISKS },
    { "sys/block/nvme@n1/queue/rotational", "0", 0, DISKS },
    { "sys/devices/system/edac/mc/mc@/ce_count", "0", 0, 16 },
    { "sys/devices/system/edac/mc/mc@/ue_count", "0", 0, 16 },
    { "sys/devices/system/cpu/cpu@/thermal_throttle/package_throttle_count", "0", 0, CPUS },
    { "proc/pressure/cpu", PRESSURE, 0, 1 },
    { "proc/pressure/memory", PRESSURE, 0, 1 },
    { "proc/pressure/io", PRESSURE, 0, 1 },
    { "proc/stat", "cpu 100 0 100 100000 0 0 0 0 0 0\n", 0, 1 },
    { "dev/nvidia@", "", 0, NODE_TREE_GPUS },
    { "dev/kmsg", "6,1,1000,-;Linux version 6.8.0-45-generic\n", 0, 1 },
};

/* Below each device of the PCI bus and each port. */
static const struct tree_row pci_rows[] = {
    { "current_link_speed", "32.0 GT/s PCIe", 0, 0 },
    { "max_link_speed", "32.0 GT/s PCIe", 0, 0 },
    { "current_link_width", "16", 0, 0 },
    { "max_link_width", "16", 0, 0 },
    { "aer_dev_correctable", PCI_ERRORS "TOTAL_ERR_COR 0\n", 0, 0 },
    { "aer_dev_nonfatal", "Undefined 0\nTOTAL_ERR_NONFATAL 0\n", 0, 0 },
    { "aer_dev_fatal", "Undefined 0\nTOTAL_ERR_FATAL 0\n", 0, 0 },
}, port_rows[] = {
    { "counters/link_downed", "0", 0, 0 },
    { "counters/link_error_recovery", "0", 0, 0 },
    { "counters/symbol_error", "0", 0, 0 },
    { "counters/port_rcv_errors", "0", 0, 0 },
    { "counters/port_xmit_discards", "0", 0, 0 },
    { "counters/local_link_integrity_errors", "0", 0, 0 },
    { "counters/excessive_buffer_overrun_errors", "0", 0, 0 },
    { "counters/port_rcv_data", "8123456789", 0, 0 },
    { "counters/port_xmit_data", "8123456789", 0, 0 },
    { "hw_counters/local_ack_timeout_err", "0", 0, 0 },
    { "hw_counters/packet_seq_err", "0", 0, 0 },
    { "hw_counters/rnr_nak_retry_err", "0", 0, 0 },
    { "hw_counters/req_cqe_error", "0", 0, 0 },
};

static int tree_file(const char *directory, const char *path, const char *text, struct err *err)
{
    CLEAN(file_clean) FILE *file = NULL;
    char full[PATH_MAX];

    snprintf(full, sizeof(full), "%s/%s", directory, path);
    for (char *slash = full + strlen(directory) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        if (mkdir(full, 0755) < 0 && errno != EEXIST)
            return err_set(err, -errno, "%s: %m", full);
        *slash = '/';
    }
    file = fopen(full, "we");
    if (!file || fputs(text, file) < 0 || fflush(file) != 0)
        return err_set(err, -errno, "%s: %m", full);
    return 0;
}

static void tree_expand(const char *path, unsigned number, char *out, size_t room)
{
    size_t at = strcspn(path, "@#");

    if (!path[at])
        snprintf(out, room, "%s", path);
    else if (path[at] == '@')
        snprintf(out, room, "%.*s%u%s", (int)at, path, number, path + at + 1);
    else
        snprintf(out, room, "%.*s%02x%s", (int)at, path, number, path + at + 1);
}

static int tree_below(const char *directory, const char *folder, unsigned number,
                      const struct tree_row *row, size_t count, struct err *err)
{
    char path[160], at[80];
    int result = 0;

    for (size_t i = 0; result == 0 && i < count; i++) {
        tree_expand(folder, number, at, sizeof(at));
        snprintf(path, sizeof(path), "%s/%s", at, row[i].path);
        result = tree_file(directory, path, row[i].text, err);
    }
    return result;
}

static int tree_pci(const char *directory, unsigned first, unsigned count, struct err *err)
{
    int result = 0;

    for (unsigned i = 0; result == 0 && i < count; i++)
        result = tree_below(directory, "sys/bus/pci/devices/0000:#:00.0", first + i, pci_rows,
                            COUNT(pci_rows), err);
    return result;
}

static int tree_disks(const char *directory, struct err *err)
{
    char text[4096] = "";

    for (unsigned i = 0; i < DISKS; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 " 259 %u nvme%un1 5000 0 40000 900 4000 0 32000 800 0 1700 1700 0 0 0 0 0 0\n", i,
                 i);
    return tree_file(directory, "proc/diskstats", text, err);
}

/* One disk of its own, and one file server. */
static int tree_mounts(const char *directory, struct err *err)
{
    static const char text[] = "device /dev/nvme0n1 mounted on / with fstype ext4\n"
                               "device filer:/home mounted on /home with fstype nfs4 statvers=1.1\n"
                               "\topts:\trw,vers=4.2,hard\n"
                               "\tper-op statistics\n"
                               "\t        READ: 10 10 0 1800 40960 1 20 22 0\n"
                               "\t     GETATTR: 50 50 0 9000 12000 1 40 41 0\n"
                               "\t        OPEN: 10 10 0 2500 3000 1 15 16 0\n";

    return tree_file(directory, "proc/1/mountstats", text, err);
}

static int tree_driver(const char *directory, const char *nvml, struct err *err)
{
    char at[PATH_MAX];
    int result = tree_file(directory, "usr/lib/.keep", "", err);

    if (result < 0)
        return result;
    snprintf(at, sizeof(at), "%s/usr/lib/libnvidia-ml.so.1", directory);
    return symlink(nvml, at) < 0 ? err_set(err, -errno, "%s: %m", at) : 0;
}

int node_tree_make(const char *directory, const char *nvml, struct err *err)
{
    int result = 0;

    for (size_t i = 0; result == 0 && i < COUNT(rows); i++) {
        for (unsigned j = 0; result == 0 && j < rows[i].count; j++) {
            char path[160];

            tree_expand(rows[i].path, rows[i].first + j, path, sizeof(path));
            result = tree_file(directory, path, rows[i].text, err);
        }
    }
    for (unsigned i = 0; result == 0 && i < NODE_TREE_ADAPTERS; i++)
        result = tree_below(directory, "sys/class/infiniband/mlx5_@/ports/1", i, port_rows,
                            COUNT(port_rows), err);
    if (result == 0)
        result = tree_pci(directory, GPU_BUS, NODE_TREE_GPUS, err);
    if (result == 0)
        result = tree_pci(directory, ADAPTER_BUS, NODE_TREE_ADAPTERS, err);
    if (result == 0)
        result = tree_pci(directory, DISK_BUS, DISKS, err);
    if (result == 0)
        result = tree_disks(directory, err);
    if (result == 0)
        result = tree_mounts(directory, err);
    return result == 0 && nvml ? tree_driver(directory, nvml, err) : result;
}
