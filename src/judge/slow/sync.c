/* sync.c - measures each link's transfers step by step, and says when they have grown.
 *
 * Nothing is reported when the bytes have changed, when the replay hides it behind compute, or when hosts had
 * no cpu to move the data with.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/sync.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/median.h"
#include "judge/slow/signals.h"
#include "judge/slow/sync_private.h"

int sync_create(struct sync **ret)
{
    struct sync *sync = calloc(1, sizeof(*sync));

    if (!sync)
        return -ENOMEM;
    *ret = sync;
    return 0;
}

void sync_destroy(struct sync *sync)
{
    if (!sync)
        return;
    map_fini(&sync->by_key);
    map_fini(&sync->past);
    sync_method_fini(sync);
    free(sync->link);
    free(sync);
}

size_t sync_bytes(const struct sync *sync)
{
    return sizeof(*sync) + sync->room * sizeof(*sync->link) +
           sync->move_room * sizeof(*sync->move) + sync->past_room * sizeof(*sync->past_way) +
           map_bytes(&sync->by_key) + map_bytes(&sync->past) + map_bytes(&sync->move_by_key) +
           map_bytes(&sync->move_by_comm) + map_bytes(&sync->past_ways);
}

static uint64_t sync_past_key(const struct judge_state *judge, const struct sync_link *link)
{
    const struct model_comm *comm = &judge->model.comm[link->comm];
    uint64_t key = hash64(comm->kind, comm->name, strlen(comm->name));

    key = hash64_u64(hash64_u64(key, comm->size), link->bytes);
    key = hash64_u64(hash64_u64(key, link->from), link->to);
    /* Names need not be unique: the member that is always there tells them apart. */
    return hash64_u64(key, comm->size ? model_member(comm, 0) : 0);
}

/* What a link of a former attempt usually took, and its noise: as one value of a map. */
static uint64_t sync_usual_pack(const struct detect_past *past)
{
    float value[2] = { (float)past->mean, (float)past->noise };
    uint64_t packed;

    memcpy(&packed, value, sizeof(packed));
    return packed;
}

static void sync_usual_begin(struct detect_past *past, uint64_t packed)
{
    float value[2];

    memcpy(value, &packed, sizeof(value));
    detect_past_begin(past, (double)value[0], (double)value[1]);
}

void sync_attempt(struct judge_state *judge)
{
    struct sync *sync = judge->sync;

    for (uint32_t i = 0; i < sync->links; i++) {
        const struct sync_link *link = &sync->link[i];
        bool room = detect_past_known(&link->past) && sync->past.used < SYNC_PAST_MAX;
        uint64_t *at = room ? map_put(&sync->past, sync_past_key(judge, link), 0) : NULL;

        if (at)
            *at = sync_usual_pack(&link->past);
    }
    sync_method_attempt(judge);
    map_fini(&sync->by_key);
    sync->links = 0;
    sync->slow_key = 0;
}

/* ---- measuring ---- */

static uint64_t sync_link_key(uint32_t comm, uint32_t from, uint32_t to)
{
    return hash64_u64(hash64_u64(comm, from), to);
}

const struct sync_link *sync_link_find(const struct sync *sync, uint32_t comm, uint32_t from,
                                       uint32_t to)
{
    const uint64_t *at = map_get(&sync->by_key, sync_link_key(comm, from, to));

    return at && *at < sync->links ? &sync->link[*at] : NULL;
}

static struct sync_link *sync_link_get(struct sync *sync, uint32_t comm, uint32_t from, uint32_t to)
{
    uint64_t key = sync_link_key(comm, from, to), *at;

    at = map_put(&sync->by_key, key, sync->links);
    if (!at)
        return NULL;
    if (*at < sync->links)
        return &sync->link[*at];
    if (!ARRAY_FIT(sync->link, sync->room, sync->links + 1))
        return NULL; /* the key stays without a link: found again, it is tried again */
    sync->link[sync->links] = (struct sync_link){ .comm = comm, .from = from, .to = to };
    return &sync->link[sync->links++];
}

