/* test-stamp.c - a device stamps its streams, and whoever reads the ring sees when it got there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "probe/test/scene.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/time.h"
#include "device/cuda/cuda.h"
#include "probe/stamp.h"

#define AHEAD_NS INT64_C(123456789012345)

static struct cuda cuda; /* the scripted one, as the program itself uses it */
static void *library;

static struct lockstep_probe *stamps_scene(void)
{
    struct lockstep_probe *probe = NULL;
    void *context;
    struct err err = { .text = "" };

    library = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(library);
    assert_int_equal(cuda_load(&cuda, dlsym, library, &err), 0);
    assert_int_equal(cuda.context_retain(&context, 0), 0);
    assert_int_equal(cuda.context_push(context), 0);
    assert_int_equal(lockstep_probe_open(3, 8, &probe, NULL, 0), 0);
    if (stamps_open(probe, dlsym, library, &err) < 0)
        fail_msg("%s", err.text);
    return probe;
}

static void stamps_lie_in_the_order_of_the_device(void **state)
{
    struct lockstep_probe *probe = stamps_scene();
    struct ring_reader *reader = scene_read(*state, 3, 0);
    const struct stamp begin = { .what = RING_STAMP_STEP_BEGIN,
                                 .phase = LOCKSTEP_PHASE_OTHER,
                                 .comm = -1 };
    const struct stamp wait = { .what = RING_STAMP_WAIT_BEGIN,
                                .phase = LOCKSTEP_PHASE_FORWARD,
                                .comm = 2,
                                .colls = 7,
                                .messages = 1 };
    struct ring_stamp stamp[8];
    struct ring_event e[8];
    struct ring_clock clock;
    uint64_t lost = 0;
    void *compute, *other;
    int64_t before_ns, apart_ns;

    assert_true(stamps_are_on());
    assert_null(stamps_off_reason());
    assert_int_equal(cuda.stream_create(&compute, CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cuda.stream_create(&other, CUDA_STREAM_NON_BLOCKING), 0);
    assert_int_equal(ring_reader_stamps(reader, stamp, 8, &lost), 0);
    lockstep_step_begin(probe, 5);
    before_ns = time_mono_ns();
    assert_true(stamp_put(probe, compute, &begin));
    assert_true(stamp_put(probe, compute, &wait));
    assert_false(stamp_put(probe, other, &wait)); /* it does not compute */
    assert_int_equal(cuda.stream_wait(compute), 0);
    assert_int_equal(ring_reader_stamps(reader, stamp, 8, &lost), 2);
    assert_int_equal(lost, 0);
    assert_int_equal(stamp[0].count, 1);
    assert_int_equal(stamp[0].tag, 1);
    assert_int_equal(stamp[1].tag, 2);
    assert_true(stamp[1].device_ns > stamp[0].device_ns);
    assert_int_equal(ring_reader_stamps(reader, stamp, 8, &lost), 0);
    /* A comparison of the clocks was launched with the step: when it has come, the next step publishes it. */
    for (uint64_t step = 6; !ring_reader_clock(reader, &clock) && step < 500; step++) {
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 },
                  NULL); /* clocks are compared every 20 ms */
        lockstep_step_begin(probe, step);
        stamp_put(probe, compute, &begin);
    }
    assert_true(ring_reader_clock(reader, &clock));
    apart_ns = ring_clock_host(&clock, stamp[0].device_ns) - before_ns;
    assert_true(apart_ns > -10 * NS_PER_MS && apart_ns < 2 * NS_PER_S);
    assert_int_equal(stamps_host_ns(stamp[0].device_ns),
                     ring_clock_host(&clock, stamp[0].device_ns));
    assert_int_equal(scene_drain(reader, e, 3, &lost), 3);
    assert_int_equal(e[2].kind, RING_STAMP);
    assert_int_equal(e[2].detail, RING_STAMP_WAIT_BEGIN);
    assert_int_equal(e[2].comm, 2);
    assert_int_equal(e[2].step, 5);
    assert_int_equal(e[2].a, 2);
    assert_int_equal(e[2].b, LOCKSTEP_PHASE_FORWARD);
    assert_int_equal(e[2].c, 7);
    assert_int_equal(e[2].d, 1);
    ring_reader_close(reader);
    lockstep_probe_close(probe);
    assert_false(stamp_put(probe, compute, &begin));
    assert_int_equal(cuda.stream_destroy(other), 0);
    assert_int_equal(cuda.stream_destroy(compute), 0);
}

static void the_clock_is_the_quickest_launch(void **state)
{
    struct stamp_clock clock = { .newest = 0 };
    struct ring_clock now;

    (void)state;
    assert_false(stamp_clock_get(&clock, &now));
    /* 30 ppm faster than the host's; launches take 4 to 400 us. */
    for (int64_t i = 0; i < 500; i++) {
        int64_t host_ns = NS_PER_S + i * 20 * NS_PER_MS,
                launch_ns = i % 17 == 3 ? 4000 : 4000 + i % 13 * 30000;

        stamp_clock_put(
            &clock, (uint64_t)host_ns,
            (uint64_t)(host_ns + AHEAD_NS + (int64_t)((double)host_ns * 30e-6) + launch_ns));
    }
    assert_true(stamp_clock_get(&clock, &now));
    for (int64_t host_ns = 8 * NS_PER_S; host_ns < 14 * NS_PER_S; host_ns += NS_PER_S / 3) {
        int64_t device_ns = host_ns + AHEAD_NS + (int64_t)((double)host_ns * 30e-6);
        int64_t error_ns = ring_clock_host(&now, (uint64_t)device_ns) - host_ns;

        assert_in_range(error_ns + 100000, 100000 - 6000,
                        100000 - 2000); /* early by the quickest launch */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stamps_lie_in_the_order_of_the_device, scene_setup,
                                        scene_teardown),
        cmocka_unit_test(the_clock_is_the_quickest_launch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
