/* probe_private.h - the inside of the probe: what its files share.
 *
 * The probe's state lies in one page of its own that the kernel gives to a forked child
 * filled with zeros (MADV_WIPEONFORK).  So one comparison on the hot path, this thread's
 * epoch against the probe's, tells that the ring is open, is ours and that we have a lane:
 * in a child, after close and in a new thread they differ.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_PROBE_PRIVATE_H
#define LOCKSTEP_PROBE_PROBE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "lockstep/probe.h"
#include "wire/numbers.h"
#include "wire/ring.h"

struct lockstep_probe {
    _Atomic uint32_t epoch; /* 0: closed, or we are a forked child */
    uint32_t mask;          /* records of a lane - 1 */
    _Atomic uint64_t step;  /* as in the header, but in a line that only step_begin() writes */
    _Atomic uint64_t depth; /* RING_DEPTH_… bits in force, taken at step_begin() */
    struct ring_header *header;
    struct ring_comm *comm;
    unsigned char *lanes;
    uint64_t lane_bytes;
    uint32_t lane_count, rank;
    /* Not hot. */
    _Alignas(64) pthread_mutex_t lock; /* open and close; zeros are an unlocked one */
    uint32_t refs;
    _Atomic uint32_t shared_busy;         /* somebody writes to the shared lane */
    _Atomic uint64_t depth_seq;           /* of the depth request that was read last */
    _Atomic uint64_t depth_step;          /* that it waits for; UINT64_MAX: for none */
    _Atomic uint64_t claimed[RING_COMMS]; /* ~id of the communicator in that place; 0: free */
};

#define PROBE_EPOCH_NEVER UINT32_MAX /* of a thread before its first mark: equal to no probe's */

/* probe_file.c: makes the file and maps it, header filled in, magic written. */
struct probe_file {
    void *map;
    size_t bytes;
    char path[512]; /* for words to people */
};
int probe_file_create(uint32_t rank, uint32_t world, struct probe_file *ret, struct err *err);

/* The ring's epoch, which no other ring of this process has; 0: closed, or not this process's. */
static inline uint32_t probe_epoch(struct lockstep_probe *probe)
{
    return probe ? atomic_load_explicit(&probe->epoch, memory_order_acquire) : 0;
}

/* probe_open.c: the process's own, open or not; NULL before its first open. */
struct lockstep_probe *probe_current(void);

/* probe_mark.c: enqueue and start in one call, now or at that time. */
uint64_t probe_coll_launch(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                           uint64_t bytes, uint16_t stream, enum lockstep_dtype dtype);
uint64_t probe_coll_launch_at(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                              uint64_t bytes, uint16_t stream, enum lockstep_dtype dtype,
                              uint64_t time_ns);
uint64_t probe_p2p_launch(struct lockstep_probe *probe, int comm, enum lockstep_op op,
                          uint32_t peer, uint64_t bytes, uint16_t stream,
                          enum lockstep_dtype dtype);

/* probe_mark.c: the host's half of a stamp; false: stamps are not recorded now. */
struct stamp;
bool probe_stamp_mark(struct lockstep_probe *probe, const struct stamp *stamp, uint64_t tag);

/* probe_request.c: the depth that was requested for this step, where there is a new one. */
bool probe_depth_read(struct lockstep_probe *probe, uint64_t step, uint64_t *ret);

/* probe_mark.c: a lane for this thread at its first mark; sets probe_thread. */
void probe_lane_claim(struct lockstep_probe *probe, uint32_t epoch);

#endif
