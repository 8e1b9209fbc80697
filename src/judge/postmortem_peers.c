/* postmortem_peers.c - ranks that did less than others which are held up just as much.
 *
 * A rank that waits in one group is excused for what it has not entered in another: its host may wait for the
 * first.  Not so when another rank with the same program is in all of the same ops, none of them over, and went on
 * nevertheless.  Programs are compared by what groups are for and by the number of the op in its group: tensor-
 * and data-parallel neighbours do the same, each in a group of its own.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "judge/postmortem_parts.h"

#define HELD_MOST 16 /* open ops of a rank that are compared; with more it is left alone */

/* The place of an op in the program of its rank, whichever group of its kind the rank is in. */
static uint64_t place_of(const struct scene *scene, const struct dump_op *op)
{
    const struct dump_group *group = &scene->dumps->group[op->group];
    uint64_t place = hash64(1, group->about, sizeof(group->about));

    place = hash64_u64(place, (uint64_t)op->seq);
    return hash64_u64(place, op->peer == DUMP_NONE ? 0 : op->sends ? 1 : 2);
}

struct held { /* a rank that waits, and the places of its open ops */
    uint64_t newest, place[HELD_MOST];
    bool open[HELD_MOST]; /* certainly */
    uint32_t rank, places;
    uint32_t next_alike; /* held at the same newest place; DUMP_NONE */
};

struct neighbours {
    struct held *held; /* by rank; places 0: not asked for */
    struct map first;  /* newest place → rank */
};

static void neighbours_fini(struct neighbours *neighbours)
{
    free(neighbours->held);
    map_fini(&neighbours->first);
}

static void held_fill(const struct scene *scene, uint32_t rank, struct held *held)
{
    const struct dump_rank *of = &scene->dumps->rank[rank];

    *held = (struct held){ .rank = rank, .next_alike = DUMP_NONE };
    for (size_t i = 0; i < of->ops; i++) {
        enum pending pending = scene_op_pending(scene, rank, i);

        if (pending == OP_OVER)
            continue;
        if (held->places == HELD_MOST) {
            held->places = 0;
            return;
        }
        held->open[held->places] = pending == OP_OPEN;
        held->place[held->places++] = place_of(scene, &of->op[i]);
    }
}

static int neighbours_init(struct neighbours *neighbours, const struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;
    const struct dumps *dumps = scene->dumps;

    neighbours->held = calloc(dumps->ranks + 1, sizeof(*neighbours->held));
    if (!neighbours->held)
        return -ENOMEM;
    for (uint32_t r = 0; r < dumps->ranks; r++) {
        struct held *held = &neighbours->held[r];
        uint64_t *first;

        held_fill(scene, r, held);
        if (!held->places)
            continue;
        held->newest = place_of(scene, &dumps->rank[r].op[dumps->rank[r].ops - 1]);
        first = map_put(&neighbours->first, held->newest, DUMP_NONE);
        if (!first)
            return -ENOMEM;
        held->next_alike = (uint32_t)*first;
        *first = r;
    }
    return 0;
}

/* Is everything that holds the one open on the other as well? */
static bool holds_both(const struct held *one, const struct held *other)
{
    for (uint32_t i = 0; i < one->places; i++) {
        uint32_t k = 0;

        while (k < other->places && !(other->open[k] && other->place[k] == one->place[i]))
            k++;
        if (k == other->places)
            return false;
    }
    return true;
}

/* The group of `rank` in which it would have entered next what another did: the same kind and number; DUMP_NONE:
 * nothing says that it would.
 */
static uint32_t next_group(const struct inquest *inquest, uint32_t rank, const struct dump_op *next)
{
    const struct scene *scene = inquest->scene;
    const struct dump_group *group = scene->dumps->group;
    uint32_t found = DUMP_NONE;

    if (next->peer != DUMP_NONE || next->seq == DUMP_UNKNOWN)
        return DUMP_NONE; /* stages of a pipeline differ in these */
    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1]; i++) {
        uint32_t g = inquest->group_of[i];
        const struct seat *seat = scene_seat(scene, g, rank);

        if (hash64(1, group[g].about, sizeof(group[g].about)) !=
            hash64(1, group[next->group].about, sizeof(group[g].about)))
            continue;
        if (found != DUMP_NONE || scene->circle[g].pairs)
            return DUMP_NONE; /* two of a kind: which one cannot be told */
        if (seat->known && MAX(seat->entered, 0) + 1 == next->seq) /* they count from 1 */
            found = g;
    }
    return found;
}

static int outrun_by(struct inquest *inquest, const struct neighbours *neighbours, uint32_t by,
                     size_t op)
{
    const struct scene *scene = inquest->scene;
    const struct dump_rank *of = &scene->dumps->rank[by];
    const uint64_t *first = map_get(&neighbours->first, place_of(scene, &of->op[op]));
    int result = 0;

    for (uint32_t r = first ? (uint32_t)*first : DUMP_NONE; r != DUMP_NONE && result == 0;
         r = neighbours->held[r].next_alike) {
        uint32_t group;

        if (r == by || !holds_both(&neighbours->held[r], &neighbours->held[by]) ||
            inquest_suspects(inquest, r))
            continue;
        group = next_group(inquest, r, &of->op[op + 1]);
        if (group != DUMP_NONE)
            result = inquest_suspect(
                inquest, (struct suspect){ .rank = r, .group = group, .outrun = true, .by = by });
    }
    return result;
}

int inquest_outrun(struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;
    CLEAN(neighbours_fini) struct neighbours neighbours = { 0 };
    int result = neighbours_init(&neighbours, inquest);

    for (uint32_t r = 0; r < scene->dumps->ranks && result == 0; r++) {
        const struct dump_rank *of = &scene->dumps->rank[r];

        for (size_t i = 0; i + 1 < of->ops && neighbours.held[r].places && result == 0; i++)
            result = outrun_by(inquest, &neighbours, r, i);
    }
    return result;
}
