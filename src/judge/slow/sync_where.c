/* sync_where.c - whole fabric, one node's network, or one communicator: by who is slow and who is not.
 *
 * This judge decides by its past which link is slow; judge/links finds the node, as it does for a test of the fabric.  Where all links
 * between nodes are slow there is nothing to tell them apart by: then it is the fabric, and that is reported.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "judge/links/slow_links.h"
#include "judge/median.h"
#include "judge/price.h"
#include "judge/slow/signals.h"
#include "judge/slow/sync_private.h"

/* Active links as transfers of judge/links: each is the set of the nodes that it joins. */
struct sync_scene {
    struct slow_links_path *path;
    uint32_t *node; /* of all sets, one behind the other */
    uint32_t *mark; /* of each node: the last set that it is in, counted from 1 */
    size_t paths, nodes;
};

static int sync_scene_open(const struct judge_state *judge, struct sync_scene *scene)
{
    const struct sync *sync = judge->sync;
    size_t nodes = 0;

    for (uint32_t i = 0; i < sync->links; i++)
        nodes += MIN(judge->model.comm[sync->link[i].comm].known, judge->model.nodes);
    scene->path = calloc((size_t)sync->links + 1, sizeof(*scene->path));
    scene->node = calloc(nodes + 1, sizeof(*scene->node));
    scene->mark = calloc((size_t)judge->model.nodes + 1, sizeof(*scene->mark));
    return scene->path && scene->node && scene->mark ? 0 : -ENOMEM;
}

static void sync_scene_clean(struct sync_scene *scene)
{
    free(scene->path);
    free(scene->node);
    free(scene->mark);
}

/* Adds the nodes of a link as a set; returns how many.  Of fewer than two nothing is added: it stays inside a node. */
static uint32_t sync_scene_add(const struct judge_state *judge, const struct sync_link *link,
                               struct sync_scene *scene)
{
    const struct model_comm *comm = &judge->model.comm[link->comm];
    uint32_t *set = scene->node + scene->nodes, set_number = (uint32_t)scene->paths + 1, count = 0;

    for (uint32_t index = 0; index < comm->known; index++) {
        uint32_t rank = comm->member[index], node;

        if (link->from != MODEL_NONE && index != link->from && index != link->to)
            continue;
        node = rank < judge->model.world ? judge->model.rank[rank].node : MODEL_NONE;
        if (node >= judge->model.nodes || scene->mark[node] == set_number)
            continue;
        scene->mark[node] = set_number;
        set[count++] = node;
    }
    if (count < 2) {
        if (count)
            scene->mark[set[0]] = 0;
        return count;
    }
    scene->nodes += count;
    scene->path[scene->paths++] = (struct slow_links_path){
        .node = set, .nodes = count, .state = link->slow ? LINK_SLOW : LINK_SOUND
    };
    return count;
}

/* Of the same kind and size as some slow one: what it can be held against. */
static bool sync_is_peer(const struct judge_state *judge, const struct sync_link *link)
{
    const struct sync *sync = judge->sync;
    const struct model_comm *comm = &judge->model.comm[link->comm];

    for (uint32_t i = 0; i < sync->links; i++) {
        const struct model_comm *other = &judge->model.comm[sync->link[i].comm];

        if (sync->link[i].slow && other->kind == comm->kind && other->size == comm->size &&
            (sync->link[i].from == MODEL_NONE) == (link->from == MODEL_NONE))
            return true;
    }
    return false;
}

static void sync_place_slow(const struct sync_link *link, uint32_t nodes, struct sync_place *place)
{
    place->comm = place->slow == 0 || place->comm == link->comm ? link->comm : MODEL_NONE;
    place->slow++;
    if (!place->worst ||
        link->sum_ms - link->past.mean > place->worst->sum_ms - place->worst->past.mean)
        place->worst = link;
    place->between_nodes += nodes > 1;
}

static double sync_excess_ms(const struct sync_link *link)
{
    return sync_link_ms(link, 5) - link->past.mean;
}

/* A slow link also makes those uneven that carry what comes over it: one that is far less slow than the worst
 * says neither that it touches the culprit nor that it does not.
 */
