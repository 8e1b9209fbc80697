/* corrupt_replicas.c - parameters that should be equal, and are not; that should change, and do not.
 *
 * Each step brings the digest of one part of a rank's parameters, and parts take turns, so only the same
 * part in the same step is compared.  Who holds the same parameters is told by the layout: same place
 * in tensor, pipeline and expert groups.  Without a layout ranks of one class are taken for replicas once
 * they have been equal: sharded optimizers make digests that never are.
 *
 * One look is enough.  A digest is one record of the ring, so it is never half old; it is taken on the stream
 * on which the optimizer runs, and told at most eight steps later, while a part's turn comes every sixteen
 * steps or less often: two digests of a part in one step are of the same step.  A second look would
 * miss what heals by itself, as parameters do that an owner hands out anew in each step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/corrupt_parts.h"

#define NO_PART UINT32_MAX

struct member { /* a rank with a digest in this step */
    uint64_t key, digest;
    uint32_t rank;
    uint32_t part; /* in replicas.part */
    bool layout;
    bool same;    /* as when it was last seen */
    bool updates; /* an optimizer runs in this step */
};

struct group { /* replicas with digests of the same part, by digest */
    const struct member *member;
    uint32_t count;
    uint32_t right,
        rights;     /* those that are taken for right: the first, and how many; 0: cannot tell */
    uint64_t clean; /* newest step at which all were equal, plus one; 0: never */
    bool stuck;     /* the others are what they were before, while these have changed */
};

static uint64_t replicas_key(const struct model *model, const struct whole *whole, uint32_t rank)
{
    const struct model_rank *at = &model->rank[rank];
    const struct fact_step *step = &whole->step_of[rank];
    uint64_t key = hash64_u64(step->digest_parts, step->digest_part);

    if (!at->has_layout)
        return hash64_u64(key, whole->shape_of[rank]->class->class);
    for (int field = 0; field < LAYOUT_FIELDS; field++)
        key = hash64_u64(key, at->size[field]);
    key = hash64_u64(key, at->at[LAYOUT_TP]);
    key = hash64_u64(key, at->at[LAYOUT_PP]);
    return hash64_u64(key, at->at[LAYOUT_EP]);
}

/* ---- what is remembered ---- */

/* Where the part is remembered, made when it is new; NO_PART: no room. */
static uint32_t part_place(struct replicas *replicas, uint32_t rank, const struct fact_step *step)
{
    uint64_t key = hash64_u64(hash64_u64(rank, step->digest_parts), step->digest_part), *slot;

    slot = map_get(&replicas->place, key);
    if (slot)
        return (uint32_t)*slot;
    if (replicas->parts == replicas->room) {
        uint32_t room = MAX(64, replicas->room * 2);
        struct part_seen *grown =
            room > CORRUPT_PARTS_MAX ? NULL : realloc(replicas->part, room * sizeof(*grown));

        if (!grown)
            return NO_PART;
        replicas->part = grown;
        replicas->room = room;
    }
    if (!map_put(&replicas->place, key, replicas->parts))
        return NO_PART;
    replicas->part[replicas->parts] = (struct part_seen){ 0 };
    return replicas->parts++;
}

static bool shape_updates(struct replicas *replicas, const struct fact_shape *shape)
{
    uint64_t *slot = map_get(&replicas->updating, shape->hash), found = 0;

    if (slot)
        return *slot;
    for (uint32_t i = 0; i < shape->count && !found; i++)
        found = (shape->item[i].kind == ITEM_PHASE || shape->item[i].kind == ITEM_SPAN) &&
                shape->item[i].what == LOCKSTEP_PHASE_OPTIMIZER;
    map_put(&replicas->updating, shape->hash, found);
    return found;
}

static void part_mark(struct corrupt_book *book, const struct member *member, bool *flag, bool on)
{
    if (*flag != on)
        book->rank[member->rank].wrong += on ? 1 : UINT32_MAX;
    *flag = on;
}

static struct part_seen *part_of(const struct corrupt_book *book, const struct member *member)
{
    return member->part == NO_PART ? NULL : &book->replicas.part[member->part];
}

