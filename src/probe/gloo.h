/* gloo.h - buckets of DistributedDataParallel on gloo, seen where torch's reducer hands them over.
 *
 * The reducer is C++ and calls allreduce() of its process group, once for each bucket, in the middle of a backward.
 * Between the two there is nothing that a program may hook but a group written in Python, and torch's way into Python
 * and back costs more than all else that we do.  So the group's object is given a table of virtual functions of ours: a
 * copy of torch's own in which two places differ, allreduce() and the destructor.  The work that allreduce() returns is
 * given such a table, too, with another destructor: gloo's thread lets go of a work when it has done it, so that is
 * when it was over, recorded by the thread that did it, without the interpreter's lock.
 *
 * What is relied on is the C++ ABI of x86-64 (Itanium's), std::vector's first two words, and what the package has found
 * in this very process and compared with torch's exported symbols (bindings/python/lockstep/_gloo.py): where something
 * is not as expected nothing is touched, and the package does it in Python.
 *
 * For the package `lockstep` alone, so no promise to anybody.  use(), watch() and work() are called by one thread at a time (with
 * the interpreter's lock), all else by any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_PROBE_GLOO_H
#define LOCKSTEP_PROBE_GLOO_H

#include <stdint.h>

#include "lockstep/probe.h"

#define GLOO_DTYPES 64

/* What the package has found out about torch. */
struct gloo_torch {
    void **group_table;             /* virtual functions of c10d::ProcessGroupGloo */
    uintptr_t data_begin, data_end; /* mapped memory in which such tables lie */
    uint32_t group_allreduce,
        group_delete;               /* places in it: allreduce(), and the destructor that frees */
    uint32_t work_delete;           /* of c10d::Work and all classes below it */
    uint32_t elements_at, dtype_at; /* in a tensor, bytes from its begin: 64 bits, 16 bits */
    uint32_t unused;
    struct {
        uint8_t bytes, dtype; /* of an element; enum lockstep_dtype */
    } dtypes[GLOO_DTYPES];    /* by torch's number */
};

/* Must be called first, once.  0; -EINVAL: sizes or places that cannot be; -ENOTSUP: not on this processor. */
int gloo_use(const struct gloo_torch *torch, uint64_t size);

/* From now on all-reduces of this group (c10d::ProcessGroupGloo *) are recorded as those of the communicator; with a
 * negative one, no more, and the group is as torch made it.  0; -EINVAL: no such object; -ENOSPC: too many groups. */
int gloo_watch(void *group, struct lockstep_probe *probe, int comm, uint16_t stream);

/* Of a work (c10d::Work *) that the caller holds, and that a group of gloo's has returned for an op which is in the ring:
 * the op ends when the work is destroyed, or done() is called for it before that.  0; -EINVAL: a class that is not known, or
 * watched already; -ENOSPC: too many are open. */
int gloo_work(void *work, struct lockstep_probe *probe, int comm, uint64_t key);
void gloo_done(void *work);

/* Puts the ends of those that are over into the ring.  Returns how many are not. */
uint32_t gloo_look(void);

/* The same, and all that this thread has launched is over: the reducer has waited for it. */
void gloo_over(void);

/* In this thread, all-reduces are somebody else's to record: +1, and -1 afterwards. */
void gloo_aside(int change);

#endif
