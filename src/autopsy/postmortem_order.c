/* postmortem_order.c - ranks that entered two groups in opposite order.
 *
 * Each side waits in one group for the other side, which waits in the other group.  Nobody is behind, so counters alone
 * accuse everybody.  The side with fewer ranks is named; of two equal sides the one whose order differs from that of ranks
 * in other groups of the same purpose.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"

/* Two that have entered different groups of which both are members, each waiting there for the other. */
static bool postmortem_report_opposite(const struct inquest *inquest, uint32_t a, uint32_t b,
                                       uint32_t groups[2])
{
    const struct scene *scene = inquest->scene;

    groups[0] = groups[1] = DUMP_NONE;
    for (uint32_t i = inquest->first[a]; i < inquest->first[a + 1]; i++) {
        uint32_t g = inquest->group_of[i];
        const struct seat *mine = scene_seat(scene, g, a), *other = scene_seat(scene, g, b);

        if (!other || scene->circle[g].pairs)
            continue;
        if (waits_for(scene, mine, other))
            groups[0] = g;
        if (waits_for(scene, other, mine))
            groups[1] = g;
    }
    return groups[0] != DUMP_NONE && groups[1] != DUMP_NONE;
}

/* Members of both groups that are in the first one and not in the second. */
static uint32_t postmortem_opposite_side(const struct scene *scene, uint32_t here, uint32_t there,
                                         struct verdict *verdict)
{
    const struct circle *circle = &scene->circle[here];
    uint32_t count = 0;

    for (uint32_t m = 0; m < circle->count; m++) {
        const struct seat *mine = &circle->seat[m], *other = scene_seat(scene, there, mine->rank);

        if (!other || !mine->known || !other->known || mine->entered < circle->furthest ||
            other->entered >= scene->circle[there].furthest)
            continue;
        count++;
        if (verdict)
            postmortem_name_rank(verdict, scene->dumps->rank[mine->rank].rank);
    }
    return count;
}

/* Ranks that are in the newest op of one group, and have or have not entered this number in their own group of the
 * other's purpose.  Returns the difference: above 0, most enter the other group first.
 */
static int32_t usual_order(const struct scene *scene, uint32_t here, uint32_t other)
{
    const struct circle *circle = &scene->circle[here];
    const struct dump_group *of = scene->dumps->group;
    int32_t balance = 0;

    for (uint32_t g = 0; g < scene->dumps->groups && *of[other].about; g++) {
        if (g == other || strcmp(of[g].about, of[other].about) != 0)
            continue;
        for (uint32_t m = 0; m < circle->count; m++) {
            const struct seat *mine = &circle->seat[m], *seat = scene_seat(scene, g, mine->rank);

            if (seat && mine->known && seat->known && mine->entered == circle->furthest &&
                !scene_seat(scene, other, mine->rank))
                balance += seat->entered >= scene->circle[other].furthest ? 1 : -1;
        }
    }
    return balance;
}

/* The side with fewer ranks is named.  Where both are equal, both are, if all members are known. */
static void postmortem_opposite_name(const struct scene *scene, const uint32_t groups[2],
                                     struct verdict *verdict)
{
    uint32_t first = postmortem_opposite_side(scene, groups[0], groups[1], NULL);
    uint32_t second = postmortem_opposite_side(scene, groups[1], groups[0], NULL);
    int32_t usual = first == second ? usual_order(scene, groups[0], groups[1]) -
                                          usual_order(scene, groups[1], groups[0])
                                    : 0;
    bool all_known = scene->circle[groups[0]].all_known && scene->circle[groups[1]].all_known;

    second += usual > 0; /* most enter the second group first: who is in the first is odd */
    first += usual < 0;
    verdict->confidence = first == second ? 0.8 : 0.9;
    if (first == second && !all_known) {
        verdict_because(verdict, "dumps",
                        "both sides have %u ranks here; the missing dumps of these groups would "
                        "show which order is the usual one",
                        first);
        verdict->confidence = POSTMORTEM_UNSEEN;
        return;
    }
    if (first <= second)
        postmortem_opposite_side(scene, groups[0], groups[1], verdict);
    if (second <= first)
        postmortem_opposite_side(scene, groups[1], groups[0], verdict);
    if (usual)
        verdict_because(verdict, "dumps", "ranks of other groups enter them in the other order");
}

