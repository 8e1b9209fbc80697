/* cuda.c - the names of the driver's functions, and its errors as ours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/cuda/cuda.h"

#include <errno.h>

/* The versions that CUDA 11, 12 and 13 have; where a name has a suffix, the one without is another, older function. */
static const struct symbol symbols[] = {
    SYMBOL(struct cuda, init, "cuInit"),
    SYMBOL(struct cuda, driver_version, "cuDriverGetVersion"),
    SYMBOL(struct cuda, error_name, "cuGetErrorName"),
    SYMBOL(struct cuda, error_string, "cuGetErrorString"),
    SYMBOL(struct cuda, device_count, "cuDeviceGetCount"),
    SYMBOL(struct cuda, device_get, "cuDeviceGet"),
    SYMBOL(struct cuda, device_name, "cuDeviceGetName"),
    SYMBOL(struct cuda, device_uuid, "cuDeviceGetUuid_v2"),
    SYMBOL(struct cuda, device_pci, "cuDeviceGetPCIBusId"),
    SYMBOL(struct cuda, device_attribute, "cuDeviceGetAttribute"),
    SYMBOL(struct cuda, device_memory, "cuDeviceTotalMem_v2"),
    SYMBOL(struct cuda, context_retain, "cuDevicePrimaryCtxRetain"),
    SYMBOL(struct cuda, context_release, "cuDevicePrimaryCtxRelease_v2"),
    SYMBOL(struct cuda, context_push, "cuCtxPushCurrent_v2"),
    SYMBOL(struct cuda, context_pop, "cuCtxPopCurrent_v2"),
    SYMBOL(struct cuda, context_current, "cuCtxGetCurrent"),
    SYMBOL(struct cuda, memory_info, "cuMemGetInfo_v2"),
    SYMBOL(struct cuda, memory_alloc, "cuMemAlloc_v2"),
    SYMBOL(struct cuda, memory_free, "cuMemFree_v2"),
    SYMBOL(struct cuda, host_register, "cuMemHostRegister_v2"),
    SYMBOL(struct cuda, host_unregister, "cuMemHostUnregister"),
    SYMBOL(struct cuda, host_address, "cuMemHostGetDevicePointer_v2"),
    SYMBOL(struct cuda, copy_to_host, "cuMemcpyDtoHAsync_v2"),
    SYMBOL(struct cuda, copy_to_device, "cuMemcpyHtoDAsync_v2"),
    SYMBOL(struct cuda, copy_on_device, "cuMemcpyDtoDAsync_v2"),
    SYMBOL(struct cuda, set_bytes, "cuMemsetD8Async"),
    SYMBOL_OPTIONAL(struct cuda, peer_can, "cuDeviceCanAccessPeer"),
    SYMBOL_OPTIONAL(struct cuda, peer_enable, "cuCtxEnablePeerAccess"),
    SYMBOL_OPTIONAL(struct cuda, copy_peer, "cuMemcpyPeerAsync"),
    SYMBOL(struct cuda, stream_create, "cuStreamCreate"),
    SYMBOL(struct cuda, stream_destroy, "cuStreamDestroy_v2"),
    SYMBOL(struct cuda, stream_query, "cuStreamQuery"),
    SYMBOL(struct cuda, stream_wait, "cuStreamSynchronize"),
    SYMBOL(struct cuda, stream_capturing, "cuStreamIsCapturing"),
    SYMBOL_OPTIONAL(struct cuda, thread_capture_mode, "cuThreadExchangeStreamCaptureMode"),
    SYMBOL(struct cuda, stream_wait_event, "cuStreamWaitEvent"),
    SYMBOL_OPTIONAL(struct cuda, stream_write_value, "cuStreamWriteValue64_v2"),
    SYMBOL(struct cuda, event_create, "cuEventCreate"),
    SYMBOL(struct cuda, event_destroy, "cuEventDestroy_v2"),
    SYMBOL(struct cuda, event_record, "cuEventRecord"),
    SYMBOL(struct cuda, event_query, "cuEventQuery"),
    SYMBOL(struct cuda, event_wait, "cuEventSynchronize"),
    SYMBOL(struct cuda, event_elapsed, "cuEventElapsedTime"),
    SYMBOL(struct cuda, module_load, "cuModuleLoadDataEx"),
    SYMBOL(struct cuda, module_unload, "cuModuleUnload"),
    SYMBOL(struct cuda, module_function, "cuModuleGetFunction"),
    SYMBOL(struct cuda, launch, "cuLaunchKernel"),
    { NULL, 0, false },
};

int cuda_load(struct cuda *cuda, symbol_find *find, void *arg, struct err *err)
{
    return symbols_fill(cuda, symbols, find, arg, err);
}

static int cuda_errno(int result)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return -ENOMEM;
    case CUDA_ERROR_NO_DEVICE:
        return -ENODEV;
    case CUDA_ERROR_NOT_READY:
        return -EAGAIN;
    default:
        return -EIO;
    }
}

int cuda_check(const struct cuda *cuda, int result, const char *what, struct err *err)
{
    const char *name = NULL, *text = NULL;

    if (result == CUDA_SUCCESS)
        return 0;
    if (cuda->error_name(result, &name) != CUDA_SUCCESS || !name)
        name = "unknown CUDA error";
    if (cuda->error_string(result, &text) != CUDA_SUCCESS || !text)
        text = "no description";
    return err_set(err, cuda_errno(result), "%s: %s (%d): %s", what, name, result, text);
}
