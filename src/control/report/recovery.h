/* recovery.h - the time from a fault to the first step of the next attempt, in parts.
 *
 * Feed it every frame of a run.  Times of different senders are compared by the offsets in their HELLOs, so on several nodes a
 * part is as exact as their clocks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_RECOVERY_H
#define LOCKSTEP_CONTROL_REPORT_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/map.h"
#include "show/run_summary.h"
#include "wire/frame.h"

struct recovery {
    struct map clock;                       /* sender and its boot → real minus monotonic time */
    uint32_t attempt;                       /* the newest */
    int64_t fault_ns, detect_ns, decide_ns; /* of this attempt; 0: none; all by the real clock */
    struct run_summary_parts *parts;        /* of the attempt before, being measured; NULL: none */
    int64_t begin_ns;                       /* of this attempt */
    int64_t step_begin_ns, step_end_ns;     /* of the first step: of the rank that was last */
    struct map
        node; /* hash of a node's name in this attempt → its last report, by the real clock; 0: none */
    struct map first; /* rank → its first step in this attempt has come */
};

void recovery_fini(struct recovery *recovery);
/* 0 or -ENOMEM.  `own`: the controller wrote it. */
int recovery_frame(struct recovery *recovery, const struct frame *frame, bool own);
/* An attempt that failed ended then; `ret` is filled while the next one begins, and must stay where it is. */
void recovery_ended(struct recovery *recovery, int64_t real_ns, struct run_summary_parts *ret);

#endif