static double sync_clear_ms(const struct judge_state *judge)
{
    const struct sync *sync = judge->sync;
    double worst = 0;

    for (uint32_t i = 0; i < sync->links; i++) {
        if (sync->link[i].slow && sync_link_is_active(&sync->link[i], judge->job_step->step))
            worst = MAX(worst, sync_excess_ms(&sync->link[i]));
    }
    return judge->limits.verdict_explains * worst;
}

/* The node whose adapter explains all slow transfers between nodes, alone.  Without a sound one beside them, any of
 * their nodes may be the one.
 */
static int sync_where_node(const struct judge_state *judge, const struct sync_scene *scene,
                           struct sync_place *place)
{
    /* With a second part it is not one node. */
    const struct slow_links_shape shape = { .nodes = judge->model.nodes, .rails = 1, .most = 2 };
    CLEAN(free_clean) struct slow_links_result *found = malloc(sizeof(*found));
    int result;

    if (!place->peers_between)
        return 0;
    result = found ? slow_links_locate(&shape, scene->path, scene->paths, found) : -ENOMEM;
    if (result < 0)
        return result;
    if (found->count == 1 && !found->named[0].also && !found->unexplained)
        place->node = found->named[0].a;
    return 0;
}

int sync_where(const struct judge_state *judge, struct sync_place *ret)
{
    const struct sync *sync = judge->sync;
    CLEAN(sync_scene_clean) struct sync_scene scene = { .path = NULL };
    struct sync_place place = { .node = MODEL_NONE, .comm = MODEL_NONE };
    double clear = sync_clear_ms(judge);
    int result = sync_scene_open(judge, &scene);

    for (uint32_t i = 0; i < sync->links && result == 0; i++) {
        const struct sync_link *link = &sync->link[i];
        uint32_t nodes;

        if (!sync_link_is_active(link, judge->job_step->step) ||
            (link->slow ? sync_excess_ms(link) < clear : !sync_is_peer(judge, link)))
            continue;
        nodes = sync_scene_add(judge, link, &scene);
        if (link->slow)
            sync_place_slow(link, nodes, &place);
        else
            place.peers++;
        place.peers_between += !link->slow && nodes > 1;
    }
    if (result == 0)
        result = sync_where_node(judge, &scene, &place);
    if (result < 0)
        return result;
    if (!place.slow)
        return -ENOENT;
    *ret = place;
    return 0;
}

/* ---- in words ---- */

static void sync_link_name(const struct judge_state *judge, const struct sync_link *link, char *out,
                           size_t room)
{
    const struct model_comm *comm = &judge->model.comm[link->comm];

    if (model_member(comm, link->from) == MODEL_NONE || model_member(comm, link->to) == MODEL_NONE)
        snprintf(out, room, "%s", comm->name);
    else
        snprintf(out, room, "%s from rank %u to rank %u", comm->name, comm->member[link->from],
                 comm->member[link->to]);
}

/* Median of what links of the same kind and size take that are not slow; *count of them. */
static double sync_peers_ms(const struct judge_state *judge, const struct sync_link *worst,
                            uint32_t *count)
{
    const struct sync *sync = judge->sync;
    const struct model_comm *comm = &judge->model.comm[worst->comm];
    double value[257];

    *count = 0;
    for (uint32_t i = 0; i < sync->links && *count < COUNT(value); i++) {
        const struct sync_link *link = &sync->link[i];
        const struct model_comm *other = &judge->model.comm[link->comm];

        if (!link->slow && sync_link_is_active(link, judge->job_step->step) &&
            other->kind == comm->kind && other->size == comm->size &&
            (link->from == MODEL_NONE) == (worst->from == MODEL_NONE))
            value[(*count)++] = sync_link_ms(link, 5);
    }
    return median_f64(value, *count);
}

/* The median of one that comes and goes may be as before. */
static double sync_link_shown_ms(const struct sync_link *link)
{
    return link->wavers ? detect_past_now(&link->past, DETECT_DELAY) : sync_link_ms(link, 5);
}

static void sync_where_describe(const struct judge_state *judge, const struct sync_place *place,
                                const struct sync_otherwise *otherwise, double cost_ms,
                                struct verdict *draft)
{
    const struct sync_link *worst = place->worst;
    const struct model_comm *comm = &judge->model.comm[worst->comm];
    char name[96];
    uint32_t peers;
    double theirs = sync_peers_ms(judge, worst, &peers);

