/* nvml.c - reads GPUs through NVML, value by value.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/nvml.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "device/cuda/symbols.h"
#include "device/library.h"
#include "device/nvml_private.h"

static const struct symbol symbols[] = {
    SYMBOL(struct nvml, init, "nvmlInit_v2"),
    SYMBOL(struct nvml, shutdown, "nvmlShutdown"),
    SYMBOL(struct nvml, error, "nvmlErrorString"),
    SYMBOL(struct nvml, driver, "nvmlSystemGetDriverVersion"),
    SYMBOL(struct nvml, count, "nvmlDeviceGetCount_v2"),
    SYMBOL(struct nvml, gpu, "nvmlDeviceGetHandleByIndex_v2"),
    SYMBOL(struct nvml, name, "nvmlDeviceGetName"),
    SYMBOL(struct nvml, uuid, "nvmlDeviceGetUUID"),
    SYMBOL(struct nvml, serial, "nvmlDeviceGetSerial"),
    SYMBOL(struct nvml, pci, "nvmlDeviceGetPciInfo_v3"),
    SYMBOL(struct nvml, temperature, "nvmlDeviceGetTemperature"),
    SYMBOL(struct nvml, power, "nvmlDeviceGetPowerUsage"),
    SYMBOL(struct nvml, power_limit, "nvmlDeviceGetEnforcedPowerLimit"),
    SYMBOL(struct nvml, energy, "nvmlDeviceGetTotalEnergyConsumption"),
    SYMBOL(struct nvml, clock, "nvmlDeviceGetClockInfo"),
    SYMBOL(struct nvml, clock_max, "nvmlDeviceGetMaxClockInfo"),
    SYMBOL_OPTIONAL(struct nvml, reasons, "nvmlDeviceGetCurrentClocksEventReasons"),
    SYMBOL_OPTIONAL(struct nvml, reasons_old, "nvmlDeviceGetCurrentClocksThrottleReasons"),
    SYMBOL(struct nvml, busy, "nvmlDeviceGetUtilizationRates"),
    SYMBOL(struct nvml, memory, "nvmlDeviceGetMemoryInfo"),
    SYMBOL(struct nvml, ecc, "nvmlDeviceGetTotalEccErrors"),
    SYMBOL_OPTIONAL(struct nvml, remapped, "nvmlDeviceGetRemappedRows"),
    SYMBOL(struct nvml, pcie_generation, "nvmlDeviceGetCurrPcieLinkGeneration"),
    SYMBOL(struct nvml, pcie_generation_max, "nvmlDeviceGetMaxPcieLinkGeneration"),
    SYMBOL(struct nvml, pcie_width, "nvmlDeviceGetCurrPcieLinkWidth"),
    SYMBOL(struct nvml, pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth"),
    SYMBOL(struct nvml, pcie_replays, "nvmlDeviceGetPcieReplayCounter"),
    SYMBOL(struct nvml, fields, "nvmlDeviceGetFieldValues"),
    SYMBOL_OPTIONAL(struct nvml, margin, "nvmlDeviceGetMarginTemperature"),
    SYMBOL_OPTIONAL(struct nvml, banks, "nvmlDeviceGetRowRemapperHistogram"),
    SYMBOL_OPTIONAL(struct nvml, processes, "nvmlDeviceGetComputeRunningProcesses_v3"),
    SYMBOL_OPTIONAL(struct nvml, events_create, "nvmlEventSetCreate"),
    SYMBOL_OPTIONAL(struct nvml, events_free, "nvmlEventSetFree"),
    SYMBOL_OPTIONAL(struct nvml, events_register, "nvmlDeviceRegisterEvents"),
    SYMBOL_OPTIONAL(struct nvml, events_wait, "nvmlEventSetWait_v2"),
    SYMBOL_OPTIONAL(struct nvml, fabric, "nvmlDeviceGetGpuFabricInfoV"),
    SYMBOL_OPTIONAL(struct nvml, gpm_support, "nvmlGpmQueryDeviceSupport"),
    SYMBOL_OPTIONAL(struct nvml, gpm_alloc, "nvmlGpmSampleAlloc"),
    SYMBOL_OPTIONAL(struct nvml, gpm_free, "nvmlGpmSampleFree"),
    SYMBOL_OPTIONAL(struct nvml, gpm_sample, "nvmlGpmSampleGet"),
    SYMBOL_OPTIONAL(struct nvml, gpm_metrics, "nvmlGpmMetricsGet"),
    { NULL, 0, false },
};

static const struct {
    const char *name, *unit;
} values[NVML_VALUES] = {
    [NVML_TEMPERATURE_C] = { "temperature", "C" },
    [NVML_MEMORY_TEMPERATURE_C] = { "memory temperature", "C" },
    [NVML_POWER_MW] = { "power", "mW" },
    [NVML_POWER_LIMIT_MW] = { "power limit", "mW" },
    [NVML_ENERGY_MJ] = { "energy", "mJ" },
    [NVML_SM_CLOCK_MHZ] = { "SM clock", "MHz" },
    [NVML_SM_CLOCK_MAX_MHZ] = { "SM clock maximum", "MHz" },
    [NVML_MEMORY_CLOCK_MHZ] = { "memory clock", "MHz" },
    [NVML_CLOCK_REASONS] = { "clock reasons", "" },
    [NVML_GPU_BUSY_PERCENT] = { "GPU utilization", "%" },
    [NVML_MEMORY_BUSY_PERCENT] = { "memory utilization", "%" },
    [NVML_MEMORY_USED_BYTES] = { "memory used", "bytes" },
    [NVML_MEMORY_TOTAL_BYTES] = { "memory total", "bytes" },
    [NVML_ECC_CORRECTED] = { "ECC corrected errors", "" },
    [NVML_ECC_UNCORRECTED] = { "ECC uncorrected errors", "" },
    [NVML_REMAPPED_CORRECTABLE] = { "rows remapped for correctable errors", "" },
    [NVML_REMAPPED_UNCORRECTABLE] = { "rows remapped for uncorrectable errors", "" },
    [NVML_REMAP_PENDING] = { "row remap pending", "" },
    [NVML_REMAP_FAILED] = { "row remap failed", "" },
    [NVML_PCIE_GENERATION] = { "PCIe generation", "" },
    [NVML_PCIE_GENERATION_MAX] = { "PCIe generation maximum", "" },
    [NVML_PCIE_WIDTH] = { "PCIe width", "" },
    [NVML_PCIE_WIDTH_MAX] = { "PCIe width maximum", "" },
    [NVML_PCIE_REPLAYS] = { "PCIe replays", "" },
    [NVML_RECOVERY_ACTION] = { "recovery action", "" },
    [NVML_TEMPERATURE_MARGIN_C] = { "temperature margin", "C" },
    [NVML_BANKS_WITHOUT_SPARES] = { "memory banks without spare rows", "" },
    [NVML_SLOWED_BY_POWER_NS] = { "time slowed by the power limit", "ns" },
    [NVML_SLOWED_BY_HEAT_NS] = { "time slowed by heat", "ns" },
    [NVML_SLOWED_BY_BOARD_NS] = { "time slowed by the board's limit", "ns" },
    [NVML_FABRIC_STATE] = { "NVLink fabric state", "" },
    [NVML_FABRIC_ERROR] = { "NVLink fabric error", "" },
    [NVML_FABRIC_HEALTH] = { "NVLink fabric health", "" },
    [NVML_SM_ACTIVE_PERCENT] = { "SMs active", "%" },
    [NVML_SM_OCCUPANCY_PERCENT] = { "SM occupancy", "%" },
    [NVML_TENSOR_ACTIVE_PERCENT] = { "tensor cores active", "%" },
    [NVML_MEMORY_BANDWIDTH_PERCENT] = { "memory bandwidth used", "%" },
    [NVML_PCIE_SENT_MIBPS] = { "sent by PCIe", "MiB/s" },
    [NVML_PCIE_RECEIVED_MIBPS] = { "received by PCIe", "MiB/s" },
    [NVML_NVLINK_SENT_MIBPS] = { "sent by NVLink", "MiB/s" },
    [NVML_NVLINK_RECEIVED_MIBPS] = { "received by NVLink", "MiB/s" },
};

static int nvml_errno(int result)
{
    switch (result) {
    case RESULT_NO_PERMISSION:
        return -EPERM;
    case RESULT_TIMEOUT:
        return -ETIMEDOUT;
    case RESULT_GPU_IS_LOST:
        return -ENODEV;
    case RESULT_RESET_REQUIRED:
        return -ENOTRECOVERABLE;
    default:
        return -EIO;
    }
}

static int nvml_check(const struct nvml *nvml, int result, const char *what, struct err *err)
{
    const char *text;

    if (result == RESULT_SUCCESS)
        return 0;
    text = nvml->error(result);
    return err_set(err, nvml_errno(result), "%s%s%s (NVML %d)", what ? what : "", what ? ": " : "",
                   text ? text : "no text", result);
}

int nvml_open(const char *library, struct nvml **ret, struct err *err)
{
    struct nvml *nvml = calloc(1, sizeof(*nvml));
    int result;

    if (!nvml)
        return err_nomem(err);
    result = library_open(library ? library : NVML_LIBRARY, &nvml->library, err);
    if (result == 0)
        result = symbols_fill(nvml, symbols, library_find, nvml->library, err);
    if (result == 0)
        result = nvml_check(nvml, nvml->init(), "NVML does not start", err);
    if (result < 0) {
        library_close(nvml->library);
        free(nvml);
        return result;
    }
    *ret = nvml;
    return 0;
}

void nvml_close(struct nvml *nvml)
{
    if (!nvml)
        return;
    if (nvml->events)
        nvml->events_free(nvml->events);
    nvml_activity_close(nvml);
    nvml->shutdown();
    library_close(nvml->library);
    free(nvml);
}

int nvml_driver_version(const struct nvml *nvml, char *ret, unsigned room, struct err *err)
{
    return nvml_check(nvml, nvml->driver(ret, room), "driver version", err);
}

int nvml_count(const struct nvml *nvml, unsigned *ret, struct err *err)
{
    unsigned count = 0;
    int result = nvml_check(nvml, nvml->count(&count), "number of GPUs", err);

    if (result == 0)
        *ret = count;
    return result;
}

/* Results that say something about the GPU, whatever was asked. */
static bool nvml_is_finding(int result)
{
    return result == RESULT_GPU_IS_LOST || result == RESULT_RESET_REQUIRED ||
           result == RESULT_TIMEOUT;
}

