/* acknowledged.h - RUN/acknowledged: which of the launcher's facts are on the controller's disk, and when it last received one.
 *
 * A launcher that wants to know creates the file; the process that sends its spool writes there the number of the first frame that
 * the controller may not have, and the time since boot after which a controller that cannot write facts down was there: two
 * numbers of twenty digits, by one write.  The file has its size from the beginning, so a full disk does not matter.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ORDERS_ACKNOWLEDGED_H
#define LOCKSTEP_ACT_ORDERS_ACKNOWLEDGED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"

struct acknowledged {
    uint64_t before; /* frames below this number are on its disk; 0: none, or it is not known */
    int64_t heard_boot_ns; /* 0: not known */
};

/* A descriptor of the file, which has zeros. */
int acknowledged_create(const char *run_dir, int *ret, struct err *err);
struct acknowledged acknowledged_read(int fd);
bool acknowledged_is_wanted(const char *run_dir); /* the launcher has created it */
/* Nothing happens where there is no such file. */
void acknowledged_write(const char *run_dir, const struct acknowledged *now);

#endif
