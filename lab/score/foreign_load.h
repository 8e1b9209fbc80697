/* foreign_load.h - how much of this machine is taken by who does not belong to us.
 *
 * Others are processes that do not descend from this one, and a hypervisor that runs other machines.  Kernel threads
 * are not counted: they work for every process.  The result is given for each second, in cores.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_SCORE_FOREIGN_LOAD_H
#define LOCKSTEP_LAB_SCORE_FOREIGN_LOAD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/procs.h"

struct foreign_load;

int foreign_load_create(struct foreign_load **ret); /* -ENOMEM */
void foreign_load_destroy(struct foreign_load *foreign_load);
/* Looks around if a second has passed since the last time: call it often.  NULL is fine. */
void foreign_load_look(struct foreign_load *foreign_load);
/* The most that they took in a second since then, of the last seventeen minutes; 0: nothing is known. */
double foreign_load_most(const struct foreign_load *foreign_load, int64_t since_ns);

/* Ticks of those that are neither `us`, nor below it, nor the kernel's. */
uint64_t foreign_load_sum(struct procs *procs, pid_t us);
int foreign_load_parse_stolen(const char *text,
                              uint64_t *ticks); /* /proc/stat, ended by NUL; -EPROTO */

#endif
