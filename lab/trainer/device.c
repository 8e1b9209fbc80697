/* device.c - one thread per stream, in order, with the device's own time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "lab/trainer/device.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "core/clean.h"
#include "core/time.h"

struct device_stream {
    struct device *device;
    uint16_t number;
    pthread_t thread;
    bool started, waits; /* waits: on `more` */
    pthread_cond_t more;
    struct device_work *first, *last;
    int64_t last_end_ns;
};

struct device {
    void *context;
    int cancel_fd;
    pthread_mutex_t lock;
    pthread_cond_t idle; /* nothing left, or failed, or what the host awaits is done */
    const struct device_work *awaited; /* by the host */
    bool stopping;
    int failure; /* of the first stream that failed */
    struct err err;
    unsigned pending; /* launched and not done */
    struct device_stream stream[DEVICE_STREAMS];
};

static bool device_work_ready(const struct device_work *work)
{
    for (size_t i = 0; i < COUNT(work->dep); i++)
        if (work->dep[i] && !work->dep[i]->done)
            return false;
    return true;
}

/* The next piece of work whose dependencies are done; NULL when the device stops. */
static struct device_work *stream_take(struct device_stream *stream)
{
    struct device *device = stream->device;
    struct device_work *work = NULL;

    pthread_mutex_lock(&device->lock);
    while (!device->stopping && !(stream->first && device_work_ready(stream->first))) {
        stream->waits = true;
        pthread_cond_wait(&stream->more, &device->lock);
        stream->waits = false;
    }
    if (!device->stopping) {
        work = stream->first;
        stream->first = work->next;
        if (!stream->first)
            stream->last = NULL;
    }
    pthread_mutex_unlock(&device->lock);
    return work;
}

static void stream_finish(struct device_stream *stream, struct device_work *work)
{
    struct device *device = stream->device;

    pthread_mutex_lock(&device->lock);
    work->done = true;
    for (int i = 1; i < DEVICE_STREAMS; i++) {
        struct device_stream *other = &device->stream[i];

        if (other->waits && other->first && device_work_ready(other->first))
            pthread_cond_signal(&other->more);
    }
    if (--device->pending == 0 || work == device->awaited)
        pthread_cond_signal(&device->idle);
    pthread_mutex_unlock(&device->lock);
}

static void stream_fail(struct device_stream *stream, int result, const struct err *err)
{
    struct device *device = stream->device;

    pthread_mutex_lock(&device->lock);
    if (!device->failure && !device->stopping) {
        device->failure = result;
        device->err = *err;
    }
    pthread_cond_signal(&device->idle);
    pthread_mutex_unlock(&device->lock);
}

static void device_sleep_until(int64_t ns)
{
    struct timespec until = time_spec(ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static int64_t device_work_begin(const struct device_work *work, int64_t last_end_ns)
{
    int64_t begin = MAX(work->enqueue_ns, last_end_ns);

    for (size_t i = 0; i < COUNT(work->dep); i++)
        if (work->dep[i])
            begin = MAX(begin, work->dep[i]->end_ns);
    return begin;
}

/* A device does not queue for a CPU.  Where we may (root), our threads do not either; elsewhere a
 * busy machine is seen in them as well.
 */
static void stream_prepare(const struct device_stream *stream)
{
    struct sched_param param = { .sched_priority = 1 };
    char name[16];

    snprintf(name, sizeof(name), "stream %u", stream->number);
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_TIMERSLACK, 1UL); /* 50 us of slack would be seen in every wait */
    (void)pthread_setschedparam(pthread_self(), SCHED_RR, &param);
}

static void *stream_main(void *argument)
{
    struct device_stream *stream = argument;
    void *context = stream->device->context;
    struct device_work *work;

    stream_prepare(stream);
    while ((work = stream_take(stream))) {
        struct err err = { "" };
        int result;

        work->begin_ns = device_work_begin(work, stream->last_end_ns);
        result = work->run(work, context, &err);
        if (result < 0) {
            stream_fail(stream, result, &err);
            return NULL;
        }
        device_sleep_until(work->end_ns);
        stream->last_end_ns = work->end_ns;
        if (work->ended)
            work->ended(work, context);
        stream_finish(stream, work);
    }
    return NULL;
}

/* Signals are the host thread's: a stream must not be the one that is interrupted. */
static int stream_start(struct device *device, uint16_t number)
{
    struct device_stream *stream = &device->stream[number];
    sigset_t all, before;
    int result;

    stream->device = device;
    stream->number = number;
    pthread_cond_init(&stream->more, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&stream->thread, NULL, stream_main, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    stream->started = result == 0;
    return -result;
}

static void device_clean(struct device **device)
{
    device_destroy(*device);
}

int device_create(void *context, struct device **ret, struct err *err)
{
    CLEAN(device_clean) struct device *device = calloc(1, sizeof(*device));

    if (!device)
        return err_nomem(err);
    device->context = context;
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->idle, NULL);
    device->cancel_fd = eventfd(0, EFD_CLOEXEC);
    if (device->cancel_fd < 0)
        return err_set(err, -errno, "eventfd: %m");
    for (uint16_t i = 1; i < DEVICE_STREAMS; i++) {
        int result = stream_start(device, i);

        errno = -result;
        if (result < 0)
            return err_set(err, result, "cannot start a thread: %m");
    }
    *ret = TAKE(device);
    return 0;
}

void device_destroy(struct device *device)
{
    if (!device)
        return;
    pthread_mutex_lock(&device->lock);
    device->stopping = true;
    for (int i = 1; i < DEVICE_STREAMS; i++)
        if (device->stream[i].started)
            pthread_cond_signal(&device->stream[i].more);
    pthread_mutex_unlock(&device->lock);
    if (device->cancel_fd >= 0)
        eventfd_write(device->cancel_fd, 1);
    for (int i = 1; i < DEVICE_STREAMS; i++) {
        if (!device->stream[i].started)
            continue;
        pthread_join(device->stream[i].thread, NULL);
        pthread_cond_destroy(&device->stream[i].more);
    }
    if (device->cancel_fd >= 0)
        close(device->cancel_fd);
    pthread_cond_destroy(&device->idle);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

int device_cancel_fd(const struct device *device)
{
    return device->cancel_fd;
}

int device_launch(struct device *device, struct device_work *work, struct err *err)
{
    struct device_stream *stream = &device->stream[work->stream];
    int failure;

    work->done = false;
    work->next = NULL;
    work->enqueue_ns = time_mono_ns();
    pthread_mutex_lock(&device->lock);
    failure = device->failure;
    if (failure && err)
        *err = device->err;
    if (!failure) {
        if (stream->last)
            stream->last->next = work;
        else
            stream->first = work;
        stream->last = work;
        device->pending++;
        if (stream->waits && stream->first == work && device_work_ready(work))
            pthread_cond_signal(&stream->more);
    }
    pthread_mutex_unlock(&device->lock);
    return failure;
}

void device_await(struct device *device, const struct device_work *work)
{
    pthread_mutex_lock(&device->lock);
    device->awaited = work;
    while (!work->done && !device->failure)
        pthread_cond_wait(&device->idle, &device->lock);
    device->awaited = NULL;
    pthread_mutex_unlock(&device->lock);
}

int device_sync(struct device *device, struct err *err)
{
    int failure;

    pthread_mutex_lock(&device->lock);
    while (device->pending > 0 && !device->failure)
        pthread_cond_wait(&device->idle, &device->lock);
    failure = device->failure;
    if (failure && err)
        *err = device->err;
    pthread_mutex_unlock(&device->lock);
    return failure;
}
