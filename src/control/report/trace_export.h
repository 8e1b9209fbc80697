/* trace_export.h - the steps of a run as a Chrome trace.
 *
 * Every whole step goes through the core, so that clocks are aligned as the judges align them; nothing is kept but the
 * step at hand.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_TRACE_EXPORT_H
#define LOCKSTEP_CONTROL_REPORT_TRACE_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "show/trace_writer.h"

#define TRACE_RANGES 64

struct trace_range { /* inclusive */
    uint64_t from, to;
};

struct trace_choice {
    struct trace_range step;
    struct trace_range rank[TRACE_RANGES];
    size_t ranks; /* 0: all */
};

struct trace_counts {
    uint64_t steps, rank_steps, slices, arrows;
    uint64_t clipped;        /* slices shortened: rounded times or corrected clocks overlapped */
    uint64_t arrows_dropped; /* their ends are in the wrong order by the error of the clocks */
    int64_t clock_error_ns;  /* the largest that was used */
};

/* "A-B" or "A"; -EINVAL. */
int trace_range_read(const char *text, struct trace_range *ret);
/* "0-3,7"; -EINVAL, -E2BIG. */
int trace_ranges_read(const char *text, struct trace_choice *choice);

int trace_export(const char *run_dir, const struct trace_choice *choice, const char *path,
                 struct trace_counts *ret, struct err *err);

#endif
