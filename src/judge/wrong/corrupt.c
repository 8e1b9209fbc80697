/* corrupt.c - a job that continues, and computes wrong results.
 *
 * No rank is slow and none fails, so only numbers show it: digests of parameters that should be equal on all replicas or
 * should change, losses and gradient norms that are not finite or jump.  The rank that was wrong first is named: one step
 * later the gradients have carried the error to all ranks.
 *
 * Each step brings the digest of one part of a rank's parameters, and parts take turns.  This file keeps the digests by rank
 * and part and passes them to corrupt_groups.c, which compares replicas; corrupt_values.c judges losses and norms.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/wrong/corrupt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/wrong/corrupt_private.h"

/* ---- what is remembered ---- */

/* The index of the part in `part`, added if it is new; NO_PART: no room. */
static uint32_t corrupt_part_slot(struct replicas *replicas, uint32_t rank,
                                  const struct fact_step *step)
{
    uint64_t key = hash64_u64(hash64_u64(rank, step->digest_parts), step->digest_part), *slot;

    slot = map_get(&replicas->part_slot, key);
    if (slot)
        return (uint32_t)*slot;
    if (replicas->parts == CORRUPT_PARTS_MAX ||
        !ARRAY_FIT(replicas->part, replicas->room, replicas->parts + 1))
        return NO_PART;
    if (!map_put(&replicas->part_slot, key, replicas->parts))
        return NO_PART;
    replicas->part[replicas->parts] = (struct part_seen){ 0 };
    return replicas->parts++;
}

static bool corrupt_shape_updates(struct replicas *replicas, const struct fact_shape *shape)
{
    uint64_t *slot = map_get(&replicas->shape_updates, shape->hash), found = 0;

    if (slot)
        return *slot;
    for (uint32_t i = 0; i < shape->count && !found; i++)
        found = (shape->item[i].kind == ITEM_PHASE || shape->item[i].kind == ITEM_SPAN) &&
                shape->item[i].what == LOCKSTEP_PHASE_OPTIMIZER;
    map_put(&replicas->shape_updates, shape->hash, found);
    return found;
}

/* Stores the digest after it was judged. */
static void corrupt_part_update(struct corrupt_book *book, const struct digest_member *member,
                                uint64_t step)
{
    struct rank_numbers *rank = &book->rank[member->rank];
    struct part_seen *part = part_of(book, member);

    if (!part || member->same)
        return;
    if (part->step) {
        rank->longest_unchanged = MAX(rank->longest_unchanged, rank->updates - part->updates);
        rank->changed = part->changed = true;
    }
    part_mark(book, member, &part->stuck, false);
    part->digest = member->digest;
    part->step = step + 1;
    part->updates = rank->updates + member->updates;
}

/* The step in which the digest was taken.  A device's digest arrives up to DIGEST_LATE steps later, and its part number shows
 * when its turn was.  If turns are too close for that, or the sender has another order of turns, it is the step that sent it.
 */
static uint64_t corrupt_turn_of(struct rank_numbers *rank, const struct fact_step *step)
{
    uint64_t parts = step->digest_parts, turn = step->step;
    uint64_t back = (turn % parts + parts - step->digest_part) % parts;

    if (parts >= 2 * DIGEST_LATE && back <= DIGEST_LATE && back <= turn &&
        turn - back >= rank->turn)
        turn -= back;
    rank->turn = turn + 1;
    return turn;
}

static uint32_t corrupt_members_gather(const struct judge_state *judge, struct corrupt_book *book,
                                       struct digest_member *member)
{
    const struct job_step *job_step = judge->job_step;
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        const struct fact_step *step = &job_step->step_of[rank];
        struct digest_member *at = &member[count];
        const struct part_seen *part;