/* The digest as it is now, once everything has been said about it. */
static void part_update(struct corrupt_book *book, const struct member *member, uint64_t step)
{
    struct rank_numbers *rank = &book->rank[member->rank];
    struct part_seen *part = part_of(book, member);

    if (!part || member->same)
        return;
    if (part->step) {
        rank->longest = MAX(rank->longest, rank->updates - part->updates);
        rank->changed = part->changed = true;
    }
    part_mark(book, member, &part->stuck, false);
    part->digest = member->digest;
    part->step = step + 1;
    part->updates = rank->updates + member->updates;
}

static int member_compare(const void *a, const void *b)
{
    const struct member *left = a, *right = b;

    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    if (left->digest != right->digest)
        return left->digest < right->digest ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

static uint32_t members_gather(const struct court *court, struct corrupt_book *book,
                               struct member *member)
{
    const struct whole *whole = court->whole;
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        const struct fact_step *step = &whole->step_of[rank];
        struct member *at = &member[count];
        const struct part_seen *part;

        if (!whole->shape_of[rank] || step->digest_parts == 0)
            continue;
        *at = (struct member){ .key = replicas_key(&court->model, whole, rank),
                               .digest = hash64_u64(step->digest[0], step->digest[1]),
                               .rank = rank,
                               .part = part_place(&book->replicas, rank, step),
                               .layout = court->model.rank[rank].has_layout };
        at->updates = shape_updates(&book->replicas, &whole->shape_of[rank]->fact);
        part = part_of(book, at);
        at->same = part && part->step && part->digest == at->digest;
        count++;
    }
    qsort(member, count, sizeof(*member), member_compare);
    return count;
}

/* ---- replicas that differ ---- */

static uint32_t cluster_end(const struct group *group, uint32_t from)
{
    uint32_t to = from + 1;

    while (to < group->count && group->member[to].digest == group->member[from].digest)
        to++;
    return to;
}

static bool cluster_moved(const struct group *group, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        if (!group->member[i].same)
            return true;
    }
    return false;
}

/* Most are right.  Where there is no most, those are that go on changing while the others stand still. */
static void group_decide(struct group *group)
{
    uint32_t most = 0, equals = 0, moved = 0, movers = 0, moved_at = 0, still = 0;

    for (uint32_t from = 0, to; from < group->count; from = to) {
        to = cluster_end(group, from);
        if (to - from > most) {
            most = to - from;
            equals = 0;
            group->right = from;
        }
        equals += to - from == most;
        if (cluster_moved(group, from, to)) {
            moved++;
            movers = to - from;
            moved_at = from;
        } else {
            still++;
        }
    }
    group->rights = most > 1 && equals == 1 ? most : 0;
    if (group->rights == 0 && moved == 1) {
        group->right = moved_at;
        group->rights = movers;
    }
    group->stuck = group->rights && moved == 1 && still > 0 && moved_at == group->right;
}

static bool group_is_right(const struct group *group, uint32_t i)
{
    return group->rights && i >= group->right && i < group->right + group->rights;
}

/* Whether it may be said at all. */
static bool group_is_known(const struct group *group)
{
    return group->clean ||
           (group->member[0].layout && group->count > 2 && group->rights > group->count / 2);
}

static unsigned group_layer(const struct court *court, const struct group *group)
{
    const struct model_class *class =
        court->whole->shape_of[group->member[group->right].rank]->class;

    if (group->stuck)
        return LAYER_USER_CODE;
    for (uint32_t i = 0; i < group->count; i++) {
        if (court->whole->shape_of[group->member[i].rank]->class != class)
            return LAYER_USER_CODE; /* it does not even run the same ops */
    }
    return group->clean ? LAYER_GPU_MEMORY : LAYER_UNKNOWN;
}

