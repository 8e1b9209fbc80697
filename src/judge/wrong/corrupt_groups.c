/* corrupt_groups.c - parameters that should be equal, and are not.
 *
 * The layout shows which ranks hold the same parameters: those with the same position in tensor, pipeline and expert
 * groups.  Without a layout, and until it is known for all ranks that send digests, ranks of one class count as replicas
 * once their digests were equal: with sharded optimizers they never are.
 *
 * Only digests of the same part and turn are compared, and only when all replicas have sent theirs: digests of a device
 * come late.  A rank that has sent none DIGEST_LATE steps after the turn is left out; then the others are compared, and
 * most of all replicas must agree.  A clean result counts for exactly the ranks that were equal, for whatever reason they
 * were replicas: when the layout becomes known, the same ranks keep it and others have none.
 *
 * One comparison is enough.  A digest is one record of the ring, so it is never partly old, and it is taken on the stream
 * on which the optimizer runs.  A second comparison would miss errors that disappear, such as those of parameters that
 * their owner distributes again in each step.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/wrong/corrupt_private.h"

#define HOST_VIEW_CONFIDENCE 0.7 /* as in other judges, without timestamps of devices */

struct digest_group { /* replicas with digests of the same part and turn, by digest */
    const struct digest_member *member;
    uint32_t count;
    uint32_t expected;    /* replicas; more than `count` if some sent no digest in time */
    uint32_t right_first; /* the first member that is taken for right ... */
    uint32_t right_count; /* ... and how many are; 0: not known */
    uint64_t clean_step;  /* newest step at which all of these were equal, plus one; 0: not known */
    bool layout;          /* the layout shows that they are replicas */
    bool stuck;           /* the right ones have changed and the others have not */
};

/* ---- sets of replicas ---- */

static bool corrupt_takes_part(const struct judge_state *judge, const struct corrupt_book *book,
                               uint32_t rank)
{
    return corrupt_has(judge->job_step, rank) && book->rank[rank].parts;
}

static bool corrupt_layout_is_known(const struct judge_state *judge,
                                    const struct corrupt_book *book)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (corrupt_takes_part(judge, book, rank) && !judge->model.rank[rank].has_layout)
            return false;
    }
    return true;
}

/* Equal for replicas, whatever the part. */
static uint64_t corrupt_set_key(const struct model_rank *at, bool layout, uint32_t parts,
                                uint64_t class)
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

/* How many ranks of each set of replicas take part in this step. */
static void corrupt_sets_count(const struct judge_state *judge, const struct corrupt_book *book,
                               bool layout, struct map *sets)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        uint64_t *slot;

        if (!corrupt_takes_part(judge, book, rank))
            continue;
        slot = map_put(sets,
                       corrupt_set_key(&judge->model.rank[rank], layout, book->rank[rank].parts,
                                       judge->job_step->shape_of[rank]->class->class),
                       0);
        if (slot)
            ++*slot;
    }
}

/* Of this part of exactly these ranks, in any order. */
static uint64_t corrupt_clean_key(const struct digest_group *group)
{
    uint64_t ranks = 0;

    for (uint32_t i = 0; i < group->count; i++)
        ranks += hash64_u64(group->count, group->member[i].rank);
    return hash64_u64(hash64_u64(ranks, group->member[0].part_count), group->member[0].part_number);
}

static int corrupt_member_compare(const void *a, const void *b)
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

static uint32_t corrupt_cluster_end(const struct digest_group *group, uint32_t from)
{
    uint32_t to = from + 1;

    while (to < group->count && group->member[to].digest == group->member[from].digest)
        to++;
    return to;
}

static bool corrupt_cluster_moved(const struct digest_group *group, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        if (!group->member[i].same)
            return true;
    }
    return false;
}

/* The majority is right.  Without a majority, the replicas that still change are right if the others do not. */
static void group_decide(struct digest_group *group)
{
    uint32_t most = 0, equals = 0, moved = 0, movers = 0, moved_at = 0, still = 0;

    for (uint32_t from = 0, to; from < group->count; from = to) {
        to = corrupt_cluster_end(group, from);
        if (to - from > most) {
            most = to - from;
            equals = 0;
            group->right_first = from;
        }
        equals += to - from == most;
        if (corrupt_cluster_moved(group, from, to)) {
            moved++;
            movers = to - from;
            moved_at = from;
        } else {
            still++;
        }
    }
    group->right_count = most > 1 && equals == 1 ? most : 0;
    if (group->right_count == 0 && moved == 1) {
        group->right_first = moved_at;
        group->right_count = movers;
    }
    group->stuck = group->right_count && moved == 1 && still > 0 && moved_at == group->right_first;
}

static bool group_is_right(const struct digest_group *group, uint32_t i)
{
    return group->right_count && i >= group->right_first &&
           i < group->right_first + group->right_count;
}

/* Whether the evidence suffices for a verdict. */
static bool group_is_known(const struct digest_group *group)
{
    if (group->count < group->expected && group->right_count <= group->expected / 2)
        return false; /* the missing digests may agree with either side */
    return group->clean_step ||
           (group->layout && group->count > 2 && group->right_count > group->count / 2);
}

static unsigned group_layer(const struct digest_group *group)
{
    if (group->stuck)
        return LAYER_USER_CODE;
    for (uint32_t i = 1; i < group->count; i++) {
        if (group->member[i].class != group->member[0].class)
            return LAYER_USER_CODE; /* the replicas do not run the same ops */
    }
    return group->clean_step ? LAYER_GPU_MEMORY : LAYER_UNKNOWN;
}