        if (!job_step->shape_of[rank] || step->digest_parts == 0)
            continue;
        *at = (struct digest_member){ .turn = corrupt_turn_of(&book->rank[rank], step),
                                      .digest = hash64_u64(step->digest[0], step->digest[1]),
                                      .class = job_step->shape_of[rank]->class->class,
                                      .rank = rank,
                                      .part_number = step->digest_part,
                                      .part_count = step->digest_parts,
                                      .part_slot = corrupt_part_slot(&book->replicas, rank, step) };
        book->rank[rank].parts = step->digest_parts;
        at->updates = corrupt_shape_updates(&book->replicas, &job_step->shape_of[rank]->fact);
        part = part_of(book, at);
        at->same = part && part->step && part->digest == at->digest;
        at->first = part && !part->step;
        count++;
    }
    return count;
}

/* ---- digests that wait for those of replicas ---- */

static void corrupt_replicas_forget(struct corrupt_book *book)
{
    book->replicas.waiting_count = 0;
}

/* If there is no memory, they are not compared. */
static void corrupt_digests_hold(struct corrupt_book *book, const struct digest_member *member,
                                 uint32_t count)
{
    struct replicas *replicas = &book->replicas;

    if (count == 0)
        return;
    if (!ARRAY_FIT(replicas->waiting, replicas->waiting_room, replicas->waiting_count + count))
        return;
    memcpy(replicas->waiting + replicas->waiting_count, member, count * sizeof(*member));
    replicas->waiting_count += count;
}

/* ---- parameters that do not change ---- */

/* A part that never changed may be frozen by design, as most are in fine-tuning, unless no part ever changes. */
static bool corrupt_member_is_stuck(const struct judge_state *judge,
                                    const struct corrupt_book *book,
                                    const struct digest_member *member)
{
    const struct rank_numbers *rank = &book->rank[member->rank];
    const struct part_seen *part = part_of(book, member);
    uint32_t parts = judge->job_step->step_of[member->rank].digest_parts;
    double updates, least = judge->limits.verdict_steps;

    if (!part || !member->same || part->differs)
        return false;
    updates = rank->updates - part->updates; /* all of which ran between the two digests */
    if (updates < MAX(least, 2.0 * rank->longest_unchanged))
        return false;
    return part->changed || (!rank->changed && updates >= 2.0 * parts);
}

static void corrupt_stuck_accuse(struct judge_state *judge, const struct corrupt_book *book,
                                 const struct digest_member *first, struct verdict *draft,
                                 uint32_t of)
{
    const struct part_seen *part = part_of(book, first);
    struct tracked_verdict *tracked;
    bool fresh;

    draft->layer = LAYER_USER_CODE;
    draft->confidence = part->changed ? 0.8 : 0.7;
    draft->since_step = part->step - 1;
    snprintf(draft->cause, sizeof(draft->cause),
             "parameters do not change although the optimizer runs");
    verdict_because(draft, "digest",
                    "the digest has not changed since step %llu on %u of %u ranks; the optimizer "
                    "ran %u times since then",
                    (unsigned long long)draft->since_step,
                    draft->rank_count ? draft->rank_count : of, of,
                    book->rank[first->rank].updates - part->updates);
    verdict_because(draft, "digest", "%s",
                    part->changed ? "the digest changed before that"
                                  : "the digest has not changed since the first step");
    tracked = judge_state_find(judge, draft, &fresh);
    if (tracked)
        tracked->seen_step = judge->job_step->step;
}

static void stuck_judge(struct judge_state *judge, struct corrupt_book *book,
                        const struct digest_member *member, uint32_t count)
{
    struct verdict draft = { .kind = VERDICT_CORRUPTION };
    const struct digest_member *first = NULL;
    uint32_t stuck = 0;

    for (uint32_t i = 0; i < count; i++)
        stuck += corrupt_member_is_stuck(judge, book, &member[i]);
    if (stuck == 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (!corrupt_member_is_stuck(judge, book, &member[i]))
            continue;
        first = first ? first : &member[i];
        if (stuck == count)
            break; /* all ranks: none is named */
        part_mark(book, &member[i], &part_of(book, &member[i])->stuck, true);
        if (!corrupt_open(judge, member[i].rank))
            judge_state_add_rank(judge, &draft, member[i].rank);
    }
    if (stuck == count)
        snprintf(draft.group, sizeof(draft.group), "all ranks");
    if (stuck == count || draft.rank_count > 0)
        corrupt_stuck_accuse(judge, book, first, &draft, count);
}

