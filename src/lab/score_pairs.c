/* score_pairs.c - two faults at once: each must be named, and neither for the other's deed. */
#include "core/clean.h"
#include "lab/score_parts.h"
#include "lockstep/probe.h"

#define ONSET 20
#define DATASET_STEPS 0.4 /* of a step: each request for a batch takes so much longer */

static const struct pair {
    enum fault_id fault[2];
    double factor[2];
    bool all[2]; /* on all ranks */
    uint32_t checkpoint_every;
} pairs[] = {
    { { FAULT_GPU_SLOW, FAULT_HOST_SLEEP }, { 1.5, 1.5 }, { false }, 0 },
    { { FAULT_STOP, FAULT_STUCK_DATA }, { 0 }, { false }, 0 },
    { { FAULT_GPU_SLOW, FAULT_KILL }, { 1.5, 0 }, { false }, 0 },
    { { FAULT_GPU_SLOW, FAULT_BIT_FLIP }, { 2, 0 }, { false }, 0 },
    { { FAULT_GPU_SLOW, FAULT_SLOW_INPUT }, { 1.5, 1.5 }, { false, true }, 0 },
    { { FAULT_HOST_SLEEP, FAULT_SLOW_CHECKPOINT }, { 1.5, 20 }, { false, true }, 6 },
    { { FAULT_STUCK_CODE, FAULT_GPU_HANG }, { 0 }, { false }, 0 },
    { { FAULT_GPU_SLOW, FAULT_SLOW_DATASET }, { 1.5, 0 }, { false }, 0 },
};
_Static_assert(COUNT(pairs) == SCORE_PAIRS, "as the header says");

static uint32_t replica(const struct score_case *at, uint32_t rank)
{
    return rank / at->tp % at->dp;
}

/* Far from the first, and not behind it in the same pipeline: what waits there for its input cannot go wrong. */
static uint32_t other_replica(const struct score_case *at)
{
    uint32_t rank = (at->fault.rank + 1 + (at->ranks - 1) / 2) % at->ranks;

    while (replica(at, rank) == replica(at, at->fault.rank))
        rank = (rank + 1) % at->ranks;
    return rank;
}

void score_pair_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    const struct pair *pair = &pairs[number % COUNT(pairs)];
    uint32_t round = number / COUNT(pairs), which = number % COUNT(pairs);
    struct fault *fault[] = { &at->fault, &at->also };

    at->family = "two";
    score_layout(at, rand, pair->fault[0], score_size(which + 2 * round));
    at->nodes = 1;
    at->steps = ONSET + 24;
    at->checkpoint_every = pair->checkpoint_every;
    for (size_t i = 0; i < COUNT(fault); i++) {
        *fault[i] = (struct fault){ .kind = score_kind(pair->fault[i]),
                                    .set = FAULT_STEP | FAULT_FACTOR | FAULT_RANK,
                                    .step = ONSET,
                                    .phase = LOCKSTEP_PHASE_FORWARD,
                                    .factor = pair->factor[i],
                                    .rank = score_place(which + round, at->ranks) };
        if (pair->fault[i] ==
            FAULT_SLOW_DATASET) { /* about as slow as the other: each hides the other */
            fault[i]->ms = DATASET_STEPS * at->step_ms;
            fault[i]->set ^= FAULT_MS | FAULT_FACTOR;
        }
        if (pair->all[i])
            fault[i]->set &= ~(uint32_t)FAULT_RANK;
        fault[i]->set &= fault[i]->kind->params;
    }
    at->also.rank = other_replica(at);
    if (pair->fault[1] == FAULT_KILL) /* the straggler has to be known by then */
        at->also.step = ONSET + 15;
}
