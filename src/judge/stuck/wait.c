/* wait.c - follows missing members from operation to operation until it finds ranks that wait for no other.
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

bool wait_is_stopped(const struct wait_rank *rank)
{
    return rank->state == 'T' || rank->state == 't';
}

/* The rank is in it, and was in it at the beat before. */
static bool op_waits(const struct beat_op *op)
{
    return op->started && !op->advanced && op->comm &&
           (op->kind == ITEM_COLL || op->kind == ITEM_P2P);
}

/* ---- the position of a rank in an operation ---- */

const struct beat_channel *wait_channel_find(const struct wait_rank *rank, uint64_t comm,
                                             uint8_t what, uint32_t peer)
{
    for (uint32_t i = 0; i < rank->channels; i++) {
        const struct beat_channel *channel = &rank->channel[i];

        if (channel->comm == comm && channel->what == what && (what == 0 || channel->peer == peer))
            return channel;
    }
    return NULL;
}

static enum wait_position wait_position_of(const struct beat_channel *channel, uint64_t ordinal)
{
    if (!channel)
        return POSITION_ABSENT;
    if (channel->started == BEAT_UNKNOWN) /* only launches are known: it may be in it or past it */
        return channel->enqueued > ordinal ? POSITION_INSIDE : POSITION_ABSENT;
    if (channel->ended > ordinal)
        return POSITION_LEFT;
    if (channel->started > ordinal)
        return POSITION_INSIDE;
    return channel->enqueued > ordinal ? POSITION_LAUNCHED : POSITION_ABSENT;
}

/* Without counts: from the operations of the same communicator that the rank is in. */
static enum wait_position wait_position_guess(const struct wait_rank *rank, uint64_t comm,
                                              uint64_t key)
{
    for (uint32_t i = 0; i < rank->ops; i++) {
        const struct beat_op *op = &rank->op[i];

        if (op->kind != ITEM_COLL || op->comm != comm)
            continue;
        if (op->key == key)
            return op->started ? POSITION_INSIDE : POSITION_LAUNCHED;
        return op->key > key ? POSITION_LEFT : POSITION_ABSENT;
    }
    return POSITION_ADVANCING; /* it ended an operation since its last beat, so it is not stuck; more is not known */
}

enum wait_position wait_position_coll(const struct wait_rank *rank, uint64_t comm, uint64_t key)
{
    if (!rank->seen)
        return POSITION_UNSEEN;
    if (rank->channels == 0)
        return rank->gone ? POSITION_ABSENT : wait_position_guess(rank, comm, key);
    return wait_position_of(wait_channel_find(rank, comm, 0, 0), key);
}

/* The other side of a message: `peer` is our index in the communicator. */
static enum wait_position wait_position_p2p(const struct wait_rank *rank, const struct beat_op *op,
                                            uint32_t peer)
{
    uint8_t what = op->what == LOCKSTEP_OP_SEND ? LOCKSTEP_OP_RECV : LOCKSTEP_OP_SEND;

    if (!rank->seen)
        return POSITION_UNSEEN;
    for (uint32_t i = 0; i < rank->ops; i++) {
        const struct beat_op *other = &rank->op[i];

        if (other->kind == ITEM_P2P && other->comm == op->comm && other->what == what &&
            other->peer == peer && other->started &&
            (other->ordinal == op->ordinal || other->ordinal == BEAT_UNKNOWN ||
             op->ordinal == BEAT_UNKNOWN))
            return POSITION_INSIDE;
    }
    if (rank->channels == 0)
        return rank->gone ? POSITION_ABSENT : POSITION_ADVANCING;
    if (op->ordinal == BEAT_UNKNOWN)
        return POSITION_ABSENT;
    return wait_position_of(wait_channel_find(rank, op->comm, what, peer), op->ordinal);
}

/* ---- operations of which only the launch is known ----
 *
 * On NCCL all-to-all is one: its communicator shows how many operations each rank has launched, and nothing about where its
 * device is.  A rank that does not advance, and whose newest launch is one that another member has not made, waits for that
 * member.  If all members have made it, it may be over: nothing follows from it.
 */

