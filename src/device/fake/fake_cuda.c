/* fake_cuda.c - libcuda.so.1 by script: memory is the host's, a stream is a time until which it is busy.
 *
 * A copy moves its bytes when its time has come, not when it is enqueued: a program that does not order its streams, or does not
 * wait, gets old bytes, as on a device.
 *
 * Keys: cuda.FUNCTION for an error, delay or hang of each (cuda.init, cuda.context-retain, cuda.memory-alloc, cuda.copy,
 * cuda.launch, cuda.stream-wait, cuda.event-wait ...), cuda.count, cuda.version, cuda.N.name, cuda.N.memory, cuda.N.free (bytes),
 * cuda.N.major (of its compute capability), cuda.N.multiprocessors; cuda.kernel-us and cuda.copy-us say how long a kernel or a copy
 * keeps its stream busy; cuda.N.memory-rate, cuda.N.pcie-rate and cuda.N.peer-rate, in MB/s, make that depend on the size of a copy (cpuC.cuda.N.pcie-rate: begun on that CPU); cuda.peers 0: GPUs do
 * not access each other.
 *
 * Kernels of gpu_kernels.c run on the host, when their time has come; all others only take time.  Faults: cuda.N.flip-sm (one bit
 * of one sum on this SM), cuda.N.flip-kernel (text: in this kernel only), cuda.N.idle-sm (gets no block), cuda.N.bad-word (a bit of
 * this word of memory is stuck).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/fake/fake_kernels.h"
#include "device/fake/script.h"

#define EXPORT __attribute__((visibility("default")))
#define DEVICES_MAX 16

enum {
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    INVALID_VALUE = 1,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    NOT_READY = 600
};

struct fake_stream {
    int64_t busy_until_ns;
};

struct fake_event {
    int64_t at_ns; /* 0: never recorded */
};

/* What moves bytes at that time. */
struct fake_work {
    struct fake_work *next;
    int64_t at_ns;
    void *to;
    const void *from; /* NULL: sets `value` */
    size_t bytes;
    unsigned char value;
    struct fake_launch *launch; /* NULL: none; then nothing else counts */
};

struct fake_module {
    const char *image; /* the caller's, which outlives the module here */
};

struct fake_uuid {
    unsigned char byte[16];
};

static struct fake_stream first; /* the default one */
static struct fake_work *work;   /* by time */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char contexts[DEVICES_MAX];
static _Thread_local void *current[8];
static _Thread_local unsigned depth;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void wait_until(int64_t until_ns)
{
    struct timespec until = { until_ns / 1000000000, until_ns % 1000000000 };

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static int fake_call(const char *key)
{
    int64_t number;

    return script_number(&number, 0, "%s", key);
}

static struct fake_stream *stream_of(void *stream)
{
    return stream ? stream : &first;
}

/* Does what is due. */
static void work_run(int64_t until_ns)
{
    pthread_mutex_lock(&lock);
    while (work && work->at_ns <= until_ns) {
        struct fake_work *due = work;

        work = due->next;
        if (due->launch) {
            due->launch->at_ns = due->at_ns;
            fake_kernel_run(due->launch);
        } else if (due->from) {
            memmove(due->to, due->from, due->bytes);
        } else {
            memset(due->to, due->value, due->bytes);
        }
        free(due->launch);
        free(due);
    }
    pthread_mutex_unlock(&lock);
}

static int work_add(void *stream, struct fake_work item)
{
    struct fake_work *made = malloc(sizeof(*made)), **at = &work;

    if (!made)
        return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    *made = item;
    made->at_ns = stream_of(stream)->busy_until_ns;
    while (*at && (*at)->at_ns <= made->at_ns)
        at = &(*at)->next;
    made->next = *at;
    *at = made;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Work of a script's length begins when the stream is free. */
static int stream_add(void *stream, const char *key, const char *length, int64_t usual_us)
{
    struct fake_stream *at = stream_of(stream);
    int64_t us = usual_us, now;
    int result = fake_call(key);

    if (result == 0 && !depth)
        result = INVALID_CONTEXT;
    if (result == 0)
        result = script_number(&us, usual_us, "%s", length);
    if (result)
        return result;
    now = now_ns();
    pthread_mutex_lock(&lock);
    at->busy_until_ns = (at->busy_until_ns > now ? at->busy_until_ns : now) + us * 1000;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int64_t stream_end_ns(void *stream)
{
    int64_t end_ns;

    pthread_mutex_lock(&lock);
    end_ns = stream_of(stream)->busy_until_ns;
    pthread_mutex_unlock(&lock);
    return end_ns;
}

EXPORT int cuInit(unsigned flags);
EXPORT int cuInit(unsigned flags)
{
    (void)flags;
    return fake_call("cuda.init");
}

EXPORT int cuDriverGetVersion(int *ret);
EXPORT int cuDriverGetVersion(int *ret)
{
    int64_t number;
    int result = script_number(&number, 13000, "cuda.version");

    if (result == 0)
        *ret = (int)number;
    return result;
}

static const struct {
    int result;
    const char *name, *text;
} errors[] = {
    { INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
    { INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
    { INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
    { NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
    { 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
};

EXPORT int cuGetErrorName(int result, const char **ret);
EXPORT int cuGetErrorName(int result, const char **ret)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].result == result) {
            *ret = errors[i].name;
            return 0;
        }
    }
    *ret = NULL;
    return INVALID_VALUE;
}

EXPORT int cuGetErrorString(int result, const char **ret);
EXPORT int cuGetErrorString(int result, const char **ret)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].result == result) {
            *ret = errors[i].text;
            return 0;
        }
    }
    *ret = NULL;
    return INVALID_VALUE;
}

