/* slow_links.c - counts slow and sound transfers over each part of the network, and names the parts that explain the slow ones.
 *
 * Greedy, in three stages (link_stage): of all parts over which nearly everything is slow, the one that explains most of what is not explained yet; of equals,
 * the smallest.  Exact cover is not needed: real fabrics have one or two faults at a time, and a wrong third one would be
 * worse than none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/links/slow_links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "judge/median.h"

#define SOUND_SHARE                                                                                \
    10 /* one in ten over a culprit may look sound: bursts, measurements that ended early */
#define LONE_PAIRS 2  /* that are slow for themselves; more of them are noise, such as busy CPUs */
#define PATH_PARTS 18 /* more than one transfer crosses */

struct link_key {
    enum slow_links_part part;
    uint32_t a, b, rail;
    uint32_t peer; /* the node at the other end, for parts that need two of them */
};

struct link_part { /* one part that at least one transfer crosses */
    enum slow_links_part part;
    uint32_t a, b, rail;
    uint32_t slow, sound, left;         /* left: slow ones that are not explained yet */
    uint32_t slow_inside, sound_inside; /* of them inside a leaf */
    uint32_t against;                   /* sound ones without a slow one beside them */
    uint32_t peer[3]; /* nodes that its slow transfers lead to: one is not enough */
    uint32_t peers;   /* 0 to 3: more are not counted */
    bool taken;
};

struct link_search {
    const struct slow_links_shape *shape;
    const struct slow_links_path *path;
    size_t count;
    bool *explained;
    struct link_part *part;
    size_t parts, room;
    struct link_key *key; /* of one path, by link_keys() */
    struct map found;     /* key of a part -> index */
    struct map beside;    /* part and time -> something was slow */
    bool two_leafs;       /* then uplinks, spine and the path between them are the same thing */
};

/* ---- which parts a transfer crosses ---- */

static uint32_t link_leaf(const struct slow_links_shape *shape, uint32_t node)
{
    return shape->leaf ? shape->leaf[node] : SLOW_LINKS_NONE;
}

static bool link_between(const struct slow_links_shape *shape, const struct slow_links_path *path)
{
    uint32_t from = link_leaf(shape, path->from), to = link_leaf(shape, path->to);

    return !path->node && from != to && from != SLOW_LINKS_NONE && to != SLOW_LINKS_NONE;
}

/* Parts between leafs.  Both ends have a known leaf, and they differ. */
static size_t link_keys_between(const struct link_search *search,
                                const struct slow_links_path *path, struct link_key *key)
{
    uint32_t from = link_leaf(search->shape, path->from), to = link_leaf(search->shape, path->to);
    uint32_t rail = path->rail, low = MIN(from, to), high = MAX(from, to);
    size_t count = 0;

    key[count++] = (struct link_key){ PART_LEAF_PATH, from, to, rail, SLOW_LINKS_NONE };
    key[count++] = (struct link_key){ PART_LEAF_PAIR, low, high, rail, SLOW_LINKS_NONE };
    if (search->two_leafs)
        return count;
    key[count++] = (struct link_key){ PART_UPLINK, from, SLOW_LINKS_NONE, rail, to };
    key[count++] = (struct link_key){ PART_UPLINK, to, SLOW_LINKS_NONE, rail, from };
    key[count++] = (struct link_key){ PART_UPLINK_UP, from, SLOW_LINKS_NONE, rail, to };
    key[count++] = (struct link_key){ PART_UPLINK_DOWN, to, SLOW_LINKS_NONE, rail, from };
    key[count++] = (struct link_key){ PART_SPINE, SLOW_LINKS_NONE, SLOW_LINKS_NONE, rail, from };
    return count;
}

static size_t link_keys_pair(const struct link_search *search, const struct slow_links_path *path,
                             struct link_key *key)
{
    uint32_t from = link_leaf(search->shape, path->from), to = link_leaf(search->shape, path->to);
    uint32_t none = SLOW_LINKS_NONE, rail = path->rail;
    uint32_t low = MIN(path->from, path->to), high = MAX(path->from, path->to);
    size_t count = 0;

