/* corrupt_groups.c - parameters that should be equal, and are not.
 *
 * Who holds the same parameters is told by the layout: same place in tensor, pipeline and expert groups.  Without a
 * layout, and until it is known of all who tell digests, ranks of one class are taken for replicas once they
 * have been equal: sharded optimizers make digests that never are.
 *
 * Only digests of the same part and turn are compared, and only once all replicas have told theirs: those of a device
 * come when they come.  Who has not told DIGEST_LATE steps after the turn will not; then the others are compared, and
 * most of all replicas must agree.  What was clean is remembered of exactly those ranks that were equal,
 * whatever made them replicas: when the layout becomes known the same ranks keep it, and others have not earned it.
 *
 * One look is enough.  A digest is one record of the ring, so it is never half old, and it is taken on the stream on
 * which the optimizer runs.  A second look would miss what heals by itself, as parameters do that an owner
 * hands out anew in each step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/wrong/corrupt_private.h"

#define HOST_VIEW_CONFIDENCE 0.7 /* as other judges' where no device tells anything */

struct digest_group { /* replicas with digests of the same part and turn, by digest */
    const struct digest_member *member;
    uint32_t count;
    uint32_t of; /* replicas there are; more than have told when some are late for good */
    uint32_t right,
        rights;     /* those that are taken for right: the first, and how many; 0: cannot tell */
    uint64_t clean; /* newest step at which all of these were equal, plus one; 0: not known */
    bool layout;    /* it says that they are replicas */
    bool stuck;     /* the others are what they were before, while these have changed */
};

/* ---- who is a replica of whom ---- */

static bool takes_part(const struct judge_state *judge, const struct corrupt_book *book,
                       uint32_t rank)
{
    return corrupt_has(judge->job_step, rank) && book->rank[rank].parts;
}

static bool layout_is_known(const struct judge_state *judge, const struct corrupt_book *book)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (takes_part(judge, book, rank) && !judge->model.rank[rank].has_layout)
            return false;
    }
    return true;
}

/* Replicas have it in common, whatever the part. */
static uint64_t crew_key(const struct model_rank *at, bool layout, uint32_t parts, uint64_t class)
{
    uint64_t key = hash64_u64(parts, layout);

    if (!layout)
        return hash64_u64(key, class);
    for (int field = 0; field < LAYOUT_FIELDS; field++)
        key = hash64_u64(key, at->size[field]);
    key = hash64_u64(key, at->at[LAYOUT_TP]);
    key = hash64_u64(key, at->at[LAYOUT_PP]);
    return hash64_u64(key, at->at[LAYOUT_EP]);
}

/* By crew: how many ranks of it take part in this step. */
static void crews_count(const struct judge_state *judge, const struct corrupt_book *book,
                        bool layout, struct map *crews)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        uint64_t *slot;

        if (!takes_part(judge, book, rank))
            continue;
        slot = map_put(crews,
                       crew_key(&judge->model.rank[rank], layout, book->rank[rank].parts,
                                judge->job_step->shape_of[rank]->class->class),
                       0);
        if (slot)
            ++*slot;
    }
}

/* The part of exactly these ranks, in whatever order. */
static uint64_t clean_key(const struct digest_group *group)
{
    uint64_t ranks = 0;

    for (uint32_t i = 0; i < group->count; i++)
        ranks += hash64_u64(group->count, group->member[i].rank);
    return hash64_u64(hash64_u64(ranks, group->member[0].of), group->member[0].number);
}

static int member_compare(const void *a, const void *b)
{
    const struct digest_member *left = a, *right = b;

    if (left->turn != right->turn)
        return left->turn < right->turn ? -1 : 1;
    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    if (left->digest != right->digest)
        return left->digest < right->digest ? -1 : 1;
    return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* ---- replicas that differ ---- */

static uint32_t cluster_end(const struct digest_group *group, uint32_t from)
{
    uint32_t to = from + 1;

    while (to < group->count && group->member[to].digest == group->member[from].digest)
        to++;
    return to;
}

static bool cluster_moved(const struct digest_group *group, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        if (!group->member[i].same)
            return true;
    }
    return false;
}

/* Most are right.  Where there is no most, those are that go on changing while the others stand still. */
static void group_decide(struct digest_group *group)
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