EXPORT int cuDeviceGetCount(int *ret);
EXPORT int cuDeviceGetCount(int *ret)
{
    int64_t number;
    int result = script_number(&number, 8, "cuda.count");

    if (result == 0)
        *ret = (int)number;
    return result;
}

EXPORT int cuDeviceGet(int *ret, int ordinal);
EXPORT int cuDeviceGet(int *ret, int ordinal)
{
    int count = 0, result = cuDeviceGetCount(&count);

    if (result == 0 && (ordinal < 0 || ordinal >= count || ordinal >= DEVICES_MAX))
        return INVALID_DEVICE;
    if (result == 0)
        *ret = ordinal;
    return result;
}

EXPORT int cuDeviceGetName(char *ret, int room, int device);
EXPORT int cuDeviceGetName(char *ret, int room, int device)
{
    struct script_answer answer;

    script_ask(&answer, "cuda.%d.name", device);
    if (!answer.error)
        snprintf(ret, (size_t)room, "%s", answer.text[0] ? answer.text : "NVIDIA H100 80GB HBM3");
    return answer.error;
}

EXPORT int cuDeviceGetUuid_v2(struct fake_uuid *ret, int device);
EXPORT int cuDeviceGetUuid_v2(struct fake_uuid *ret, int device)
{
    *ret = (struct fake_uuid){ { 0 } };
    ret->byte[15] = (unsigned char)device;
    return 0;
}

EXPORT int cuDeviceGetPCIBusId(char *ret, int room, int device);
EXPORT int cuDeviceGetPCIBusId(char *ret, int room, int device)
{
    snprintf(ret, (size_t)room, "0000:%02X:00.0", 0x10 + (unsigned)device);
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *ret, int attribute, int device);
EXPORT int cuDeviceGetAttribute(int *ret, int attribute, int device)
{
    static const int known[][2] = { { 13, 1980000 }, { 75, 9 }, { 76, 0 } };
    int64_t number;

    if (attribute == 16) {
        *ret = fake_sm_count(device);
        return 0;
    }
    if (attribute == 75 && script_number(&number, 9, "cuda.%d.major", device) == 0) {
        *ret = (int)number;
        return 0;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i][0] == attribute) {
            *ret = known[i][1];
            return 0;
        }
    }
    return INVALID_VALUE;
}

EXPORT int cuDeviceTotalMem_v2(size_t *ret, int device);
EXPORT int cuDeviceTotalMem_v2(size_t *ret, int device)
{
    int64_t number;
    int result = script_number(&number, INT64_C(81559) << 20, "cuda.%d.memory", device);

    if (result == 0)
        *ret = (size_t)number;
    return result;
}

EXPORT int cuDevicePrimaryCtxRetain(void **ret, int device);
EXPORT int cuDevicePrimaryCtxRetain(void **ret, int device)
{
    int result = fake_call("cuda.context-retain");

    if (result == 0 && (device < 0 || device >= DEVICES_MAX))
        return INVALID_DEVICE;
    if (result == 0)
        *ret = &contexts[device];
    return result;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device);
EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)device;
    return fake_call("cuda.context-release");
}

EXPORT int cuCtxPushCurrent_v2(void *context);
EXPORT int cuCtxPushCurrent_v2(void *context)
{
    if (!context || depth == sizeof(current) / sizeof(current[0]))
        return INVALID_CONTEXT;
    current[depth++] = context;
    return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **ret);
EXPORT int cuCtxPopCurrent_v2(void **ret)
{
    if (!depth)
        return INVALID_CONTEXT;
    depth--;
    if (ret)
        *ret = current[depth];
    return 0;
}

EXPORT int cuCtxGetCurrent(void **ret);
EXPORT int cuCtxGetCurrent(void **ret)
{
    *ret = depth ? current[depth - 1] : NULL;
    return 0;
}

static int fake_device(void) /* of the current context */
{
    return (int)((char *)current[depth - 1] - contexts);
}

/* For other fakes: which device is current, and work of so many microseconds on a stream. */
EXPORT int fake_cuda_device(void);
EXPORT int fake_cuda_device(void)
{
    return depth ? fake_device() : -1;
}

EXPORT int fake_cuda_work(void *stream, int64_t us);
EXPORT int fake_cuda_work(void *stream, int64_t us)
{
    return stream_add(stream, "cuda.launch", "cuda.work-us", us);
}

EXPORT int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total);
EXPORT int cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
    *ret_total = (size_t)81559 << 20;
    if (depth) {
        int64_t bytes;
        int result =
            script_number(&bytes, (INT64_C(81559) - 500) << 20, "cuda.%d.free", fake_device());

        *ret_free = (size_t)bytes;
        if (result)
            return result;
    }
    return depth ? fake_call("cuda.memory-info") : INVALID_CONTEXT;
}

EXPORT int cuMemAlloc_v2(uint64_t *ret, size_t bytes);
EXPORT int cuMemAlloc_v2(uint64_t *ret, size_t bytes)
{
    int result = fake_call("cuda.memory-alloc");
    void *memory = result == 0 ? malloc(bytes) : NULL;

    if (result == 0 && !memory)
        return OUT_OF_MEMORY;
    if (result == 0)
        *ret = (uint64_t)(uintptr_t)memory;
    return result;
}

EXPORT int cuMemFree_v2(uint64_t address);
EXPORT int cuMemFree_v2(uint64_t address)
{
    work_run(INT64_MAX); /* the driver waits as well */
    free((void *)(uintptr_t)address);
    return fake_call("cuda.memory-free");
}

EXPORT int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags);
EXPORT int cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    (void)flags;
    return memory && bytes ? fake_call("cuda.host-register") : INVALID_VALUE;
}

EXPORT int cuMemHostUnregister(void *memory);
EXPORT int cuMemHostUnregister(void *memory)
{
    return memory ? fake_call("cuda.host-unregister") : INVALID_VALUE;
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *ret, void *memory, unsigned flags);
EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *ret, void *memory, unsigned flags)
{
    (void)flags;
    *ret = (uint64_t)(uintptr_t)memory;
    return memory ? fake_call("cuda.host-address") : INVALID_VALUE;
}

/* `rate`: the key of the scripted rate of this kind of copy. */
static int fake_copy(void *to, const void *from, size_t bytes, void *stream, const char *rate)
{
    int64_t mb_a_second = 0, us = 10;
    int result;

    if (!depth)
        return INVALID_CONTEXT;
    result = script_number(&mb_a_second, 0, "cuda.%d.%s", fake_device(), rate);
    if (result == 0) /* depends on where the copy is begun */
        result = script_number(&mb_a_second, mb_a_second, "cpu%d.cuda.%d.%s", sched_getcpu(),
                               fake_device(), rate);
    if (mb_a_second > 0)
        us = (int64_t)bytes / mb_a_second;
    if (result == 0)
        result = stream_add(stream, "cuda.copy", "cuda.copy-us", us);
    if (result == 0)
        result = work_add(stream, (struct fake_work){ .to = to, .from = from, .bytes = bytes });
    return result;
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream);
EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    return fake_copy(to, (const void *)(uintptr_t)from, bytes, stream, "pcie-rate");
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream);
EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    return fake_copy((void *)(uintptr_t)to, from, bytes, stream, "pcie-rate");
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream);
EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    return fake_copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, stream,
                     "memory-rate");
}

