/* restart_hang.c - a run that hangs is restarted in place, once an attempt, if its launcher consented.
 *
 * For runs whose launcher sent no table; where there is one, it decides (action_table.c).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/policy_private.h"

#define CONFIDENCE_LEAST 0.8 /* below this a verdict is for people */
#define DEADLINE_NS (60 * NS_PER_S)
_Static_assert(sizeof(((struct verdict *)0)->id) == DECISION_ID, "a verdict's id fits");

/* What was decided before this attempt belongs to one that is over. */
static bool asks_restart(const struct policy *policy, const struct verdict *verdict)
{
    return (verdict->kind == VERDICT_HANG || verdict->kind == VERDICT_DESYNC) &&
           verdict->until_real_ns == 0 && verdict->confidence >= CONFIDENCE_LEAST &&
           verdict->decided_real_ns > policy->attempt_real_ns;
}

void restart_hang_verdict(struct policy *policy, const struct verdict *verdict)
{
    if (asks_restart(policy, verdict))
        policy->hang = *verdict;
    else if (strcmp(policy->hang.id, verdict->id) == 0)
        policy->hang.id[0] = '\0'; /* it is over */
}

void restart_hang_tick(struct policy *policy)
{
    struct decision decision = { .action = ACTION_RESTART,
                                 .target = TARGET_RUN,
                                 .step = DECISION_NO_STEP };

    if (policy->table || !policy->hang.id[0] || policy->restarted || !policy->may_restart ||
        policy->view->last)
        return;
    policy->restarted = true;
    memcpy(decision.of, policy->hang.id, sizeof(decision.of));
    decision.rank_count = MIN(policy->hang.rank_count, VERDICT_RANKS);
    decision.rank_count = MIN(decision.rank_count, DECISION_RANKS);
    memcpy(decision.rank, policy->hang.rank, decision.rank_count * sizeof(decision.rank[0]));
    if (decision.rank_count)
        snprintf(decision.why, sizeof(decision.why), "%s, rank %u: %.120s",
                 verdict_kind_name(policy->hang.kind), decision.rank[0], policy->hang.cause);
    else
        snprintf(decision.why, sizeof(decision.why), "%s: %.120s",
                 verdict_kind_name(policy->hang.kind), policy->hang.cause);
    policy->hang.id[0] = '\0';
    policy_decide(policy, &decision, DEADLINE_NS);
}

void restart_hang_follow_log(struct policy *policy, const struct decision *decision)
{
    if (decision->action == ACTION_RESTART && decision->attempt == policy->attempt)
        policy->restarted = true;
}