int inquest_report_opposite(struct inquest *inquest, const char *run, struct findings *findings)
{
    const struct dumps *dumps = inquest->scene->dumps;

    inquest_sort(inquest);
    for (size_t i = 0; i < inquest->suspects; i++) {
        for (size_t k = i + 1; k < inquest->suspects && k < 64; k++) {
            uint32_t a = inquest->suspect[i].rank, b = inquest->suspect[k].rank, groups[2];
            char one[112], two[112];
            struct verdict *verdict;

            if (!postmortem_report_opposite(inquest, a, b, groups))
                continue;
            verdict = findings_add(findings, run, VERDICT_DESYNC, LAYER_USER_CODE);
            if (!verdict)
                return -ENOMEM;
            postmortem_group_text(&dumps->group[groups[0]], one, sizeof(one));
            postmortem_group_text(&dumps->group[groups[1]], two, sizeof(two));
            verdict_because(verdict, "dumps",
                            "rank %u is in an op of group %s and waits there for rank %u",
                            dumps->rank[a].rank, one, dumps->rank[b].rank);
            verdict_because(verdict, "dumps",
                            "rank %u is in an op of group %s and waits there for rank %u",
                            dumps->rank[b].rank, two, dumps->rank[a].rank);
            snprintf(verdict->cause, sizeof(verdict->cause),
                     "two groups entered in opposite order");
            postmortem_opposite_name(inquest->scene, groups, verdict);
            verdict_identify(verdict);
            return 1;
        }
    }
    return 0;
}

/* Where in its order of ops a rank has the op of a group that is the oldest open one of any member; DUMP_NONE. */
static uint32_t postmortem_open_place(const struct scene *scene, uint32_t group, uint32_t rank)
{
    const struct dump_rank *of = &scene->dumps->rank[rank];

    for (uint32_t i = 0; i < of->ops; i++) {
        const struct dump_op *op = &of->op[i];

        if (op->group == group && op->peer == DUMP_NONE &&
            scene_op_pending(scene, rank, i) != OP_OVER)
            return op->seq == scene->circle[group].slowest_done + 1 ? i : DUMP_NONE;
    }
    return DUMP_NONE;
}

/* Does the op of the one group come before that of the other on its device?  By what the device has started, or by the
 * order in which the host enqueued them.
 */
static bool postmortem_is_first_in(const struct scene *scene, uint32_t first, uint32_t second,
                                   uint32_t rank)
{
    const struct seat *here = scene_seat(scene, first, rank),
                      *there = scene_seat(scene, second, rank);
    uint32_t at, behind;

    if (!here || !there || !here->pending || !there->pending || there->state == DUMP_STARTED)
        return false;
    if (here->state == DUMP_STARTED)
        return true;
    at = postmortem_open_place(scene, first, rank);
    behind = postmortem_open_place(scene, second, rank);
    return at != DUMP_NONE && behind != DUMP_NONE && at < behind;
}

static uint32_t postmortem_report_first_in(const struct scene *scene, uint32_t first,
                                           uint32_t second, uint32_t *one)
{
    const struct circle *circle = &scene->circle[first];
    uint32_t count = 0;

    for (uint32_t m = 0; m < circle->count; m++) {
        if (!postmortem_is_first_in(scene, first, second, circle->seat[m].rank))
            continue;
        *one = circle->seat[m].rank;
        count++;
    }
    return count;
}

static void postmortem_crossed_side(const struct scene *scene, struct verdict *verdict,
                                    uint32_t first, uint32_t second, uint32_t one, uint32_t count)
{
    char here[112], there[112];

    postmortem_group_text(&scene->dumps->group[first], here, sizeof(here));
    postmortem_group_text(&scene->dumps->group[second], there, sizeof(there));
    verdict_because(verdict, "dumps",
                    "the device%s of %u rank%s (%u%s) %s in an op of group %s, and the op of group "
                    "%s is queued behind it",
                    count == 1 ? "" : "s", count, count == 1 ? "" : "s",
                    scene->dumps->rank[one].rank, count == 1 ? "" : ", ...",
                    count == 1 ? "is" : "are", here, there);
}

