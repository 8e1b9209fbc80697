/* job_disks.h - which disks hold the files that jobs have open or mapped.
 *
 * A slow disk that no job uses explains nothing.  What a process opens for a moment is not seen, so a disk counts as used for
 * an hour; and where files lie on something that cannot be followed to disks, every disk counts as used.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_JOB_DISKS_H
#define LOCKSTEP_SENSE_JOB_DISKS_H

#include "sense/sensor.h"
#include "sense/tree.h"

struct job_disks;

struct job_disks *job_disks_create(void); /* NULL: no memory */
void job_disks_destroy(struct job_disks *disks);
/* Looks at the processes of jobs and at their children, if it is due.  It never opens or examines their files: a file system that does not
 * respond would stop the reader.
 */
void job_disks_look(struct job_disks *disks, const struct tree *tree, const struct sense_jobs *jobs,
                    int64_t now_ns);
/* Whether a job uses the whole disk of this name, or may do so. */
bool job_disks_has(const struct job_disks *disks, const char *name, int64_t now_ns);

#endif
