/* live_run.h - the newest state of a run, from its growing log: what `lockstep top` shows.
 *
 *     live_run_open(run_dir, &live, &err);
 *     while (live_run_read(live, 10 * NS_PER_MS, &err) > 0)
 *         ;                     // more is there already
 *     draw(live);
 *
 * Steps are decoded for the newest part of the log only, and of a run that grows so fast that this takes more than a hundredth
 * of a processor every second, fourth ... step only (`stride`).  A log that takes the place of the one that was read is read from
 * its beginning.  Memory is bounded by the ranks that reported a ring, not by the length of the run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_REPORT_LIVE_RUN_H
#define LOCKSTEP_CONTROL_REPORT_LIVE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/log/rundir.h"
#include "control/report/shape_book.h"
#include "core/err.h"
#include "core/map.h"
#include "wire/facts.h"
#include "wire/spool.h"
#include "wire/verdict.h"

#define LIVE_STEPS 128 /* newest steps that are kept, a power of two */

struct live_cell { /* one rank in one step */
    uint64_t step; /* plus one; 0: none */
    int64_t own_ns;
};

struct live_rank {
    uint32_t rank, node, attempt; /* node: place in `node` */
    uint64_t step;
    char state; /* as in a beat; 0: none came */
    uint8_t phase;
    int64_t beat_real_ns;
    bool ended;
    char end_text[64];
    int64_t excess_ns;                 /* for whoever sorts by it */
    struct live_cell cell[LIVE_STEPS]; /* by step number */
};

struct live_step { /* of all ranks; by step number */
    uint64_t step; /* plus one; 0: none */
    uint32_t attempt, ranks, median_of;
    int64_t begin_real_ns, duration_ns,
        median_ns; /* median: of the ranks' own work, of median_of ranks */
    double loss;   /* mean of the ranks; NAN: not reported */
    double loss_sum;
    uint32_t losses;
};

struct live_node {
    char name[FACT_NAME];
    uint32_t ranks, findings;
    int64_t newest_real_ns;
    char finding[200]; /* the newest */
};

struct live_run {
    struct rundir dir;
    struct spool_reader *reader; /* NULL while there is no log */
    uint64_t inode, log_bytes, decode_from, self;
    uint64_t old_bytes; /* of the log, when it was opened */
    uint32_t stride;
    struct shape_book book;
    struct map clock, rank_place, node_place, verdict_place;
    struct live_rank **rank;
    size_t ranks, rank_room;
    struct live_node *node;
    size_t nodes, node_room;
    struct verdict *verdict; /* the last state of each */
    size_t verdicts, verdict_room;
    struct live_step step[LIVE_STEPS];
    uint64_t newest; /* step plus one; 0: none */
    uint32_t attempt, attempts,
        ranks_wanted; /* ranks_wanted: by the launcher, or the world of a ring */
    bool has_ledger, ended, last, stopped; /* stopped: by a signal to its launcher */
    int32_t status;
    struct ledger ledger;
    int64_t newest_real_ns; /* newest tick */
    uint64_t gap_steps, resets;
};

int live_run_open(const char *run_dir, struct live_run **ret, struct err *err);
void live_run_close(struct live_run *live); /* NULL is fine */
/* 1: more is there; 0: all that there is was read; -errno. */
int live_run_read(struct live_run *live, int64_t budget_ns, struct err *err);
/* To be called after `verdict` was sorted. */
void live_run_verdicts_moved(struct live_run *live);
/* The step that number `back` before the newest has; NULL: not known. */
struct live_step *live_run_step(struct live_run *live, uint64_t back);
/* Own work beyond the median of that step; false: not known. */
bool live_run_excess(const struct live_rank *rank, const struct live_step *step,
                     int64_t *excess_ns);
unsigned live_run_read_pct(const struct live_run *live); /* of the log */

#endif
