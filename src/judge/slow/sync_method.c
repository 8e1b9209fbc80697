/* sync_method.c - has a slow transfer changed algorithm, protocol or channels since it was fast?
 *
 * The communication library chooses channels, algorithm and protocol by what paths it finds.  What it chose is reported
 * for each communicator, op and size; here it is kept which of these ways were in use in steps in which the
 * transfer took what it usually does.  One that was is no cause, however much it differs from others.  So a change
 * that costs nothing is never reported, nor is an old one when the network becomes slow today; and a
 * library that alternates between two ways has both.  After a restart communicators are others: those of
 * the same name, size and first member had the same transfers (as in sync.c).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/slow/sync_private.h"
#include "wire/names.h"

#define MOVES_MAX 65536
/* A way that sets in at the end of a step leaves that one as it was. */
#define SOUND_STEPS 3

static bool sync_way_is(const struct sync_way *left, const struct sync_way *right)
{
    return left->channels == right->channels && strcmp(left->text, right->text) == 0;
}

static bool sync_way_is_fewer(const struct sync_way *way, const struct sync_way *than)
{
    return way->channels && way->channels < than->channels; /* 0: it does not say */
}

static bool sync_way_differs(const struct sync_way *way, const struct sync_way *from)
{
    return sync_way_is_fewer(way, from) || strcmp(way->text, from->text) != 0;
}

/* ---- what is told ---- */

static struct sync_move *sync_move_get(struct sync *sync, uint32_t comm, uint8_t op, uint64_t bytes)
{
    uint64_t key = hash64_u64(hash64_u64(comm, op), bytes), *first;
    const uint64_t *at = map_get(&sync->move_by_key, key);

    if (at)
        return &sync->move[*at];
    if (sync->moves >= MOVES_MAX)
        return NULL;
    if (!ARRAY_FIT(sync->move, sync->move_room, sync->moves + 1))
        return NULL;
    first = map_put(&sync->move_by_comm, comm, MODEL_NONE);
    if (!first || !map_put(&sync->move_by_key, key, sync->moves))
        return NULL;
    sync->move[sync->moves] =
        (struct sync_move){ .comm = comm, .op = op, .bytes = bytes, .next = (uint32_t)*first };
    *first = sync->moves;
    return &sync->move[sync->moves++];
}

int sync_method(struct judge_state *judge, const struct fact_method *fact)
{
    struct sync *sync = judge->sync;
    const uint64_t *slot = map_get(&judge->model.comm_by_id, fact->comm);
    struct sync_way way = { .channels = fact->channels };
    uint64_t step = fact->step == UINT64_MAX ? 0 : fact->step;
    struct sync_move *move;

    if (fact->attempt != judge->model.attempt || !slot)
        return 0; /* too late to matter, or of nobody */
    memcpy(way.text, fact->text, sizeof(way.text));
    move = sync_move_get(sync, (uint32_t)*slot, fact->op, bytes_round(fact->bytes));
    if (!move)
        return sync->moves >= MOVES_MAX ? 0 : -ENOMEM;
    /* All members tell the same.  In one step the least counts, so that it does not matter who tells last. */
    if (move->known && (step < move->step || sync_way_is(&way, &move->now) ||
                        (step == move->step && way.channels >= move->now.channels)))
        return 0;
    move->known = move->fresh = true;
    move->step = step;
    move->now = way;
    return 0;
}

/* ---- the past ---- */

static uint64_t sync_method_past_key(const struct judge_state *judge, const struct sync_move *move)
{
    const struct model_comm *comm = &judge->model.comm[move->comm];
    uint64_t key = hash64(comm->kind, comm->name, strlen(comm->name));

    key = hash64_u64(hash64_u64(key, comm->size), comm->size ? model_member(comm, 0) : 0);
    return hash64_u64(hash64_u64(key, move->op), move->bytes);
}

