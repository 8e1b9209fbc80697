/* whatif_private.h - what the makers of plans share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_JUDGE_COMPARE_WHATIF_PRIVATE_H
#define LOCKSTEP_JUDGE_COMPARE_WHATIF_PRIVATE_H

#include "core/map.h"
#include "judge/compare/whatif.h"

int whatif_plan_room(struct whatif_plan *plan, size_t ops); /* a step for each at most; -ENOMEM */
/* Makes the step's program, or leaves it NULL when the one before is the same.  -ERANGE: its durations
 * do not add up in 63 bits.
 */
int whatif_plan_program(struct whatif_plan *plan, struct whatif_plan_step *step, struct err *err);
/* Mean or median (of an even number: between the two); reorders the values. */
int64_t whatif_typical_ns(int64_t *value, size_t count, bool mean);

/* Of the pipeline plan. */
enum line { /* of a worker */
    LINE_COMPUTE,
    LINE_DATA,
    LINE_PIPE, /* four, as the kinds */
    LINE_COUNT = LINE_PIPE + 4
};

struct whatif_work { /* a row, and where it goes */
    const struct optrace_row *row;
    uint32_t worker, line, phase, place; /* place: among the worker's ops of the step */
    size_t op;                           /* in the plan */
};

struct whatif_builder {
    const struct optrace *trace;
    struct whatif_plan *plan;
    struct whatif_work *work;
    uint32_t dps, stages, chunks; /* chunks of a stage */
    bool overlap;
    struct whatif_work **of_kind; /* of one worker and step, kind by kind */
    struct map meet;              /* of one step: packed key to number */
    int64_t *arrive_ns;           /* by meet: the last arrival */
    uint32_t *members;
};

static inline int64_t work_end(const struct whatif_work *work)
{
    return work->row->start_ns + work->row->duration_ns;
}

/* The ops of one worker in one step, in the order of their lines: whom each waits for. */
int whatif_link_worker(struct whatif_builder *builder, struct whatif_work *work, size_t count);

#endif
