/* score_series.c - cases of the families after which nothing moves or somebody is dead, and pauses that are neither.
 *
 * Each family goes through its faults in turn; nine rounds are the first, middle and last rank of 4, 8 and 16, in
 * layouts that are drawn.
 */
#include <string.h>

#include "core/clean.h"
#include "lab/score_parts.h"
#include "lockstep/probe.h"

#define PAUSE_MS 14000 /* longer than the limit of a hang */
#define CHECKPOINT_EVERY 6
#define ELASTIC_STEPS 14
#define ONSET 20 /* steps before: enough to know what is typical */

/* Families that have cases only when they are asked for: a hang takes its limit to be said. */
static const struct series {
    const char *family;
    uint32_t count;
    enum fault_id fault[16];
} all_series[] = {
    { "hang",
      8,
      { FAULT_STOP, FAULT_STUCK_DATA, FAULT_GPU_HANG, FAULT_STUCK_CODE, FAULT_OTHER_ORDER,
        FAULT_FROZEN_LINK, FAULT_STUCK_STORAGE, FAULT_STUCK_CHECKPOINT } },
    { "crash",
      6,
      { FAULT_SEGFAULT, FAULT_OOM, FAULT_EXCEPTION, FAULT_KILL, FAULT_ABORT, FAULT_EXIT } },
    { "desync", 2, { FAULT_OTHER_OP, FAULT_OTHER_SIZE } },
    { "traps",
      7,
      { FAULT_EVAL, FAULT_SLOW_CHECKPOINT, FAULT_SLOW_START, FAULT_COMPILE, FAULT_BUSY,
        FAULT_LONG_SEQUENCES, FAULT_ELASTIC } },
};

static const struct series *series_of(const char *family)
{
    for (size_t i = 0; i < COUNT(all_series); i++) {
        if (strcmp(all_series[i].family, family) == 0)
            return &all_series[i];
    }
    return NULL;
}

bool score_has_series(const char *family)
{
    return series_of(family) != NULL;
}

const char *score_series_name(uint32_t which)
{
    return which < COUNT(all_series) ? all_series[which].family : NULL;
}

uint32_t score_series_faults(uint32_t which)
{
    return all_series[which].count;
}

uint32_t score_place(uint32_t which, uint32_t count)
{
    return (count - 1) * (which % 3) / 2;
}

uint32_t score_size(uint32_t which)
{
    static const uint32_t sizes[] = { 4, 8, 16 };

    return sizes[which % COUNT(sizes)];
}

/* A quarter of the ranks goes and comes back, or in some rounds none does: then all begin again as they were. */
static void elastic_case(struct score_case *at, uint32_t round)
{
    struct fault *fault = &at->fault;

    at->checkpoint_every = CHECKPOINT_EVERY;
    fault->steps = ELASTIC_STEPS;
    fault->set |= FAULT_STEPS;
    at->steps += ELASTIC_STEPS;
    if (round % 3 == 2)
        return;
    fault->count = at->ranks / 4;
    fault->set |= FAULT_COUNT;
}

void score_series_case(const char *family, uint32_t number, struct rand *rand,
                       struct score_case *at)
{
    const struct series *series = series_of(family);
    uint32_t which = number % series->count, round = number / series->count;
    enum fault_id id = series->fault[which];
    struct fault *fault = &at->fault;

    score_layout(at, rand, id, score_size(which + round / 3));
    at->nodes = 1;
    at->steps = ONSET + 14;
    *fault = (struct fault){ .kind = score_kind(id),
                             .set = FAULT_STEP | FAULT_RANK | FAULT_MS,
                             .step = id == FAULT_SLOW_START ? 0 : ONSET,
                             .phase = LOCKSTEP_PHASE_FORWARD,
                             .ms = PAUSE_MS,
                             .rank = score_place(which + round, at->ranks) };
    if (id == FAULT_SLOW_CHECKPOINT) {
        at->checkpoint_every = (uint32_t)fault->step;
        fault->step--;
        fault->steps = 1;
        fault->set |= FAULT_STEPS;
    }
    if (id == FAULT_STUCK_CHECKPOINT)
        at->checkpoint_every = CHECKPOINT_EVERY;
    if (id == FAULT_LONG_SEQUENCES) {
        fault->factor = 1.5;
        fault->steps = 8;
        fault->set |= FAULT_FACTOR | FAULT_STEPS;
    }
    if (id == FAULT_ELASTIC)
        elastic_case(at, round);
    if (fault->kind->all_params & FAULT_RANK && round % 2 == 0)
        fault->set &= ~(uint32_t)FAULT_RANK; /* all of them */
    fault->set &= fault->kind->params;
}
