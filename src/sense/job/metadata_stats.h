/* metadata_stats.h - counters of the clients of file servers: texts of NFS and Lustre in, sums out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_SENSE_JOB_METADATA_STATS_H
#define LOCKSTEP_SENSE_JOB_METADATA_STATS_H

#include <stdint.h>

#define METADATA_NAME 64

struct metadata_stats { /* since the mount, never negative */
    char name[METADATA_NAME];
    int64_t ops;  /* opens, lookups, stats and the like */
    int64_t ms;   /* that they took together; 0: not known */
    int64_t data; /* reads and writes */
};

/* Calls `each` for every NFS mount of a /proc/PID/mountstats. */
typedef void metadata_each(void *user, const struct metadata_stats *stats);
void metadata_nfs_read(const char *text, metadata_each *each, void *user);
/* The `stats` of a Lustre client; the name is left as it is. */
void metadata_lustre_read(const char *text, struct metadata_stats *ret);

#endif
