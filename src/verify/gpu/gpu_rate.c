/* gpu_rate.c - how fast each GPU copies in its memory, over PCIe and to the other GPUs.
 *
 * To the others it copies over NVLink where there is one, else over PCIe: the best of its partners counts, since those on another
 * socket are farther away.  GPUs that cannot access each other's memory copy through the host, which says nothing, and are left out.
 *
 * Over PCIe it is measured from the memory of each NUMA node: the rates of its own node count as those of the GPU, and the slowest
 * of the others is a value of its own, since data that comes from there crosses the link between the sockets.
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
#include "verify/gpu/numa_nodes.h"
#include "verify/measured.h"

#define COPY_BYTES ((size_t)256 << 20)
#define FREE_SHARE 4 /* of what is free, each of two buffers may use one part in so many */
#define PEER_BYTES ((size_t)64 << 20) /* there are many pairs */
#define COPIES 8
#define NEAR_SHARE 0.85 /* rates from one place to another differ by a few percent */
#define TRIES 3         /* the best counts: clocks rise with the first copies */

enum rate_kind {
    RATE_MEMORY,
    RATE_TO,
    RATE_FROM,
    RATE_PEER, /* needs two GPUs at once */
    RATE_FAR_TO,
    RATE_FAR_FROM,
    RATES
};

static const char *const rate_names[RATES] = { "gpu-memory-rate", "pcie-to-gpu",
                                               "pcie-from-gpu",   "gpu-to-gpu",
                                               "pcie-to-gpu-far", "pcie-from-gpu-far" };

struct rate_gpu {
    struct gpu_device *device;
    bool known, open;
    double gb[RATES]; /* GB/s; 0: not measured */
    int near, far[2]; /* numbers of NUMA nodes: its own, and the slowest others; -1: not known */
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

/* From the memory of one NUMA node, and with it in the memory of the GPU. */
static int rate_kinds_measure(struct gpu_device *gpu, double gb[RATES], struct err *err)
{
    struct rate_buffers buffers = { .host = MAP_FAILED };
    int result = rate_buffers_open(gpu, &buffers, err);

    for (unsigned kind = 0; kind < RATE_PEER && result == 0; kind++)
        result = rate_best(gpu, &buffers, kind, &gb[kind], err);
    rate_buffers_close(gpu, &buffers);
    return result;
}

/* The slowest of the nodes that are not its own. */
static void rate_far(struct rate_gpu *ret, int number, const double gb[RATES])
{
    for (unsigned way = 0; way < 2; way++) {
        double *far = &ret->gb[RATE_FAR_TO + way];

        if (*far > 0 && *far <= gb[RATE_TO + way])
            continue;
        *far = gb[RATE_TO + way];
        ret->far[way] = number;
    }
}

/* Its own node is that of the PCI bus; where that is not known, the one that is the fastest. */
static int rate_nodes_measure(struct gpu_device *gpu, const struct numa_nodes *nodes,
                              struct rate_gpu *ret, struct err *err)
{
    double gb[NUMA_NODES_MAX][RATES] = { { 0 } };
    unsigned own = nodes->count;
    int result = 0;

