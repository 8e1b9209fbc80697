/* waits.c - the CUDA runtime's waits (WAITS_RUNTIME), or a library that calls them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define EXPORT __attribute__((visibility("default")))

EXPORT int cudaStreamSynchronize(void *stream);
EXPORT int cudaEventSynchronize(void *event);
EXPORT int cudaDeviceSynchronize(void);

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

#else

EXPORT int waits_stream(void *stream);
EXPORT int waits_event(void *event);
EXPORT int waits_device(void);

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

#endif
