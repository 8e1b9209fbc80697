/* fake_nvml.c - libnvidia-ml.so.1 by script: a node of healthy H100s unless it says otherwise.
 *
 * Keys: nvml.init, nvml.count, nvml.N.name, .uuid, .serial, .pci, .temperature, .memory-temperature, .power, .power-limit,
 * .energy, .sm-clock, .sm-clock-max, .memory-clock, .memory-clock-max, .reasons, .gpu-busy, .memory-busy, .memory-used,
 * .memory-total, .ecc-corrected, .ecc-uncorrected, .remapped-corrected, .remapped-uncorrected, .remap-pending,
 * .remap-failed, .banks-without-spares, .margin, .link-L.state, .link-L.speed, .link-L.replays, .link-L.recoveries,
 * .link-L.crc, .fabric-state, .fabric-error, .fabric-health, .slowed-by-power, .slowed-by-heat, .slowed-by-board, .gpm (0: it
 * has no performance counters), .gpm-ID (a mean of these), .processes (text: "PID BYTES PID BYTES"), .xid (an event for each value; " times 1" gives one), .pcie-generation, .pcie-generation-max, .pcie-width, .pcie-width-max, .pcie-replays, .recovery-action; and
 * nvml.N.handle for all of a GPU at once.  nvml.scribble writes so many bytes of nonsense to the descriptor on which the
 * process answers, and nvml.crash ends it by a signal: what a library may do to the process that called it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/fake/script.h"

#define GPUS_MAX 16
#define EXPORT __attribute__((visibility("default")))

enum {
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    TOO_SMALL = 7,
    TIMEOUT = 10
};

static char gpus[GPUS_MAX]; /* a handle is the address of a GPU's byte */

static unsigned gpu_index(const void *gpu)
{
    return (unsigned)((const char *)gpu - gpus);
}

static int gpu_text(void *gpu, const char *what, const char *usual, char *ret, unsigned room)
{
    struct script_answer answer;

    script_ask(&answer, "nvml.%u.%s", gpu_index(gpu), what);
    if (answer.error)
        return answer.error;
    return snprintf(ret, room, "%s", answer.text[0] ? answer.text : usual) < (int)room ? 0
                                                                                       : TOO_SMALL;
}

static int gpu_u32(void *gpu, const char *what, int64_t usual, unsigned *ret)
{
    int64_t number;
    int result = script_number(&number, usual, "nvml.%u.%s", gpu_index(gpu), what);

    if (result == 0)
        *ret = (unsigned)number;
    return result;
}

static int gpu_u64(void *gpu, const char *what, int64_t usual, unsigned long long *ret)
{
    int64_t number;
    int result = script_number(&number, usual, "nvml.%u.%s", gpu_index(gpu), what);

    if (result == 0)
        *ret = (unsigned long long)number;
    return result;
}

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
    int64_t number;

    return script_number(&number, 0, "nvml.init");
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
    return 0;
}

