/* cpu.c - a node whose ranks are ready to run but get no cpu.
 *
 * Busy neighbours or a cpu quota slow all ranks of a node a little and at random places, so no rank
 * stands out against its peers.  The scheduler's own account does: time spent ready but not
 * running, and time throttled by the cgroup.  It counts when it is well above what was
 * typical for this node, the steps have become longer, what has become longer in them is
 * host time that devices waited for, and somebody waited about as long for a cpu: else a slow rank would
 * be the node's fault wherever cpus are a little short.  What one rank's own work explains is taken off the slowdown
 * first: scarce cpus are often the consequence of a slow rank, since those who wait for it may spin.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/confidence.h"
#include "judge/slow/signals.h"
#include "judge/slow/straggler.h"
#include "judge/state.h"

/* How many steps are looked at, and how many of them must be bad. */
struct sight {
    uint32_t steps, bad, strong;
};

static struct sight sight_of(const struct judge_state *judge, uint32_t more)
{
    const struct thresholds *limits = &judge->limits;

    return (struct sight){ (uint32_t)limits->cpu_steps + more,
                           (uint32_t)limits->cpu_bad_steps + more,
                           (uint32_t)limits->cpu_strong_steps + more };
}

/* Among many nodes some are always busy for a moment: one more bad step for each doubling of their number. */
static uint32_t cpu_patience_ns(const struct judge_state *judge)
{
    uint32_t most = HISTORY_STEPS - (uint32_t)judge->limits.cpu_steps, more = 0;

    for (double nodes = judge->limits.cpu_few_nodes; nodes < judge->model.nodes; nodes *= 2)
        more++;
    return MIN(more, most);
}

static struct node_typical cpu_node_now(const struct judge_state *judge, uint32_t node,
                                        struct sight sight)
{
    return history_node(&judge->history, node, sight.steps, sight.bad - 1);
}

static double cpu_pressure_above(const struct judge_state *judge, uint32_t node, struct sight sight)
{
    return cpu_node_now(judge, node, sight).pressure - judge->history.typical[node].pressure;
}

/* The most that one rank is slower than its peers without having waited that much longer for a cpu. */
static double cpu_own_work_ms(const struct judge_state *judge, uint32_t steps)
{
    const struct past_step *past = history_back(&judge->history, 0);
    double most = 0;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (past->split[rank].present && (double)past->excess_ms[rank] > most)
            most = MAX(most, straggler_own_work_ms(judge, rank, steps));
    }
    return most;
}

/* By how much steps are longer than before, all but the worst of them, beyond what one slow rank explains. */
static double cpu_excess_of(const struct judge_state *judge, struct sight sight)
{
    const struct history *history = &judge->history;
    double longer =
        history_period_above_ms(history, sight.steps, sight.bad - 1) - history->base_period_ms;

    return longer > 0 ? MAX(0, longer - cpu_own_work_ms(judge, sight.steps)) : 0;
}

static bool cpu_node_is_starved(const struct judge_state *judge, uint32_t node, struct sight sight,
                                double scale)
{
    const struct node_typical *typical = &judge->history.typical[node];
    struct node_typical now = cpu_node_now(judge, node, sight);
    const struct thresholds *limits = &judge->limits;
    double excess_ms = cpu_excess_of(judge, sight);

    return (now.pressure - typical->pressure) > limits->cpu_pressure_least * scale &&
           now.pressure > typical->pressure * (1 + (limits->cpu_pressure_times - 1) * scale) &&
           (now.host_ms - typical->host_ms) > limits->cpu_host_share * scale * excess_ms &&
           (now.starved_ms - typical->starved_ms) > limits->cpu_wait_share * scale * excess_ms &&
           excess_ms >= judge->history.base_period_ms * (limits->cpu_slower - 1) * scale;
}

/* A quota bites in some steps and spares others, but its pressure is there in all of them. */
static bool cpu_node_is_strangled(const struct judge_state *judge, uint32_t node,
                                  struct sight sight)
{
    const struct node_typical *typical = &judge->history.typical[node];
    struct node_typical now = history_node(&judge->history, node, sight.steps, sight.strong - 1);
    const struct thresholds *limits = &judge->limits;

