/* artifacts.h - all readable files below the directory of a dead job.
 *
 * The type of a file is decided by its content, not its name.  The name only gives the rank: the number at its end
 * ("_dump_3", "nccl_trace_rank_3.json"), or at the end of its directory ("attempt_0/3/stderr.log").  Damaged and
 * unknown files are listed with a reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_ARTIFACTS_H
#define LOCKSTEP_READ_ARTIFACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "read/budget.h"
#include "wire/dump.h"
#include "wire/lanes.h"
#include "wire/log_event.h"

enum artifact_kind {
    ARTIFACT_SKIPPED,
    ARTIFACT_DUMP,
    ARTIFACT_LOG,
    ARTIFACT_TRACE,
};

struct artifact_file {
    char name[160]; /* below the directory */
    char why[160];  /* of one that was skipped */
    uint8_t kind;
};

struct artifacts {
    struct dumps dumps;
    struct logs logs;
    struct lanes lanes;         /* of profiler traces */
    struct artifact_file *file; /* in the order of their names */
    size_t files, dump_files, log_files, trace_files, skipped;
};

/* -ENOENT: nothing in it at all; -EACCES and others: it cannot be read.  A file that does not fit into the budget is
 * skipped, with the reason; what is kept of the others stays taken from it.
 */
int artifacts_read(const char *directory, struct budget *budget, struct artifacts *ret,
                   struct err *err);
void artifacts_fini(struct artifacts *artifacts);

uint32_t artifact_rank(const char *path);         /* UINT32_MAX: the name says none */
bool artifact_is_named_as_dump(const char *path); /* for where the content says nothing any more */

#endif
