/* gpu_memory.c - does the memory of every GPU return what was written?
 *
 * Words are filled with a pattern of their index, compared, and once more with all bits inverted, so that each bit held both values
 * and a wrong address shows as well as a wrong bit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/kernel/gpu_kernels.h"
#include "verify/checks.h"
#include "verify/gpu/gpu_devices.h"

#define BLOCKS_PER_SM 4
#define PROLOG_BYTES ((size_t)4 << 30)
#define FREE_PERCENT 90 /* of what is free, at stage deep; the driver needs some as well */
#define PASSES 2        /* with other patterns; each twice, inverted */

struct memory_fault {
    uint64_t words, first, bits;
};

struct memory_part {
    uint64_t at, words;
};

static int memory_pass(struct gpu_device *gpu, struct memory_part part, uint64_t seed,
                       uint64_t invert, struct memory_fault *ret, struct err *err)
{
    unsigned blocks = (unsigned)gpu->sms * BLOCKS_PER_SM;
    size_t threads = (size_t)blocks * GPU_THREADS,
           bytes = threads * GPU_MEMORY_WORDS * sizeof(uint64_t);
    CLEAN(free_clean) uint64_t *out = malloc(bytes);
    uint64_t results = 0;
    void *fill[] = { &part.at, &part.words, &seed, &invert };
    void *compare[] = { &part.at, &part.words, &seed, &invert, &results };
    int result = out ? gpu_device_memory(gpu, bytes, &results, err) : err_nomem(err);

    if (result == 0)
        result = gpu_device_launch(gpu, GPU_KERNEL_FILL, blocks, GPU_THREADS, fill, err);
    if (result == 0)
        result = gpu_device_launch(gpu, GPU_KERNEL_COMPARE, blocks, GPU_THREADS, compare, err);
    if (result == 0)
        result = gpu_device_fetch(gpu, out, results, bytes, err);
    for (size_t i = 0; i < threads && result == 0; i++) {
        const uint64_t *own = out + i * GPU_MEMORY_WORDS;

        if (own[0] && (!ret->words || own[1] < ret->first))
            ret->first = own[1];
        ret->words += own[0];
        ret->bits |= own[2];
    }
    gpu_device_free(gpu, results);
    return result;
}

static int memory_gpu(struct gpu_device *gpu, size_t bytes, struct memory_fault *ret,
                      struct err *err)
{
    uint64_t at = 0;
    int result = gpu_device_memory(gpu, bytes, &at, err);

    for (uint64_t pass = 0; pass < PASSES && result == 0; pass++) {
        for (int inverted = 0; inverted < 2 && result == 0; inverted++)
            result = memory_pass(gpu, (struct memory_part){ at, bytes / sizeof(uint64_t) },
                                 pass << 40, inverted ? UINT64_MAX : 0, ret, err);
    }
    gpu_device_free(gpu, at);
    return result;
}

static void memory_report(const struct gpu_device *gpu, size_t bytes,
                          const struct memory_fault *fault, struct verify_report *report)
{
    struct check *result;

    if (fault->words)
        result = verify_result(report, CHECK_FAILED, gpu->label,
                               "%s: memory returned other bits than were written: %llu words, the "
                               "first at byte %llu of %zu, bits %016llx",
                               gpu->pci, (unsigned long long)fault->words,
                               (unsigned long long)fault->first * sizeof(uint64_t), bytes,
                               (unsigned long long)fault->bits);
    else
        result = verify_result(report, CHECK_OK, gpu->label, "%zu MiB returned what was written",
                               bytes >> 20);
    result->has_value = true;
    result->value = (double)fault->words;
    snprintf(result->unit, sizeof(result->unit), "words");
}

static void gpu_memory_run(const struct verify_place *place, struct verify_report *report)
{
    static struct gpu_devices devices;

    if (!gpu_devices_open(&devices, place, report))
        return;
    for (unsigned i = 0; i < devices.count; i++) {
        struct gpu_device *gpu = &devices.gpu[i];
        struct memory_fault fault = { 0 };
        struct err err = { "" };
        size_t bytes;

        if (!gpu_device_open(&devices, gpu, report))
            continue;
        bytes = gpu->free_bytes / 100 * FREE_PERCENT;
        if (place->stage < VERIFY_DEEP)
            bytes = MIN(bytes, PROLOG_BYTES);
        bytes &= ~(size_t)4095;
        if (memory_gpu(gpu, bytes, &fault, &err) < 0)
            gpu_device_failed(gpu, report, &err);
        else
            memory_report(gpu, bytes, &fault, report);
        gpu_device_leave(gpu);
        gpu_device_close(gpu);
    }
    gpu_devices_close(&devices);
}

const struct verify_check check_gpu_memory = {
    .name = "gpu-memory",
    .summary =
        "the memory of every GPU returns what was written: 4 GiB, at stage deep 90 % of what "
        "is free",
    .why = "memory with ECC returns what was written or an error; other bits are a fault",
    .advice = "look at ECC errors and remapped rows (nvidia-smi -q -d ECC,ROW_REMAPPER); have the "
              "GPU replaced",
    .needs = "GPU driver",
    .stage = VERIFY_PROLOG,
    .loads = true,
    .limit_ns = { 20 * NS_PER_S, 20 * NS_PER_S, 120 * NS_PER_S, 120 * NS_PER_S },
    .run = gpu_memory_run,
};