EXPORT int cuDeviceCanAccessPeer(int *ret, int device, int peer);
EXPORT int cuDeviceCanAccessPeer(int *ret, int device, int peer)
{
    int64_t number;
    int result = script_number(&number, 1, "cuda.peers");

    if (result == 0)
        *ret = number && device != peer;
    return result;
}

EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags);
EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags)
{
    (void)flags;
    return context ? fake_call("cuda.peer-enable") : INVALID_CONTEXT;
}

EXPORT int cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context,
                             size_t bytes, void *stream);
EXPORT int cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context,
                             size_t bytes, void *stream)
{
    if (!to_context || !from_context)
        return INVALID_CONTEXT;
    return fake_copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, stream,
                     "peer-rate");
}

EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream);
EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream)
{
    int result = stream_add(stream, "cuda.set", "cuda.copy-us", 10);

    if (result == 0)
        result = work_add(
            stream,
            (struct fake_work){ .to = (void *)(uintptr_t)to, .bytes = bytes, .value = value });
    return result;
}

EXPORT int cuStreamCreate(void **ret, unsigned flags);
EXPORT int cuStreamCreate(void **ret, unsigned flags)
{
    int result = fake_call("cuda.stream-create");
    struct fake_stream *stream = result == 0 ? calloc(1, sizeof(*stream)) : NULL;

    (void)flags;
    if (result == 0 && !stream)
        return OUT_OF_MEMORY;
    if (result == 0)
        *ret = stream;
    return result;
}

EXPORT int cuStreamDestroy_v2(void *stream);
EXPORT int cuStreamDestroy_v2(void *stream)
{
    free(stream);
    return 0;
}

EXPORT int cuStreamQuery(void *stream);
EXPORT int cuStreamQuery(void *stream)
{
    int result = fake_call("cuda.stream-query");

    if (result)
        return result;
    work_run(now_ns());
    return stream_end_ns(stream) > now_ns() ? NOT_READY : 0;
}

EXPORT int cuStreamSynchronize(void *stream);
EXPORT int cuStreamSynchronize(void *stream)
{
    int result = fake_call("cuda.stream-wait");

    if (result == 0) {
        wait_until(stream_end_ns(stream));
        work_run(now_ns());
    }
    return result;
}

EXPORT int cuStreamIsCapturing(void *stream, int *ret);
EXPORT int cuStreamIsCapturing(void *stream, int *ret)
{
    (void)stream;
    *ret = 0;
    return fake_call("cuda.stream-capturing");
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
    static _Thread_local int now; /* global */
    int before = now;

    now = *mode;
    *mode = before;
    return fake_call("cuda.thread-capture-mode");
}

EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
    struct fake_stream *at = stream_of(stream);
    int64_t at_ns;

    (void)flags;
    if (!event)
        return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    at_ns = ((struct fake_event *)event)->at_ns;
    if (at_ns > at->busy_until_ns)
        at->busy_until_ns = at_ns;
    pthread_mutex_unlock(&lock);
    return fake_call("cuda.stream-wait-event");
}

EXPORT int cuStreamWriteValue64_v2(void *stream, uint64_t address, uint64_t value, unsigned flags);
EXPORT int cuStreamWriteValue64_v2(void *stream, uint64_t address, uint64_t value, unsigned flags)
{
    int result = stream_add(stream, "cuda.stream-write", "cuda.write-us", 0);

    (void)flags;
    if (result == 0)
        memcpy((void *)(uintptr_t)address, &value, sizeof(value));
    return result;
}

EXPORT int cuEventCreate(void **ret, unsigned flags);
EXPORT int cuEventCreate(void **ret, unsigned flags)
{
    int result = fake_call("cuda.event-create");
    struct fake_event *event = result == 0 ? calloc(1, sizeof(*event)) : NULL;

    (void)flags;
    if (result == 0 && !event)
        return OUT_OF_MEMORY;
    if (result == 0)
        *ret = event;
    return result;
}