/* A pair is told by its receiver. */
static struct sync_link *sync_item_link(const struct judge_state *judge, struct sync *sync,
                                        const struct model_shape *shape, uint32_t rank,
                                        uint32_t item)
{
    const struct shape_item *at = &shape->fact.item[item];
    uint32_t comm = shape->comm[item], self;

    if (comm == MODEL_NONE)
        return NULL;
    if (at->kind == ITEM_COLL)
        return sync_link_get(sync, comm, MODEL_NONE, MODEL_NONE);
    self = model_index(&judge->model, comm, rank);
    return at->what == LOCKSTEP_OP_SEND ? sync_link_get(sync, comm, self, at->peer)
                                        : sync_link_get(sync, comm, at->peer, self);
}

static int64_t sync_transfer_ns(const struct judge_state *judge, const struct job_step *job_step,
                                uint32_t rank, uint32_t item, const struct meeting *meeting)
{
    const struct item_time *time = &job_step->step_of[rank].time[item];
    const struct shape_item *at = &job_step->shape_of[rank]->fact.item[item];
    int64_t begin = job_step_begin(&judge->model, job_step, rank),
            stay = time->end_ns - time->start_ns;

    if (at->count > 1 && job_step->step_of[rank].flags & STEP_SPLIT && time->wait_ns >= 0)
        return MAX(0, stay - time->wait_ns);
    if (at->kind == ITEM_COLL && op_synchronises(at->what))
        return meeting->shortest_ns;
    return MAX(0, MIN(stay, begin + time->end_ns - meeting->last_arrival_ns));
}

/* Where a member is not observed, the others may have waited for it: what they stayed is no transfer. */
static bool sync_is_whole(const struct judge_state *judge, const struct model_shape *shape,
                          uint32_t item, const struct meeting *meeting)
{
    uint32_t wanted = 2;

    if (shape->fact.item[item].kind == ITEM_COLL && shape->comm[item] != MODEL_NONE)
        wanted = MAX(2, judge->model.comm[shape->comm[item]].size);
    return meeting->members >= wanted;
}

/* Adds up the transfers of all links in the newest step, each meeting once. */
static bool sync_links_sum(struct judge_state *judge, struct sync *sync)
{
    const struct job_step *job_step = judge->job_step;
    const struct meeting *meeting = split_meeting_base(judge->splitter);
    CLEAN(free_clean) uint8_t *seen = calloc(split_meetings(judge->splitter) + 1, 1);

    if (!seen)
        return false;
    for (uint32_t i = 0; i < sync->links; i++) {
        sync->link[i].sum_ms = 0;
        sync->link[i].sum_bytes = 0;
    }
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        const struct model_shape *shape = job_step->shape_of[rank];
        const uint32_t *number = split_numbers(judge->splitter, rank);

        for (uint32_t i = 0; shape && i < shape->fact.count; i++) {
            const struct shape_item *item = &shape->fact.item[i];
            bool sends = item->kind == ITEM_P2P && item->what == LOCKSTEP_OP_SEND;
            struct sync_link *link;

            if (number[i] == MODEL_NONE || sends || seen[number[i]] ||
                !sync_is_whole(judge, shape, i, &meeting[number[i]]))
                continue;
            seen[number[i]] = 1;
            link = sync_item_link(judge, sync, shape, rank, i);
            if (!link)
                return false;
            link->sum_ms +=
                (double)sync_transfer_ns(judge, job_step, rank, i, &meeting[number[i]]) / 1e6;
            link->sum_bytes += item->bytes * item->count;
            link->step = job_step->step;
        }
    }
    return true;
}

double sync_link_ms(const struct sync_link *link, uint32_t looks)
{
    double value[DETECT_DELAY];
    uint32_t count = MIN(looks, detect_past_kept(&link->past));

    for (uint32_t i = 0; i < count; i++)
        value[i] = detect_past_back(&link->past, i);
    return median_f64(value, count);
}

