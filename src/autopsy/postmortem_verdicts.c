/* postmortem_verdicts.c - writes the findings from dumps.
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

static int postmortem_by_rank(const void *left, const void *right)
{
    const struct postmortem_suspect *a = left, *b = right;

    return (a->rank > b->rank) - (a->rank < b->rank);
}

void inquest_sort(struct inquest *inquest)
{
    qsort(inquest->suspect, inquest->suspects, sizeof(*inquest->suspect), postmortem_by_rank);
}

void postmortem_group_text(const struct dump_group *group, char *out, size_t room)
{
    snprintf(out, room, "%s%s%s", group->name, *group->about ? " " : "", group->about);
}

/* What the waiting ones are in: the op of the furthest member. */
static void postmortem_op_text(const struct scene *scene, uint32_t group, char *out, size_t room)
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

static void postmortem_because_of(const struct scene *scene,
                                  const struct postmortem_suspect *suspect, struct verdict *verdict)
{
    const struct dump_rank *rank = &scene->dumps->rank[suspect->rank];
    const struct seat *seat = scene_seat(scene, suspect->group, suspect->rank);
    char group[112], op[64];

    postmortem_group_text(&scene->dumps->group[suspect->group], group, sizeof(group));
    postmortem_op_text(scene, suspect->group, op, sizeof(op));
    if (suspect->device)
        verdict_because(verdict, "dumps",
                        "the device of rank %u has not completed an op of group %s that rank %u "
                        "has completed with it, so the device stopped",
                        rank->rank, group, scene->dumps->rank[suspect->by].rank);
    else if (suspect->transfer)
        verdict_because(verdict, "dumps",
                        "rank %u left no dump, and rank %u, its neighbour in group %s, still waits "
                        "in an op that others have completed",
                        rank->rank, scene->dumps->rank[suspect->by].rank, group);
    else if (suspect->idle && rank->left == DUMP_EMPTY)
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

static double postmortem_confidence_of(const struct scene *scene,
                                       const struct postmortem_suspect *suspect)
{
    static const double by_left[] = { [DUMP_NOTHING] = 0.75,
                                      [DUMP_READ] = 0.9,
                                      [DUMP_EMPTY] = 0.85,
                                      [DUMP_DAMAGED] = 0.6,
                                      [DUMP_TRUNCATED] = 0.4 };
    double confidence =
        suspect->idle || suspect->outrun ? 0.7 : by_left[scene->dumps->rank[suspect->rank].left];

    if (suspect->perhaps) /* or it waits for one who left nothing */
        confidence = POSTMORTEM_UNSEEN;
    return scene->dumps->group[suspect->group].given ? confidence : MIN(confidence, 0.6);
}

/* By how much it fell silent before the others, where they share a clock that is good enough. */
static void postmortem_silence_of(const struct scene *scene,
                                  const struct postmortem_suspect *suspect, struct verdict *verdict)
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

static const char *postmortem_cause_of(const struct inquest *inquest)
{
    static const char *const causes[] = { [DUMP_NOTHING] = "left no dump",
                                          [DUMP_READ] = "stopped entering collectives",
                                          [DUMP_EMPTY] = "left a dump without any op",
                                          [DUMP_DAMAGED] = "left a damaged dump",
                                          [DUMP_TRUNCATED] = "left a dump that was cut off" };
    const struct dump_rank *rank = inquest->scene->dumps->rank;

    if (inquest->suspect[0].device)
        return "its device stopped in a collective that other ranks completed";
    if (inquest->suspect[0].transfer)
        return "stopped in the middle of a transfer and left no dump";
    return causes[rank[inquest->suspect[0].rank].left];
}

static void postmortem_report_victims(const struct inquest *inquest, struct verdict *verdict)
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

void postmortem_name_rank(struct verdict *verdict, uint32_t rank)
{
    if (verdict->rank_count < VERDICT_RANKS)
        verdict->rank[verdict->rank_count] = rank;
    verdict->rank_count++;
}

static void verdict_group(struct verdict *verdict, const struct dump_group *group)
{
    postmortem_group_text(group, verdict->group, sizeof(verdict->group));
}

int inquest_report_hang(struct inquest *inquest, const char *run, struct findings *findings)
{
    const struct scene *scene = inquest->scene;
    struct verdict *verdict = findings_add(findings, run, VERDICT_HANG, LAYER_UNKNOWN);

    if (!verdict)
        return -ENOMEM;
    inquest_sort(inquest);
    verdict->confidence = 1;
    verdict_group(verdict, &scene->dumps->group[inquest->suspect[0].group]);
    snprintf(verdict->cause, sizeof(verdict->cause), "%s", postmortem_cause_of(inquest));
    for (size_t i = 0; i < inquest->suspects; i++) {
        const struct postmortem_suspect *suspect = &inquest->suspect[i];

        postmortem_name_rank(verdict, scene->dumps->rank[suspect->rank].rank);
        verdict->confidence = MIN(verdict->confidence, postmortem_confidence_of(scene, suspect));
        postmortem_because_of(scene, suspect, verdict);
        if (suspect->group != inquest->suspect[0].group)
            verdict->group[0] = '\0';
    }
    for (size_t i = 0; i < inquest->suspects; i++)
        postmortem_silence_of(scene, &inquest->suspect[i], verdict);
    postmortem_report_victims(inquest, verdict);
    verdict_identify(verdict);
    return 0;
}

/* Ranks that left nothing where others are known to hold the job: whether they stopped, too, cannot be known. */
int inquest_report_unseen(const struct inquest *inquest, const uint32_t *list, size_t count,
                          const char *run, struct findings *findings)
{
    const struct dumps *dumps = inquest->scene->dumps;
    struct verdict *verdict = findings_add(findings, run, VERDICT_HANG, LAYER_UNKNOWN);

    if (!verdict)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct dump_rank *rank = &dumps->rank[list[i]];

        postmortem_name_rank(verdict, rank->rank);
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

/* Ranges of ranks: "4-7, 12". */
static void postmortem_ranks_text(const struct dumps *dumps, uint8_t left, char *out, size_t room)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < dumps->ranks && used + 32 < room; i++) {
        size_t end = i;

        if (dumps->rank[i].left != left)
            continue;
        while (end + 1 < dumps->ranks && dumps->rank[end + 1].left == left &&
               dumps->rank[end + 1].rank == dumps->rank[end].rank + 1)
            end++;
        used += (size_t)snprintf(out + used, room - used, "%s%u", used ? ", " : "",
                                 dumps->rank[i].rank);
        if (end > i)
            used += (size_t)snprintf(out + used, room - used, "-%u", dumps->rank[end].rank);
        i = end;
    }
}

