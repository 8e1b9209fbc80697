/* wait_link.c - all are in, and nothing moves: the network between them.
 *
 * A message that both its ends are in accuses the link between two nodes, and neither end: each says the same of
 * the other.  Only several such messages tell more, where all of them touch one node and no other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "judge/stuck/wait_private.h"

static bool is_stuck(const struct instance *at)
{
    return at->reached && at->op.missing == 0 && at->op.comm != MODEL_NONE;
}

/* The nodes of a message's two ends; false: it does not leave its node, or nobody knows. */
static bool ends_of(const struct look *look, const struct instance *at, uint32_t node[2])
{
    const struct model *model = look->model;

    if (!is_stuck(at) || !at->op.p2p || at->op.unseen || at->op.from >= model->world ||
        at->op.to >= model->world)
        return false;
    node[0] = model->rank[at->op.from].node;
    node[1] = model->rank[at->op.to].node;
    return node[0] < model->nodes && node[1] < model->nodes && node[0] != node[1];
}

/* The one node that all stuck messages touch; MODEL_NONE: it cannot be told. */
static uint32_t common_node(const struct look *look)
{
    uint32_t first[2] = { MODEL_NONE, MODEL_NONE }, node[2];
    bool all[2] = { true, true };

    for (uint32_t i = 0; i < look->count; i++) {
        if (!ends_of(look, &look->at[i], node))
            continue;
        if (first[0] == MODEL_NONE) {
            first[0] = node[0];
            first[1] = node[1];
        }
        for (int k = 0; k < 2; k++)
            all[k] &= node[0] == first[k] || node[1] == first[k];
    }
    if (first[0] == MODEL_NONE || all[0] == all[1]) /* one pair of nodes, or no node in common */
        return MODEL_NONE;
    return first[all[1]];
}

static void name_end(struct wait_finding *ret, uint32_t rank)
{
    for (uint32_t i = 0; i < MIN(ret->culprits, WAIT_CULPRITS); i++) {
        if (ret->culprit[i] == rank)
            return;
    }
    if (ret->culprits < WAIT_CULPRITS) {
        ret->culprit[ret->culprits] = rank;
        ret->missed[ret->culprits] = ret->op;
    }
    ret->culprits++;
}

static void name_node(const struct look *look, struct wait_finding *ret)
{
    uint32_t common = common_node(look), node[2];

    for (uint32_t i = 0; common != MODEL_NONE && i < look->count; i++) {
        const struct wait_op *op = &look->at[i].op;

        if (ends_of(look, &look->at[i], node))
            name_end(ret, node[0] == common ? op->from : op->to);
    }
}

bool wait_stuck(const struct look *look, struct wait_finding *ret)
{
    const struct instance *found = NULL;

    for (uint32_t i = 0; i < look->count; i++) {
        const struct instance *at = &look->at[i];

        if (!at->reached)
            continue;
        if (at->moves)
            return false; /* somebody goes on: this may resolve by itself */
        if (at->op.missing)
            continue;
        /* One whose members are all seen says more than one with unseen members. */
        if (!found || (found->op.unseen > 0) > (at->op.unseen > 0) ||
            ((found->op.unseen > 0) == (at->op.unseen > 0) && at->op.age_ns > found->op.age_ns))
            found = at;
    }
    if (!found)
        return false;
    *ret = (struct wait_finding){ .kind = found->op.unseen ? WAIT_UNSEEN : WAIT_LINK,
                                  .op = found->op };
    if (ret->kind == WAIT_LINK && found->op.p2p)
        name_node(look, ret);
    return true;
}
