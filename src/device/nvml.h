/* nvml.h - NVIDIA's management library: which GPUs are here, and how they are.
 *
 * A value that a GPU or driver does not report is absent from a sample, never zero.  A call may block for seconds or for
 * ever when a GPU is failing: whoever watches a node calls from a process that it can kill.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_NVML_H
#define LOCKSTEP_DEVICE_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"

struct nvml;

struct nvml_identity { /* empty text: not reported */
    char name[96];
    char uuid[96];
    char serial[32];
    char pci[32]; /* "00000000:3B:00.0" */
};

enum nvml_value {
    NVML_TEMPERATURE_C,
    NVML_MEMORY_TEMPERATURE_C,
    NVML_POWER_MW,
    NVML_POWER_LIMIT_MW,
    NVML_ENERGY_MJ, /* since the driver was loaded */
    NVML_SM_CLOCK_MHZ,
    NVML_SM_CLOCK_MAX_MHZ,
    NVML_MEMORY_CLOCK_MHZ,
    NVML_CLOCK_REASONS, /* why clocks are lower than they could be: NVML_REASON_* */
    NVML_GPU_BUSY_PERCENT,
    NVML_MEMORY_BUSY_PERCENT,
    NVML_MEMORY_USED_BYTES,
    NVML_MEMORY_TOTAL_BYTES,
    NVML_ECC_CORRECTED, /* since the last reset, as the next */
    NVML_ECC_UNCORRECTED,
    NVML_REMAPPED_CORRECTABLE, /* rows, over the GPU's life, as the next */
    NVML_REMAPPED_UNCORRECTABLE,
    NVML_REMAP_PENDING, /* 1: a reset is needed to put a remapped row into use */
    NVML_REMAP_FAILED,  /* 1: no spare rows are left; the GPU is to be replaced */
    NVML_PCIE_GENERATION,
    NVML_PCIE_GENERATION_MAX,
    NVML_PCIE_WIDTH,
    NVML_PCIE_WIDTH_MAX,
    NVML_PCIE_REPLAYS,
    NVML_RECOVERY_ACTION, /* what the driver asks for: 0 none, 1 reset, 2 reboot, 3 drain, 4 drain and reset */
    NVML_TEMPERATURE_MARGIN_C, /* until the GPU lowers its clocks */
    NVML_BANKS_WITHOUT_SPARES, /* of memory: another bad row there cannot be remapped */
    NVML_SLOWED_BY_POWER_NS, /* time that clocks were lowered, since the driver was loaded, as the next */
    NVML_SLOWED_BY_HEAT_NS,
    NVML_SLOWED_BY_BOARD_NS, /* the board's limit: the power brake, or its regulators */
    NVML_FABRIC_STATE,       /* of the NVLink switches: 1 not started, 2 in progress, 3 completed */
    NVML_FABRIC_ERROR,       /* of a completed start: NVML's result */
    NVML_FABRIC_HEALTH,      /* NVML_FABRIC_* */
    /* Means since the last nvml_activity_read() of that GPU; only from this function. */
    NVML_SM_ACTIVE_PERCENT, /* time with a warp resident, over all SMs */
    NVML_SM_OCCUPANCY_PERCENT,
    NVML_TENSOR_ACTIVE_PERCENT,
    NVML_MEMORY_BANDWIDTH_PERCENT,
    NVML_PCIE_SENT_MIBPS, /* what copies to the host and kernels that access its memory make, as the next */
    NVML_PCIE_RECEIVED_MIBPS,
    NVML_NVLINK_SENT_MIBPS,
    NVML_NVLINK_RECEIVED_MIBPS,
    NVML_VALUES
};

enum { /* bits of NVML_FABRIC_HEALTH, when they are set */
    NVML_FABRIC_DEGRADED_BANDWIDTH = 0x1,
    NVML_FABRIC_ROUTE_UNHEALTHY = 0x2,
    NVML_FABRIC_ACCESS_TIMEOUT = 0x4,
};

enum { /* bits of NVML_CLOCK_REASONS */
    NVML_REASON_IDLE = 0x1,
    NVML_REASON_POWER_CAP = 0x4,
    NVML_REASON_HW_SLOWDOWN = 0x8,
    NVML_REASON_SW_THERMAL = 0x20,
    NVML_REASON_HW_THERMAL = 0x40,
    NVML_REASON_POWER_BRAKE = 0x80,
};

struct nvml_sample {
    uint64_t known; /* bit of each value that is there */
    int64_t value[NVML_VALUES];
};

/* NULL: NVML_LIBRARY.  -ENOENT: the library is not there (no driver, or a container without it). */
int nvml_open(const char *library, struct nvml **ret, struct err *err);
void nvml_close(struct nvml *nvml); /* NULL is allowed */

int nvml_driver_version(const struct nvml *nvml, char *ret, unsigned room, struct err *err);
int nvml_count(const struct nvml *nvml, unsigned *ret, struct err *err);
/* Both return -ENODEV when the GPU has fallen off its bus, -ENOTRECOVERABLE when it must be reset, -ETIMEDOUT when it does
 * not answer: findings about that GPU, not about us.
 */
int nvml_identify(const struct nvml *nvml, unsigned gpu, struct nvml_identity *ret,
                  struct err *err);
int nvml_read(const struct nvml *nvml, unsigned gpu, struct nvml_sample *ret, struct err *err);
/* What its parts did since the last call for that GPU, added to `sample`; the first call adds nothing, and neither does a
 * GPU without counters (before Hopper, or split into instances).  NVML counts no copy engines: what they move is in the rates of
 * PCIe and NVLink.
 */
void nvml_activity_read(struct nvml *nvml, unsigned gpu, struct nvml_sample *sample);

/* ---- lists (nvml_lists.c) ---- */

#define NVML_LINKS 18
#define NVML_PROCESSES 24

struct nvml_link {
    bool there, up;
    int64_t speed_mbps; /* of bytes; -1: not reported, as the next */
    int64_t replays, recoveries, crc_errors;
};

struct nvml_process {
    uint32_t pid;       /* on the host */
    int64_t used_bytes; /* -1: not reported */
};

struct nvml_event {
    uint32_t gpu; /* index */
    uint32_t xid;
};

/* Returns how many; none where the GPU or the driver does not report them. */
unsigned nvml_links_read(const struct nvml *nvml, unsigned gpu, struct nvml_link ret[NVML_LINKS]);
/* Returns how many; -EIO if the driver does not list them, or lists more than there is room for. */
int nvml_processes_read(const struct nvml *nvml, unsigned gpu,
                        struct nvml_process ret[NVML_PROCESSES]);
/* Xids since the last call, of the first `gpus` GPUs; never waits.  The first call registers for them. */
unsigned nvml_events_read(struct nvml *nvml, unsigned gpus, struct nvml_event *ret, unsigned room);

bool nvml_has(const struct nvml_sample *sample, enum nvml_value value);
const char *nvml_value_name(enum nvml_value value); /* "temperature", as people and JSON name it */
const char *nvml_value_unit(enum nvml_value value); /* "W", "": a number alone */

#endif
