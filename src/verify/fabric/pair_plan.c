/* pair_plan.c - tournaments by the circle method: inside leafs, and of leafs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "verify/fabric/pair_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

#define PLAN_OVERHEAD_S 0.2 /* of a direction of a round: connections, first bytes, messages */

struct plan_leafs { /* the nodes, sorted by leaf */
    uint32_t *node;
    struct plan_round *leaf; /* first and count in node[] */
    size_t leafs, largest;
};

/* ---- rounds ---- */

int pair_plan_round(struct pair_plan *plan)
{
    if (plan->rounds && !plan->round[plan->rounds - 1].count)
        return 0; /* the last one is still empty */
    if (!ARRAY_FIT(plan->round, plan->round_room, plan->rounds + 1))
        return -ENOMEM;
    plan->round[plan->rounds++] = (struct plan_round){ .first = plan->pairs };
    return 0;
}

int pair_plan_add(struct pair_plan *plan, uint32_t a, uint32_t b)
{
    if (!ARRAY_FIT(plan->pair, plan->pair_room, plan->pairs + 1))
        return -ENOMEM;
    plan->pair[plan->pairs++] = (struct plan_pair){ a, b };
    plan->round[plan->rounds - 1].count++;
    return 0;
}

static bool plan_round_uses(const struct pair_plan *plan, const struct plan_round *round,
                            uint32_t a, uint32_t b)
{
    for (size_t i = round->first; i < round->first + round->count; i++) {
        const struct plan_pair *pair = &plan->pair[i];

        if (pair->a == a || pair->a == b || pair->b == a || pair->b == b)
            return true;
    }
    return false;
}

int pair_plan_place(struct pair_plan *plan, size_t first, size_t most, uint32_t a, uint32_t b)
{
    size_t at = first;
    int result;

    while (at < plan->rounds && plan_round_uses(plan, &plan->round[at], a, b))
        at++;
    if (at >= most)
        return -ENOSPC;
    if (at == plan->rounds)
        result = pair_plan_round(plan);
    else
        result = 0;
    if (result == 0 && !ARRAY_FIT(plan->pair, plan->pair_room, plan->pairs + 1))
        result = -ENOMEM;
    if (result < 0)
        return result;
    /* Room in the middle: those behind move up. */
    at = MIN(at, plan->rounds - 1);
    first = plan->round[at].first + plan->round[at].count;
    memmove(&plan->pair[first + 1], &plan->pair[first],
            (plan->pairs - first) * sizeof(*plan->pair));
    plan->pair[first] = (struct plan_pair){ a, b };
    plan->pairs++;
    plan->round[at].count++;
    for (size_t i = at + 1; i < plan->rounds; i++)
        plan->round[i].first++;
    return 0;
}

void pair_plan_fini(struct pair_plan *plan)
{
    free(plan->pair);
    free(plan->round);
    *plan = (struct pair_plan){ .pair = NULL };
}

/* ---- the circle: everybody meets everybody ---- */

static size_t plan_circle_rounds(size_t players)
{
    return players < 2 ? 0 : players % 2 ? players : players - 1;
}

/* Pair `i` of a round; false: one of the two has a rest. */
static bool plan_circle_pair(size_t players, size_t round, size_t i, struct plan_pair *ret)
{
    size_t even = players + players % 2, others = even - 1, a, b;

    if (i == 0) {
        a = even - 1;
        b = round % others;
    } else {
        a = (round + i) % others;
        b = (round + others - i) % others;
    }
    *ret = (struct plan_pair){ (uint32_t)MIN(a, b), (uint32_t)MAX(a, b) };
    return MAX(a, b) < players;
}

/* ---- inside leafs ---- */

