/* wait.c - follows the waiting to where it begins.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/stuck/wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/stuck/wait_private.h"
#include "lockstep/probe.h"

#define NAMED_PHASES                                                                               \
    (1u << LOCKSTEP_PHASE_INIT | 1u << LOCKSTEP_PHASE_COMM_INIT | 1u << LOCKSTEP_PHASE_COMPILE |   \
     1u << LOCKSTEP_PHASE_CHECKPOINT | 1u << LOCKSTEP_PHASE_EVAL)

bool wait_is_named_phase(const struct wait_rank *rank)
{
    return ((rank->phases | 1u << (rank->phase & 31)) & NAMED_PHASES) != 0;
}

static bool wait_is_held(const struct wait_rank *rank)
{
    return rank->state == 'T' || rank->state == 't';
}

/* In it, and the beat before saw it in the same. */
static bool op_waits(const struct beat_op *op)
{
    return op->started && !op->advanced && op->comm &&
           (op->kind == ITEM_COLL || op->kind == ITEM_P2P);
}

static bool rank_waits(const struct wait_rank *rank)
{
    for (uint32_t i = 0; rank->seen && !rank->gone && i < rank->ops; i++) {
        if (op_waits(&rank->op[i]))
            return true;
    }
    return false;
}

/* ---- how far somebody has come ---- */

static const struct beat_channel *channel_find(const struct wait_rank *rank, uint64_t comm,
                                               uint8_t what, uint32_t peer)
{
    for (uint32_t i = 0; i < rank->channels; i++) {
        const struct beat_channel *channel = &rank->channel[i];

        if (channel->comm == comm && channel->what == what && (what == 0 || channel->peer == peer))
            return channel;
    }
    return NULL;
}

static enum wait_place wait_place_of(const struct beat_channel *channel, uint64_t ordinal)
{
    if (!channel)
        return PLACE_ABSENT;
    if (channel->ended > ordinal)
        return PLACE_LEFT;
    if (channel->started > ordinal)
        return PLACE_INSIDE;
    return channel->enqueued > ordinal ? PLACE_LAUNCHED : PLACE_ABSENT;
}

/* Without counts, from what it is in: those of the same communicator tell. */
static enum wait_place place_guess(const struct wait_rank *rank, uint64_t comm, uint64_t key)
{
    for (uint32_t i = 0; i < rank->ops; i++) {
        const struct beat_op *op = &rank->op[i];

        if (op->kind != ITEM_COLL || op->comm != comm)
            continue;
        if (op->key == key)
            return op->started ? PLACE_INSIDE : PLACE_LAUNCHED;
        return op->key > key ? PLACE_LEFT : PLACE_ABSENT;
    }
    return PLACE_MOVES; /* it ended something since its last beat: not stuck, and nothing is known */
}

enum wait_place wait_place_coll(const struct wait_rank *rank, uint64_t comm, uint64_t key)
{
    if (!rank->seen)
        return PLACE_UNSEEN;
    if (rank->channels == 0)
        return rank->gone ? PLACE_ABSENT : place_guess(rank, comm, key);
    return wait_place_of(channel_find(rank, comm, 0, 0), key);
}

/* The other side of a message: `peer` is our index in the communicator. */
static enum wait_place place_p2p(const struct wait_rank *rank, const struct beat_op *op,
                                 uint32_t peer)
{
    uint8_t what = op->what == LOCKSTEP_OP_SEND ? LOCKSTEP_OP_RECV : LOCKSTEP_OP_SEND;

    if (!rank->seen)
        return PLACE_UNSEEN;
    for (uint32_t i = 0; i < rank->ops; i++) {
        const struct beat_op *other = &rank->op[i];

        if (other->kind == ITEM_P2P && other->comm == op->comm && other->what == what &&
            other->peer == peer && other->started &&
            (other->ordinal == op->ordinal || other->ordinal == BEAT_UNKNOWN ||
             op->ordinal == BEAT_UNKNOWN))
            return PLACE_INSIDE;
    }
    if (rank->channels == 0)
        return rank->gone ? PLACE_ABSENT : PLACE_MOVES;
    if (op->ordinal == BEAT_UNKNOWN)
        return PLACE_ABSENT;
    return wait_place_of(channel_find(rank, op->comm, what, peer), op->ordinal);
}