    sync_link_name(judge, worst, name, sizeof(name));
    verdict_because(
        draft, "ring",
        "transfers of %s (%u ranks) take %.1f ms per step%s, %.1f ms before, for the same %.0f kB",
        name, worst->from == MODEL_NONE ? comm->size : 2, sync_link_shown_ms(worst),
        worst->wavers ? " on average" : "", worst->past.mean, (double)worst->bytes / 1e3);
    if (peers)
        verdict_because(draft, "ring", "%u other%s of its kind and size, not slow: median %.1f ms",
                        peers, peers == 1 ? "" : "s", theirs);
    if (otherwise)
        sync_method_why(judge, otherwise, draft);
    verdict_because(draft, "ring",
                    "%u communicators or pairs are slower, %u of them between nodes; %u of the "
                    "same kinds are not slower, %u of them between nodes",
                    place->slow, place->between_nodes, place->peers, place->peers_between);
    if (worst->wavers)
        verdict_because(draft, "ring", "intermittent: slow and fast in turn within %u steps",
                        DETECT_DELAY * judge->sync->rule.look_steps);
    if (cost_ms >= 0)
        price_because(draft, history_period_ms(&judge->history, 5),
                      "transfers were as fast as before");
    if (draft->layer == LAYER_FABRIC && judge->model.nodes == 2)
        verdict_because(draft, "ring",
                        "with two nodes, the fabric and a network adapter cannot be distinguished");
    verdict_rule_out(
        draft, LAYER_GPU,
        "waiting for late ranks is excluded: a transfer begins when the last rank has entered");
    verdict_rule_out(draft, LAYER_USER_CODE, "the number of bytes is unchanged");
}

static uint64_t slow_since(const struct judge_state *judge, const struct sync_link *link)
{
    uint32_t steps = link->past.since * judge->sync->rule.look_steps + link->past.summed;
    const struct past_step *past =
        history_back(&judge->history, history_window(&judge->history, steps) - 1);

    return past ? past->step : judge->job_step->step;
}

#define CHOSEN 0.5 /* confidence that another algorithm or protocol is a fault */

void sync_draft(struct judge_state *judge, const struct sync_place *place, double cost_ms,
                struct verdict *draft)
{
    const char *wavers = place->worst->wavers ? ", intermittently" : "";
    const struct confidence basis = { .unpriced = cost_ms < 0 };
    struct sync_otherwise otherwise;
    bool found = sync_method_find(judge, place->worst, &otherwise);

    *draft = signal_draft(judge,
                          place->node != MODEL_NONE   ? SIGNAL_NIC
                          : place->between_nodes == 0 ? SIGNAL_INSIDE
                          : place->peers_between      ? SIGNAL_FABRIC_PART
                                                      : SIGNAL_FABRIC,
                          &basis);
    if (place->node != MODEL_NONE) {
        for (uint32_t rank = 0; rank < judge->model.world; rank++) {
            if (judge->model.rank[rank].node == place->node)
                judge_state_add_rank(judge, draft, rank);
        }
        snprintf(draft->cause, sizeof(draft->cause),
                 "all transfers to and from node %.40s are slow",
                 judge->model.node[place->node].name);
    }
    snprintf(draft->cause + strlen(draft->cause), sizeof(draft->cause) - strlen(draft->cause), "%s",
             wavers);
    if (place->node == MODEL_NONE) {
        const char *name = place->comm == MODEL_NONE ? "" : judge->model.comm[place->comm].name;

        snprintf(draft->group, sizeof(draft->group), "%s", name[0] ? name : "fabric");
    }
    if (found)
        sync_method_cause(&otherwise, wavers, draft->cause, sizeof(draft->cause));
    if (found && !otherwise.fewer) { /* fewer paths are a link or a card; this is a choice */
        draft->layer = LAYER_UNKNOWN;
        draft->confidence = MIN(draft->confidence, CHOSEN);
    }
    draft->since_step = slow_since(judge, place->worst);
    draft->seconds_per_step = MAX(0, cost_ms) / 1e3;
    sync_where_describe(judge, place, found ? &otherwise : NULL, cost_ms, draft);
}
