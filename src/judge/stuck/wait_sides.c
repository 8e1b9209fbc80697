/* wait_sides.c - hangs without a single culprit: the ranks that disagree.
 *
 * Of two sides the smaller one is named, and both are told: one program among many is more likely wrong than
 * all the others.  Where they are equally many the one that does what was never done before is named, or all are,
 * and that is said.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/clean.h"
#include "judge/stuck/wait_private.h"
#include "lockstep/probe.h"

static void side_add(struct wait_side *side, uint32_t rank)
{
    if (side->count < WAIT_CULPRITS)
        side->rank[side->count] = rank;
    side->count++;
}

static void name_side(struct wait_finding *ret, const struct wait_side *side)
{
    for (uint32_t i = 0; i < MIN(side->count, WAIT_CULPRITS); i++) {
        uint32_t at = ret->culprits;

        if (at < WAIT_CULPRITS) {
            ret->culprit[at] = side->rank[i];
            ret->missed[at] = ret->op;
        }
        ret->culprits++;
    }
}

static void name_smaller(struct wait_finding *ret)
{
    ret->undecided = ret->side[0].count == ret->side[1].count;
    if (ret->side[0].count <= ret->side[1].count)
        name_side(ret, &ret->side[0]);
    if (ret->side[1].count <= ret->side[0].count)
        name_side(ret, &ret->side[1]);
}

/* ---- one operation, other arguments ---- */

/* Of these all members give the same number of bytes. */
static bool sizes_agree(uint8_t what)
{
    return what == LOCKSTEP_OP_ALL_REDUCE || what == LOCKSTEP_OP_REDUCE_SCATTER ||
           what == LOCKSTEP_OP_ALL_GATHER || what == LOCKSTEP_OP_BROADCAST ||
           what == LOCKSTEP_OP_REDUCE;
}

static bool op_known(uint8_t what)
{
    return what != 0 && what != LOCKSTEP_OP_OTHER;
}

static bool args_differ(const struct beat_op *op, const struct wait_op *first)
{
    if (op_known(op->what) && op_known(first->what) && op->what != first->what)
        return true;
    if (op->what != first->what)
        return false;
    /* As many bytes may be other elements: two floats, or one double. */
    if (op->dtype && first->dtype && op->dtype != first->dtype)
        return true;
    return sizes_agree(op->what) && op->bytes && first->bytes && op->bytes != first->bytes;
}

static const struct beat_op *op_inside(const struct wait_rank *rank, uint64_t comm, uint64_t key)
{
    for (uint32_t i = 0; rank->seen && i < rank->ops; i++) {
        const struct beat_op *op = &rank->op[i];

        if (op->kind == ITEM_COLL && op->comm == comm && op->key == key && op->started)
            return op;
    }
    return NULL;
}

/* Sorts the members that are in it into those with the first one's arguments and the others. */
static bool sides_of(const struct look *look, const struct instance *at, struct wait_side side[2])
{
    const struct model_comm *comm = &look->model->comm[at->op.comm];

    side[0] = (struct wait_side){ .op = at->op };
    side[1] = (struct wait_side){ .op = at->op };
    for (uint32_t i = 0; i < comm->known; i++) {
        uint32_t rank = comm->member[i];
        const struct beat_op *op =
            rank < look->model->world ? op_inside(&look->rank[rank], comm->id, at->op.key) : NULL;
        bool other = op && args_differ(op, &at->op);

        if (!op)
            continue;
        if (side[other].count == 0) {
            side[other].op.what = op->what;
            side[other].op.bytes = op->bytes;
            side[other].op.dtype = op->dtype;
        }
        side_add(&side[other], rank);
    }
    return side[0].count > 0 && side[1].count > 0;
}

/* Whether somebody has ever launched it so, in a step that ended. */
static bool was_seen_before(const struct model *model, const struct wait_op *op)
{
    for (uint32_t i = 0; i < model->shapes; i++) {
        const struct fact_shape *shape = &model->shape[i]->fact;

        /* A rank that ends in the middle tells a last step, with the very op that is asked about. */
        for (uint32_t k = 0; model->shape[i]->ended && k < shape->count; k++) {
            const struct shape_item *item = &shape->item[k];

            if (item->kind == ITEM_COLL && item->comm == model->comm[op->comm].id &&
                item->what == op->what && item->bytes == op->bytes)
                return true;
        }
    }
    return false;
}

