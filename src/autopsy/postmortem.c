/* postmortem.c - which rank blocks the others, and which only waits.
 *
 * b waits for a in group G if b has entered an op of G that a has not.  That does not make a the culprit: a may be
 * blocked itself, in a group H whose other members have not arrived.  This explains why a is late for G, unless b is
 * in H as well: then b was blocked in the same way and reached G nevertheless, so a stopped by itself.  This
 * distinguishes two culprits in one group from a culprit and its victim.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "autopsy/postmortem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autopsy/postmortem_private.h"
#include "core/clean.h"

#define EARLIEST_NS INT64_C(1000000000000000000) /* in 2001: less is a time since something else */

void findings_fini(struct findings *findings)
{
    free(findings->verdict);
    *findings = (struct findings){ 0 };
}

struct verdict *findings_add(struct findings *findings, const char *run, unsigned kind,
                             unsigned layer)
{
    struct verdict *verdict;

    if (findings->count == POSTMORTEM_MAX)
        return NULL;
    if (!findings->verdict)
        findings->verdict = calloc(POSTMORTEM_MAX, sizeof(*findings->verdict));
    if (!findings->verdict)
        return NULL;
    verdict = &findings->verdict[findings->count++];
    *verdict = (struct verdict){ 0 }; /* one may have been here that is withdrawn */
    verdict->kind = (uint8_t)kind;
    verdict->layer = (uint8_t)layer;
    snprintf(verdict->run, sizeof(verdict->run), "%s", run);
    return verdict;
}

static void postmortem_inquest_fini(struct inquest *inquest)
{
    free(inquest->suspect);
    free(inquest->group_of);
    free(inquest->first);
    free(inquest->excused);
}

static int postmortem_inquest_groups(struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;
    size_t ranks = scene->dumps->ranks, seats = 0;
    CLEAN(free_clean) uint32_t *next = calloc(ranks + 1, sizeof(*next));

    inquest->excused = calloc(ranks + 1, sizeof(*inquest->excused));
    inquest->first = calloc(ranks + 1, sizeof(*inquest->first));
    for (size_t g = 0; g < scene->dumps->groups; g++)
        seats += scene->circle[g].count;
    inquest->group_of = calloc(seats + 1, sizeof(*inquest->group_of));
    if (!next || !inquest->first || !inquest->group_of || !inquest->excused)
        return -ENOMEM;
    for (size_t g = 0; g < scene->dumps->groups; g++) {
        for (uint32_t m = 0; m < scene->circle[g].count; m++)
            inquest->first[scene->circle[g].seat[m].rank + 1]++;
    }
    for (size_t r = 0; r < ranks; r++)
        inquest->first[r + 1] += inquest->first[r];
    for (uint32_t g = 0; g < scene->dumps->groups; g++) {
        for (uint32_t m = 0; m < scene->circle[g].count; m++) {
            uint32_t r = scene->circle[g].seat[m].rank;

            inquest->group_of[inquest->first[r] + next[r]++] = g;
        }
    }
    return 0;
}

/* Is this member in an op that does not end: somebody has not come, or all have and nothing moves? */
static bool postmortem_is_held(const struct scene *scene, uint32_t group, const struct seat *seat,
                               bool certainly)
{
    const struct circle *circle = &scene->circle[group];
    bool over = circle->pairs || !seat->pending;

    if (!scene->states && !over) /* as far as follows from who has entered what */
        return !certainly || seat->entered > circle->open_after;
    for (uint32_t m = 0; m < circle->count && !over; m++)
        over = circle->seat[m].known && circle->seat[m].completed >= seat->entered;
    return !over || scene_waits(scene, group, seat);
}

/* Does anything that `rank` waits for explain why it lets `waiter` wait in `group`? */
static bool postmortem_is_explained(const struct inquest *inquest, uint32_t rank, uint32_t waiter,
                                    uint32_t group, bool pair)
{
    const struct scene *scene = inquest->scene;

    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1]; i++) {
        uint32_t other = inquest->group_of[i];

        if ((other != group || pair) && !scene_seat(scene, other, waiter) &&
            postmortem_is_held(scene, other, scene_seat(scene, other, rank), inquest->certainly))
            return true;
    }
    for (size_t i = 0; i < scene->waits; i++) {
        if (scene->wait[i].from == rank && scene->wait[i].to != waiter)
            return true;
    }
    return false;
}