/* Other bytes are another transfer: what was usual says nothing about it. */
static void sync_link_put(const struct judge_state *judge, struct sync_link *link)
{
    double change = (double)link->sum_bytes - (double)link->bytes;
    double alike = judge->limits.verdict_least_cost * (double)link->bytes;

    if (change > alike || -change > alike) {
        const uint64_t *past;

        link->bytes = link->sum_bytes;
        link->count = 0;
        link->past = (struct detect_past){ 0 };
        past = map_get(&judge->sync->past, sync_past_key(judge, link));
        if (past)
            sync_usual_begin(&link->past, *past);
    }
    if (++link->count > (uint32_t)judge->limits.verdict_warm_up) {
        struct detect_rule rule = judge->sync->rule;

        rule.noise *= link->past.mean;
        detect_past_put(&link->past, link->sum_ms, &rule);
    }
}

/* Of all links: long transfers vary by more time, and by about the same share. */
static double sync_noise_share(const struct sync *sync)
{
    struct detect_kin kin = { 0 };

    for (uint32_t i = 0; i < sync->links; i++) {
        const struct detect_past *past = &sync->link[i].past;

        if (past->mean > 0)
            detect_kin_add(&kin, detect_past_noise(past) / past->mean);
    }
    return detect_kin_noise(&kin);
}

/* ---- is it slow? ---- */

/* Since it became slow it was as before in between: in a quarter of the steps at least. */
static bool sync_wavers(const struct sync_link *link, double least)
{
    uint32_t count = MIN(link->past.since, detect_past_kept(&link->past)), usual = 0;
    double limit = link->past.mean + detect_past_rise(&link->past, least) / 2;

    for (uint32_t i = 0; i < count; i++)
        usual += detect_past_back(&link->past, i) < limit;
    return 4 * usual >= count && count > 0;
}

static void link_judge(const struct judge_state *judge, struct sync_link *link)
{
    link->slow = sync_link_is_active(link, judge->job_step->step) && link->past.risen;
    link->wavers = link->slow && sync_wavers(link, judge->sync->rule.least);
}

/* What the newest step lost: its replay with slow transfers as they were before. */
struct ask {
    const struct judge_state *judge;
    struct sync *sync;
};

static int64_t sync_as_before(void *arg, const struct model_shape *shape, uint32_t rank,
                              uint32_t item, int64_t ns)
{
    const struct ask *ask = arg;
    const struct sync_link *link = sync_item_link(ask->judge, ask->sync, shape, rank, item);

    if (!link || !link->slow || link->sum_ms <= link->past.mean)
        return ns;
    return (int64_t)((double)ns * link->past.mean / link->sum_ms);
}

static double sync_cost_ms(struct judge_state *judge)
{
    struct ask ask = { judge, judge->sync };
    int64_t before;

    if (!judge->program_ready)
        return -1;
    before = program_transfers_ns(judge->program, judge->job_step, sync_as_before, &ask);
    return MAX(0, (double)(program_replayed_ns(judge->program) - before) / 1e6);
}

/* What a step loses on average since it began.  One in which a host was held up for long costs a lot, and the next ones
 * do not: such a step alone says nothing about the network.
 */
static double sync_usual_cost_ms(const struct sync *sync, double cost)
{
    double now = 0, usual = 0;

    for (uint32_t i = 0; i < sync->links; i++) {
        const struct sync_link *link = &sync->link[i];
        double excess = MAX(0, link->sum_ms - link->past.mean);

        if (!link->slow)
            continue;
        now += excess;
        usual += MIN(excess, MAX(0, detect_past_rise(&link->past, sync->rule.least)));
    }
    return now > 0 ? cost * usual / now : cost;
}

/* Where the network is a program on the host, a host without a cpu moves nothing.  Where hosts do all of it,
 * as gloo's threads do, any wait for a cpu may be the transfer's, and not only what is new of it.
 */
