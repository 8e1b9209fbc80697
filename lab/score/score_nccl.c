/* score_nccl.c - faults and healthy runs of jobs whose devices report what one under NCCL reports.
 *
 * No spans: stamps around phases and waits, and the times of operations in several communicators.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "lab/score/score_private.h"
#include "lockstep/probe.h"

#define ONSET 24

static const struct nccl_fault {
    enum fault_id fault;
    double factor; /* 0: there or not */
} nccl_faults[] = {
    { FAULT_NONE, 0 },         { FAULT_GPU_SLOW, 1.3 },   { FAULT_GPU_SLOW, 2 },
    { FAULT_HOST_SLEEP, 1.4 }, { FAULT_SLOW_INPUT, 1.4 }, { FAULT_STOP, 0 },
    { FAULT_GPU_HANG, 0 },     { FAULT_OTHER_ORDER, 0 },  { FAULT_NONE, 0 },
    { FAULT_KILL, 0 },
};
_Static_assert(COUNT(nccl_faults) == SCORE_NCCL, "as the header says");

void score_nccl_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    const struct nccl_fault *of = &nccl_faults[number % COUNT(nccl_faults)];
    uint32_t round = number / COUNT(nccl_faults), which = number % COUNT(nccl_faults);

    at->family = "nccl-like";
    at->stamps = true;
    score_layout(at, rand, of->fault, score_size(round));
    at->nodes = 1;
    at->steps = of->fault == FAULT_NONE ? 120 : ONSET + 36;
    at->fault = (struct fault){ .kind = score_kind(of->fault),
                                .set = FAULT_STEP | FAULT_RANK,
                                .step = ONSET,
                                .phase = LOCKSTEP_PHASE_FORWARD,
                                .factor = of->factor,
                                .rank = score_place(which + round, at->ranks) };
    if (of->factor > 0)
        at->fault.set |= FAULT_FACTOR;
    at->fault.set &= at->fault.kind->params;
}
