/* cpu.c - a node whose ranks are ready to run but get no cpu.
 *
 * Busy neighbours or a cpu quota slow all ranks of a node a little and at random places, so no rank
 * stands out against its peers.  The scheduler's own account does: time spent ready but not
 * running, and time throttled by the cgroup.  It counts when it is well above what was
 * typical for this node, the steps have become longer, what has become longer in them is
 * host time that devices waited for, and some rank waited about as long for a cpu: else a slow rank would
 * be the node's fault wherever cpus are a little short.  What one rank's own work explains is taken off the slowdown
 * first: scarce cpus are often the consequence of a slow rank, since those who wait for it may spin.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/slow/signals.h"
#include "judge/state.h"

#define LEAST_LOST                                                                                 \
    1 /* steps that must be lost until it is said: what somebody does for a moment is nothing ... */
#define MORE_LOST                                                                                  \
    0.5 /* ... so much more for each doubling of the nodes: of many some are always busy for a moment */

struct cpu_now { /* since a node's ranks wait longer for a CPU */
    uint32_t steps;
    double excess_ms; /* of a step, beyond what one slow rank explains */
    double starved_ms, usual_ms;
    struct node_typical mean;
};

/* The most that one rank is slower than its peers without having waited that much longer for a cpu. */
static double cpu_own_work_ms(const struct judge_state *judge, uint32_t steps)
{
    const struct past_step *past = history_back(&judge->history, 0);
    double most = 0;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        /* Its own work is at most its excess, which is known in a moment: what it waits for is asked of a few. */
        if (past->split[rank].present && (double)past->excess_ms[rank] > most &&
            signals_excess_ms(judge, rank, steps) > most)
            most = MAX(most, signals_own_work_ms(judge, rank, steps));
    }
    return most;
}

static struct node_typical cpu_node_mean(const struct judge_state *judge, uint32_t node,
                                         uint32_t steps)
{
    struct node_typical mean = { 0 };

    for (uint32_t back = 0; back < steps; back++) {
        const struct past_step *past = history_back(&judge->history, back);

        if (node >= past->nodes)
            continue;
        mean.pressure += past->node[node].pressure / steps;
        mean.host_ms += past->node[node].host_ms / steps;
    }
    return mean;
}

/* Means, not medians: a step in which a rank got its cpu at once is followed by one in which it did not. */
static double cpu_period_mean_ms(const struct history *history, uint32_t steps)
{
    double sum = 0;

    for (uint32_t back = 0; back < steps; back++)
        sum += (double)history_back(history, back)->measured_ns / 1e6;
    return sum / steps;
}

/* False: its ranks wait no longer for a CPU than they did. */
static bool cpu_look(const struct judge_state *judge, uint32_t node, struct cpu_now *ret)
{
    const struct history *history = &judge->history;
    const struct detect_past *past = signals_node(judge, node);
    uint32_t steps;

    if (!past || !past->risen)
        return false;
    steps = history_window(history, history_looks(history, past->since));
    ret->steps = steps ? steps : 1;
    ret->usual_ms = past->mean;
    ret->starved_ms = detect_past_now(past, past->since);
    ret->mean = cpu_node_mean(judge, node, ret->steps);
    ret->excess_ms = cpu_period_mean_ms(history, ret->steps) - history->base_period_ms;
    return true;
}

/* Several of its ranks are slow enough to be named one by one: that is no moment. */
static bool cpu_ranks_stand_out(const struct judge_state *judge, uint32_t node)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < judge->model.world && count < 2; rank++)
        count += judge->model.rank[rank].node == node && signals_slow_steps(judge, rank) > 0;
    return count == 2;
}

static double cpu_least_lost(const struct judge_state *judge, uint32_t node)
{
    double least = LEAST_LOST;

    if (cpu_ranks_stand_out(judge, node))
        return 0;
    for (double nodes = judge->limits.cpu_few_nodes; nodes < judge->model.nodes; nodes *= 2)
        least += MORE_LOST;
    return least;
}

/* Steps are longer by what is worth a word, and a large part of that is host time that devices waited for, and time that
 * somebody waited for a CPU.
 */
