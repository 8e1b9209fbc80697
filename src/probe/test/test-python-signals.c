/* test-python-signals.c - what comes while signals are put off is handled afterwards, once, by whom it was meant for. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clean.h"
#include "probe/python_signals.h"

static atomic_int handled[32], others;

static void interpreter(int number)
{
    atomic_fetch_add(&handled[number], 1);
}

static void somebody(int number)
{
    (void)number;
    atomic_fetch_add(&others, 1);
}

static struct sigaction install(int number, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };

    sigaddset(&action.sa_mask, SIGWINCH);
    assert_int_equal(sigaction(number, &action, NULL), 0);
    assert_int_equal(sigaction(number, NULL, &action), 0);
    return action;
}

static int fresh(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(handled); i++)
        handled[i] = 0;
    others = 0;
    install(SIGINT, interpreter);
    install(SIGTERM, interpreter);
    install(SIGUSR1, somebody);
    install(SIGUSR2, SIG_IGN);
    python_signals_use(sigaction, interpreter);
    return 0;
}

static void comes_afterwards_and_once(void **state)
{
    (void)state;
    assert_true(python_signals_put_off());
    raise(SIGTERM);
    raise(SIGINT);
    raise(SIGINT);
    assert_int_equal(handled[SIGINT] + handled[SIGTERM], 0);
    python_signals_give_back();
    assert_int_equal(handled[SIGINT], 1); /* as many as the interpreter would have made of them */
    assert_int_equal(handled[SIGTERM], 1);
    raise(SIGINT);
    assert_int_equal(handled[SIGINT], 2);
    assert_true(python_signals_put_off());
    python_signals_give_back();
    assert_int_equal(handled[SIGINT], 2);
}

static void handlers_of_others_are_theirs(void **state)
{
    struct sigaction before[32], after;

    (void)state;
    for (int i = 1; i < 32; i++)
        assert_int_equal(sigaction(i, NULL, &before[i]), 0);
    assert_true(python_signals_put_off());
    raise(SIGUSR1);
    raise(SIGUSR2);
    assert_int_equal(others, 1);
    python_signals_give_back();
    for (int i = 1; i < 32; i++) {
        assert_int_equal(sigaction(i, NULL, &after), 0);
        assert_ptr_equal(after.sa_handler, before[i].sa_handler);
        assert_int_equal(after.sa_flags, before[i].sa_flags);
        assert_int_equal(sigismember(&after.sa_mask, SIGWINCH),
                         sigismember(&before[i].sa_mask, SIGWINCH));
    }
}

static void what_is_set_meanwhile_stays(void **state)
{
    struct sigaction after;

    (void)state;
    assert_true(python_signals_put_off());
    install(SIGINT, somebody);
    python_signals_give_back();
    assert_int_equal(sigaction(SIGINT, NULL, &after), 0);
    assert_ptr_equal(after.sa_handler, somebody);
}

static void within_another_it_does_nothing(void **state)
{
    (void)state;
    assert_true(python_signals_put_off());
    assert_false(python_signals_put_off());
    raise(SIGINT);
    assert_int_equal(handled[SIGINT], 0);
    python_signals_give_back();
    assert_int_equal(handled[SIGINT], 1);
}

static void *put_off_here(void *answer)
{
    *(bool *)answer = python_signals_put_off();
    return NULL;
}

static void other_threads_handle_none(void **state)
{
    bool answer = true;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, put_off_here, &answer), 0);
    pthread_join(thread, NULL);
    assert_false(answer);
}

static atomic_bool enough;
#define SENT 2000

static void *send_many(void *to)
{
    for (int i = 0; i < SENT; i++) {
        int before = handled[SIGINT];

        pthread_kill(i % 2 ? *(pthread_t *)to : pthread_self(), SIGINT);
        while (handled[SIGINT] == before) /* each is handled at some time, or this never ends */
            ;
    }
    enough = true;
    return NULL;
}

static void none_is_lost_between(void **state)
{
    pthread_t self = pthread_self(), thread;

    (void)state;
    enough = false;
    assert_int_equal(pthread_create(&thread, NULL, send_many, &self), 0);
    while (!enough) {
        assert_true(python_signals_put_off());
        python_signals_give_back();
    }
    pthread_join(thread, NULL);
    assert_int_equal(handled[SIGINT], SENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(comes_afterwards_and_once, fresh),
        cmocka_unit_test_setup(handlers_of_others_are_theirs, fresh),
        cmocka_unit_test_setup(what_is_set_meanwhile_stays, fresh),
        cmocka_unit_test_setup(within_another_it_does_nothing, fresh),
        cmocka_unit_test_setup(other_threads_handle_none, fresh),
        cmocka_unit_test_setup(none_is_lost_between, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
