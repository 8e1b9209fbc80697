/* wait_sides.c - hangs without a single culprit: the ranks that disagree.
 *
 * The verdict describes both sides and names the smaller one: one program among many is more likely wrong than all the
 * others.  If the sides are equal, it names the one that does what was never observed before, else all ranks, with that
 * reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/clean.h"
#include "judge/stuck/wait_private.h"
#include "lockstep/probe.h"

static void wait_side_add(struct wait_side *side, uint32_t rank)
{
    if (side->count < WAIT_CULPRITS)
        side->rank[side->count] = rank;
    side->count++;
}

static void wait_name_side(struct wait_finding *ret, const struct wait_side *side)
{
    for (uint32_t i = 0; i < MIN(side->count, WAIT_CULPRITS); i++) {
        uint32_t at = ret->culprits;

        if (at < WAIT_CULPRITS) {
            ret->culprit[at] = side->rank[i];
            ret->missed_op[at] = ret->op;
        }
        ret->culprits++;
    }
}

static void wait_name_smaller(struct wait_finding *ret)
{
    ret->undecided = ret->side[0].count == ret->side[1].count;
    if (ret->side[0].count <= ret->side[1].count)
        wait_name_side(ret, &ret->side[0]);
    if (ret->side[1].count <= ret->side[0].count)
        wait_name_side(ret, &ret->side[1]);
}

/* ---- one operation with different arguments ---- */

/* Operations to which all members pass the same number of bytes. */
static bool wait_sizes_agree(uint8_t what)
{
    return what == LOCKSTEP_OP_ALL_REDUCE || what == LOCKSTEP_OP_REDUCE_SCATTER ||
           what == LOCKSTEP_OP_ALL_GATHER || what == LOCKSTEP_OP_BROADCAST ||
           what == LOCKSTEP_OP_REDUCE;
}

static bool wait_op_known(uint8_t what)
{
    return what != 0 && what != LOCKSTEP_OP_OTHER;
}

static bool wait_args_differ(const struct beat_op *op, const struct wait_op *first)
{
    if (wait_op_known(op->what) && wait_op_known(first->what) && op->what != first->what)
        return true;
    if (op->what != first->what)
        return false;
    /* The same number of bytes may be different elements: two floats, or one double. */
    if (op->dtype && first->dtype && op->dtype != first->dtype)
        return true;
    return wait_sizes_agree(op->what) && op->bytes && first->bytes && op->bytes != first->bytes;
}

static const struct beat_op *wait_op_inside(const struct wait_rank *rank, uint64_t comm,
                                            uint64_t key)
{
    for (uint32_t i = 0; rank->seen && i < rank->ops; i++) {
        const struct beat_op *op = &rank->op[i];

        if (op->kind == ITEM_COLL && op->comm == comm && op->key == key && op->started)
            return op;
    }
    return NULL;
}

/* Sorts the members inside into those with the arguments of `at` and the others. */
static bool sides_of(const struct look *look, const struct wait_instance *at,
                     struct wait_side side[2])
{
    const struct model_comm *comm = &look->model->comm[at->op.comm];

    side[0] = (struct wait_side){ .op = at->op };
    side[1] = (struct wait_side){ .op = at->op };
    for (uint32_t i = 0; i < comm->known; i++) {
        uint32_t rank = comm->member[i];
        const struct beat_op *op = rank < look->model->world
                                       ? wait_op_inside(&look->rank[rank], comm->id, at->op.key)
                                       : NULL;
        bool other = op && wait_args_differ(op, &at->op);

        if (!op)
            continue;
        if (side[other].count == 0) {
            side[other].op.what = op->what;
            side[other].op.bytes = op->bytes;
            side[other].op.dtype = op->dtype;
        }
        wait_side_add(&side[other], rank);
    }
    return side[0].count > 0 && side[1].count > 0;
}

