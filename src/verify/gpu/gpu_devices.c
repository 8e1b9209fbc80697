/* gpu_devices.c - opens the driver, finds out which GPUs are idle, runs kernels and copies.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/gpu/gpu_devices.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/kernel/gpu_kernels.h"
#include "device/library.h"
#include "verify/expected.h"

#define BUSY_PERCENT 10 /* an idle GPU shows 0, and a few for a moment when it is looked at */
#define BUSY_TURNS                                                                                 \
    20 /* NVML's share is of the last second, in which the check before may have used the GPU */
#define BUSY_TURN_NS (100 * NS_PER_MS)
/* Without a process the driver itself holds a few hundred MiB.  What holds more is a process that NVML does not list, such as one
 * of another container.
 */
#define USED_BYTES_MAX ((int64_t)2 << 30)

enum { /* results of the driver that are faults of the GPU */
    ECC_UNCORRECTABLE = 214,
    NVLINK_UNCORRECTABLE = 220,
};

const char *gpu_library_path(const struct verify_place *place, const char *given, const char *name,
                             char room[PATH_MAX])
{
    if (given || !place->root[0])
        return given;
    snprintf(room, PATH_MAX, "%s/usr/lib/%s", place->root, name);
    return room;
}

void gpu_report_none(const struct verify_place *place, struct verify_report *report,
                     const char *why)
{
    char expected[128];

    if (expected_on_node("gpu", place->root, place->profile, expected, sizeof(expected)))
        verify_result(report, CHECK_UNKNOWN, "", "%.100s; %.90s", why, expected);
    else
        verify_result(report, VERIFY_NOT_APPLICABLE, "", "%.190s", expected);
}

/* ---- calls ---- */

int gpu_device_check(struct gpu_device *gpu, int result, const char *what, struct err *err)
{
    gpu->broken |= result == ECC_UNCORRECTABLE || result == NVLINK_UNCORRECTABLE;
    return cuda_check(gpu->cuda, result, what, err);
}

int gpu_device_enter(const struct gpu_device *gpu, struct err *err)
{
    return cuda_check(gpu->cuda, gpu->cuda->context_push(gpu->context), "cuCtxPushCurrent", err);
}

void gpu_device_leave(const struct gpu_device *gpu)
{
    void *context;

    gpu->cuda->context_pop(&context);
}

int gpu_device_memory(struct gpu_device *gpu, size_t bytes, uint64_t *ret, struct err *err)
{
    return gpu_device_check(gpu, gpu->cuda->memory_alloc(ret, bytes), "cuMemAlloc", err);
}

void gpu_device_free(struct gpu_device *gpu, uint64_t address)
{
    if (address)
        gpu->cuda->memory_free(address);
}

int gpu_device_launch(struct gpu_device *gpu, const char *kernel, unsigned blocks, unsigned threads,
                      void **arguments, struct err *err)
{
    void *function = NULL;
    int result = gpu_device_check(gpu, gpu->cuda->module_function(&function, gpu->module, kernel),
                                  kernel, err);

    if (result < 0)
        return result;
    return gpu_device_check(
        gpu,
        gpu->cuda->launch(function, blocks, 1, 1, threads, 1, 1, 0, gpu->stream, arguments, NULL),
        kernel, err);
}

int gpu_device_wait(struct gpu_device *gpu, struct err *err)
{
    return gpu_device_check(gpu, gpu->cuda->stream_wait(gpu->stream), "cuStreamSynchronize", err);
}

int gpu_device_fetch(struct gpu_device *gpu, void *to, uint64_t from, size_t bytes, struct err *err)
{
    int result = gpu_device_check(gpu, gpu->cuda->copy_to_host(to, from, bytes, gpu->stream),
                                  "cuMemcpyDtoHAsync", err);

    return result < 0 ? result : gpu_device_wait(gpu, err);
}

void gpu_device_failed(const struct gpu_device *gpu, struct verify_report *report,
                       const struct err *err)
{
    verify_result(report, gpu->broken ? CHECK_FAILED : CHECK_UNKNOWN, gpu->label, "%s: %.150s",
                  gpu->pci, err->text);
}

/* ---- which there are ---- */

/* "00000000:3B:00.0" and "0000:3b:00.0" are the same. */
static bool gpu_pci_is(const char *a, const char *b)
{
    unsigned long domain_a = strtoul(a, NULL, 16), domain_b = strtoul(b, NULL, 16);

    a = strchr(a, ':');
    b = strchr(b, ':');
    return a && b && domain_a == domain_b && strcasecmp(a, b) == 0;
}