static void postmortem_crossed_name(const struct scene *scene, struct verdict *verdict,
                                    uint32_t first, uint32_t second)
{
    const struct circle *circle = &scene->circle[first];

    for (uint32_t m = 0; m < circle->count; m++) {
        if (postmortem_is_first_in(scene, first, second, circle->seat[m].rank))
            postmortem_name_rank(verdict, scene->dumps->rank[circle->seat[m].rank].rank);
    }
}

/* Ranks that are in one of the two groups and in another one of the other's purpose: how many more begin with the first. */
static int32_t postmortem_crossed_usual(const struct scene *scene, uint32_t first, uint32_t second)
{
    const struct dump_group *of = scene->dumps->group;
    const struct circle *circle = &scene->circle[first];
    int32_t balance = 0;

    for (uint32_t g = 0; g < scene->dumps->groups; g++) {
        if (g == first || g == second || strcmp(of[g].about, of[second].about) != 0 ||
            of[g].members != of[second].members)
            continue;
        for (uint32_t m = 0; m < circle->count; m++) {
            uint32_t rank = circle->seat[m].rank;

            if (scene_seat(scene, second, rank))
                continue;
            balance += postmortem_is_first_in(scene, first, g, rank);
            balance -= postmortem_is_first_in(scene, g, first, rank);
        }
    }
    return balance;
}

/* Hosts have launched everything, so nobody is missing anywhere; but devices take one op after the other, and
 * some have begun with one group, some with the other.  Returns 1 when told.
 */
static int postmortem_report_crossed(const struct scene *scene, uint32_t a, uint32_t b,
                                     const char *run, struct findings *findings)
{
    uint32_t one = 0, other = 0, first = postmortem_report_first_in(scene, a, b, &one),
             second = postmortem_report_first_in(scene, b, a, &other);
    int32_t usual = first == second ? postmortem_crossed_usual(scene, a, b) -
                                          postmortem_crossed_usual(scene, b, a)
                                    : 0;
    struct verdict *verdict;

    if (!first || !second)
        return 0;
    verdict = findings_add(findings, run, VERDICT_DESYNC, LAYER_USER_CODE);
    if (!verdict)
        return -ENOMEM;
    postmortem_crossed_side(scene, verdict, a, b, one, first);
    postmortem_crossed_side(scene, verdict, b, a, other, second);
    first += usual > 0; /* most begin with this group: who begins with the other is odd */
    second += usual < 0;
    if (first <= second)
        postmortem_crossed_name(scene, verdict, a, b);
    if (second <= first)
        postmortem_crossed_name(scene, verdict, b, a);
    if (first == second)
        verdict_because(verdict, "dumps",
                        "both sides have the same number of ranks, so both are named");
    if (usual)
        verdict_because(verdict, "dumps", "ranks of other groups enter them in the other order");
    snprintf(verdict->cause, sizeof(verdict->cause), "two groups entered in opposite order");
    verdict->confidence = first == second ? 0.8 : 0.9;
    verdict_identify(verdict);
    return 1;
}

#define CROSSED_GROUPS 64 /* stuck at once, that are compared with each other */

static int postmortem_report_any_crossed(const struct scene *scene, const uint32_t *stuck,
                                         uint32_t count, const char *run, struct findings *findings)
{
    int reported = 0;

    for (uint32_t i = 0; i < count && reported == 0; i++) {
        for (uint32_t k = i + 1; k < count && reported == 0; k++)
            reported = postmortem_report_crossed(scene, stuck[i], stuck[k], run, findings);
    }
    return reported;
}