int inquest_suspect(struct inquest *inquest, struct postmortem_suspect suspect)
{
    const struct dump_group *group = inquest->scene->dumps->group;

    if (inquest->excused[suspect.rank])
        return 0;
    for (size_t i = 0; i < inquest->suspects; i++) {
        struct postmortem_suspect *known = &inquest->suspect[i];

        if (known->rank != suspect.rank)
            continue;
        if (known->device || known->transfer)
            return 0;
        if (known->perhaps != suspect.perhaps) {
            if (known->perhaps)
                *known = suspect;
            return 0;
        }
        if (group[suspect.group].members < group[known->group].members) /* the nearest say most */
            *known = suspect;
        return 0;
    }
    if (!ARRAY_FIT(inquest->suspect, inquest->room, inquest->suspects + 1))
        return -ENOMEM;
    inquest->suspect[inquest->suspects++] = suspect;
    return 0;
}

static bool postmortem_is_unseen(const struct scene *scene, uint32_t rank)
{
    uint8_t left = scene->dumps->rank[rank].left;

    return left == DUMP_NOTHING || left == DUMP_DAMAGED || left == DUMP_TRUNCATED;
}

/* Of a rank without a dump: is it in a group, without `waiter`, that is seen to wait for somebody else? */
static bool postmortem_may_wait(const struct inquest *inquest, uint32_t rank, uint32_t waiter,
                                uint32_t group)
{
    const struct scene *scene = inquest->scene;

    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1]; i++) {
        uint32_t other = inquest->group_of[i];
        const struct circle *circle = &scene->circle[other];

        if (other != group && circle->pending && circle->slowest < circle->furthest &&
            !scene_seat(scene, other, waiter))
            return true;
    }
    return false;
}

bool inquest_may_wait_unseen(const struct inquest *inquest, uint32_t rank, uint32_t other)
{
    const struct scene *scene = inquest->scene;

    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1] && !scene->states; i++) {
        uint32_t g = inquest->group_of[i];
        const struct seat *seat = scene_seat(scene, g, rank);

        if (!scene->circle[g].pairs && !scene->circle[g].all_known && seat->known &&
            seat->entered >= 0 && !scene_seat(scene, g, other))
            return true;
    }
    return false;
}

/* Where states are known: is the rank in an op of another group that is not over, that all members have entered as far as is
 * known, and of which some left nothing?
 */
static bool postmortem_is_in_unseen_op(const struct inquest *inquest, uint32_t rank, uint32_t group)
{
    const struct scene *scene = inquest->scene;

    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1] && scene->states; i++) {
        uint32_t g = inquest->group_of[i];
        const struct seat *seat = scene_seat(scene, g, rank);

        if (g != group && !scene->circle[g].pairs && !scene->circle[g].all_known && seat->known &&
            seat->pending && scene->circle[g].slowest >= seat->entered)
            return true;
    }
    return false;
}

/* Is this member what the others of the group wait for, by itself? */
static int postmortem_suspect_seat(struct inquest *inquest, uint32_t group, const struct seat *seat,
                                   size_t *edges)
{
    const struct scene *scene = inquest->scene;
    const struct circle *circle = &scene->circle[group];
    struct postmortem_suspect suspect = { .rank = seat->rank, .group = group, .perhaps = true };
    bool guilty = false, unseen = postmortem_is_unseen(scene, seat->rank);

    if (!seat->gap && !(seat->known && seat->entered < circle->furthest))
        return 0;
    for (uint32_t m = 0; m < circle->count; m++) {
        if (!waits_for(scene, &circle->seat[m], seat))
            continue;
        suspect.waiters++;
        if (postmortem_is_explained(inquest, seat->rank, circle->seat[m].rank, group, false))
            continue;
        guilty = true;
        suspect.perhaps &=
            unseen ? postmortem_may_wait(inquest, seat->rank, circle->seat[m].rank, group)
                   : inquest_may_wait_unseen(inquest, seat->rank, circle->seat[m].rank) ||
                         postmortem_is_in_unseen_op(inquest, seat->rank, group);
    }
    *edges += suspect.waiters;
    return guilty ? inquest_suspect(inquest, suspect) : 0;
}