/* ---- the operations that are waited in ---- */

static struct instance *instance_add(struct look *look)
{
    if (!ARRAY_FIT(look->at, look->room, look->count + 1))
        return NULL;
    look->at[look->count] = (struct instance){ 0 };
    return &look->at[look->count++];
}

static uint64_t instance_key(uint32_t rank, const struct beat_op *op)
{
    uint64_t key = hash64_u64(hash64_u64(op->kind, op->comm), op->key);

    /* A message is waited for by its two ends separately. */
    return op->kind == ITEM_P2P ? hash64_u64(hash64_u64(key, rank), op->what) : key;
}

struct instance *look_instance(const struct look *look, uint32_t rank, const struct beat_op *op)
{
    const uint64_t *slot = op_waits(op) ? map_get(&look->by_key, instance_key(rank, op)) : NULL;

    return slot ? &look->at[*slot] : NULL;
}

static int instance_of(struct look *look, uint32_t rank, const struct beat_op *op)
{
    uint64_t *slot = map_put(&look->by_key, instance_key(rank, op), look->count);
    const uint64_t *comm = map_get(&look->model->comm_by_id, op->comm);
    struct instance *at;

    if (!slot)
        return -ENOMEM;
    if (*slot == look->count) {
        at = instance_add(look);
        if (!at)
            return -ENOMEM;
        at->op = (struct wait_op){ .comm = comm ? (uint32_t)*comm : MODEL_NONE,
                                   .p2p = op->kind == ITEM_P2P,
                                   .what = op->what,
                                   .key = op->key,
                                   .bytes = op->bytes,
                                   .dtype = op->dtype,
                                   .first = rank };
        at->message = *op;
    }
    at = &look->at[*slot];
    at->op.inside++;
    if (op->age_ns >= at->op.age_ns) {
        at->op.age_ns = op->age_ns;
        at->op.first = rank;
    }
    return 0;
}

static int64_t limit_of(const struct look *look, const struct wait_rank *rank)
{
    return wait_is_named_phase(rank) ? look->rule->late_ns : look->rule->limit_ns;
}

static int look_collect(struct look *look)
{
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        const struct wait_rank *at = &look->rank[rank];

        if (!rank_waits(at))
            continue;
        look->waits[rank] = true;
        for (uint32_t i = 0; i < at->ops; i++) {
            int result;

            if (!op_waits(&at->op[i]))
                continue;
            result = instance_of(look, rank, &at->op[i]);
            if (result < 0)
                return result;
            look_instance(look, rank, &at->op[i])->begins |= at->op[i].age_ns >= limit_of(look, at);
        }
    }
    return 0;
}

/* ---- following ---- */

static void root_add(struct look *look, const struct instance *at, uint32_t rank, enum wait_how how)
{
    if (look->missed_at[rank])
        return;
    look->missed_at[rank] = (uint32_t)(at - look->at) + 1;
    look->how[rank] = (uint8_t)how;
    look->roots++;
}

/* For how long its host has had the operation launched, or what is before it on that communicator; 0: not
 * known.
 */
static int64_t launched_for(const struct wait_rank *rank, const struct instance *at, uint64_t comm)
{
    int64_t queued = 0;

    for (uint32_t i = 0; i < rank->ops; i++) {
        const struct beat_op *op = &rank->op[i];

        if (op->comm != comm || op->started || (op->kind == ITEM_P2P) != at->op.p2p ||
            (at->op.p2p && op->what == at->message.what))
            continue;
        queued = MAX(queued, op->queued_ns);
    }
    return queued;
}

/* Does it wait in something that was launched before?  What comes later cannot hold it up: receives are
 * posted ahead of what they are for.
 */
static bool waits_before(const struct wait_rank *rank, int64_t queued_ns)
{
    for (uint32_t i = 0; i < rank->ops; i++) {
        const struct beat_op *op = &rank->op[i];

        if (op_waits(op) && (op->queued_ns == 0 || op->queued_ns > queued_ns))
            return true;
    }
    return false;
}

static bool holds_up_itself(const struct look *look, const struct instance *at, uint32_t rank,
                            enum wait_place place)
{
    int64_t queued_ns;

