/* score_channels.c - communicators that go on with fewer channels: from a step on, or since a restart. */
#include "core/clean.h"
#include "lab/score_parts.h"
#include "lockstep/probe.h"

#define ONSET 20
#define KILLED 26 /* by then it is known what is typical */

void score_channels_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t round = number / SCORE_CHANNELS;
    bool restart = number % SCORE_CHANNELS == 1;

    at->family = "channels";
    score_layout(at, rand, FAULT_FEW_CHANNELS, score_size(round + restart));
    at->nodes = 2;
    at->steps = ONSET + 30;
    at->fault = (struct fault){ .kind = score_kind(FAULT_FEW_CHANNELS),
                                .set = FAULT_STEP | FAULT_FACTOR | FAULT_COMM,
                                .step = ONSET,
                                .comm = LOCKSTEP_COMM_DP,
                                .factor = round % 2 ? 4 : 8 };
    if (round % 2 == 0) { /* else all of them */
        at->fault.set |= FAULT_RANK;
        at->fault.rank = score_place(round / 2, at->ranks);
    }
    if (!restart)
        return;
    at->checkpoint_every = 5;
    at->fault.set |= FAULT_ATTEMPT;
    at->fault.attempt = 1;
    at->fault.step = 0;
    at->also = (struct fault){ .kind = score_kind(FAULT_KILL),
                               .set = FAULT_STEP | FAULT_RANK,
                               .step = KILLED,
                               .rank = score_place(round, at->ranks) };
}