int nvml_identify(const struct nvml *nvml, unsigned gpu, struct nvml_identity *ret, struct err *err)
{
    struct nvml_identity identity = { 0 };
    struct nvml_pci pci = { 0 };
    void *handle = NULL;
    int result = nvml->gpu(gpu, &handle);

    if (result == RESULT_SUCCESS)
        result = nvml->name(handle, identity.name, sizeof(identity.name));
    if (result == RESULT_SUCCESS)
        result = nvml->uuid(handle, identity.uuid, sizeof(identity.uuid));
    if (result != RESULT_SUCCESS)
        return nvml_check(nvml, result, NULL, err);
    if (nvml->serial(handle, identity.serial, sizeof(identity.serial)) != RESULT_SUCCESS)
        identity.serial[0] = '\0';
    if (nvml->pci(handle, &pci) == RESULT_SUCCESS)
        memcpy(identity.pci, pci.id, sizeof(identity.pci) - 1);
    *ret = identity;
    return 0;
}

/* ---- one sample ---- */

struct nvml_look {
    const struct nvml *nvml;
    void *gpu;
    struct nvml_sample *sample;
    int finding; /* the first result that says something about the GPU; then nothing more is asked */
};

static void look_put(struct nvml_look *look, enum nvml_value value, int64_t number)
{
    look->sample->known |= UINT64_C(1) << value;
    look->sample->value[value] = number;
}

