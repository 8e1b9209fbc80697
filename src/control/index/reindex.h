/* reindex.h - rebuilds index and matrices from the logs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_INDEX_REINDEX_H
#define LOCKSTEP_CONTROL_INDEX_REINDEX_H

#include <stdint.h>

#include "core/err.h"

struct reindex_counts {
    uint64_t runs, empty, frames, steps, damaged_bytes; /* empty: runs without a log */
};

#define INDEX_FILE "index.sqlite" /* in the state directory */

/* All runs of a state directory; the file is removed first. */
int reindex_state(const char *state, struct reindex_counts *ret, struct err *err);
/* One run, in the index of the directory that it is in. */
int reindex_run(const char *run_dir, struct reindex_counts *ret, struct err *err);

#endif