/* Whether any rank has launched it with these arguments in a step that ended. */
static bool wait_was_seen_before(const struct model *model, const struct wait_op *op)
{
    for (uint32_t i = 0; i < model->shapes; i++) {
        const struct fact_shape *shape = &model->shape[i]->fact;

        /* The last step of a rank that died has the op in question. */
        for (uint32_t k = 0; model->shape[i]->ended && k < shape->count; k++) {
            const struct shape_item *item = &shape->item[k];

            if (item->kind == ITEM_COLL && item->comm == model->comm[op->comm].id &&
                item->what == op->what && item->bytes == op->bytes)
                return true;
        }
    }
    return false;
}

/* If both sides are of equal size and only one does what earlier steps did, the other is named. */
static void wait_name_disagreeing(const struct model *model, struct wait_finding *ret)
{
    bool usual[WAIT_SIDES];

    if (ret->side[0].count != ret->side[1].count) {
        wait_name_smaller(ret);
        return;
    }
    for (int i = 0; i < WAIT_SIDES; i++)
        usual[i] = wait_was_seen_before(model, &ret->side[i].op);
    if (usual[0] == usual[1])
        wait_name_smaller(ret);
    else
        wait_name_side(ret, &ret->side[usual[0] ? 1 : 0]);
}

bool wait_mismatch(const struct look *look, struct wait_finding *ret)
{
    for (uint32_t i = 0; i < look->count; i++) {
        const struct wait_instance *at = &look->instance[i];

        if (!at->reached || at->op.p2p || at->op.comm == MODEL_NONE)
            continue;
        *ret = (struct wait_finding){ .kind = WAIT_MISMATCH, .op = at->op };
        if (!sides_of(look, at, ret->side))
            continue;
        wait_name_disagreeing(look->model, ret);
        return true;
    }
    return false;
}

/* For a rank that ended inside the operation: it has no wait to start from. */
bool wait_disagreed(const struct model *model, const struct wait_rank *rank, uint32_t who,
                    struct wait_finding *ret)
{
    struct look look = { .model = model, .rank = rank };

    for (uint32_t i = 0; rank[who].seen && i < rank[who].ops; i++) {
        const struct beat_op *op = &rank[who].op[i];
        const uint64_t *slot = op->kind == ITEM_COLL ? map_get(&model->comm_by_id, op->comm) : NULL;
        struct wait_instance at = {
            .op = { .what = op->what, .dtype = op->dtype, .key = op->key, .bytes = op->bytes }
        };

        if (!slot || !op->started)
            continue;
        at.op.comm = (uint32_t)*slot;
        *ret = (struct wait_finding){ .kind = WAIT_MISMATCH, .op = at.op };
        if (!sides_of(&look, &at, ret->side))
            continue;
        wait_name_disagreeing(model, ret);
        ret->victims = ret->side[0].count + ret->side[1].count - ret->culprits;
        return true;
    }
    return false;
}

/* ---- different orders ---- */

/* The operation in which the missing rank waits; NULL: none that was reached. */
static const struct wait_instance *wait_next_of(const struct look *look,
                                                const struct wait_instance *at)
{
    const struct wait_rank *rank = &look->rank[at->first_missing];

    for (uint32_t i = 0; i < rank->ops + rank->channels; i++) {
        const struct wait_instance *next = look_instance_at(look, at->first_missing, i);

        if (next && next->reached && next->op.missing && next != at)
            return next;
    }
    return NULL;
}

/* The ranks that wait in `at` and are missing from `other`. */
static void wait_side_between(const struct look *look, const struct wait_instance *at,
                              const struct wait_instance *other, struct wait_side *ret)
{
    *ret = (struct wait_side){ .op = at->op };
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        const struct wait_rank *one = &look->rank[rank];
        bool in = false, out = rank == other->first_missing;

        for (uint32_t i = 0; look->waits[rank] && i < one->ops + one->channels; i++)
            in |= look_instance_at(look, rank, i) == at;
        if (in && !out && !other->op.p2p &&
            model_index(look->model, other->op.comm, rank) != MODEL_NONE) {
            enum wait_position position =
                wait_position_coll(one, look->model->comm[other->op.comm].id, other->op.key);

            out = position == POSITION_ABSENT || position == POSITION_LAUNCHED;
        }
        if (in && out)
            wait_side_add(ret, rank);
    }
}

