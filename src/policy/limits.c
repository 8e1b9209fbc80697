/* limits.c - how often the policy may act, and whether acting helps.
 *
 * Limits per hour, per cause and per share of the nodes; a pause between two actions for one cause; and a breaker: actions in a
 * row after which the job did not train again without the fault.  Once the breaker is open, people decide.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/policy_private.h"

#define HOUR_NS (3600 * NS_PER_S)

void limits_order(struct policy *policy, const struct decision *decision)
{
    struct limits_used *used = &policy->used;
    uint32_t nodes = action_takes_nodes(decision->action) ? MAX(decision->node_count, 1u) : 0;

    if (!action_stops_job(decision->action))
        return;
    used->entry[used->count++ % POLICY_HISTORY] =
        (struct limits_entry){ .real_ns = decision->decided_real_ns, .nodes = nodes };
    used->nodes_taken += nodes;
    used->unhelpful++;
    used->acted_step = policy->progress.any ? policy->progress.newest : 0;
    used->acted_real_ns = decision->decided_real_ns;
}

void limits_tick(struct policy *policy, bool faults)
{
    struct limits_used *used = &policy->used;

    if (used->unhelpful && !faults && policy->progress.any &&
        policy->progress.newest > used->acted_step &&
        policy->view->real_ns - used->acted_real_ns > policy->table->cool_down_ns)
        used->unhelpful = 0;
}

struct limits_hour {
    uint32_t actions, nodes;
};

static struct limits_hour limits_hour_of(const struct policy *policy)
{
    struct limits_hour hour = { 0 };

    for (uint32_t i = 0; i < MIN(policy->used.count, POLICY_HISTORY); i++) {
        const struct limits_entry *entry = &policy->used.entry[i];

        if (policy->view->real_ns - entry->real_ns >= HOUR_NS)
            continue;
        hour.actions++;
        hour.nodes += entry->nodes;
    }
    return hour;
}

static enum decision_block limits_check_nodes(const struct policy *policy,
                                              const struct decision *decision,
                                              uint32_t taken_in_hour, char *ret, size_t room)
{
    const struct policy_table *table = policy->table;
    uint32_t nodes = MAX(decision->node_count, 1u), all = policy->view->nodes;
    double most = table->fleet_share * all;

    if (taken_in_hour + nodes > table->drains_per_hour) {
        snprintf(ret, room, "%u nodes were taken from the run in the last hour, the limit is %u",
                 taken_in_hour, table->drains_per_hour);
        return BLOCK_BUDGET;
    }
    if (policy->used.nodes_taken + nodes > MAX(most, 1)) {
        snprintf(ret, room, "%u of %u nodes were taken from the run, the limit is %.0f %%",
                 policy->used.nodes_taken, all, 100 * table->fleet_share);
        return BLOCK_BUDGET;
    }
    return BLOCK_NONE;
}

enum decision_block limits_check(const struct policy *policy, const struct cause *cause,
                                 const struct decision *decision, char *ret, size_t room)
{
    const struct policy_table *table = policy->table;
    struct limits_hour hour = limits_hour_of(policy);
    int64_t since_ns = policy->view->real_ns - cause->acted_real_ns;

    if (table->breaker && policy->used.unhelpful >= table->breaker) {
        snprintf(ret, room, "the last %u actions did not help; a person must look at it",
                 policy->used.unhelpful);
        return BLOCK_BREAKER;
    }
    if (cause->orders >= table->restarts_per_cause) {
        snprintf(ret, room, "%u actions because of this verdict, the limit is %u", cause->orders,
                 table->restarts_per_cause);
        return BLOCK_BUDGET;
    }
    if (hour.actions >= table->restarts_per_hour) {
        snprintf(ret, room, "%u actions in the last hour, the limit is %u", hour.actions,
                 table->restarts_per_hour);
        return BLOCK_BUDGET;
    }
    if (cause->acted_real_ns && since_ns < table->cool_down_ns) {
        snprintf(ret, room, "an action because of this verdict is %.0f s old, the pause is %.0f s",
                 (double)since_ns / 1e9, (double)table->cool_down_ns / 1e9);
        return BLOCK_COOL_DOWN;
    }
    return action_takes_nodes(decision->action)
               ? limits_check_nodes(policy, decision, hour.nodes, ret, room)
               : BLOCK_NONE;
}
