/* slurm_reach.h - whether anything of a node answers at the port of its slurmd, as seen from this machine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SLURM_REACH_H
#define LOCKSTEP_SLURM_REACH_H

#include <stddef.h>

enum slurm_reach {
    SLURM_REACH_ANSWERS, /* slurmd, or the kernel, which says that nobody listens there */
    SLURM_REACH_SILENT,  /* nothing came back, three times */
    SLURM_REACH_UNKNOWN, /* it could not be tried */
};

/* Three seconds at most, beside a call of scontrol.  `ret`: one sentence. */
enum slurm_reach slurm_reach(const char *node, char *ret, size_t room);

#endif
