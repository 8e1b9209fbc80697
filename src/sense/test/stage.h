/* stage.h - a tree of /sys and /proc that a test makes, and sensors over it.
 *
 * The tree is synthetic: the files and their forms are those of the kernel, the numbers are made up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_TEST_STAGE_H
#define LOCKSTEP_SENSE_TEST_STAGE_H

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

#include "core/clean.h"
#include "core/time.h"
#include "sense/sense.h"

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

static inline void put(const struct stage *stage, const char *path, const char *text)
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

static inline void sink(void *user, const struct finding *finding, uint32_t line)
{
    struct stage *stage = user;

    (void)line;
    if (stage->count < FOUND_MAX)
        stage->found[stage->count++] = *finding;
}

static inline size_t step(struct stage *stage)
{
    struct sense_now now;

    stage->count = 0;
    stage->now_ns += 100 * NS_PER_S;
    now = (struct sense_now){ stage->now_ns, stage->now_ns + 1000 * NS_PER_S };
    sense_step(stage->sense, &now, sink, stage);
    return stage->count;
}

static inline const struct finding *found(const struct stage *stage, unsigned kind,
                                          const char *device)
{
    for (size_t i = 0; i < stage->count; i++) {
        if (stage->found[i].kind == kind && strcmp(stage->found[i].device, device) == 0)
            return &stage->found[i];
    }
    return NULL;
}

static inline void make_tree(struct stage *stage)
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

static inline void stage_begin(struct stage *stage)
{
    struct sense_place place = { .root = stage->root, .node = "n7", .from_start = true };

    *stage = (struct stage){ .root = "/tmp/test-sense-XXXXXX" };
    assert_non_null(mkdtemp(stage->root));
    make_tree(stage);
    assert_int_equal(sense_create(&place, NULL, &stage->sense), 0);
}

static inline void stage_end(struct stage *stage)
{
    char command[128];

    sense_destroy(stage->sense);
    snprintf(command, sizeof(command), "rm -rf %s", stage->root);
    assert_int_equal(system(command), 0);
}

static inline void link_to(const struct stage *stage, const char *target, const char *path)
{
    char full[256];

    put(stage, path, ""); /* and its folders */
    snprintf(full, sizeof(full), "%s%s", stage->root, path);
    assert_int_equal(unlink(full), 0);
    assert_int_equal(symlink(target, full), 0);
}

#endif
