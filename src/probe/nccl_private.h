/* nccl_private.h - what the files of the NCCL plugin share.
 *
 * One thread at a time launches in a communicator, another reports its kernels.  The words that both touch are atomic,
 * and an op's number is the first of it to be erased and the last to be written: who finds it finds the rest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_NCCL_PRIVATE_H
#define LOCKSTEP_PROBE_NCCL_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "probe/nccl.h"
#include "probe/probe_private.h"

#define NCCL_COMMS 64    /* watched at one time */
#define NCCL_OPS 2048    /* of a communicator, launched and not seen to be over; a power of two */
#define NCCL_CHANNELS 64 /* that a kernel may have */
#define NCCL_METHOD_ROOM 256 /* kinds and sizes of collectives whose way is known; a power of two */
#define NCCL_METHOD_CHANGES                                                                        \
    8 /* that are told of one: what changes with every launch says nothing */

/* A launch, from when it is known until its place is needed for another.  Times are the host's.  Number and state are
 * one word: who tells of a launch that is just being replaced changes nothing of the next.
 */
#define OP_STARTED 1u
#define OP_ENDED 2u
#define OP_STATE_BITS 2
struct nccl_op {
    _Atomic uint64_t word; /* number, then state; 0: none */
    _Atomic uint64_t key, group, enqueue_ns, start_ns, stop_ns;
    _Atomic uint64_t begun, stopped;  /* channels, bit by bit */
    _Atomic uint32_t channels, epoch; /* channels 0: as many as begin */
    _Atomic bool p2p;
};

struct nccl_method {
    const char *algorithm, *protocol; /* NCCL's own, which stay */
    uint64_t bytes;                   /* of their class */
    uint32_t op, channels, changes;   /* op 0: free */
};

struct nccl_comm {
    uint64_t id;
    _Atomic uint64_t number; /* of those that were in this slot */
    uint32_t ranks, rank, slot;
    char name[32];
    enum lockstep_comm_kind kind; /* as far as anybody said; LOCKSTEP_COMM_OTHER */
    bool times;                   /* of the device are wanted */
    _Atomic bool open;
    bool blurred;           /* what is told of its kernels is another's; the launching thread's */
    _Atomic uint32_t epoch; /* of the ring that `place` is in; 0: none */
    _Atomic int place;
    _Atomic uint64_t launched, grouped, kernels; /* ops, groups and kernels so far */
    /* When it was opened: ops and groups of who was here before; the time. */
    _Atomic uint64_t first, first_group;
    uint64_t first_ns;
    /* Of the thread that tells of kernels. */
    uint64_t settled; /* all ops up to this number are over */
    struct nccl_clock clock;
    /* Of the thread that launches. */
    struct nccl_method method[NCCL_METHOD_ROOM];
    struct nccl_op op[NCCL_OPS];
};

enum nccl_handle_kind {
    HANDLE_COMM = 0,
    HANDLE_GROUP = 1,
    HANDLE_TASK = 2,
    HANDLE_KERNEL = 3,
};

struct nccl_handle { /* as NCCL holds it: 64 bits that are never 0 */
    enum nccl_handle_kind kind;
    uint32_t slot, channel;
    uint64_t number; /* from 1 */
};

void *nccl_handle_pack(struct nccl_handle handle);

/* The communicator of a handle of that kind, and what else is in it.  NULL: not one of ours, or gone. */
struct nccl_comm *nccl_handle_comm(const void *handle, enum nccl_handle_kind kind,
                                   struct nccl_handle *ret);

/* nccl_comm.c: the process's probe; only after a communicator was opened. */
struct lockstep_probe *nccl_ring(void);
/* Has it its place in the ring that is open now?  A ring may have been closed and another opened. */
bool nccl_comm_joined(struct nccl_comm *comm);

/* nccl_comm.c: NCCL's words in ours. */
struct nccl_word {
    const char *text;
    uint32_t number, size; /* in bytes, of a type of elements */
};
struct nccl_word nccl_func(const char *text);     /* number 0: not known */
struct nccl_word nccl_datatype(const char *text); /* LOCKSTEP_DTYPE_OTHER: not known */
void nccl_method_put(struct nccl_comm *comm, uint32_t op, uint64_t bytes,
                     const struct nccl_task *task);

#endif
