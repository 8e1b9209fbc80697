/* stall_input_rank.c - a rank whose batches come late while those of its peers do not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/price.h"
#include "judge/slow/stall/stall_private.h"

#define SUSPECTS_MAX 32
#define BLUR 2 /* standard errors by which a mean wait for a CPU may be too low */

/* They wait for a large part of the step as well: then it is the job's input, unless one waits for far longer. */
static bool rank_peers_wait(const struct judge_state *judge, double theirs, uint32_t steps)
{
    return theirs > signal_least(judge, SIGNAL_INPUT) * history_period_ms(&judge->history, steps);
}

/* How much longer than its peers' median it waited, in the last steps: the median, and the least. */
static double rank_excess_ms(const struct judge_state *judge, uint32_t rank, uint32_t steps)
{
    uint32_t peers;
    double theirs =
        history_peers_ms(&judge->history, &judge->model, rank, steps, split_input_ns, &peers);
    double least = 1e300, own;

    if (peers == 0)
        return 0; /* nobody to compare it with: the job's input */
    for (uint32_t back = 0; back < steps && history_back(&judge->history, back); back++) {
        const struct rank_split *split = &history_back(&judge->history, back)->split[rank];

        least = MIN(least, split->present ? (double)split_input_ns(split) / 1e6 - theirs : 0);
    }
    own = history_part_ms(&judge->history, rank, steps, split_input_ns);
    if (own < judge->limits.verdict_times * theirs && rank_peers_wait(judge, theirs, steps))
        return 0;
    return MIN(own - theirs, 2 * least);
}

static bool rank_is_starved(const struct judge_state *judge, uint32_t rank, uint32_t steps,
                            double excess)
{
    double own = history_starved_ms(&judge->history, rank, steps) +
                 BLUR * history_starved_error_ms(&judge->history, rank, steps);

    return own - history_peers_starved_ms(&judge->history, &judge->model, rank, steps) >
           judge->limits.verdict_explains * excess;
}

/* `later_ms`: than its peers in the newest step, had these not waited for it. */
static const struct stall_rule *rank_rule(const struct judge_state *judge, uint32_t rank,
                                          double later_ms)
{
    for (size_t i = 0; i < COUNT(stall_input_rules); i++) {
        uint32_t steps = stall_steps(judge, &stall_input_rules[i]);
        double limit = signal_least(judge, SIGNAL_BATCHES) * stall_input_rules[i].shares *
                       history_period_ms(&judge->history, steps);
        double excess, peers_ms;
        uint32_t peers;

        if (judge->history.count < steps + (uint32_t)judge->limits.verdict_warm_up)
            return NULL;
        if (later_ms <= limit)
            continue;
        /* Whose batch is later wins time for the other: of two that wait, a few steps do not tell. */
        peers_ms =
            history_peers_ms(&judge->history, &judge->model, rank, steps, split_input_ns, &peers);
        if (i + 1 < COUNT(stall_input_rules) && rank_peers_wait(judge, peers_ms, steps))
            continue;
        excess = rank_excess_ms(judge, rank, steps);
        if (excess > limit && !rank_is_starved(judge, rank, steps, excess))
            return &stall_input_rules[i];
    }
    return NULL;
}

static void rank_describe_input(struct judge_state *judge, struct verdict *draft, uint32_t rank,
                                uint32_t steps)
{
    const struct history *history = &judge->history;
    const struct model *model = &judge->model;
    uint32_t peers;
    double theirs = history_peers_ms(history, model, rank, steps, split_input_ns, &peers);

    verdict_because(draft, "ring",
                    "rank %u: %s for its next batch %.1f ms per step, median of %u peer%s %.1f ms "
                    "over %u steps (peers: %s)",
                    rank, history->host_view ? "the host waits" : "the device waits",
                    history_part_ms(history, rank, steps, split_input_ns), peers,
                    peers == 1 ? "" : "s", theirs, steps, peer_basis_name(model->rank[rank].basis));
    theirs = history_peers_ms(history, model, rank, steps, split_compute_ns, &peers);
    verdict_rule_out(draft, LAYER_GPU, "device compute %.1f ms, peer median %.1f ms",
                     history_part_ms(history, rank, steps, split_compute_ns), theirs);
    theirs = history_peers_starved_ms(history, model, rank, steps);
    verdict_rule_out(draft, LAYER_CPU, "waits %.1f ms per step for a CPU, peer median %.1f ms",
                     history_starved_ms(history, rank, steps), theirs);
    theirs = history_peers_ms(history, model, rank, steps, split_transfer_ns, &peers);
    verdict_rule_out(draft, LAYER_FABRIC, "transfer %.1f ms, peer median %.1f ms",
                     history_part_ms(history, rank, steps, split_transfer_ns), theirs);
}

struct input_suspects { /* ranks that came under suspicion in this step, named together */
    uint32_t rank[SUSPECTS_MAX], count;
    const struct stall_rule *rule;
    uint8_t *flag;
};

/* What they cost, beside those who are slow for another reason. */
static double ranks_cost_ms(struct judge_state *judge, const uint8_t *flag)
{
    CLEAN(free_clean) uint8_t *who = malloc(judge->model.world + 1);
    struct price price;

    for (uint32_t rank = 0; who && rank < judge->model.world; rank++)
        who[rank] = flag[rank] ? 0 : signals_slow_steps(judge, rank) ? 1 : PRICE_NOBODY;
    if (!who)
        return -1;
    price_ranks(judge, who, 2, &price);
    return price.all_ms < 0 ? -1 : price.cost_ms[0];
}

