/* hold.c - facts of one ring that are held until the node's split is known.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/ring/hold.h"

#include <string.h>

void hold_fini(struct hold *hold)
{
    for (unsigned i = 0; i < hold->count; i++)
        assembled_fini(&hold->held[i].fact);
    hold->count = 0;
}

bool hold_is_full(const struct hold *hold)
{
    return hold->count == HOLD_FACTS;
}

void hold_put(struct hold *hold, struct nodesplit *split, struct assembled *fact, int64_t now_ns)
{
    bool waits = false;

    if (fact->kind == ASSEMBLED_STEP)
        waits = nodesplit_join(split, &fact->step, fact->op, fact->ops);
    if (fact->kind == ASSEMBLED_NOTE || fact->kind == ASSEMBLED_METHOD ||
        (!waits && hold->count == 0))
        return; /* notes are known by themselves: they need no order */
    hold->held[hold->count++] = (struct held_fact){ .fact = *fact, .since_ns = now_ns };
    *fact = (struct assembled){ 0 };
}

bool hold_take(struct hold *hold, const struct nodesplit *split, int64_t now_ns,
               struct assembled *fact)
{
    struct held_fact *front = &hold->held[0];

    if (hold->count == 0)
        return false;
    if (front->fact.kind == ASSEMBLED_STEP) {
        if (!nodesplit_ready(split, front->fact.op, front->fact.ops, &front->met) &&
            now_ns - front->since_ns < HOLD_NS)
            return false;
        nodesplit_sum(split, front->fact.op, front->fact.ops, &front->fact.shape,
                      &front->fact.step);
    }
    *fact = front->fact;
    hold->count--;
    memmove(front, front + 1, hold->count * sizeof(*front));
    return true;
}