EXPORT const char *nvmlErrorString(int result);
EXPORT const char *nvmlErrorString(int result)
{
    switch (result) {
    case NOT_SUPPORTED:
        return "Not Supported";
    case 4:
        return "Insufficient Permissions";
    case NOT_FOUND:
        return "Not Found";
    case 9:
        return "Driver Not Loaded";
    case 10:
        return "Timeout";
    case 15:
        return "GPU is lost";
    case 16:
        return "GPU requires reset";
    default:
        return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *ret, unsigned room);
EXPORT int nvmlSystemGetDriverVersion(char *ret, unsigned room)
{
    struct script_answer answer;

    script_ask(&answer, "nvml.driver");
    if (answer.error)
        return answer.error;
    return snprintf(ret, room, "%s", answer.text[0] ? answer.text : "580.65.06") < (int)room
               ? 0
               : TOO_SMALL;
}

#define ANSWER_FD 3
#define SCRIBBLE_MAX 65536

static void fake_misbehave(void)
{
    static unsigned char nonsense[SCRIBBLE_MAX];
    struct script_answer answer;

    script_ask(&answer, "nvml.crash");
    if (answer.has_value)
        abort();
    script_ask(&answer, "nvml.scribble");
    if (!answer.has_value || answer.value <= 0 || answer.value > SCRIBBLE_MAX)
        return;
    for (int64_t i = 0; i < answer.value; i++)
        nonsense[i] = (unsigned char)(i * 167 + 13) | 1; /* no text ends anywhere */
    if (write(ANSWER_FD, nonsense, (size_t)answer.value) < 0)
        abort();
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *ret);
EXPORT int nvmlDeviceGetCount_v2(unsigned *ret)
{
    int64_t number;
    int result = script_number(&number, 8, "nvml.count");

    fake_misbehave();

    if (result == 0)
        *ret = (unsigned)number;
    return result;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret)
{
    unsigned count = 0;
    int64_t number;
    int result = nvmlDeviceGetCount_v2(&count);

    if (result == 0 && (index >= count || index >= GPUS_MAX))
        return NOT_FOUND;
    if (result == 0)
        result = script_number(&number, 0, "nvml.%u.handle", index);
    if (result == 0)
        *ret = &gpus[index];
    return result;
}

EXPORT int nvmlDeviceGetName(void *gpu, char *ret, unsigned room);
EXPORT int nvmlDeviceGetName(void *gpu, char *ret, unsigned room)
{
    return gpu_text(gpu, "name", "NVIDIA H100 80GB HBM3", ret, room);
}

EXPORT int nvmlDeviceGetUUID(void *gpu, char *ret, unsigned room);
EXPORT int nvmlDeviceGetUUID(void *gpu, char *ret, unsigned room)
{
    char usual[64];

    snprintf(usual, sizeof(usual), "GPU-00000000-0000-0000-0000-%012u", gpu_index(gpu));
    return gpu_text(gpu, "uuid", usual, ret, room);
}

EXPORT int nvmlDeviceGetSerial(void *gpu, char *ret, unsigned room);
EXPORT int nvmlDeviceGetSerial(void *gpu, char *ret, unsigned room)
{
    char usual[32];

    snprintf(usual, sizeof(usual), "%013u", gpu_index(gpu) + 1);
    return gpu_text(gpu, "serial", usual, ret, room);
}

struct fake_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};

EXPORT int nvmlDeviceGetPciInfo_v3(void *gpu, struct fake_pci *ret);
EXPORT int nvmlDeviceGetPciInfo_v3(void *gpu, struct fake_pci *ret)
{
    char usual[32];
    int result;

    *ret = (struct fake_pci){ .bus = 0x10 + gpu_index(gpu) };
    snprintf(usual, sizeof(usual), "00000000:%02X:00.0", ret->bus);
    result = gpu_text(gpu, "pci", usual, ret->id, sizeof(ret->id));
    snprintf(ret->legacy, sizeof(ret->legacy), "%.15s", ret->id + 4);
    return result;
}

EXPORT int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *ret);
EXPORT int nvmlDeviceGetTemperature(void *gpu, int sensor, unsigned *ret)
{
    return sensor == 0 ? gpu_u32(gpu, "temperature", 45, ret) : NOT_SUPPORTED;
}

#define GET_U32(function, what, usual)                                                             \
    EXPORT int function(void *gpu, unsigned *ret);                                                 \
    EXPORT int function(void *gpu, unsigned *ret)                                                  \
    {                                                                                              \
        return gpu_u32(gpu, what, usual, ret);                                                     \
    }
