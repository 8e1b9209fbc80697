/* postmortem_tell.c - writes the findings from dumps.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"
#include "core/time.h"

static int by_rank(const void *left, const void *right)
{
    const struct postmortem_suspect *a = left, *b = right;

    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void group_text(const struct dump_group *group, char *out, size_t room)
{
    snprintf(out, room, "%s%s%s", group->name, *group->about ? " " : "", group->about);
}

/* What the waiting ones are in: the op of the furthest member. */
static void op_text(const struct scene *scene, uint32_t group, char *out, size_t room)
{
    const struct circle *circle = &scene->circle[group];

    out[0] = '\0';
    for (uint32_t m = 0; m < circle->count; m++) {
        const struct seat *seat = &circle->seat[m];

        if (seat->known && seat->entered == circle->furthest && seat->last_what != DUMP_NONE) {
            snprintf(out, room, "%s %" PRId64, scene->dumps->what[seat->last_what].name,
                     circle->furthest);
            return;
        }
    }
    snprintf(out, room, "op %" PRId64, circle->furthest);
}

static void because_of(const struct scene *scene, const struct postmortem_suspect *suspect,
                       struct verdict *verdict)
{
    const struct dump_rank *rank = &scene->dumps->rank[suspect->rank];
    const struct seat *seat = scene_seat(scene, suspect->group, suspect->rank);
    char group[112], op[64];

    group_text(&scene->dumps->group[suspect->group], group, sizeof(group));
    op_text(scene, suspect->group, op, sizeof(op));
    if (suspect->idle && rank->left == DUMP_EMPTY)
        verdict_because(
            verdict, "dumps",
            "the dump of rank %u contains no op, as when a process is stopped or holds the GIL",
            rank->rank);
    else if (suspect->outrun)
        verdict_because(verdict, "dumps",
                        "rank %u has not entered its next op of group %s; other ranks with the "
                        "same delay, such as rank %u, entered theirs",
                        rank->rank, group, scene->dumps->rank[suspect->by].rank);
    else if (suspect->idle)
        verdict_because(
            verdict, "dumps",
            "rank %u waits for no rank and does not advance; its newest op was in group %s",
            rank->rank, group);
    else if (rank->left == DUMP_NOTHING)
        verdict_because(verdict, "dumps",
                        "rank %u left no dump; %u ranks of group %s wait for it in %s", rank->rank,
                        suspect->waiters, group, op);
    else if (rank->left == DUMP_DAMAGED)
        verdict_because(verdict, "dumps",
                        "the dump of rank %u cannot be read; %u ranks of group %s wait in %s",
                        rank->rank, suspect->waiters, group, op);
    else if (suspect->pair)
        verdict_because(
            verdict, "dumps",
            "rank %u has not entered a point-to-point op of group %s for which another rank waits",
            rank->rank, group);
    else if (rank->left == DUMP_EMPTY)
        verdict_because(verdict, "dumps",
                        "the dump of rank %u contains no op, as when a process is stopped or holds "
                        "the GIL; %u ranks of group %s wait for it in %s",
                        rank->rank, suspect->waiters, group, op);
    else if (seat && seat->entered < 0)
        verdict_because(verdict, "dumps",
                        "rank %u has entered no op of group %s; %u ranks wait for it in %s",
                        rank->rank, group, suspect->waiters, op);
    else
        verdict_because(verdict, "dumps",
                        "rank %u last entered op %" PRId64
                        " of group %s; %u ranks went on and wait for it in %s",
                        rank->rank, seat ? seat->entered : -1, group, suspect->waiters, op);
}

static double confidence_of(const struct scene *scene, const struct postmortem_suspect *suspect)
{
    static const double by_left[] = {
        [DUMP_NOTHING] = 0.75, [DUMP_READ] = 0.9, [DUMP_EMPTY] = 0.85, [DUMP_DAMAGED] = 0.6
    };
    double confidence =
        suspect->idle || suspect->outrun ? 0.7 : by_left[scene->dumps->rank[suspect->rank].left];

    if (suspect->perhaps) /* or it waits for one who left nothing */
        confidence = POSTMORTEM_UNSEEN;
    return scene->dumps->group[suspect->group].said ? confidence : MIN(confidence, 0.6);
}

/* By how much it fell silent before the others, where they share a clock that is good enough. */
static void silence_of(const struct scene *scene, const struct postmortem_suspect *suspect,
                       struct verdict *verdict)
{
    int64_t mine = scene->newest_ns[suspect->rank], last = 0;

    for (size_t r = 0; r < scene->dumps->ranks; r++)
        last = MAX(last, scene->newest_ns[r]);
    if (mine > 0 && last - mine > NS_PER_MS)
        verdict_because(verdict, "dumps",
                        "rank %u recorded nothing in the last %.3f s in which other ranks recorded",
                        scene->dumps->rank[suspect->rank].rank, (double)(last - mine) / 1e9);
    if (mine > 0 && (!verdict->since_real_ns || mine < verdict->since_real_ns))
        verdict->since_real_ns = mine;
}