    if (place != PLACE_LAUNCHED)
        return false;
    queued_ns = launched_for(&look->rank[rank], at, look->model->comm[at->op.comm].id);
    return queued_ns > 0 && !waits_before(&look->rank[rank], queued_ns);
}

/* One who is not there: it waits elsewhere and is followed, or it is where it begins. */
static void follow_missing(struct look *look, struct instance *at, uint32_t rank,
                           enum wait_place place)
{
    const struct wait_rank *missing = &look->rank[rank];

    at->op.missing++;
    if (at->op.missing == 1)
        at->missing = rank;
    if (missing->gone)
        root_add(look, at, rank, WAIT_GONE);
    else if (wait_is_held(missing))
        root_add(look, at, rank, WAIT_HELD);
    else if (look->waits[rank] && !holds_up_itself(look, at, rank, place))
        look->follow[rank] = true;
    else
        root_add(look, at, rank, place == PLACE_LAUNCHED ? WAIT_LAUNCHED : WAIT_ABSENT);
}

static void follow_member(struct look *look, struct instance *at, uint32_t rank,
                          enum wait_place place)
{
    switch (place) {
    case PLACE_UNSEEN:
        at->op.unseen++;
        break;
    case PLACE_ABSENT:
    case PLACE_LAUNCHED:
        follow_missing(look, at, rank, place);
        break;
    case PLACE_MOVES:
        at->moves = true;
        break;
    case PLACE_INSIDE: /* who is stopped in it holds the others as one who never came does */
        if (wait_is_held(&look->rank[rank]))
            root_add(look, at, rank, WAIT_HELD);
        break;
    case PLACE_LEFT:
        at->op.left++;
        break;
    }
}

static void follow_coll(struct look *look, struct instance *at)
{
    const struct model_comm *comm = &look->model->comm[at->op.comm];

    at->op.members = comm->size;
    at->op.unseen += comm->size - comm->known;
    for (uint32_t i = 0; i < comm->known; i++) {
        uint32_t rank = comm->member[i];

        if (rank >= look->model->world)
            at->op.unseen++;
        else
            follow_member(look, at, rank, wait_place_coll(&look->rank[rank], comm->id, at->op.key));
    }
}

static void follow_p2p(struct look *look, struct instance *at)
{
    const struct model_comm *comm = &look->model->comm[at->op.comm];
    uint32_t peer = at->message.peer, own = model_index(look->model, at->op.comm, at->op.first);
    uint32_t rank = model_member(comm, peer);
    bool sends = at->message.what == LOCKSTEP_OP_SEND;

    at->op.members = 2;
    at->op.from = sends ? at->op.first : rank;
    at->op.to = sends ? rank : at->op.first;
    if (rank >= look->model->world || own == MODEL_NONE)
        at->op.unseen++;
    else
        follow_member(look, at, rank, place_p2p(&look->rank[rank], &at->message, own));
    if (wait_is_held(&look->rank[at->op.first]))
        root_add(look, at, at->op.first, WAIT_HELD);
}

static void instance_reach(struct look *look, struct instance *at)
{
    if (at->reached)
        return;
    at->reached = true;
    if (at->op.comm == MODEL_NONE) {
        at->moves = true; /* nobody has told us who is in it */
        return;
    }
    if (at->op.p2p)
        follow_p2p(look, at);
    else
        follow_coll(look, at);
}

/* From the waits that are too long to all that they lead to. */
static void look_follow(struct look *look)
{
    bool more = true;

    for (uint32_t i = 0; i < look->count; i++) {
        if (look->at[i].begins)
            instance_reach(look, &look->at[i]);
    }
    while (more) {
        more = false;
        for (uint32_t rank = 0; rank < look->model->world; rank++) {
            const struct wait_rank *at = &look->rank[rank];

            if (!look->follow[rank] || look->followed[rank])
                continue;
            look->followed[rank] = true;
            for (uint32_t i = 0; i < at->ops; i++) {
                struct instance *next = look_instance(look, rank, &at->op[i]);

                if (next)
                    instance_reach(look, next);
            }
            more = true;
        }
    }
}

/* ---- who is named ---- */

