/* postmortem_match.c - members of a group that entered different ops under one number.
 *
 * Type, element type and size are compared if they must agree; values that may differ between members (all-to-all,
 * gather, scatter) are not.  Only incomplete ops count, because no rank gets past such an op.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"
#include "core/map.h"

enum mismatch {
    MATCHES,
    OTHER_TYPE,
    OTHER_DTYPE,
    OTHER_SIZE,
};

static bool postmortem_sizes_may_differ(const char *name)
{
    return strstr(name, "all_to_all") || strstr(name, "alltoall") || strcmp(name, "gather") == 0 ||
           strcmp(name, "scatter") == 0 || strstr(name, "coalesced") || strstr(name, "barrier");
}

static enum mismatch match_compare(const struct dump_what *a, const struct dump_what *b)
{
    if (strcmp(a->name, b->name) != 0)
        return OTHER_TYPE;
    if (*a->dtype && *b->dtype && strcmp(a->dtype, b->dtype) != 0)
        return OTHER_DTYPE;
    if (postmortem_sizes_may_differ(a->name))
        return MATCHES;
    return a->in_count != b->in_count || a->out_count != b->out_count ? OTHER_SIZE : MATCHES;
}

static uint64_t postmortem_op_key(uint32_t group, int64_t seq)
{
    return (uint64_t)group << 44 ^ ((uint64_t)seq & ((UINT64_C(1) << 44) - 1));
}

/* Could the job have got past this op? */
static bool postmortem_op_counts(const struct scene *scene, uint32_t rank, const struct dump_op *op)
{
    if (op->peer != DUMP_NONE || op->seq == DUMP_UNKNOWN || scene->circle[op->group].pairs)
        return false;
    return scene->states
               ? !scene_over(scene, rank, op)
               : op->seq > scene->circle[op->group].slowest - (int64_t)scene->limits.dumps_near_end;
}

/* The lowest number of each group at which ops differ; DUMP_UNKNOWN: none. */
static int postmortem_find_odd(const struct scene *scene, int64_t *odd_seq)
{
    const struct dumps *dumps = scene->dumps;
    CLEAN(map_fini) struct map first = { 0 };

    for (uint32_t r = 0; r < dumps->ranks; r++) {
        for (size_t i = 0; i < dumps->rank[r].ops; i++) {
            const struct dump_op *op = &dumps->rank[r].op[i];
            uint64_t *what;

            if (!postmortem_op_counts(scene, r, op))
                continue;
            what = map_put(&first, postmortem_op_key(op->group, op->seq), op->what);
            if (!what)
                return -ENOMEM;
            if (*what != op->what &&
                match_compare(&dumps->what[*what], &dumps->what[op->what]) != MATCHES &&
                (odd_seq[op->group] == DUMP_UNKNOWN || op->seq < odd_seq[op->group]))
                odd_seq[op->group] = op->seq;
        }
    }
    return 0;
}

struct side {
    uint32_t what, count;
};

struct sides {
    struct side side[8]; /* the largest first, after sorting */
    uint32_t count;
};

static int postmortem_by_size(const void *left, const void *right)
{
    const struct side *a = left, *b = right;

    return (a->count < b->count) - (a->count > b->count);
}

static const struct dump_op *postmortem_op_of(const struct dump_rank *rank, uint32_t group,
                                              int64_t seq)
{
    for (size_t i = rank->ops; i-- > 0;) {
        if (rank->op[i].group == group && rank->op[i].seq == seq && rank->op[i].peer == DUMP_NONE)
            return &rank->op[i];
    }
    return NULL;
}

static uint32_t side_of(const struct scene *scene, const struct sides *sides, uint32_t what)
{
    const struct dump_what *list = scene->dumps->what;
    uint32_t i = 0;

    while (i < sides->count && match_compare(&list[sides->side[i].what], &list[what]) != MATCHES)
        i++;
    return i;
}

static void sides_find(const struct scene *scene, uint32_t group, int64_t seq, struct sides *sides)
{
    const struct circle *circle = &scene->circle[group];

    *sides = (struct sides){ .count = 0 };
    for (uint32_t m = 0; m < circle->count; m++) {
        const struct dump_op *op =
            postmortem_op_of(&scene->dumps->rank[circle->seat[m].rank], group, seq);
        uint32_t at = op ? side_of(scene, sides, op->what) : COUNT(sides->side);

        if (at >= COUNT(sides->side))
            continue;
        if (at == sides->count)
            sides->side[sides->count++].what = op->what;
        sides->side[at].count++;
    }
    qsort(sides->side, sides->count, sizeof(sides->side[0]), postmortem_by_size);
}

static void side_text(const struct scene *scene, uint32_t group, int64_t seq,
                      const struct sides *sides, uint32_t which, struct verdict *verdict)
{
    const struct circle *circle = &scene->circle[group];
    const struct dump_what *what = &scene->dumps->what[sides->side[which].what];
    char ranks[80] = "";
    size_t used = 0;

    for (uint32_t m = 0; m < circle->count && used < sizeof(ranks) - 12; m++) {
        const struct dump_rank *rank = &scene->dumps->rank[circle->seat[m].rank];
        const struct dump_op *op = postmortem_op_of(rank, group, seq);

        if (op && side_of(scene, sides, op->what) == which)
            used += (size_t)snprintf(ranks + used, sizeof(ranks) - used, " %u", rank->rank);
    }
    verdict_because(verdict, "dumps", "%u rank%s (%s%s) entered %s of %s %s as op %" PRId64,
                    sides->side[which].count, sides->side[which].count == 1 ? "" : "s",
                    ranks[0] ? ranks + 1 : "", used >= sizeof(ranks) - 12 ? " ..." : "", what->name,
                    *what->sizes ? what->sizes : "no size", what->dtype, seq);
}