static void group_say(const struct court *court, const struct group *group, struct verdict *draft)
{
    const struct fact_step *step = &court->whole->step_of[group->member[0].rank];
    unsigned long long now = court->whole->step, clean = group->clean - 1;
    uint32_t wrong = group->count - group->rights;

    if (group->rights)
        verdict_because(draft, "digest",
                        "parameters of %u of %u replicas differ from the other %u's in step %llu "
                        "(part %u of %u)",
                        wrong, group->count, group->rights, now, step->digest_part + 1,
                        step->digest_parts);
    else
        verdict_because(draft, "digest",
                        "parameters of all %u replicas differ in step %llu (part %u of %u), and no "
                        "side has more: which is right cannot be told",
                        group->count, now, step->digest_part + 1, step->digest_parts);
    if (group->clean)
        verdict_because(draft, "digest", "the last clean step is %llu: then all %u were equal",
                        clean, group->count);
    else
        verdict_because(draft, "digest",
                        "they have differed since their first digest; by the layout they are the "
                        "same parameters");
    if (group->stuck)
        verdict_because(draft, "digest", "they stand still while those of the others change");
    if (draft->layer == LAYER_GPU_MEMORY)
        verdict_rule_out(draft, LAYER_USER_CODE, "all replicas run the same ops");
    else if (draft->layer == LAYER_USER_CODE && !group->stuck)
        verdict_because(draft, "ring", "not all of these replicas run the same ops");
}

static const char *group_cause(const struct group *group)
{
    if (group->stuck)
        return "its parameters stopped changing, those of its replicas go on";
    if (group->rights == 0)
        return group->count == 2 ? "two replicas differ, one of them is wrong"
                                 : "the replicas differ, and no side has more";
    return "its parameters differ from those of its replicas";
}

static void group_draft(const struct court *court, const struct group *group, struct verdict *draft)
{
    uint64_t now = court->whole->step;

    draft->layer = (uint8_t)group_layer(court, group);
    snprintf(draft->cause, sizeof(draft->cause), "%s", group_cause(group));
    if (draft->layer == LAYER_GPU_MEMORY && draft->rank_count == 1)
        snprintf(draft->device, sizeof(draft->device), "the device of rank %u", draft->rank[0]);
    /* That something is wrong is certain; the rest is about who, and of what. */
    draft->confidence = group->rights == 0                 ? 0.5
                        : !group->clean                    ? 0.6
                        : group->rights > group->count / 2 ? 0.9
                                                           : 0.8;
    draft->since_step = group->clean ? MIN(group->clean, now) : now;
    draft->since_real_ns = court_step_real_ns(court, draft->since_step);
    group_say(court, group, draft);
}

static int number_compare(const void *a, const void *b)
{
    const uint32_t *left = a, *right = b;

    return *left < *right ? -1 : *left > *right;
}

/* Those that an open verdict names already are not named again. */
static void group_accuse(struct court *court, struct corrupt_book *book, const struct group *group)
{
    CLEAN(free_clean) uint32_t *named = malloc(group->count * sizeof(*named));
    struct verdict draft = { .kind = VERDICT_CORRUPTION };
    uint32_t count = 0, covered = 0;
    bool fresh;

    for (uint32_t i = 0; named && i < group->count; i++) {
        const struct member *member = &group->member[i];
        struct part_seen *part = part_of(book, member);
        bool wrong = !group_is_right(group, i);

        if (part)
            part_mark(book, member, &part->differs, wrong);
        if (wrong && corrupt_open(court, member->rank))
            covered++;
        else if (wrong)
            named[count++] = member->rank;
    }
    if (count == 0 || (covered && group->rights == 0))
        return;
    qsort(named, count, sizeof(*named), number_compare);
    for (uint32_t i = 0; i < count; i++)
        court_add_rank(court, &draft, named[i]);
    group_draft(court, group, &draft);
    court_find(court, &draft, &fresh);
}

static void group_is_clean(struct corrupt_book *book, const struct group *group, uint64_t step)
{
    struct map *clean = &book->replicas.clean;
    uint64_t *slot = clean->used < CORRUPT_PARTS_MAX
                         ? map_put(clean, group->member[0].key, step + 1)
                         : map_get(clean, group->member[0].key);

    if (slot)
        *slot = step + 1;
    for (uint32_t i = 0; i < group->count; i++) {
        struct part_seen *part = part_of(book, &group->member[i]);

        if (part)
            part_mark(book, &group->member[i], &part->differs, false);
    }
}

