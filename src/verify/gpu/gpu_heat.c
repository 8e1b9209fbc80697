/* gpu_heat.c - does a GPU under load run hotter or slower than its peers?
 *
 * All GPUs compute at once, as in training, since they share the air and the power of the machine.  Clocks, power and temperature
 * are read meanwhile.  A GPU that lowers its clocks because it is too hot is named in any case; one that is only hotter or slower
 * than the others of its model is named where there are three or more, and where it uses as much power as they do.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/kernel/gpu_kernels.h"
#include "judge/median.h"
#include "verify/checks.h"
#include "verify/gpu/gpu_devices.h"

#define PEERS_MIN 3
#define HOTTER_C                                                                                   \
    12 /* of GPUs in one air stream the last is warmer than the first, but not by so much */
#define POWER_SHARE 0.9 /* a GPU that uses less power has a reason to be cool */
#define CLOCK_SHARE 0.9
#define BLOCKS_PER_SM 8
#define LOOK_NS (500 * NS_PER_MS)
#define QUEUED 4 /* launches under way, so that no GPU waits for us */
#define FAULTY_REASONS (NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_THERMAL | NVML_REASON_POWER_BRAKE)

struct heat_gpu {
    struct gpu_device *device;
    bool loaded; /* it has taken part to the end */
    uint64_t memory;
    unsigned samples;
    double hottest_c, power_w,
        clock_mhz; /* the latter two: sums of the samples of the second half */
    unsigned counted;
    uint64_t reasons;
};

struct heat_test {
    struct gpu_devices devices;
    struct heat_gpu gpu[GPUS_MAX];
    struct verify_report *report;
};

/* ---- load ---- */

static int heat_load(struct heat_gpu *gpu, struct err *err)
{
    uint32_t seed = 1, rounds = GPU_ROUNDS_MAX, mode = GPU_ENTROPY, flip = 0;
    void *arguments[] = { &gpu->memory, &seed, &rounds, &mode, &flip };
    unsigned blocks = (unsigned)gpu->device->sms * BLOCKS_PER_SM;
    int result = gpu_device_enter(gpu->device, err);

    if (result < 0)
        return result;
    for (int i = 0; i < QUEUED && result == 0; i++)
        result = gpu_device_launch(gpu->device, gpu_kernel_name(GPU_BF16), blocks, GPU_THREADS,
                                   arguments, err);
    gpu_device_leave(gpu->device);
    return result;
}

static void heat_begin(struct heat_test *test, unsigned i)
{
    struct heat_gpu *gpu = &test->gpu[i];
    struct err err = { "" };
    size_t bytes;

    gpu->device = &test->devices.gpu[i];
    if (!gpu_device_open(&test->devices, gpu->device, test->report))
        return;
    bytes = (size_t)gpu->device->sms * BLOCKS_PER_SM * GPU_BLOCK_WORDS * sizeof(uint32_t);
    gpu->loaded = gpu_device_memory(gpu->device, bytes, &gpu->memory, &err) == 0;
    if (!gpu->loaded)
        gpu_device_failed(gpu->device, test->report, &err);
    gpu_device_leave(gpu->device);
}

static void heat_look(struct heat_test *test, struct heat_gpu *gpu, bool second_half)
{
    struct nvml_sample sample = { 0 };

    if (!gpu->loaded ||
        nvml_read(test->devices.nvml, (unsigned)gpu->device->nvml, &sample, NULL) < 0)
        return;
    gpu->samples++;
    if (nvml_has(&sample, NVML_TEMPERATURE_C))
        gpu->hottest_c = MAX(gpu->hottest_c, (double)sample.value[NVML_TEMPERATURE_C]);
    if (nvml_has(&sample, NVML_CLOCK_REASONS))
        gpu->reasons |= (uint64_t)sample.value[NVML_CLOCK_REASONS];
    if (!second_half || !nvml_has(&sample, NVML_POWER_MW) || !nvml_has(&sample, NVML_SM_CLOCK_MHZ))
        return;
    gpu->counted++;
    gpu->power_w += (double)sample.value[NVML_POWER_MW] / 1000;
    gpu->clock_mhz += (double)sample.value[NVML_SM_CLOCK_MHZ];
}

/* Keeps all of them at work; waits for what was begun before more is begun. */
static void heat_turn(struct heat_test *test)
{
    for (unsigned i = 0; i < test->devices.count; i++) {
        struct heat_gpu *gpu = &test->gpu[i];
        struct err err = { "" };
        int result = 0;

        if (!gpu->loaded)
            continue;
        if (gpu->device->cuda->stream_query(gpu->device->stream) == CUDA_ERROR_NOT_READY)
            continue;
        result = heat_load(gpu, &err);
        if (result < 0) {
            gpu->loaded = false;
            gpu_device_failed(gpu->device, test->report, &err);
        }
    }
}

static void heat_run(struct heat_test *test, int64_t time_ns)
{
    const struct timespec nap = time_spec(2 * NS_PER_MS);
    int64_t began_ns = time_mono_ns(), look_ns = began_ns + LOOK_NS, now_ns;

    for (now_ns = began_ns; now_ns - began_ns < time_ns; now_ns = time_mono_ns()) {
        heat_turn(test);
        nanosleep(&nap, NULL);
        if (now_ns < look_ns)
            continue;
        look_ns = now_ns + LOOK_NS;
        for (unsigned i = 0; i < test->devices.count; i++)
            heat_look(test, &test->gpu[i], now_ns - began_ns >= time_ns / 2);
    }
    for (unsigned i = 0; i < test->devices.count; i++)
        heat_look(test, &test->gpu[i], true); /* also where the time was short */
}