/* Everybody who may be the culprit left no dump that can be read, and so did many others: nobody is named. */
int inquest_report_missing(const struct inquest *inquest, const char *run,
                           struct findings *findings)
{
    const struct dumps *dumps = inquest->scene->dumps;
    struct verdict *verdict = findings_add(findings, run, VERDICT_HANG, LAYER_UNKNOWN);
    static const struct {
        uint8_t left;
        const char *text;
    } lacks[] = { { DUMP_NOTHING, "there are no dumps of ranks" },
                  { DUMP_DAMAGED, "these dumps cannot be read: ranks" },
                  { DUMP_TRUNCATED, "these dumps were cut off while they were written: ranks" } };
    char ranks[120];

    if (!verdict)
        return -ENOMEM;
    snprintf(verdict->cause, sizeof(verdict->cause),
             "ranks wait for others whose dumps are missing");
    for (size_t i = 0; i < COUNT(lacks); i++) {
        postmortem_ranks_text(dumps, lacks[i].left, ranks, sizeof(ranks));
        if (*ranks)
            verdict_because(verdict, "dumps", "%s %s; with them the culprit could be named",
                            lacks[i].text, ranks);
    }
    if (!verdict->because_count)
        verdict_because(verdict, "dumps", "every rank that may be the culprit may only be waiting");
    verdict->confidence = POSTMORTEM_UNSEEN;
    verdict_identify(verdict);
    return 0;
}

/* Everybody waited for is explained by somebody else: a circle. */
int inquest_report_circle(const struct inquest *inquest, const char *run, struct findings *findings)
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
            postmortem_name_rank(verdict, scene->dumps->rank[r].rank);
    }
    if (!verdict->rank_count) {
        findings->count--;
        return 0;
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
static int postmortem_report_stuck(const struct scene *scene, uint32_t group, const char *run,
                                   struct findings *findings)
{
    const struct circle *circle = &scene->circle[group];
    struct verdict *verdict = findings_add(findings, run, VERDICT_HANG, LAYER_UNKNOWN);
    uint32_t started = 0;
    char text[112], op[64];

    if (!verdict)
        return -ENOMEM;
    postmortem_group_text(&scene->dumps->group[group], text, sizeof(text));
    postmortem_op_text(scene, group, op, sizeof(op));
    verdict_group(verdict, &scene->dumps->group[group]);
    for (uint32_t m = 0; m < circle->count; m++)
        started += circle->seat[m].state == DUMP_STARTED;
    if (scene->dumps->group[group].given) {
        verdict_because(verdict, "dumps",
                        "all %u members of group %s have entered %s, and it has not completed",
                        circle->count, text, op);
        snprintf(verdict->cause, sizeof(verdict->cause),
                 "all ranks entered the collective and it does not progress");
    } else { /* others may be in the group */
        verdict_because(verdict, "dumps",
                        "%u ranks have entered %s of group %s, and it has not completed; the dumps "
                        "do not list who else is in the group",
                        circle->count, op, text);
        snprintf(verdict->cause, sizeof(verdict->cause), "ranks wait in a collective");
        verdict->would_decide = "the dumps of all ranks";
    }
    verdict->confidence = 0.4;
    for (uint32_t m = 0;
         m < circle->count && 2 * started > circle->count && started < circle->count; m++) {
        if (circle->seat[m].state != DUMP_STARTED)
            postmortem_name_rank(verdict, scene->dumps->rank[circle->seat[m].rank].rank);
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

static bool postmortem_circle_is_even(const struct circle *circle)
{
    for (uint32_t m = 0; m < circle->count; m++) {
        if (!circle->seat[m].known || circle->seat[m].entered != circle->furthest)
            return false;
    }
    return true;
}

int inquest_report_rest(const struct scene *scene, const char *run, struct findings *findings)
{
    uint32_t stuck = DUMP_NONE;

    findings->well = scene->states;
    for (uint32_t g = 0; g < scene->dumps->groups; g++) {
        const struct circle *circle = &scene->circle[g];

        if (circle->pairs || circle->furthest < 0)
            continue;
        findings->well &= postmortem_circle_is_even(circle) && !circle->pending &&
                          (scene->dumps->group[g].given || circle->count > 1);
        if (!scene->states || !circle->pending || !postmortem_circle_is_even(circle))
            continue;
        if (stuck == DUMP_NONE || circle->count < scene->circle[stuck].count)
            stuck = g;
    }
    return stuck == DUMP_NONE ? 0 : postmortem_report_stuck(scene, stuck, run, findings);
}