/* The newest launch of a channel as an operation; false: its times are known, or the rank advances. */
static bool wait_launch_newest(const struct wait_rank *rank, const struct beat_channel *channel,
                               struct beat_op *ret)
{
    if (channel->started != BEAT_UNKNOWN || channel->enqueued == 0 || !channel->comm ||
        rank->advanced)
        return false;
    *ret = (struct beat_op){ .kind = channel->what ? ITEM_P2P : ITEM_COLL,
                             .what = channel->what,
                             .comm = channel->comm,
                             .key = channel->enqueued - 1,
                             .ordinal = channel->enqueued - 1,
                             .peer = channel->peer,
                             .started = true,
                             .age_ns = rank->stuck_ns };
    return true;
}

/* How many collectives the member that is furthest behind has launched; BEAT_UNKNOWN: none is known to be behind. */
static uint64_t wait_launch_least(const struct look *look, const struct model_comm *comm)
{
    uint64_t least = BEAT_UNKNOWN;

    for (uint32_t i = 0; i < comm->known; i++) {
        const struct wait_rank *member =
            comm->member[i] < look->model->world ? &look->rank[comm->member[i]] : NULL;
        const struct beat_channel *channel;

        if (!member || !member->seen || member->channels == 0)
            continue;
        channel = wait_channel_find(member, comm->id, 0, 0);
        least = MIN(least, channel ? channel->enqueued : 0);
    }
    return least;
}

/* Whether some other member has not launched it. */
static bool wait_launch_is_missed(struct look *look, uint32_t rank, const struct beat_op *launch)
{
    const uint64_t *slot = map_get(&look->model->comm_by_id, launch->comm);
    const struct model_comm *comm = slot ? &look->model->comm[*slot] : NULL;
    uint32_t own, peer;
    uint64_t *least;

    if (!comm)
        return false;
    if (launch->kind == ITEM_P2P) {
        own = model_index(look->model, (uint32_t)*slot, rank);
        peer = model_member(comm, launch->peer);
        return own != MODEL_NONE && peer < look->model->world && peer != rank &&
               wait_position_p2p(&look->rank[peer], launch, own) == POSITION_ABSENT;
    }
    least = map_get(&look->least_launched, launch->comm);
    if (!least)
        least = map_put(&look->least_launched, launch->comm, wait_launch_least(look, comm));
    return least && *least <= launch->key;
}

/* ---- operations in which ranks wait ---- */

static struct wait_instance *wait_instance_add(struct look *look)
{
    if (!ARRAY_FIT(look->instance, look->room, look->count + 1))
        return NULL;
    look->instance[look->count] = (struct wait_instance){ 0 };
    return &look->instance[look->count++];
}

static uint64_t wait_instance_key(uint32_t rank, const struct beat_op *op)
{
    uint64_t key = hash64_u64(hash64_u64(op->kind, op->comm), op->key);

    /* Each end of a message waits on its own. */
    if (op->kind == ITEM_P2P)
        key = hash64_u64(hash64_u64(key, rank), (uint64_t)op->peer << 8 | op->what);
    return key;
}

static struct wait_instance *wait_instance_find(const struct look *look, uint32_t rank,
                                                const struct beat_op *op)
{
    const uint64_t *slot =
        op_waits(op) ? map_get(&look->by_key, wait_instance_key(rank, op)) : NULL;

    return slot ? &look->instance[*slot] : NULL;
}

struct wait_instance *look_instance_at(const struct look *look, uint32_t rank, uint32_t at)
{
    const struct wait_rank *one = &look->rank[rank];
    struct beat_op launch;

    if (at < one->ops)
        return wait_instance_find(look, rank, &one->op[at]);
    return wait_launch_newest(one, &one->channel[at - one->ops], &launch)
               ? wait_instance_find(look, rank, &launch)
               : NULL;
}

