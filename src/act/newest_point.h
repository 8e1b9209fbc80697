/* newest_point.h - the newest verified checkpoint of a directory, for LOCKSTEP_RESUME.
 *
 * A child process with a deadline looks at the directory, so that a file system that does not answer cannot keep the launcher from
 * starting the ranks.  No data is read: a point counts if it is committed and each of its ranks was read back once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_NEWEST_POINT_H
#define LOCKSTEP_ACT_NEWEST_POINT_H

#include <stdint.h>

#include "core/err.h"

#define NEWEST_POINT_NONE UINT64_MAX

struct newest_point {
    uint64_t step;     /* NEWEST_POINT_NONE: there is none */
    char name[96];     /* of its directory */
    char skipped[360]; /* the newest one that was not taken, and why; "": none */
};

/* Not newer than `at_most`.  0, also if there is none; -ETIMEDOUT, or another -errno of the directory. */
int newest_point_find(const char *directory, uint64_t at_most, struct newest_point *ret,
                      struct err *err);

#endif
