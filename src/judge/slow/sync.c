/* sync.c - measures each link's transfers step by step, and says when they have grown.
 *
 * Nothing is said when the bytes have changed, when the replay hides it behind compute, or when hosts had
 * no cpu to move the data with.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/slow/sync.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "judge/median.h"
#include "judge/slow/sync_private.h"

/* Much slower is clear after three steps, a little only after many. */
static const struct sync_rule {
    uint32_t steps;
    double times; /* of the threshold's excess over one */
} rules[] = {
    { 3, 2 },
    { 10, 1 },
};

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

void sync_attempt(struct judge_state *judge)
{
    struct sync *sync = judge->sync;

    for (uint32_t i = 0; i < sync->links; i++) {
        const struct sync_link *link = &sync->link[i];
        bool room = link->base_ms >= 0 && sync->past.used < SYNC_PAST_MAX;
        uint64_t *at = room ? map_put(&sync->past, sync_past_key(judge, link), 0) : NULL;

        if (at)
            *at = (uint64_t)(link->base_ms * 1e6);
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
    sync->link[sync->links] =
        (struct sync_link){ .comm = comm, .from = from, .to = to, .base_ms = -1 };
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
                meeting[number[i]].members < 2)
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

double sync_link_ms(const struct sync_link *link, uint32_t steps)
{
    double value[SYNC_STEPS];
    uint32_t count = MIN(MIN(steps, link->count), SYNC_STEPS);

    for (uint32_t i = 0; i < count; i++)
        value[i] = (double)link->ms[(link->count - 1 - i) % SYNC_STEPS];
    return median_f64(value, count);
}

static double sync_limit_ms(const struct judge_state *judge, const struct sync_link *link,
                            unsigned limit)
{
    double excess = judge->limits.sync_times - 1;

    return link->base_ms * (1 + (limit == SYNC_HALF ? excess / 2 : excess));
}

/* A step leaves the ring: it says how often a transfer of this link is longer while nothing is wrong. */
static void sync_link_forget(const struct judge_state *judge, struct sync_link *link)
{
    double ms = (double)link->ms[link->count % SYNC_STEPS];

    if (link->count < SYNC_STEPS + link->base_from || link->base_ms < 0 || link->slow)
        return;
    link->left++;
    for (unsigned limit = 0; limit < SYNC_LIMITS; limit++)
        link->longer[limit] += ms > sync_limit_ms(judge, link, limit);
}

static void sync_link_base(struct sync_link *link, double ms, uint32_t from, uint32_t left)
{
    link->base_ms = ms;
    link->base_from = from;
    link->left = left;
    memset(link->longer, 0, sizeof(link->longer));
}

/* Other bytes are another transfer: what was typical says nothing about it. */
static void sync_link_put(const struct judge_state *judge, struct sync_link *link)
{
    const uint64_t *past;
    double change = (double)link->sum_bytes - (double)link->bytes, typical;
    double alike = judge->limits.sync_bytes_alike * (double)link->bytes;
    uint32_t steps = (uint32_t)judge->limits.verdict_base_steps;

    if (change > alike || -change > alike) {
        link->bytes = link->sum_bytes;
        link->count = 0;
        past = map_get(&judge->sync->past, sync_past_key(judge, link));
        sync_link_base(link, past ? (double)*past / 1e6 : -1,
                       (uint32_t)judge->limits.verdict_warm_up, past ? SYNC_STEPS : 0);
    }
    sync_link_forget(judge, link);
    link->ms[link->count++ % SYNC_STEPS] = (float)link->sum_ms;
    if (link->count < (uint32_t)judge->limits.verdict_warm_up + steps ||
        (link->base_ms >= 0 && link->sum_ms >= link->base_ms))
        return; /* a step that is not shorter makes nothing typical that is */
    typical = sync_link_ms(link, steps);
    if (link->base_ms < 0)
        link->base_ms = typical;
    else if (sync_limit_ms(judge, link, SYNC_HALF) * typical < link->base_ms * link->base_ms)
        sync_link_base(link, typical, link->count - steps / 2,
                       0); /* the newest half is typical now */
    else
        link->base_ms = MIN(link->base_ms, typical);
}

/* ---- is it slow? ---- */

/* The share of the steps before the newest `steps`, and before those like them, that were longer than a limit; and one
 * more: few steps promise little. */
static double sync_longer_share(const struct judge_state *judge, const struct sync_link *link,
                                unsigned limit, uint32_t steps)
{
    uint32_t kept = MIN(link->count - MIN(link->count, link->base_from), (uint32_t)SYNC_STEPS);
    uint32_t longer = link->longer[limit], all = link->left;
    bool begun = false;

    for (uint32_t i = steps; i < kept; i++) {
        bool is_longer = (double)link->ms[(link->count - 1 - i) % SYNC_STEPS] >
                         sync_limit_ms(judge, link, limit);

        begun |= !is_longer;
        all += begun;
        longer += begun && is_longer;
    }
    return (longer + 1.0) / (all + 2.0);
}

static bool sync_breaks(const struct judge_state *judge, const struct sync_link *link,
                        const struct sync_rule *rule)
{
    double excess = judge->limits.sync_times - 1, least = 1e300;
    unsigned limit = rule->times > 1 ? SYNC_FULL : SYNC_HALF;

    if (link->count < rule->steps ||
        sync_link_ms(link, rule->steps) < link->base_ms * (1 + excess * rule->times))
        return false;
    for (uint32_t i = 0; i < rule->steps; i++)
        least = MIN(least, (double)link->ms[(link->count - 1 - i) % SYNC_STEPS]);
    return least > sync_limit_ms(judge, link, limit) &&
           pow(sync_longer_share(judge, link, limit, rule->steps), rule->steps) <
               judge->limits.sync_chance;
}

/* The probability that so many of a ring's steps or more are longer, each with the probability `share`. */
static double sync_chance_of(uint32_t longer, double share)
{
    double term = pow(1 - share, SYNC_STEPS), sum = 0;

    for (uint32_t i = 0; i < SYNC_STEPS; i++) {
        sum += i < longer ? term : 0;
        term *= share / (1 - share) * (SYNC_STEPS - i) / (i + 1.0);
    }
    return 1 - sum;
}

/* It was slow in many of the last steps, more than by chance, and was as before in between, again and again. */
static bool sync_wavers(const struct judge_state *judge, const struct sync_link *link)
{
    double limit = sync_limit_ms(judge, link, SYNC_FULL);
    uint32_t slow = 0, turns = 0;
    bool before = false;

    if (link->count < SYNC_STEPS)
        return false;
    for (uint32_t i = 0; i < SYNC_STEPS; i++) {
        bool now = (double)link->ms[(link->count - 1 - i) % SYNC_STEPS] > limit;

        turns += i > 0 && now != before;
        slow += now;
        before = now;
    }
    return slow >= SYNC_STEPS / 3 && turns >= 4 &&
           sync_chance_of(slow, sync_longer_share(judge, link, SYNC_FULL, SYNC_STEPS)) <
               judge->limits.sync_chance;
}

static void link_judge(const struct judge_state *judge, struct sync_link *link, bool open)
{
    const struct thresholds *limits = &judge->limits;
    double excess = limits->sync_times - 1;
    bool was = link->slow;

    link->slow = link->wavers = false;
    if (!sync_link_is_active(link, judge->job_step->step))
        return;
    /* Nearly all links of nearly all steps are as before: no rule is broken without the newest. */
    for (size_t i = 0; link->sum_ms > link->base_ms * (1 + excess / 2) && i < COUNT(rules); i++)
        link->slow |= sync_breaks(judge, link, &rules[i]);
    if (!link->slow)
        link->slow = link->wavers = sync_wavers(judge, link);
    if (link->slow && sync_link_ms(link, SYNC_STEPS) < limits->sync_least)
        link->slow = link->wavers = false;
    if (!link->slow && open && was)
        link->slow = sync_link_ms(link, 5) > link->base_ms * (1 + excess * limits->sync_stay_share);
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

    if (!link || !link->slow || link->sum_ms <= link->base_ms)
        return ns;
    return (int64_t)((double)ns * link->base_ms / link->sum_ms);
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

/* What a step like the last ones loses.  One in which a host was held up for long costs a lot, and the next ones do
 * not: such a step alone says nothing about the network.
 */
static double sync_usual_cost_ms(const struct sync *sync, uint32_t steps, double cost)
{
    double now = 0, usual = 0;

    for (uint32_t i = 0; i < sync->links; i++) {
        const struct sync_link *link = &sync->link[i];
        double excess = MAX(0, link->sum_ms - link->base_ms);

        if (!link->slow)
            continue;
        now += excess;
        usual +=
            link->wavers ? excess : MIN(excess, MAX(0, sync_link_ms(link, steps) - link->base_ms));
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
    return starved > judge->limits.sync_cpu_share * cost;
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

/* Of the step, in ms: what it must cost at least to be said. */
static double sync_least_cost_ms(const struct judge_state *judge)
{
    double share =
        judge->history.host_view ? judge->limits.sync_host_share : judge->limits.sync_cost_share;

    return share * history_period_ms(&judge->history, 5);
}

static void sync_step(struct judge_state *judge)
{
    struct sync *sync = judge->sync;
    struct tracked_verdict *open = sync_open_verdict(judge);
    uint64_t key, before = sync->slow_key;
    double cost;

    if (!judge->job_step || !sync_links_sum(judge, sync))
        return;
    for (uint32_t i = 0; i < sync->links; i++) {
        if (sync->link[i].step == judge->job_step->step)
            sync_link_put(judge, &sync->link[i]);
        link_judge(judge, &sync->link[i], open != NULL);
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
    cost = sync_usual_cost_ms(sync, (uint32_t)judge->limits.sync_usual_steps, cost);
    /* The same links twice: what slows several of them is seen in all before anything is said. */
    if (key != before || cost < sync_least_cost_ms(judge) || sync_is_starved(judge, cost))
        return;
    sync_accuse(judge, cost);
}

const struct judge judge_sync = { .name = "sync", .step = sync_step, .evidence = EVIDENCE_TIMES };