static const char *cause_of(const struct inquest *inquest)
{
    static const char *const causes[] = { [DUMP_NOTHING] = "left no dump",
                                          [DUMP_READ] = "stopped entering collectives",
                                          [DUMP_EMPTY] = "left a dump without any op",
                                          [DUMP_DAMAGED] = "left a damaged dump" };
    const struct dump_rank *rank = inquest->scene->dumps->rank;

    return causes[rank[inquest->suspect[0].rank].left];
}

static void tell_victims(const struct inquest *inquest, struct verdict *verdict)
{
    const struct scene *scene = inquest->scene;
    struct verdict_line *line = &verdict->echo[verdict->echo_count];
    size_t waiting = 0;

    for (uint32_t r = 0; r < scene->dumps->ranks; r++) {
        bool waits = false, named = false;

        for (uint32_t i = inquest->first[r]; i < inquest->first[r + 1] && !waits; i++)
            waits = scene_waits(scene, inquest->group_of[i],
                                scene_seat(scene, inquest->group_of[i], r));
        for (size_t i = 0; i < inquest->suspects; i++)
            named |= inquest->suspect[i].rank == r;
        waiting += waits && !named;
    }
    if (!waiting)
        return;
    snprintf(line->what, sizeof(line->what),
             "%zu other ranks wait, directly or indirectly, for these ranks", waiting);
    snprintf(line->source, sizeof(line->source), "dumps");
    verdict->echo_count++;
}

static void verdict_rank(struct verdict *verdict, uint32_t rank)
{
    if (verdict->rank_count < VERDICT_RANKS)
        verdict->rank[verdict->rank_count] = rank;
    verdict->rank_count++;
}

static void verdict_group(struct verdict *verdict, const struct dump_group *group)
{
    group_text(group, verdict->group, sizeof(verdict->group));
}

int inquest_tell_hang(struct inquest *inquest, const char *run, struct findings *findings)
{
    const struct scene *scene = inquest->scene;
    struct verdict *verdict = findings_add(findings, run, VERDICT_HANG, LAYER_UNKNOWN);

    if (!verdict)
        return -ENOMEM;
    qsort(inquest->suspect, inquest->suspects, sizeof(*inquest->suspect), by_rank);
    verdict->confidence = 1;
    verdict_group(verdict, &scene->dumps->group[inquest->suspect[0].group]);
    snprintf(verdict->cause, sizeof(verdict->cause), "%s", cause_of(inquest));
    for (size_t i = 0; i < inquest->suspects; i++) {
        const struct postmortem_suspect *suspect = &inquest->suspect[i];

        verdict_rank(verdict, scene->dumps->rank[suspect->rank].rank);
        verdict->confidence = MIN(verdict->confidence, confidence_of(scene, suspect));
        because_of(scene, suspect, verdict);
        if (suspect->group != inquest->suspect[0].group)
            verdict->group[0] = '\0';
    }
    for (size_t i = 0; i < inquest->suspects; i++)
        silence_of(scene, &inquest->suspect[i], verdict);
    tell_victims(inquest, verdict);
    verdict_identify(verdict);
    return 0;
}

/* Ranks that left nothing where others are known to hold the job: whether they stopped, too, cannot be known. */
int inquest_tell_unseen(const struct inquest *inquest, const uint32_t *list, size_t count,
                        const char *run, struct findings *findings)
{
    const struct dumps *dumps = inquest->scene->dumps;
    struct verdict *verdict = findings_add(findings, run, VERDICT_HANG, LAYER_UNKNOWN);

    if (!verdict)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct dump_rank *rank = &dumps->rank[list[i]];

        verdict_rank(verdict, rank->rank);
        verdict_because(verdict, "dumps",
                        "%s rank %u%s: it ended early or its file is lost; the other culprits may "
                        "explain why ranks wait",
                        rank->left == DUMP_NOTHING ? "there is no dump of" : "the dump of",
                        rank->rank, rank->left == DUMP_NOTHING ? "" : " cannot be read");
    }
    snprintf(verdict->cause, sizeof(verdict->cause), "%s",
             dumps->rank[list[0]].left == DUMP_NOTHING ? "left no dump" : "left a damaged dump");
    verdict->confidence = POSTMORTEM_UNSEEN;
    verdict_identify(verdict);
    return 0;
}

/* Two that have entered different groups of which both are members, each waiting there for the other. */
static bool tell_opposite(const struct inquest *inquest, uint32_t a, uint32_t b, uint32_t groups[2])
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

