/* postmortem_peers.c - ranks that did less than others that are blocked in the same way.
 *
 * A rank that waits in one group is excused for ops that it has not entered in another, because its host may wait
 * for the first.  It is not excused if another rank with the same program has the same incomplete ops and went on
 * nevertheless; nor if each of these ops was passed in this way by some rank, and one of these has more ops open:
 * then hosts wait neither for these ops nor for the length of their queue.  Programs are compared by the purpose of
 * groups and by the number of the op in its group: tensor- and data-parallel neighbours do the same, each in its own
 * group.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"

#define HELD_MOST 16 /* open ops of a rank that are compared; with more it is left alone */

/* The place of an op in the program of its rank, whichever group of its kind the rank is in. */
static uint64_t peers_place_of(const struct scene *scene, const struct dump_op *op)
{
    const struct dump_group *group = &scene->dumps->group[op->group];
    uint64_t place = hash64(1, group->about, sizeof(group->about));

    place = hash64_u64(place, (uint64_t)op->seq);
    return hash64_u64(place, op->peer == DUMP_NONE ? 0 : op->sends ? 1 : 2);
}

struct held_op {
    uint64_t place;
    int64_t seq;
    uint32_t group;
    bool open;    /* certainly */
    bool ordered; /* open if devices take one op after the other, over if not */
};

struct held_rank { /* a rank that waits, and its open ops */
    struct held_op op[HELD_MOST];
    uint64_t newest; /* place */
    uint32_t rank, ops, certain;
    uint32_t next_alike; /* held at the same newest place; DUMP_NONE */
    uint32_t passed;     /* by op, a bit: somebody went on with that one open */
    bool deeper;         /* somebody went on with as many open */
    uint32_t group, by;  /* where to, and one who did */
};

struct held_ranks {
    struct held_rank *held; /* by rank; ops 0: not asked for */
    struct map first;       /* newest place → rank */
};

static void peers_neighbours_fini(struct held_ranks *neighbours)
{
    free(neighbours->held);
    map_fini(&neighbours->first);
}

static void held_fill(const struct scene *scene, uint32_t rank, struct held_rank *held)
{
    const struct dump_rank *of = &scene->dumps->rank[rank];

    *held = (struct held_rank){ .rank = rank, .next_alike = DUMP_NONE, .group = DUMP_NONE };
    for (size_t i = 0; i < of->ops; i++) {
        const struct dump_op *op = &of->op[i];
        enum pending pending = scene_op_pending(scene, rank, i);

        if (pending == OP_OVER)
            continue;
        if (held->ops == HELD_MOST) {
            held->ops = 0;
            return;
        }
        held->op[held->ops++] = (struct held_op){
            .place = peers_place_of(scene, op),
            .seq = op->seq,
            .group = op->group,
            .open = pending == OP_OPEN,
            .ordered = op->peer == DUMP_NONE && scene->circle[op->group].all_known,
        };
        held->certain += pending == OP_OPEN;
    }
}

static int peers_neighbours_init(struct held_ranks *neighbours, const struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;
    const struct dumps *dumps = scene->dumps;

    neighbours->held = calloc(dumps->ranks + 1, sizeof(*neighbours->held));
    if (!neighbours->held)
        return -ENOMEM;
    for (uint32_t r = 0; r < dumps->ranks; r++) {
        struct held_rank *held = &neighbours->held[r];
        uint64_t *first;

        held_fill(scene, r, held);
        if (!held->ops)
            continue;
        held->newest = peers_place_of(scene, &dumps->rank[r].op[dumps->rank[r].ops - 1]);
        first = map_put(&neighbours->first, held->newest, DUMP_NONE);
        if (!first)
            return -ENOMEM;
        held->next_alike = (uint32_t)*first;
        *first = r;
    }
    return 0;
}

static bool peers_holds_too(const struct held_rank *other, const struct held_op *op)
{
    for (uint32_t k = 0; k < other->ops; k++) {
        const struct held_op *same = &other->op[k];

        if (same->place == op->place &&
            (same->open || (same->group == op->group && same->seq == op->seq) ||
             (!op->open && same->ordered && op->ordered)))
            return true;
    }
    return false;
}

/* Which of the ops that hold the one are open on the other as well, a bit each. */
static uint32_t peers_holds_both(const struct held_rank *one, const struct held_rank *other)
{
    uint32_t both = 0;

    for (uint32_t i = 0; i < one->ops; i++)
        both |= (uint32_t)peers_holds_too(other, &one->op[i]) << i;
    return both;
}

