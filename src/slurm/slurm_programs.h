/* slurm_programs.h - the programs that `lockstep slurm install` writes, without their first lines (dist/slurm/).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SLURM_PROGRAMS_H
#define LOCKSTEP_SLURM_PROGRAMS_H

#include <stddef.h>

extern const unsigned char slurm_hook[]; /* prolog, epilog, health check */
extern const size_t slurm_hook_size;
extern const unsigned char slurm_task_prolog[];
extern const size_t slurm_task_prolog_size;

#endif
