/* python_signals.h - a signal that comes for the interpreter during backward is given to it afterwards.
 *
 * While put off, the handlers of the process that are the interpreter's own, and no others, are ours: it only takes
 * note of the number.  The interpreter's table of handlers is not touched, so whoever asks it gets the true answer, and
 * one that is set meanwhile stays.
 */
#ifndef LOCKSTEP_PROBE_PYTHON_SIGNALS_H
#define LOCKSTEP_PROBE_PYTHON_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef int (*python_sigaction)(int number, const struct sigaction *set, struct sigaction *get);

/* Called in the interpreter's main thread, which handles them: sigaction(), and the one handler that it has for all
 * signals.  The library itself has no way to set one: it is given it.
 */
void python_signals_use(python_sigaction action, void (*handler)(int number));

/* False: nothing to give back, since this is another thread, they are away already, or no handler is known. */
bool python_signals_put_off(void);
void python_signals_give_back(void);

#endif
