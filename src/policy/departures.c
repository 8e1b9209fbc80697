/* departures.c - nodes that a run leaves on purpose: all ranks save at one step, then a spare takes the ranks of the node.
 *
 * A row of the table asks for it (`replace`: the node still works, and will not for long), or a person of the site who needs the
 * node (`lockstep node out`).  A save costs no work that is lost; a program that cannot save is not stopped for that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "policy/policy_private.h"

static struct departure *departures_find(struct policy *policy, const char *of)
{
    for (size_t i = 0; i < policy->departures; i++) {
        if (strcmp(policy->departure[i].of, of) == 0)
            return &policy->departure[i];
    }
    return NULL;
}

static void departures_drop(struct policy *policy, size_t at)
{
    memmove(&policy->departure[at], &policy->departure[at + 1],
            (policy->departures - at - 1) * sizeof(policy->departure[0]));
    policy->departures--;
}

void departures_add(struct policy *policy, const char *of, const char *node, bool save,
                    const char *why)
{
    struct departure *place;

    if (departures_find(policy, of) || policy->departures == COUNT(policy->departure))
        return;
    place = &policy->departure[policy->departures++];
    *place = (struct departure){ .save = save };
    snprintf(place->of, sizeof(place->of), "%s", of);
    snprintf(place->node, sizeof(place->node), "%.63s", node);
    snprintf(place->why, sizeof(place->why), "%s", why);
}

void departures_request(struct policy *policy, const struct request *request)
{
    char why[sizeof(policy->departure[0].why)];

    if (request->kind != REQUEST_NODE_OUT || request->argument == NODE_OUT_IDLE)
        return;
    snprintf(why, sizeof(why), "%.60s takes the node out of service", request->who);
    departures_add(policy, request->id, request->text, request->argument != NODE_OUT_NOW, why);
}

void departures_unsaved(struct policy *policy, const char *of, const char *why)
{
    struct departure *departure = departures_find(policy, of);

    if (departure && departure->asked)
        snprintf(departure->unsaved, sizeof(departure->unsaved), "%.119s", why);
}

/* Why it cannot be; NULL: it can. */
static const char *departures_obstacle(const struct policy *policy,
                                       const struct departure *departure)
{
    if (!policy->crew)
        return "this run has no other node";
    if (policy_mode(policy) == POLICY_OFF)
        return "the kill switch is on";
    if (policy_mode(policy) != POLICY_ACT)
        return "--act was not given";
    if (!crew_has_node(policy, departure->node))
        return "no rank of this run is on the node";
    if (!crew_spares(policy) && !crew_may_shrink(policy))
        return "no spare is free, so the ranks stay there";
    return departure->unsaved[0] ? departure->unsaved : NULL;
}

static struct decision departures_decision(const struct policy *policy,
                                           const struct departure *departure, const char *obstacle)
{
    struct decision decision = { .action = crew_spares(policy) || !crew_may_shrink(policy)
                                               ? ACTION_SWAP
                                               : ACTION_RESTART_WITHOUT,
                                 .state = obstacle ? DECISION_EXPIRED : DECISION_ORDERED,
                                 .target = TARGET_NODES,
                                 .node_count = 1,
                                 .step = DECISION_NO_STEP };

    memcpy(decision.of, departure->of, sizeof(decision.of));
    memcpy(decision.node[0], departure->node, sizeof(decision.node[0]));
    snprintf(decision.why, sizeof(decision.why), "%.110s%s%s", departure->why,
             obstacle          ? "; not done: "
             : departure->save ? "; all ranks have saved"
                               : "",
             obstacle ? obstacle : "");
    return decision;
}

static void departures_save(struct policy *policy, struct departure *departure)
{
    struct request request = { .kind = REQUEST_CHECKPOINT_NOW, .who = "policy" };

    departure->asked = true;
    memcpy(request.id, departure->of, sizeof(request.id));
    at_step_request(policy, &request);
}

/* True: it is over. */
static bool departures_turn(struct policy *policy, struct departure *departure)
{
    const char *obstacle = departures_obstacle(policy, departure);
    struct decision decision;

    if (!obstacle && departure->save && !departure->asked) {
        departures_save(policy, departure);
        return false;
    }
    if (departure->asked && policy_is_open(policy, departure->of))
        return false; /* also if an obstacle came up meanwhile: what was asked of the ranks goes on */
    decision = departures_decision(policy, departure, obstacle);
    policy_decide(policy, &decision, 0);
    if (!obstacle && policy->table)
        limits_order(policy, &decision);
    return true;
}

void departures_tick(struct policy *policy)
{
    if (policy->view->last)
        policy->departures = 0;
    for (size_t i = 0; i < policy->departures;) {
        if (departures_turn(policy, &policy->departure[i]))
            departures_drop(policy, i);
        else
            i++;
    }
}

/* Of a log whose ticks are partly gone: whoever asked was answered. */
void departures_follow_log(struct policy *policy, const struct decision *decision)
{
    struct departure *departure = departures_find(policy, decision->of);

    if (departure && action_takes_nodes(decision->action))
        departures_drop(policy, (size_t)(departure - policy->departure));
}