static int plan_inside(const struct plan_leafs *leafs, size_t most, struct pair_plan *plan)
{
    size_t rounds = MIN(plan_circle_rounds(leafs->largest), most);

    for (size_t round = 0; round < rounds; round++) {
        int result = pair_plan_round(plan);

        for (size_t l = 0; l < leafs->leafs && result == 0; l++) {
            const struct plan_round *leaf = &leafs->leaf[l];
            struct plan_pair pair;

            if (round >= plan_circle_rounds(leaf->count))
                continue;
            for (size_t i = 0; i < (leaf->count + 1) / 2 && result == 0; i++) {
                if (plan_circle_pair(leaf->count, round, i, &pair))
                    result = pair_plan_add(plan, leafs->node[leaf->first + pair.a],
                                           leafs->node[leaf->first + pair.b]);
            }
        }
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- between leafs ---- */

/* `once`: this round is the only meeting of the two. */
static int plan_two_leafs(const struct plan_leafs *leafs, struct plan_pair two, size_t shift,
                          bool once, struct pair_plan *plan)
{
    const struct plan_round *one = &leafs->leaf[two.a], *other = &leafs->leaf[two.b];
    size_t circle = MAX(one->count, other->count);
    int result = 0;

    if (!once && shift >= circle)
        return 0; /* these two have met in all ways */
    for (size_t i = 0; i < one->count && result == 0; i++) {
        size_t j = (i + shift) % circle;

        if (j < other->count)
            result =
                pair_plan_add(plan, leafs->node[one->first + i], leafs->node[other->first + j]);
    }
    return result;
}

static int plan_between(const struct plan_leafs *leafs, size_t most, struct pair_plan *plan)
{
    size_t meetings = plan_circle_rounds(leafs->leafs), total = meetings * leafs->largest;
    size_t rounds = MIN(total, most);
    bool once = meetings > most;

    for (size_t round = 0; round < rounds; round++) {
        /* Not all leafs are met: another neighbour in each round.  Else one shift after the other. */
        size_t shift = once ? round : round / meetings;
        int result = pair_plan_round(plan);

        for (size_t i = 0; i < (leafs->leafs + 1) / 2 && result == 0; i++) {
            struct plan_pair two;

            if (plan_circle_pair(leafs->leafs, round % meetings, i, &two))
                result = plan_two_leafs(leafs, two, shift, once, plan);
        }
        if (result < 0)
            return result;
    }
    return 0;
}

/* ---- the whole ---- */

static int plan_leafs_sort(const struct slow_links_shape *shape, struct plan_leafs *ret)
{
    size_t leafs = (size_t)shape->leafs + 1, at = 0; /* the last: those without one */

    ret->node = calloc(shape->nodes + 1, sizeof(*ret->node));
    ret->leaf = calloc(leafs, sizeof(*ret->leaf));
    if (!ret->node || !ret->leaf)
        return -ENOMEM;
    for (size_t l = 0; l < leafs; l++) {
        struct plan_round *leaf = &ret->leaf[ret->leafs];

        *leaf = (struct plan_round){ .first = at };
        for (uint32_t node = 0; node < shape->nodes; node++) {
            uint32_t own = shape->leaf ? shape->leaf[node] : SLOW_LINKS_NONE;

            if (MIN(own, shape->leafs) == l)
                ret->node[at++] = node;
        }
        leaf->count = at - leaf->first;
        ret->largest = MAX(ret->largest, leaf->count);
        ret->leafs += leaf->count > 0;
    }
    return 0;
}

int pair_plan_make(const struct slow_links_shape *shape, bool full, struct pair_plan *ret)
{
    struct plan_leafs leafs = { .node = NULL };
    struct pair_plan plan = { .pair = NULL };
    int result = plan_leafs_sort(shape, &leafs);
    size_t inside, most;

    inside = full ? SIZE_MAX : leafs.leafs > 1 ? PAIR_PLAN_INSIDE : PAIR_PLAN_ROUNDS;
    if (result == 0)
        result = plan_inside(&leafs, inside, &plan);
    most = full ? SIZE_MAX : PAIR_PLAN_ROUNDS - MIN(plan.rounds, PAIR_PLAN_ROUNDS);
    if (result == 0 && leafs.leafs > 1)
        result = plan_between(&leafs, most, &plan);
    if (plan.rounds && !plan.round[plan.rounds - 1].count)
        plan.rounds--;
    free(leafs.node);
    free(leafs.leaf);
    if (result < 0) {
        pair_plan_fini(&plan);
        return result;
    }
    *ret = plan;
    return 0;
}

struct plan_cost pair_plan_cost(const struct pair_plan *plan, double seconds_each,
                                double bytes_per_second, uint32_t rails)
{
    return (struct plan_cost){
        .seconds = (double)plan->rounds * 2 * (seconds_each + PLAN_OVERHEAD_S),
        .bytes = (double)plan->pairs * 2 * seconds_each * bytes_per_second * (double)rails,
    };
}
