/* price.c - removes suspects from the newest step, in two orders.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "judge/price.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"

/* Those with a place of their own in both orders, of which one has one replay less; all others share the last one. */
#define PRICE_PLACES (PRICE_REPLAYS / 2)

struct price_order {
    const uint8_t *who;         /* by rank: its suspect */
    uint32_t count;             /* suspects */
    double first_ms[PRICE_MAX]; /* by suspect: to first order */
    uint8_t place[PRICE_MAX];   /* by suspect: when it is removed */
    uint32_t places;
};

static bool price_order_find(struct judge_state *judge, const uint8_t *who, uint32_t count,
                             struct price_order *ret)
{
    CLEAN(free_clean) int64_t *cost_ns = calloc(judge->model.world + 1, sizeof(*cost_ns));

    *ret = (struct price_order){ .who = who, .count = count, .places = MIN(count, PRICE_PLACES) };
    if (!cost_ns)
        return false;
    if (count > 1)
        program_costs_ns(judge->program, cost_ns);
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (who[rank] < count)
            ret->first_ms[who[rank]] += (double)cost_ns[rank] / 1e6;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t before = 0;

        for (uint32_t other = 0; other < count; other++)
            before += ret->first_ms[other] > ret->first_ms[i] ||
                      (other < i && ret->first_ms[other] >= ret->first_ms[i]);
        ret->place[i] = (uint8_t)MIN(before, PRICE_PLACES - 1);
    }
    return true;
}

/* What the removal of all suspects in these places gives back. */
static double price_places_ms(struct judge_state *judge, const struct price_order *order,
                              uint32_t from, uint32_t to, uint8_t *flag)
{
    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        uint32_t suspect = order->who[rank];

        flag[rank] =
            suspect < order->count && order->place[suspect] >= from && order->place[suspect] < to;
    }
    return (double)(program_replayed_ns(judge->program) -
                    program_without_ns(judge->program, flag)) /
           1e6;
}

/* A place that several share is divided by their first-order costs. */
static void price_divide(const struct price_order *order, const double *place_ms, struct price *ret)
{
    double sum[PRICE_PLACES] = { 0 };
    uint32_t in[PRICE_PLACES] = { 0 };

    for (uint32_t i = 0; i < order->count; i++) {
        sum[order->place[i]] += order->first_ms[i];
        in[order->place[i]]++;
    }
    for (uint32_t i = 0; i < order->count; i++) {
        uint32_t at = order->place[i];
        double share = sum[at] > 0 ? order->first_ms[i] / sum[at] : 1.0 / in[at];

        ret->cost_ms[i] = (in[at] > 1 ? share : 1) * place_ms[at];
    }
}

void price_ranks(struct judge_state *judge, const uint8_t *who, uint32_t count, struct price *ret)
{
    CLEAN(free_clean) uint8_t *flag = calloc(judge->model.world + 1, 1);
    double place_ms[PRICE_PLACES] = { 0 }, first = 0, last = 0;
    struct price_order order;

    count = MIN(count, PRICE_MAX);
    *ret = (struct price){ .all_ms = -1 };
    if (!judge->program_ready || !flag || !price_order_find(judge, who, count, &order))
        return;
    ret->all_ms = price_places_ms(judge, &order, 0, order.places, flag);
    for (uint32_t i = 0; i < order.places; i++) {
        double without_first = ret->all_ms, without_last = ret->all_ms;

        if (i + 1 < order.places) {
            without_first = price_places_ms(judge, &order, 0, i + 1, flag);
            without_last = price_places_ms(judge, &order, order.places - 1 - i, order.places, flag);
        }
        place_ms[i] += (without_first - first) / 2;
        place_ms[order.places - 1 - i] += (without_last - last) / 2;
        first = without_first;
        last = without_last;
    }
    price_divide(&order, place_ms, ret);
}

double price_rank_ms(struct judge_state *judge, uint32_t rank)
{
    CLEAN(free_clean) uint8_t *who = malloc(judge->model.world + 1);
    struct price price;

    if (!who)
        return -1;
    memset(who, PRICE_NOBODY, judge->model.world);
    who[rank] = 0;
    price_ranks(judge, who, 1, &price);
    return price.all_ms;
}

