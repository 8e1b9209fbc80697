/* wait_launch.c - waits in operations of which only the launch is known, as all-to-all on NCCL.
 *
 * Such a communicator shows how many operations each rank has launched, and nothing about where its device is.  A rank that
 * does not advance, and whose newest launch is one that another member has not made, waits for that member.  If all members
 * have made it, it may be over: nothing follows from it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "judge/stuck/wait_private.h"

bool wait_launch_newest(const struct wait_rank *rank, const struct beat_channel *channel,
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

bool wait_launch_is_missed(struct look *look, uint32_t rank, const struct beat_op *launch)
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
