/* copier.h - copies between tensors on GPUs and main memory, by the CUDA driver that the program has loaded.
 *
 * Each device has a stream of its own here, so that copies run beside the training.  copier_order() lets it begin after what the
 * training had launched so far.  Copies into the arena are asynchronous only if its memory is registered with the driver, which
 * takes half a second for each GiB: a thread does it while the training goes on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CKPT_COPIER_H
#define LOCKSTEP_CKPT_COPIER_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/arena.h"
#include "ckpt/store/threads.h"
#include "device/cuda/cuda.h"

#define COPIER_DEVICES 64

enum copier_mark {
    COPIER_NOW, /* what must be copied before save_begin() returns */
    COPIER_ALL,
    COPIER_MARKS,
};

struct copier_device {
    void *context; /* NULL: not open */
    void *stream, *trainer;
    void *ordered, *mark[COPIER_MARKS]; /* events */
};

struct copier {
    bool loaded;
    struct cuda cuda;
    struct copier_device device[COPIER_DEVICES];
    unsigned devices; /* that are open */
    /* The thread that touches and registers the arena. */
    struct threads thread;
    struct arena *arena;
    bool untouched; /* it could not be touched: not enough memory */
    bool registered;
    struct err why; /* not registered: the reason */
};

/* Opens a device, once.  -ENODEV, -ENOSYS: there is no usable driver. */
int copier_open(struct copier *copier, uint32_t device, struct err *err);
void copier_close(struct copier *copier);

/* Touches and registers the arena in the background. */
void copier_arena_take(struct copier *copier, struct arena *arena);
/* Waits for it.  -ENOMEM: the arena is not usable.  Not registered: not an error, copies are slower. */
int copier_arena_wait(struct copier *copier, struct err *err);
/* Before the arena is destroyed. */
void copier_arena_drop(struct copier *copier);

/* What follows on our streams comes after what the training has launched on its own. */
int copier_order(struct copier *copier, struct err *err);
int copier_copy_out(struct copier *copier, uint32_t device, void *to, uint64_t from, uint64_t bytes,
                    struct err *err);
/* Returns when it is done; from any thread. */
int copier_copy_in(struct copier *copier, uint32_t device, uint64_t to, const void *from,
                   uint64_t bytes, struct err *err);
/* Marks what was enqueued so far, and waits for it. */
int copier_mark(struct copier *copier, enum copier_mark mark, struct err *err);
int copier_wait(struct copier *copier, enum copier_mark mark, struct err *err);

#endif