static bool look_is_good(struct nvml_look *look, int result)
{
    if (nvml_is_finding(result))
        look->finding = result;
    return result == RESULT_SUCCESS;
}

static void look_u32(struct nvml_look *look, enum nvml_value value, int (*read)(void *, unsigned *))
{
    unsigned number = 0;

    if (!look->finding && look_is_good(look, read(look->gpu, &number)))
        look_put(look, value, number);
}

static void look_clock(struct nvml_look *look, enum nvml_value value,
                       int (*read)(void *, int, unsigned *), int which)
{
    unsigned number = 0;

    if (!look->finding && look_is_good(look, read(look->gpu, which, &number)))
        look_put(look, value, number);
}

static void look_u64(struct nvml_look *look, enum nvml_value value,
                     int (*read)(void *, unsigned long long *))
{
    unsigned long long number = 0;

    if (read && !look->finding && look_is_good(look, read(look->gpu, &number)))
        look_put(look, value, (int64_t)number);
}

static void look_ecc(struct nvml_look *look, enum nvml_value value, int which)
{
    unsigned long long number = 0;

    if (!look->finding &&
        look_is_good(look, look->nvml->ecc(look->gpu, which, ECC_SINCE_RESET, &number)))
        look_put(look, value, (int64_t)number);
}

