/* slurm_requeue.h - requeues the own batch job, without the nodes that it lost, and without the hold.
 *
 * Slurm holds a requeued job for 121 s, and only a process outside of the job could lift that later.  A start time that is set while
 * the job still completes, and lies ahead when it has, is kept; so the job asks for one a little ahead.  Call it
 * when no process of the old attempt is left on any node that is still there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SLURM_REQUEUE_H
#define LOCKSTEP_SLURM_REQUEUE_H

#include <stdint.h>

#include "core/err.h"

struct slurm_requeue {
    uint64_t job;
    const char (*exclude)[64]; /* names of nodes */
    uint32_t exclude_count;
    uint32_t start_s; /* the job may start so many seconds later */
};

/* The job as it is must be ours and allow it: -EPERM, -EINVAL otherwise, and nothing has changed.  After success the job ends soon,
 * and with it this process.  *ret_warning: what could not be done though the job was requeued; "": nothing.
 */
int slurm_requeue(const struct slurm_requeue *wanted, struct err *ret_warning, struct err *err);

#endif
