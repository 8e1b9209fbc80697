/* gpu_peers.c - the GPU of a box that is not like the others.
 *
 * The GPUs of one machine are of one kind, so most faults of one show without any expectation from outside: a narrower link, a
 * lower power limit, less memory.  Values that vary by themselves (temperature, clocks at the moment) are not compared.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/nvml.h"
#include "verify/checks.h"
#include "verify/expected.h"
#include "verify/gpu/gpu_devices.h"

#define PEERS_MAX 32
#define PEERS_MIN 3 /* of two, nobody knows which is the odd one */

static const struct peer_value {
    enum nvml_value value;
    const char *unit;
} peer_values[] = {
    { NVML_MEMORY_TOTAL_BYTES, "bytes" }, { NVML_SM_CLOCK_MAX_MHZ, "MHz" },
    { NVML_POWER_LIMIT_MW, "mW" },        { NVML_PCIE_GENERATION_MAX, "" },
    { NVML_PCIE_WIDTH_MAX, "lanes" },     { NVML_PCIE_WIDTH, "lanes" },
};

struct peer_gpu {
    int result;
    struct nvml_identity identity;
    struct nvml_sample sample;
};

/* The value of most GPUs; false: fewer than two thirds share one. */
static bool peers_common(const struct peer_gpu *gpu, unsigned count, enum nvml_value value,
                         int64_t *ret, unsigned *having)
{
    unsigned known = 0;

    *having = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned same = 0;

        if (gpu[i].result < 0 || !nvml_has(&gpu[i].sample, value))
            continue;
        known++;
        for (unsigned j = 0; j < count; j++)
            same += gpu[j].result == 0 && nvml_has(&gpu[j].sample, value) &&
                    gpu[j].sample.value[value] == gpu[i].sample.value[value];
        if (same > *having) {
            *having = same;
            *ret = gpu[i].sample.value[value];
        }
    }
    return known >= PEERS_MIN && 3 * *having >= 2 * known;
}

static unsigned peers_compare(const struct peer_gpu *gpu, unsigned count,
                              struct verify_report *report)
{
    unsigned odd = 0, having;
    char device[FACT_NAME];
    int64_t common = 0;

    for (size_t v = 0; v < COUNT(peer_values); v++) {
        enum nvml_value value = peer_values[v].value;

        if (!peers_common(gpu, count, value, &common, &having))
            continue;
        for (unsigned i = 0; i < count; i++) {
            if (gpu[i].result < 0 || !nvml_has(&gpu[i].sample, value) ||
                gpu[i].sample.value[value] == common)
                continue;
            odd++;
            snprintf(device, sizeof(device), "gpu %u", i);
            verify_result(report, CHECK_LIMITED, device,
                          "%s: %s %" PRId64 " %s, %u others have %" PRId64, gpu[i].identity.pci,
                          nvml_value_name(value), gpu[i].sample.value[value], peer_values[v].unit,
                          having, common);
        }
    }
    return odd;
}

static void peers_read(const struct nvml *nvml, struct peer_gpu *gpu, unsigned count,
                       struct verify_report *report, unsigned *bad)
{
    char device[FACT_NAME];

    for (unsigned i = 0; i < count; i++) {
        struct err err = { "" };

        gpu[i].result = nvml_identify(nvml, i, &gpu[i].identity, &err);
        if (gpu[i].result == 0)
            gpu[i].result = nvml_read(nvml, i, &gpu[i].sample, &err);
        if (gpu[i].result == 0)
            continue;
        ++*bad;
        snprintf(device, sizeof(device), "gpu %u", i);
        verify_result(report,
                      gpu[i].result == -ENODEV || gpu[i].result == -ENOTRECOVERABLE ? CHECK_FAILED
                                                                                    : CHECK_UNKNOWN,
                      device, "%.180s", err.text);
    }
}

/* A GPU whose driver did not start is on the bus, but has no number that could be asked. */
static unsigned gpu_peers_missing(const struct verify_place *place, struct verify_report *report,
                                  unsigned count)
{
    unsigned on_bus = expected_gpus(place->root);

    if (on_bus <= count)
        return 0;
    verify_result(report, CHECK_LIMITED, "", "the driver shows %u of %u GPUs on the PCI bus", count,
                  on_bus);
    return 1;
}

static void gpu_peers_run(const struct verify_place *place, struct verify_report *report)
{
    static struct peer_gpu gpu[PEERS_MAX];
    struct nvml *nvml = NULL;
    struct err err = { "" };
    unsigned count = 0, bad = 0;
    char library[PATH_MAX];
    int result =
        nvml_open(gpu_library_path(place, place->nvml, NVML_LIBRARY, library), &nvml, &err);

    if (result == 0)
        result = nvml_count(nvml, &count, &err);
    if (result < 0 || !count) {
        gpu_report_none(place, report, result < 0 ? err.text : "the driver has no GPU");
        nvml_close(nvml);
        return;
    }
    count = MIN(count, (unsigned)PEERS_MAX);
    bad = gpu_peers_missing(place, report, count);
    peers_read(nvml, gpu, count, report, &bad);
    bad += peers_compare(gpu, count, report);
    nvml_close(nvml);
    if (!bad) {
        struct check *ok =
            verify_result(report, CHECK_OK, "",
                          count < PEERS_MIN ? "%u GPUs answer; too few to compare with each other"
                                            : "%u GPUs answer and are alike",
                          count);

        ok->has_value = true;
        ok->value = count;
        snprintf(ok->unit, sizeof(ok->unit), "GPUs");
    }
}

const struct verify_check check_gpu_peers = {
    .name = "gpu-peers",
    .summary = "every GPU answers and is like the others: memory, clocks, power limit, PCIe link",
    .why = "the GPUs of one machine are of one kind, so a difference is a fault or a setting that "
           "was left behind",
    .advice = "compare nvidia-smi -q of the named GPU with another; reset it, or have it reseated "
              "or replaced",
    .needs = "GPU driver",
    .stage = VERIFY_QUICK,
    .limit_ns = { 4 * NS_PER_S, 8 * NS_PER_S, 8 * NS_PER_S, 8 * NS_PER_S },
    .run = gpu_peers_run,
};
