/* score_link.c - nodes with networks of their own, and the link of one of them slow or cut. */
#include "core/clean.h"
#include "lab/score_parts.h"

#define ONSET 20

static const enum fault_id faults[] = { FAULT_SLOW_LINK, FAULT_LINK_DOWN };
_Static_assert(COUNT(faults) == SCORE_LINK, "as the header says");

void score_link_case(uint32_t number, struct rand *rand, struct score_case *at)
{
    uint32_t round = number / COUNT(faults), which = number % COUNT(faults);
    enum fault_id id = faults[which];

    at->family = "link";
    score_layout(at, rand, id, score_size(which + round));
    at->nodes = id == FAULT_SLOW_LINK ? 4 : 2; /* a slow one is told from the fabric by its pairs */
    at->steps = ONSET + 30;
    at->fault = (struct fault){ .kind = score_kind(id),
                                .set = FAULT_STEP | FAULT_NODE | FAULT_FACTOR,
                                .step = ONSET,
                                .factor = 3,
                                .node = score_place(round, at->nodes) };
    at->fault.set &= at->fault.kind->params;
}
