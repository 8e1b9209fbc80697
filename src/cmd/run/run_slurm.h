/* run_slurm.h - what `lockstep run` takes from Slurm, and asks of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CMD_RUN_SLURM_H
#define LOCKSTEP_CMD_RUN_SLURM_H

#include <stdbool.h>
#include <stdint.h>

#include "act/launch/launch.h"
#include "slurm/slurm_place.h"

struct run_slurm {
    bool here; /* this is a process of a Slurm job */
    struct slurm_place place;
    char name[64], nodes[24];
};

void run_slurm_init(struct run_slurm *slurm);
/* Whether this launcher is one of several, one on each node of a step. */
bool run_slurm_is_crew(const struct run_slurm *slurm);
/* The number of nodes for --nnodes.  -EINVAL: not so many can be spares. */
int run_slurm_nodes(struct run_slurm *slurm, uint32_t spares, const char **ret, struct err *err);
/* Asks slurmctld when the job was submitted, when it started and when it ends, once for all nodes.  Environment variables give the answers to
 * the launcher.  It may fail.
 */
void run_slurm_times(const struct run_slurm *slurm);
/* When the run has ended, with that status: a job that lacks nodes is requeued without them, at most so many times; so is one that
 * SIGUSR1 or SIGUSR2 has ended.  One whose batch script was lost with its node is cancelled: it would keep its nodes.
 */
void run_slurm_end(const struct run_slurm *slurm, const struct launch_missing *missing, int status,
                   uint32_t most);

#endif
