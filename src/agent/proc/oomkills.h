/* oomkills.h - how often the kernel killed a process in the memory cgroup of a rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_OOMKILLS_H
#define LOCKSTEP_AGENT_PROC_OOMKILLS_H

#include <stdint.h>
#include <sys/types.h>

struct oomkills;

/* Below `root`, which must stay, lies /sys; NULL: where it is.  Returns NULL: no memory. */
struct oomkills *oomkills_create(const char *root);
void oomkills_destroy(struct oomkills *kills);
/* Once a second: the process, whose directory in /proc that is, may have been moved to another group. */
void oomkills_follow(struct oomkills *kills, int proc_fd);
/* Since it is followed; the process itself may have ended. */
uint32_t oomkills_count(struct oomkills *kills);

#endif
