/* score_torch.c - PyTorch's DistributedDataParallel on gloo, with the faults that its demo can make.
 *
 * Ranks really compute, and share the cpus: few of them, with long steps.
 */
#include "core/clean.h"
#include "lab/score_parts.h"
#include "lockstep/probe.h"

#define ONSET 20

static const struct torch_fault {
    enum fault_id fault;
    double factor; /* 0: there or not */
} faults[] = {
    { FAULT_GPU_SLOW, 2 },  { FAULT_HOST_SLEEP, 2 }, { FAULT_SLOW_INPUT, 2 }, { FAULT_KILL, 0 },
    { FAULT_EXCEPTION, 0 }, { FAULT_EXIT, 0 },       { FAULT_ABORT, 0 },      { FAULT_NONE, 0 },
};
_Static_assert(COUNT(faults) == SCORE_TORCH, "as the header says");

void score_torch_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    const struct torch_fault *of = &faults[number % COUNT(faults)];
    uint32_t round = number / COUNT(faults), which = number % COUNT(faults);

    at->family = "torch";
    at->torch = true;
    at->ranks = at->dp = 2 + 2 * rand_below(rand, 2);
    at->tp = at->pp = at->nodes = 1;
    at->step_ms = 200;
    at->steps = ONSET + 24;
    at->fault = (struct fault){ .kind = score_kind(of->fault),
                                .set = FAULT_STEP | FAULT_FACTOR | FAULT_RANK,
                                .step = ONSET,
                                .phase = LOCKSTEP_PHASE_FORWARD,
                                .factor = of->factor,
                                .rank = score_place(which + round, at->ranks) };
    at->fault.set &= at->fault.kind->params;
    at->fault.set |= SCORE_HOST_VIEW;
}