/* Groups whose next op all members have entered, and which is not over anywhere. */
int inquest_report_crossed(const struct scene *scene, const char *run, struct findings *findings)
{
    uint32_t all[CROSSED_GROUPS], count = 0;

    for (uint32_t g = 0; g < scene->dumps->groups && scene->states; g++) {
        const struct circle *circle = &scene->circle[g];

        if (!circle->pairs && circle->pending && circle->furthest >= 0 &&
            circle_all_known(circle) && circle->slowest > circle->slowest_done &&
            count < CROSSED_GROUPS)
            all[count++] = g;
    }
    return postmortem_report_any_crossed(scene, all, count, run, findings);
}

#define SWAPPED_OPS 16    /* newest ones of a rank that are compared */
#define SWAPPED_OTHERS 16 /* members that they are compared with */

static uint32_t postmortem_place_of(const struct dump_rank *rank, const struct dump_op *op)
{
    for (size_t i = rank->ops; i-- > 0;) {
        if (rank->op[i].group == op->group && rank->op[i].seq == op->seq &&
            rank->op[i].peer == DUMP_NONE)
            return (uint32_t)i;
    }
    return DUMP_NONE;
}

/* Do more members of both groups have these two ops in the opposite order than in this one? */
static bool postmortem_pair_is_odd(const struct scene *scene, uint32_t rank,
                                   const struct dump_op *one, const struct dump_op *two)
{
    const struct circle *a = &scene->circle[one->group], *b = &scene->circle[two->group];
    const struct circle *small = a->count < b->count ? a : b;
    uint32_t large = a->count < b->count ? two->group : one->group;
    uint32_t same = 1, opposite = 0;

    for (uint32_t m = 0; m < small->count && same + opposite <= SWAPPED_OTHERS; m++) {
        const struct dump_rank *other = &scene->dumps->rank[small->seat[m].rank];
        uint32_t first, second;

        if (small->seat[m].rank == rank || !scene_seat(scene, large, small->seat[m].rank))
            continue;
        first = postmortem_place_of(other, one);
        second = postmortem_place_of(other, two);
        if (first != DUMP_NONE && second != DUMP_NONE)
            *(first < second ? &same : &opposite) += 1;
    }
    return opposite > same;
}

/* The newer of two ops next to each other that the rank entered in another order than most; DUMP_NONE. */
static uint32_t postmortem_swapped_at(const struct scene *scene, uint32_t rank)
{
    const struct dump_rank *of = &scene->dumps->rank[rank];
    size_t last = of->ops > SWAPPED_OPS ? of->ops - SWAPPED_OPS : 0;

    for (size_t i = of->ops; i-- > last + 1;) {
        const struct dump_op *one = &of->op[i - 1], *two = &of->op[i];

        if (one->group != two->group && scene_op_is_collective(scene, one) &&
            scene_op_is_collective(scene, two) && postmortem_pair_is_odd(scene, rank, one, two))
            return (uint32_t)i;
    }
    return DUMP_NONE;
}

/* Where it is not known which ops are over, the order in which hosts enqueued the newest ones must do. */
int inquest_report_swapped(const struct scene *scene, const char *run, struct findings *findings)
{
    struct verdict *verdict = NULL;

    for (uint32_t r = 0; r < scene->dumps->ranks && !scene->states; r++) {
        uint32_t at = postmortem_swapped_at(scene, r);
        const struct dump_rank *of = &scene->dumps->rank[r];
        char one[112], two[112];

        if (at == DUMP_NONE)
            continue;
        if (!verdict)
            verdict = findings_add(findings, run, VERDICT_DESYNC, LAYER_USER_CODE);
        if (!verdict)
            return -ENOMEM;
        postmortem_group_text(&scene->dumps->group[of->op[at - 1].group], one, sizeof(one));
        postmortem_group_text(&scene->dumps->group[of->op[at].group], two, sizeof(two));
        postmortem_name_rank(verdict, of->rank);
        verdict_because(verdict, "dumps",
                        "rank %u entered group %s before group %s; most other members of both "
                        "entered them in the other order",
                        of->rank, one, two);
    }
    if (!verdict)
        return 0;
    snprintf(verdict->cause, sizeof(verdict->cause), "two groups entered in opposite order");
    verdict->confidence = 0.8;
    verdict_identify(verdict);
    return 1;
}
