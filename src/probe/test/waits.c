/* waits.c - the CUDA runtime's waits (WAITS_RUNTIME), or a library that calls them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int cudaStreamSynchronize(void *stream);
EXPORT int cudaEventSynchronize(void *event);
EXPORT int cudaDeviceSynchronize(void);
EXPORT int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream);
EXPORT int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);

#ifdef WAITS_RUNTIME

EXPORT void *waits_last; /* what the newest wait was for */

int cudaStreamSynchronize(void *stream)
{
    waits_last = stream;
    return 11;
}

int cudaEventSynchronize(void *event)
{
    waits_last = event;
    return 22;
}

int cudaDeviceSynchronize(void)
{
    waits_last = &waits_last;
    return 33;
}

int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    waits_last = stream;
    memcpy(to, from, bytes);
    return 40 + kind;
}

int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    waits_last = to;
    memcpy(to, from, bytes);
    return 50 + kind;
}

#else

EXPORT int waits_stream(void *stream);
EXPORT int waits_event(void *event);
EXPORT int waits_device(void);
EXPORT int waits_copy_async(void *to, const void *from, size_t bytes, int kind, void *stream);
EXPORT int waits_copy(void *to, const void *from, size_t bytes, int kind);

int waits_stream(void *stream)
{
    return cudaStreamSynchronize(stream);
}

int waits_event(void *event)
{
    return cudaEventSynchronize(event);
}

int waits_device(void)
{
    return cudaDeviceSynchronize();
}

int waits_copy_async(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    return cudaMemcpyAsync(to, from, bytes, kind, stream);
}

int waits_copy(void *to, const void *from, size_t bytes, int kind)
{
    return cudaMemcpy(to, from, bytes, kind);
}

#endif