GET_U32(nvmlDeviceGetPowerUsage, "power", 310000)
GET_U32(nvmlDeviceGetEnforcedPowerLimit, "power-limit", 700000)
GET_U32(nvmlDeviceGetCurrPcieLinkGeneration, "pcie-generation", 5)
GET_U32(nvmlDeviceGetMaxPcieLinkGeneration, "pcie-generation-max", 5)
GET_U32(nvmlDeviceGetCurrPcieLinkWidth, "pcie-width", 16)
GET_U32(nvmlDeviceGetMaxPcieLinkWidth, "pcie-width-max", 16)
GET_U32(nvmlDeviceGetPcieReplayCounter, "pcie-replays", 0)

EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *ret);
EXPORT int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *ret)
{
    return gpu_u64(gpu, "energy", 1000000, ret);
}

EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void *gpu, unsigned long long *ret);
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(void *gpu, unsigned long long *ret)
{
    return gpu_u64(gpu, "reasons", 0, ret);
}

EXPORT int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *ret);
EXPORT int nvmlDeviceGetClockInfo(void *gpu, int which, unsigned *ret)
{
    return which == 2 ? gpu_u32(gpu, "memory-clock", 2619, ret)
                      : gpu_u32(gpu, "sm-clock", 1980, ret);
}

EXPORT int nvmlDeviceGetMaxClockInfo(void *gpu, int which, unsigned *ret);
EXPORT int nvmlDeviceGetMaxClockInfo(void *gpu, int which, unsigned *ret)
{
    return which == 2 ? gpu_u32(gpu, "memory-clock-max", 2619, ret)
                      : gpu_u32(gpu, "sm-clock-max", 1980, ret);
}

struct fake_busy {
    unsigned gpu, memory;
};

EXPORT int nvmlDeviceGetUtilizationRates(void *gpu, struct fake_busy *ret);
EXPORT int nvmlDeviceGetUtilizationRates(void *gpu, struct fake_busy *ret)
{
    int result = gpu_u32(gpu, "gpu-busy", 0, &ret->gpu);

    return result ? result : gpu_u32(gpu, "memory-busy", 0, &ret->memory);
}