    key[count++] = (struct link_key){ PART_PATH, path->from, path->to, rail, none };
    key[count++] = (struct link_key){ PART_PAIR, low, high, rail, none };
    key[count++] = (struct link_key){ PART_NIC_SENDS, path->from, none, rail, path->to };
    key[count++] = (struct link_key){ PART_NIC_GETS, path->to, none, rail, path->from };
    key[count++] = (struct link_key){ PART_NIC, path->from, none, rail, path->to };
    key[count++] = (struct link_key){ PART_NIC, path->to, none, rail, path->from };
    if (search->shape->rails > 1) {
        key[count++] = (struct link_key){ PART_NODE, path->from, none, none, path->to };
        key[count++] = (struct link_key){ PART_NODE, path->to, none, none, path->from };
        key[count++] = (struct link_key){ PART_RAIL, none, none, rail, path->from };
    }
    if (from != none && from == to)
        key[count++] = (struct link_key){ PART_LEAF, from, none, rail, path->from };
    if (from == none || to == none || from == to)
        return count;
    key[count++] = (struct link_key){ PART_LEAF, from, none, rail, path->from };
    key[count++] = (struct link_key){ PART_LEAF, to, none, rail, path->to };
    return count + link_keys_between(search, path, key + count);
}

/* Sets search->key; returns how many. */
static size_t link_keys(const struct link_search *search, const struct slow_links_path *path)
{
    uint32_t none = SLOW_LINKS_NONE;

    if (!path->node)
        return link_keys_pair(search, path, search->key);
    for (uint32_t i = 0; i < path->nodes; i++)
        search->key[i] = (struct link_key){ PART_NIC, path->node[i], none, path->rail, none };
    return path->nodes;
}

static size_t link_keys_most(const struct slow_links_path *path, size_t count)
{
    size_t most = PATH_PARTS;

    for (size_t i = 0; i < count; i++)
        most = path[i].node ? MAX(most, (size_t)path[i].nodes) : most;
    return most;
}

/* ---- the parts ---- */

/* 4 bits part, 2 x 20 bits, 20 bits rail: nodes beyond a million do not come. */
static uint64_t link_key_number(const struct link_key *key)
{
    const uint32_t mask = (1u << 20) - 1;

    return (uint64_t)key->part | (uint64_t)(key->a & mask) << 4 | (uint64_t)(key->b & mask) << 24 |
           (uint64_t)(key->rail & mask) << 44;
}

static struct link_part *link_part_of(struct link_search *search, const struct link_key *key)
{
    uint64_t *at = map_put(&search->found, link_key_number(key), search->parts);

    if (!at)
        return NULL;
    if (*at == search->parts) {
        if (!ARRAY_FIT(search->part, search->room, search->parts + 1))
            return NULL;
        search->part[search->parts++] =
            (struct link_part){ .part = key->part, .a = key->a, .b = key->b, .rail = key->rail };
    }
    return &search->part[*at];
}

static void link_part_peer(struct link_part *part, uint32_t peer)
{
    for (uint32_t i = 0; i < part->peers; i++) {
        if (part->peer[i] == peer)
            return;
    }
    if (part->peers < COUNT(part->peer))
        part->peer[part->peers++] = peer;
}

static void link_part_count(struct link_part *part, enum slow_links_state state, bool inside)
{
    part->slow += state == LINK_SLOW;
    part->left += state == LINK_SLOW;
    part->sound += state == LINK_SOUND;
    part->slow_inside += state == LINK_SLOW && inside;
    part->sound_inside += state == LINK_SOUND && inside;
}

static int link_parts_count(struct link_search *search)
{
    for (size_t i = 0; i < search->count; i++) {
        const struct slow_links_path *path = &search->path[i];
        const struct link_key *key = search->key;
        size_t keys = path->state == LINK_UNKNOWN ? 0 : link_keys(search, path);
        bool inside = !link_between(search->shape, path);

        for (size_t k = 0; k < keys; k++) {
            struct link_part *part = link_part_of(search, &key[k]);

            if (!part)
                return -ENOMEM;
            link_part_count(part, path->state, inside);
            if (path->state == LINK_SLOW && key[k].peer != SLOW_LINKS_NONE)
                link_part_peer(part, key[k].peer);
            else if (path->state == LINK_SLOW && path->node)
                part->peers = COUNT(part->peer); /* nothing but an adapter may be the cause */
        }
    }
    return 0;
}

/* ---- parts that transfers share ---- */

