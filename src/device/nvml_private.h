/* nvml_private.h - NVML's functions, structs and numbers, as its library has them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_NVML_PRIVATE_H
#define LOCKSTEP_DEVICE_NVML_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/nvml.h"

enum { /* NVML's results */
    RESULT_SUCCESS = 0,
    RESULT_NO_PERMISSION = 4,
    RESULT_TOO_SMALL = 7,
    RESULT_TIMEOUT = 10,
    RESULT_GPU_IS_LOST = 15,
    RESULT_RESET_REQUIRED = 16,
};

enum { /* its constants */
    SENSOR_GPU = 0,
    CLOCK_SM = 1,
    CLOCK_MEMORY = 2,
    ECC_CORRECTED = 0,
    ECC_UNCORRECTED = 1,
    ECC_SINCE_RESET = 0,
    FIELD_SLOWED_BY_POWER = 74, /* newer numbers of these differ between drivers */
    FIELD_SLOWED_BY_HEAT = 75,
    FIELD_SLOWED_BY_BOARD = 77,
    FIELD_MEMORY_TEMPERATURE = 82,
    FIELD_LINK_REPLAYS = 161, /* these of one link, the scope */
    FIELD_LINK_RECOVERIES = 162,
    FIELD_LINK_CRC = 163,
    FIELD_LINK_SPEED = 164,
    FIELD_LINK_STATE = 165,
    FIELD_RECOVERY_ACTION = 230,
    FABRIC_COMPLETED = 3,
    EVENT_XID = 0x8,
    EVENT_XID_UNKNOWN = 999,
};

enum {
    TYPE_DOUBLE = 0,
    TYPE_UINT = 1,
    TYPE_ULONG = 2,
    TYPE_ULLONG = 3,
    TYPE_LLONG = 4,
    TYPE_INT = 5
};

struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};

struct nvml_busy {
    unsigned gpu, memory;
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_field {
    unsigned id, scope;
    long long time_us, latency_us;
    int type, result;
    union {
        double real;
        unsigned u32;
        unsigned long ulong;
        unsigned long long u64;
        long long s64;
        int s32;
    } value;
};

struct nvml_margin {
    unsigned version;
    int margin;
};
#define MARGIN_VERSION (sizeof(struct nvml_margin) | 1u << 24)

struct nvml_process_info {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned instance, compute_instance;
};

struct nvml_event_data {
    void *gpu;
    unsigned long long type, data;
    unsigned instance, compute_instance;
};

struct nvml_banks { /* of memory, by how many spare rows they have left */
    unsigned most, high, partial, low, none;
};

struct nvml_fabric {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
    unsigned health;
};
#define FABRIC_VERSION (sizeof(struct nvml_fabric) | 2u << 24)

struct nvml_gpm_support {
    unsigned version, supported;
};

struct nvml_gpm_metric {
    unsigned id;
    int result;
    double value;
    const char *short_name, *long_name, *unit;
};

#define GPM_VERSION 1
#define GPM_METRICS 333 /* most that a library has room for; it reads as many as are asked for */
#define GPM_GPUS 32

struct nvml_gpm_request {
    unsigned version, count;
    void *before, *after;
    struct nvml_gpm_metric metric[GPM_METRICS];
};

struct nvml_gpm { /* of a GPU */
    bool asked, supported, has_before;
    void *sample[2]; /* the one before, and the next one */
};

struct nvml {
    struct library *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int result);
    int (*driver)(char *ret, unsigned room);
    int (*count)(unsigned *ret);
    int (*gpu)(unsigned index, void **ret);
    int (*name)(void *gpu, char *ret, unsigned room);
    int (*uuid)(void *gpu, char *ret, unsigned room);
    int (*serial)(void *gpu, char *ret, unsigned room);
    int (*pci)(void *gpu, struct nvml_pci *ret);
    int (*temperature)(void *gpu, int sensor, unsigned *ret);
    int (*power)(void *gpu, unsigned *ret);
    int (*power_limit)(void *gpu, unsigned *ret);
    int (*energy)(void *gpu, unsigned long long *ret);
    int (*clock)(void *gpu, int which, unsigned *ret);
    int (*clock_max)(void *gpu, int which, unsigned *ret);
    int (*reasons)(void *gpu, unsigned long long *ret);
    int (*reasons_old)(void *gpu, unsigned long long *ret);
    int (*busy)(void *gpu, struct nvml_busy *ret);
    int (*memory)(void *gpu, struct nvml_memory *ret);
    int (*ecc)(void *gpu, int which, int since, unsigned long long *ret);
    int (*remapped)(void *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                    unsigned *failed);
    int (*pcie_generation)(void *gpu, unsigned *ret);
    int (*pcie_generation_max)(void *gpu, unsigned *ret);
    int (*pcie_width)(void *gpu, unsigned *ret);
    int (*pcie_width_max)(void *gpu, unsigned *ret);
    int (*pcie_replays)(void *gpu, unsigned *ret);
    int (*fields)(void *gpu, int count, struct nvml_field *ret);
    int (*margin)(void *gpu, struct nvml_margin *ret);
    int (*banks)(void *gpu, struct nvml_banks *ret);
    int (*processes)(void *gpu, unsigned *count, struct nvml_process_info *ret);
    int (*events_create)(void **ret);
    int (*events_free)(void *events);
    int (*events_register)(void *gpu, unsigned long long types, void *events);
    int (*events_wait)(void *events, struct nvml_event_data *ret, unsigned timeout_ms);
    void *events; /* NULL: none */
    int (*fabric)(void *gpu, struct nvml_fabric *ret);
    int (*gpm_support)(void *gpu, struct nvml_gpm_support *ret);
    int (*gpm_alloc)(void **ret);
    int (*gpm_free)(void *sample);
    int (*gpm_sample)(void *gpu, void *sample);
    int (*gpm_metrics)(struct nvml_gpm_request *request);
    struct nvml_gpm gpm[GPM_GPUS];
    struct nvml_gpm_request gpm_request;
};

void nvml_activity_close(struct nvml *nvml);

bool nvml_field_number(const struct nvml_field *field, int64_t *ret);

#endif