struct fake_memory {
    unsigned long long total, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo(void *gpu, struct fake_memory *ret);
EXPORT int nvmlDeviceGetMemoryInfo(void *gpu, struct fake_memory *ret)
{
    int result = gpu_u64(gpu, "memory-total", INT64_C(81559) << 20, &ret->total);

    if (result == 0)
        result = gpu_u64(gpu, "memory-used", INT64_C(500) << 20, &ret->used);
    ret->free = ret->total - ret->used;
    return result;
}

EXPORT int nvmlDeviceGetTotalEccErrors(void *gpu, int which, int since, unsigned long long *ret);
EXPORT int nvmlDeviceGetTotalEccErrors(void *gpu, int which, int since, unsigned long long *ret)
{
    (void)since;
    return gpu_u64(gpu, which == 0 ? "ecc-corrected" : "ecc-uncorrected", 0, ret);
}

EXPORT int nvmlDeviceGetRemappedRows(void *gpu, unsigned *corrected, unsigned *uncorrected,
                                     unsigned *pending, unsigned *failed);
EXPORT int nvmlDeviceGetRemappedRows(void *gpu, unsigned *corrected, unsigned *uncorrected,
                                     unsigned *pending, unsigned *failed)
{
    int result = gpu_u32(gpu, "remapped-corrected", 0, corrected);

    if (result == 0)
        result = gpu_u32(gpu, "remapped-uncorrected", 0, uncorrected);
    if (result == 0)
        result = gpu_u32(gpu, "remap-pending", 0, pending);
    return result ? result : gpu_u32(gpu, "remap-failed", 0, failed);
}

struct fake_banks {
    unsigned most, high, partial, low, none;
};

EXPORT int nvmlDeviceGetRowRemapperHistogram(void *gpu, struct fake_banks *ret);
EXPORT int nvmlDeviceGetRowRemapperHistogram(void *gpu, struct fake_banks *ret)
{
    *ret = (struct fake_banks){ .most = 640 };
    return gpu_u32(gpu, "banks-without-spares", 0, &ret->none);
}

struct fake_margin {
    unsigned version;
    int margin;
};

EXPORT int nvmlDeviceGetMarginTemperature(void *gpu, struct fake_margin *ret);
EXPORT int nvmlDeviceGetMarginTemperature(void *gpu, struct fake_margin *ret)
{
    unsigned margin = 0;
    int result = ret->version == (sizeof(*ret) | 1u << 24) ? gpu_u32(gpu, "margin", 40, &margin)
                                                           : NOT_SUPPORTED;

    ret->margin = (int)margin;
    return result;
}

struct fake_fabric {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};

EXPORT int nvmlDeviceGetGpuFabricInfoV(void *gpu, struct fake_fabric *ret);
EXPORT int nvmlDeviceGetGpuFabricInfoV(void *gpu, struct fake_fabric *ret)
{
    unsigned state = 0, status = 0;
    int result;

    if (ret->version != (sizeof(*ret) | 2u << 24))
        return 25;
    result = gpu_u32(gpu, "fabric-state", 3, &state);
    if (result == 0)
        result = gpu_u32(gpu, "fabric-error", 0, &status);
    ret->state = (unsigned char)state;
    ret->status = (int)status;
    return result ? result : gpu_u32(gpu, "fabric-health", 0xaa, &ret->health);
}

struct fake_support {
    unsigned version, supported;
};

EXPORT int nvmlGpmQueryDeviceSupport(void *gpu, struct fake_support *ret);
EXPORT int nvmlGpmQueryDeviceSupport(void *gpu, struct fake_support *ret)
{
    return ret->version == 1 ? gpu_u32(gpu, "gpm", 1, &ret->supported) : 25;
}

struct fake_gpm {
    const char *gpu; /* NULL: nothing was sampled yet */
};

EXPORT int nvmlGpmSampleAlloc(struct fake_gpm **ret);
EXPORT int nvmlGpmSampleAlloc(struct fake_gpm **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret ? 0 : 999;
}

EXPORT int nvmlGpmSampleFree(struct fake_gpm *sample);
EXPORT int nvmlGpmSampleFree(struct fake_gpm *sample)
{
    free(sample);
    return 0;
}

EXPORT int nvmlGpmSampleGet(const char *gpu, struct fake_gpm *sample);
EXPORT int nvmlGpmSampleGet(const char *gpu, struct fake_gpm *sample)
{
    sample->gpu = gpu;
    return 0;
}

struct fake_metric {
    unsigned id;
    int result;
    double value;
    const char *text[3];
};

struct fake_metrics {
    unsigned version, count;
    struct fake_gpm *before, *after;
    struct fake_metric metric[];
};

EXPORT int nvmlGpmMetricsGet(struct fake_metrics *request);
EXPORT int nvmlGpmMetricsGet(struct fake_metrics *request)
{
    if (request->version != 1 || !request->before->gpu ||
        request->before->gpu != request->after->gpu)
        return 2;
    for (unsigned i = 0; i < request->count; i++) {
        struct fake_metric *metric = &request->metric[i];
        int64_t value;

        metric->result = script_number(&value, metric->id < 20 ? 50 : 1000, "nvml.%u.gpm-%u",
                                       gpu_index(request->after->gpu), metric->id);
        metric->value = (double)value;
    }
    return 0;
}

struct fake_process {
    unsigned pid;
    unsigned long long used;
    unsigned instance, compute_instance;
};

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count,
                                                   struct fake_process *ret);
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count,
                                                   struct fake_process *ret)
{
    struct script_answer answer;
    unsigned room = *count;
    char *at = answer.text, *end;

    script_ask(&answer, "nvml.%u.processes", gpu_index(gpu));
    *count = 0;
    while (!answer.error && *at) {
        unsigned long pid = strtoul(at, &end, 10);
        unsigned long long used = strtoull(end, &at, 10);

        if (at == end)
            break;
        if (*count == room)
            return TOO_SMALL;
        ret[(*count)++] = (struct fake_process){ .pid = (unsigned)pid, .used = used };
    }
    return answer.error;
}