static uint64_t wait_collectives(const struct wait_rank *rank, uint64_t comm)
{
    const struct beat_channel *channel = wait_channel_find(rank, comm, 0, 0);

    return channel ? channel->enqueued : 0;
}

/* How many collectives of a group like `comm`, but another one, a rank had launched that waits in `at`, too; 0: no such rank. */
static uint64_t wait_peer_launched(const struct look *look, const struct wait_instance *at,
                                   const struct model_comm *comm)
{
    uint64_t launched = 0;

    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        const struct wait_rank *one = &look->rank[rank];
        bool in = false;

        for (uint32_t i = 0; look->waits[rank] && i < one->ops + one->channels; i++)
            in |= look_instance_at(look, rank, i) == at;
        for (uint32_t i = 0; in && i < one->channels; i++) {
            const uint64_t *slot = map_get(&look->model->comm_by_id, one->channel[i].comm);
            const struct model_comm *other = slot ? &look->model->comm[*slot] : NULL;

            if (other && other != comm && one->channel[i].what == 0 && other->kind == comm->kind &&
                other->kind != LOCKSTEP_COMM_OTHER && other->size == comm->size)
                launched = MAX(launched, one->channel[i].enqueued);
        }
    }
    return launched;
}

/* Of two ranks in a group, one has gone on to `at`: ranks of other groups like theirs that did so had launched more in their group by
 * then, so it has left one out.
 */
static bool wait_side_left_out(const struct look *look, const struct wait_instance *at,
                               const struct wait_instance *other, const struct wait_side *side)
{
    const struct model_comm *comm = &look->model->comm[other->op.comm];
    uint64_t peers = wait_peer_launched(look, at, comm);

    return peers && side->count == 1 &&
           wait_collectives(&look->rank[side->rank[0]], comm->id) < peers;
}

/* Where both sides are of equal size. */
static bool wait_name_left_out(const struct look *look, struct wait_finding *ret,
                               const struct wait_instance *at[WAIT_SIDES])
{
    bool first = wait_side_left_out(look, at[0], at[1], &ret->side[0]);
    bool second = wait_side_left_out(look, at[1], at[0], &ret->side[1]);

    if (ret->side[0].count != ret->side[1].count || first == second)
        return false;
    wait_name_side(ret, &ret->side[first ? 0 : 1]);
    return true;
}

bool wait_cycle(const struct look *look, struct wait_finding *ret)
{
    const struct wait_instance *slow = look_longest(look), *fast = slow, *other;

    for (uint32_t i = 0; i < look->count; i++) {
        if (look->instance[i].reached && look->instance[i].may_advance)
            return false;
    }
    /* If each missing rank waits in another operation, following them ends in a cycle. */
    for (uint32_t steps = 0; slow && steps <= look->count; steps++)
        slow = slow->op.missing ? wait_next_of(look, slow) : NULL;
    if (!slow)
        return false;
    *ret = (struct wait_finding){ .kind = WAIT_ORDER, .op = slow->op };
    other = wait_next_of(look, slow);
    fast = wait_next_of(look, other);
    wait_side_between(look, slow, other, &ret->side[0]);
    wait_side_between(look, other, slow, &ret->side[1]);
    if (fast == slow && ret->side[0].count && ret->side[1].count) {
        if (!wait_name_left_out(look, ret, (const struct wait_instance *[]){ slow, other }))
            wait_name_smaller(ret);
        return true;
    }
    ret->undecided = true; /* a longer cycle: one rank of each operation */
    fast = slow;
    do {
        struct wait_side one = { .count = 1, .rank = { fast->first_missing } };

        wait_name_side(ret, &one);
        fast = wait_next_of(look, fast);
    } while (fast && fast != slow && ret->culprits < WAIT_CULPRITS);
    return true;
}