static bool group_is_new(const struct digest_group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        if (!group->member[i].first)
            return false;
    }
    return true;
}

static void group_describe_since(const struct digest_group *group, struct verdict *draft)
{
    if (group->clean_step)
        verdict_because(draft, "digest", "the last clean step is %llu: all %u replicas were equal",
                        (unsigned long long)group->clean_step - 1, group->count);
    else
        verdict_because(draft, "digest",
                        "%s; according to the layout they hold the same parameters",
                        group_is_new(group) ? "their first digests already differ"
                                            : "the last step with equal digests is not known");
    if (group->count < group->expected)
        verdict_because(draft, "digest", "%u more replicas have not reported a digest",
                        group->expected - group->count);
}

/* Hosts alone do not show whether memory or code that runs on one rank only is the cause. */
static void group_describe_layer(const struct judge_state *judge, const struct digest_group *group,
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

static void group_describe(const struct judge_state *judge, const struct digest_group *group,
                           struct verdict *draft)
{
    unsigned long long turn = group->member[0].turn;
    uint32_t part = group->member[0].part_number + 1, parts = group->member[0].part_count;

    if (group->right_count)
        verdict_because(draft, "digest",
                        "parameters of %u of %u replicas differ from those of the other %u in step "
                        "%llu (part %u of %u)",
                        group->count - group->right_count, group->count, group->right_count, turn,
                        part, parts);
    else
        verdict_because(draft, "digest",
                        "parameters of all %u replicas differ in step %llu (part %u of %u); there "
                        "is no majority, so it is unknown which is right",
                        group->count, turn, part, parts);
    group_describe_since(group, draft);
    if (group->stuck)
        verdict_because(draft, "digest", "they do not change while those of the others do");
    group_describe_layer(judge, group, draft);
}

static const char *group_cause(const struct digest_group *group)
{
    if (group->stuck)
        return "its parameters stopped changing, those of its replicas still change";
    if (group->right_count == 0)
        return group->count == 2 ? "two replicas differ; one of them is wrong"
                                 : "the replicas differ, and there is no majority";
    return "its parameters differ from those of its replicas";
}

/* That something is wrong is certain; the confidence is about which ranks, and why. */
static double group_confidence(const struct judge_state *judge, const struct digest_group *group,
                               unsigned layer)
{
    double confidence = group->right_count == 0                 ? 0.5
                        : !group->clean_step                    ? 0.6
                        : group->right_count > group->count / 2 ? 0.9
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
    draft->since_step = group->clean_step ? MIN(group->clean_step, turn) : turn;
    group_describe(judge, group, draft);
}

static int corrupt_number_compare(const void *a, const void *b)
{
    const uint32_t *left = a, *right = b;

    return *left < *right ? -1 : *left > *right;
}

/* Ranks that an open verdict names already are not named again. */
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
    if (count == 0 || (covered && group->right_count == 0))
        return;
    qsort(named, count, sizeof(*named), corrupt_number_compare);
    for (uint32_t i = 0; i < count; i++)
        judge_state_add_rank(judge, &draft, named[i]);
    group_draft(judge, group, &draft);
    judge_state_find(judge, &draft, &fresh);
}

static void group_is_clean(struct corrupt_book *book, const struct digest_group *group)
{
    struct map *clean = &book->replicas.clean_step;
    uint64_t key = corrupt_clean_key(group), step = group->member[0].turn + 1;
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
    if (corrupt_cluster_end(group, 0) == group->count) {
        group_is_clean(book, group);
        return;
    }
    clean = map_get(&book->replicas.clean_step, corrupt_clean_key(group));
    group->clean_step = clean ? *clean : 0;
    group_decide(group);
    if (group_is_known(group))
        group_accuse(judge, book, group);
}

/* Compares the digests that need not wait any longer. */
void groups_judge(struct judge_state *judge, struct corrupt_book *book)
{
    struct replicas *replicas = &book->replicas;
    bool layout = corrupt_layout_is_known(judge, book);
    CLEAN(map_fini) struct map sets = { 0 };
    uint32_t stay = 0;

    if (replicas->waiting_count == 0)
        return;
    corrupt_sets_count(judge, book, layout, &sets);
    for (uint32_t i = 0; i < replicas->waiting_count; i++) {
        struct digest_member *at = &replicas->waiting[i];

        at->replica_set =
            corrupt_set_key(&judge->model.rank[at->rank], layout, at->part_count, at->class);
        at->key = hash64_u64(at->replica_set, at->part_number);
    }
    qsort(replicas->waiting, replicas->waiting_count, sizeof(*replicas->waiting),
          corrupt_member_compare);
    for (uint32_t from = 0, to; from < replicas->waiting_count; from = to) {
        struct digest_member *first = &replicas->waiting[from];
        const uint64_t *set = map_get(&sets, first->replica_set);
        struct digest_group group = { .member = first, .layout = layout };

        for (to = from + 1; to < replicas->waiting_count &&
                            replicas->waiting[to].key == first->key &&
                            replicas->waiting[to].turn == first->turn;)
            to++;
        group.count = to - from;
        group.expected = MAX(group.count, set ? (uint32_t)*set : 0);
        if (group.count == group.expected || judge->job_step->step >= first->turn + DIGEST_LATE) {
            group_judge(judge, book, &group);
            continue;
        }
        memmove(replicas->waiting + stay, first, group.count * sizeof(*first));
        stay += group.count;
    }
    replicas->waiting_count = stay;
}
