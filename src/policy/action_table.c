/* action_table.c - the first row of the table that fits a verdict says what is done.
 *
 * A decision is ordered if its action can be done, its user agreed, it pays back and no limit forbids it.  Else it is written
 * once as a dry run, with the reason: that is what people read before they let the policy act.  A reason may pass (a fault that
 * costs little may cost more later), so each tick asks again, and writes only what is new.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/policy_private.h"

#define TABLE_DEADLINE_NS (60 * NS_PER_S)

void table_verdict(struct policy *policy, const struct verdict *verdict)
{
    causes_verdict(policy, verdict);
}

static const struct policy_row *table_row(const struct policy *policy, const struct cause *cause)
{
    unsigned severity = cause_severity(policy, cause);

    for (uint32_t i = 0; i < policy->table->rows; i++) {
        const struct policy_row *row = &policy->table->row[i];

        if ((!row->kinds || row->kinds >> cause->kind & 1) &&
            (!row->layers || row->layers >> cause->layer & 1) && severity >= row->severity &&
            cause->confidence >= row->confidence)
            return row;
    }
    return NULL;
}

static bool table_can(const struct policy *policy, const struct cause *cause, unsigned action)
{
    if (!(policy->means.actions >> action & 1))
        return false;
    if (action == ACTION_RESTART_WITHOUT)
        return crew_may_shrink(policy) || !policy->crew;
    if (action == ACTION_REQUEUE) /* without a node that is named it would start there again */
        return cause->node_count > 0;
    if (action == ACTION_REPLACE)
        return cause->node_count > 0 && crew_has_node(policy, cause->node[0]) &&
               (crew_spares(policy) > 0 || crew_may_shrink(policy));
    return action != ACTION_SWAP || policy->means.spares > 0 || crew_spares(policy) > 0;
}

/* The first that can be done; where none can, the first, for people.  ACTION_NONE may stand behind others: then watch. */
static unsigned table_action(const struct policy *policy, const struct cause *cause,
                             const struct policy_row *row, bool *can)
{
    for (uint32_t i = 0; i < row->action_count; i++) {
        *can = true;
        if (row->action[i] == ACTION_NONE || table_can(policy, cause, row->action[i]))
            return row->action[i];
    }
    *can = false;
    return row->action[0];
}

/* An attempt that has failed is restarted by the launcher at once; this decision records it. */
static bool table_is_of_former_attempt(const struct policy *policy, const struct cause *cause)
{
    return policy->attempt > 0 && cause->since_real_ns < policy->attempt_real_ns;
}

static bool table_may(const struct policy *policy, const struct cause *cause, unsigned action,
                      const char **why)
{
    bool hang = cause->kind == VERDICT_HANG || cause->kind == VERDICT_DESYNC;

    *why = "--act was not given";
    if (action == ACTION_ALERT) /* who named a target wants it */
        return true;
    if (action != ACTION_RESTART)
        return policy_mode(policy) == POLICY_ACT;
    if (cause->kind == VERDICT_CRASH && table_is_of_former_attempt(policy, cause))
        return true;
    if (!policy->means.restarts_left) {
        *why = policy->attempt ? "no restart is left (--max-restarts)"
                               : "the run was started without restarts (--max-restarts)";
        return false;
    }
    return cause->kind == VERDICT_CRASH || (hang && policy->means.restart_hangs) ||
           policy_mode(policy) == POLICY_ACT;
}

/* Sets the estimates; where the action is blocked, `why` says by what. */
static enum decision_block table_check(const struct policy *policy, const struct cause *cause,
                                       struct decision *decision, bool can, char *why, size_t room)
{
    bool record = cause->kind == VERDICT_CRASH && decision->action == ACTION_RESTART;
    struct payback payback = payback_of(policy, cause);
    const char *consent;
    enum decision_block block = BLOCK_NONE;

    if (action_stops_job(decision->action)) {
        decision->saves_gpu_seconds = payback.saves;
        decision->costs_gpu_seconds = payback.costs;
        if (!record)
            snprintf(why, room, "pays back after %.0f s", payback.after_s);
    }
    if (policy_mode(policy) == POLICY_OFF && !record && decision->action != ACTION_ALERT) {
        snprintf(why, room, "the kill switch is on");
        block = BLOCK_SWITCH;
    } else if (!can) {
        snprintf(why, room, "this launcher cannot do it, or has no spare node");
        block = BLOCK_UNABLE;
    } else if (!table_may(policy, cause, decision->action, &consent)) {
        snprintf(why + strlen(why), room - strlen(why), "%s%s", why[0] ? "; " : "", consent);
        block = BLOCK_CONSENT;
    } else if (record || !action_stops_job(decision->action)) {
        block = BLOCK_NONE;
    } else if (payback.saves <= payback.costs) {
        snprintf(why, room, "does not pay back: it costs %.0f GPU-seconds and saves %.0f",
                 payback.costs, payback.saves);
        block = BLOCK_PAYS_NOT;
    } else {
        block = limits_check(policy, cause, decision, why, room);
    }
    return block;
}

