/* acknowledged.h - RUN/acknowledged: which of the launcher's facts are on the controller's disk.
 *
 * A launcher that wants to know creates the file; the process that sends its spool writes there the number of the first frame that
 * the controller may not have: twenty digits and a newline, by one write.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_ACT_ORDERS_ACKNOWLEDGED_H
#define LOCKSTEP_ACT_ORDERS_ACKNOWLEDGED_H

#include <stdint.h>

#include "core/err.h"

/* A descriptor of the file, which is empty. */
int acknowledged_create(const char *run_dir, int *ret, struct err *err);
uint64_t acknowledged_read(int fd); /* 0: none, or it is not known */
/* Nothing happens where there is no such file. */
void acknowledged_write(const char *run_dir, uint64_t before);

#endif