EXPORT int nvmlEventSetCreate(void **ret);
EXPORT int nvmlEventSetCreate(void **ret)
{
    *ret = &gpus[GPUS_MAX - 1];
    return 0;
}

EXPORT int nvmlEventSetFree(void *events);
EXPORT int nvmlEventSetFree(void *events)
{
    (void)events;
    return 0;
}

EXPORT int nvmlDeviceRegisterEvents(void *gpu, unsigned long long types, void *events);
EXPORT int nvmlDeviceRegisterEvents(void *gpu, unsigned long long types, void *events)
{
    int64_t number;

    (void)events;
    (void)types;
    return script_number(&number, 0, "nvml.%u.register", gpu_index(gpu));
}

struct fake_event {
    void *gpu;
    unsigned long long type, data;
    unsigned instance, compute_instance;
};

EXPORT int nvmlEventSetWait_v2(void *events, struct fake_event *ret, unsigned timeout_ms);
EXPORT int nvmlEventSetWait_v2(void *events, struct fake_event *ret, unsigned timeout_ms)
{
    unsigned count = 0;

    (void)events;
    (void)timeout_ms;
    if (nvmlDeviceGetCount_v2(&count) != 0)
        return TIMEOUT;
    for (unsigned i = 0; i < count && i < GPUS_MAX; i++) {
        struct script_answer answer;

        script_ask(&answer, "nvml.%u.xid", i);
        if (answer.has_value) {
            *ret = (struct fake_event){ .gpu = &gpus[i],
                                        .type = 0x8,
                                        .data = (unsigned long long)answer.value };
            return 0;
        }
    }
    return TIMEOUT;
}

struct fake_field {
    unsigned id, scope;
    long long time_us, latency_us;
    int type, result;
    union {
        unsigned u32;
        unsigned long long u64;
    } value;
};

#define LINKS 18
#define LINK_SPEED_MBPS 26562

static int field_link(void *gpu, struct fake_field *field)
{
    static const struct {
        const char *name;
        int64_t usual;
    } parts[] = { { "replays", 0 },
                  { "recoveries", 0 },
                  { "crc", 0 },
                  { "speed", LINK_SPEED_MBPS },
                  { "state", 1 } };
    char what[40];

    if (field->scope >= LINKS)
        return NOT_SUPPORTED;
    snprintf(what, sizeof(what), "link-%u.%s", field->scope, parts[field->id - 161].name);
    return gpu_u32(gpu, what, parts[field->id - 161].usual, &field->value.u32);
}

EXPORT int nvmlDeviceGetFieldValues(void *gpu, int count, struct fake_field *ret);
EXPORT int nvmlDeviceGetFieldValues(void *gpu, int count, struct fake_field *ret)
{
    for (int i = 0; i < count; i++) {
        ret[i].type = 1;
        if (ret[i].id == 82)
            ret[i].result = gpu_u32(gpu, "memory-temperature", 50, &ret[i].value.u32);
        else if (ret[i].id == 74)
            ret[i].result = gpu_u32(gpu, "slowed-by-power", 0, &ret[i].value.u32);
        else if (ret[i].id == 75)
            ret[i].result = gpu_u32(gpu, "slowed-by-heat", 0, &ret[i].value.u32);
        else if (ret[i].id == 77)
            ret[i].result = gpu_u32(gpu, "slowed-by-board", 0, &ret[i].value.u32);
        else if (ret[i].id == 230)
            ret[i].result = gpu_u32(gpu, "recovery-action", 0, &ret[i].value.u32);
        else
            ret[i].result =
                ret[i].id >= 161 && ret[i].id <= 165 ? field_link(gpu, &ret[i]) : NOT_SUPPORTED;
    }
    return 0;
}
