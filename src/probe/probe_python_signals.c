/* probe_python_signals.c - the interpreter's signals, put off by exchanging handlers in the kernel's table.
 *
 * Python's own functions for that cost ten times as much once a backward, with cold caches, and handle what is pending
 * where they are called.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "probe/python_signals.h"

#define SIGNALS_END 32 /* those of real time beyond are nobody's way to end a training */

static struct {
    python_sigaction action;
    void (*handler)(int number); /* the interpreter's; NULL: not known */
    pthread_t thread;
    uint32_t put_off; /* bits: those that have our handler */
    atomic_bool away;
    _Atomic uint32_t came;
} signals;

static uint32_t signal_bit(int number)
{
    return UINT32_C(1) << number;
}

/* In any thread.  One that comes while they are given back is passed on by whoever finds its bit. */
static void signal_later(int number)
{
    atomic_fetch_or(&signals.came, signal_bit(number));
    if (!atomic_load(&signals.away) &&
        atomic_fetch_and(&signals.came, ~signal_bit(number)) & signal_bit(number))
        signals.handler(number);
}

void python_signals_use(python_sigaction action, void (*handler)(int number))
{
    if (signals.away)
        return;
    signals.action = action;
    signals.thread = pthread_self();
    signals.handler = handler;
}

/* Where `from` handles it, `to` does; all else about it stays. */
static bool signal_exchange(int number, void (*from)(int), void (*to)(int))
{
    struct sigaction now;

    if (signals.action(number, NULL, &now) < 0 || now.sa_flags & SA_SIGINFO ||
        now.sa_handler != from)
        return false;
    now.sa_handler = to;
    return signals.action(number, &now, NULL) == 0;
}

bool python_signals_put_off(void)
{
    if (!signals.handler || signals.away || !pthread_equal(signals.thread, pthread_self()))
        return false;
    signals.away = true;
    for (int number = 1; number < SIGNALS_END; number++)
        if (number != SIGKILL && number != SIGSTOP &&
            signal_exchange(number, signals.handler, signal_later))
            signals.put_off |= signal_bit(number);
    return true;
}

void python_signals_give_back(void)
{
    uint32_t came;

    for (int number = 1; signals.put_off; number++) {
        if (signals.put_off & signal_bit(number))
            signal_exchange(number, signal_later, signals.handler);
        signals.put_off &= ~signal_bit(number);
    }
    signals.away = false;
    came = atomic_exchange(&signals.came, 0);
    for (int number = 1; came; number++) {
        if (came & signal_bit(number))
            signals.handler(number);
        came &= ~signal_bit(number);
    }
}