static int gpu_nvml_index(const struct nvml *nvml, const char *pci)
{
    unsigned count = 0;

    if (!nvml || nvml_count(nvml, &count, NULL) < 0)
        return -1;
    for (unsigned i = 0; i < count; i++) {
        struct nvml_identity identity = { "", "", "", "" };

        if (nvml_identify(nvml, i, &identity, NULL) == 0 && gpu_pci_is(identity.pci, pci))
            return (int)i;
    }
    return -1;
}

static int gpu_device_find(const struct gpu_devices *devices, int ordinal, struct gpu_device *gpu,
                           struct err *err)
{
    const struct cuda *cuda = &devices->cuda;
    int result;

    *gpu = (struct gpu_device){ .cuda = cuda };
    result = cuda_check(cuda, cuda->device_get(&gpu->ordinal, ordinal), "cuDeviceGet", err);
    if (result == 0)
        result = cuda_check(cuda, cuda->device_name(gpu->name, sizeof(gpu->name), gpu->ordinal),
                            "cuDeviceGetName", err);
    if (result == 0)
        result = cuda_check(cuda, cuda->device_pci(gpu->pci, sizeof(gpu->pci), gpu->ordinal),
                            "cuDeviceGetPCIBusId", err);
    if (result == 0)
        result = cuda_check(
            cuda, cuda->device_attribute(&gpu->sms, CUDA_ATTRIBUTE_MULTIPROCESSORS, gpu->ordinal),
            "cuDeviceGetAttribute", err);
    if (result == 0)
        result = cuda_check(cuda,
                            cuda->device_attribute(&gpu->major, CUDA_ATTRIBUTE_MAJOR, gpu->ordinal),
                            "cuDeviceGetAttribute", err);
    gpu->nvml = result == 0 ? gpu_nvml_index(devices->nvml, gpu->pci) : -1;
    snprintf(gpu->label, sizeof(gpu->label), "gpu %d", gpu->nvml >= 0 ? gpu->nvml : ordinal);
    return result;
}

static int gpu_devices_load(struct gpu_devices *devices, const struct verify_place *place,
                            int *count, struct err *err)
{
    char path[PATH_MAX];
    const char *library = gpu_library_path(place, place->cuda, CUDA_LIBRARY, path);
    int result = library_open(library ? library : CUDA_LIBRARY, &devices->library, err);

    if (result == 0)
        result = cuda_load(&devices->cuda, library_find, devices->library, err);
    if (result == 0)
        result = cuda_check(&devices->cuda, devices->cuda.init(0), "cuInit", err);
    if (result == 0)
        result = cuda_check(&devices->cuda, devices->cuda.driver_version(&devices->driver),
                            "cuDriverGetVersion", err);
    if (result == 0)
        result =
            cuda_check(&devices->cuda, devices->cuda.device_count(count), "cuDeviceGetCount", err);
    return result;
}

bool gpu_devices_open(struct gpu_devices *devices, const struct verify_place *place,
                      struct verify_report *report)
{
    char path[PATH_MAX];
    struct err err = { "" };
    int count = 0, result;

    *devices = (struct gpu_devices){ .count = 0 };
    unsetenv(
        "CUDA_VISIBLE_DEVICES"); /* this is a process of its own, and it looks at all of them */
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    result = gpu_devices_load(devices, place, &count, &err);
    if (result < 0 || count <= 0) {
        gpu_report_none(place, report, result < 0 ? err.text : "the driver has no GPU");
        gpu_devices_close(devices);
        return false;
    }
    nvml_open(gpu_library_path(place, place->nvml, NVML_LIBRARY, path), &devices->nvml, NULL);
    devices->count = (unsigned)MIN(count, GPUS_MAX);
    for (unsigned i = 0; i < devices->count; i++) {
        result = gpu_device_find(devices, (int)i, &devices->gpu[i], &err);
        if (result < 0) {
            gpu_device_failed(&devices->gpu[i], report, &err);
            gpu_devices_close(devices);
            return false;
        }
    }
    return true;
}

void gpu_devices_close(struct gpu_devices *devices)
{
    for (unsigned i = 0; i < devices->count; i++)
        gpu_device_close(&devices->gpu[i]);
    nvml_close(devices->nvml);
    library_close(devices->library);
    *devices = (struct gpu_devices){ .count = 0 };
}

/* ---- one ---- */

static bool gpu_device_has_process(const struct gpu_devices *devices, const struct gpu_device *gpu,
                                   char *why, size_t room)
{
    struct nvml_process process[NVML_PROCESSES];
    int count = nvml_processes_read(devices->nvml, (unsigned)gpu->nvml, process);

    if (count < 0) {
        snprintf(why, room,
                 "NVML does not list its processes, so whether it is in use is not known");
        return true;
    }
    for (int i = 0; i < count; i++) {
        if (process[i].pid == (uint32_t)getpid())
            continue;
        snprintf(why, room, "in use by process %u", process[i].pid);
        return true;
    }
    return false;
}

