/* postmortem_scene.c - how far each rank came in each group.
 *
 * Recorders number the collectives of a group, and a number is the same op on all members.  It is known from the
 * recorded ops of a rank and from its counters for the group.  Two kinds of dumps need care: those with only
 * "scheduled" ops (then the newest op of a rank is its current op), and those with only incomplete ops (then a group
 * without an op means that the rank is in none).  Point-to-point ops have separate numbers on each rank; they are
 * matched by pair.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"
#include "core/map.h"
#include "core/time.h"

void scene_fini(struct scene *scene)
{
    free(scene->circle);
    free(scene->seats);
    free(scene->wait);
    free(scene->newest_ns);
    free(scene->first_op);
    free(scene->pending);
    free(scene->last);
}

static uint32_t scene_rank_index(const struct dumps *dumps, uint32_t rank)
{
    size_t low = 0, high = dumps->ranks;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (dumps->rank[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < dumps->ranks && dumps->rank[low].rank == rank ? (uint32_t)low : DUMP_NONE;
}

static struct seat *scene_seat_of(const struct scene *scene, uint32_t group, uint32_t rank)
{
    const struct dump_group *of = &scene->dumps->group[group];
    uint32_t number = scene->dumps->rank[rank].rank, low = 0, high = of->members;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (of->member[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == of->members || of->member[low] != number)
        return NULL;
    return &scene->circle[group].seat[low];
}

const struct seat *scene_seat(const struct scene *scene, uint32_t group, uint32_t rank)
{
    return scene_seat_of(scene, group, rank);
}

static int scene_room(struct scene *scene)
{
    const struct dumps *dumps = scene->dumps;
    size_t seats = 0, next = 0, ops = 0;

    scene->first_op = calloc(dumps->ranks + 1, sizeof(*scene->first_op));
    for (size_t r = 0; scene->first_op && r < dumps->ranks; r++) {
        scene->first_op[r] = ops;
        ops += dumps->rank[r].ops;
    }
    scene->pending = calloc(ops + 1, sizeof(*scene->pending));
    for (size_t g = 0; g < dumps->groups; g++)
        seats += dumps->group[g].members;
    scene->circle = calloc(dumps->groups + 1, sizeof(*scene->circle));
    scene->seats = calloc(seats + 1, sizeof(*scene->seats));
    scene->newest_ns = calloc(dumps->ranks + 1, sizeof(*scene->newest_ns));
    scene->last = malloc((dumps->ranks + 1) * sizeof(*scene->last));
    if (!scene->first_op || !scene->pending || !scene->circle || !scene->seats ||
        !scene->newest_ns || !scene->last)
        return -ENOMEM;
    for (size_t g = 0; g < dumps->groups; g++) {
        struct circle *circle = &scene->circle[g];

        circle->seat = scene->seats + next;
        circle->count = dumps->group[g].members;
        next += circle->count;
        for (uint32_t m = 0; m < circle->count; m++)
            circle->seat[m] =
                (struct seat){ .rank = scene_rank_index(dumps, dumps->group[g].member[m]),
                               .last_what = DUMP_NONE,
                               .entered = -1,
                               .completed = DUMP_UNKNOWN };
    }
    return 0;
}

static void scene_newest(struct scene *scene)
{
    for (size_t r = 0; r < scene->dumps->ranks; r++) {
        const struct dump_rank *rank = &scene->dumps->rank[r];

        scene->last[r] = DUMP_NONE;
        for (size_t i = 0; i < rank->ops; i++) {
            if (scene->last[r] == DUMP_NONE || rank->op[i].created_ns >= scene->newest_ns[r]) {
                scene->newest_ns[r] = rank->op[i].created_ns;
                scene->last[r] = (uint32_t)i;
            }
            scene->states |= rank->op[i].state == DUMP_COMPLETED;
            scene->circle[rank->op[i].group].pairs |=
                rank->op[i].peer != DUMP_NONE || scene->dumps->group[rank->op[i].group].messages;
        }
        for (size_t i = 0; i < rank->statuses; i++)
            scene->states |= rank->status[i].completed > 0;
    }
}

#define FRESH_NS (2 * NS_PER_S)

/* Most ranks recorded an op just before their dump was written: the dumps were taken on demand from a job at work. */
static bool scene_is_fresh(const struct scene *scene)
{
    size_t dated = 0, fresh = 0;

    for (size_t r = 0; r < scene->dumps->ranks; r++) {
        int64_t age_ns = scene->dumps->rank[r].written_ns - scene->newest_ns[r];

        if (!scene->dumps->rank[r].written_ns || !scene->newest_ns[r] || age_ns < 0)
            continue;
        dated++;
        fresh += age_ns < FRESH_NS;
    }
    return dated && 2 * fresh > dated;
}