static void sync_past_keep(struct judge_state *judge, const struct sync_move *move)
{
    struct sync *sync = judge->sync;
    uint64_t *at;

    if (move->sound.count == 0 || sync->pasts >= MOVES_MAX)
        return;
    if (!ARRAY_FIT(sync->past_way, sync->past_room, sync->pasts + 1))
        return; /* before its key is there */
    at = map_put(&sync->past_ways, sync_method_past_key(judge, move), sync->pasts);
    if (!at)
        return;
    sync->past_way[*at] = move->sound;
    sync->pasts += *at == sync->pasts;
}

static void sync_past_load(const struct judge_state *judge, struct sync_move *move)
{
    const struct sync *sync = judge->sync;
    const uint64_t *at = map_get(&sync->past_ways, sync_method_past_key(judge, move));

    move->past_loaded = true;
    if (!at)
        return;
    move->sound = sync->past_way[*at];
    for (uint32_t i = 0; i < move->sound.count; i++)
        move->sound.way[i].past = true;
}

void sync_method_attempt(struct judge_state *judge)
{
    struct sync *sync = judge->sync;

    for (uint32_t i = 0; i < sync->moves; i++)
        sync_past_keep(judge, &sync->move[i]);
    map_fini(&sync->move_by_key);
    map_fini(&sync->move_by_comm);
    sync->moves = 0;
}

void sync_method_fini(struct sync *sync)
{
    map_fini(&sync->move_by_key);
    map_fini(&sync->move_by_comm);
    map_fini(&sync->past_ways);
    free(sync->move);
    free(sync->past_way);
}

/* ---- what was in use when all was well ---- */

static bool sync_is_newer(const struct sync_way *way, const struct sync_way *than)
{
    return way->past != than->past ? than->past : way->step > than->step;
}

/* Where a way is kept, or will be: the one that was in use longest ago makes room. */
static struct sync_way *sync_way_place(struct sync_ways *ways, const struct sync_way *now)
{
    struct sync_way *oldest = &ways->way[0];

    for (uint32_t i = 0; i < ways->count; i++) {
        if (sync_way_is(&ways->way[i], now))
            return &ways->way[i];
        if (sync_is_newer(oldest, &ways->way[i]))
            oldest = &ways->way[i];
    }
    if (ways->count < SYNC_WAYS)
        oldest = &ways->way[ways->count++];
    *oldest = *now;
    return oldest;
}

/* Another step was as it should be with this way. */
static uint32_t sync_way_count(struct sync_ways *ways, const struct sync_way *now,
                               const struct sync_link *link)
{
    struct sync_way *way = sync_way_place(ways, now);

    if (way->steps == 0 || way->bytes != link->bytes || link->sum_ms < way->ms)
        way->ms = link->sum_ms;
    way->bytes = link->bytes;
    way->past = false;
    way->step = link->step;
    return ++way->steps;
}

static const struct sync_link *sync_move_link(const struct judge_state *judge,
                                              const struct sync_move *move)
{
    return sync_link_find(judge->sync, move->comm, MODEL_NONE, MODEL_NONE);
}

/* Longer than it usually is, not only by noise. */
static bool sync_is_long(const struct judge_state *judge, const struct sync_link *link, double ms)
{
    return detect_past_is_high(&link->past, ms, judge->sync->rule.least);
}

void sync_method_step(struct judge_state *judge)
{
    struct sync *sync = judge->sync;

    for (uint32_t i = 0; i < sync->moves; i++) {
        struct sync_move *move = &sync->move[i];
        const struct sync_link *link;

        if (!move->fresh || move->step > judge->job_step->step)
            continue;
        link = sync_move_link(judge, move);
        if (!link || link->step != judge->job_step->step)
            continue;
        if (!move->past_loaded)
            sync_past_load(judge, move);
        if (sync_is_long(judge, link, link->sum_ms))
            continue;
        move->fresh = sync_way_count(&move->sound, &move->now, link) < SOUND_STEPS;
    }
}

/* ---- what is otherwise now ---- */

/* With it the transfer takes what it usually does: in enough steps, and by what is usual now, which may be less than
 * it was then.
 */
static bool sync_way_is_sound(const struct judge_state *judge, const struct sync_way *way,
                              const struct sync_link *link)
{
    return way->steps >= SOUND_STEPS &&
           (way->bytes != link->bytes || !sync_is_long(judge, link, way->ms));
}

