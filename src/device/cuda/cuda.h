/* cuda.h - the part of the CUDA driver's interface that lockstep uses.
 *
 * No CUDA header is needed to build.  Types are as wide as in cuda.h: contexts, streams, events, modules and functions are
 * pointers, device memory is a 64-bit address, a device and a result are int.  The struct is filled once and then only
 * read; calls go straight to the driver, from any thread.  Includes core only: it also runs inside training processes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_DEVICE_CUDA_CUDA_H
#define LOCKSTEP_DEVICE_CUDA_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "device/cuda/symbols.h"

#define CUDA_LIBRARY "libcuda.so.1"

enum { /* results that callers treat each in its own way */
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_PEER_ENABLED = 704, /* before, by somebody else of this process */
};

enum { /* attributes of a device */
    CUDA_ATTRIBUTE_CLOCK_KHZ = 13,
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_MAJOR = 75,
    CUDA_ATTRIBUTE_MINOR = 76,
};

enum {
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_EVENT_DEFAULT = 0,
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_HOST_REGISTER_PORTABLE = 1,
    CUDA_HOST_REGISTER_MAPPED = 2,
    CUDA_CAPTURE_MODE_RELAXED = 2, /* what this thread calls disturbs no capture of another */
};

struct cuda_uuid {
    unsigned char byte[16];
};

struct cuda {
    int (*init)(unsigned flags);
    int (*driver_version)(int *ret);
    int (*error_name)(int result, const char **ret);
    int (*error_string)(int result, const char **ret);

    int (*device_count)(int *ret);
    int (*device_get)(int *ret, int ordinal);
    int (*device_name)(char *ret, int room, int device);
    int (*device_uuid)(struct cuda_uuid *ret, int device);
    int (*device_pci)(char *ret, int room, int device);
    int (*device_attribute)(int *ret, int attribute, int device);
    int (*device_memory)(size_t *ret_bytes, int device);

    int (*context_retain)(void **ret, int device); /* the one that torch uses too */
    int (*context_release)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **ret);
    int (*context_current)(void **ret);

    int (*memory_info)(size_t *ret_free, size_t *ret_total);
    int (*memory_alloc)(uint64_t *ret, size_t bytes);
    int (*memory_free)(uint64_t address);
    int (*host_register)(void *memory, size_t bytes, unsigned flags);
    int (*host_unregister)(void *memory);
    int (*host_address)(uint64_t *ret, void *memory, unsigned flags); /* as the device has it */
    int (*copy_to_host)(void *to, uint64_t from, size_t bytes, void *stream);
    int (*copy_to_device)(uint64_t to, const void *from, size_t bytes, void *stream);
    int (*copy_on_device)(uint64_t to, uint64_t from, size_t bytes, void *stream);
    int (*set_bytes)(uint64_t to, unsigned char value, size_t bytes, void *stream);

    /* Between two GPUs; NULL: not there. */
    int (*peer_can)(int *ret, int device, int peer);
    int (*peer_enable)(void *peer_context, unsigned flags);
    int (*copy_peer)(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes,
                     void *stream);

    int (*stream_create)(void **ret, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_query)(void *stream); /* CUDA_ERROR_NOT_READY: it still runs */
    int (*stream_wait)(void *stream);
    int (*stream_capturing)(void *stream, int *ret); /* 0: no */
    int (*thread_capture_mode)(int *mode); /* exchanges it; NULL: not there */
    int (*stream_wait_event)(void *stream, void *event, unsigned flags);
    int (*stream_write_value)(void *stream, uint64_t address, uint64_t value,
                              unsigned flags); /* NULL: not there */

    int (*event_create)(void **ret, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_wait)(void *event);
    int (*event_elapsed)(float *ret_ms, void *begin, void *end);

    int (*module_load)(void **ret, const void *image, unsigned options, int *option, void **value);
    int (*module_unload)(void *module);
    int (*module_function)(void **ret, void *module, const char *name);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  void *stream, void **arguments, void **extra);
};

/* Fills the table; the driver is not initialized yet (init()).  -ENOSYS: a function is missing. */
int cuda_load(struct cuda *cuda, symbol_find *find, void *arg, struct err *err);

/* 0 for success, else -errno with "WHAT: the driver's name and text for it": -ENOMEM, -ENODEV, -EAGAIN for what is not
 * ready, -EIO for all others.
 */
int cuda_check(const struct cuda *cuda, int result, const char *what, struct err *err);

#endif