static int postmortem_find_suspects(struct inquest *inquest, const bool *odd, size_t *edges)
{
    const struct scene *scene = inquest->scene;
    int result = 0;

    for (uint32_t g = 0; g < scene->dumps->groups && result == 0; g++) {
        const struct circle *circle = &scene->circle[g];

        /* Where ops do not match, that is why nobody goes on. */
        for (uint32_t m = 0; !circle->pairs && !odd[g] && m < circle->count && result == 0; m++)
            result = postmortem_suspect_seat(inquest, g, &circle->seat[m], edges);
    }
    for (size_t i = 0; i < scene->waits && result == 0; i++) {
        const struct wait *wait = &scene->wait[i];

        (*edges)++;
        if (!postmortem_is_explained(inquest, wait->to, wait->from, wait->group, true))
            result = inquest_suspect(
                inquest, (struct postmortem_suspect){
                             .rank = wait->to, .group = wait->group, .waiters = 1, .pair = true });
    }
    return result;
}

static bool postmortem_waits_in_pair(const struct scene *scene, uint32_t rank)
{
    const struct dump_rank *of = &scene->dumps->rank[rank];

    for (size_t i = 0; i < of->ops; i++) {
        if (of->op[i].peer != DUMP_NONE && scene_op_pending(scene, rank, i) != OP_OVER)
            return true;
    }
    return false;
}

/* May it wait for one who left nothing?  Not when another, in all of the same groups with such a one, did more. */
static bool postmortem_may_wait_unseen(const struct inquest *inquest, uint32_t rank)
{
    const struct scene *scene = inquest->scene;
    bool asked = false;

    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1] && !scene->states; i++) {
        const struct circle *circle = &scene->circle[inquest->group_of[i]];
        const struct seat *seat = scene_seat(scene, inquest->group_of[i], rank);

        if (circle->pairs || circle->all_known || !seat->known || seat->entered < 0)
            continue;
        asked = true;
        for (uint32_t m = 0; m < circle->count; m++) {
            if (circle->seat[m].known && circle->seat[m].entered > seat->entered &&
                !inquest_may_wait_unseen(inquest, rank, circle->seat[m].rank))
                return false;
        }
    }
    return asked;
}

/* In a job that hangs everybody is in an op that cannot end, but for those who stopped by themselves. */
static bool postmortem_is_idle(const struct inquest *inquest, uint32_t rank)
{
    const struct scene *scene = inquest->scene;

    if (scene->dumps->rank[rank].left == DUMP_EMPTY)
        return inquest->first[rank] < inquest->first[rank + 1];
    if (scene->dumps->rank[rank].left != DUMP_READ || postmortem_waits_in_pair(scene, rank) ||
        postmortem_may_wait_unseen(inquest, rank))
        return false;
    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1]; i++) {
        const struct seat *seat = scene_seat(scene, inquest->group_of[i], rank);

        if (scene_waits(scene, inquest->group_of[i], seat) || seat->pending)
            return false;
    }
    return true;
}

static uint32_t postmortem_newest_group(const struct inquest *inquest, uint32_t rank)
{
    const struct scene *scene = inquest->scene;

    if (scene->last[rank] == DUMP_NONE)
        return inquest->group_of[inquest->first[rank]];
    return scene->dumps->rank[rank].op[scene->last[rank]].group;
}

bool inquest_suspects(const struct inquest *inquest, uint32_t rank)
{
    for (size_t i = 0; i < inquest->suspects; i++) {
        if (inquest->suspect[i].rank == rank)
            return true;
    }
    return false;
}

/* Those whom nobody waits for yet, because whoever would is held up before: once others are suspected or ops do not
 * match.  Where most
 * are idle the dumps do not show who waits.
 */
