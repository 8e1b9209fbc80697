/* wait_link.c - all members have entered an operation and nothing advances: the network between them is stuck.
 *
 * A message that both ends have entered shows that the link between two nodes is stuck, not which end is at fault.  If
 * several such messages touch one node and share no other, that node is named.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "judge/stuck/wait_private.h"

static bool is_stuck(const struct wait_instance *at)
{
    return at->reached && at->op.missing == 0 && at->op.comm != MODEL_NONE;
}

/* The nodes of both ends of a stuck message; false: they are the same, or not known. */
static bool wait_ends_of(const struct look *look, const struct wait_instance *at, uint32_t node[2])
{
    const struct model *model = look->model;

    if (!is_stuck(at) || !at->op.p2p || at->op.unseen || at->op.from >= model->world ||
        at->op.to >= model->world)
        return false;
    node[0] = model->rank[at->op.from].node;
    node[1] = model->rank[at->op.to].node;
    return node[0] < model->nodes && node[1] < model->nodes && node[0] != node[1];
}

/* The one node that all stuck messages touch; MODEL_NONE: there is none, or there are two. */
static uint32_t wait_common_node(const struct look *look)
{
    uint32_t first[2] = { MODEL_NONE, MODEL_NONE }, node[2];
    bool all[2] = { true, true };

    for (uint32_t i = 0; i < look->count; i++) {
        if (!wait_ends_of(look, &look->instance[i], node))
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

static void wait_name_end(struct wait_finding *ret, uint32_t rank)
{
    for (uint32_t i = 0; i < MIN(ret->culprits, WAIT_CULPRITS); i++) {
        if (ret->culprit[i] == rank)
            return;
    }
    if (ret->culprits < WAIT_CULPRITS) {
        ret->culprit[ret->culprits] = rank;
        ret->missed_op[ret->culprits] = ret->op;
    }
    ret->culprits++;
}

static void wait_name_node(const struct look *look, struct wait_finding *ret)
{
    uint32_t common = wait_common_node(look), node[2];

    for (uint32_t i = 0; common != MODEL_NONE && i < look->count; i++) {
        const struct wait_op *op = &look->instance[i].op;

        if (wait_ends_of(look, &look->instance[i], node))
            wait_name_end(ret, node[0] == common ? op->from : op->to);
    }
}

bool wait_stuck(const struct look *look, struct wait_finding *ret)
{
    const struct wait_instance *found = NULL;

    for (uint32_t i = 0; i < look->count; i++) {
        const struct wait_instance *at = &look->instance[i];

        if (!at->reached)
            continue;
        if (at->may_advance)
            return false; /* a rank advances: the wait may end by itself */
        if (at->op.missing)
            continue;
        /* An operation whose members are all observed is the better evidence. */
        if (!found || (found->op.unseen > 0) > (at->op.unseen > 0) ||
            ((found->op.unseen > 0) == (at->op.unseen > 0) && at->op.age_ns > found->op.age_ns))
            found = at;
    }
    if (!found)
        return false;
    *ret = (struct wait_finding){ .kind = found->op.unseen ? WAIT_UNSEEN : WAIT_LINK,
                                  .op = found->op };
    if (ret->kind == WAIT_LINK && found->op.p2p)
        wait_name_node(look, ret);
    return true;
}