int inquest_tell_opposite(struct inquest *inquest, const char *run, struct findings *findings)
{
    const struct dumps *dumps = inquest->scene->dumps;

    qsort(inquest->suspect, inquest->suspects, sizeof(*inquest->suspect), by_rank);
    for (size_t i = 0; i < inquest->suspects; i++) {
        for (size_t k = i + 1; k < inquest->suspects && k < 64; k++) {
            uint32_t a = inquest->suspect[i].rank, b = inquest->suspect[k].rank, groups[2];
            char one[112], two[112];
            struct verdict *verdict;

            if (!tell_opposite(inquest, a, b, groups))
                continue;
            verdict = findings_add(findings, run, VERDICT_DESYNC, LAYER_USER_CODE);
            if (!verdict)
                return -ENOMEM;
            group_text(&dumps->group[groups[0]], one, sizeof(one));
            group_text(&dumps->group[groups[1]], two, sizeof(two));
            verdict_because(verdict, "dumps",
                            "rank %u is in an op of group %s and waits there for rank %u",
                            dumps->rank[a].rank, one, dumps->rank[b].rank);
            verdict_because(verdict, "dumps",
                            "rank %u is in an op of group %s and waits there for rank %u",
                            dumps->rank[b].rank, two, dumps->rank[a].rank);
            snprintf(verdict->cause, sizeof(verdict->cause),
                     "two groups entered in opposite order");
            for (size_t n = 0; n < inquest->suspects; n++)
                verdict_rank(verdict, dumps->rank[inquest->suspect[n].rank].rank);
            verdict->confidence = 0.9;
            verdict_identify(verdict);
            return 1;
        }
    }
    return 0;
}

/* Everybody waited for is explained by somebody else: a circle. */
int inquest_tell_circle(const struct inquest *inquest, const char *run, struct findings *findings)
{
    const struct scene *scene = inquest->scene;
    struct verdict *verdict = findings_add(findings, run, VERDICT_DESYNC, LAYER_UNKNOWN);

    if (!verdict)
        return -ENOMEM;
    for (uint32_t r = 0; r < scene->dumps->ranks; r++) {
        bool waits = false, holds = false;

        for (uint32_t i = inquest->first[r]; i < inquest->first[r + 1]; i++) {
            uint32_t g = inquest->group_of[i];
            const struct seat *seat = scene_seat(scene, g, r);

            waits |= scene_waits(scene, g, seat);
            holds |=
                !scene->circle[g].pairs && seat->known && seat->entered < scene->circle[g].furthest;
        }
        for (size_t i = 0; i < scene->waits; i++) {
            waits |= scene->wait[i].from == r;
            holds |= scene->wait[i].to == r;
        }
        if (waits && holds)
            verdict_rank(verdict, scene->dumps->rank[r].rank);
    }
    verdict_because(verdict, "dumps",
                    "each of these %u ranks waits in one group and blocks another group",
                    verdict->rank_count);
    snprintf(verdict->cause, sizeof(verdict->cause), "ranks wait for each other in a circle");
    verdict->confidence = 0.7;
    verdict_identify(verdict);
    return 0;
}

/* All members are in the same op.  Whose device has not even started it is the odd one. */
static int tell_stuck(const struct scene *scene, uint32_t group, const char *run,
                      struct findings *findings)
{
    const struct circle *circle = &scene->circle[group];
    struct verdict *verdict = findings_add(findings, run, VERDICT_HANG, LAYER_UNKNOWN);
    uint32_t started = 0;
    char text[112], op[64];

    if (!verdict)
        return -ENOMEM;
    group_text(&scene->dumps->group[group], text, sizeof(text));
    op_text(scene, group, op, sizeof(op));
    verdict_group(verdict, &scene->dumps->group[group]);
    for (uint32_t m = 0; m < circle->count; m++)
        started += circle->seat[m].state == DUMP_STARTED;
    verdict_because(verdict, "dumps",
                    "all %u members of group %s have entered %s, and it has not completed",
                    circle->count, text, op);
    snprintf(verdict->cause, sizeof(verdict->cause),
             "all ranks entered the collective and it does not progress");
    verdict->confidence = 0.4;
    for (uint32_t m = 0;
         m < circle->count && 2 * started > circle->count && started < circle->count; m++) {
        if (circle->seat[m].state != DUMP_STARTED)
            verdict_rank(verdict, scene->dumps->rank[circle->seat[m].rank].rank);
    }
    if (verdict->rank_count) {
        verdict_because(
            verdict, "dumps", "the devices of %u other ranks have started it, the %s not", started,
            verdict->rank_count == 1 ? "device of this rank has" : "devices of these ranks have");
        snprintf(verdict->cause, sizeof(verdict->cause),
                 "entered the collective, but its device never started it");
        verdict->confidence = 0.6;
    }
    verdict_identify(verdict);
    return 0;
}