static void corrupt_replicas_step(struct judge_state *judge, struct corrupt_book *book)
{
    const struct job_step *job_step = judge->job_step;
    CLEAN(free_clean)
    struct digest_member *member = calloc(judge->model.world, sizeof(*member));
    uint32_t count;

    if (!member)
        return;
    count = corrupt_members_gather(judge, book, member);
    corrupt_digests_hold(book, member, count);
    groups_judge(judge, book);
    stuck_judge(judge, book, member, count);
    for (uint32_t i = 0; i < count; i++)
        corrupt_part_update(book, &member[i], job_step->step);
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (job_step->shape_of[rank])
            book->rank[rank].updates +=
                corrupt_shape_updates(&book->replicas, &job_step->shape_of[rank]->fact);
    }
}

/* ---- the judge ---- */

int corrupt_book_create(struct corrupt_book **ret)
{
    struct corrupt_book *book = calloc(1, sizeof(*book));

    if (!book)
        return -ENOMEM;
    *ret = book;
    return 0;
}

void corrupt_book_destroy(struct corrupt_book *book)
{
    if (!book)
        return;
    map_fini(&book->replicas.clean_step);
    map_fini(&book->replicas.part_slot);
    map_fini(&book->replicas.shape_updates);
    free(book->replicas.part);
    free(book->replicas.waiting);
    free(book->rank);
    free(book);
}

size_t corrupt_book_bytes(const struct corrupt_book *book)
{
    const struct replicas *replicas = &book->replicas;

    return sizeof(*book) + book->world * sizeof(*book->rank) + map_bytes(&replicas->clean_step) +
           map_bytes(&replicas->part_slot) + map_bytes(&replicas->shape_updates) +
           replicas->room * sizeof(*replicas->part) +
           replicas->waiting_room * sizeof(*replicas->waiting);
}

/* The newest clean steps stay known: people ask for them. */
void corrupt_attempt(struct corrupt_book *book)
{
    map_fini(&book->replicas.part_slot);
    book->replicas.part_slot = (struct map){ 0 };
    map_fini(&book->replicas.shape_updates); /* the next attempt has other shapes */
    book->replicas.parts = 0;
    corrupt_replicas_forget(book);
    if (book->rank)
        memset(book->rank, 0, book->world * sizeof(*book->rank));
    book->finite = false;
    book->streak = (struct streak){ 0 };
    book->moments = (struct moments_point){ 0 };
}

/* Parts take turns, so the next digest of a wrong part comes many steps later; its verdict stays open. */
static void wrong_stays(struct judge_state *judge, const struct corrupt_book *book)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        struct tracked_verdict *tracked =
            book->rank[rank].wrong_parts ? corrupt_open(judge, rank) : NULL;

        if (tracked)
            tracked->seen_step = judge->job_step->step;
    }
}

void corrupt_numbers(struct judge_state *judge)
{
    struct corrupt_book *book = judge->corrupt;

    if (!judge->job_step || !ARRAY_FIT_ZERO(book->rank, book->world, judge->model.world))
        return;
    if (book->streak.steps == 0) /* parameters that are not finite differ for that reason alone */
        corrupt_replicas_step(judge, book);
    else
        corrupt_replicas_forget(book);
    values_step(judge, book);
    wrong_stays(judge, book);
    moments_step(judge, book);
    moments_stay(judge, book);
}

const struct judge judge_corrupt = { .name = "corrupt",
                                     .step = corrupt_numbers,
                                     .evidence = EVIDENCE_NONE };
