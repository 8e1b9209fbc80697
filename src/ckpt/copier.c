/* copier.c - the CUDA driver for copies of tensors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "ckpt/copier.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/clean.h"
#include "core/old_symbols.h"

/* Weak: before glibc 2.34 they are in libdl, which every program with CUDA has loaded, but others have not. */
#pragma weak dlopen
#pragma weak dlsym
#if OLD_SYMBOLS
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dlsym,dlsym@GLIBC_2.2.5");
#endif

static void *copier_symbol_find(void *handle, const char *name)
{
    return dlsym(handle, name);
}

static int copier_driver_load(struct copier *copier, struct err *err)
{
    void *handle;
    int result;

    if (copier->loaded)
        return 0;
    if (!dlopen || !dlsym)
        return err_set(err, -ENOSYS, "this program has no libdl to load " CUDA_LIBRARY " with");
    handle = dlopen(CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL); /* never closed: it is the program's */
    if (!handle)
        return err_set(err, -ENODEV, "no CUDA driver: " CUDA_LIBRARY " cannot be loaded");
    result = cuda_load(&copier->cuda, copier_symbol_find, handle, err);
    if (result == 0)
        result = cuda_check(&copier->cuda, copier->cuda.init(0), "cuInit", err);
    copier->loaded = result == 0;
    return result;
}

/* ---- contexts ---- */

/* The driver's calls are for the context of the calling thread: ours is current only inside a function here. */
static int copier_enter(const struct copier *copier, const struct copier_device *device,
                        struct err *err)
{
    return cuda_check(&copier->cuda, copier->cuda.context_push(device->context), "cuCtxPushCurrent",
                      err);
}

static void copier_leave(const struct copier *copier)
{
    void *context;

    copier->cuda.context_pop(&context);
}

static int copier_device_make(struct copier *copier, struct copier_device *made, struct err *err)
{
    const struct cuda *cuda = &copier->cuda;
    int result = copier_enter(copier, made, err);

    if (result < 0)
        return result;
    result = cuda_check(cuda, cuda->stream_create(&made->stream, CUDA_STREAM_NON_BLOCKING),
                        "cuStreamCreate", err);
    if (result == 0)
        result = cuda_check(cuda, cuda->event_create(&made->ordered, CUDA_EVENT_DISABLE_TIMING),
                            "cuEventCreate", err);
    for (int i = 0; result == 0 && i < COPIER_MARKS; i++)
        result = cuda_check(cuda, cuda->event_create(&made->mark[i], CUDA_EVENT_DISABLE_TIMING),
                            "cuEventCreate", err);
    copier_leave(copier);
    return result;
}

static void copier_device_close(const struct copier *copier, uint32_t number,
                                struct copier_device *device)
{
    if (!device->context)
        return;
    if (copier_enter(copier, device, NULL) == 0) {
        if (device->stream) {
            copier->cuda.stream_wait(device->stream);
            copier->cuda.stream_destroy(device->stream);
        }
        if (device->ordered)
            copier->cuda.event_destroy(device->ordered);
        for (int i = 0; i < COPIER_MARKS; i++) {
            if (device->mark[i])
                copier->cuda.event_destroy(device->mark[i]);
        }
        copier_leave(copier);
    }
    copier->cuda.context_release((int)number);
    *device = (struct copier_device){ .context = NULL };
}

int copier_open(struct copier *copier, uint32_t device, struct err *err)
{
    struct copier_device made = { .context = NULL };
    int result, handle = 0;

    if (device >= COPIER_DEVICES)
        return err_set(err, -EINVAL, "device %" PRIu32 " is not valid", device);
    if (copier->device[device].context)
        return 0;
    result = copier_driver_load(copier, err);
    if (result == 0)
        result = cuda_check(&copier->cuda, copier->cuda.device_get(&handle, (int)device),
                            "cuDeviceGet", err);
    if (result == 0)
        result = cuda_check(&copier->cuda, copier->cuda.context_retain(&made.context, handle),
                            "cuDevicePrimaryCtxRetain", err);
    if (result == 0)
        result = copier_device_make(copier, &made, err);
    if (result < 0) {
        copier_device_close(copier, device, &made);
        return result;
    }
    made.trainer = copier->device[device].trainer;
    copier->device[device] = made;
    copier->devices++;
    return 0;
}

void copier_close(struct copier *copier)
{
    copier_arena_drop(copier);
    for (uint32_t i = 0; i < COPIER_DEVICES; i++)
        copier_device_close(copier, i, &copier->device[i]);
    copier->devices = 0;
}

static struct copier_device *copier_first(struct copier *copier)
{
    for (uint32_t i = 0; i < COPIER_DEVICES; i++) {
        if (copier->device[i].context)
            return &copier->device[i];
    }
    return NULL;
}

/* ---- the arena ---- */

