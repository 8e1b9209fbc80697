/* loop.h - an event loop in one thread: files, timers and signals.
 *
 *     struct loop *loop;
 *     loop_create(&loop, &err);
 *     loop_watch(loop, fd, EPOLLIN, on_readable, arg);
 *     loop_timer_set(loop, &timer, time_mono_ns() + NS_PER_S);
 *     loop_run(loop, &err);          // until loop_stop()
 *
 * Callbacks may add, change and remove anything, themselves included.  A removed callback is never called, even if its
 * event has already been fetched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_LOOP_H
#define LOCKSTEP_BASE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct loop;

int loop_create(struct loop **ret, struct err *err);
void loop_destroy(struct loop *loop); /* NULL is fine; files stay open, but that of the signals */

typedef void loop_fd_fn(void *arg, int fd, uint32_t events); /* events: EPOLLIN, EPOLLOUT ... */
/* A file that is watched already gets the new events and callback.  -errno. */
int loop_watch(struct loop *loop, int fd, uint32_t events, loop_fd_fn *fn, void *arg);
void loop_forget(struct loop *loop, int fd); /* before it is closed; unknown ones are fine */

typedef void loop_timer_fn(void *arg, int64_t now_ns);
struct loop_timer { /* the caller's; fill in fn and arg, leave the rest zero */
    loop_timer_fn *fn;
    void *arg;
    int64_t at_ns; /* monotonic; INT64_MAX: never */
    struct loop_timer *next;
    bool linked;
};
/* Calls once at that time; a callback that wants more sets it again. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, int64_t at_ns);
void loop_timer_drop(struct loop *loop, struct loop_timer *timer); /* before its memory goes */

typedef void loop_signal_fn(void *arg, int signal);
/* Blocks these signals and calls for each that comes.  Once a loop. */
int loop_signals(struct loop *loop, const int *signal, size_t count, loop_signal_fn *fn, void *arg,
                 struct err *err);

/* Waits until something happens, `until_ns` at most, and serves all that has happened. */
int loop_turn(struct loop *loop, int64_t until_ns, struct err *err);
int loop_run(struct loop *loop, struct err *err); /* turns until loop_stop() */
void loop_stop(struct loop *loop);

#endif
