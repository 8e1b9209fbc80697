/* artifacts.h - what a dead job left: files, directories, archives and standard input, in any mix.
 *
 * The type of a file is decided by its content, not its name; gzip, zstd and tar are unpacked on the way.  The name only
 * gives the rank (name_rank.h).  Damaged and unknown files are listed with a reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_READ_ARTIFACTS_H
#define LOCKSTEP_READ_ARTIFACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "read/budget.h"
#include "wire/dump.h"
#include "wire/lanes.h"
#include "wire/log_event.h"
#include "wire/tool_report.h"

enum artifact_kind {
    ARTIFACT_SKIPPED,
    ARTIFACT_DUMP,
    ARTIFACT_LOG,
    ARTIFACT_TRACE,
};

struct artifact_file {
    char name[160]; /* below the directory, or as it was given */
    char why[160];  /* of one that was skipped */
    uint8_t kind;
};

struct artifacts {
    struct dumps dumps;
    struct logs logs;
    struct lanes lanes;         /* of profiler traces */
    struct reports reports;     /* of other tools */
    struct artifact_file *file; /* in the order of their names */
    size_t files, dump_files, log_files, trace_files, skipped;
};

/* -ENOENT: nothing in it at all; -EACCES and others: it cannot be read.  A file that does not fit into the budget is
 * skipped, with the reason; what is kept of the others stays taken from it.
 */
int artifacts_read(const char *directory, struct budget *budget, struct artifacts *ret,
                   struct err *err);
/* The same of several operands: directories, files, archives, "-" for standard input. */
int artifacts_read_all(const char *const *operand, size_t count, struct budget *budget,
                       struct artifacts *ret, struct err *err);
void artifacts_fini(struct artifacts *artifacts);

uint32_t artifact_rank(const char *path);         /* UINT32_MAX: the name says none */
bool artifact_is_named_as_dump(const char *path); /* for where the content says nothing any more */

#endif