static bool peers_same_kind(const struct dump_group *a, const struct dump_group *b)
{
    return memcmp(a->about, b->about, sizeof(a->about)) == 0;
}

/* Of point-to-point: the same neighbour in a pipeline of the same length is next, and as many were before. */
static bool peers_is_next_in_pair(const struct scene *scene, uint32_t group, uint32_t rank,
                                  uint32_t by, const struct dump_op *next)
{
    const struct dump_rank *of = &scene->dumps->rank[rank];
    const struct circle *mine = &scene->circle[group], *its = &scene->circle[next->group];
    const struct seat *seat = scene_seat(scene, group, rank),
                      *other = scene_seat(scene, next->group, by);
    int64_t newest = DUMP_UNKNOWN;

    for (size_t i = 0; i < of->ops; i++) {
        if (of->op[i].group == group && of->op[i].peer != DUMP_NONE)
            newest = MAX(newest, of->op[i].seq);
    }
    return other && mine->count == its->count && seat - mine->seat == other - its->seat &&
           newest != DUMP_UNKNOWN && newest + 1 == next->seq;
}

/* The group of `rank` in which it would have entered next what another did: the same kind and number; DUMP_NONE:
 * nothing says that it would.
 */
static uint32_t peers_next_group(const struct inquest *inquest, uint32_t rank, uint32_t by,
                                 const struct dump_op *next)
{
    const struct scene *scene = inquest->scene;
    const struct dump_group *group = scene->dumps->group;
    uint32_t found = DUMP_NONE, alike = 0;

    for (uint32_t i = inquest->first[rank];
         i < inquest->first[rank + 1] && next->seq != DUMP_UNKNOWN; i++) {
        uint32_t g = inquest->group_of[i];
        const struct seat *seat = scene_seat(scene, g, rank);

        if (!peers_same_kind(&group[g], &group[next->group]))
            continue;
        alike++;
        if (next->peer != DUMP_NONE ? peers_is_next_in_pair(scene, g, rank, by, next)
                                    : !scene->circle[g].pairs && seat->known &&
                                          MAX(seat->entered, 0) + 1 == next->seq) /* from 1 */
            found = g;
    }
    return alike == 1 ? found : DUMP_NONE; /* two of a kind: which one cannot be told */
}

/* `by` went on after an op: what does that say of those for whom it was the newest? */
static void peers_outrun_by(struct inquest *inquest, const struct held_ranks *neighbours,
                            uint32_t by, size_t op)
{
    const struct scene *scene = inquest->scene;
    const struct dump_rank *of = &scene->dumps->rank[by];
    const uint64_t *first = map_get(&neighbours->first, peers_place_of(scene, &of->op[op]));

    for (uint32_t r = first ? (uint32_t)*first : DUMP_NONE; r != DUMP_NONE;
         r = neighbours->held[r].next_alike) {
        struct held_rank *held = &neighbours->held[r];
        uint32_t both = r == by || inquest_may_wait_unseen(inquest, r, by)
                            ? 0
                            : peers_holds_both(held, &neighbours->held[by]);
        uint32_t group = both ? peers_next_group(inquest, r, by, &of->op[op + 1]) : DUMP_NONE;
        bool all = both == (UINT32_C(1) << held->ops) - 1;

        if (group == DUMP_NONE || (held->group != DUMP_NONE && held->group != group))
            continue;
        if (!all && !scene->states) /* how many are open is not known well enough */
            continue;
        held->passed |= both;
        held->deeper |= all || neighbours->held[by].certain > held->ops;
        held->group = group;
        held->by = by;
    }
}

int inquest_outrun(struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;
    CLEAN(peers_neighbours_fini) struct held_ranks neighbours = { 0 };
    int result = peers_neighbours_init(&neighbours, inquest);

    for (uint32_t r = 0; r < scene->dumps->ranks && result == 0; r++) {
        const struct dump_rank *of = &scene->dumps->rank[r];

        for (size_t i = 0; i + 1 < of->ops && neighbours.held[r].ops; i++)
            peers_outrun_by(inquest, &neighbours, r, i);
    }
    for (uint32_t r = 0; r < scene->dumps->ranks && result == 0; r++) {
        const struct held_rank *held = &neighbours.held[r];

        if (held->ops && held->deeper && held->passed == (UINT32_C(1) << held->ops) - 1 &&
            !inquest_suspects(inquest, r))
            result = inquest_suspect(
                inquest, (struct postmortem_suspect){
                             .rank = r, .group = held->group, .outrun = true, .by = held->by });
    }
    return result;
}
