/* nccl.h - NCCL's collectives and messages as marks in this process's ring.
 *
 * NCCL's host side tells what it launches; later a thread of NCCL's tells, channel by channel, when the device began
 * and ended it.  Stops may be missing, come twice or out of order, and NCCL may hand us an event of a communicator that
 * is gone.  So a handle is no pointer but a number that is looked up: what is not there any more is let go.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_NCCL_H
#define LOCKSTEP_PROBE_NCCL_H

#include <stdbool.h>
#include <stdint.h>

struct nccl_task {
    bool p2p;
    const char *func, *datatype; /* NCCL's words; may be NULL */
    const char *algorithm, *protocol;
    uint64_t count; /* of elements */
    uint32_t peer, channels;
    bool channels_at_most; /* so many, or fewer */
    void *group;           /* the handle of what is launched at once; NULL: it alone */
};

struct nccl_group {
    uint32_t ranks, rank; /* ranks 0: none is expected */
    uint32_t kind;        /* enum lockstep_comm_kind */
    char name[32];
};

/* A communicator.  NULL: not watched; then nothing of it need be told. */
void *nccl_comm_open(uint64_t id, const char *name, int ranks, int rank);
/* One whose size and rank only nccl_group() said, when it was made. */
void *nccl_comm_open_as(uint64_t id, const char *name, const struct nccl_group *group);
void nccl_comm_close(void *context);

/* What the communicator is for that the caller is about to make, or to use for the first time: NCCL itself is rarely told a
 * name.  One that is opened with so many ranks and this rank takes it; `ranks` 0: no such is expected any more.
 */
void nccl_group(uint32_t ranks, uint32_t rank, uint32_t kind, const char *name);
/* What is expected now, which is then nobody else's. */
struct nccl_group nccl_group_take(void);

/* These give handles; NULL: none, and every call takes it. */
void *nccl_group_start(void *context);
void *nccl_task_start(void *context, const struct nccl_task *task);
/* Of an operation without a kernel: only that it was launched will ever be known. */
void nccl_launch(void *context, const struct nccl_task *task);
void *nccl_kernel_start(void *task, uint32_t channel, uint64_t timer_ns);
void nccl_kernel_stop(void *kernel, uint64_t timer_ns);

enum nccl_mode { /* $LOCKSTEP_NCCL */
    NCCL_MODE_OFF,
    NCCL_MODE_METHOD, /* algorithms and channels only: no event of the device is asked for */
    NCCL_MODE_TIMES,  /* unless told otherwise */
};
enum nccl_mode nccl_mode(void);

/* The device's clock in ours.  An event is told after it has happened, so the smallest difference that was seen of late
 * is the offset, too large by the quickest telling; clocks drift, so only of late.
 */
struct nccl_clock {
    int64_t since_ns, now, before; /* the smallest differences of this second and the one before */
    bool set;
};
uint64_t nccl_clock_host(struct nccl_clock *clock, uint64_t device_ns, uint64_t now_ns);

#endif