static bool link_part_is_shared(enum slow_links_part part)
{
    return part == PART_UPLINK || part == PART_UPLINK_UP || part == PART_UPLINK_DOWN ||
           part == PART_SPINE;
}

static int link_beside_path(struct link_search *search, const struct slow_links_path *path)
{
    const struct link_key *key = search->key;
    size_t keys = link_keys(search, path);

    for (size_t k = 0; k < keys; k++) {
        uint64_t number = hash64_u64(path->at, link_key_number(&key[k]));
        struct link_part *part;

        if (!link_part_is_shared(key[k].part))
            continue;
        part = link_part_of(search, &key[k]);
        if (!part)
            return -ENOMEM;
        if (path->state == LINK_SLOW && path->at && !map_put(&search->beside, number, 1))
            return -ENOMEM;
        part->against +=
            path->state == LINK_SOUND && !(path->at && map_get(&search->beside, number));
    }
    return 0;
}

/* First all slow ones, then the sound ones that were beside none. */
static int link_beside_count(struct link_search *search)
{
    static const enum slow_links_state states[] = { LINK_SLOW, LINK_SOUND };
    int result = 0;

    for (size_t s = 0; s < COUNT(states); s++) {
        for (size_t i = 0; i < search->count && result == 0; i++) {
            if (search->path[i].state == states[s])
                result = link_beside_path(search, &search->path[i]);
        }
    }
    return result;
}

/* ---- which part is it ---- */

static bool link_part_needs_peers(enum slow_links_part part)
{
    return part != PART_PAIR && part != PART_PATH && part != PART_LEAF_PAIR &&
           part != PART_LEAF_PATH;
}

static bool link_nearly_all(uint32_t slow, uint32_t sound)
{
    return sound <= (slow + sound) / SOUND_SHARE;
}

/* Inside leafs and between them, each for itself: the few transfers inside a leaf are what tells its uplink from the leaf. */
static bool link_part_fits(const struct link_part *part)
{
    return !part->taken && part->left > 0 &&
           link_nearly_all(part->slow_inside, part->sound_inside) &&
           link_nearly_all(part->slow - part->slow_inside, part->sound - part->sound_inside) &&
           (!link_part_needs_peers(part->part) || part->peers >= 2);
}

/* The same for what is shared unevenly: of what no part named before explains a third must be slow, and hardly anything may be sound at
 * a time when all was.
 */
static bool link_part_fits_shared(const struct link_part *part)
{
    return !part->taken && part->left > 0 && link_part_is_shared(part->part) && part->peers >= 2 &&
           3 * part->left >= part->left + part->sound && link_nearly_all(part->slow, part->against);
}

enum link_stage {
    STAGE_WIDE,   /* many transfers cross it, and nearly all are slow */
    STAGE_SHARED, /* they share it unevenly */
    STAGE_NARROW, /* one pair of nodes or leafs */
    STAGES
};

static bool link_part_may_be(const struct link_search *search, const struct link_part *part,
                             enum link_stage stage)
{
    bool narrow = !link_part_needs_peers(part->part);

    if (search->two_leafs && (part->part == PART_LEAF_PAIR || part->part == PART_LEAF_PATH))
        narrow = false;
    if (stage == STAGE_SHARED)
        return link_part_fits_shared(part);
    return narrow == (stage == STAGE_NARROW) && link_part_fits(part);
}

/* Of parts that explain the same, one direction is less than both, an adapter less than a leaf. */
static bool link_part_is_better(const struct link_part *part, const struct link_part *than)
{
    static const uint8_t size[PARTS] = {
        [PART_NIC] = 1,    [PART_NIC_SENDS] = 1, [PART_NIC_GETS] = 1,    [PART_NODE] = 6,
        [PART_UPLINK] = 3, [PART_UPLINK_UP] = 3, [PART_UPLINK_DOWN] = 3, [PART_LEAF] = 5,
        [PART_SPINE] = 7,  [PART_RAIL] = 8,      [PART_LEAF_PAIR] = 4,   [PART_LEAF_PATH] = 4,
        [PART_PAIR] = 2,   [PART_PATH] = 2,
    };

    if (part->left != than->left)
        return part->left > than->left;
    if (part->slow + part->sound != than->slow + than->sound)
        return part->slow + part->sound < than->slow + than->sound;
    return size[part->part] < size[than->part];
}

