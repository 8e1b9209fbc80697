/* score_slowly.c - slowness that comes and goes, moves, grows or is everybody's: it takes many steps to be sure of. */
#include "core/clean.h"
#include "lab/score_parts.h"

static const struct slow_fault {
    enum fault_id fault;
    double factor;
    uint64_t step, steps, every, over;
} faults[] = {
    { FAULT_GPU_SLOW, 2, 30, 80, 4, 0 },
    { FAULT_WANDERING, 2, 30, 80, 0, 0 },
    { FAULT_GPU_SLOW, 1.08, 24, 74, 0, 100 },
    { FAULT_ALL_SLOW, 1.25, 45, 125, 0, 0 },
};
_Static_assert(COUNT(faults) == SCORE_SLOWLY, "as the header says");

void score_slowly_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t round = number / COUNT(faults), which = number % COUNT(faults);
    const struct slow_fault *of = &faults[which];

    score_layout(at, rand, of->fault, score_size(which + 2 * round));
    at->nodes = 1;
    at->steps = of->steps;
    at->fault = (struct fault){ .kind = score_kind(of->fault),
                                .set = FAULT_STEP | FAULT_FACTOR | FAULT_RANK,
                                .step = of->step,
                                .factor = of->factor,
                                .every = of->every,
                                .over = of->over,
                                .rank = score_place(which + round, at->ranks) };
    if (of->every)
        at->fault.set |= FAULT_EVERY;
    if (of->over)
        at->fault.set |= FAULT_OVER;
    at->fault.set &= at->fault.kind->params;
}
