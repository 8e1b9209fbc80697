/* report_builder.h - builds a run summary frame by frame: counts, the last state of each verdict, the
 * observed ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_REPORT_BUILDER_H
#define LOCKSTEP_CONTROL_REPORT_REPORT_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/environments.h"
#include "control/report/recovery.h"
#include "control/report/standstill.h"
#include "core/buf.h"
#include "core/map.h"
#include "show/run_summary.h"
#include "wire/frame.h"

struct report_builder {
    struct run_summary summary;
    size_t room;           /* for verdicts */
    struct map id;         /* hash of a verdict's id → its place */
    struct map rank;       /* those whose ring was seen */
    struct map step;       /* attempt and rank → its newest step + 1 */
    struct map sender;     /* → frames of it that came */
    struct map sender_end; /* → its highest number + 1 */
    struct environments environments;
    struct standstill still;
    uint64_t self;
    bool every_state;
    bool compaction;      /* its log was compacted while it went on */
    bool attempt_ended;   /* the newest attempt has */
    bool stopped_by_rank; /* ... because a rank failed; of launchers on several nodes */
    struct run_summary_restart ended;
    struct run_summary_parts
        parts[RUN_SUMMARY_RESTARTS + 1]; /* of restarts, while they are measured */
    struct recovery recovery;
    struct run_summary_save saving; /* the checkpoint whose notes come */
};

void report_builder_init(struct report_builder *builder, const char *run, bool every_state);
void report_builder_fini(struct report_builder *builder);
/* Both: 0 or -ENOMEM.  What cannot be understood is counted. */
int report_builder_frame(struct report_builder *builder, const struct frame *frame);
int report_builder_output(struct report_builder *builder, uint16_t type,
                          struct reader in); /* a verdict, decision or ledger */
/* The account, its verdicts in order; the caller frees them (run_report_fini). */
/* The same while it is still being built. */
int report_builder_copy(const struct report_builder *builder, struct run_summary *ret);
int report_builder_take(struct report_builder *builder, struct run_summary *ret);

#endif