static void heat_end(struct heat_gpu *gpu)
{
    if (gpu->device && gpu->device->context && gpu_device_enter(gpu->device, NULL) == 0) {
        gpu_device_wait(gpu->device, NULL);
        gpu_device_free(gpu->device, gpu->memory);
        gpu_device_leave(gpu->device);
    }
    if (gpu->device)
        gpu_device_close(gpu->device);
    if (gpu->counted) {
        gpu->power_w /= gpu->counted;
        gpu->clock_mhz /= gpu->counted;
    }
}

/* ---- judging ---- */

struct heat_peers {
    unsigned count;
    double hottest_c, power_w, clock_mhz; /* medians */
};

static struct heat_peers heat_peers_of(const struct heat_test *test, const struct heat_gpu *gpu)
{
    double hottest[GPUS_MAX], power[GPUS_MAX], clock[GPUS_MAX];
    struct heat_peers peers = { 0 };

    for (unsigned i = 0; i < test->devices.count; i++) {
        const struct heat_gpu *other = &test->gpu[i];

        if (!other->loaded || !other->counted ||
            strcmp(other->device->name, gpu->device->name) != 0)
            continue;
        hottest[peers.count] = other->hottest_c;
        power[peers.count] = other->power_w;
        clock[peers.count++] = other->clock_mhz;
    }
    if (peers.count) {
        peers.hottest_c = median_f64(hottest, peers.count);
        peers.power_w = median_f64(power, peers.count);
        peers.clock_mhz = median_f64(clock, peers.count);
    }
    return peers;
}

static void heat_judge(const struct heat_test *test, const struct heat_gpu *gpu)
{
    struct heat_peers peers = heat_peers_of(test, gpu);
    const char *label = gpu->device->label, *pci = gpu->device->pci;
    struct check *result;

    if (gpu->reasons & FAULTY_REASONS)
        result =
            verify_result(test->report, CHECK_FAILED, label,
                          "%s: its hardware lowered the clocks under load: reasons 0x%llx, "
                          "%.0f C, %.0f MHz",
                          pci, (unsigned long long)gpu->reasons, gpu->hottest_c, gpu->clock_mhz);
    else if (gpu->reasons & NVML_REASON_SW_THERMAL)
        result = verify_result(test->report, CHECK_LIMITED, label,
                               "%s: too hot: the driver lowered its clocks to %.0f MHz at %.0f C",
                               pci, gpu->clock_mhz, gpu->hottest_c);
    else if (peers.count >= PEERS_MIN && gpu->hottest_c > peers.hottest_c + HOTTER_C &&
             gpu->power_w >= POWER_SHARE * peers.power_w)
        result = verify_result(test->report, CHECK_LIMITED, label,
                               "%s: %.0f C at %.0f W, median of %u GPUs %.0f C at %.0f W", pci,
                               gpu->hottest_c, gpu->power_w, peers.count, peers.hottest_c,
                               peers.power_w);
    else if (peers.count >= PEERS_MIN && gpu->clock_mhz < CLOCK_SHARE * peers.clock_mhz)
        result = verify_result(test->report, CHECK_LIMITED, label,
                               "%s: %.0f MHz under load, median of %u GPUs %.0f MHz", pci,
                               gpu->clock_mhz, peers.count, peers.clock_mhz);
    else
        result = verify_result(test->report, CHECK_OK, label, "%.0f C, %.0f W, %.0f MHz under load",
                               gpu->hottest_c, gpu->power_w, gpu->clock_mhz);
    result->has_value = true;
    result->value = gpu->hottest_c;
    snprintf(result->unit, sizeof(result->unit), "C");
}

static void gpu_heat_run(const struct verify_place *place, struct verify_report *report)
{
    static struct heat_test test;
    int64_t time_ns = place->heat_ns                ? place->heat_ns
                      : place->stage == VERIFY_BURN ? place->burn_ns
                                                    : 30 * NS_PER_S;

    memset(&test, 0, sizeof(test));
    test.report = report;
    if (!gpu_devices_open(&test.devices, place, report))
        return;
    for (unsigned i = 0; i < test.devices.count; i++)
        heat_begin(&test, i);
    heat_run(&test, time_ns);
    for (unsigned i = 0; i < test.devices.count; i++)
        heat_end(&test.gpu[i]);
    for (unsigned i = 0; i < test.devices.count; i++) {
        if (test.gpu[i].loaded && test.gpu[i].counted)
            heat_judge(&test, &test.gpu[i]);
        else if (test.gpu[i].loaded)
            verify_result(report, CHECK_UNKNOWN, test.gpu[i].device->label,
                          "%s: NVML reports neither its power nor its clocks",
                          test.gpu[i].device->pci);
    }
    gpu_devices_close(&test.devices);
}

const struct verify_check check_gpu_heat = {
    .name = "gpu-heat",
    .summary = "clocks, power and temperature of all GPUs under load, compared with each other",
    .why = "GPUs of one model in one machine differ by a few degrees; lower clocks slow the whole "
           "job down",
    .advice = "look at fans, air flow and heat sink of the named GPU, and at the power supply",
    .needs = "GPU driver",
    .stage = VERIFY_DEEP,
    .loads = true,
    .limit_ns = { 60 * NS_PER_S, 60 * NS_PER_S, 60 * NS_PER_S, 60 * NS_PER_S },
    .run = gpu_heat_run,
};
