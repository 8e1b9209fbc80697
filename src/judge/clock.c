/* clock.c - bounds per step, kept for some steps (clocks drift), intersected. */
#include "judge/clock.h"

#include <stdlib.h>

#include "core/clean.h"
#include "judge/split.h"

#define INSTANCES 8 /* of a communicator and step that are looked at */

struct reference { /* of one meeting: members whose clocks are known, on the common clock */
    int64_t last_start_ns, first_end_ns;
};

typedef void member_visit(struct model *model, struct reference *reference, uint32_t node,
                          int64_t start_ns, int64_t end_ns, uint32_t slot);

static void visit_known(struct model *model, struct reference *reference, uint32_t node,
                        int64_t start_ns, int64_t end_ns, uint32_t slot)
{
    (void)slot;
    if (!model->node[node].aligned)
        return;
    start_ns += model->node[node].offset_ns;
    end_ns += model->node[node].offset_ns;
    reference->last_start_ns = MAX(reference->last_start_ns, start_ns);
    reference->first_end_ns = MIN(reference->first_end_ns, end_ns);
}

static void visit_bound(struct model *model, struct reference *reference, uint32_t node,
                        int64_t start_ns, int64_t end_ns, uint32_t slot)
{
    struct model_node *at = &model->node[node];

    if (node == 0 || reference->last_start_ns == INT64_MIN)
        return;
    at->low_ns[slot] = MAX(at->low_ns[slot], reference->last_start_ns - end_ns);
    at->high_ns[slot] = MIN(at->high_ns[slot], reference->first_end_ns - start_ns);
}

/* Calls `visit` for each member of each synchronising collective, with the meeting's reference. */
static void each_member(struct model *model, const struct whole *whole, struct reference *reference,
                        uint32_t slot, member_visit *visit)
{
    for (uint32_t rank = 0; rank < model->world; rank++) {
        const struct model_shape *shape = whole->shape_of[rank];
        uint32_t node = model->rank[rank].node;

        for (uint32_t i = 0; shape && node < model->nodes && i < shape->fact.count; i++) {
            const struct shape_item *item = &shape->fact.item[i];
            const struct item_time *time = &whole->step_of[rank].time[i];
            int64_t begin = whole->step_of[rank].begin_ns;

            if (item->kind != ITEM_COLL || !op_synchronises(item->what) ||
                shape->ordinal[i] >= INSTANCES || item->count != 1)
                continue;
            visit(model, &reference[(size_t)shape->comm[i] * INSTANCES + shape->ordinal[i]], node,
                  begin + time->start_ns, begin + time->end_ns, slot);
        }
    }
}

static void node_settle(struct model_node *node, const struct model_node *first)
{
    int64_t low = INT64_MIN / 4, high = INT64_MAX / 4;

    for (int i = 0; i < CLOCK_STEPS; i++) {
        low = MAX(low, node->low_ns[i]);
        high = MIN(high, node->high_ns[i]);
    }
    if (low == INT64_MIN / 4 || high == INT64_MAX / 4)
        return;       /* nothing bounds it yet */
    if (low > high) { /* it drifted, or a time was wrong: older bounds go first */
        for (int i = 0; i < CLOCK_STEPS; i++) {
            node->low_ns[i] = INT64_MIN / 4;
            node->high_ns[i] = INT64_MAX / 4;
        }
        return;
    }
    node->offset_ns = low + (high - low) / 2;
    node->error_ns = (high - low) / 2;
    if (node->real_ns && first->real_ns)
        node->offset_ns = MAX(low, MIN(high, node->real_ns - first->real_ns));
    node->aligned = true;
}

static void bounds_clear(struct model *model, uint32_t slot)
{
    for (uint32_t i = 0; i < model->nodes; i++) {
        struct model_node *node = &model->node[i];

        if (!node->aligned && node->high_ns[0] == 0 && node->low_ns[0] == 0) { /* new here */
            for (int at = 0; at < CLOCK_STEPS; at++) {
                node->low_ns[at] = INT64_MIN / 4;
                node->high_ns[at] = INT64_MAX / 4;
            }
        }
        node->low_ns[slot] = INT64_MIN / 4;
        node->high_ns[slot] = INT64_MAX / 4;
    }
}

void clock_align(struct model *model, const struct whole *whole)
{
    const size_t meetings = (size_t)model->comms * INSTANCES;
    CLEAN(free_clean) struct reference *reference = NULL;
    uint32_t slot = (uint32_t)(whole->step % CLOCK_STEPS);

    if (model->nodes < 2 || meetings == 0)
        return;
    reference = malloc(meetings * sizeof(*reference));
    if (!reference)
        return;
    for (size_t i = 0; i < meetings; i++)
        reference[i] = (struct reference){ INT64_MIN, INT64_MAX };
    model->node[0].aligned = true;
    bounds_clear(model, slot);
    each_member(model, whole, reference, slot, visit_known);
    each_member(model, whole, reference, slot, visit_bound);
    for (uint32_t node = 1; node < model->nodes; node++)
        node_settle(&model->node[node], &model->node[0]);
}
