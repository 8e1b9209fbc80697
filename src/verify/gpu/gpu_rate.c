/* gpu_rate.c - how fast each GPU copies in its memory, over PCIe and to the other GPUs.
 *
 * To the others it copies over NVLink where there is one, else over PCIe: the best of its partners counts, since those on another
 * socket are farther away.  GPUs that cannot access each other's memory copy through the host, which says nothing, and are left out.
 *
 * A rate is compared with the profile, and with the other GPUs of the machine: of three or more of one model the slow one is named
 * without a profile.  GPUs are measured one after the other, so that none takes the rate of another.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/clean.h"
#include "core/time.h"
#include "verify/checks.h"
#include "verify/gpu/gpu_devices.h"
#include "verify/measured.h"

#define COPY_BYTES ((size_t)256 << 20)
#define FREE_SHARE 4 /* of what is free, each of two buffers may use one part in so many */
#define PEER_BYTES ((size_t)64 << 20) /* there are many pairs */
#define COPIES 8
#define TRIES 3 /* the best counts: clocks rise with the first copies */

enum rate_kind {
    RATE_MEMORY,
    RATE_TO,
    RATE_FROM,
    RATE_PEER, /* needs two GPUs at once */
    RATES
};

static const char *const rate_names[RATES] = { "gpu-memory-rate", "pcie-to-gpu", "pcie-from-gpu",
                                               "gpu-to-gpu" };

struct rate_gpu {
    struct gpu_device *device;
    bool known, open;
    double gb[RATES]; /* GB/s; 0: not measured */
    uint64_t buffer;  /* while GPUs copy to each other */
};

struct rate_buffers {
    void *host;
    uint64_t from, to;
    size_t bytes;
    void *begin, *end; /* events */
    void *to_context;  /* of the GPU that a copy goes to */
};

static int rate_copy(struct gpu_device *gpu, const struct rate_buffers *buffers, unsigned kind)
{
    switch (kind) {
    case RATE_MEMORY:
        return gpu->cuda->copy_on_device(buffers->to, buffers->from, buffers->bytes, gpu->stream);
    case RATE_TO:
        return gpu->cuda->copy_to_device(buffers->to, buffers->host, buffers->bytes, gpu->stream);
    case RATE_PEER:
        return gpu->cuda->copy_peer(buffers->to, buffers->to_context, buffers->from, gpu->context,
                                    buffers->bytes, gpu->stream);
    default:
        return gpu->cuda->copy_to_host(buffers->host, buffers->from, buffers->bytes, gpu->stream);
    }
}

static int rate_once(struct gpu_device *gpu, const struct rate_buffers *buffers, unsigned kind,
                     double *ret, struct err *err)
{
    const struct cuda *cuda = gpu->cuda;
    float ms = 0;
    int result = gpu_device_check(gpu, cuda->event_record(buffers->begin, gpu->stream),
                                  "cuEventRecord", err);

    for (int i = 0; i < COPIES && result == 0; i++)
        result = gpu_device_check(gpu, rate_copy(gpu, buffers, kind), rate_names[kind], err);
    if (result == 0)
        result = gpu_device_check(gpu, cuda->event_record(buffers->end, gpu->stream),
                                  "cuEventRecord", err);
    if (result == 0)
        result = gpu_device_wait(gpu, err);
    if (result == 0)
        result = gpu_device_check(gpu, cuda->event_elapsed(&ms, buffers->begin, buffers->end),
                                  "cuEventElapsedTime", err);
    /* In its memory each byte is read and written. */
    if (result == 0 && ms > 0)
        *ret = (kind == RATE_MEMORY ? 2.0 : 1.0) * COPIES * (double)buffers->bytes / ms / 1e6;
    return result;
}

static int rate_events_open(struct gpu_device *gpu, struct rate_buffers *buffers, struct err *err)
{
    int result = gpu_device_check(gpu, gpu->cuda->event_create(&buffers->begin, CUDA_EVENT_DEFAULT),
                                  "cuEventCreate", err);

    if (result == 0)
        result = gpu_device_check(gpu, gpu->cuda->event_create(&buffers->end, CUDA_EVENT_DEFAULT),
                                  "cuEventCreate", err);
    return result;
}

static void rate_events_close(struct gpu_device *gpu, struct rate_buffers *buffers)
{
    if (buffers->begin)
        gpu->cuda->event_destroy(buffers->begin);
    if (buffers->end)
        gpu->cuda->event_destroy(buffers->end);
}

