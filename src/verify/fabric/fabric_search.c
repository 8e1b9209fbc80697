/* fabric_search.c - what follows the rounds of the plan: repeat what was slow, look at its ends, and locate.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "verify/fabric/fabric_run.h"

#define REPEATS 8       /* rounds at most */
#define BISECT_ROUNDS 4 /* rounds at most, for the ends of pairs that stay slow */
#define BISECTIONS 2
#define DEAD_ROUNDS 4     /* at most, of one pair each */
#define PARTNERS 3        /* of each end */
#define BETWEEN_SHARE 0.6 /* between leafs below this share of inside: slow, or only shared? */
#define ALONE_SHARE 0.8
#define ALONE_PAIRS 3

static int fabric_search_compare(struct fabric_run *run, double between)
{
    struct slow_links_limits limits = SLOW_LINKS_LIMITS;

    limits.expected = run->settings.expected;
    limits.between = between;
    return slow_links_compare(&run->shape, &limits, run->path, run->paths);
}

/* ---- once more ---- */

struct search_marks { /* of the pairs of a round: do they belong to a leaf with something slow? */
    uint8_t *leaf;
    uint32_t leafs;
};

static uint8_t *search_mark(const struct search_marks *marks, const struct fabric_run *run,
                            uint32_t node)
{
    return &marks->leaf[MIN(run->leaf[node], marks->leafs)];
}

static bool search_pair_is_slow(const struct fabric_run *run, const struct plan_pair *pair,
                                const struct map *slow)
{
    (void)run;
    return map_get(slow, (uint64_t)pair->a << 32 | pair->b) ||
           map_get(slow, (uint64_t)pair->b << 32 | pair->a);
}

/* The pairs of the round that share a leaf with a slow one: so the uplinks carry the same load as before. */
static int search_repeat_round(struct fabric_run *run, const struct plan_round *round,
                               const struct map *slow, const struct search_marks *marks)
{
    const struct plan_pair *pair = run->plan.pair + round->first;
    bool any = false;
    int result;

    memset(marks->leaf, 0, marks->leafs + 1);
    for (size_t i = 0; i < round->count; i++) {
        if (!search_pair_is_slow(run, &pair[i], slow))
            continue;
        any = true;
        *search_mark(marks, run, pair[i].a) = *search_mark(marks, run, pair[i].b) = 1;
    }
    if (!any)
        return 0;
    result = pair_plan_round(&run->again);
    for (size_t i = 0; i < round->count && result == 0; i++) {
        if (*search_mark(marks, run, pair[i].a) || *search_mark(marks, run, pair[i].b))
            result = pair_plan_add(&run->again, pair[i].a, pair[i].b);
    }
    return result;
}

static int search_slow_pairs(const struct fabric_run *run, struct map *ret)
{
    for (size_t i = 0; i < run->paths; i++) {
        const struct slow_links_path *path = &run->path[i];

        if (path->state == LINK_SLOW && !map_put(ret, (uint64_t)path->from << 32 | path->to, 1))
            return -ENOMEM;
    }
    return 0;
}

static int search_repeat(struct fabric_run *run, struct err *err)
{
    CLEAN(free_clean) uint8_t *leaf = calloc(run->shape.leafs + 1, 1);
    const struct search_marks marks = { leaf, run->shape.leafs };
    struct map slow = { .slot = NULL };
    size_t first = run->again.rounds;
    int result = leaf ? search_slow_pairs(run, &slow) : -ENOMEM;

    for (size_t r = 0; r < run->plan.rounds && result == 0; r++) {
        if (run->again.rounds - first < REPEATS)
            result = search_repeat_round(run, &run->plan.round[r], &slow, &marks);
    }
    map_fini(&slow);
    return result < 0 ? err_nomem(err) : fabric_run_rounds(run, &run->again, first, err);
}

/* ---- between leafs: slow, or shared by many? ---- */

static int search_alone(struct fabric_run *run, double *ret_gbps, struct err *err)
{
    size_t done = 0;

    *ret_gbps = 0;
    for (size_t i = 0; i < run->plan.pairs && done < ALONE_PAIRS; i++) {
        const struct plan_pair *pair = &run->plan.pair[i];
        double gbps;
        int result;

        if (run->leaf[pair->a] == run->leaf[pair->b])
            continue;
        result = fabric_run_alone(run, pair->a, pair->b, &gbps, err);
        if (result < 0 && result != -ENODATA)
            return result;
        if (result == 0)
            *ret_gbps = MAX(*ret_gbps, gbps);
        done++;
        i += run->plan.pairs / ALONE_PAIRS; /* other leafs */
    }
    return 0;
}