static struct link_part *link_best(struct link_search *search, enum link_stage stage)
{
    struct link_part *best = NULL;

    for (size_t i = 0; i < search->parts; i++) {
        if (link_part_may_be(search, &search->part[i], stage) &&
            (!best || link_part_is_better(&search->part[i], best)))
            best = &search->part[i];
    }
    return best;
}

static bool link_crosses(const struct link_search *search, const struct slow_links_path *path,
                         const struct link_part *part)
{
    const struct link_key *key = search->key;
    size_t keys;

    for (uint32_t i = 0; path->node && i < path->nodes; i++) {
        if (path->node[i] == part->a)
            return part->part == PART_NIC && part->rail == path->rail;
    }
    keys = path->node ? 0 : link_keys(search, path);
    for (size_t k = 0; k < keys; k++) {
        if (key[k].part == part->part && key[k].a == part->a && key[k].b == part->b &&
            key[k].rail == part->rail)
            return true;
    }
    return false;
}

/* A part of another kind over which exactly the same transfers went: nothing tells them apart.  A transfer both ways of one pair
 * always looks like its two ends; that a pair was named says so already.
 */
static void link_find_also(struct link_search *search, const struct link_part *part,
                           struct slow_links_named *named)
{
    bool narrow = !link_part_needs_peers(part->part);

    for (size_t i = 0; !narrow && i < search->parts && !named->also; i++) {
        const struct link_part *other = &search->part[i];
        bool same = other != part && link_part_fits(other) && other->left == part->left &&
                    other->slow == part->slow && other->sound == part->sound;

        for (size_t p = 0; same && p < search->count; p++) {
            if (search->path[p].state == LINK_SLOW &&
                link_crosses(search, &search->path[p], part) !=
                    link_crosses(search, &search->path[p], other))
                same = false;
        }
        if (same) {
            named->also = other->part;
            named->also_a = other->a;
        }
    }
}

static double link_confidence(const struct slow_links_named *named)
{
    double share = (double)named->slow / (double)(named->slow + named->sound);
    double many = (double)named->alone / ((double)named->alone + 0.5);
    double sure = 0.5 + 0.49 * share * many;

    if (named->also)
        sure = MIN(sure, 0.5);
    if (named->part == PART_SPINE || named->part == PART_RAIL)
        sure = MIN(sure, 0.8); /* all uplinks together look the same */
    if (named->part == PART_PAIR || named->part == PART_PATH)
        sure = MIN(sure, named->rate <= 0 ? 0.9 : 0.7); /* one measurement or two */
    return sure;
}

/* Marks what the part explains, and takes it off the other parts. */
static int link_explain(struct link_search *search, size_t best, struct slow_links_named *named)
{
    const struct link_part *part = &search->part[best];
    CLEAN(free_clean) double *rate = calloc(part->slow + 1, sizeof(*rate));
    size_t rates = 0;

    if (!rate)
        return -ENOMEM;
    for (size_t i = 0; i < search->count; i++) {
        const struct slow_links_path *path = &search->path[i];
        size_t keys;

        if (path->state != LINK_SLOW || !link_crosses(search, path, part))
            continue;
        rate[rates++] = path->rate;
        if (search->explained[i])
            continue;
        search->explained[i] = true;
        keys = link_keys(search, path);
        for (size_t k = 0; k < keys; k++) {
            struct link_part *other = link_part_of(search, &search->key[k]);

            if (other && other->left)
                other->left--;
        }
    }
    search->part[best].taken = true;
    named->rate = median_f64(rate, rates);
    return 0;
}

static int link_name(struct link_search *search, struct link_part *part,
                     struct slow_links_result *ret)
{
    struct slow_links_named *named = &ret->named[ret->count];
    bool two_nodes = part->peers < 3;
    int result;

    *named = (struct slow_links_named){ .part = part->part,
                                        .a = part->a,
                                        .b = part->b,
                                        .rail = part->rail,
                                        .slow = part->slow,
                                        .sound = part->sound,
                                        .alone = part->left };
    link_find_also(search, part, named);
    result = link_explain(search, (size_t)(part - search->part), named);
    if (result < 0)
        return result;
    named->confidence = link_confidence(named);
    if (named->part == PART_LEAF && two_nodes) /* or both of their adapters */
        named->confidence = MIN(named->confidence, 0.5);
    ret->count++;
    return 0;
}

