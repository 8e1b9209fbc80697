/* policy.c - passes what is known to the rules, and lets each decide at a tick.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "policy/policy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_private.h"

int policy_create(const char *run, struct policy **ret)
{
    struct policy *policy = calloc(1, sizeof(*policy));

    if (!policy)
        return -ENOMEM;
    snprintf(policy->run, sizeof(policy->run), "%s", run);
    *ret = policy;
    return 0;
}

void policy_destroy(struct policy *policy)
{
    if (!policy)
        return;
    free(policy->table);
    free(policy->cause);
    crew_destroy(policy->crew);
    free(policy);
}

size_t policy_bytes(const struct policy *policy)
{
    return sizeof(*policy) + crew_bytes(policy->crew) +
           policy->cause_room * sizeof(policy->cause[0]) +
           (policy->table ? sizeof(*policy->table) : 0);
}

/* ---- facts ---- */

void policy_request(struct policy *policy, const struct request *request)
{
    if (request->kind == REQUEST_RESTART_ON_HANG)
        policy->may_restart = request->argument != 0;
    for (const struct rule *rule = policy_rules; rule->name; rule++) {
        if (rule->request)
            rule->request(policy, request);
    }
}

void policy_outcome(struct policy *policy, const struct outcome *outcome)
{
    for (const struct rule *rule = policy_rules; rule->name; rule++) {
        if (rule->outcome)
            rule->outcome(policy, outcome);
    }
}

void policy_attempt(struct policy *policy, uint32_t attempt, int64_t real_ns)
{
    if (attempt < policy->attempt || (attempt == policy->attempt && policy->attempt_real_ns))
        return;
    crash_loop_settle(policy);
    policy->attempt = attempt;
    policy->attempt_real_ns = real_ns;
    policy->restarted = false;
    policy->hang.id[0] = policy->stuck.id[0] = '\0';
    policy->checkpoint_real_ns = 0;
    causes_attempt(policy);
    progress_attempt(&policy->progress);
}

void policy_steps_again(struct policy *policy)
{
    progress_attempt(&policy->progress);
}

void policy_step(struct policy *policy, uint32_t attempt, uint64_t step)
{
    if (attempt == policy->attempt && step != DECISION_NO_STEP)
        progress_step(&policy->progress, step);
}

void policy_verdict(struct policy *policy, const struct verdict *verdict)
{
    for (const struct rule *rule = policy_rules; rule->name; rule++) {
        if (rule->verdict)
            rule->verdict(policy, verdict);
    }
}

void policy_attempt_ended(struct policy *policy, uint32_t attempt)
{
    crew_attempt_ended(policy, attempt);
}

void policy_attempt_failed(struct policy *policy, uint32_t attempt, int64_t real_ns)
{
    if (attempt == policy->attempt)
        crash_loop_failed(policy, real_ns);
}

int policy_take_table(struct policy *policy, const struct policy_table *table)
{
    if (!policy->table)
        policy->table = malloc(sizeof(*policy->table));
    if (!policy->table)
        return -ENOMEM;
    *policy->table = *table;
    return 0;
}

void policy_take_means(struct policy *policy, const struct policy_means *means)
{
    policy->means = *means;
}

unsigned policy_mode(const struct policy *policy)
{
    return policy->means.mode && crew_is_off(policy) ? POLICY_OFF : policy->means.mode;
}

void policy_finding(struct policy *policy, const struct finding *finding)
{
    struct observed *place;
    unsigned severity = finding->severity;

    if (policy->table && policy->table->finding_severity[finding->kind])
        severity = policy->table->finding_severity[finding->kind];
    if (severity <= FINDING_INFO)
        return;
    place = &policy->observed[policy->observed_count++ % POLICY_OBSERVED];
    *place = (struct observed){ .severity = (uint8_t)severity, .real_ns = finding->real_ns };
    memcpy(place->node, finding->node, sizeof(place->node));
}

/* ---- decisions ---- */

void policy_decide(struct policy *policy, struct decision *decision, int64_t deadline_ns)
{
    decision->attempt = policy->attempt;
    policy_decide_of_attempt(policy, decision, deadline_ns);
}

void policy_decide_of_attempt(struct policy *policy, struct decision *decision, int64_t deadline_ns)
{
    decision->state = decision->state ? decision->state : DECISION_ORDERED;
    decision->decided_real_ns = policy->view->real_ns;
    decision->deadline_real_ns = deadline_ns ? policy->view->real_ns + deadline_ns : 0;
    decision_identify(decision, policy->run);
    policy->emit(policy->emit_arg, decision);
    crew_decided(policy, decision);
}

void policy_change(struct policy *policy, struct decision *decision, enum decision_state state,
                   const char *why)
{
    decision->state = (uint8_t)state;
    snprintf(decision->why, sizeof(decision->why), "%s", why);
    policy->emit(policy->emit_arg, decision);
}

void policy_tick(struct policy *policy, const struct policy_view *view, policy_emit *emit,
                 void *arg)
{
    progress_tick(&policy->progress, view->mono_ns);
    if (policy->follows)
        return;
    policy->view = view;
    policy->emit = emit;
    policy->emit_arg = arg;
    for (const struct rule *rule = policy_rules; rule->name; rule++) {
        if (rule->tick)
            rule->tick(policy);
    }
    policy->view = NULL;
}

void policy_follow(struct policy *policy, bool follow)
{
    policy->follows = follow;
}

void policy_follow_log(struct policy *policy, const struct decision *decision)
{
    for (const struct rule *rule = policy_rules; rule->name; rule++) {
        if (rule->follow_log)
            rule->follow_log(policy, decision);
    }
}

/* ---- questions ---- */

bool policy_is_open(const struct policy *policy, const char *request_id)
{
    for (size_t i = 0; i < policy->open_count; i++) {
        if (strcmp(policy->open[i].request.id, request_id) == 0)
            return true;
    }
    return false;
}

const char *policy_open_request(const struct policy *policy, unsigned kind)
{
    for (size_t i = 0; i < policy->open_count; i++) {
        if (policy->open[i].request.kind == kind)
            return policy->open[i].request.id;
    }
    return "";
}