/* The newest way with which it was as it should be; NULL: none, or it is the one of now. */
static const struct sync_way *sync_way_before(const struct judge_state *judge,
                                              const struct sync_move *move,
                                              const struct sync_link *link)
{
    const struct sync_way *before = NULL;

    for (uint32_t i = 0; i < move->sound.count; i++) {
        const struct sync_way *way = &move->sound.way[i];

        if (!sync_way_is_sound(judge, way, link))
            continue;
        if (sync_way_is(way, &move->now))
            return NULL;
        if (!before || sync_is_newer(way, before))
            before = way;
    }
    return before;
}

static bool sync_method_is_known(const struct judge_state *judge, const struct sync_move *move,
                                 const struct sync_link *link)
{
    for (uint32_t i = 0; i < move->sound.count; i++) {
        if (sync_way_is_sound(judge, &move->sound.way[i], link))
            return true;
    }
    return false;
}

/* How most others of its kind and size that are not slow move the same; *count of these. */
static const struct sync_way *sync_way_of_peers(const struct judge_state *judge,
                                                const struct sync_move *move, uint32_t *count)
{
    const struct sync *sync = judge->sync;
    const struct model_comm *comm = &judge->model.comm[move->comm];
    const struct sync_way *usual = NULL;
    uint32_t peers = 0, lead = 0;

    *count = 0;
    for (int pass = 0; pass < 2; pass++) { /* the only one that can be more than half; is it? */
        for (uint32_t i = 0; i < sync->moves; i++) {
            const struct sync_move *other = &sync->move[i];
            const struct model_comm *its = &judge->model.comm[other->comm];
            const struct sync_link *link;

            if (other->comm == move->comm || other->op != move->op || other->bytes != move->bytes ||
                its->kind != comm->kind || its->size != comm->size)
                continue;
            link = sync_move_link(judge, other);
            if (!link || link->slow || !sync_link_is_active(link, judge->job_step->step))
                continue;
            if (pass == 1) {
                *count += sync_way_is(usual, &other->now);
                continue;
            }
            peers++;
            if (lead == 0)
                usual = &other->now;
            lead += sync_way_is(usual, &other->now) ? 1u : UINT32_MAX;
        }
        if (peers == 0)
            return NULL;
    }
    return 2 * *count > peers ? usual : NULL;
}

/* Fewer channels say more than another algorithm, and a large transfer more than a small one. */
static bool sync_is_clearer(const struct sync_otherwise *one, const struct sync_otherwise *than)
{
    bool fewer = sync_way_is_fewer(&one->move->now, one->way);

    if (!than->move || fewer != sync_way_is_fewer(&than->move->now, than->way))
        return !than->move || fewer;
    return one->move->bytes > than->move->bytes;
}

/* What of a link's collectives is moved otherwise; `known`: is anything known of them? */
static bool sync_link_otherwise(const struct judge_state *judge, const struct sync_link *link,
                                struct sync_otherwise *ret, bool *known)
{
    const struct sync *sync = judge->sync;
    const uint64_t *first =
        link->from == MODEL_NONE ? map_get(&sync->move_by_comm, link->comm) : NULL;

    *ret = (struct sync_otherwise){ 0 };
    *known = first != NULL;
    for (uint64_t at = first ? *first : MODEL_NONE; at < sync->moves; at = sync->move[at].next) {
        struct sync_otherwise found = { .move = &sync->move[at] };

        found.way = sync_way_before(judge, found.move, link);
        if (found.way && sync_way_differs(&found.move->now, found.way) &&
            sync_is_clearer(&found, ret))
            *ret = found;
    }
    return ret->move != NULL;
}

/* The same against its peers, where nothing is known of its own past. */
static bool sync_link_unlike_peers(const struct judge_state *judge, const struct sync_link *link,
                                   struct sync_otherwise *ret)
{
    const struct sync *sync = judge->sync;
    const uint64_t *first =
        link->from == MODEL_NONE ? map_get(&sync->move_by_comm, link->comm) : NULL;