/* What is expected between leafs where all of that is slower than inside; 0: the comparison with each other stands. */
static int search_between(struct fabric_run *run, double *ret, struct err *err)
{
    double inside = slow_links_reference(&run->shape, run->path, run->paths, false);
    double between = slow_links_reference(&run->shape, run->path, run->paths, true);
    int result;

    *ret = 0;
    if (between <= 0 || inside <= 0 || between >= BETWEEN_SHARE * inside)
        return 0;
    result = search_alone(run, &run->alone_gbps, err);
    if (result < 0)
        return result;
    run->oversubscribed = run->alone_gbps >= ALONE_SHARE * inside;
    if (!run->oversubscribed)
        *ret = inside;
    return 0;
}

/* ---- bisection: is it the one end, the other, or only both together? ---- */

static int search_end(struct fabric_run *run, size_t first, uint32_t end, uint32_t other)
{
    uint32_t added = 0;

    for (int same = 1; same >= 0; same--) {
        for (uint32_t i = 1; i < run->shape.nodes && added < PARTNERS; i++) {
            uint32_t partner = (end + i) % run->shape.nodes;
            int result;

            if (partner == other || (run->leaf[partner] == run->leaf[end]) != (same != 0) ||
                fabric_run_has(run, end, partner) || fabric_run_has(run, partner, end))
                continue;
            result = pair_plan_place(&run->again, first, first + BISECT_ROUNDS, end, partner);
            if (result == -ENOSPC)
                return 0;
            if (result < 0)
                return result;
            added++;
        }
    }
    return 0;
}

static int search_bisect(struct fabric_run *run, struct err *err)
{
    size_t first = run->again.rounds;
    int result = 0;

    for (size_t i = 0; i < run->found.count && result == 0; i++) {
        const struct slow_links_named *named = &run->found.named[i];

        if (named->part != PART_PAIR && named->part != PART_PATH)
            continue;
        /* Itself once more, and each end with others. */
        result = pair_plan_place(&run->again, first, first + BISECT_ROUNDS, named->a, named->b);
        if (result == 0)
            result = search_end(run, first, named->a, named->b);
        if (result == 0)
            result = search_end(run, first, named->b, named->a);
        result = result == -ENOSPC ? 0 : result;
    }
    return result < 0 ? err_nomem(err) : fabric_run_rounds(run, &run->again, first, err);
}

/* ---- dead, or only late? ---- */

static bool search_is_dead(const struct slow_links_named *named)
{
    return (named->part == PART_PATH || named->part == PART_PAIR) && named->rate <= 0;
}

/* A pair over which nothing came, though both nodes are sound with others: once more each, and nothing beside it.  Returns how many. */
static int search_dead(struct fabric_run *run, struct err *err)
{
    size_t first = run->again.rounds;
    int result = 0;

    for (size_t i = 0; i < run->found.count && result == 0; i++) {
        const struct slow_links_named *named = &run->found.named[i];

        if (!search_is_dead(named) || run->again.rounds - first == DEAD_ROUNDS)
            continue;
        result = pair_plan_round(&run->again);
        if (result == 0)
            result = pair_plan_add(&run->again, named->a, named->b);
    }
    if (result < 0)
        return err_nomem(err);
    result = fabric_run_rounds(run, &run->again, first, err);
    return result < 0 ? result : (int)(run->again.rounds - first);
}

/* ---- all of it ---- */

static int search_locate(struct fabric_run *run, double between, struct err *err)
{
    int result = fabric_search_compare(run, between);

    if (result == 0)
        result = slow_links_locate(&run->shape, run->path, run->paths, &run->found);
    return result < 0 ? err_set(err, result, "cannot compare the rates: %s", strerror(-result)) : 0;
}

int fabric_run_search(struct fabric_run *run, struct err *err)
{
    double between = 0;
    size_t before;
    int result = search_locate(run, 0, err);

    if (result == 0 && run->found.slow)
        result = search_repeat(run, err);
    if (result == 0)
        result = search_between(run, &between, err);
    if (result == 0)
        result = search_locate(run, between, err);
    for (int i = 0; i < BISECTIONS && result == 0 && run->found.count; i++) {
        before = run->again.rounds;
        result = search_bisect(run, err);
        if (run->again.rounds == before)
            break;
        if (result == 0)
            result = search_locate(run, between, err);
    }
    if (result == 0)
        result = search_dead(run, err);
    if (result > 0)
        result = search_locate(run, between, err);
    run->too_many = run->found.count > 4 + run->shape.nodes / 16;
    return result;
}