/* ---- verdicts ---- */

/* What the removal of these gives back. */
static double price_removed_ms(struct judge_state *judge, struct tracked_verdict *const *list,
                               uint32_t from, uint32_t to)
{
    program_trial_begin(judge->program);
    for (uint32_t i = from; i < to; i++)
        list[i]->by->remedy(judge, list[i]);
    return (double)(program_replayed_ns(judge->program) - program_trial_ns(judge->program)) / 1e6;
}

/* Those that a replay can do without, the dearest first. */
static uint32_t price_verdicts_find(struct judge_state *judge, struct tracked_verdict **list)
{
    uint64_t now = history_back(&judge->history, 0)->step;
    uint32_t count = 0;

    program_trial_begin(judge->program); /* what the remedies do to it is not asked for yet */
    for (uint32_t i = 0; i < judge->verdicts.count && count < PRICE_PLACES; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        uint32_t at = count;

        if (!tracked->open || tracked->seen_step != now || tracked->step_seconds <= 0 ||
            !tracked->by || !tracked->by->remedy || !tracked->by->remedy(judge, tracked))
            continue;
        for (; at > 0 && list[at - 1]->step_seconds < tracked->step_seconds; at--)
            list[at] = list[at - 1];
        list[at] = tracked;
        count++;
    }
    return count;
}

void price_verdicts(struct judge_state *judge)
{
    struct tracked_verdict *list[PRICE_PLACES];
    double cost_ms[PRICE_PLACES] = { 0 }, all_ms, first = 0, last = 0;
    uint32_t count = judge->program_ready ? price_verdicts_find(judge, list) : 0;

    if (count < 2)
        return;
    all_ms = price_removed_ms(judge, list, 0, count);
    for (uint32_t i = 0; i < count; i++) {
        bool end = i + 1 == count;
        double without_first = end ? all_ms : price_removed_ms(judge, list, 0, i + 1);
        double without_last = end ? all_ms : price_removed_ms(judge, list, count - 1 - i, count);

        cost_ms[i] += (without_first - first) / 2;
        cost_ms[count - 1 - i] += (without_last - last) / 2;
        first = without_first;
        last = without_last;
    }
    for (uint32_t i = 0; i < count; i++)
        list[i]->step_seconds = MAX(0, cost_ms[i]) / 1e3;
}

bool price_remedy_ranks(struct judge_state *judge, const struct tracked_verdict *tracked)
{
    const struct verdict *verdict = &tracked->verdict;
    bool several = verdict->rank_count > 1 && verdict->layer == LAYER_CPU;
    CLEAN(free_clean) uint8_t *flag = NULL;

    if (verdict->kind != VERDICT_STRAGGLER || verdict->rank_count == 0 || several)
        return false;
    flag = calloc(judge->model.world + 1, 1);
    for (uint32_t i = 0; flag && i < MIN(verdict->rank_count, VERDICT_RANKS); i++) {
        if (verdict->rank[i] < judge->model.world)
            flag[verdict->rank[i]] = 1;
    }
    if (flag)
        program_trial_without(judge->program, flag);
    return flag != NULL;
}

#define PRICE_SOURCE "replay"

static void price_line(const struct verdict *verdict, double period_ms, char *out, size_t room)
{
    snprintf(out, room, "each step of %.1f ms would be %.1f ms shorter if %s", period_ms,
             verdict->seconds_per_step * 1e3, verdict->shorter_if);
}

void price_because(struct verdict *draft, double period_ms, const char *shorter_if)
{
    char line[sizeof(draft->because[0].what)];

    draft->shorter_if = shorter_if;
    price_line(draft, period_ms, line, sizeof(line));
    verdict_because(draft, PRICE_SOURCE, "%s", line);
}

void price_renew(struct verdict *verdict, double period_ms)
{
    for (uint32_t i = 0; verdict->shorter_if && i < verdict->because_count; i++) {
        struct verdict_line *line = &verdict->because[i];

        if (strcmp(line->source, PRICE_SOURCE) == 0)
            price_line(verdict, period_ms, line->what, sizeof(line->what));
    }
}