EXPORT int cuEventDestroy_v2(void *event);
EXPORT int cuEventDestroy_v2(void *event)
{
    free(event);
    return 0;
}

EXPORT int cuEventRecord(void *event, void *stream);
EXPORT int cuEventRecord(void *event, void *stream)
{
    int64_t end_ns = stream_end_ns(stream), now = now_ns();
    int result = fake_call("cuda.event-record");

    pthread_mutex_lock(&lock);
    if (result == 0)
        ((struct fake_event *)event)->at_ns = end_ns > now ? end_ns : now;
    pthread_mutex_unlock(&lock);
    return result;
}

static int64_t event_ns(void *event)
{
    int64_t at_ns;

    pthread_mutex_lock(&lock);
    at_ns = ((struct fake_event *)event)->at_ns;
    pthread_mutex_unlock(&lock);
    return at_ns;
}

EXPORT int cuEventQuery(void *event);
EXPORT int cuEventQuery(void *event)
{
    int result = fake_call("cuda.event-query");

    if (result)
        return result;
    work_run(now_ns());
    return event_ns(event) > now_ns() ? NOT_READY : 0;
}

EXPORT int cuEventSynchronize(void *event);
EXPORT int cuEventSynchronize(void *event)
{
    int result = fake_call("cuda.event-wait");

    if (result == 0) {
        wait_until(event_ns(event));
        work_run(now_ns());
    }
    return result;
}

EXPORT int cuEventElapsedTime(float *ret_ms, void *begin, void *end);
EXPORT int cuEventElapsedTime(float *ret_ms, void *begin, void *end)
{
    int64_t from_ns = event_ns(begin), to_ns = event_ns(end);

    if (!from_ns || !to_ns)
        return INVALID_VALUE;
    if (from_ns > now_ns() || to_ns > now_ns())
        return NOT_READY;
    *ret_ms = (float)(to_ns - from_ns) / 1e6f;
    return 0;
}

EXPORT int cuModuleLoadDataEx(void **ret, const void *image, unsigned options, int *option,
                              void **value);
EXPORT int cuModuleLoadDataEx(void **ret, const void *image, unsigned options, int *option,
                              void **value)
{
    int result = fake_call("cuda.module-load");
    struct fake_module *module = result == 0 ? malloc(sizeof(*module)) : NULL;

    (void)options;
    (void)option;
    (void)value;
    if (result == 0 && !module)
        return OUT_OF_MEMORY;
    if (result == 0 && !image) {
        free(module);
        return INVALID_VALUE;
    }
    if (result == 0) {
        module->image = image;
        *ret = module;
    }
    return result;
}

EXPORT int cuModuleUnload(void *module);
EXPORT int cuModuleUnload(void *module)
{
    free(module);
    return 0;
}

EXPORT int cuModuleGetFunction(void **ret, void *module, const char *name);
EXPORT int cuModuleGetFunction(void **ret, void *module, const char *name)
{
    int result = fake_call("cuda.module-function");
    const char *image = ((struct fake_module *)module)->image;
    const void *kernel;

    if (result)
        return result;
    if (!strstr(image, ".entry")) { /* of a test that only wants to launch something */
        *ret = module;
        return 0;
    }
    kernel = fake_kernel_find(image, name);
    *ret = (void *)(uintptr_t)kernel;
    return kernel ? 0 : NOT_FOUND;
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **arguments, void **extra);
/* NOLINTNEXTLINE(readability-function-size): the signature is the library's */
EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **arguments, void **extra)
{
    struct fake_launch *launch;
    int result;

    (void)shared_bytes;
    (void)extra;
    if (!function || !grid_x || !grid_y || !grid_z || !block_x || !block_y || !block_z)
        return INVALID_VALUE;
    result = stream_add(stream, "cuda.launch", "cuda.kernel-us", 10);
    if (result || !fake_kernel_is_one(function))
        return result;
    launch = malloc(sizeof(*launch));
    if (!launch)
        return OUT_OF_MEMORY;
    *launch = (struct fake_launch){
        .kernel = function, .device = fake_device(), .blocks = grid_x, .threads = block_x
    };
    fake_kernel_arguments(launch, arguments);
    result = work_add(stream, (struct fake_work){ .launch = launch });
    if (result)
        free(launch);
    work_run(now_ns()); /* what a device writes is there without anybody asking */
    return result;
}
