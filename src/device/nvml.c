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
    { NULL, 0, false },
};

static const char *const value_names[NVML_VALUES] = {
    [NVML_TEMPERATURE_C] = "temperature",
    [NVML_MEMORY_TEMPERATURE_C] = "memory temperature",
    [NVML_POWER_MW] = "power",
    [NVML_POWER_LIMIT_MW] = "power limit",
    [NVML_ENERGY_MJ] = "energy",
    [NVML_SM_CLOCK_MHZ] = "SM clock",
    [NVML_SM_CLOCK_MAX_MHZ] = "SM clock maximum",
    [NVML_MEMORY_CLOCK_MHZ] = "memory clock",
    [NVML_CLOCK_REASONS] = "clock reasons",
    [NVML_GPU_BUSY_PERCENT] = "GPU utilization",
    [NVML_MEMORY_BUSY_PERCENT] = "memory utilization",
    [NVML_MEMORY_USED_BYTES] = "memory used",
    [NVML_MEMORY_TOTAL_BYTES] = "memory total",
    [NVML_ECC_CORRECTED] = "ECC corrected errors",
    [NVML_ECC_UNCORRECTED] = "ECC uncorrected errors",
    [NVML_REMAPPED_CORRECTABLE] = "rows remapped for correctable errors",
    [NVML_REMAPPED_UNCORRECTABLE] = "rows remapped for uncorrectable errors",
    [NVML_REMAP_PENDING] = "row remap pending",
    [NVML_REMAP_FAILED] = "row remap failed",
    [NVML_PCIE_GENERATION] = "PCIe generation",
    [NVML_PCIE_GENERATION_MAX] = "PCIe generation maximum",
    [NVML_PCIE_WIDTH] = "PCIe width",
    [NVML_PCIE_WIDTH_MAX] = "PCIe width maximum",
    [NVML_PCIE_REPLAYS] = "PCIe replays",
    [NVML_RECOVERY_ACTION] = "recovery action",
    [NVML_TEMPERATURE_MARGIN_C] = "temperature margin",
    [NVML_BANKS_WITHOUT_SPARES] = "memory banks without spare rows",
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
    look->sample->known |= UINT32_C(1) << value;
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
    static const enum nvml_value value[] = { NVML_MEMORY_TEMPERATURE_C, NVML_RECOVERY_ACTION };
    struct nvml_field field[] = { { .id = FIELD_MEMORY_TEMPERATURE },
                                  { .id = FIELD_RECOVERY_ACTION } };
    int64_t number;

    if (look->finding || !look_is_good(look, look->nvml->fields(look->gpu, COUNT(field), field)))
        return;
    for (size_t i = 0; i < COUNT(field); i++) {
        if (look_is_good(look, field[i].result) && nvml_field_number(&field[i], &number))
            look_put(look, value[i], number);
    }
}

int nvml_read(const struct nvml *nvml, unsigned gpu, struct nvml_sample *ret, struct err *err)
{
    struct nvml_look look = { .nvml = nvml, .sample = ret };
    int result = nvml->gpu(gpu, &look.gpu);

    *ret = (struct nvml_sample){ 0 };
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
    return nvml_check(nvml, look.finding, NULL, err);
}

bool nvml_has(const struct nvml_sample *sample, enum nvml_value value)
{
    return sample->known >> value & 1;
}

const char *nvml_value_name(enum nvml_value value)
{
    return value < NVML_VALUES ? value_names[value] : "?";
}