static void look_memory(struct nvml_look *look)
{
    struct nvml_busy busy = { 0 };
    struct nvml_memory memory = { 0 };

    if (!look->finding && look_is_good(look, look->nvml->busy(look->gpu, &busy))) {
        look_put(look, NVML_GPU_BUSY_PERCENT, busy.gpu);
        look_put(look, NVML_MEMORY_BUSY_PERCENT, busy.memory);
    }
    if (!look->finding && look_is_good(look, look->nvml->memory(look->gpu, &memory))) {
        look_put(look, NVML_MEMORY_USED_BYTES, (int64_t)memory.used);
        look_put(look, NVML_MEMORY_TOTAL_BYTES, (int64_t)memory.total);
    }
}

static void look_remapped(struct nvml_look *look)
{
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;

    if (!look->nvml->remapped || look->finding ||
        !look_is_good(look,
                      look->nvml->remapped(look->gpu, &corrected, &uncorrected, &pending, &failed)))
        return;
    look_put(look, NVML_REMAPPED_CORRECTABLE, corrected);
    look_put(look, NVML_REMAPPED_UNCORRECTABLE, uncorrected);
    look_put(look, NVML_REMAP_PENDING, pending);
    look_put(look, NVML_REMAP_FAILED, failed);
}

bool nvml_field_number(const struct nvml_field *field, int64_t *ret)
{
    switch (field->type) {
    case TYPE_DOUBLE:
        *ret = (int64_t)field->value.real;
        return true;
    case TYPE_UINT:
        *ret = field->value.u32;
        return true;
    case TYPE_ULONG:
        *ret = (int64_t)field->value.ulong;
        return true;
    case TYPE_ULLONG:
        *ret = (int64_t)field->value.u64;
        return true;
    case TYPE_LLONG:
        *ret = field->value.s64;
        return true;
    case TYPE_INT:
        *ret = field->value.s32;
        return true;
    default:
        return false; /* of a later driver */
    }
}

static void look_margins(struct nvml_look *look)
{
    struct nvml_margin margin = { .version = MARGIN_VERSION };
    struct nvml_banks banks = { 0 };

    if (look->nvml->margin && !look->finding &&
        look_is_good(look, look->nvml->margin(look->gpu, &margin)))
        look_put(look, NVML_TEMPERATURE_MARGIN_C, margin.margin);
    if (look->nvml->banks && !look->finding &&
        look_is_good(look, look->nvml->banks(look->gpu, &banks)))
        look_put(look, NVML_BANKS_WITHOUT_SPARES, banks.none);
}

static void look_fields(struct nvml_look *look)
{
    static const enum nvml_value value[] = { NVML_MEMORY_TEMPERATURE_C, NVML_RECOVERY_ACTION,
                                             NVML_SLOWED_BY_POWER_NS, NVML_SLOWED_BY_HEAT_NS,
                                             NVML_SLOWED_BY_BOARD_NS };
    struct nvml_field field[] = { { .id = FIELD_MEMORY_TEMPERATURE },
                                  { .id = FIELD_RECOVERY_ACTION },
                                  { .id = FIELD_SLOWED_BY_POWER },
                                  { .id = FIELD_SLOWED_BY_HEAT },
                                  { .id = FIELD_SLOWED_BY_BOARD } };
    int64_t number;

    if (look->finding || !look_is_good(look, look->nvml->fields(look->gpu, COUNT(field), field)))
        return;
    for (size_t i = 0; i < COUNT(field); i++) {
        if (look_is_good(look, field[i].result) && nvml_field_number(&field[i], &number))
            look_put(look, value[i], number);
    }
}