static void ranks_accuse(struct judge_state *judge, const struct input_suspects *suspects)
{
    struct verdict draft =
        signal_draft(judge, SIGNAL_BATCHES, &(struct confidence){ .rank = suspects->rank[0] });
    uint32_t steps = stall_steps(judge, suspects->rule), back = 0;
    double cost = ranks_cost_ms(judge, suspects->flag), excess;
    bool fresh;

    if (cost < signal_least(judge, SIGNAL_BATCHES) * history_period_ms(&judge->history, 5))
        return; /* hidden behind others, or not known */
    for (uint32_t i = 0; i < suspects->count; i++)
        judge_state_add_rank(judge, &draft, suspects->rank[i]);
    draft.layer = (uint8_t)stall_input_layer(
        judge, &draft, suspects->rank[0],
        history_part_ms(&judge->history, suspects->rank[0], steps, stall_faults));
    excess = rank_excess_ms(judge, suspects->rank[0], steps);
    draft.since_step = history_back(&judge->history, 0)->step;
    for (; history_back(&judge->history, back); back++) {
        const struct past_step *past = history_back(&judge->history, back);

        if ((double)split_input_ns(&past->split[suspects->rank[0]]) / 1e6 < excess / 2)
            break;
        draft.since_step = past->step;
    }
    draft.seconds_per_step = cost / 1e3;
    for (uint32_t i = 0; i < MIN(suspects->count, 3); i++)
        rank_describe_input(judge, &draft, suspects->rank[i], steps);
    price_because(&draft, history_period_ms(&judge->history, steps),
                  "the named ranks were as fast as their peers");
    judge_state_find(judge, &draft, &fresh);
}

static bool input_rank_is_ours(const struct tracked_verdict *tracked)
{
    return tracked->open && tracked->verdict.kind == VERDICT_STRAGGLER &&
           (tracked->verdict.layer == LAYER_DATA || tracked->verdict.layer == LAYER_STORAGE);
}

/* Open verdicts of ours that still hold. */
static void ranks_stay(struct judge_state *judge)
{
    double limit =
        signal_least(judge, SIGNAL_BATCHES) * DETECT_KEEP * history_period_ms(&judge->history, 5);

    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        CLEAN(free_clean) uint8_t *flag = NULL;
        double cost, most = 0;

        if (!input_rank_is_ours(tracked) || !(flag = calloc(judge->model.world, 1)))
            continue;
        for (uint32_t at = 0; at < MIN(tracked->verdict.rank_count, VERDICT_RANKS); at++) {
            uint32_t rank = tracked->verdict.rank[at];

            if (rank >= judge->model.world)
                continue;
            flag[rank] = 1;
            most = MAX(most, rank_excess_ms(judge, rank, 5));
        }
        if (most < limit)
            continue;
        stall_layer_settle(judge, tracked, tracked->verdict.rank[0]);
        cost = ranks_cost_ms(judge, flag);
        tracked->seen_step = history_back(&judge->history, 0)->step;
        if (cost >= 0)
            tracked->step_seconds = cost / 1e3;
    }
}

/* Some verdict names it already.  One on a whole node without cpus does not count: its ranks may wait for
 * batches as well, and rank_is_starved() keeps the two apart.
 */
static bool stall_is_named(const struct judge_state *judge, uint32_t rank)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        const struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        const struct verdict *verdict = &tracked->verdict;

        if (!tracked->open || verdict->kind != VERDICT_STRAGGLER ||
            (verdict->layer == LAYER_CPU && verdict->rank_count > 1))
            continue;
        for (uint32_t at = 0; at < MIN(verdict->rank_count, VERDICT_RANKS); at++) {
            if (verdict->rank[at] == rank)
                return true;
        }
    }
    return false;
}

/* The rule that its input breaks; NULL: none. */
static const struct stall_rule *rank_broken(const struct judge_state *judge, uint32_t rank)
{
    const struct past_step *past = history_back(&judge->history, 0);
    const struct stall_input *input = &judge->stall->input;
    const struct rank_split *split = &past->split[rank];
    double least = signal_least(judge, SIGNAL_BATCHES) * (double)past->measured_ns / 2e6, later_ms;

    if (!split->present || past->measured_ns <= 0 || input->newest_ms < least ||
        input->world < judge->model.world)
        return NULL;
    later_ms = (double)(split_input_ns(split) - input->level_ns[rank]) / 1e6;
    return later_ms < least ? NULL : rank_rule(judge, rank, later_ms);
}

void stall_ranks_step(struct judge_state *judge)
{
    CLEAN(free_clean) uint8_t *flag = NULL;
    struct input_suspects suspects = { 0 };

    ranks_stay(judge);
    suspects.flag = flag = calloc(judge->model.world, 1);
    for (uint32_t rank = 0; flag && rank < judge->model.world; rank++) {
        const struct stall_rule *rule = rank_broken(judge, rank);

        signals_mark(judge, rank, rule != NULL);
        if (!rule || suspects.count == SUSPECTS_MAX || stall_is_named(judge, rank))
            continue;
        suspects.rule = suspects.rule ? suspects.rule : rule;
        suspects.rank[suspects.count++] = rank;
        flag[rank] = 1;
    }
    if (suspects.count)
        ranks_accuse(judge, &suspects);
}
