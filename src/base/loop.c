/* loop.c - epoll, a list of timers and one signalfd.
 *
 * A file's slot has a serial number that travels with its events: after a slot was dropped, or
 * taken by another file with the same descriptor, what was fetched for the former is not served.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/time.h"

#define EVENTS 64

struct loop_slot {
    loop_fd_fn *fn; /* NULL: not watched */
    void *arg;
    uint32_t serial;
};

struct loop {
    int epoll_fd, signal_fd;
    struct loop_slot *slot; /* by descriptor */
    size_t slots;
    uint32_t serial;
    struct loop_timer *timers;
    loop_signal_fn *on_signal;
    void *signal_arg;
    bool stopped;
};

int loop_create(struct loop **ret, struct err *err)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return err_nomem(err);
    loop->signal_fd = -1;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        int result = err_set(err, -errno, "epoll: %m");

        free(loop);
        return result;
    }
    *ret = loop;
    return 0;
}

void loop_destroy(struct loop *loop)
{
    if (!loop)
        return;
    if (loop->signal_fd >= 0)
        close(loop->signal_fd);
    close(loop->epoll_fd);
    free(loop->slot);
    free(loop);
}

int loop_watch(struct loop *loop, int fd, uint32_t events, loop_fd_fn *fn, void *arg)
{
    struct epoll_event event = { .events = events };
    struct loop_slot *slot;
    int operation;

    if (fd < 0)
        return -EBADF;
    if (!ARRAY_FIT_ZERO(loop->slot, loop->slots, (size_t)fd + 1))
        return -ENOMEM;
    slot = &loop->slot[fd];
    operation = slot->fn ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (!slot->fn)
        slot->serial = ++loop->serial;
    event.data.u64 = (uint64_t)slot->serial << 32 | (uint32_t)fd;
    if (epoll_ctl(loop->epoll_fd, operation, fd, &event) < 0)
        return -errno;
    slot->fn = fn;
    slot->arg = arg;
    return 0;
}

void loop_forget(struct loop *loop, int fd)
{
    if (fd < 0 || (size_t)fd >= loop->slots || !loop->slot[fd].fn)
        return;
    epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    loop->slot[fd] = (struct loop_slot){ 0 };
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, int64_t at_ns)
{
    timer->at_ns = at_ns;
    if (timer->linked)
        return;
    timer->next = loop->timers;
    timer->linked = true;
    loop->timers = timer;
}

void loop_timer_drop(struct loop *loop, struct loop_timer *timer)
{
    struct loop_timer **at = &loop->timers;

    while (*at && *at != timer)
        at = &(*at)->next;
    if (*at)
        *at = timer->next;
    timer->linked = false;
    timer->next = NULL;
}

static void loop_signals_read(void *arg, int fd, uint32_t events)
{
    struct loop *loop = arg;
    struct signalfd_siginfo info;

    (void)events;
    while (read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        loop->on_signal(loop->signal_arg, (int)info.ssi_signo);
}

int loop_signals(struct loop *loop, const int *signal, size_t count, loop_signal_fn *fn, void *arg,
                 struct err *err)
{
    sigset_t mask;
    int result;

    sigemptyset(&mask);
    for (size_t i = 0; i < count; i++)
        sigaddset(&mask, signal[i]);
    if (sigprocmask(SIG_BLOCK, &mask, NULL) < 0)
        return err_set(err, -errno, "sigprocmask: %m");
    loop->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (loop->signal_fd < 0)
        return err_set(err, -errno, "signalfd: %m");
    loop->on_signal = fn;
    loop->signal_arg = arg;
    result = loop_watch(loop, loop->signal_fd, EPOLLIN, loop_signals_read, loop);
    return result < 0 ? err_set(err, result, "out of memory for signal handling") : 0;
}

static int64_t loop_timers_due(const struct loop *loop)
{
    int64_t due = INT64_MAX;

    for (const struct loop_timer *timer = loop->timers; timer; timer = timer->next)
        due = MIN(due, timer->at_ns);
    return due;
}

/* A callback may drop any timer, so the list is looked at from its start after each call.  Those
 * that a callback sets to a time that has come wait for the next turn.
 */
static void loop_timers_serve(struct loop *loop)
{
    int64_t now_ns = time_mono_ns();
    struct loop_timer *timer;

    for (int64_t limit = 1000; limit > 0; limit--) {
        for (timer = loop->timers; timer && timer->at_ns > now_ns; timer = timer->next)
            ;
        if (!timer)
            return;
        timer->at_ns = INT64_MAX;
        timer->fn(timer->arg, now_ns);
        if (timer->linked && timer->at_ns <= now_ns)
            timer->at_ns = now_ns + 1;
    }
}

int loop_turn(struct loop *loop, int64_t until_ns, struct err *err)
{
    int64_t wake_ns = MIN(until_ns, loop_timers_due(loop));
    struct epoll_event event[EVENTS];
    int count = epoll_wait(loop->epoll_fd, event, EVENTS, time_poll_ms(wake_ns, time_mono_ns()));

    if (count < 0 && errno != EINTR)
        return err_set(err, -errno, "epoll: %m");
    for (int i = 0; i < count; i++) {
        int fd = (int)(uint32_t)event[i].data.u64;
        struct loop_slot *slot = &loop->slot[fd];

        if (slot->fn && slot->serial == event[i].data.u64 >> 32)
            slot->fn(slot->arg, fd, event[i].events);
    }
    loop_timers_serve(loop);
    return 0;
}

int loop_run(struct loop *loop, struct err *err)
{
    int result = 0;

    while (!loop->stopped && result == 0)
        result = loop_turn(loop, INT64_MAX, err);
    return result;
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
}