/* Ops of a group are over in their order, and some recorders say so only for the group as a whole. */
bool scene_over(const struct scene *scene, uint32_t rank, const struct dump_op *op)
{
    const struct seat *seat = scene_seat_of(scene, op->group, rank);

    return op->state == DUMP_COMPLETED ||
           (seat && op->peer == DUMP_NONE && op->seq <= seat->completed);
}

static void scene_seat_op(const struct scene *scene, uint32_t r, const struct dump_op *op,
                          bool newest)
{
    struct seat *seat = scene_seat_of(scene, op->group, r);

    if (!seat || op->peer != DUMP_NONE || op->seq == DUMP_UNKNOWN)
        return;
    seat->known = true;
    if (op->seq >= seat->entered) {
        seat->entered = op->seq;
        seat->last_what = op->what;
        seat->state = op->state;
    }
    if (scene_over(scene, r, op))
        seat->completed = MAX(seat->completed, op->seq);
    else
        seat->pending |= scene->states || newest;
}

/* What a rank says of a group as a whole counts for collectives only. */
static void scene_seat_status(const struct scene *scene, uint32_t r, uint32_t group,
                              const struct dump_status *status)
{
    struct seat *seat = scene_seat_of(scene, group, r);

    if (!seat || scene->circle[group].pairs || status->enqueued == DUMP_UNKNOWN)
        return;
    seat->known = true;
    seat->entered = MAX(seat->entered, status->enqueued);
    if (status->completed != DUMP_UNKNOWN)
        seat->completed = MAX(seat->completed, status->completed);
    if (scene->states && status->completed != DUMP_UNKNOWN && status->completed < status->enqueued)
        seat->pending = true;
}

/* A rank names the groups in its status by numbers of its own, and only ops tell which is which.  Where it
 * recorded none, the number that all other members use for the group is taken, if it is free here.
 */
static void scene_status_by_peers(const struct scene *scene, uint32_t group)
{
    const struct circle *circle = &scene->circle[group];
    const struct dumps *dumps = scene->dumps;
    int64_t local = DUMP_UNKNOWN;

    for (uint32_t m = 0; m < circle->count; m++) {
        const struct dump_rank *rank = &dumps->rank[circle->seat[m].rank];

        for (size_t i = 0; i < rank->statuses; i++) {
            if (rank->status[i].group != group)
                continue;
            if (local != DUMP_UNKNOWN && local != rank->status[i].local)
                return;
            local = rank->status[i].local;
        }
    }
    for (uint32_t m = 0; m < circle->count && local != DUMP_UNKNOWN; m++) {
        uint32_t r = circle->seat[m].rank;
        const struct dump_rank *rank = &dumps->rank[r];

        for (size_t i = 0; !circle->seat[m].known && i < rank->statuses; i++) {
            if (rank->status[i].group == DUMP_NONE && rank->status[i].local == local &&
                rank->status[i].enqueued <= circle->furthest)
                scene_seat_status(scene, r, group, &rank->status[i]);
        }
    }
}

static void scene_seats(struct scene *scene)
{
    for (uint32_t r = 0; r < scene->dumps->ranks; r++) {
        const struct dump_rank *rank = &scene->dumps->rank[r];

        for (size_t i = 0; i < rank->statuses; i++) {
            if (rank->status[i].group != DUMP_NONE)
                scene_seat_status(scene, r, rank->status[i].group, &rank->status[i]);
        }
        for (size_t i = 0; i < rank->ops; i++)
            scene_seat_op(scene, r, &rank->op[i], i == scene->last[r]);
        /* What it says of a group as a whole is as old as its watchdog's last look: ops that it records as
         * over are over.
         */
        for (size_t i = 0; i < rank->statuses; i++) {
            struct seat *seat = rank->status[i].group == DUMP_NONE
                                    ? NULL
                                    : scene_seat_of(scene, rank->status[i].group, r);

            if (seat && seat->completed != DUMP_UNKNOWN && seat->completed >= seat->entered)
                seat->pending = false;
        }
    }
}

/* A rank that recorded other things, but nothing of a group in which others are: it never came.  Only where
 * that can be told from ops that were overwritten.
 */
static void scene_circle_absent(const struct scene *scene, struct circle *circle)
{
    for (uint32_t m = 0; m < circle->count; m++) {
        struct seat *seat = &circle->seat[m];
        const struct dump_rank *rank = &scene->dumps->rank[seat->rank];

        if (!seat->known && rank->left == DUMP_READ && (rank->complete || scene->states))
            seat->known = true; /* entered -1 */
    }
}