static void groups_judge(struct court *court, struct corrupt_book *book,
                         const struct member *member, uint32_t count)
{
    for (uint32_t from = 0, to; from < count; from = to) {
        struct group group = { .member = member + from };
        const uint64_t *clean = map_get(&book->replicas.clean, member[from].key);

        for (to = from + 1; to < count && member[to].key == member[from].key;)
            to++;
        group.count = to - from;
        group.clean = clean ? *clean : 0;
        if (group.count < 2)
            continue;
        if (cluster_end(&group, 0) == group.count) {
            group_is_clean(book, &group, court->whole->step);
            continue;
        }
        group_decide(&group);
        if (group_is_known(&group))
            group_accuse(court, book, &group);
    }
}

/* ---- parameters that do not change ---- */

/* A part that never changed may be frozen by design, as most are in fine-tuning, unless nothing ever
 * changes at all.
 */
static bool member_is_stuck(const struct court *court, const struct corrupt_book *book,
                            const struct member *member)
{
    const struct rank_numbers *rank = &book->rank[member->rank];
    const struct part_seen *part = part_of(book, member);
    uint32_t parts = court->whole->step_of[member->rank].digest_parts;
    double updates, least = court->limits.corrupt_frozen_updates;

    if (!part || !member->same || part->differs)
        return false;
    updates = rank->updates - part->updates; /* of which all are surely between both digests */
    if (updates < MAX(least, 2.0 * rank->longest))
        return false;
    return part->changed || (!rank->changed && updates >= 2.0 * parts);
}

static void stuck_accuse(struct court *court, const struct corrupt_book *book,
                         const struct member *first, struct verdict *draft, uint32_t of)
{
    const struct part_seen *part = part_of(book, first);
    struct entry *entry;
    bool fresh;

    draft->layer = LAYER_USER_CODE;
    draft->confidence = part->changed ? 0.8 : 0.7;
    draft->since_step = part->step - 1;
    draft->since_real_ns = court_step_real_ns(court, draft->since_step);
    snprintf(draft->cause, sizeof(draft->cause),
             "parameters do not change though the optimizer runs");
    verdict_because(draft, "digest",
                    "the same digest since step %llu on %u of %u ranks; the optimizer ran %u times "
                    "since then",
                    (unsigned long long)draft->since_step,
                    draft->rank_count ? draft->rank_count : of, of,
                    book->rank[first->rank].updates - part->updates);
    verdict_because(draft, "digest", "%s",
                    part->changed ? "it changed before"
                                  : "it has not changed since the first step");
    entry = court_find(court, draft, &fresh);
    if (entry)
        entry->seen_step = court->whole->step;
}

static void stuck_judge(struct court *court, struct corrupt_book *book, const struct member *member,
                        uint32_t count)
{
    struct verdict draft = { .kind = VERDICT_CORRUPTION };
    const struct member *first = NULL;
    uint32_t stuck = 0;

    for (uint32_t i = 0; i < count; i++)
        stuck += member_is_stuck(court, book, &member[i]);
    if (stuck == 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (!member_is_stuck(court, book, &member[i]))
            continue;
        first = first ? first : &member[i];
        if (stuck == count)
            break; /* nobody in particular */
        part_mark(book, &member[i], &part_of(book, &member[i])->stuck, true);
        if (!corrupt_open(court, member[i].rank))
            court_add_rank(court, &draft, member[i].rank);
    }
    if (stuck == count)
        snprintf(draft.group, sizeof(draft.group), "all ranks");
    if (stuck == count || draft.rank_count > 0)
        stuck_accuse(court, book, first, &draft, count);
}

static int rank_compare(const void *a, const void *b)
{
    const struct member *left = a, *right = b;

    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

void replicas_step(struct court *court, struct corrupt_book *book)
{
    const struct whole *whole = court->whole;
    CLEAN(free_clean)
    struct member *member = malloc((size_t)court->model.world * sizeof(*member));
    uint32_t count;

    if (!member)
        return;
    count = members_gather(court, book, member);
    groups_judge(court, book, member, count);
    qsort(member, count, sizeof(*member), rank_compare); /* names are told in order */
    stuck_judge(court, book, member, count);
    for (uint32_t i = 0; i < count; i++)
        part_update(book, &member[i], whole->step);
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (whole->shape_of[rank])
            book->rank[rank].updates +=
                shape_updates(&book->replicas, &whole->shape_of[rank]->fact);
    }
}
