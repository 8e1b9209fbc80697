/* merge.h - reduces a log by merging the steps of single ranks.
 *
 * The steps of single ranks are merged, 64 at a time, into one frame with each rank's work and excess.  All beats
 * but the last of each rank, and ticks without output, are dropped.  Everything else stays.  Used for the log of a
 * closed run (retention.c) and for the old part of an active one (compaction.c); there old ledgers are dropped as
 * well, and merged frames are merged further.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_LOG_MERGE_H
#define LOCKSTEP_CONTROL_LOG_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/log/log_replay.h"
#include "control/matrix/columns.h"
#include "core/buf.h"
#include "core/err.h"
#include "core/map.h"
#include "wire/facts.h"
#include "wire/frame.h"
#include "wire/spool.h"

struct merge {
    struct spool_writer *writer; /* the caller's; the new log */
    struct log_replay *replay;   /* the caller's; gets what stays.  NULL: the run is over */
    struct columns *columns;
    struct map shape; /* hash → place */
    struct fact_shape *shapes;
    size_t shape_count, shape_room;
    struct map clock;          /* sender → real minus monotonic time */
    struct fact_merged merged; /* in the making; steps 0: none */
    int64_t median_sum_ns;
    uint64_t dropped;
    struct fact_merged former; /* of a former compaction, not written yet; rank NULL: none */
    uint64_t formers_to_join;  /* so many pairs */
    uint64_t frames;           /* merged ones that were written */
    struct buf tick;           /* the newest, while it has no output */
    struct frame tick_frame;
    struct buf ledger; /* the newest */
    struct frame ledger_frame;
    bool has_tick, has_ledger;
    bool closed; /* the newest tick was the last */
    bool kept;   /* the newest frame was */
    uint64_t self;
    struct err *err;
};

/* Bytes of a frame that no merging takes away, alone or with others. */
uint64_t merge_stays(const struct frame *frame);
int merge_init(struct merge *merge); /* the rest 0, but for the caller's */
void merge_fini(struct merge *merge);
int merge_frame(struct merge *merge, const struct frame *frame);
int merge_flush(struct merge *merge); /* nothing more will come */
int merge_write(struct merge *merge); /* what is merged so far, or a mark of nothing */

#endif