    return now.pressure - typical->pressure > limits->cpu_strong_least &&
           now.pressure > typical->pressure * limits->cpu_pressure_times &&
           history_period_above_ms(&judge->history, sight.steps, 0) -
                   cpu_own_work_ms(judge, sight.steps) >
               judge->history.base_period_ms * limits->cpu_strong_slower;
}

/* Slightly slower steps are looked at for longer: what somebody does for a moment is nothing to be told of. */
static bool cpu_node_is_starved_for_long(const struct judge_state *judge, uint32_t node,
                                         struct sight sight, double scale)
{
    const struct thresholds *limits = &judge->limits;
    struct sight longer = { MIN(sight.steps + (uint32_t)limits->cpu_slight_steps, HISTORY_STEPS),
                            sight.bad + (uint32_t)limits->cpu_slight_bad_steps, sight.strong };

    return cpu_excess_of(judge, sight) >=
               judge->history.base_period_ms * (limits->cpu_slight - 1) ||
           cpu_node_is_starved(judge, node, longer, scale);
}

static bool cpu_node_is_short(const struct judge_state *judge, uint32_t node, struct sight sight,
                              double scale)
{
    return cpu_node_is_strangled(judge, node, sight) ||
           (cpu_node_is_starved(judge, node, sight, scale) &&
            cpu_node_is_starved_for_long(judge, node, sight, scale));
}

/* Several of its ranks are slow enough to be named one by one: that is no moment among many. */
static bool cpu_ranks_stand_out(const struct judge_state *judge, uint32_t node)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < judge->model.world && count < 2; rank++)
        count += judge->model.rank[rank].node == node && signals_slow_steps(judge, rank) > 0;
    return count == 2;
}

/* The highest pressure of all nodes, above its typical. */
static double cpu_worst_pressure(const struct judge_state *judge, struct sight sight)
{
    double worst = 0;

    for (uint32_t node = 0; node < judge->model.nodes; node++)
        worst = MAX(worst, cpu_pressure_above(judge, node, sight));
    return worst;
}

static int64_t cpu_throttled(const struct rank_split *split)
{
    return split->throttled_ns;
}

static int64_t cpu_delayed(const struct rank_split *split)
{
    return split->delay_ns;
}

/* Means, not medians: a step in which a rank got its cpu at once is followed by one in which it did not. */
static double cpu_node_part_ms(const struct judge_state *judge, uint32_t node, uint32_t steps,
                               split_part *part)
{
    double sum = 0;
    uint32_t count = 0;

    for (uint32_t back = 0; back < MIN(steps, judge->history.count); back++) {
        const struct past_step *past = history_back(&judge->history, back);

        for (uint32_t rank = 0; rank < judge->model.world; rank++) {
            if (judge->model.rank[rank].node != node || !past->split[rank].present)
                continue;
            sum += (double)part(&past->split[rank]) / 1e6;
            count++;
        }
    }
    return count ? sum / count : 0;
}

static double cpu_period_mean_ms(const struct history *history, uint32_t steps)
{
    uint32_t count = MIN(steps, history->count);
    double sum = 0;

    for (uint32_t back = 0; back < count; back++)
        sum += (double)history_back(history, back)->measured_ns / 1e6;
    return count ? sum / count : 0;
}

