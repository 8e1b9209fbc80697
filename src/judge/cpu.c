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

#define STEPS 4             /* that must agree */
#define PRESSURE_LEAST 0.04 /* share of time without a cpu, above the typical */
#define PRESSURE_TIMES 2.0  /* ... and so many times the typical */
#define SLOWER 1.06         /* period against the typical period */
#define HOST_SHARE 0.4      /* of the slowdown must be host time that devices waited for */
#define STAY 0.5            /* an open verdict stays while half of that remains */

static bool node_is_starved(const struct court *court, uint32_t node, double scale,
                            double *pressure)
{
    const struct history *history = &court->history;
    double typical = history->typical[node].pressure;

    *pressure = history_pressure(history, node, STEPS);
    return *pressure - typical > PRESSURE_LEAST * scale &&
           *pressure > typical * (1 + (PRESSURE_TIMES - 1) * scale);
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
            sum += history_part_ms(&court->history, rank, STEPS, part);
            count++;
        }
    }
    return count ? sum / count : 0;
}

static void accuse_node(struct court *court, uint32_t node, double pressure, double excess_ms)
{
    const struct history *history = &court->history;
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
    draft.since_step = history_back(history, STEPS - 1)->step;
    draft.since_real_ns = court_step_real_ns(court, draft.since_step);
    draft.seconds_per_step = excess_ms / 1e3;
    verdict_because(&draft, "schedstat",
                    "ranks of node %s wait %.1f %% of the time for a cpu, %.1f %% before: "
                    "%.1f ms a step ready but not running, %.1f ms throttled",
                    court->model.node[node].name, 100 * pressure,
                    100 * history->typical[node].pressure, delayed_ms, throttled_ms);
    verdict_because(&draft, "ring",
                    "devices wait up to %.1f ms a step for the host, %.1f ms before",
                    history_host_ms(history, node, STEPS), history->typical[node].host_ms);
    verdict_because(&draft, "ring", "steps take %.1f ms, %.1f ms before",
                    history_period_ms(history, STEPS), history->base_period_ms);
    court_find(court, &draft, &fresh);
}

/* The verdict on a whole node, if there is one open. */
static struct entry *node_entry(struct court *court, uint32_t node)
{
    for (uint32_t rank = 0; rank < court->model.world; rank++) {
        struct entry *entry;

        if (court->model.rank[rank].node != node)
            continue;
        entry = court_open_entry(court, VERDICT_STRAGGLER, LAYER_CPU, rank);
        return entry && entry->verdict.rank_count > 1 ? entry : NULL;
    }
    return NULL;
}

static void cpu_step(struct court *court)
{
    const struct history *history = &court->history;
    double period, excess;

    if (history->base_period_ms == 0)
        return;
    period = history_period_ms(history, STEPS);
    excess = MAX(0, period - history->base_period_ms);
    for (uint32_t node = 0; node < court->model.nodes; node++) {
        struct entry *open = node_entry(court, node);
        double scale = open ? STAY : 1, pressure;

        if (!node_is_starved(court, node, scale, &pressure) ||
            period < history->base_period_ms * (1 + (SLOWER - 1) * scale) ||
            history_host_ms(history, node, STEPS) - history->typical[node].host_ms <
                HOST_SHARE * scale * excess)
            continue;
        if (open) {
            open->seen_step = history_back(history, 0)->step;
            open->step_seconds = excess / 1e3;
        } else {
            accuse_node(court, node, pressure, excess);
        }
    }
}

const struct judge judge_cpu = { .name = "cpu", .step = cpu_step };
