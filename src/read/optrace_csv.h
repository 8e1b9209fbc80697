/* optrace_csv.h - an op-level trace from comma-separated text.
 *
 * The first line names the columns, in any order: dp_rank, stage, rank, step, optype, start_ts and duration
 * (seconds), seq_id, mc, gmc.  Other columns are passed over; mc and gmc may be missing or
 * empty.  Values are not quoted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_OPTRACE_CSV_H
#define LOCKSTEP_READ_OPTRACE_CSV_H

#include <stddef.h>

#include "core/err.h"
#include "wire/optrace.h"

/* -EPROTO with line and column; *ret is set only on success, and the caller's to fini. */
int optrace_csv_read(const char *text, size_t bytes, struct optrace *ret, struct err *err);

#endif