static int wait_instance_of(struct look *look, uint32_t rank, const struct beat_op *op)
{
    uint64_t *slot = map_put(&look->by_key, wait_instance_key(rank, op), look->count);
    const uint64_t *comm = map_get(&look->model->comm_by_id, op->comm);
    struct wait_instance *at;

    if (!slot)
        return -ENOMEM;
    if (*slot == look->count) {
        at = wait_instance_add(look);
        if (!at)
            return -ENOMEM;
        at->op = (struct wait_op){ .comm = comm ? (uint32_t)*comm : MODEL_NONE,
                                   .p2p = op->kind == ITEM_P2P,
                                   .what = op->what,
                                   .key = op->key,
                                   .bytes = op->bytes,
                                   .dtype = op->dtype,
                                   .longest_rank = rank };
        at->message = *op;
    }
    at = &look->instance[*slot];
    at->op.inside++;
    if (op->age_ns >= at->op.age_ns) {
        at->op.age_ns = op->age_ns;
        at->op.longest_rank = rank;
    }
    return 0;
}

static int64_t wait_limit_of(const struct look *look, const struct wait_rank *rank)
{
    return wait_is_named_phase(rank) ? look->rule->late_ns : look->rule->limit_ns;
}

static int wait_collect_op(struct look *look, uint32_t rank, const struct beat_op *op)
{
    int result = wait_instance_of(look, rank, op);

    if (result < 0)
        return result;
    look->waits[rank] = true;
    wait_instance_find(look, rank, op)->too_long |=
        op->age_ns >= wait_limit_of(look, &look->rank[rank]);
    return 0;
}

static int wait_collect_launches(struct look *look, uint32_t rank)
{
    const struct wait_rank *at = &look->rank[rank];
    struct beat_op launch;
    int result = 0;

    for (uint32_t i = 0; result == 0 && i < at->channels; i++) {
        if (wait_launch_newest(at, &at->channel[i], &launch) &&
            wait_launch_is_missed(look, rank, &launch))
            result = wait_collect_op(look, rank, &launch);
    }
    return result;
}

