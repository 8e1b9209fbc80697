/* job_cgroups.h - the control groups of jobs: held back for their CPU limit, short of memory, killed for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_JOB_CGROUPS_H
#define LOCKSTEP_SENSE_JOB_CGROUPS_H

#include "sense/sensor.h"
#include "sense/tree.h"

struct job_cgroups;

struct job_cgroups *job_cgroups_create(void); /* NULL: no memory */

struct job_process {
    uint32_t pid, uid;
    int64_t now_ns;
};
/* A process with this /proc/PID/cgroup, which is changed, was seen. */
void job_cgroups_take(struct job_cgroups *cgroups, const struct job_process *process, char *text);
size_t job_cgroups_count(const struct job_cgroups *cgroups);
void job_cgroups_destroy(struct job_cgroups *cgroups);
/* Once in some seconds: looks where the processes of jobs are now and then, and reads the counters of these groups. */
void job_cgroups_read(struct job_cgroups *cgroups, const struct tree *tree,
                      const struct sense_jobs *jobs, const struct sense_now *now,
                      struct sense_report *report);

#endif