    *ret = (struct sync_otherwise){ 0 };
    for (uint64_t at = first ? *first : MODEL_NONE; at < sync->moves; at = sync->move[at].next) {
        struct sync_otherwise found = { .move = &sync->move[at] };

        if (sync_method_is_known(judge, found.move, link))
            continue;
        found.way = sync_way_of_peers(judge, found.move, &found.peers);
        if (found.way && sync_way_differs(&found.move->now, found.way) &&
            sync_is_clearer(&found, ret))
            *ret = found;
    }
    return ret->move != NULL;
}

/* Against its own past it is a cause only where most of what is slow has changed. */
bool sync_method_find(const struct judge_state *judge, const struct sync_link *worst,
                      struct sync_otherwise *ret)
{
    const struct sync *sync = judge->sync;
    struct sync_otherwise other;
    uint32_t all = 0, changed = 0;
    bool known, found = sync_link_otherwise(judge, worst, ret, &known);

    if (!found && known)
        found = sync_link_unlike_peers(judge, worst, ret);
    if (!found)
        return false;
    for (uint32_t i = 0; !ret->peers && i < sync->links; i++) {
        if (!sync->link[i].slow || !sync_link_is_active(&sync->link[i], judge->job_step->step))
            continue;
        changed += sync_link_otherwise(judge, &sync->link[i], &other, &known);
        all += known;
    }
    ret->fewer = sync_way_is_fewer(&ret->move->now, ret->way);
    ret->slow = all;
    ret->changed = changed;
    return ret->peers || 2 * changed > all;
}

/* ---- in words ---- */

static const char *sync_than_what(const struct sync_otherwise *found)
{
    if (found->peers)
        return "its peers' communicators";
    return found->way->past ? "before the restart" : "before";
}

void sync_method_cause(const struct sync_otherwise *found, const char *method, char *out,
                       size_t room)
{
    const struct sync_way *now = &found->move->now, *way = found->way;
    const char *were = found->peers ? "theirs" : "were", *was = found->peers ? "theirs" : "was";

    if (found->fewer)
        snprintf(out, room, "fewer channels than %s: %u, %s %u%s", sync_than_what(found),
                 now->channels, were, way->channels, method);
    else
        snprintf(out, room, "another algorithm than %s: %.20s, %s %.20s%s", sync_than_what(found),
                 now->text, was, way->text, method);
}

static void sync_way_describe_peers(const struct judge_state *judge,
                                    const struct sync_otherwise *found, struct verdict *draft)
{
    uint32_t peers;
    const struct sync_way *theirs = sync_way_of_peers(judge, found->move, &peers);

    if (theirs)
        verdict_because(draft, "ring",
                        "%u other communicator%s of its kind and size, not slow: %u channels, %s",
                        peers, peers == 1 ? "" : "s", theirs->channels, theirs->text);
}

void sync_method_why(const struct judge_state *judge, const struct sync_otherwise *found,
                     struct verdict *draft)
{
    const struct sync_move *move = found->move;
    const struct sync_way *way = found->way;
    char since[40] = "in this attempt", when[64] = "before the restart";

    if (move->step > 0 && !way->past)
        snprintf(since, sizeof(since), "since step %llu", (unsigned long long)move->step);
    if (!way->past)
        snprintf(when, sizeof(when), "while it was fast");
    if (found->peers)
        verdict_because(draft, "ring", "%s of %.0f kB in %s: %u channels, %s", name_of_op(move->op),
                        (double)move->bytes / 1e3, judge->model.comm[move->comm].name,
                        move->now.channels, move->now.text);
    else
        verdict_because(
            draft, "ring", "%s of %.0f kB in %s: %u channels, %s, %s; %u channels, %s, %s",
            name_of_op(move->op), (double)move->bytes / 1e3, judge->model.comm[move->comm].name,
            move->now.channels, move->now.text, since, way->channels, way->text, when);
    sync_way_describe_peers(judge, found, draft);
    if (found->slow > 1)
        verdict_because(draft, "ring",
                        "%u of %u slow communicators changed algorithm, protocol or channel count "
                        "since they were fast",
                        found->changed, found->slow);
}
