/* Files, times and signals are served, and what was removed is not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/loop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/time.h"

/* While it has a step, the clock is the test's: it goes on by that much between any two readings, as on a machine with
 * too much to do.  What epoll_wait() is asked for is written down, and it returns at once.
 */
static struct {
    int64_t now_ns, step_ns;
    int asked_ms[64];
    size_t asked;
} machine;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!machine.step_ns)
        return (int)syscall(SYS_clock_gettime, clock, ret);
    machine.now_ns += machine.step_ns;
    *ret = time_spec(machine.now_ns);
    return 0;
}

int epoll_wait(int fd, struct epoll_event *event, int most, int timeout_ms)
{
    if (machine.step_ns && machine.asked < COUNT(machine.asked_ms))
        machine.asked_ms[machine.asked++] = timeout_ms;
    return epoll_pwait(fd, event, most, machine.step_ns ? 0 : timeout_ms, NULL);
}

struct scene {
    struct loop *loop;
    int pipe[2][2];
    int calls, signal;
    struct loop_timer timer, other;
};

static int setup(void **state)
{
    struct scene *scene = test_calloc(1, sizeof(*scene));

    assert_int_equal(loop_create(&scene->loop, NULL), 0);
    assert_int_equal(pipe(scene->pipe[0]) | pipe(scene->pipe[1]), 0);
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    struct scene *scene = *state;

    loop_destroy(scene->loop);
    for (int i = 0; i < 4; i++)
        close(scene->pipe[i / 2][i % 2]);
    test_free(scene);
    return 0;
}

/* Whichever of the two comes first takes the other one away. */
static void take_the_other_away(void *arg, int fd, uint32_t events)
{
    struct scene *scene = arg;

    (void)events;
    scene->calls++;
    loop_forget(scene->loop, scene->pipe[fd == scene->pipe[0][0]][0]);
}

static void a_file_that_was_forgotten_is_not_served(void **state)
{
    struct scene *scene = *state;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            loop_watch(scene->loop, scene->pipe[i][0], EPOLLIN, take_the_other_away, scene), 0);
        assert_int_equal(write(scene->pipe[i][1], "x", 1), 1);
    }
    assert_int_equal(loop_turn(scene->loop, 0, NULL), 0);
    assert_int_equal(scene->calls, 1);
}

static void count_and_stop(void *arg, int64_t now_ns)
{
    struct scene *scene = arg;

    scene->calls++;
    if (scene->calls < 3)
        loop_timer_set(scene->loop, &scene->timer, now_ns);
    else
        loop_stop(scene->loop);
}

static void drop_the_other(void *arg, int64_t now_ns)
{
    struct scene *scene = arg;

    (void)now_ns;
    loop_timer_drop(scene->loop, &scene->other);
    loop_timer_drop(scene->loop, &scene->timer);
    loop_stop(scene->loop);
    scene->calls++;
}

static void a_timer_comes_as_often_as_it_is_set(void **state)
{
    struct scene *scene = *state;

    scene->timer = (struct loop_timer){ .fn = count_and_stop, .arg = scene };
    loop_timer_set(scene->loop, &scene->timer, time_mono_ns() + NS_PER_MS);
    assert_int_equal(loop_run(scene->loop, NULL), 0);
    assert_int_equal(scene->calls, 3);
}

static void a_timer_that_was_dropped_does_not_come(void **state)
{
    struct scene *scene = *state;

    scene->timer = (struct loop_timer){ .fn = drop_the_other, .arg = scene };
    scene->other = (struct loop_timer){ .fn = drop_the_other, .arg = scene };
    loop_timer_set(scene->loop, &scene->timer, 1);
    loop_timer_set(scene->loop, &scene->other, 1);
    assert_int_equal(loop_run(scene->loop, NULL), 0);
    assert_int_equal(scene->calls, 1);
}

static void note_signal(void *arg, int number)
{
    struct scene *scene = arg;

    scene->signal = number;
    loop_stop(scene->loop);
}

static void a_signal_is_a_call_like_any_other(void **state)
{
    static const int wanted[] = { SIGUSR1 };
    struct scene *scene = *state;

    assert_int_equal(loop_signals(scene->loop, wanted, 1, note_signal, scene, NULL), 0);
    kill(getpid(), SIGUSR1);
    assert_int_equal(loop_run(scene->loop, NULL), 0);
    assert_int_equal(scene->signal, SIGUSR1);
}

static void count_only(void *arg, int64_t now_ns)
{
    struct scene *scene = arg;

    (void)now_ns;
    scene->calls++;
}

/* A timer that is still ahead at one reading of the clock, and has come at the next. */
static void it_does_not_sleep_for_ever_when_the_clock_goes_on_between_two_readings(void **state)
{
    struct scene *scene = *state;

    scene->timer = (struct loop_timer){ .fn = count_only, .arg = scene };
    machine.now_ns = NS_PER_S;
    for (int ms = 1; ms <= 50; ms++) {
        machine.step_ns = 40 * NS_PER_MS;
        loop_timer_set(scene->loop, &scene->timer, machine.now_ns + ms * 2 * NS_PER_MS);
        assert_int_equal(loop_turn(scene->loop, INT64_MAX, NULL), 0);
        machine.step_ns = 0;
    }
    assert_int_equal(machine.asked, 50);
    for (size_t i = 0; i < machine.asked; i++)
        assert_in_range(machine.asked_ms[i], 0, 100);
    assert_true(scene->calls > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_that_was_forgotten_is_not_served, setup, teardown),
        cmocka_unit_test_setup_teardown(a_timer_comes_as_often_as_it_is_set, setup, teardown),
        cmocka_unit_test_setup_teardown(a_timer_that_was_dropped_does_not_come, setup, teardown),
        cmocka_unit_test_setup_teardown(a_signal_is_a_call_like_any_other, setup, teardown),
        cmocka_unit_test_setup_teardown(
            it_does_not_sleep_for_ever_when_the_clock_goes_on_between_two_readings, setup,
            teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
