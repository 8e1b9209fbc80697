/* test-device.c - streams run in order, wait for what they depend on, and keep the device's time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>

#include "core/clean.h"
#include "core/time.h"
#include "lab/trainer/device.h"

struct diary {
    atomic_int next;
    int order[8];
};

static int note(struct device_work *work, void *context, struct err *err)
{
    struct diary *diary = context;

    (void)err;
    diary->order[atomic_fetch_add(&diary->next, 1)] = work->block;
    work->end_ns = work->begin_ns + work->model_ns;
    return 0;
}

static int break_down(struct device_work *work, void *context, struct err *err)
{
    (void)work;
    (void)context;
    return err_set(err, -EIO, "this one breaks");
}

static void a_dependency_comes_first_across_streams(void **state)
{
    struct diary diary = { 0 };
    struct device *device = NULL;
    struct device_work first = { .stream = 1, .run = note, .model_ns = 3 * NS_PER_MS, .block = 1 };
    struct device_work second = { .stream = 2, .run = note, .dep = { &first }, .block = 2 };
    struct device_work third = { .stream = 1, .run = note, .dep = { &second, &first }, .block = 3 };

    (void)state;
    assert_int_equal(device_create(&diary, &device, NULL), 0);
    assert_int_equal(device_launch(device, &first, NULL), 0);
    assert_int_equal(device_launch(device, &second, NULL), 0);
    assert_int_equal(device_launch(device, &third, NULL), 0);
    assert_int_equal(device_sync(device, NULL), 0);
    device_destroy(device);
    assert_int_equal(diary.next, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(diary.order[i], i + 1);
    assert_true(second.begin_ns == first.end_ns); /* the device's time, not when a thread woke up */
    assert_true(third.begin_ns == second.end_ns);
    assert_true(time_mono_ns() >= third.end_ns); /* and really waited for */
}

static void work_begins_when_the_one_before_ended(void **state)
{
    struct diary diary = { 0 };
    struct device *device = NULL;
    struct device_work work[8];

    (void)state;
    assert_int_equal(device_create(&diary, &device, NULL), 0);
    for (int i = 0; i < 8; i++) {
        work[i] =
            (struct device_work){ .stream = 1, .run = note, .model_ns = NS_PER_MS, .block = i };
        assert_int_equal(device_launch(device, &work[i], NULL), 0);
    }
    assert_int_equal(device_sync(device, NULL), 0);
    device_destroy(device);
    for (int i = 1; i < 8; i++) {
        assert_int_equal(diary.order[i], i);
        assert_true(work[i].begin_ns == MAX(work[i].enqueue_ns, work[i - 1].end_ns));
    }
}

static void the_first_error_ends_the_wait(void **state)
{
    struct diary diary = { 0 };
    struct device *device = NULL;
    struct device_work broken = { .stream = 3, .run = break_down };
    struct device_work after = { .stream = 1, .run = note, .dep = { &broken } };
    struct err err = { "" };

    (void)state;
    assert_int_equal(device_create(&diary, &device, NULL), 0);
    assert_int_equal(device_launch(device, &broken, NULL), 0);
    (void)device_launch(device, &after, NULL); /* may already know of the error */
    assert_int_equal(device_sync(device, &err), -EIO);
    assert_string_equal(err.text, "this one breaks");
    device_destroy(device); /* does not wait for what can never run */
    assert_int_equal(diary.next, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dependency_comes_first_across_streams),
        cmocka_unit_test(work_begins_when_the_one_before_ended),
        cmocka_unit_test(the_first_error_ends_the_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