/* Where somebody known is behind, those that are not known need not be why the others wait. */
static void scene_circle_compare(struct circle *circle)
{
    circle->slowest = circle->slowest_done = circle->furthest;
    for (uint32_t m = 0; m < circle->count; m++) {
        const struct seat *seat = &circle->seat[m];

        if (!seat->known)
            continue;
        circle->slowest = MIN(circle->slowest, seat->entered);
        circle->slowest_done = MIN(circle->slowest_done, MAX(seat->completed, -1));
    }
    for (uint32_t m = 0; m < circle->count; m++) {
        struct seat *seat = &circle->seat[m];

        seat->gap = !seat->known && circle->pending && circle->slowest == circle->furthest;
        circle->gaps += seat->gap;
    }
}

static void scene_circles(struct scene *scene)
{
    for (uint32_t g = 0; g < scene->dumps->groups; g++) {
        struct circle *circle = &scene->circle[g];

        circle->furthest = circle->slowest = -1;
        for (uint32_t m = 0; m < circle->count && !circle->pairs; m++)
            circle->furthest = MAX(circle->furthest, circle->seat[m].entered);
        if (circle->furthest < 0)
            continue;
        scene_status_by_peers(scene, g);
        for (uint32_t m = 0; m < circle->count; m++)
            circle->pending |= circle->seat[m].pending;
        if (circle->pending || !scene->states)
            scene_circle_absent(scene, circle);
        scene_circle_compare(circle);
    }
}

/* Who has his part of a pair open and the other has not?  +1: the receiver waits, -1: the sender. */
static int pair_waits(const struct scene *scene, const struct message_pair *pair)
{
    const struct dump_rank *sender = &scene->dumps->rank[pair->sender];
    const struct dump_rank *receiver = &scene->dumps->rank[pair->receiver];
    bool sender_seen = sender->left == DUMP_READ, receiver_seen = receiver->left == DUMP_READ;

    if (!sender_seen || !receiver_seen)
        return receiver_seen && pair->received_pending ? 1
               : sender_seen && pair->sent_pending     ? -1
                                                       : 0;
    if (scene->states)
        return (pair->received_pending > pair->sent_pending) -
               (pair->received_pending < pair->sent_pending);
    if (sender->complete && receiver->complete)
        return (pair->received > pair->sent) - (pair->received < pair->sent);
    return 0;
}

static bool scene_wait_is_mutual(const struct scene *scene, size_t count, const struct wait *wait)
{
    for (size_t i = 0; i < count; i++) {
        if (scene->wait[i].group == wait->group && scene->wait[i].from == wait->to &&
            scene->wait[i].to == wait->from)
            return true;
    }
    return false;
}

/* By rank: does it wait in any collective? */
static bool *scene_ranks_waiting(const struct scene *scene)
{
    bool *waiting = calloc(scene->dumps->ranks + 1, sizeof(*waiting));

    for (uint32_t g = 0; waiting && g < scene->dumps->groups; g++) {
        for (uint32_t m = 0; m < scene->circle[g].count; m++) {
            const struct seat *seat = &scene->circle[g].seat[m];

            waiting[seat->rank] |= scene_waits(scene, g, seat);
        }
    }
    return waiting;
}

/* Of two that wait for each other (each has posted a receive early) the one counts whose peer is held up
 * in a collective as well: that peer cannot do its part.
 */
static int scene_waits_keep(struct scene *scene, size_t count)
{
    size_t kept = 0;
    CLEAN(free_clean) bool *mutual = calloc(count + 1, sizeof(*mutual));
    CLEAN(free_clean) bool *waiting = scene_ranks_waiting(scene);

    if (!mutual || !waiting)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        mutual[i] = scene_wait_is_mutual(scene, count, &scene->wait[i]);
    for (size_t i = 0; i < count; i++) {
        if (!mutual[i] || (waiting[scene->wait[i].to] && !waiting[scene->wait[i].from]))
            scene->wait[kept++] = scene->wait[i];
    }
    scene->waits = kept;
    return 0;
}

struct pairs {
    struct map map;
    struct message_pair *list;
    size_t count, room;
};

static void pairs_fini(struct pairs *pairs)
{
    map_fini(&pairs->map);
    free(pairs->list);
}