static bool group_is_right(const struct digest_group *group, uint32_t i)
{
    return group->rights && i >= group->right && i < group->right + group->rights;
}

/* Whether it may be said at all. */
static bool group_is_known(const struct digest_group *group)
{
    if (group->count < group->of && group->rights <= group->of / 2)
        return false; /* those that have not told may agree with anyone */
    return group->clean || (group->layout && group->count > 2 && group->rights > group->count / 2);
}

static unsigned group_layer(const struct digest_group *group)
{
    if (group->stuck)
        return LAYER_USER_CODE;
    for (uint32_t i = 1; i < group->count; i++) {
        if (group->member[i].class != group->member[0].class)
            return LAYER_USER_CODE; /* it does not even run the same ops */
    }
    return group->clean ? LAYER_GPU_MEMORY : LAYER_UNKNOWN;
}

static bool group_is_new(const struct digest_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (!group->member[i].first)
            return false;
    }
    return true;
}

static void group_say_since(const struct digest_group *group, struct verdict *draft)
{
    if (group->clean)
        verdict_because(draft, "digest", "the last clean step is %llu: all %u replicas were equal",
                        (unsigned long long)group->clean - 1, group->count);
    else
        verdict_because(draft, "digest",
                        "%s; according to the layout they hold the same parameters",
                        group_is_new(group) ? "their first digests already differ"
                                            : "the last step with equal digests is not known");
    if (group->count < group->of)
        verdict_because(draft, "digest", "%u more replicas have not reported a digest",
                        group->of - group->count);
}

/* Hosts alone do not tell whether memory went wrong or code that runs on one rank only. */
static void group_say_layer(const struct judge_state *judge, const struct digest_group *group,
                            struct verdict *draft)
{
    if (draft->layer == LAYER_USER_CODE && !group->stuck)
        verdict_because(draft, "ring", "not all of these replicas run the same ops");
    if (draft->layer != LAYER_GPU_MEMORY)
        return;
    if (judge->history.host_view)
        verdict_because(draft, "ring",
                        "all replicas run the same ops, as far as the hosts show: the cause is "
                        "memory, or code that changes parameters on one rank only");
    else
        verdict_rule_out(draft, LAYER_USER_CODE, "all replicas run the same ops");
}

static void group_say(const struct judge_state *judge, const struct digest_group *group,
                      struct verdict *draft)
{
    unsigned long long turn = group->member[0].turn;
    uint32_t part = group->member[0].number + 1, parts = group->member[0].of;

    if (group->rights)
        verdict_because(draft, "digest",
                        "parameters of %u of %u replicas differ from those of the other %u in step "
                        "%llu (part %u of %u)",
                        group->count - group->rights, group->count, group->rights, turn, part,
                        parts);
    else
        verdict_because(draft, "digest",
                        "parameters of all %u replicas differ in step %llu (part %u of %u); there "
                        "is no majority, so it is unknown which is right",
                        group->count, turn, part, parts);
    group_say_since(group, draft);
    if (group->stuck)
        verdict_because(draft, "digest", "they do not change while those of the others do");
    group_say_layer(judge, group, draft);
}

static const char *group_cause(const struct digest_group *group)
{
    if (group->stuck)
        return "its parameters stopped changing, those of its replicas still change";
    if (group->rights == 0)
        return group->count == 2 ? "two replicas differ; one of them is wrong"
                                 : "the replicas differ, and there is no majority";
    return "its parameters differ from those of its replicas";
}

/* That something is wrong is certain; the rest is about who, and of what. */
static double group_confidence(const struct judge_state *judge, const struct digest_group *group,
                               unsigned layer)
{
    double confidence = group->rights == 0                 ? 0.5
                        : !group->clean                    ? 0.6
                        : group->rights > group->count / 2 ? 0.9
                                                           : 0.8;

    return judge->history.host_view && layer == LAYER_GPU_MEMORY
               ? MIN(confidence, HOST_VIEW_CONFIDENCE)
               : confidence;
}

static void group_draft(const struct judge_state *judge, const struct digest_group *group,
                        struct verdict *draft)
{
    uint64_t turn = group->member[0].turn;

