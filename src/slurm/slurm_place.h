/* slurm_place.h - where this process is in a Slurm job, from its environment.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SLURM_PLACE_H
#define LOCKSTEP_SLURM_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "slurm/slurm_text.h"

struct slurm_place {
    uint64_t job;
    bool in_step;         /* started by srun; else by the batch script, once */
    uint32_t step;        /* its number */
    uint32_t nodes;       /* of the step, or of the job */
    uint32_t node_number; /* of this one, among them */
    uint32_t local_tasks; /* of the step on this node; 0: not known */
    uint32_t restarts;    /* how often Slurm has requeued the job */
    char node[SLURM_NAME];
};

/* False: this is no Slurm job, or its variables make no sense. */
bool slurm_place_read(struct slurm_place *ret);
/* The name of a run at this place: job-4211; of a later step job-4211.1; after a requeue job-4211-r1. */
void slurm_place_name(const struct slurm_place *place, char ret[static 64]);

#endif
