/* test-host-wait.c - a wait for the device inside a library of torch is stamped, and is the same wait as before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "core/clean.h"
#include "device/cuda/cuda.h"
#include "probe/host_wait.h"
#include "probe/stamp.h"

static const char *waits_place; /* where the libraries are */
static struct cuda cuda;

struct waits {
    int (*stream)(void *), (*event)(void *), (*device)(void);
    int (*copy_async)(void *, const void *, size_t, int, void *);
    int (*copy)(void *, const void *, size_t, int);
};

static void *waits_find(void *library, const char *name)
{
    return dlsym(library ? library : RTLD_DEFAULT, name);
}

static void *waits_library(const char *name, int flags)
{
    char path[4096];
    void *library;

    assert_in_range(snprintf(path, sizeof(path), "%s/%s", waits_place, name), 1, sizeof(path) - 1);
    library = dlopen(path, flags);
    if (!library)
        fail_msg("%s", dlerror());
    return library;
}

static struct waits waits_of(const char *name, int flags)
{
    void *library = waits_library(name, flags);
    const char *names[] = { "waits_stream", "waits_event", "waits_device", "waits_copy_async",
                            "waits_copy" };
    void *found[COUNT(names)];
    struct waits waits;

    for (size_t i = 0; i < COUNT(names); i++) {
        found[i] = dlsym(library, names[i]);
        assert_non_null(found[i]);
    }
    memcpy(&waits, found, sizeof(waits));
    return waits;
}

static struct lockstep_probe *waits_scene(void)
{
    struct lockstep_probe *probe = NULL;
    struct err err = { .text = "" };
    void *context, *library = dlopen("libcuda.so.1", RTLD_NOW);

    assert_non_null(library);
    assert_int_equal(cuda_load(&cuda, dlsym, library, &err), 0);
    assert_int_equal(cuda.context_retain(&context, 0), 0);
    assert_int_equal(cuda.context_push(context), 0);
    assert_int_equal(lockstep_probe_open(3, 8, &probe, NULL, 0), 0);
    assert_int_equal(stamps_open(probe, dlsym, library, &err), 0);
    return probe;
}

static uint64_t waits_stamped(struct ring_reader *reader)
{
    struct ring_event events[32];
    uint64_t lost = 0, stamped = 0;
    size_t count = scene_drain(reader, events, 32, &lost);

    for (size_t i = 0; i < count; i++)
        stamped += events[i].kind == RING_STAMP && events[i].detail == RING_STAMP_HOST_WAIT;
    return stamped;
}

struct waits_of_thread {
    struct waits waits;
    void *stream, *context;
};

static void *waits_aside(void *arg)
{
    struct waits_of_thread *of = arg;

    cuda.context_push(of->context);
    of->waits.stream(of->stream);
    return NULL;
}

static void waits_of_torchs_libraries_are_stamped(void **state)
{
    void *runtime = waits_library("libcudart-waits.so", RTLD_NOW | RTLD_GLOBAL);
    struct waits torch = waits_of("libtorch_waits.so", RTLD_LAZY);
    struct waits c10 = waits_of("libc10_waits.so", RTLD_NOW);
    struct waits unbound = waits_of("libc10_unbound_waits.so", RTLD_LAZY);
    struct waits other = waits_of("libother_waits.so", RTLD_LAZY);
    struct lockstep_probe *probe = waits_scene();
    struct ring_reader *reader = scene_read(*state, 3, 0);
    const struct stamp begin = { .what = RING_STAMP_STEP_BEGIN,
                                 .phase = LOCKSTEP_PHASE_OTHER,
                                 .comm = -1 };
    void **last = dlsym(runtime, "waits_last"), *compute, *aside;
    int event, to = 0, from = 7;
    uint64_t stamped = 0;
    void *context = NULL;
    pthread_t thread;

    assert_non_null(last);
    assert_int_equal(cuda.stream_create(&compute, CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuda.stream_create(&aside, CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(torch.stream(aside), 11);
    assert_int_equal(host_waits_watch(waits_find), 10);
    assert_int_equal(host_waits_watch(waits_find), 0);
    lockstep_step_begin(probe, 1);
    assert_true(stamp_put(probe, compute, &begin));
    assert_int_equal(waits_stamped(reader), 0);
    assert_int_equal(torch.stream(compute), 11);
    assert_ptr_equal(*last, compute);
    assert_int_equal(waits_stamped(reader), 1);
    assert_int_equal(cuda.context_current(&context), 0);
    assert_int_equal(pthread_create(&thread, NULL, waits_aside,
                                    &(struct waits_of_thread){ torch, compute, context }),
                     0);
    pthread_join(thread, NULL);
    assert_int_equal(waits_stamped(reader), 0); /* the step does not wait for another thread's */
    assert_int_equal(c10.stream(aside), 11);    /* it does not compute */
    assert_ptr_equal(*last, aside);
    assert_int_equal(other.stream(compute), 11);   /* not torch's */
    assert_int_equal(unbound.stream(compute), 11); /* nobody knows yet where it leads */
    assert_int_equal(waits_stamped(reader), 0);
    assert_int_equal(c10.event(&event), 22);
    assert_ptr_equal(*last, &event);
    assert_int_equal(torch.device(), 33);
    assert_int_equal(waits_stamped(reader), 2);
    assert_int_equal(torch.copy_async(&to, &from, sizeof(to), 2, compute), 42);
    assert_int_equal(to, 7);
    assert_int_equal(waits_stamped(reader), 1);
    assert_int_equal(torch.copy_async(&to, &from, sizeof(to), 3, compute), 43); /* on the device */
    assert_int_equal(torch.copy_async(&to, &from, sizeof(to), 2, aside), 42);
    assert_int_equal(waits_stamped(reader), 0);
    for (int tries = 0; stamped != 1; tries++) { /* another process may run between the two */
        assert_true(tries < 100);
        assert_int_equal(torch.copy_async(&to, &from, sizeof(to), 2, compute), 42);
        assert_int_equal(torch.stream(compute), 11); /* the same wait */
        stamped = waits_stamped(reader);
    }
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); /* it is none any more */
    assert_int_equal(torch.stream(compute), 11);
    assert_int_equal(waits_stamped(reader), 1);
    assert_int_equal(c10.copy(&to, &from, sizeof(to), 1), 51);
    assert_int_equal(waits_stamped(reader), 1);
    assert_int_equal(host_waits_watch(NULL), 10);
    assert_int_equal(host_waits_watch(NULL), 0);
    assert_int_equal(torch.stream(compute), 11);
    assert_int_equal(waits_stamped(reader), 0);
    assert_int_equal(host_waits_watch(waits_find), 11); /* one more is bound by now */
    ring_reader_close(reader);
    lockstep_probe_close(probe);
    assert_int_equal(torch.stream(compute), 11); /* without a ring, as without us */
    assert_ptr_equal(*last, compute);
    assert_int_equal(cuda.stream_destroy(compute), 0);
    assert_int_equal(cuda.stream_destroy(aside), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(waits_of_torchs_libraries_are_stamped, scene_setup,
                                        scene_teardown),
    };

    if (argc != 2)
        return 2;
    waits_place = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