/* The odd ones come next to what the others are in now: the same ops, in another order. */
static bool postmortem_is_swapped(const struct scene *scene, uint32_t group, int64_t seq,
                                  const struct sides *sides)
{
    const struct circle *circle = &scene->circle[group];

    for (uint32_t m = 0; m < circle->count; m++) {
        const struct dump_rank *rank = &scene->dumps->rank[circle->seat[m].rank];
        const struct dump_op *op = postmortem_op_of(rank, group, seq),
                             *next = postmortem_op_of(rank, group, seq + 1);

        if (op && next && side_of(scene, sides, op->what) == 1 &&
            side_of(scene, sides, next->what) == 0)
            return true;
    }
    return false;
}

/* Members of other groups of the same purpose that entered this side's op under the same number: they have the same
 * program.
 */
static uint32_t side_support(const struct scene *scene, uint32_t group, int64_t seq,
                             const struct side *side)
{
    const struct dump_group *of = scene->dumps->group;
    uint32_t support = 0;

    for (uint32_t g = 0; g < scene->dumps->groups; g++) {
        const struct circle *circle = &scene->circle[g];

        if (g == group || !*of[g].about || strcmp(of[g].about, of[group].about) != 0)
            continue;
        for (uint32_t m = 0; m < circle->count; m++) {
            const struct dump_op *op =
                postmortem_op_of(&scene->dumps->rank[circle->seat[m].rank], g, seq);

            support += op && match_compare(&scene->dumps->what[side->what],
                                           &scene->dumps->what[op->what]) == MATCHES;
        }
    }
    return support;
}

/* Of two sides of equal size the one that ranks of other groups agree with is the usual one. */
static bool postmortem_tie_broken(const struct scene *scene, uint32_t group, int64_t seq,
                                  struct sides *sides)
{
    uint32_t first = side_support(scene, group, seq, &sides->side[0]);
    uint32_t second = side_support(scene, group, seq, &sides->side[1]);
    struct side side = sides->side[0];

    if ((first && second) || first == second)
        return false;
    if (second) {
        sides->side[0] = sides->side[1];
        sides->side[1] = side;
    }
    return true;
}

static void postmortem_mismatch_name(const struct scene *scene, uint32_t group, int64_t seq,
                                     const struct sides *sides, bool tie, struct verdict *verdict)
{
    const struct circle *circle = &scene->circle[group];

    for (uint32_t m = 0; m < circle->count; m++) {
        const struct dump_rank *rank = &scene->dumps->rank[circle->seat[m].rank];
        const struct dump_op *op = postmortem_op_of(rank, group, seq);

        if (!op || (!tie && side_of(scene, sides, op->what) == 0))
            continue;
        if (verdict->rank_count < VERDICT_RANKS)
            verdict->rank[verdict->rank_count] = rank->rank;
        verdict->rank_count++;
    }
}

static int postmortem_report_mismatch(const struct scene *scene, uint32_t group, int64_t seq,
                                      const char *run, struct findings *findings)
{
    static const char *const causes[] = { "", "different collectives", "different element types",
                                          "different sizes" };
    const struct dump_what *what = scene->dumps->what;
    struct verdict *verdict;
    struct sides sides;
    bool tie, unsure;

    sides_find(scene, group, seq, &sides);
    if (sides.count < 2)
        return 0;
    verdict = findings_add(findings, run, VERDICT_DESYNC, LAYER_USER_CODE);
    if (!verdict)
        return -ENOMEM;
    tie = sides.side[0].count == sides.side[1].count &&
          !postmortem_tie_broken(scene, group, seq, &sides);
    unsure = tie && !scene->circle[group].all_known;
    if (!unsure)
        postmortem_mismatch_name(scene, group, seq, &sides, tie, verdict);
    snprintf(verdict->cause, sizeof(verdict->cause), "%s",
             postmortem_is_swapped(scene, group, seq, &sides)
                 ? "collectives in a different order"
                 : causes[match_compare(&what[sides.side[0].what], &what[sides.side[1].what])]);
    snprintf(verdict->group, sizeof(verdict->group), "%s %s", scene->dumps->group[group].name,
             scene->dumps->group[group].about);
    for (uint32_t i = 0; i < sides.count; i++)
        side_text(scene, group, seq, &sides, i, verdict);
    if (unsure)
        verdict_because(verdict, "dumps",
                        "both sides have the same number of ranks; the missing dumps of this group "
                        "would show which one is the usual");
    else if (tie)
        verdict_because(verdict, "dumps",
                        "both sides have the same number of ranks, so both are named");
    verdict->confidence = unsure ? POSTMORTEM_UNSEEN : tie ? 0.8 : 0.95;
    verdict_identify(verdict);
    return 1;
}

int postmortem_mismatches(const struct scene *scene, const char *run, struct findings *findings,
                          bool *odd)
{
    size_t groups = scene->dumps->groups;
    CLEAN(free_clean) int64_t *odd_seq = calloc(groups + 1, sizeof(*odd_seq));
    int reported = 0, result;

    if (!odd_seq)
        return -ENOMEM;
    for (size_t g = 0; g < groups; g++)
        odd_seq[g] = DUMP_UNKNOWN;
    result = postmortem_find_odd(scene, odd_seq);
    for (uint32_t g = 0; g < groups && result >= 0; g++) {
        if (odd_seq[g] == DUMP_UNKNOWN)
            continue;
        result = postmortem_report_mismatch(scene, g, odd_seq[g], run, findings);
        odd[g] = result > 0;
        reported += result > 0;
    }
    return result < 0 ? result : reported;
}