static int postmortem_find_idle(struct inquest *inquest, bool mismatches)
{
    const struct scene *scene = inquest->scene;
    size_t ranks = scene->dumps->ranks, idle = 0;
    int result = 0;

    for (uint32_t r = 0; r < ranks; r++)
        idle += postmortem_is_idle(inquest, r);
    if (!(inquest->suspects || mismatches) || 2 * idle > ranks)
        return 0;
    for (uint32_t r = 0; r < ranks && result == 0; r++) {
        if (!inquest_suspects(inquest, r) && postmortem_is_idle(inquest, r))
            result = inquest_suspect(
                inquest, (struct postmortem_suspect){ .rank = r,
                                                      .group = postmortem_newest_group(inquest, r),
                                                      .idle = true });
    }
    return result;
}

/* One that is known to be in no op there is not held up by it. */
static bool postmortem_in_odd_group(const struct inquest *inquest, uint32_t rank, const bool *odd)
{
    const struct scene *scene = inquest->scene;

    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1]; i++) {
        const struct seat *seat = scene_seat(scene, inquest->group_of[i], rank);

        if (odd[inquest->group_of[i]] && (!scene->states || !seat->known || seat->pending))
            return true;
    }
    return false;
}

static size_t postmortem_count_unseen(const struct scene *scene)
{
    size_t unseen = 0;

    for (uint32_t r = 0; r < scene->dumps->ranks; r++)
        unseen += postmortem_is_unseen(scene, r);
    return unseen;
}

/* Is a rank without a readable dump no suspect?  Where so many are missing, of the job or of the group, they were not
 * all collected.  A dump that was cut off is that of a survivor, unless it is the only one that cannot be read.
 */
static bool postmortem_is_excused_unseen(const struct scene *scene, const struct circle *circle,
                                         uint32_t rank, size_t unseen)
{
    if (!postmortem_is_unseen(scene, rank))
        return false;
    if (scene->dumps->rank[rank].left == DUMP_TRUNCATED && unseen > 1)
        return true;
    return (double)unseen > scene->limits.dumps_unseen_share * (double)scene->dumps->ranks ||
           2 * circle->gaps > circle->count;
}

/* Whole nodes whose dumps were not collected are no culprits: who is missing with more than a quarter of its group is
 * not named for that alone.  Nor is one that was ended while it wrote its dump, as a launcher ends the survivors of a
 * crash; nor one whose group cannot go on because its ops do not match.
 */
static size_t postmortem_drop_unseen(struct inquest *inquest, const bool *odd)
{
    const struct scene *scene = inquest->scene;
    size_t kept = 0, dropped, unseen = postmortem_count_unseen(scene);

    for (size_t i = 0; i < inquest->suspects; i++) {
        struct postmortem_suspect *suspect = &inquest->suspect[i];
        const struct circle *circle = &scene->circle[suspect->group];

        if (postmortem_is_excused_unseen(scene, circle, suspect->rank, unseen) ||
            (!suspect->device && postmortem_in_odd_group(inquest, suspect->rank, odd)))
            continue;
        inquest->suspect[kept++] = *suspect;
    }
    dropped = inquest->suspects - kept;
    inquest->suspects = kept;
    return dropped;
}

/* Who perhaps only waits is no suspect beside one that certainly does not. */
static void postmortem_drop_perhaps(struct inquest *inquest)
{
    size_t kept = 0, certain = 0;

    for (size_t i = 0; i < inquest->suspects; i++)
        certain += !inquest->suspect[i].perhaps;
    for (size_t i = 0; i < inquest->suspects && certain; i++) {
        if (!inquest->suspect[i].perhaps)
            inquest->suspect[kept++] = inquest->suspect[i];
    }
    if (certain)
        inquest->suspects = kept;
}