    for (unsigned n = 0; n < nodes->count && result == 0; n++) {
        if (numa_nodes_enter(nodes, n))
            result = rate_kinds_measure(gpu, gb[n], err);
        if (nodes->node[n].number == ret->near && gb[n][RATE_TO] > 0)
            own = n;
    }
    numa_nodes_leave(nodes);
    if (result < 0)
        return result;
    for (unsigned n = 0; n < nodes->count && ret->near < 0; n++) {
        if (own == nodes->count || gb[n][RATE_TO] > gb[own][RATE_TO])
            own = n;
    }
    for (unsigned n = 0; n < nodes->count; n++) {
        if (gb[n][RATE_TO] <= 0)
            continue;
        ret->gb[RATE_MEMORY] = MAX(ret->gb[RATE_MEMORY], gb[n][RATE_MEMORY]);
        if (n != own)
            rate_far(ret, nodes->node[n].number, gb[n]);
    }
    if (own < nodes->count) {
        ret->gb[RATE_TO] = gb[own][RATE_TO];
        ret->gb[RATE_FROM] = gb[own][RATE_FROM];
    }
    return 0;
}

static int rate_gpu_measure(struct gpu_device *gpu, const struct numa_nodes *nodes,
                            const char *root, struct rate_gpu *ret, struct err *err)
{
    int result;

    ret->near = numa_nodes_of(root, gpu->pci);
    result = nodes->count > 1 ? rate_nodes_measure(gpu, nodes, ret, err)
                              : rate_kinds_measure(gpu, ret->gb, err);
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

static bool rate_is_known(const struct rate_gpu *gpu, unsigned kind)
{
    return gpu->known && gpu->gb[kind] > 0;
}

static void rate_report(const struct rate_gpu *gpu, unsigned count, unsigned kind,
                        const struct verify_place *place, struct verify_report *report)
{
    for (unsigned i = 0; i < count; i++) {
        char label[40];
        double peer[GPUS_MAX];
        unsigned peers = 0;

        if (!gpu[i].known || (kind >= RATE_PEER && gpu[i].gb[kind] <= 0))
            continue;
        for (unsigned j = 0; j < count; j++) {
            if (rate_is_known(&gpu[j], kind) &&
                strcmp(gpu[i].device->name, gpu[j].device->name) == 0)
                peer[peers++] = gpu[j].gb[kind];
        }
        snprintf(label, sizeof(label), "%s", gpu[i].device->label);
        if (kind >= RATE_FAR_TO)
            snprintf(label, sizeof(label), "%s NUMA %d", gpu[i].device->label,
                     gpu[i].far[kind - RATE_FAR_TO]);
        measured_compare(measured_result(report, place->profile, rate_names[kind], label,
                                         gpu[i].gb[kind], "GB/s"),
                         peer, peers);
    }
}

/* The memory of its own node must not be the slow one. */
static void rate_report_near(const struct rate_gpu *gpu, struct verify_report *report)
{
    for (unsigned way = 0; way < 2; way++) {
        double near = gpu->gb[RATE_TO + way], far = gpu->gb[RATE_FAR_TO + way];
        struct check *result;

        if (!gpu->known || gpu->near < 0 || near <= 0 || near >= NEAR_SHARE * far)
            continue;
        result = verify_result(report, CHECK_LIMITED, gpu->device->label,
                               "%.1f GB/s from its own NUMA node %d, but %.1f GB/s from node %d",
                               near, gpu->near, far, gpu->far[way]);
        snprintf(result->name, sizeof(result->name), "%s", rate_names[RATE_TO + way]);
    }
}

static void rate_report_left_out(const struct numa_nodes *nodes, struct verify_report *report)
{
    struct check *result;

    if (!nodes->left_out)
        return;
    result = verify_result(report, CHECK_UNKNOWN, "",
                           "from %u NUMA nodes nothing was measured: this process may not use "
                           "their CPUs",
                           nodes->left_out);
    snprintf(result->name, sizeof(result->name), "%s", rate_names[RATE_FAR_TO]);
}

static void gpu_rate_run(const struct verify_place *place, struct verify_report *report)
{
    static struct gpu_devices devices;
    static struct rate_gpu gpu[GPUS_MAX];
    static struct numa_nodes nodes;

    memset(gpu, 0, sizeof(gpu));
    if (!gpu_devices_open(&devices, place, report))
        return;
    numa_nodes_read(&nodes, place->root);
    for (unsigned i = 0; i < devices.count; i++) {
        struct gpu_device *device = &devices.gpu[i];
        struct err err = { "" };

        gpu[i].device = device;
        if (!gpu_device_open(&devices, device, report))
            continue;
        if (rate_gpu_measure(device, &nodes, place->root, &gpu[i], &err) < 0)
            gpu_device_failed(device, report, &err);
        gpu_device_leave(device);
        gpu_device_close(device);
    }
    rate_peers(&devices, gpu, report);
    for (unsigned kind = 0; kind < RATES; kind++)
        rate_report(gpu, devices.count, kind, place, report);
    for (unsigned i = 0; i < devices.count; i++)
        rate_report_near(&gpu[i], report);
    rate_report_left_out(&nodes, report);
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