static bool root_counts(const struct look *look, uint32_t rank)
{
    const struct wait_rank *at = &look->rank[rank];
    int64_t since = MAX(at->stuck_ns, at->phase_age_ns);

    if (at->gone)
        return true;
    if (wait_is_named_phase(at))
        return since >= look->rule->late_ns;
    if (look->how[rank] == WAIT_ABSENT && at->burns >= look->rule->burns)
        return at->stuck_ns >= look->rule->late_ns;
    return at->stuck_ns >= look->rule->stuck_ns;
}

const struct instance *look_longest(const struct look *look)
{
    const struct instance *longest = NULL;

    for (uint32_t i = 0; i < look->count; i++) {
        if (look->at[i].reached && (!longest || look->at[i].op.age_ns > longest->op.age_ns))
            longest = &look->at[i];
    }
    return longest;
}

static uint32_t count_waiting(const struct look *look)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < look->model->world; rank++)
        count += look->waits[rank] && !look->missed_at[rank];
    return count;
}

static bool find_roots(const struct look *look, struct wait_finding *ret)
{
    *ret = (struct wait_finding){ .kind = WAIT_ROOTS, .op = look_longest(look)->op };
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        if (!look->missed_at[rank] || !root_counts(look, rank))
            continue;
        if (ret->culprits < WAIT_CULPRITS) {
            ret->culprit[ret->culprits] = rank;
            ret->how[ret->culprits] = (enum wait_how)look->how[rank];
            ret->missed[ret->culprits] = look->at[look->missed_at[rank] - 1].op;
        }
        ret->culprits++;
    }
    ret->victims = count_waiting(look);
    return ret->culprits > 0;
}

/* Nobody waits for anybody and nobody does anything: each is stuck in something of its own. */
static bool find_local(const struct look *look, struct wait_finding *ret)
{
    *ret = (struct wait_finding){ .kind = WAIT_ROOTS, .op = { .comm = MODEL_NONE } };
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        const struct wait_rank *at = &look->rank[rank];
        bool busy = at->burns >= look->rule->burns || (at->phase == 0 && !wait_is_held(at));
        int64_t limit =
            wait_is_named_phase(at) || busy ? look->rule->late_ns : look->rule->limit_ns;

        if (!at->seen || at->gone)
            continue;
        if (at->advanced || at->stuck_ns < limit || look->waits[rank])
            return false;
        if (ret->culprits < WAIT_CULPRITS) {
            ret->culprit[ret->culprits] = rank;
            ret->how[ret->culprits] = wait_is_held(at) ? WAIT_HELD : WAIT_LOCAL;
            ret->missed[ret->culprits].comm = MODEL_NONE;
        }
        ret->culprits++;
    }
    return ret->culprits > 0;
}

static void look_fini(struct look *look)
{
    map_fini(&look->by_key);
    free(look->at);
    free(look->waits);
    free(look->how);
    free(look->missed_at);
    free(look->follow);
    free(look->followed);
}

static int look_init(struct look *look)
{
    size_t world = look->model->world + 1u;

    look->waits = calloc(world, sizeof(*look->waits));
    look->how = calloc(world, sizeof(*look->how));
    look->missed_at = calloc(world, sizeof(*look->missed_at));
    look->follow = calloc(world, sizeof(*look->follow));
    look->followed = calloc(world, sizeof(*look->followed));
    if (!look->waits || !look->how || !look->missed_at || !look->follow || !look->followed)
        return -ENOMEM;
    return look_collect(look);
}

int wait_look(const struct model *model, const struct wait_rank *rank, const struct wait_rule *rule,
              struct wait_finding ret[2])
{
    CLEAN(look_fini) struct look look = { .model = model, .rank = rank, .rule = rule };
    int count = 0, result = look_init(&look);
    bool begins = false;

    if (result < 0)
        return result;
    for (uint32_t i = 0; i < look.count; i++)
        begins |= look.at[i].begins;
    if (!begins)
        return find_local(&look, &ret[0]);
    look_follow(&look);
    if (wait_mismatch(&look, &ret[count]))
        ret[count++].victims = count_waiting(&look);
    if (look.roots)
        count += find_roots(&look, &ret[count]);
    else if (count == 0 && (wait_stuck(&look, &ret[0]) || wait_cycle(&look, &ret[0])))
        ret[count++].victims = count_waiting(&look);
    return count;
}