/* Median of the sound transfers that are like those over the part. */
static int link_expected(const struct link_search *search, struct slow_links_named *named)
{
    CLEAN(free_clean) double *rate = calloc(search->count + 1, sizeof(*rate));
    const struct link_part part = {
        .part = named->part, .a = named->a, .b = named->b, .rail = named->rail
    };
    bool between = false, inside = false;
    size_t rates = 0;

    if (!rate)
        return -ENOMEM;
    for (size_t i = 0; i < search->count; i++) {
        if (search->path[i].state == LINK_SLOW && link_crosses(search, &search->path[i], &part))
            *(link_between(search->shape, &search->path[i]) ? &between : &inside) = true;
    }
    for (size_t i = 0; i < search->count; i++) {
        const struct slow_links_path *path = &search->path[i];

        if (path->state == LINK_SOUND && (link_between(search->shape, path) ? between : inside))
            rate[rates++] = path->rate;
    }
    named->expected = median_f64(rate, rates);
    return 0;
}

static int link_search_run(struct link_search *search, struct slow_links_result *ret)
{
    size_t most =
        search->shape->most ? MIN(search->shape->most, SLOW_LINKS_NAMED) : SLOW_LINKS_NAMED;
    int result = link_parts_count(search);
    struct link_part *best;

    if (result == 0)
        result = link_beside_count(search);
    for (int stage = 0; stage < STAGES; stage++) {
        while (result == 0 && ret->count < most &&
               (best = link_best(search, (enum link_stage)stage)))
            result = link_name(search, best, ret);
    }
    for (size_t i = 0; i < ret->count && result == 0; i++)
        result = link_expected(search, &ret->named[i]);
    return result;
}

/* ---- two directions ---- */

static enum slow_links_part link_both(enum slow_links_part one, enum slow_links_part other)
{
    static const struct {
        enum slow_links_part one, other, both;
    } ways[] = {
        { PART_NIC_SENDS, PART_NIC_GETS, PART_NIC },
        { PART_UPLINK_UP, PART_UPLINK_DOWN, PART_UPLINK },
        { PART_PATH, PART_PATH, PART_PAIR },
        { PART_LEAF_PATH, PART_LEAF_PATH, PART_LEAF_PAIR },
    };

    for (size_t i = 0; i < COUNT(ways); i++) {
        if ((one == ways[i].one && other == ways[i].other) ||
            (one == ways[i].other && other == ways[i].one))
            return ways[i].both;
    }
    return (enum slow_links_part)0;
}

static bool link_is_way_back(const struct slow_links_named *one,
                             const struct slow_links_named *other)
{
    if (!link_both(one->part, other->part) || one->rail != other->rail)
        return false;
    if (one->b == SLOW_LINKS_NONE)
        return one->a == other->a;
    return one->a == other->b && one->b == other->a;
}

/* Both directions were named, each for itself, such as where they are not equally slow: that is one part. */
static void link_join_ways(struct slow_links_result *ret)
{
    for (size_t i = 0; i < ret->count; i++) {
        struct slow_links_named *one = &ret->named[i];

        for (size_t k = i + 1; k < ret->count; k++) {
            const struct slow_links_named *other = &ret->named[k];

            if (!link_is_way_back(one, other))
                continue;
            one->part = link_both(one->part, other->part);
            if (one->b != SLOW_LINKS_NONE && one->b < one->a) {
                one->b = one->a;
                one->a = other->a;
            }
            one->slow += other->slow;
            one->sound += other->sound;
            one->alone += other->alone;
            one->rate = MIN(one->rate, other->rate);
            one->confidence = MIN(one->confidence, other->confidence);
            memmove(&ret->named[k], &ret->named[k + 1], (ret->count - k - 1) * sizeof(*ret->named));
            ret->count--;
            break;
        }
    }
}

static bool link_is_lone(const struct slow_links_named *named)
{
    return (named->part == PART_PAIR || named->part == PART_PATH) && named->rate > 0;
}

/* Single pairs that are slow, though both ends are sound with others, are rare; many of them mean that something else than the network
 * was measured.  Dead ones are not noise.
 */
