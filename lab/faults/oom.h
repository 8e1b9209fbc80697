/* oom.h - a process that runs into the memory limit of a control group of its own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_FAULTS_OOM_H
#define LOCKSTEP_LAB_FAULTS_OOM_H

/* Makes the group, goes there and takes memory until the kernel ends us.  Returns where no group can be
 * made or nothing ends us.
 */
void oom_provoke(void);
void oom_sweep(const char *run); /* removes the groups of its ranks that have ended */

#endif
