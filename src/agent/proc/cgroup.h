/* cgroup.h - how long the kernel held a control group back for its CPU limit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_AGENT_PROC_CGROUP_H
#define LOCKSTEP_AGENT_PROC_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

struct cgroup;

/* The group that the process is in now whose directory in /proc is `proc_fd`; -ENOENT: none with a count of throttling.  A group that is
 * the same as *keep's is not opened again: 0 with *keep as it was.
 */
int cgroup_follow(int proc_fd, struct cgroup **keep);
void cgroup_close(struct cgroup *cgroup);
/* Throttled time of the group and those above it, so that a limit set anywhere counts.  In v1
 * and v2 this adds up the CPUs: with a limit it may grow faster than the clock.
 */
int64_t cgroup_throttled_ns(struct cgroup *cgroup, int64_t now_ns);

#endif
