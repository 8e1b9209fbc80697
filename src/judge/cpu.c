/* cpu.c - a node whose ranks are ready to run but get no cpu.
 *
 * Busy neighbours or a cpu quota slow all ranks of a node a little and at random places, so no rank
 * stands out against its peers.  The scheduler's own account does: time spent ready but not
 * running, and time throttled by the cgroup.  It counts when it is well above what was
 * typical for this node, the steps have become longer, and what has become longer in them is
 * host time that devices waited for.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/clean.h"
#include "judge/court.h"

/* How many steps are looked at, and how many of them may be better than what counts. */
static uint32_t steps_of(const struct court *court)
{
    return (uint32_t)court->limits.cpu_steps;
}

static uint32_t above_of(const struct court *court)
{
    return (uint32_t)court->limits.cpu_bad_steps - 1;
}

static bool node_is_starved(const struct court *court, uint32_t node, double scale,
                            double excess_ms)
{
    const struct node_typical *typical = &court->history.typical[node];
    struct node_typical now = history_node(&court->history, node, steps_of(court), above_of(court));
    const struct thresholds *limits = &court->limits;

    return (now.pressure - typical->pressure) > limits->cpu_pressure_least * scale &&
           now.pressure > typical->pressure * (1 + (limits->cpu_pressure_times - 1) * scale) &&
           (now.host_ms - typical->host_ms) > limits->cpu_host_share * scale * excess_ms;
}

/* A quota bites in some steps and spares others, but its pressure is there in all of them. */
static bool node_is_strangled(const struct court *court, uint32_t node)
{
    const struct node_typical *typical = &court->history.typical[node];
    struct node_typical now = history_node(&court->history, node, steps_of(court),
                                           (uint32_t)court->limits.cpu_strong_steps - 1);
    const struct thresholds *limits = &court->limits;

    return now.pressure - typical->pressure > limits->cpu_strong_least &&
           now.pressure > typical->pressure * limits->cpu_pressure_times &&
           history_period_above_ms(&court->history, steps_of(court), 0) >
               court->history.base_period_ms * limits->cpu_strong_slower;
}

/* The highest pressure of all nodes, above its typical. */
static double worst_pressure(const struct court *court)
{
    double worst = 0;

    for (uint32_t node = 0; node < court->model.nodes; node++) {
        struct node_typical now =
            history_node(&court->history, node, steps_of(court), above_of(court));

        worst = MAX(worst, (now.pressure - court->history.typical[node].pressure));
    }
    return worst;
}

static int64_t throttled(const struct rank_split *split)
{
    return split->throttled_ns;
}

static int64_t delayed(const struct rank_split *split)
{
    return split->delay_ns;
}

static double node_part_ms(const struct court *court, uint32_t node, split_part *part)
{
    double sum = 0;
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (court->model.rank[rank].node == node) {
            sum += history_part_ms(&court->history, rank, above_of(court) + 1,
                                   part); /* the newest are bad */
            count++;
        }
    }
    return count ? sum / count : 0;
}

static void accuse_node(struct court *court, uint32_t node, double excess_ms)
{
    const struct history *history = &court->history;
    const struct node_typical *typical = &history->typical[node];
    struct node_typical now = history_node(history, node, steps_of(court), above_of(court));
    struct verdict draft = { .kind = VERDICT_STRAGGLER, .layer = LAYER_CPU, .confidence = 0.9 };
    double throttled_ms = node_part_ms(court, node, throttled);
    double delayed_ms = node_part_ms(court, node, delayed);
    bool fresh;

    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        if (court->model.rank[rank].node == node)
            court_add_rank(court, &draft, rank);
    }
    snprintf(draft.cause, sizeof(draft.cause), "%s",
             throttled_ms > delayed_ms ? "the cgroup's cpu quota throttles its ranks"
                                       : "other processes take the cpus of its ranks");
    draft.since_step = history_back(history, MIN(steps_of(court), history->count) - 1)->step;
    draft.since_real_ns = court_step_real_ns(court, draft.since_step);
    draft.seconds_per_step = excess_ms / 1e3;
    verdict_because(&draft, "schedstat",
                    "ranks of node %s wait %.1f %% of the time for a cpu, %.1f %% before: "
                    "%.1f ms a step ready but not running, %.1f ms throttled",
                    court->model.node[node].name, 100 * now.pressure, 100 * typical->pressure,
                    delayed_ms, throttled_ms);
    verdict_because(&draft, "ring",
                    "devices wait up to %.1f ms a step for the host, %.1f ms before", now.host_ms,
                    typical->host_ms);
    verdict_because(&draft, "ring", "steps take %.1f ms, %.1f ms before",
                    history_period_ms(history, steps_of(court)), history->base_period_ms);
    court_find(court, &draft, &fresh);
}

/* The verdict on a whole node, if there is one open. */
static struct entry *node_entry(const struct court *court, uint32_t node)
{
    for (uint32_t i = 0; i < court->docket.count; i++) {
        struct entry *entry = court->docket.entry[i];
        const struct verdict *verdict = &entry->verdict;

        if (entry->open && verdict->kind == VERDICT_STRAGGLER && verdict->layer == LAYER_CPU &&
            verdict->rank_count > 1 && verdict->rank[0] < court->model.world &&
            court->model.rank[verdict->rank[0]].node == node)
            return entry;
    }
    return NULL;
}

static void cpu_step(struct court *court)
{
    const struct history *history = &court->history;
    const struct thresholds *limits = &court->limits;
    double excess, worst;

    if (history->base_period_ms == 0)
        return;
    excess = MAX(0, history_period_above_ms(history, steps_of(court), above_of(court)) -
                        history->base_period_ms);
    worst = worst_pressure(court);
    if (worst < limits->cpu_pressure_least * limits->cpu_stay_share)
        return;
    for (uint32_t node = 0; node < court->model.nodes; node++) {
        struct node_typical now = history_node(history, node, steps_of(court), above_of(court));
        double above = now.pressure - history->typical[node].pressure, scale;
        struct entry *open;

        if (above < limits->cpu_pressure_least * limits->cpu_stay_share ||
            above < limits->cpu_worst_share * worst)
            continue;
        open = node_entry(court, node);
        scale = open ? limits->cpu_stay_share : 1;
        if (!node_is_strangled(court, node) &&
            (!node_is_starved(court, node, scale, excess) ||
             excess < history->base_period_ms * (limits->cpu_slower - 1) * scale))
            continue;
        if (open) {
            open->seen_step = history_back(history, 0)->step;
            open->step_seconds = excess / 1e3;
        } else {
            accuse_node(court, node, excess);
        }
    }
}

const struct judge judge_cpu = { .name = "cpu", .step = cpu_step };
