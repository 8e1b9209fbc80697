/* score_storage.c - a file system of our own (slowfs.h) under the job's checkpoints or batches that answers late. */
#include "core/clean.h"
#include "lab/score_parts.h"

#define ONSET 20
#define CHECKPOINT_EVERY 6

static const struct storage_fault {
    enum fault_id fault;
    double steps; /* that each request takes longer */
    bool all;     /* for all ranks */
} faults[] = {
    { FAULT_SLOW_STORAGE, 1.5, true },
    { FAULT_SLOW_STORAGE, 1.5, false },
    { FAULT_SLOW_DATASET, 0.4, true },
    { FAULT_SLOW_DATASET, 0.4, false },
};
_Static_assert(COUNT(faults) == SCORE_STORAGE, "as the header says");

void score_storage_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t round = number / COUNT(faults), which = number % COUNT(faults);
    const struct storage_fault *of = &faults[which];

    at->family = "storage";
    score_layout(at, rand, of->fault, score_size(which + 2 * round));
    at->nodes = 1;
    at->steps = ONSET + 30;
    at->checkpoint_every = of->fault == FAULT_SLOW_STORAGE ? CHECKPOINT_EVERY : 0;
    at->fault = (struct fault){ .kind = score_kind(of->fault),
                                .set = FAULT_STEP | FAULT_MS | FAULT_RANK,
                                .step = ONSET,
                                .ms = of->steps * at->step_ms,
                                .rank = score_place(which + round, at->ranks) };
    if (of->all)
        at->fault.set &= ~(uint32_t)FAULT_RANK;
    at->fault.set &= at->fault.kind->params;
}