/* A member of a group in which the rank has entered an op, that left no dump or an empty one; DUMP_NONE. */
static uint32_t postmortem_unseen_partner(const struct inquest *inquest, uint32_t rank)
{
    const struct scene *scene = inquest->scene;

    for (uint32_t i = inquest->first[rank]; i < inquest->first[rank + 1]; i++) {
        const struct circle *circle = &scene->circle[inquest->group_of[i]];
        const struct seat *seat = scene_seat(scene, inquest->group_of[i], rank);

        if (circle->pairs || circle->all_known || !seat->known || seat->entered < 0)
            continue;
        for (uint32_t m = 0; m < circle->count; m++) {
            uint8_t left = scene->dumps->rank[circle->seat[m].rank].left;

            if (left == DUMP_NOTHING || left == DUMP_EMPTY)
                return circle->seat[m].rank;
        }
    }
    return DUMP_NONE;
}

/* Where all that remain perhaps only wait for a rank that left no dump, while few dumps are missing, that rank is the
 * likelier culprit: a stopped process writes none.
 */
static void postmortem_suspect_partners(struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;
    struct postmortem_suspect *suspect = inquest->suspect;
    size_t kept = 0;

    for (size_t i = 0; i < inquest->suspects; i++) {
        if (!suspect[i].perhaps || postmortem_is_unseen(scene, suspect[i].rank) ||
            suspect[i].pair || postmortem_unseen_partner(inquest, suspect[i].rank) == DUMP_NONE)
            return;
    }
    for (size_t i = 0; i < inquest->suspects; i++) {
        uint32_t partner = postmortem_unseen_partner(inquest, suspect[i].rank), k = 0;

        while (k < kept && suspect[k].rank != partner)
            k++;
        if (k == kept)
            suspect[kept++] = (struct postmortem_suspect){ .rank = partner,
                                                           .group = suspect[i].group,
                                                           .waiters = suspect[i].waiters,
                                                           .perhaps = true };
    }
    inquest->suspects = kept;
}

/* Where all that remain perhaps only wait, and many dumps are missing, these would decide. */
static size_t postmortem_drop_guesses(struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;
    size_t guesses = inquest->suspects;

    if (!guesses || !inquest->suspect[0].perhaps || /* then all are: postmortem_drop_perhaps() */
        (double)postmortem_count_unseen(scene) <=
            scene->limits.dumps_unseen_share * (double)scene->dumps->ranks)
        return 0;
    inquest->suspects = 0;
    return guesses;
}

/* Once somebody is named: ranks that left nothing may have stopped as well, unless so many dumps are missing that
 * they were not all collected.
 */
static int postmortem_report_unseen(const struct inquest *inquest, const char *run,
                                    struct findings *findings)
{
    const struct scene *scene = inquest->scene;
    size_t ranks = scene->dumps->ranks, unseen = 0, count = 0;
    CLEAN(free_clean) uint32_t *list = calloc(ranks + 1, sizeof(*list));

    if (!list)
        return -ENOMEM;
    for (uint32_t r = 0; r < ranks; r++) {
        if (!postmortem_is_unseen(scene, r))
            continue;
        unseen++;
        if (!inquest_suspects(inquest, r))
            list[count++] = r;
    }
    return count && (double)unseen <= scene->limits.dumps_unseen_share * (double)ranks
               ? inquest_report_unseen(inquest, list, count, run, findings)
               : 0;
}

/* Is every suspect itself in an op that all members of its group have entered?  Then it did not stop by itself. */
static bool postmortem_all_held_up(const struct inquest *inquest)
{
    const struct scene *scene = inquest->scene;

    for (size_t s = 0; s < inquest->suspects; s++) {
        const struct postmortem_suspect *suspect = &inquest->suspect[s];
        bool held = false;

        for (uint32_t i = inquest->first[suspect->rank]; i < inquest->first[suspect->rank + 1];
             i++) {
            uint32_t g = inquest->group_of[i];
            const struct circle *circle = &scene->circle[g];
            const struct seat *seat = scene_seat(scene, g, suspect->rank);

            held |= !circle->pairs && seat->pending && circle_all_known(circle) &&
                    circle->slowest > circle->slowest_done;
        }
        if (!held || suspect->device || suspect->pair || suspect->transfer)
            return false;
    }
    return scene->states && inquest->suspects;
}

