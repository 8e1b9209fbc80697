/* score_torch.c - PyTorch's DistributedDataParallel on gloo, with the faults that its demo can make.
 *
 * Ranks really compute, and share the cpus: few of them, with long steps.
 */
#include "core/clean.h"
#include "lab/score_parts.h"
#include "lockstep/probe.h"

#define ONSET 20
#define PAUSE_MS 14000 /* of an evaluation: longer than the limit of a hang */

static const struct torch_fault {
    enum fault_id fault;
    double factor; /* 0: there or not */
    uint32_t checkpoint_every;
} faults[] = {
    { FAULT_GPU_SLOW, 2, 0 },   { FAULT_HOST_SLEEP, 2, 0 }, { FAULT_SLOW_INPUT, 2, 0 },
    { FAULT_KILL, 0, 0 },       { FAULT_EXCEPTION, 0, 0 },  { FAULT_EXIT, 0, 0 },
    { FAULT_ABORT, 0, 0 },      { FAULT_SEGFAULT, 0, 0 },   { FAULT_STOP, 0, 0 },
    { FAULT_STUCK_DATA, 0, 0 }, { FAULT_STUCK_CODE, 0, 0 }, { FAULT_STUCK_GIL, 0, 0 },
    { FAULT_OTHER_OP, 0, 0 },   { FAULT_OTHER_SIZE, 0, 0 }, { FAULT_BIT_FLIP, 0, 0 },
    { FAULT_NAN, 0, 0 },        { FAULT_EVAL, 0, 0 },       { FAULT_NONE, 0, 9 },
};
_Static_assert(COUNT(faults) == SCORE_TORCH, "as the header says");

void score_torch_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    const struct torch_fault *of = &faults[number % COUNT(faults)];
    uint32_t round = number / COUNT(faults), which = number % COUNT(faults);

    at->family = "torch";
    at->torch = true;
    at->ranks = at->dp = 2 + 2 * rand_below(rand, 2);
    if (of->fault == FAULT_OTHER_OP || of->fault == FAULT_OTHER_SIZE)
        at->ranks = at->dp = 4; /* with two, nobody can say who is right */
    at->tp = at->pp = at->nodes = 1;
    at->step_ms = 200;
    at->steps = ONSET + 24;
    at->checkpoint_every = of->checkpoint_every;
    at->fault = (struct fault){ .kind = score_kind(of->fault),
                                .set = FAULT_STEP | FAULT_FACTOR | FAULT_RANK,
                                .ms = PAUSE_MS,
                                .step = ONSET,
                                .phase = LOCKSTEP_PHASE_FORWARD,
                                .factor = of->factor,
                                .rank = score_place(which + round, at->ranks) };
    if (of->factor == 0)
        at->fault.set = FAULT_STEP | FAULT_RANK | FAULT_MS;
    at->fault.set &= at->fault.kind->params;
    at->fault.set |= SCORE_HOST_VIEW;
}
