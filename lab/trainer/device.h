/* device.h - a device that is not there: streams that keep its time.
 *
 * A device runs what the host has launched, one thing after the other on each stream, and
 * nothing before the work it depends on.  Here each stream is a thread that does the real
 * arithmetic or the real talking and then waits until the time at which a device would have
 * been done.  That time follows from the model alone: work begins at the latest of its
 * launch, the end of what was before it on its stream and the ends of its dependencies, and
 * not when a busy machine found time to wake our thread.  So a late wake-up does not add up
 * over a step, as it would not on a device.
 *
 * Work is launched by one host thread, step by step: device_sync() waits for all of it, and
 * then its memory may be used again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_TRAINER_DEVICE_H
#define LOCKSTEP_LAB_TRAINER_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

#define DEVICE_STREAMS 6 /* 0 is the host's own and never used here */

struct device_work {
    uint16_t stream;
    const struct device_work *dep[2]; /* NULL: none; launched before this one */
    /* Called on the stream's thread when all it depends on is done, with begin_ns set.  Must set
     * end_ns; the thread then waits until it and calls ended().
     */
    int (*run)(struct device_work *work, void *context, struct err *err);
    void (*ended)(struct device_work *work, void *context); /* NULL: nothing to tell */
    int64_t model_ns;                                       /* how long a device would take */
    int64_t enqueue_ns, begin_ns, end_ns;
    bool done;
    struct device_work *next;
    /* What it is, for run() and ended(). */
    int phase, block, micro, comm, way;
    bool stalls; /* a fault: it never ends */
    uint64_t key;
};

struct device;

/* `context` goes to every run(). */
int device_create(void *context, struct device **ret, struct err *err);
void device_destroy(struct device *device); /* cancels what waits, joins the threads */

int device_cancel_fd(const struct device *device); /* readable once the device is being stopped */
int device_launch(struct device *device, struct device_work *work,
                  struct err *err); /* sets enqueue_ns */
/* Waits until this piece of work is done, or a stream has failed (which sync will tell). */
void device_await(struct device *device, const struct device_work *work);
/* Waits until all that was launched is done.  The first error of any stream ends it. */
int device_sync(struct device *device, struct err *err);

#endif