/* Groups that were entered in opposite order.  1: reported; 0: none; -ENOMEM. */
static int postmortem_report_orders(struct inquest *inquest, bool mismatches, const char *run,
                                    struct findings *findings)
{
    int reported = inquest->suspects > 1 ? inquest_report_opposite(inquest, run, findings) : 0;

    return reported == 0 && !mismatches && postmortem_all_held_up(inquest)
               ? inquest_report_crossed(inquest->scene, run, findings)
               : reported;
}

static int postmortem_inquest_run(struct inquest *inquest, const char *run,
                                  struct findings *findings)
{
    const struct scene *scene = inquest->scene;
    CLEAN(free_clean) bool *odd = calloc(scene->dumps->groups + 1, sizeof(*odd));
    size_t edges = 0, dropped;
    int result = odd ? postmortem_inquest_groups(inquest) : -ENOMEM;
    int mismatches = 0, opposites = 0;

    if (scene->fresh)
        return MIN(result, 0);
    if (result == 0)
        result = mismatches = postmortem_mismatches(scene, run, findings, odd);
    if (result == 0 && (result = inquest_report_swapped(scene, run, findings)) > 0)
        return 0;
    if (result >= 0)
        result = inquest_frontier(inquest);
    if (result >= 0)
        result = postmortem_find_suspects(inquest, odd, &edges);
    if (result == 0 && edges && !inquest->suspects && !scene->states) {
        inquest->certainly = true; /* what may be over explains nobody, before all are explained */
        edges = 0;
        result = postmortem_find_suspects(inquest, odd, &edges);
    }
    if (result < 0)
        return result;
    if (mismatches &&
        !scene->states) /* what is over does not show, and ops that differ never are */
        inquest->suspects = 0;
    dropped = postmortem_drop_unseen(inquest, odd);
    postmortem_drop_perhaps(inquest);
    dropped += postmortem_drop_guesses(inquest);
    postmortem_suspect_partners(inquest);
    if ((!mismatches || scene->states) && postmortem_find_idle(inquest, mismatches) < 0)
        return -ENOMEM;
    if (!mismatches && inquest_outrun(inquest) < 0)
        return -ENOMEM;
    opposites = postmortem_report_orders(inquest, mismatches, run, findings);
    if (opposites)
        return MIN(opposites, 0);
    if (inquest->suspects)
        result = inquest_report_hang(inquest, run, findings);
    if (inquest->suspects || mismatches)
        return result < 0 ? result : postmortem_report_unseen(inquest, run, findings);
    if (dropped)
        return inquest_report_missing(inquest, run, findings);
    opposites = inquest_report_crossed(scene, run, findings);
    if (opposites)
        return MIN(opposites, 0);
    return edges ? inquest_report_circle(inquest, run, findings)
                 : inquest_report_rest(scene, run, findings);
}

void postmortem_limits(const struct findings *findings, struct thresholds *ret)
{
    thresholds_default(ret);
    if (findings->limits)
        *ret = *findings->limits;
}

void postmortem_saw(struct findings *findings, int64_t real_ns)
{
    if (real_ns < EARLIEST_NS)
        return;
    if (!findings->from_real_ns || real_ns < findings->from_real_ns)
        findings->from_real_ns = real_ns;
    findings->until_real_ns = MAX(findings->until_real_ns, real_ns);
}

static void postmortem_saw_ops(const struct dumps *dumps, struct findings *findings)
{
    for (size_t r = 0; r < dumps->ranks; r++) {
        for (size_t i = 0; i < dumps->rank[r].ops; i++)
            postmortem_saw(findings, dumps->rank[r].op[i].created_ns);
    }
}

int postmortem_dumps(const struct dumps *dumps, const char *run, struct findings *findings)
{
    CLEAN(scene_fini) struct scene scene = { 0 };
    CLEAN(postmortem_inquest_fini) struct inquest inquest = { .scene = &scene };
    struct thresholds limits;
    int result;

    postmortem_limits(findings, &limits);
    postmortem_saw_ops(dumps, findings);
    result = scene_init(&scene, dumps, &limits);
    return result < 0 ? result : postmortem_inquest_run(&inquest, run, findings);
}