/* By load and memory. */
static bool gpu_device_is_loaded(const struct gpu_devices *devices, const struct gpu_device *gpu,
                                 char *why, size_t room)
{
    struct nvml_sample sample = { 0 };
    struct err err = { "" };

    if (nvml_read(devices->nvml, (unsigned)gpu->nvml, &sample, &err) < 0) {
        snprintf(why, room, "%.100s", err.text);
        return true;
    }
    if (nvml_has(&sample, NVML_GPU_BUSY_PERCENT) &&
        sample.value[NVML_GPU_BUSY_PERCENT] > BUSY_PERCENT) {
        snprintf(why, room, "%lld %% busy", (long long)sample.value[NVML_GPU_BUSY_PERCENT]);
        return true;
    }
    if (nvml_has(&sample, NVML_MEMORY_USED_BYTES) &&
        sample.value[NVML_MEMORY_USED_BYTES] > USED_BYTES_MAX) {
        snprintf(why, room, "%lld MiB are in use by a process that NVML does not list",
                 (long long)(sample.value[NVML_MEMORY_USED_BYTES] >> 20));
        return true;
    }
    return false;
}

/* Who uses it, or why that is not known.  False: nobody. */
static bool gpu_device_is_busy(const struct gpu_devices *devices, const struct gpu_device *gpu,
                               char *why, size_t room)
{
    const struct timespec turn = time_spec(BUSY_TURN_NS);

    if (gpu->nvml < 0) {
        snprintf(why, room, "NVML does not know it, so whether it is in use is not known");
        return true;
    }
    for (int i = 0; i < BUSY_TURNS; i++) {
        if (gpu_device_has_process(devices, gpu, why, room))
            return true;
        if (!gpu_device_is_loaded(devices, gpu, why, room))
            return false;
        nanosleep(&turn, NULL);
    }
    return true;
}

static int gpu_device_start(struct gpu_device *gpu, struct err *err)
{
    const struct cuda *cuda = gpu->cuda;
    size_t total;
    int result = gpu_device_check(gpu, cuda->context_retain(&gpu->context, gpu->ordinal),
                                  "cuDevicePrimaryCtxRetain", err);

    if (result < 0) {
        gpu->context = NULL;
        return result;
    }
    result = gpu_device_enter(gpu, err);
    if (result < 0)
        return result;
    result = gpu_device_check(gpu, cuda->module_load(&gpu->module, gpu_kernels_ptx, 0, NULL, NULL),
                              "cuModuleLoadDataEx", err);
    if (result == 0)
        result = gpu_device_check(gpu, cuda->stream_create(&gpu->stream, CUDA_STREAM_NON_BLOCKING),
                                  "cuStreamCreate", err);
    if (result == 0)
        result =
            gpu_device_check(gpu, cuda->memory_info(&gpu->free_bytes, &total), "cuMemGetInfo", err);
    if (result < 0)
        gpu_device_leave(gpu);
    return result;
}

bool gpu_device_open(const struct gpu_devices *devices, struct gpu_device *gpu,
                     struct verify_report *report)
{
    char why[120];
    struct err err = { "" };

    if (!devices->shared && gpu_device_is_busy(devices, gpu, why, sizeof(why))) {
        verify_result(report, CHECK_UNKNOWN, gpu->label, "%s: not tested: %s", gpu->pci, why);
        return false;
    }
    if (gpu->major < GPU_CAPABILITY) {
        verify_result(report, CHECK_UNKNOWN, gpu->label,
                      "%s: %s has compute capability %d, and the kernels need %d", gpu->pci,
                      gpu->name, gpu->major, GPU_CAPABILITY);
        return false;
    }
    if (gpu_device_start(gpu, &err) < 0) {
        gpu_device_failed(gpu, report, &err);
        gpu_device_close(gpu);
        return false;
    }
    return true;
}

void gpu_device_close(struct gpu_device *gpu)
{
    void *context;

    if (gpu->context && (gpu->stream || gpu->module) &&
        gpu->cuda->context_push(gpu->context) == CUDA_SUCCESS) {
        if (gpu->stream)
            gpu->cuda->stream_destroy(gpu->stream);
        if (gpu->module)
            gpu->cuda->module_unload(gpu->module);
        gpu->cuda->context_pop(&context);
    }
    if (gpu->context)
        gpu->cuda->context_release(gpu->ordinal);
    gpu->context = gpu->stream = gpu->module = NULL;
}
