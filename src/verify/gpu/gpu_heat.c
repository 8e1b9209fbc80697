/* gpu_heat.c - does a GPU under load run hotter or slower than its peers?
 *
 * All GPUs compute at once, as in training, since they share the air and the power of the machine: products of matrices by cuBLASLt
 * where that is present, else the kernel of gpu-arithmetic.  Clocks, power and temperature are read meanwhile.  A GPU that lowers its
 * clocks because it is too hot is named in any case; one that is only hotter or slower than the others of its model is named where there
 * are three or more, and where it uses as much power as they do.
 *
 * Whether the temperature was steady at the end is reported; a burn that ended before that has not shown what it is for, so it is
 * unknown.
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
#include "verify/gpu/gpu_product.h"
#include "verify/measured.h"

#define PEERS_MIN 3
#define HOTTER_C                                                                                   \
    12 /* of GPUs in one air stream the last is warmer than the first, but not by so much */
#define POWER_SHARE 0.9 /* a GPU that uses less power has a reason to be cool */
#define CLOCK_SHARE 0.9
#define BLOCKS_PER_SM 8
#define LOOK_NS (500 * NS_PER_MS) /* at most between two looks */
#define LOOKS 32                  /* at least, where the time allows */
#define QUEUED 16                 /* launches at once */
#define STEADY_C                                                                                   \
    1.5 /* by which the mean of the last quarter of the time may be above that of the one before */
#define QUARTERS 4
#define SUSTAINED_NS NS_PER_S /* a rate over less says nothing */
#define TERA 1e12
#define FAULTY_REASONS (NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_THERMAL | NVML_REASON_POWER_BRAKE)
#define HOT_REASONS (FAULTY_REASONS | NVML_REASON_SW_THERMAL)

struct heat_gpu {
    struct gpu_device *device;
    bool loaded; /* it has taken part to the end */
    uint64_t memory;
    struct gpu_product product; /* .device NULL: none, the own kernel is the load */
    void *event;                /* when it is over, more is begun */
    double hottest_c, power_w,
        clock_mhz; /* the latter two: sums of the samples of the second half */
    unsigned counted;
    double quarter_c[QUARTERS]; /* sums of temperatures, and how many */
    unsigned quarters[QUARTERS];
    uint64_t reasons;
    double reasons_s;       /* when there was the first one of them that is a fault */
    double rows;            /* of the matrices; 0: the own kernel */
    uint64_t ended;         /* half loads in the second half of the time */
    int64_t from_ns, to_ns; /* the first and the last of these */
};

struct heat_test {
    struct gpu_devices devices;
    struct cublaslt lt;
    bool has_lt, burns;
    struct heat_gpu gpu[GPUS_MAX];
    struct verify_report *report;
    const struct machine_profile *profile;
};

/* ---- load ---- */

static int heat_launch(struct heat_gpu *gpu, struct err *err)
{
    uint32_t seed = 1, rounds = GPU_ROUNDS_MAX, mode = GPU_ENTROPY, flip = 0;
    void *arguments[] = { &gpu->memory, &seed, &rounds, &mode, &flip };

    if (gpu->product.device)
        return gpu_product_begin(&gpu->product, err);
    return gpu_device_launch(gpu->device, gpu_kernel_name(GPU_BF16),
                             (unsigned)gpu->device->sms * BLOCKS_PER_SM, GPU_THREADS, arguments,
                             err);
}

/* Begins as much as is still under way: when the event before it is over, only this is left, and more is begun. */
static int heat_load(struct heat_gpu *gpu, struct err *err)
{
    int result = gpu_device_enter(gpu->device, err);

    if (result < 0)
        return result;
    result = gpu_device_check(gpu->device,
                              gpu->device->cuda->event_record(gpu->event, gpu->device->stream),
                              "cuEventRecord", err);
    for (int i = 0; i < QUEUED && result == 0; i++)
        result = heat_launch(gpu, err);
    gpu_device_leave(gpu->device);
    return result;
}

static int heat_prepare(struct heat_test *test, struct heat_gpu *gpu, struct err *err)
{
    struct gpu_device *device = gpu->device;
    size_t bytes = (size_t)device->sms * BLOCKS_PER_SM * GPU_BLOCK_WORDS * sizeof(uint32_t);
    int result = gpu_device_memory(device, bytes, &gpu->memory, err);

    if (result == 0)
        result =
            gpu_device_check(device, device->cuda->event_create(&gpu->event, CUDA_EVENT_DEFAULT),
                             "cuEventCreate", err);
    /* Without it the own kernel is load enough; an error of the GPU shows there as well. */
    if (result == 0 && test->has_lt)
        gpu_product_open(&gpu->product, &test->lt, device, NULL);
    gpu->rows = gpu->product.rows;
    for (int i = 0; i < QUEUED && result == 0; i++)
        result = heat_launch(gpu, err);
    return result;
}

