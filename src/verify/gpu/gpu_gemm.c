/* gpu_gemm.c - how fast does each GPU multiply matrices, and is the product right?
 *
 * Twice: by cuBLASLt where that is present, since training multiplies with it, and by the kernel of gpu-arithmetic, which is here on
 * every machine.  The kernel uses instructions that all GPUs have, so it is slower; it stays comparable when a site changes its
 * libraries.  Rates are compared with the profile and with the other GPUs of the machine, one GPU after the other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/kernel/gpu_kernels.h"
#include "verify/checks.h"
#include "verify/gpu/gpu_devices.h"
#include "verify/gpu/gpu_product.h"
#include "verify/measured.h"

#define BLOCKS_PER_SM 8
#define ROUNDS 64
#define WARM_MS 50.0 /* clocks rise with the first products */
#define TIME_MS 30.0
#define TRIES 3       /* the best counts */
#define BEGUN_MAX 256 /* at once: more would only fill the queue of the driver */
#define TERA 1e12
#define GEMM_UNIT "TFLOP/s"

enum gemm_kind {
    GEMM_KERNEL,
    GEMM_LIBRARY,
    GEMMS
};

static const char *const gemm_names[GEMMS] = { "gpu-tensor-rate", "gpu-gemm" };

struct gemm_gpu {
    struct gpu_device *device;
    double rate[GEMMS]; /* TFLOP/s; 0: not measured */
    uint64_t memory;    /* of the kernel's results */
    struct gpu_product product;
};

struct gemm_test {
    struct gpu_devices devices;
    struct cublaslt lt;
    bool has_lt;
    struct gemm_gpu gpu[GPUS_MAX];
    struct verify_report *report;
};

/* ---- one GPU ---- */

static int gemm_begin(struct gemm_gpu *gpu, enum gemm_kind kind, struct err *err)
{
    uint32_t seed = 1, rounds = ROUNDS, mode = GPU_ENTROPY, flip = 0;
    void *arguments[] = { &gpu->memory, &seed, &rounds, &mode, &flip };

    if (kind == GEMM_LIBRARY)
        return gpu_product_begin(&gpu->product, err);
    return gpu_device_launch(gpu->device, gpu_kernel_name(GPU_BF16),
                             (unsigned)gpu->device->sms * BLOCKS_PER_SM, GPU_THREADS, arguments,
                             err);
}

static double gemm_operations(const struct gemm_gpu *gpu, enum gemm_kind kind)
{
    if (kind == GEMM_LIBRARY)
        return gpu_product_operations(&gpu->product);
    return (double)gpu->device->sms * BLOCKS_PER_SM * GPU_WARPS * ROUNDS * GPU_REPEATS * 2 *
           GPU_ROWS * GPU_COLUMNS * gpu_type_depth(GPU_BF16);
}

/* Begins `count` of them between two events, and waits. */
static int gemm_time(struct gemm_gpu *gpu, enum gemm_kind kind, unsigned count,
                     void *const event[2], double *ret_ms, struct err *err)
{
    struct gpu_device *device = gpu->device;
    const struct cuda *cuda = device->cuda;
    float ms = 0;
    int result = gpu_device_check(device, cuda->event_record(event[0], device->stream),
                                  "cuEventRecord", err);

    for (unsigned i = 0; i < count && result == 0; i++)
        result = gemm_begin(gpu, kind, err);
    if (result == 0)
        result = gpu_device_check(device, cuda->event_record(event[1], device->stream),
                                  "cuEventRecord", err);
    if (result == 0)
        result = gpu_device_wait(device, err);
    if (result == 0)
        result = gpu_device_check(device, cuda->event_elapsed(&ms, event[0], event[1]),
                                  "cuEventElapsedTime", err);
    *ret_ms = ms;
    return result;
}

static unsigned gemm_count(double wanted_ms, double one_ms)
{
    if (one_ms <= 0 || wanted_ms >= BEGUN_MAX * one_ms)
        return BEGUN_MAX;
    return wanted_ms > one_ms ? (unsigned)(wanted_ms / one_ms) : 1;
}

static int gemm_measure(struct gemm_gpu *gpu, enum gemm_kind kind, void *const event[2],
                        struct err *err)
{
    double ms = 0;
    unsigned count = 1;
    int result = gemm_time(gpu, kind, count, event, &ms, err);

    if (result == 0)
        result = gemm_time(gpu, kind, count, event, &ms, err); /* the first one loads the kernel */
    if (result == 0) {
        count = gemm_count(WARM_MS, ms);
        result = gemm_time(gpu, kind, count, event, &ms, err);
    }
    count = gemm_count(TIME_MS, ms / count);
    for (int i = 0; i < TRIES && result == 0 && ms > 0; i++) {
        result = gemm_time(gpu, kind, count, event, &ms, err);
        if (result == 0 && ms > 0)
            gpu->rate[kind] =
                MAX(gpu->rate[kind], gemm_operations(gpu, kind) * count / ms * 1e3 / TERA);
    }
    return result;
}