/* The best of several tries. */
static int rate_best(struct gpu_device *gpu, const struct rate_buffers *buffers, unsigned kind,
                     double *best, struct err *err)
{
    int result = 0;

    for (int i = 0; i < TRIES && result == 0; i++) {
        double gb = 0;

        result = rate_once(gpu, buffers, kind, &gb, err);
        *best = MAX(*best, gb);
    }
    return result;
}

static int rate_buffers_open(struct gpu_device *gpu, struct rate_buffers *buffers, struct err *err)
{
    const struct cuda *cuda = gpu->cuda;
    int result;

    buffers->bytes = MIN(COPY_BYTES, gpu->free_bytes / FREE_SHARE) & ~(size_t)4095;
    buffers->host = mmap(NULL, buffers->bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (buffers->host == MAP_FAILED)
        return err_nomem(err);
    result = gpu_device_check(
        gpu, cuda->host_register(buffers->host, buffers->bytes, CUDA_HOST_REGISTER_PORTABLE),
        "cuMemHostRegister", err);
    if (result == 0)
        result = gpu_device_memory(gpu, buffers->bytes, &buffers->from, err);
    if (result == 0)
        result = gpu_device_memory(gpu, buffers->bytes, &buffers->to, err);
    return result < 0 ? result : rate_events_open(gpu, buffers, err);
}

static void rate_buffers_close(struct gpu_device *gpu, struct rate_buffers *buffers)
{
    rate_events_close(gpu, buffers);
    gpu_device_free(gpu, buffers->from);
    gpu_device_free(gpu, buffers->to);
    if (buffers->host != MAP_FAILED) {
        gpu->cuda->host_unregister(buffers->host);
        munmap(buffers->host, buffers->bytes);
    }
}

static int rate_gpu_measure(struct gpu_device *gpu, struct rate_gpu *ret, struct err *err)
{
    struct rate_buffers buffers = { .host = MAP_FAILED };
    int result = rate_buffers_open(gpu, &buffers, err);

    for (unsigned kind = 0; kind < RATE_PEER && result == 0; kind++)
        result = rate_best(gpu, &buffers, kind, &ret->gb[kind], err);
    rate_buffers_close(gpu, &buffers);
    ret->known = result == 0;
    return result;
}

/* ---- from one GPU to another ---- */

static bool rate_can_reach(const struct gpu_device *from, const struct gpu_device *to)
{
    int can = 0;

    return from->cuda->peer_can(&can, from->ordinal, to->ordinal) == CUDA_SUCCESS && can;
}

/* The contexts stay those that were opened; `from` is current. */
static int rate_pair(struct rate_gpu *from, const struct rate_gpu *to, size_t bytes,
                     struct err *err)
{
    struct gpu_device *gpu = from->device;
    struct rate_buffers buffers = {
        .from = from->buffer, .to = to->buffer, .bytes = bytes, .to_context = to->device->context
    };
    int enabled = gpu->cuda->peer_enable(to->device->context, 0);
    int result = enabled == CUDA_ERROR_PEER_ENABLED
                     ? 0
                     : gpu_device_check(gpu, enabled, "cuCtxEnablePeerAccess", err);

    if (result == 0)
        result = rate_events_open(gpu, &buffers, err);
    if (result == 0)
        result = rate_best(gpu, &buffers, RATE_PEER, &from->gb[RATE_PEER], err);
    rate_events_close(gpu, &buffers);
    return result;
}

static void rate_pairs_of(struct rate_gpu *gpu, unsigned count, unsigned i, size_t bytes,
                          struct verify_report *report)
{
    struct err err = { "" };
    int result = gpu_device_enter(gpu[i].device, &err);

    if (result < 0) {
        gpu_device_failed(gpu[i].device, report, &err);
        return;
    }
    for (unsigned j = 0; j < count && result == 0; j++) {
        if (j != i && gpu[j].open && rate_can_reach(gpu[i].device, gpu[j].device))
            result = rate_pair(&gpu[i], &gpu[j], bytes, &err);
    }
    gpu_device_leave(gpu[i].device);
    if (result < 0) {
        gpu[i].gb[RATE_PEER] = 0;
        gpu_device_failed(gpu[i].device, report, &err);
    }
}

/* Opens those that could be measured; the smallest buffer is the size of all. */
static size_t rate_peers_open(const struct gpu_devices *devices, struct rate_gpu *gpu,
                              struct verify_report *report)
{
    size_t bytes = PEER_BYTES;

    for (unsigned i = 0; i < devices->count; i++) {
        struct err err = { "" };

        gpu[i].open = gpu[i].known && gpu_device_open(devices, gpu[i].device, report);
        if (!gpu[i].open)
            continue;
        bytes = MIN(bytes, gpu[i].device->free_bytes / FREE_SHARE & ~(size_t)4095);
        gpu[i].open = gpu_device_memory(gpu[i].device, bytes, &gpu[i].buffer, &err) == 0;
        if (!gpu[i].open)
            gpu_device_failed(gpu[i].device, report, &err);
        gpu_device_leave(gpu[i].device);
    }
    return bytes;
}

static void rate_peers_close(struct rate_gpu *gpu, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct gpu_device *device = gpu[i].device;

        if (device->context && gpu_device_enter(device, NULL) == 0) {
            gpu_device_free(device, gpu[i].buffer);
            gpu_device_leave(device);
        }
        gpu_device_close(device);
    }
}