static void heat_begin(struct heat_test *test, unsigned i)
{
    struct heat_gpu *gpu = &test->gpu[i];
    struct err err = { "" };

    gpu->device = &test->devices.gpu[i];
    if (!gpu_device_open(&test->devices, gpu->device, test->report))
        return;
    gpu->loaded = heat_prepare(test, gpu, &err) == 0;
    if (!gpu->loaded)
        gpu_device_failed(gpu->device, test->report, &err);
    gpu_device_leave(gpu->device);
}

static void heat_look(struct heat_test *test, struct heat_gpu *gpu, double share, double seconds)
{
    unsigned quarter = (unsigned)MIN(share * QUARTERS, QUARTERS - 1.0);
    struct nvml_sample sample = { 0 };

    if (!gpu->loaded ||
        nvml_read(test->devices.nvml, (unsigned)gpu->device->nvml, &sample, NULL) < 0)
        return;
    if (nvml_has(&sample, NVML_TEMPERATURE_C)) {
        gpu->hottest_c = MAX(gpu->hottest_c, (double)sample.value[NVML_TEMPERATURE_C]);
        gpu->quarter_c[quarter] += (double)sample.value[NVML_TEMPERATURE_C];
        gpu->quarters[quarter]++;
    }
    if (nvml_has(&sample, NVML_CLOCK_REASONS)) {
        uint64_t reasons = (uint64_t)sample.value[NVML_CLOCK_REASONS];

        if (reasons & HOT_REASONS && !(gpu->reasons & HOT_REASONS))
            gpu->reasons_s = seconds;
        gpu->reasons |= reasons;
    }
    if (share < 0.5 || !nvml_has(&sample, NVML_POWER_MW) || !nvml_has(&sample, NVML_SM_CLOCK_MHZ))
        return;
    gpu->counted++;
    gpu->power_w += (double)sample.value[NVML_POWER_MW] / 1000;
    gpu->clock_mhz += (double)sample.value[NVML_SM_CLOCK_MHZ];
}

/* Keeps all of them at work: more is begun while what was begun before still runs. */
static void heat_turn(struct heat_test *test, bool second_half)
{
    for (unsigned i = 0; i < test->devices.count; i++) {
        struct heat_gpu *gpu = &test->gpu[i];
        struct err err = { "" };

        if (!gpu->loaded || gpu->device->cuda->event_query(gpu->event) == CUDA_ERROR_NOT_READY)
            continue;
        if (second_half) {
            gpu->to_ns = time_mono_ns();
            gpu->from_ns = gpu->from_ns ? gpu->from_ns : gpu->to_ns;
            gpu->ended += gpu->to_ns > gpu->from_ns;
        }
        if (heat_load(gpu, &err) < 0) {
            gpu->loaded = false;
            gpu_device_failed(gpu->device, test->report, &err);
        }
    }
}

static void heat_run(struct heat_test *test, int64_t time_ns)
{
    const struct timespec nap = time_spec(2 * NS_PER_MS);
    int64_t every_ns = MIN(LOOK_NS, time_ns / LOOKS), began_ns = time_mono_ns(), now_ns;
    int64_t look_ns = began_ns + every_ns;

    for (now_ns = began_ns; now_ns - began_ns < time_ns; now_ns = time_mono_ns()) {
        heat_turn(test, now_ns - began_ns >= time_ns / 2);
        nanosleep(&nap, NULL);
        if (now_ns < look_ns)
            continue;
        look_ns = now_ns + every_ns;
        for (unsigned i = 0; i < test->devices.count; i++)
            heat_look(test, &test->gpu[i], (double)(now_ns - began_ns) / (double)time_ns,
                      (double)(now_ns - began_ns) / 1e9);
    }
    for (unsigned i = 0; i < test->devices.count; i++) /* also where the time was short */
        heat_look(test, &test->gpu[i], 1, (double)time_ns / 1e9);
}