/* Two bits for each part of the mask: 1 says that it is so. */
static int64_t look_fabric_bits(unsigned mask)
{
    static const struct {
        unsigned shift;
        int64_t bit;
    } parts[] = { { 0, NVML_FABRIC_DEGRADED_BANDWIDTH },
                  { 4, NVML_FABRIC_ROUTE_UNHEALTHY },
                  { 6, NVML_FABRIC_ACCESS_TIMEOUT } };
    int64_t bits = 0;

    for (size_t i = 0; i < COUNT(parts); i++)
        bits |= (mask >> parts[i].shift & 3) == 1 ? parts[i].bit : 0;
    return bits;
}

static void look_fabric(struct nvml_look *look)
{
    struct nvml_fabric fabric = { .version = FABRIC_VERSION };

    if (!look->nvml->fabric || look->finding ||
        !look_is_good(look, look->nvml->fabric(look->gpu, &fabric)) || !fabric.state)
        return; /* 0: this GPU has no such fabric */
    look_put(look, NVML_FABRIC_STATE, fabric.state);
    look_put(look, NVML_FABRIC_HEALTH, look_fabric_bits(fabric.health));
    if (fabric.state == FABRIC_COMPLETED)
        look_put(look, NVML_FABRIC_ERROR, fabric.status);
}

int nvml_read(const struct nvml *nvml, unsigned gpu, struct nvml_sample *ret, struct err *err)
{
    struct nvml_sample sample = { 0 };
    struct nvml_look look = { .nvml = nvml, .sample = &sample };
    int result = nvml->gpu(gpu, &look.gpu);

    if (result != RESULT_SUCCESS)
        return nvml_check(nvml, result, NULL, err);
    look_clock(&look, NVML_TEMPERATURE_C, nvml->temperature, SENSOR_GPU);
    look_u32(&look, NVML_POWER_MW, nvml->power);
    look_u32(&look, NVML_POWER_LIMIT_MW, nvml->power_limit);
    look_u64(&look, NVML_ENERGY_MJ, nvml->energy);
    look_clock(&look, NVML_SM_CLOCK_MHZ, nvml->clock, CLOCK_SM);
    look_clock(&look, NVML_SM_CLOCK_MAX_MHZ, nvml->clock_max, CLOCK_SM);
    look_clock(&look, NVML_MEMORY_CLOCK_MHZ, nvml->clock, CLOCK_MEMORY);
    look_u64(&look, NVML_CLOCK_REASONS, nvml->reasons ? nvml->reasons : nvml->reasons_old);
    look_memory(&look);
    look_ecc(&look, NVML_ECC_CORRECTED, ECC_CORRECTED);
    look_ecc(&look, NVML_ECC_UNCORRECTED, ECC_UNCORRECTED);
    look_remapped(&look);
    look_u32(&look, NVML_PCIE_GENERATION, nvml->pcie_generation);
    look_u32(&look, NVML_PCIE_GENERATION_MAX, nvml->pcie_generation_max);
    look_u32(&look, NVML_PCIE_WIDTH, nvml->pcie_width);
    look_u32(&look, NVML_PCIE_WIDTH_MAX, nvml->pcie_width_max);
    look_u32(&look, NVML_PCIE_REPLAYS, nvml->pcie_replays);
    look_fields(&look);
    look_margins(&look);
    look_fabric(&look);
    result = nvml_check(nvml, look.finding, NULL, err);
    if (result < 0)
        return result;
    *ret = sample;
    return 0;
}

bool nvml_has(const struct nvml_sample *sample, enum nvml_value value)
{
    return sample->known >> value & 1;
}

const char *nvml_value_name(enum nvml_value value)
{
    return value < NVML_VALUES ? values[value].name : "?";
}

const char *nvml_value_unit(enum nvml_value value)
{
    return value < NVML_VALUES ? values[value].unit : "";
}
