/* log_make.h - the large log of a job that ran for days and then failed on one rank.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_LAB_BENCH_LOG_MAKE_H
#define LOCKSTEP_LAB_BENCH_LOG_MAKE_H

#include <stdint.h>

#include "core/err.h"

#define LOG_MAKE_CULPRIT 5 /* the rank that runs out of GPU memory at the end */

/* Writes about `bytes` as several ranks would, through one launcher: losses, progress bars, lines of NCCL and
 * warnings that mean nothing.  Returns the bytes written.
 */
int64_t log_make(const char *file, int64_t bytes, struct err *err);
/* The fastest way through the file on this machine: reads it and counts its lines.  Seconds, or -errno. */
double log_make_ceiling(const char *file, struct err *err);

#endif