/* Has its device started the op of the one group while that of the other waits behind it? */
static bool is_first_in(const struct scene *scene, uint32_t first, uint32_t second, uint32_t rank)
{
    const struct seat *here = scene_seat(scene, first, rank),
                      *there = scene_seat(scene, second, rank);

    return here && there && here->pending && there->pending && here->state == DUMP_STARTED &&
           there->state == DUMP_SCHEDULED;
}

static uint32_t tell_first_in(const struct scene *scene, uint32_t first, uint32_t second,
                              uint32_t *one)
{
    const struct circle *circle = &scene->circle[first];
    uint32_t count = 0;

    for (uint32_t m = 0; m < circle->count; m++) {
        if (!is_first_in(scene, first, second, circle->seat[m].rank))
            continue;
        *one = circle->seat[m].rank;
        count++;
    }
    return count;
}

static void crossed_side(const struct scene *scene, struct verdict *verdict, uint32_t first,
                         uint32_t second, uint32_t one, uint32_t count)
{
    char here[112], there[112];

    group_text(&scene->dumps->group[first], here, sizeof(here));
    group_text(&scene->dumps->group[second], there, sizeof(there));
    verdict_because(verdict, "dumps",
                    "the device%s of %u rank%s (%u%s) %s in an op of group %s, and the op of group "
                    "%s is queued behind it",
                    count == 1 ? "" : "s", count, count == 1 ? "" : "s",
                    scene->dumps->rank[one].rank, count == 1 ? "" : ", ...",
                    count == 1 ? "is" : "are", here, there);
}

static void crossed_name(const struct scene *scene, struct verdict *verdict, uint32_t first,
                         uint32_t second)
{
    const struct circle *circle = &scene->circle[first];

    for (uint32_t m = 0; m < circle->count; m++) {
        if (is_first_in(scene, first, second, circle->seat[m].rank))
            verdict_rank(verdict, scene->dumps->rank[circle->seat[m].rank].rank);
    }
}

/* Hosts have launched everything, so nobody is missing anywhere; but devices take one op after the other, and
 * some have begun with one group, some with the other.  Returns 1 when told.
 */
static int tell_crossed(const struct scene *scene, uint32_t a, uint32_t b, const char *run,
                        struct findings *findings)
{
    uint32_t one = 0, other = 0, first = tell_first_in(scene, a, b, &one),
             second = tell_first_in(scene, b, a, &other);
    struct verdict *verdict;

    if (!first || !second)
        return 0;
    verdict = findings_add(findings, run, VERDICT_DESYNC, LAYER_USER_CODE);
    if (!verdict)
        return -ENOMEM;
    crossed_side(scene, verdict, a, b, one, first);
    crossed_side(scene, verdict, b, a, other, second);
    if (first <= second)
        crossed_name(scene, verdict, a, b);
    if (second <= first)
        crossed_name(scene, verdict, b, a);
    if (first == second)
        verdict_because(verdict, "dumps",
                        "both sides have the same number of ranks, so both are named");
    snprintf(verdict->cause, sizeof(verdict->cause), "two groups entered in opposite order");
    verdict->confidence = first == second ? 0.8 : 0.9;
    verdict_identify(verdict);
    return 1;
}

#define CROSSED_GROUPS 64 /* stuck at once, that are compared with each other */

static int tell_any_crossed(const struct scene *scene, const uint32_t *stuck, uint32_t count,
                            const char *run, struct findings *findings)
{
    int told = 0;

    for (uint32_t i = 0; i < count && told == 0; i++) {
        for (uint32_t k = i + 1; k < count && told == 0; k++)
            told = tell_crossed(scene, stuck[i], stuck[k], run, findings);
    }
    return told;
}

static bool circle_is_even(const struct circle *circle)
{
    for (uint32_t m = 0; m < circle->count; m++) {
        if (!circle->seat[m].known || circle->seat[m].entered != circle->furthest)
            return false;
    }
    return true;
}

int inquest_tell_rest(const struct scene *scene, const char *run, struct findings *findings)
{
    uint32_t stuck = DUMP_NONE, all[CROSSED_GROUPS], count = 0;
    int told;

    findings->well = scene->states;
    for (uint32_t g = 0; g < scene->dumps->groups; g++) {
        const struct circle *circle = &scene->circle[g];

        if (circle->pairs || circle->furthest < 0)
            continue;
        findings->well &= circle_is_even(circle) && !circle->pending;
        if (!scene->states || !circle->pending || !circle_is_even(circle))
            continue;
        if (count < CROSSED_GROUPS)
            all[count++] = g;
        if (stuck == DUMP_NONE || circle->count < scene->circle[stuck].count)
            stuck = g;
    }
    told = tell_any_crossed(scene, all, count, run, findings);
    if (told != 0)
        return MIN(told, 0);
    return stuck == DUMP_NONE ? 0 : tell_stuck(scene, stuck, run, findings);
}