/* All ranks save at one step: at_step.c finds it, and orders. */
static void table_ask_checkpoint(struct policy *policy, struct cause *cause)
{
    struct request request = { .kind = REQUEST_CHECKPOINT_NOW, .who = "policy" };

    memcpy(request.id, cause->id, sizeof(request.id));
    at_step_request(policy, &request);
}

static void table_order(struct policy *policy, struct cause *cause, struct decision *decision)
{
    cause->handled = true;
    if (decision->action == ACTION_CHECKPOINT) {
        table_ask_checkpoint(policy, cause);
        return;
    }
    if (action_stops_job(decision->action)) {
        cause->orders++;
        cause->acted_real_ns = policy->view->real_ns;
    }
    if (decision->action ==
        ACTION_REPLACE) { /* its ranks save first, and the swap is decided then */
        departures_add(policy, cause->id, cause->node[0], true, decision->why);
        return;
    }
    policy_decide_of_attempt(policy, decision, TABLE_DEADLINE_NS);
    limits_order(policy, decision);
}

static bool table_is_due(const struct policy *policy, const struct cause *cause)
{
    if (!cause->open || cause->handled)
        return false;
    /* Of an attempt that is over: what ended it was dealt with, but for a crash, which is reported late. */
    return cause->kind == VERDICT_CRASH || cause->decided_real_ns > policy->attempt_real_ns;
}

static void table_cause(struct policy *policy, struct cause *cause, const struct policy_row *row)
{
    struct decision decision = { .step = DECISION_NO_STEP, .attempt = policy->attempt };
    char why[120] = "";
    enum decision_block block;
    bool can;

    decision.action = (uint8_t)table_action(policy, cause, row, &can);
    if (decision.action == ACTION_NONE)
        return;
    decision.target = action_takes_nodes(decision.action) ? TARGET_NODES : TARGET_RUN;
    cause_fill(cause, &decision);
    if (cause->kind == VERDICT_CRASH && table_is_of_former_attempt(policy, cause))
        decision.attempt = policy->attempt - 1;
    block = table_check(policy, cause, &decision, can, why, sizeof(why));
    if (block == cause->block ||
        (policy->view->last && block == BLOCK_NONE && decision.action != ACTION_ALERT))
        return;
    cause->block = (uint8_t)block;
    snprintf(decision.why, sizeof(decision.why), "%s: %s%s%s", row->name, why, why[0] ? "; " : "",
             row->reason);
    decision.state = block == BLOCK_NONE ? DECISION_ORDERED : DECISION_DRY_RUN;
    if (block == BLOCK_NONE)
        table_order(policy, cause, &decision);
    else
        policy_decide_of_attempt(policy, &decision, 0);
}

void table_tick(struct policy *policy)
{
    bool faults = false;

    if (!policy->table || !policy_mode(policy))
        return;
    payback_tick(policy);
    for (size_t i = 0; i < policy->causes; i++) {
        struct cause *cause = &policy->cause[i];
        const struct policy_row *row =
            table_is_due(policy, cause) ? table_row(policy, cause) : NULL;

        if (!row)
            continue;
        faults |= cause->kind != VERDICT_CRASH && action_stops_job(row->action[0]);
        table_cause(policy, cause, row);
    }
    limits_tick(policy, faults);
}

/* Budgets go on where the log was compacted. */
void table_follow_log(struct policy *policy, const struct decision *decision)
{
    struct cause *cause = causes_find(policy, decision->of);

    if (decision->state != DECISION_ORDERED || !policy->table)
        return;
    limits_order(policy, decision);
    if (!cause || !action_stops_job(decision->action))
        return;
    cause->handled = decision->attempt == policy->attempt || cause->kind == VERDICT_CRASH;
    cause->block = BLOCK_NONE;
    cause->orders++;
    cause->acted_real_ns = decision->decided_real_ns;
}