static int wait_look_collect(struct look *look)
{
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        const struct wait_rank *at = &look->rank[rank];
        int result = 0;

        if (!at->seen || at->gone)
            continue;
        for (uint32_t i = 0; result == 0 && i < at->ops; i++) {
            if (op_waits(&at->op[i]))
                result = wait_collect_op(look, rank, &at->op[i]);
        }
        if (result == 0)
            result = wait_collect_launches(look, rank);
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- following ---- */

static void wait_root_add(struct look *look, const struct wait_instance *at, uint32_t rank,
                          enum wait_cause cause)
{
    if (look->missed_at[rank])
        return;
    look->missed_at[rank] = (uint32_t)(at - look->instance) + 1;
    look->cause[rank] = (uint8_t)cause;
    look->roots++;
}

/* For how long the operation, or an earlier one of that communicator, has been launched by the host; 0: not known. */
static int64_t wait_launched_for(const struct wait_rank *rank, const struct wait_instance *at,
                                 uint64_t comm)
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

/* Whether it waits in an operation that was launched earlier.  Later ones cannot block it: receives are posted in advance. */
static bool waits_before(const struct wait_rank *rank, int64_t queued_ns)
{
    for (uint32_t i = 0; i < rank->ops; i++) {
        const struct beat_op *op = &rank->op[i];

        if (op_waits(op) && (op->queued_ns == 0 || op->queued_ns > queued_ns))
            return true;
    }
    return false;
}

static bool wait_holds_up_itself(const struct look *look, const struct wait_instance *at,
                                 uint32_t rank, enum wait_position position)
{
    int64_t queued_ns;

    if (position != POSITION_LAUNCHED)
        return false;
    queued_ns = wait_launched_for(&look->rank[rank], at, look->model->comm[at->op.comm].id);
    return queued_ns > 0 && !waits_before(&look->rank[rank], queued_ns);
}

/* A missing member: if it waits elsewhere, it is followed there; else it is a culprit. */
static void wait_follow_missing(struct look *look, struct wait_instance *at, uint32_t rank,
                                enum wait_position position)
{
    const struct wait_rank *missing = &look->rank[rank];

    at->op.missing++;
    if (at->op.missing == 1)
        at->first_missing = rank;
    if (missing->gone)
        wait_root_add(look, at, rank, WAIT_GONE);
    else if (wait_is_stopped(missing))
        wait_root_add(look, at, rank, WAIT_STOPPED);
    else if (look->waits[rank] && !wait_holds_up_itself(look, at, rank, position))
        look->follow[rank] = true;
    else if (position == POSITION_LAUNCHED)
        wait_root_add(look, at, rank, WAIT_LAUNCHED);
    else
        wait_root_add(look, at, rank, missing->device_wait ? WAIT_DEVICE : WAIT_ABSENT);
}

static void wait_follow_member(struct look *look, struct wait_instance *at, uint32_t rank,
                               enum wait_position position)
{
    switch (position) {
    case POSITION_UNSEEN:
        at->op.unseen++;
        break;
    case POSITION_ABSENT:
    case POSITION_LAUNCHED:
        wait_follow_missing(look, at, rank, position);
        break;
    case POSITION_ADVANCING:
        at->may_advance = true;
        break;
    case POSITION_INSIDE: /* a process that is stopped inside blocks the others like a missing one */
        if (wait_is_stopped(&look->rank[rank]))
            wait_root_add(look, at, rank, WAIT_STOPPED);
        break;
    case POSITION_LEFT:
        at->op.left++;
        break;
    }
}

static void wait_follow_coll(struct look *look, struct wait_instance *at)
{
    const struct model_comm *comm = &look->model->comm[at->op.comm];

    at->op.members = comm->size;
    at->op.unseen += comm->size - comm->known;
    for (uint32_t i = 0; i < comm->known; i++) {
        uint32_t rank = comm->member[i];

        if (rank >= look->model->world)
            at->op.unseen++;
        else
            wait_follow_member(look, at, rank,
                               wait_position_coll(&look->rank[rank], comm->id, at->op.key));
    }
}

static void wait_follow_p2p(struct look *look, struct wait_instance *at)
{
    const struct model_comm *comm = &look->model->comm[at->op.comm];
    uint32_t peer = at->message.peer,
             own = model_index(look->model, at->op.comm, at->op.longest_rank);
    uint32_t rank = model_member(comm, peer);
    bool sends = at->message.what == LOCKSTEP_OP_SEND;

    at->op.members = 2;
    at->op.from = sends ? at->op.longest_rank : rank;
    at->op.to = sends ? rank : at->op.longest_rank;
    if (rank >= look->model->world || own == MODEL_NONE)
        at->op.unseen++;
    else
        wait_follow_member(look, at, rank, wait_position_p2p(&look->rank[rank], &at->message, own));
    if (wait_is_stopped(&look->rank[at->op.longest_rank]))
        wait_root_add(look, at, at->op.longest_rank, WAIT_STOPPED);
}

static void wait_instance_reach(struct look *look, struct wait_instance *at)
{
    if (at->reached)
        return;
    at->reached = true;
    if (at->op.comm == MODEL_NONE) {
        at->may_advance = true; /* its members are not known */
        return;
    }
    if (at->op.p2p)
        wait_follow_p2p(look, at);
    else
        wait_follow_coll(look, at);
}

/* From the waits that are too long to everything that they depend on. */
static void wait_look_follow(struct look *look)
{
    bool more = true;

    for (uint32_t i = 0; i < look->count; i++) {
        if (look->instance[i].too_long)
            wait_instance_reach(look, &look->instance[i]);
    }
    while (more) {
        more = false;
        for (uint32_t rank = 0; rank < look->model->world; rank++) {
            const struct wait_rank *at = &look->rank[rank];

            if (!look->follow[rank] || look->followed[rank])
                continue;
            look->followed[rank] = true;
            for (uint32_t i = 0; i < at->ops + at->channels; i++) {
                struct wait_instance *next = look_instance_at(look, rank, i);

                if (next)
                    wait_instance_reach(look, next);
            }
            more = true;
        }
    }
}

/* ---- culprits ---- */

static bool wait_root_counts(const struct look *look, uint32_t rank)
{
    const struct wait_rank *at = &look->rank[rank];
    int64_t since = MAX(at->stuck_ns, at->phase_age_ns);

    if (at->gone)
        return true;
    if (wait_is_named_phase(at))
        return since >= look->rule->late_ns;
    if (look->cause[rank] == WAIT_ABSENT && at->cpus >= look->rule->busy_cpus)
        return at->stuck_ns >= look->rule->late_ns;
    return at->stuck_ns >= look->rule->stuck_ns;
}

const struct wait_instance *look_longest(const struct look *look)
{
    const struct wait_instance *longest = NULL;

    for (uint32_t i = 0; i < look->count; i++) {
        if (look->instance[i].reached &&
            (!longest || look->instance[i].op.age_ns > longest->op.age_ns))
            longest = &look->instance[i];
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

/* Of some communicator that both are in, the rank's operations are only known to be launched: so what its device does there,
 * and for whom it waits, is not known.
 */
static bool wait_shares_untimed(const struct look *look, uint32_t rank, uint32_t with)
{
    const struct wait_rank *at = &look->rank[rank];

    for (uint32_t i = 0; i < at->channels; i++) {
        const uint64_t *slot = map_get(&look->model->comm_by_id, at->channel[i].comm);

        if (slot && at->channel[i].ended == BEAT_UNKNOWN &&
            model_index(look->model, (uint32_t)*slot, with) != MODEL_NONE)
            return true;
    }
    return false;
}

/* One whose device has not come is none where it may wait for a rank that is stopped or gone. */
static void wait_roots_excuse(const struct look *look)
{
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        for (uint32_t other = 0; other < look->model->world; other++) {
            if (look->missed_at[rank] && look->cause[rank] == WAIT_LAUNCHED &&
                look->missed_at[other] &&
                (look->cause[other] == WAIT_STOPPED || look->cause[other] == WAIT_GONE) &&
                wait_shares_untimed(look, rank, other))
                look->missed_at[rank] = 0;
        }
    }
}

static bool wait_find_roots(const struct look *look, struct wait_finding *ret)
{
    wait_roots_excuse(look);
    *ret = (struct wait_finding){ .kind = WAIT_ROOTS, .op = look_longest(look)->op };
    for (uint32_t rank = 0; rank < look->model->world; rank++) {
        if (!look->missed_at[rank] || !wait_root_counts(look, rank))
            continue;
        if (ret->culprits < WAIT_CULPRITS) {
            ret->culprit[ret->culprits] = rank;
            ret->cause[ret->culprits] = (enum wait_cause)look->cause[rank];
            ret->missed_op[ret->culprits] = look->instance[look->missed_at[rank] - 1].op;
        }
        ret->culprits++;
    }
    ret->victims = count_waiting(look);
    return ret->culprits > 0;
}

static void wait_look_fini(struct look *look)
{
    map_fini(&look->by_key);
    map_fini(&look->least_launched);
    free(look->instance);
    free(look->waits);
    free(look->cause);
    free(look->missed_at);
    free(look->follow);
    free(look->followed);
}

static int wait_look_init(struct look *look)
{
    size_t world = look->model->world + 1u;

    look->waits = calloc(world, sizeof(*look->waits));
    look->cause = calloc(world, sizeof(*look->cause));
    look->missed_at = calloc(world, sizeof(*look->missed_at));
    look->follow = calloc(world, sizeof(*look->follow));
    look->followed = calloc(world, sizeof(*look->followed));
    if (!look->waits || !look->cause || !look->missed_at || !look->follow || !look->followed)
        return -ENOMEM;
    return wait_look_collect(look);
}

int wait_look(const struct model *model, const struct wait_rank *rank, const struct wait_rule *rule,
              struct wait_finding ret[2])
{
    CLEAN(wait_look_fini) struct look look = { .model = model, .rank = rank, .rule = rule };
    int count = 0, result = wait_look_init(&look);
    bool too_long = false;

    if (result < 0)
        return result;
    for (uint32_t i = 0; i < look.count; i++)
        too_long |= look.instance[i].too_long;
    if (!too_long)
        return wait_find_local(&look, &ret[0]) ? 1 : 0;
    wait_look_follow(&look);
    if (wait_mismatch(&look, &ret[count]))
        ret[count++].victims = count_waiting(&look);
    if (look.roots)
        count += wait_find_roots(&look, &ret[count]);
    else if (count == 0 && (wait_stuck(&look, &ret[0]) || wait_cycle(&look, &ret[0])))
        ret[count++].victims = count_waiting(&look);
    /* What is known of the operations names nobody: a process that is stopped does. */
    if (count == 0 && wait_find_local(&look, &ret[0]) && ret[0].kind == WAIT_ROOTS &&
        ret[0].cause[0] == WAIT_STOPPED)
        count = 1;
    return count;
}