static void rate_peers(const struct gpu_devices *devices, struct rate_gpu *gpu,
                       struct verify_report *report)
{
    const struct cuda *cuda = &devices->cuda;
    size_t bytes;

    if (devices->count < 2 || !cuda->peer_can || !cuda->peer_enable || !cuda->copy_peer)
        return;
    bytes = rate_peers_open(devices, gpu, report);
    for (unsigned i = 0; i < devices->count; i++) {
        if (gpu[i].open)
            rate_pairs_of(gpu, devices->count, i, bytes, report);
    }
    rate_peers_close(gpu, devices->count);
}

/* ---- judging ---- */

static void rate_report(const struct rate_gpu *gpu, unsigned count, unsigned kind,
                        const struct verify_place *place, struct verify_report *report)
{
    for (unsigned i = 0; i < count; i++) {
        double peer[GPUS_MAX];
        unsigned peers = 0;

        if (!gpu[i].known || (kind == RATE_PEER && gpu[i].gb[kind] <= 0))
            continue;
        for (unsigned j = 0; j < count; j++) {
            if (gpu[j].known && gpu[j].gb[kind] > 0 &&
                strcmp(gpu[i].device->name, gpu[j].device->name) == 0)
                peer[peers++] = gpu[j].gb[kind];
        }
        measured_compare(measured_result(report, place->profile, rate_names[kind],
                                         gpu[i].device->label, gpu[i].gb[kind], "GB/s"),
                         peer, peers);
    }
}

static void gpu_rate_run(const struct verify_place *place, struct verify_report *report)
{
    static struct gpu_devices devices;
    static struct rate_gpu gpu[GPUS_MAX];

    memset(gpu, 0, sizeof(gpu));
    if (!gpu_devices_open(&devices, place, report))
        return;
    for (unsigned i = 0; i < devices.count; i++) {
        struct gpu_device *device = &devices.gpu[i];
        struct err err = { "" };

        gpu[i].device = device;
        if (!gpu_device_open(&devices, device, report))
            continue;
        if (rate_gpu_measure(device, &gpu[i], &err) < 0)
            gpu_device_failed(device, report, &err);
        gpu_device_leave(device);
        gpu_device_close(device);
    }
    rate_peers(&devices, gpu, report);
    for (unsigned kind = 0; kind < RATES; kind++)
        rate_report(gpu, devices.count, kind, place, report);
    gpu_devices_close(&devices);
}

const struct verify_check check_gpu_rate = {
    .name = "gpu-rate",
    .summary =
        "how fast each GPU copies in its memory, over PCIe and to the other GPUs, compared with "
        "the profile and the others",
    .why = "good GPUs of one model differ by a few percent; a slow memory stack or a narrow link "
           "costs far more",
    .advice = "look at the link (lockstep sense --once --only pcie) and at remapped rows of the "
              "named GPU",
    .needs = "GPU driver",
    .stage = VERIFY_PROLOG,
    .loads = true,
    .limit_ns = { 20 * NS_PER_S, 20 * NS_PER_S, 40 * NS_PER_S, 40 * NS_PER_S },
    .run = gpu_rate_run,
};