static void *copier_arena_run(void *ctx)
{
    struct copier *copier = ctx;
    const struct copier_device *device = copier_first(copier);
    int result;

    copier->untouched = !arena_touch(copier->arena);
    if (copier->untouched || !device || copier_enter(copier, device, &copier->why) < 0)
        return NULL;
    result = copier->cuda.host_register(copier->arena->base, copier->arena->bytes,
                                        CUDA_HOST_REGISTER_PORTABLE);
    copier->registered = cuda_check(&copier->cuda, result, "cuMemHostRegister", &copier->why) == 0;
    copier_leave(copier);
    return NULL;
}

void copier_arena_take(struct copier *copier, struct arena *arena)
{
    copier_arena_drop(copier);
    copier->arena = arena;
    copier->why = (struct err){ "" };
    if (!threads_add(&copier->thread, copier_arena_run, copier))
        copier_arena_run(copier);
}

int copier_arena_wait(struct copier *copier, struct err *err)
{
    threads_join(&copier->thread);
    return copier->untouched ? err_set(err, -ENOMEM, "arena of %" PRIu64 " MiB: not enough memory",
                                       copier->arena->bytes >> 20)
                             : 0;
}

void copier_arena_drop(struct copier *copier)
{
    const struct copier_device *device = copier_first(copier);

    threads_join(&copier->thread);
    if (copier->registered && device) {
        copier_wait(copier, COPIER_ALL, NULL); /* nothing writes there any more */
        if (copier_enter(copier, device, NULL) == 0) {
            copier->cuda.host_unregister(copier->arena->base);
            copier_leave(copier);
        }
    }
    copier->registered = copier->untouched = false;
    copier->arena = NULL;
}

/* ---- copies ---- */

typedef int copier_each(struct copier *copier, struct copier_device *device, int number,
                        struct err *err);

static int copier_devices_each(struct copier *copier, copier_each *each, int number,
                               struct err *err)
{
    int result = 0;

    for (uint32_t i = 0; i < COPIER_DEVICES; i++) {
        struct err own = { "" };
        int one;

        if (!copier->device[i].context)
            continue;
        one = copier_enter(copier, &copier->device[i], &own);
        if (one == 0) {
            one = each(copier, &copier->device[i], number, &own);
            copier_leave(copier);
        }
        if (one < 0 && result == 0) /* the others must be waited for all the same */
            result = err_set(err, one, "GPU %" PRIu32 ": %s", i, own.text);
    }
    return result;
}

static int copier_order_one(struct copier *copier, struct copier_device *device, int number,
                            struct err *err)
{
    const struct cuda *cuda = &copier->cuda;
    int result = cuda_check(cuda, cuda->event_record(device->ordered, device->trainer),
                            "cuEventRecord", err);

    (void)number;
    if (result == 0)
        result = cuda_check(cuda, cuda->stream_wait_event(device->stream, device->ordered, 0),
                            "cuStreamWaitEvent", err);
    return result;
}

int copier_order(struct copier *copier, struct err *err)
{
    return copier_devices_each(copier, copier_order_one, 0, err);
}

static int copier_mark_one(struct copier *copier, struct copier_device *device, int mark,
                           struct err *err)
{
    return cuda_check(&copier->cuda, copier->cuda.event_record(device->mark[mark], device->stream),
                      "cuEventRecord", err);
}

int copier_mark(struct copier *copier, enum copier_mark mark, struct err *err)
{
    return copier_devices_each(copier, copier_mark_one, (int)mark, err);
}

/* COPIER_ALL by the stream: it also ends what an error left unmarked. */
static int copier_wait_one(struct copier *copier, struct copier_device *device, int mark,
                           struct err *err)
{
    if (mark == COPIER_ALL)
        return cuda_check(&copier->cuda, copier->cuda.stream_wait(device->stream),
                          "cuStreamSynchronize", err);
    return cuda_check(&copier->cuda, copier->cuda.event_wait(device->mark[mark]),
                      "cuEventSynchronize", err);
}

int copier_wait(struct copier *copier, enum copier_mark mark, struct err *err)
{
    return copier_devices_each(copier, copier_wait_one, (int)mark, err);
}

int copier_copy_out(struct copier *copier, uint32_t device, void *to, uint64_t from, uint64_t bytes,
                    struct err *err)
{
    struct copier_device *at = &copier->device[device];
    int result = copier_enter(copier, at, err);

    if (result < 0)
        return result;
    result = cuda_check(&copier->cuda, copier->cuda.copy_to_host(to, from, bytes, at->stream),
                        "cuMemcpyDtoHAsync", err);
    copier_leave(copier);
    return result;
}

int copier_copy_in(struct copier *copier, uint32_t device, uint64_t to, const void *from,
                   uint64_t bytes, struct err *err)
{
    struct copier_device *at = &copier->device[device];
    int result = copier_enter(copier, at, err);

    if (result < 0)
        return result;
    result = cuda_check(&copier->cuda, copier->cuda.copy_to_device(to, from, bytes, at->stream),
                        "cuMemcpyHtoDAsync", err);
    if (result == 0)
        result = cuda_check(&copier->cuda, copier->cuda.stream_wait(at->stream),
                            "cuStreamSynchronize", err);
    copier_leave(copier);
    return result;
}