static struct message_pair *pair_of(struct pairs *pairs, uint32_t group, uint32_t sender,
                                    uint32_t receiver)
{
    uint64_t key = (uint64_t)group << 40 ^ (uint64_t)sender << 20 ^ receiver; /* each below 2^20 */
    uint64_t *at = map_put(&pairs->map, key, pairs->count);

    if (!at)
        return NULL;
    if (*at == pairs->count) {
        if (!ARRAY_FIT(pairs->list, pairs->room, pairs->count + 1))
            return NULL;
        pairs->list[pairs->count++] =
            (struct message_pair){ .group = group, .sender = sender, .receiver = receiver };
    }
    return &pairs->list[*at];
}

static int pairs_gather(struct scene *scene, struct pairs *pairs)
{
    for (uint32_t r = 0; r < scene->dumps->ranks; r++) {
        const struct dump_rank *rank = &scene->dumps->rank[r];

        for (size_t i = 0; i < rank->ops; i++) {
            const struct dump_op *op = &rank->op[i];
            uint32_t peer =
                op->peer == DUMP_NONE ? DUMP_NONE : scene_rank_index(scene->dumps, op->peer);
            bool pending = op->state != DUMP_COMPLETED && (scene->states || i == scene->last[r]);
            struct message_pair *pair;

            if (peer == DUMP_NONE)
                continue;
            pair = pair_of(pairs, op->group, op->sends ? r : peer, op->sends ? peer : r);
            if (!pair)
                return -ENOMEM;
            *(op->sends ? &pair->sent : &pair->received) += 1;
            *(op->sends ? &pair->sent_pending : &pair->received_pending) += pending;
            scene->pending[scene->first_op[r] + i] = pending ? OP_OPEN : OP_OVER;
        }
    }
    return 0;
}

/* Where no states are known, those are open to which the other side has no counterpart: the newest. */
static int pairs_infer(struct scene *scene, struct pairs *pairs)
{
    for (uint32_t r = 0; r < scene->dumps->ranks && !scene->states; r++) {
        const struct dump_rank *rank = &scene->dumps->rank[r];

        for (size_t i = rank->ops; i-- > 0;) {
            const struct dump_op *op = &rank->op[i];
            uint32_t peer =
                op->peer == DUMP_NONE ? DUMP_NONE : scene_rank_index(scene->dumps, op->peer);
            struct message_pair *pair;
            uint32_t *mine, other;
            uint8_t *pending;

            if (peer == DUMP_NONE)
                continue;
            pair = pair_of(pairs, op->group, op->sends ? r : peer, op->sends ? peer : r);
            if (!pair)
                return -ENOMEM;
            mine = op->sends ? &pair->sent_left : &pair->received_left;
            other = op->sends ? pair->received : pair->sent;
            pending = &scene->pending[scene->first_op[r] + i];
            if (rank->complete && scene->dumps->rank[peer].complete)
                *pending =
                    (op->sends ? pair->sent : pair->received) - *mine > other ? OP_OPEN : OP_OVER;
            else if (!*mine && *pending == OP_OVER) /* the newest of those with a peer unseen */
                *pending = OP_MAYBE;
            (*mine)++;
        }
    }
    return 0;
}

static int scene_pairs(struct scene *scene)
{
    CLEAN(pairs_fini) struct pairs pairs = { 0 };
    size_t waits = 0;

    if (pairs_gather(scene, &pairs) < 0 || pairs_infer(scene, &pairs) < 0)
        return -ENOMEM;
    scene->wait = calloc(pairs.count + 1, sizeof(*scene->wait));
    if (!scene->wait)
        return -ENOMEM;
    for (size_t i = 0; i < pairs.count; i++) {
        const struct message_pair *pair = &pairs.list[i];
        int waits_for = pair_waits(scene, pair);

        if (waits_for)
            scene->wait[waits++] =
                (struct wait){ pair->group, waits_for > 0 ? pair->receiver : pair->sender,
                               waits_for > 0 ? pair->sender : pair->receiver };
    }
    return scene_waits_keep(scene, waits);
}

int scene_init(struct scene *scene, const struct dumps *dumps, const struct thresholds *limits)
{
    int result;

    *scene = (struct scene){ .dumps = dumps, .limits = *limits };
    result = scene_room(scene);
    if (result < 0)
        return result;
    scene_newest(scene);
    scene->fresh = scene_is_fresh(scene);
    scene_seats(scene);
    scene_circles(scene);
    result = scene_pairs(scene);
    return result < 0 ? result : scene_infer(scene);
}

bool scene_waits(const struct scene *scene, uint32_t group, const struct seat *seat)
{
    const struct circle *circle = &scene->circle[group];

    if (!seat->known || circle->pairs || (scene->states && !seat->pending))
        return false;
    return seat->entered > circle->slowest || (circle->gaps && seat->pending);
}