    draft->layer = (uint8_t)group_layer(group);
    snprintf(draft->cause, sizeof(draft->cause), "%s", group_cause(group));
    if (draft->layer == LAYER_GPU_MEMORY && draft->rank_count == 1 && !judge->history.host_view)
        snprintf(draft->device, sizeof(draft->device), "the device of rank %u", draft->rank[0]);
    draft->confidence = group_confidence(judge, group, draft->layer);
    draft->since_step = group->clean ? MIN(group->clean, turn) : turn;
    draft->since_real_ns = judge_state_step_real_ns(judge, draft->since_step);
    group_say(judge, group, draft);
}

static int number_compare(const void *a, const void *b)
{
    const uint32_t *left = a, *right = b;

    return *left < *right ? -1 : *left > *right;
}

/* Those that an open verdict names already are not named again. */
static void group_accuse(struct judge_state *judge, struct corrupt_book *book,
                         const struct digest_group *group)
{
    CLEAN(free_clean) uint32_t *named = malloc(group->count * sizeof(*named));
    struct verdict draft = { .kind = VERDICT_CORRUPTION };
    uint32_t count = 0, covered = 0;
    bool fresh;

    for (uint32_t i = 0; named && i < group->count; i++) {
        const struct digest_member *member = &group->member[i];
        struct part_seen *part = part_of(book, member);
        bool wrong = !group_is_right(group, i);

        if (part)
            part_mark(book, member, &part->differs, wrong);
        if (wrong && corrupt_open(judge, member->rank))
            covered++;
        else if (wrong)
            named[count++] = member->rank;
    }
    if (count == 0 || (covered && group->rights == 0))
        return;
    qsort(named, count, sizeof(*named), number_compare);
    for (uint32_t i = 0; i < count; i++)
        judge_state_add_rank(judge, &draft, named[i]);
    group_draft(judge, group, &draft);
    judge_state_find(judge, &draft, &fresh);
}

static void group_is_clean(struct corrupt_book *book, const struct digest_group *group)
{
    struct map *clean = &book->replicas.clean;
    uint64_t key = clean_key(group), step = group->member[0].turn + 1;
    uint64_t *slot =
        clean->used < CORRUPT_PARTS_MAX ? map_put(clean, key, step) : map_get(clean, key);

    if (slot)
        *slot = step;
    for (uint32_t i = 0; i < group->count; i++) {
        struct part_seen *part = part_of(book, &group->member[i]);

        if (part)
            part_mark(book, &group->member[i], &part->differs, false);
    }
}

static void group_judge(struct judge_state *judge, struct corrupt_book *book,
                        struct digest_group *group)
{
    const uint64_t *clean;

    if (group->count < 2)
        return;
    if (cluster_end(group, 0) == group->count) {
        group_is_clean(book, group);
        return;
    }
    clean = map_get(&book->replicas.clean, clean_key(group));
    group->clean = clean ? *clean : 0;
    group_decide(group);
    if (group_is_known(group))
        group_accuse(judge, book, group);
}

/* All that need not wait any longer. */
void groups_judge(struct judge_state *judge, struct corrupt_book *book)
{
    struct replicas *replicas = &book->replicas;
    bool layout = layout_is_known(judge, book);
    CLEAN(map_fini) struct map crews = { 0 };
    uint32_t stay = 0;

    if (replicas->holds == 0)
        return;
    crews_count(judge, book, layout, &crews);
    for (uint32_t i = 0; i < replicas->holds; i++) {
        struct digest_member *at = &replicas->hold[i];

        at->crew = crew_key(&judge->model.rank[at->rank], layout, at->of, at->class);
        at->key = hash64_u64(at->crew, at->number);
    }
    qsort(replicas->hold, replicas->holds, sizeof(*replicas->hold), member_compare);
    for (uint32_t from = 0, to; from < replicas->holds; from = to) {
        struct digest_member *first = &replicas->hold[from];
        const uint64_t *crew = map_get(&crews, first->crew);
        struct digest_group group = { .member = first, .layout = layout };

        for (to = from + 1; to < replicas->holds && replicas->hold[to].key == first->key &&
                            replicas->hold[to].turn == first->turn;)
            to++;
        group.count = to - from;
        group.of = MAX(group.count, crew ? (uint32_t)*crew : 0);
        if (group.count == group.of || judge->job_step->step >= first->turn + DIGEST_LATE) {
            group_judge(judge, book, &group);
            continue;
        }
        memmove(replicas->hold + stay, first, group.count * sizeof(*first));
        stay += group.count;
    }
    replicas->holds = stay;
}
