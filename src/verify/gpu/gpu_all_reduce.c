/* gpu_all_reduce.c - does the sum of all GPUs of this machine, by NCCL, come out right on each, and how fast?
 *
 * It is the path that training takes: NVLink, NVSwitch or PCIe, with the algorithm that NCCL chooses.  All operands are small whole
 * numbers, so a sum in any order is exact, and each depends on its place, so a piece in the wrong place is found too.  What NCCL chose
 * is read from its own log, which goes to memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"
#include "device/nccl_library.h"
#include "verify/checks.h"
#include "verify/gpu/gpu_devices.h"
#include "verify/measured.h"

#define REDUCE_BYTES ((size_t)64 << 20) /* of each GPU: large enough for the full rate */
#define FREE_SHARE 4 /* of what is free, each of two buffers may use one part in so many */
#define ROUNDS 8
#define LOG_BYTES ((size_t)1 << 20)

struct reduce_rank {
    struct gpu_device *device;
    void *comm;
    uint64_t from, to;
};

struct reduce_test {
    struct gpu_devices devices;
    struct nccl nccl;
    struct reduce_rank rank[GPUS_MAX];
    unsigned ranks;
    size_t count; /* numbers of each */
    float *host;
    int log_fd;
    struct verify_report *report;
};

/* ---- what NCCL chose ---- */

static void reduce_log_begin(struct reduce_test *test)
{
    char path[40];

    test->log_fd = memfd_create("nccl log", MFD_CLOEXEC);
    if (test->log_fd < 0)
        return;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", test->log_fd);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,TUNING", 1);
    setenv("NCCL_DEBUG_FILE", path, 1);
}

static void reduce_word(const char *text, const char *before, char *out, size_t room)
{
    const char *at = strstr(text, before);

    at = at ? at + strlen(before) : "";
    snprintf(out, room, "%.*s", (int)MIN(strcspn(at, " \n"), room - 1), at);
}

/* "AllReduce: 67108864 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..23}", from 2.23 on; older ones keep it to themselves. */
static void reduce_log_read(const struct reduce_test *test, char *out, size_t room)
{
    CLEAN(free_clean) char *text = malloc(LOG_BYTES);
    ssize_t size = text && test->log_fd >= 0 ? pread(test->log_fd, text, LOG_BYTES - 1, 0) : -1;
    char algorithm[16], protocol[16], channels[16] = "";
    const char *at, *range;
    unsigned low, high;
    bool offered;

    snprintf(out, room, "NCCL does not log its algorithm");
    if (size <= 0)
        return;
    text[size] = '\0';
    offered = strstr(text, "NVLS multicast support is available") != NULL;
    at = strstr(text, "AllReduce: ");
    if (!at || !strstr(at, " Bytes -> Algo "))
        return;
    reduce_word(at, " Algo ", algorithm, sizeof(algorithm));
    reduce_word(at, " proto ", protocol, sizeof(protocol));
    range = strstr(at, "={");
    if (range && sscanf(range, "={%u..%u}", &low, &high) == 2 && high >= low && high < 1024)
        snprintf(channels, sizeof(channels), ", %u channel%s", high - low + 1,
                 high > low ? "s" : "");
    snprintf(out, room, "algorithm %s, protocol %s%s%s", algorithm, protocol, channels,
             offered && strncmp(algorithm, "NVLS", 4) != 0
                 ? "; the switches could add (NVLS), and NCCL did not use it"
                 : "");
}

/* ---- setting up ---- */

static int reduce_rank_open(struct reduce_test *test, struct gpu_device *device)
{
    struct reduce_rank *rank = &test->rank[test->ranks];
    struct err err = { "" };
    size_t bytes;
    int result;

    *rank = (struct reduce_rank){ .device = device };
    if (!gpu_device_open(&test->devices, device, test->report))
        return -EBUSY;
    bytes = MIN(REDUCE_BYTES, device->free_bytes / FREE_SHARE) & ~(size_t)4095;
    if (!test->count || bytes / sizeof(float) < test->count)
        test->count = bytes / sizeof(float);
    result = gpu_device_memory(device, bytes, &rank->from, &err);
    if (result == 0)
        result = gpu_device_memory(device, bytes, &rank->to, &err);
    gpu_device_leave(device);
    test->ranks++; /* also a broken one is closed */
    if (result < 0)
        gpu_device_failed(device, test->report, &err);
    return result;
}