static bool cpu_is_short(const struct judge_state *judge, uint32_t node, const struct cpu_now *now,
                         double scale)
{
    const struct history *history = &judge->history;
    const struct thresholds *limits = &judge->limits;
    double part = limits->verdict_explains * scale * now->excess_ms;

    return now->excess_ms >= signal_least(judge, SIGNAL_CPU) * scale * history->base_period_ms &&
           now->starved_ms - now->usual_ms > part &&
           now->mean.host_ms - history->typical[node].host_ms > part;
}

static int64_t cpu_throttled(const struct rank_split *split)
{
    return split->throttled_ns;
}

static int64_t cpu_delayed(const struct rank_split *split)
{
    return split->delay_ns;
}

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

static void cpu_accuse_node(struct judge_state *judge, uint32_t node, const struct cpu_now *now)
{
    const struct history *history = &judge->history;
    const struct node_typical *typical = &history->typical[node];
    struct verdict draft = signal_draft(judge, SIGNAL_CPU, NULL);
    double throttled_ms = cpu_node_part_ms(judge, node, now->steps, cpu_throttled);
    double delayed_ms = cpu_node_part_ms(judge, node, now->steps, cpu_delayed);
    bool fresh, quota;

    for (uint32_t rank = 0; rank < judge->model.world; rank++) {
        if (judge->model.rank[rank].node == node)
            judge_state_add_rank(judge, &draft, rank);
    }
    /* A throttled thread also counts as runnable, each of a rank's threads for itself: so it is no matter of which of the
     * two is more.
     */
    quota =
        throttled_ms > delayed_ms || throttled_ms > judge->limits.verdict_explains * now->excess_ms;
    if (quota)
        snprintf(draft.cause, sizeof(draft.cause),
                 "the cgroup's CPU quota throttles the ranks on this node");
    draft.since_step = history_back(history, now->steps - 1)->step;
    draft.seconds_per_step = now->excess_ms / 1e3;
    verdict_because(&draft, "schedstat",
                    "threads of a rank on node %s wait for a CPU %.1f ms per step together, "
                    "throttled for %.1f ms; %.1f %% of the time, %.1f %% before",
                    judge->model.node[node].name, delayed_ms, throttled_ms,
                    100 * MIN(1, now->mean.pressure), 100 * MIN(1, typical->pressure));
    verdict_because(&draft, "ring",
                    "devices wait up to %.1f ms per step for the host, %.1f ms before",
                    now->mean.host_ms, typical->host_ms);
    verdict_because(&draft, "ring", "steps take %.1f ms, %.1f ms before",
                    cpu_period_mean_ms(history, now->steps), history->base_period_ms);
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

static void cpu_node_judge(struct judge_state *judge, uint32_t node, struct cpu_now *now)
{
    struct tracked_verdict *open = cpu_node_tracked(judge, node);
    double least = signal_least(judge, SIGNAL_CPU) * judge->history.base_period_ms, lost;

    /* Too little anyway: what ranks do of their own is asked only where it decides. */
    if (now->excess_ms < (open ? DETECT_KEEP : 1) * least)
        return;
    now->excess_ms -= cpu_own_work_ms(judge, now->steps);
    lost = now->steps * now->excess_ms / judge->history.base_period_ms;
    if (!cpu_is_short(judge, node, now, open ? DETECT_KEEP : 1))
        return;
    if (open) {
        open->seen_step = history_back(&judge->history, 0)->step;
        open->step_seconds = now->excess_ms / 1e3;
    } else if (lost >= cpu_least_lost(judge, node)) {
        cpu_accuse_node(judge, node, now);
    }
}

/* Where all nodes are affected, only the worst are named. */
static void cpu_step(struct judge_state *judge)
{
    struct cpu_now now;
    double worst = 0;

    if (judge->history.base_period_ms == 0)
        return;
    for (uint32_t node = 0; node < judge->model.nodes; node++) {
        const struct detect_past *past = signals_node(judge, node);

        if (past && past->risen)
            worst = MAX(worst, detect_past_now(past, past->since) - past->mean);
    }
    for (uint32_t node = 0; worst > 0 && node < judge->model.nodes; node++) {
        if (cpu_look(judge, node, &now) && now.starved_ms - now.usual_ms >= DETECT_KEEP * worst)
            cpu_node_judge(judge, node, &now);
    }
}

const struct judge judge_cpu = { .name = "cpu", .step = cpu_step, .evidence = EVIDENCE_TIMES };