/* The rate by cuBLASLt, and the proof of its product.  That it has no algorithm for this GPU is no fault of the GPU. */
static int gemm_library(struct gemm_test *test, struct gemm_gpu *gpu, void *const event[2],
                        struct err *err)
{
    uint32_t row = 0;
    int result = gpu_product_open(&gpu->product, &test->lt, gpu->device, err);

    if (result == 0)
        result = gemm_measure(gpu, GEMM_LIBRARY, event, err);
    if (result == 0)
        result = gpu_product_check(&gpu->product, &row, err);
    if (result == 0) {
        gpu->rate[GEMM_LIBRARY] = 0; /* the rate of what is wrong says nothing */
        verify_result(test->report, CHECK_FAILED, gpu->device->label,
                      "%s: the product of two matrices by cuBLASLt is wrong, first in row %u of %u",
                      gpu->device->pci, row, gpu->product.rows);
    }
    gpu_product_close(&gpu->product);
    return MIN(result, 0);
}

static int gemm_gpu_run(struct gemm_test *test, struct gemm_gpu *gpu, struct err *err)
{
    struct gpu_device *device = gpu->device;
    size_t bytes = (size_t)device->sms * BLOCKS_PER_SM * GPU_BLOCK_WORDS * sizeof(uint32_t);
    void *event[2] = { NULL, NULL };
    int result = gpu_device_memory(device, bytes, &gpu->memory, err);

    for (int i = 0; i < 2 && result == 0; i++)
        result = gpu_device_check(device, device->cuda->event_create(&event[i], CUDA_EVENT_DEFAULT),
                                  "cuEventCreate", err);
    if (result == 0)
        result = gemm_measure(gpu, GEMM_KERNEL, event, err);
    if (result == 0 && test->has_lt)
        result = gemm_library(test, gpu, event, err);
    for (int i = 0; i < 2; i++) {
        if (event[i])
            device->cuda->event_destroy(event[i]);
    }
    gpu_device_free(device, gpu->memory);
    return result;
}

/* ---- all of them ---- */

static void gemm_report(const struct gemm_test *test, const struct verify_place *place,
                        enum gemm_kind kind)
{
    for (unsigned i = 0; i < test->devices.count; i++) {
        const struct gemm_gpu *gpu = &test->gpu[i];
        double peer[GPUS_MAX];
        unsigned peers = 0;

        if (gpu->rate[kind] <= 0)
            continue;
        for (unsigned j = 0; j < test->devices.count; j++) {
            if (test->gpu[j].rate[kind] > 0 &&
                strcmp(gpu->device->name, test->gpu[j].device->name) == 0)
                peer[peers++] = test->gpu[j].rate[kind];
        }
        measured_compare(measured_result(test->report, place->profile, gemm_names[kind],
                                         gpu->device->label, gpu->rate[kind], GEMM_UNIT),
                         peer, peers);
    }
}

static void gemm_library_open(struct gemm_test *test, const struct verify_place *place)
{
    struct err err = { "" };
    struct check *result;
    int opened = gpu_product_library(&test->lt, place, &err);

    test->has_lt = opened == 0;
    if (opened == 0)
        return;
    result = verify_result(test->report, opened == -ENOENT ? VERIFY_NOT_APPLICABLE : CHECK_UNKNOWN,
                           "", "%.190s", err.text);
    snprintf(result->name, sizeof(result->name), "%s", gemm_names[GEMM_LIBRARY]);
}

static void gpu_gemm_run(const struct verify_place *place, struct verify_report *report)
{
    static struct gemm_test test;

    memset(&test, 0, sizeof(test));
    test.report = report;
    if (!gpu_devices_open(&test.devices, place, report))
        return;
    gemm_library_open(&test, place);
    for (unsigned i = 0; i < test.devices.count; i++) {
        struct gpu_device *device = &test.devices.gpu[i];
        struct err err = { "" };

        test.gpu[i].device = device;
        if (!gpu_device_open(&test.devices, device, report))
            continue;
        if (gemm_gpu_run(&test, &test.gpu[i], &err) < 0)
            gpu_device_failed(device, report, &err);
        gpu_device_leave(device);
        gpu_device_close(device);
    }
    for (unsigned kind = 0; kind < GEMMS; kind++)
        gemm_report(&test, place, (enum gemm_kind)kind);
    cublaslt_close(&test.lt);
    gpu_devices_close(&test.devices);
}

const struct verify_check check_gpu_gemm = {
    .name = "gpu-gemm",
    .summary =
        "how fast each GPU multiplies matrices, by cuBLASLt where it is present and by an own "
        "kernel, and whether the product is right",
    .why = "good GPUs of one model differ by a few percent; one that multiplies slower delays the "
           "whole job",
    .advice = "look at clocks, power limit and temperature of the named GPU under load (lockstep "
              "check --only gpu-heat)",
    .needs = "GPU driver",
    .stage = VERIFY_DEEP,
    .loads = true,
    .limit_ns = { 60 * NS_PER_S, 60 * NS_PER_S, 60 * NS_PER_S, 60 * NS_PER_S },
    .run = gpu_gemm_run,
};