static void reduce_rank_close(struct reduce_test *test, struct reduce_rank *rank)
{
    if (rank->device->context && gpu_device_enter(rank->device, NULL) == 0) {
        if (rank->comm)
            test->nccl.comm_destroy(rank->comm);
        gpu_device_free(rank->device, rank->from);
        gpu_device_free(rank->device, rank->to);
        gpu_device_leave(rank->device);
    }
    gpu_device_close(rank->device);
}

static int reduce_comms(struct reduce_test *test, struct err *err)
{
    struct nccl_id id = { { 0 } };
    int result = nccl_check(&test->nccl, test->nccl.id_make(&id), "ncclGetUniqueId", err), ended;

    if (result < 0)
        return result;
    test->nccl.group_begin();
    for (unsigned i = 0; i < test->ranks && result == 0; i++) {
        struct reduce_rank *rank = &test->rank[i];

        result = gpu_device_enter(rank->device, err);
        if (result < 0)
            break;
        result =
            nccl_check(&test->nccl, test->nccl.comm_init(&rank->comm, (int)test->ranks, id, (int)i),
                       "ncclCommInitRank", err);
        gpu_device_leave(rank->device);
    }
    ended = test->nccl.group_end();
    return result < 0 ? result : nccl_check(&test->nccl, ended, "ncclGroupEnd", err);
}

/* ---- sums ---- */

static float reduce_operand(unsigned rank, size_t at)
{
    return (float)(((uint32_t)at * 2654435761u >> 26) + rank + 1);
}

static float reduce_expected(unsigned ranks, size_t at)
{
    return (float)((float)ranks * (float)((uint32_t)at * 2654435761u >> 26) +
                   (float)(ranks * (ranks + 1)) / 2);
}

static int reduce_fill(struct reduce_test *test, unsigned i, struct err *err)
{
    struct reduce_rank *rank = &test->rank[i];
    struct gpu_device *device = rank->device;
    size_t bytes = test->count * sizeof(float);
    int result = gpu_device_enter(device, err);

    if (result < 0)
        return result;
    for (size_t at = 0; at < test->count; at++)
        test->host[at] = reduce_operand(i, at);
    result = gpu_device_check(
        device, device->cuda->copy_to_device(rank->from, test->host, bytes, device->stream),
        "cuMemcpyHtoDAsync", err);
    if (result == 0)
        result = gpu_device_check(
            device, device->cuda->set_bytes(rank->to, 0xff, bytes, device->stream),
            "cuMemsetD8Async", err); /* or what is left of an earlier sum would count */
    if (result == 0)
        result = gpu_device_wait(device, err);
    gpu_device_leave(device);
    return result;
}

static int reduce_wait(struct reduce_test *test, struct err *err)
{
    int result = 0;

    for (unsigned i = 0; i < test->ranks && result == 0; i++) {
        result = gpu_device_enter(test->rank[i].device, err);
        if (result < 0)
            break;
        result = gpu_device_wait(test->rank[i].device, err);
        gpu_device_leave(test->rank[i].device);
    }
    return result;
}

static int reduce_once(struct reduce_test *test, struct err *err)
{
    int result = 0, ended;

    test->nccl.group_begin();
    for (unsigned i = 0; i < test->ranks && result == 0; i++) {
        const struct reduce_rank *rank = &test->rank[i];

        result = gpu_device_enter(rank->device, err);
        if (result < 0)
            break;
        result =
            nccl_check(&test->nccl,
                       test->nccl.all_reduce((const void *)(uintptr_t)rank->from,
                                             (void *)(uintptr_t)rank->to, test->count, NCCL_FLOAT32,
                                             NCCL_SUM, rank->comm, rank->device->stream),
                       "ncclAllReduce", err);
        gpu_device_leave(rank->device);
    }
    ended = test->nccl.group_end();
    if (result == 0)
        result = nccl_check(&test->nccl, ended, "ncclGroupEnd", err);
    return result < 0 ? result : reduce_wait(test, err);
}

/* 1: right; 0: wrong, which was reported. */
static int reduce_compare(struct reduce_test *test, unsigned i, struct err *err)
{
    struct gpu_device *device = test->rank[i].device;
    size_t wrong = 0, first = 0;
    int result = gpu_device_enter(device, err);

    if (result < 0)
        return result;
    result =
        gpu_device_fetch(device, test->host, test->rank[i].to, test->count * sizeof(float), err);
    gpu_device_leave(device);
    if (result < 0)
        return result;
    for (size_t at = 0; at < test->count; at++) {
        if (test->host[at] == reduce_expected(test->ranks, at))
            continue;
        first = wrong++ ? first : at;
    }
    if (!wrong)
        return 1;
    verify_result(test->report, CHECK_FAILED, device->label,
                  "%s: %zu of %zu sums are wrong, the first at number %zu: %.9g, expected %.9g",
                  device->pci, wrong, test->count, first, (double)test->host[first],
                  (double)reduce_expected(test->ranks, first));
    return 0;
}

