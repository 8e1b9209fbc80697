/* gpu_devices.h - the GPUs of this node as a check uses them: by the CUDA driver, idle ones only.
 *
 * A GPU that somebody uses is not touched: its result is unknown.  Nothing of a GPU is changed: neither clocks nor limits nor modes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_GPU_GPU_DEVICES_H
#define LOCKSTEP_VERIFY_GPU_GPU_DEVICES_H

#include <limits.h>

#include "device/cuda/cuda.h"
#include "device/nvml.h"
#include "verify/verify.h"

#define GPUS_MAX 32
#define GPU_CAPABILITY 8 /* the major one: earlier GPUs lack instructions of the kernels */

struct gpu_device {
    const struct cuda *cuda;
    int ordinal; /* of CUDA */
    int nvml;    /* index of NVML; -1: it does not know this GPU */
    char label[16], name[96], pci[32];
    int sms, major;
    size_t free_bytes;
    void *context, *module, *stream; /* NULL: not open */
    bool
        broken; /* an error of its memory or links that cannot be corrected: a fault, not a doubt */
};

struct gpu_devices {
    struct library *library;
    struct cuda cuda;
    struct nvml *nvml;
    int driver;  /* CUDA's version, such as 13000 */
    bool shared; /* also those that somebody uses; false at first */
    unsigned count;
    struct gpu_device gpu[GPUS_MAX];
};

/* False: there is none to test, which was reported: as not applicable, or as unknown where one is expected. */
bool gpu_devices_open(struct gpu_devices *devices, const struct verify_place *place,
                      struct verify_report *report);
void gpu_devices_close(struct gpu_devices *devices);

/* Makes it ready for kernels and copies, and current for this thread.  False: it cannot be tested, which was reported. */
bool gpu_device_open(const struct gpu_devices *devices, struct gpu_device *gpu,
                     struct verify_report *report);
void gpu_device_close(struct gpu_device *gpu);
int gpu_device_enter(const struct gpu_device *gpu, struct err *err); /* makes it current */
void gpu_device_leave(const struct gpu_device *gpu);

/* Reports an error of a call as the result of this GPU. */
void gpu_device_failed(const struct gpu_device *gpu, struct verify_report *report,
                       const struct err *err);

/* Each: 0, or -errno with what failed. */
int gpu_device_check(struct gpu_device *gpu, int result, const char *what, struct err *err);
int gpu_device_memory(struct gpu_device *gpu, size_t bytes, uint64_t *ret, struct err *err);
void gpu_device_free(struct gpu_device *gpu, uint64_t address); /* 0 is fine */
/* Begins; gpu_device_wait() waits for all that was begun. */
int gpu_device_launch(struct gpu_device *gpu, const char *kernel, unsigned blocks, unsigned threads,
                      void **arguments, struct err *err);
int gpu_device_wait(struct gpu_device *gpu, struct err *err);
/* Copies, and waits. */
int gpu_device_fetch(struct gpu_device *gpu, void *to, uint64_t from, size_t bytes,
                     struct err *err);

/* The library `name` below the root of a place; NULL: the loader's own search. */
const char *gpu_library_path(const struct verify_place *place, const char *given, const char *name,
                             char room[PATH_MAX]);
/* No GPU answers: not applicable where none is expected, else unknown. */
void gpu_report_none(const struct verify_place *place, struct verify_report *report,
                     const char *why);

#endif