static void cpu_accuse_node(struct judge_state *judge, uint32_t node, struct sight sight)
{
    const struct history *history = &judge->history;
    const struct node_typical *typical = &history->typical[node];
    struct node_typical now = cpu_node_now(judge, node, sight);
    const struct confidence basis = { .best = 0.9, .against = AGAINST_PAST };
    struct verdict draft = { .kind = VERDICT_STRAGGLER,
                             .layer = LAYER_CPU,
                             .confidence = confidence_of(judge, &basis) };
    double throttled_ms = cpu_node_part_ms(judge, node, sight.steps, cpu_throttled);
    double delayed_ms = cpu_node_part_ms(judge, node, sight.steps, cpu_delayed);
    double excess_ms = cpu_excess_of(judge, sight);
    bool fresh, quota;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (judge->model.rank[rank].node == node)
            judge_state_add_rank(judge, &draft, rank);
    }
    /* A throttled thread also counts as runnable, each of a rank's threads for itself: so it is no matter of which of the
     * two is more.
     */
    quota = throttled_ms > delayed_ms || throttled_ms > judge->limits.cpu_wait_share * excess_ms;
    snprintf(draft.cause, sizeof(draft.cause), "%s",
             quota ? "the cgroup's CPU quota throttles the ranks on this node"
                   : "other processes use the CPUs of the ranks on this node");
    draft.since_step = history_back(history, MIN(sight.steps, history->count) - 1)->step;
    draft.since_real_ns = judge_state_step_real_ns(judge, draft.since_step);
    draft.seconds_per_step = excess_ms / 1e3;
    verdict_because(&draft, "schedstat",
                    "threads of a rank on node %s wait for a CPU %.1f ms per step together, "
                    "throttled for %.1f ms; %.1f %% of the time, %.1f %% before",
                    judge->model.node[node].name, delayed_ms, throttled_ms,
                    100 * MIN(1, now.pressure), 100 * MIN(1, typical->pressure));
    verdict_because(&draft, "ring",
                    "devices wait up to %.1f ms per step for the host, %.1f ms before", now.host_ms,
                    typical->host_ms);
    verdict_because(&draft, "ring", "steps take %.1f ms, %.1f ms before",
                    cpu_period_mean_ms(history, sight.steps), history->base_period_ms);
    judge_state_find(judge, &draft, &fresh);
}

/* The verdict on a whole node, if there is one open. */
static struct tracked_verdict *cpu_node_tracked(const struct judge_state *judge, uint32_t node)
{
    for (uint32_t i = 0; i < judge->verdicts.count; i++) {
        struct tracked_verdict *tracked = judge->verdicts.tracked[i];
        const struct verdict *verdict = &tracked->verdict;

        if (tracked->open && verdict->kind == VERDICT_STRAGGLER && verdict->layer == LAYER_CPU &&
            verdict->rank_count > 1 && verdict->rank[0] < judge->model.world &&
            judge->model.rank[verdict->rank[0]].node == node)
            return tracked;
    }
    return NULL;
}

static void node_judge(struct judge_state *judge, uint32_t node, struct sight near,
                       struct sight far)
{
    struct tracked_verdict *open = cpu_node_tracked(judge, node);
    double scale = open ? judge->limits.cpu_stay_share : 1;
    struct sight sight = far;

    if (!cpu_node_is_short(judge, node, far, scale)) {
        if (!cpu_node_is_short(judge, node, near, scale) || !cpu_ranks_stand_out(judge, node))
            return;
        sight = near;
    }
    if (open) {
        open->seen_step = history_back(&judge->history, 0)->step;
        open->step_seconds = cpu_excess_of(judge, sight) / 1e3;
    } else {
        cpu_accuse_node(judge, node, sight);
    }
}

static void cpu_step(struct judge_state *judge)
{
    const struct thresholds *limits = &judge->limits;
    struct sight near = sight_of(judge, 0), far = sight_of(judge, cpu_patience_ns(judge));
    double least = limits->cpu_pressure_least * limits->cpu_stay_share, worst;

    if (judge->history.base_period_ms == 0)
        return;
    worst = cpu_worst_pressure(judge, near);
    if (worst < least)
        return;
    if (far.steps > near.steps)
        worst = cpu_worst_pressure(judge, far);
    for (uint32_t node = 0; node < judge->model.nodes; node++) {
        double above = cpu_pressure_above(judge, node, near);

        if (above >= least && above >= limits->cpu_worst_share * worst)
            node_judge(judge, node, near, far);
    }
}

const struct judge judge_cpu = { .name = "cpu", .step = cpu_step, .evidence = EVIDENCE_TIMES };