static bool sync_is_starved(const struct judge_state *judge, double cost)
{
    double starved = 0, period = history_period_ms(&judge->history, 5);
    bool all = judge->history.host_view;

    for (uint32_t node = 0; node < judge->model.nodes && node < judge->history.nodes; node++) {
        struct node_typical now = history_node(&judge->history, node, 5, 2);

        double usual = all ? 0 : MAX(0, judge->history.typical[node].pressure);

        starved = MAX(starved, (now.pressure - usual) * period);
    }
    return starved > judge->limits.verdict_explains * cost;
}

static struct tracked_verdict *sync_open_verdict(const struct judge_state *judge)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];

        if (tracked->open && tracked->verdict.kind == VERDICT_SYNC_STALL &&
            strcmp(tracked->verdict.id, judge->sync->id) == 0)
            return tracked;
    }
    return NULL;
}

/* Which links are slow; 0: none. */
static uint64_t slow_key(const struct sync *sync)
{
    uint64_t key = 0;

    for (uint32_t i = 0; i < sync->links; i++) {
        if (sync->link[i].slow)
            key = hash64_u64(key + 1, i);
    }
    return key;
}

static void sync_accuse(struct judge_state *judge, double cost)
{
    struct sync_place place;
    struct verdict draft;
    struct tracked_verdict *tracked;
    bool fresh;

    if (sync_where(judge, &place) < 0)
        return;
    sync_draft(judge, &place, cost, &draft);
    tracked = judge_state_find(judge, &draft, &fresh);
    if (tracked)
        memcpy(judge->sync->id, tracked->verdict.id, sizeof(judge->sync->id));
}

/* What is slow shows before where: the first slow steps may be those of one link only.  A verdict that names
 * nobody gets its node when that has been plain for some steps; it stays the same verdict.
 */
static void sync_settle(struct judge_state *judge, struct tracked_verdict *open, double cost)
{
    struct sync *sync = judge->sync;
    struct verdict draft;
    struct sync_place place;

    if (open->verdict.rank_count || sync_where(judge, &place) < 0)
        return;
    sync->settles =
        place.node != MODEL_NONE && place.node == sync->settles_on ? sync->settles + 1 : 0;
    sync->settles_on = place.node;
    if (sync->settles < judge->limits.sync_settles)
        return;
    sync_draft(judge, &place, MAX(cost, 0), &draft);
    judge_state_renew(open, &draft);
}

static void sync_step(struct judge_state *judge)
{
    struct sync *sync = judge->sync;
    struct tracked_verdict *open = sync_open_verdict(judge);
    uint64_t key, before = sync->slow_key;
    double cost;

    if (!judge->job_step || !sync_links_sum(judge, sync))
        return;
    sync->rule = signal_rule(judge, SIGNAL_FABRIC, sync->links);
    sync->rule.noise = sync_noise_share(sync);
    for (uint32_t i = 0; i < sync->links; i++) {
        if (sync->link[i].step == judge->job_step->step)
            sync_link_put(judge, &sync->link[i]);
        link_judge(judge, &sync->link[i]);
    }
    sync_method_step(judge);
    sync->slow_key = key = slow_key(sync);
    if (!key)
        return;
    cost = sync_cost_ms(judge);
    if (open) {
        open->seen_step = judge->job_step->step;
        if (cost >= 0)
            open->step_seconds = cost / 1e3;
        sync_settle(judge, open, cost);
        return;
    }
    cost = sync_usual_cost_ms(sync, cost);
    /* The same links twice: what slows several of them is seen in all before anything is said. */
    if (key != before || cost < sync->rule.least || sync_is_starved(judge, cost))
        return;
    sync_accuse(judge, cost);
}

static bool sync_remedy(struct judge_state *judge, const struct tracked_verdict *tracked)
{
    struct ask ask = { judge, judge->sync };

    if (strcmp(tracked->verdict.id, judge->sync->id) != 0)
        return false;
    program_trial_transfers(judge->program, judge->job_step, sync_as_before, &ask);
    return true;
}

const struct judge judge_sync = {
    .name = "sync", .step = sync_step, .evidence = EVIDENCE_TIMES, .remedy = sync_remedy
};