/* ---- all of it ---- */

static int reduce_run(struct reduce_test *test, const struct verify_place *place, struct err *err)
{
    unsigned right = 0;
    char chosen[120];
    int64_t began_ns;
    double seconds;
    int result = reduce_comms(test, err);

    for (unsigned i = 0; i < test->ranks && result == 0; i++)
        result = reduce_fill(test, i, err);
    if (result == 0)
        result = reduce_once(test, err);
    for (unsigned i = 0; i < test->ranks && result >= 0; i++) {
        result = reduce_compare(test, i, err);
        right += result > 0;
    }
    if (result < 0)
        return result;
    began_ns = time_mono_ns();
    for (int i = 0; i < ROUNDS && result >= 0; i++)
        result = reduce_once(test, err);
    seconds = (double)(time_mono_ns() - began_ns) / 1e9 / ROUNDS;
    if (result < 0 || right < test->ranks)
        return MIN(result, 0);
    reduce_log_read(test, chosen, sizeof(chosen));
    verify_result(test->report, CHECK_OK, "", "%u GPUs have the right sums: %.118s", right, chosen);
    /* What each link carries: an all-reduce moves 2 (n - 1) / n of the data over it. */
    measured_result(test->report, place->profile, "nccl-all-reduce", "",
                    2.0 * (test->ranks - 1) / test->ranks * (double)test->count * sizeof(float) /
                        seconds / 1e9,
                    "GB/s");
    return 0;
}

static bool reduce_library(struct reduce_test *test, const struct verify_place *place)
{
    struct err err = { "" };
    char path[PATH_MAX];
    int result =
        nccl_open(&test->nccl, gpu_library_path(place, place->nccl, NCCL_LIBRARY, path), &err);

    if (result < 0)
        verify_result(test->report, result == -ENOENT ? VERIFY_NOT_APPLICABLE : CHECK_UNKNOWN, "",
                      "%.190s", err.text);
    return result == 0;
}

static void reduce_all(struct reduce_test *test, const struct verify_place *place)
{
    struct err err = { "" };
    int result = 0;

    if (test->devices.count < 2) {
        verify_result(test->report, VERIFY_NOT_APPLICABLE, "", "one GPU has no other to add with");
        return;
    }
    for (unsigned i = 0; i < test->devices.count && result == 0; i++)
        result = reduce_rank_open(test, &test->devices.gpu[i]);
    test->host = result == 0 ? malloc(test->count * sizeof(float)) : NULL;
    if (result == 0)
        result = test->host ? reduce_run(test, place, &err) : err_nomem(&err);
    if (result < 0 && err.text[0])
        verify_result(test->report, CHECK_UNKNOWN, "", "%.190s", err.text);
}

static void gpu_all_reduce_run(const struct verify_place *place, struct verify_report *report)
{
    static struct reduce_test test;

    memset(&test, 0, sizeof(test));
    test.report = report;
    test.log_fd = -1;
    if (!gpu_devices_open(&test.devices, place, report))
        return;
    reduce_log_begin(&test);
    if (reduce_library(&test, place)) {
        reduce_all(&test, place);
        for (unsigned i = 0; i < test.ranks; i++)
            reduce_rank_close(&test, &test.rank[i]);
        nccl_close(&test.nccl);
    }
    free(test.host);
    fd_clean(&test.log_fd);
    gpu_devices_close(&test.devices);
}

const struct verify_check check_gpu_all_reduce = {
    .name = "gpu-all-reduce",
    .summary =
        "the sum over all GPUs of this machine by NCCL is right on each; its rate, and what NCCL "
        "chose",
    .why = "sums of whole numbers are exact in any order, so one other number is a fault",
    .advice = "run gpu-arithmetic and gpu-memory on the named GPU; look at errors of its NVLinks "
              "(nvidia-smi nvlink -e)",
    .needs = "GPU driver",
    .stage = VERIFY_DEEP,
    .loads = true,
    .limit_ns = { 60 * NS_PER_S, 60 * NS_PER_S, 60 * NS_PER_S, 60 * NS_PER_S },
    .run = gpu_all_reduce_run,
};