static void link_drop_noise(struct slow_links_result *ret)
{
    size_t kept = 0, lone = 0;

    for (size_t i = 0; i < ret->count; i++)
        lone += link_is_lone(&ret->named[i]);
    for (size_t i = 0; i < ret->count && lone > LONE_PAIRS; i++) {
        if (link_is_lone(&ret->named[i]))
            ret->unexplained += ret->named[i].alone;
        else
            ret->named[kept++] = ret->named[i];
    }
    if (lone > LONE_PAIRS)
        ret->count = kept;
}

static bool link_path_is_in(const struct slow_links_shape *shape,
                            const struct slow_links_path *path)
{
    if (path->rail >= shape->rails)
        return false;
    if (!path->node)
        return path->from < shape->nodes && path->to < shape->nodes && path->from != path->to;
    for (uint32_t i = 0; i < path->nodes; i++) {
        if (path->node[i] >= shape->nodes)
            return false;
    }
    return path->nodes > 1;
}

static int link_paths_check(const struct slow_links_shape *shape,
                            const struct slow_links_path *path, size_t count,
                            struct slow_links_result *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (!link_path_is_in(shape, &path[i]))
            return -EINVAL;
        ret->slow += path[i].state == LINK_SLOW;
        ret->sound += path[i].state == LINK_SOUND;
        ret->unknown += path[i].state == LINK_UNKNOWN;
    }
    return 0;
}

int slow_links_locate(const struct slow_links_shape *shape, const struct slow_links_path *path,
                      size_t count, struct slow_links_result *ret)
{
    CLEAN(free_clean) bool *explained = calloc(count + 1, sizeof(*explained));
    CLEAN(free_clean) struct link_key *key = calloc(link_keys_most(path, count), sizeof(*key));
    struct link_search search = { .shape = shape,
                                  .path = path,
                                  .count = count,
                                  .explained = explained,
                                  .key = key,
                                  .two_leafs = shape->leafs == 2 };
    struct slow_links_result found = { .count = 0 };
    int result;

    if (!explained || !key)
        return -ENOMEM;
    result = link_paths_check(shape, path, count, &found);
    if (result == 0 && found.slow)
        result = link_search_run(&search, &found);
    map_fini(&search.found);
    map_fini(&search.beside);
    free(search.part);
    if (result < 0)
        return result;
    for (size_t i = 0; i < count; i++)
        found.unexplained += path[i].state == LINK_SLOW && !explained[i];
    link_join_ways(&found);
    link_drop_noise(&found);
    *ret = found;
    return 0;
}

/* ---- which transfers are slow ---- */

double slow_links_reference(const struct slow_links_shape *shape,
                            const struct slow_links_path *path, size_t count, bool between)
{
    CLEAN(free_clean) double *rate = calloc(count + 1, sizeof(*rate));
    size_t rates = 0;

    if (!rate)
        return 0;
    for (size_t i = 0; i < count; i++) {
        if (link_between(shape, &path[i]) == between)
            rate[rates++] = path[i].rate;
    }
    qsort(rate, rates, sizeof(*rate), order_f64);
    return rates ? rate[(rates - 1) - (rates - 1) / 10] : 0;
}

static void link_compare(const struct slow_links_limits *limits, double reference,
                         struct slow_links_path *path)
{
    double wanted = MAX(reference, limits->expected);

    if (path->rate <= 0 ||
        path->rate < (path->busy ? limits->busy_share : limits->slow_share) * wanted)
        path->state = LINK_SLOW;
    else
        path->state = path->rate >= limits->sound_share * wanted ? LINK_SOUND : LINK_UNKNOWN;
}

int slow_links_compare(const struct slow_links_shape *shape, const struct slow_links_limits *limits,
                       struct slow_links_path *path, size_t count)
{
    double inside, between;

    for (size_t i = 0; i < count; i++) {
        if (path[i].from >= shape->nodes || path[i].to >= shape->nodes ||
            path[i].rail >= shape->rails)
            return -EINVAL;
    }
    inside = slow_links_reference(shape, path, count, false);
    between = slow_links_reference(shape, path, count, true);
    if (limits->between > 0)
        between = MAX(between, limits->between);
    for (size_t i = 0; i < count; i++)
        link_compare(limits, link_between(shape, &path[i]) ? between : inside, &path[i]);
    return 0;
}