static void heat_end(struct heat_gpu *gpu)
{
    if (gpu->device && gpu->device->context && gpu_device_enter(gpu->device, NULL) == 0) {
        gpu_device_wait(gpu->device, NULL);
        gpu_product_close(&gpu->product);
        if (gpu->event)
            gpu->device->cuda->event_destroy(gpu->event);
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

/* By how much the temperature rose from the third to the last quarter.  False: too few samples to say. */
static bool heat_rise(const struct heat_gpu *gpu, double *ret_c)
{
    if (!gpu->quarters[QUARTERS - 2] || !gpu->quarters[QUARTERS - 1])
        return false;
    *ret_c = gpu->quarter_c[QUARTERS - 1] / gpu->quarters[QUARTERS - 1] -
             gpu->quarter_c[QUARTERS - 2] / gpu->quarters[QUARTERS - 2];
    return true;
}

/* Nothing is wrong with it; whether that holds for ever depends on whether it still became hotter. */
static struct check *heat_sound(const struct heat_test *test, const struct heat_gpu *gpu)
{
    double rise = 0;
    bool known = heat_rise(gpu, &rise), steady = known && rise <= STEADY_C;
    char how[60] = "";

    if (steady)
        snprintf(how, sizeof(how), ", steady");
    else if (known)
        snprintf(how, sizeof(how), ", still rising: %.1f C in the last quarter", rise);
    return verify_result(test->report, test->burns && !steady ? CHECK_UNKNOWN : CHECK_OK,
                         gpu->device->label, "%.0f C, %.0f W, %.0f MHz under load%s%s",
                         gpu->hottest_c, gpu->power_w, gpu->clock_mhz, how,
                         test->burns && !steady ? "; the time was too short for steady heat" : "");
}

static void heat_judge(const struct heat_test *test, const struct heat_gpu *gpu)
{
    struct heat_peers peers = heat_peers_of(test, gpu);
    const char *label = gpu->device->label, *pci = gpu->device->pci;
    struct check *result;

    if (gpu->reasons & FAULTY_REASONS)
        result = verify_result(test->report, CHECK_FAILED, label,
                               "%s: its hardware lowered the clocks after %.0f s of load: reasons "
                               "0x%llx, %.0f C, %.0f MHz",
                               pci, gpu->reasons_s, (unsigned long long)gpu->reasons,
                               gpu->hottest_c, gpu->clock_mhz);
    else if (gpu->reasons & NVML_REASON_SW_THERMAL)
        result = verify_result(test->report, CHECK_LIMITED, label,
                               "%s: too hot: the driver lowered its clocks after %.0f s of load, "
                               "to %.0f MHz at %.0f C",
                               pci, gpu->reasons_s, gpu->clock_mhz, gpu->hottest_c);
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
        result = heat_sound(test, gpu);
    result->has_value = true;
    result->value = gpu->hottest_c;
    snprintf(result->unit, sizeof(result->unit), "C");
}

/* What is left of the rate of gpu-gemm when the machine is hot; 0: not measured. */
static double heat_sustained(const struct heat_gpu *gpu)
{
    if (!gpu->loaded || gpu->rows <= 0 || gpu->to_ns - gpu->from_ns < SUSTAINED_NS)
        return 0;
    return (double)gpu->ended * QUEUED * 2 * gpu->rows * gpu->rows * gpu->rows /
           ((double)(gpu->to_ns - gpu->from_ns) / 1e9) / TERA;
}

static void heat_judge_rates(const struct heat_test *test)
{
    for (unsigned i = 0; i < test->devices.count; i++) {
        const struct heat_gpu *gpu = &test->gpu[i];
        double own = heat_sustained(gpu), peer[GPUS_MAX];
        unsigned peers = 0;

        if (own <= 0)
            continue;
        for (unsigned j = 0; j < test->devices.count; j++) {
            double rate = heat_sustained(&test->gpu[j]);

            if (rate > 0 && strcmp(test->gpu[j].device->name, gpu->device->name) == 0)
                peer[peers++] = rate;
        }
        measured_compare(measured_result(test->report, test->profile, "gpu-gemm-sustained",
                                         gpu->device->label, own, "TFLOP/s"),
                         peer, peers);
    }
}

static void gpu_heat_run(const struct verify_place *place, struct verify_report *report)
{
    static struct heat_test test;
    int64_t time_ns = place->heat_ns                ? place->heat_ns
                      : place->stage == VERIFY_BURN ? place->burn_ns
                                                    : 30 * NS_PER_S;

    memset(&test, 0, sizeof(test));
    test.report = report;
    test.profile = place->profile;
    test.burns = place->stage == VERIFY_BURN;
    if (!gpu_devices_open(&test.devices, place, report))
        return;
    test.has_lt = gpu_product_library(&test.lt, place, NULL) == 0;
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
    heat_judge_rates(&test);
    cublaslt_close(&test.lt);
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