/* Where sides are equal, and only one does what was done in the steps before, it is the other. */
static void name_disagreeing(const struct model *model, struct wait_finding *ret)
{
    bool usual[WAIT_SIDES];

    if (ret->side[0].count != ret->side[1].count) {
        name_smaller(ret);
        return;
    }
    for (int i = 0; i < WAIT_SIDES; i++)
        usual[i] = was_seen_before(model, &ret->side[i].op);
    if (usual[0] == usual[1])
        name_smaller(ret);
    else
        name_side(ret, &ret->side[usual[0] ? 1 : 0]);
}

bool wait_mismatch(const struct look *look, struct wait_finding *ret)
{
    for (uint32_t i = 0; i < look->count; i++) {
        const struct instance *at = &look->at[i];

        if (!at->reached || at->op.p2p || at->op.comm == MODEL_NONE)
            continue;
        *ret = (struct wait_finding){ .kind = WAIT_MISMATCH, .op = at->op };
        if (!sides_of(look, at, ret->side))
            continue;
        name_disagreeing(look->model, ret);
        return true;
    }
    return false;
}

/* Of one that ended in the middle of it there is no wait to begin from. */
bool wait_disagreed(const struct model *model, const struct wait_rank *rank, uint32_t who,
                    struct wait_finding *ret)
{
    struct look look = { .model = model, .rank = rank };

    for (uint32_t i = 0; rank[who].seen && i < rank[who].ops; i++) {
        const struct beat_op *op = &rank[who].op[i];
        const uint64_t *slot = op->kind == ITEM_COLL ? map_get(&model->comm_by_id, op->comm) : NULL;
        struct instance at = {
            .op = { .what = op->what, .dtype = op->dtype, .key = op->key, .bytes = op->bytes }
        };

        if (!slot || !op->started)
            continue;
        at.op.comm = (uint32_t)*slot;
        *ret = (struct wait_finding){ .kind = WAIT_MISMATCH, .op = at.op };
        if (!sides_of(&look, &at, ret->side))
            continue;
        name_disagreeing(model, ret);
        ret->victims = ret->side[0].count + ret->side[1].count - ret->culprits;
        return true;
    }
    return false;
}

/* ---- another order ---- */

/* Where one who is missing waits; NULL: nowhere that was reached. */
static const struct instance *next_of(const struct look *look, const struct instance *at)
{
    const struct wait_rank *rank = &look->rank[at->missing];

    for (uint32_t i = 0; i < rank->ops; i++) {
        const struct instance *next = look_instance(look, at->missing, &rank->op[i]);

        if (next && next->reached && next->op.missing && next != at)
            return next;
    }
    return NULL;
}

/* Those who wait in `at` and are missing from `other`. */
static void side_between(const struct look *look, const struct instance *at,
                         const struct instance *other, struct wait_side *ret)
{
    *ret = (struct wait_side){ .op = at->op };
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        const struct wait_rank *one = &look->rank[rank];
        bool in = false, out = rank == other->missing;

        for (uint32_t i = 0; look->waits[rank] && i < one->ops; i++)
            in |= look_instance(look, rank, &one->op[i]) == at;
        if (in && !out && !other->op.p2p &&
            model_index(look->model, other->op.comm, rank) != MODEL_NONE) {
            enum wait_place place =
                wait_place_coll(one, look->model->comm[other->op.comm].id, other->op.key);

            out = place == PLACE_ABSENT || place == PLACE_LAUNCHED;
        }
        if (in && out)
            side_add(ret, rank);
    }
}

bool wait_cycle(const struct look *look, struct wait_finding *ret)
{
    const struct instance *slow = look_longest(look), *fast = slow, *other;

    for (uint32_t i = 0; i < look->count; i++) {
        if (look->at[i].reached && look->at[i].moves)
            return false;
    }
    /* Everybody who is missing waits somewhere, so that following them comes round. */
    for (uint32_t steps = 0; slow && steps <= look->count; steps++)
        slow = slow->op.missing ? next_of(look, slow) : NULL;
    if (!slow)
        return false;
    *ret = (struct wait_finding){ .kind = WAIT_ORDER, .op = slow->op };
    other = next_of(look, slow);
    fast = next_of(look, other);
    side_between(look, slow, other, &ret->side[0]);
    side_between(look, other, slow, &ret->side[1]);
    if (fast == slow && ret->side[0].count && ret->side[1].count) {
        name_smaller(ret);
        return true;
    }
    ret->undecided = true; /* a longer round: one of each */
    fast = slow;
    do {
        struct wait_side one = { .count = 1, .rank = { fast->missing } };

        name_side(ret, &one);
        fast = next_of(look, fast);
    } while (fast && fast != slow && ret->culprits < WAIT_CULPRITS);
    return true;
}
