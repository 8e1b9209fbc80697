/* causes.c - keeps the verdicts that may call for an action, each with what became of it.
 *
 * A verdict is large, so only the part that the table needs is kept, of the newest ones.  A verdict that returns has the
 * same id, and its cause remembers how often something was done about it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/policy_private.h"

_Static_assert(DECISION_RANKS <= VERDICT_RANKS && DECISION_NODES <= VERDICT_NODES,
               "a verdict has as many as are copied");

#define OBSERVED_NS (600 * NS_PER_S) /* a finding explains what follows for so long */

struct cause *causes_find(struct policy *policy, const char *id)
{
    for (size_t i = 0; i < policy->causes; i++) {
        if (strcmp(policy->cause[i].id, id) == 0)
            return &policy->cause[i];
    }
    return NULL;
}

/* The oldest that is over goes; if none is over, the oldest. */
static struct cause *causes_room(struct policy *policy)
{
    size_t gone = 0;

    if (policy->causes < POLICY_CAUSES) {
        if (!ARRAY_FIT(policy->cause, policy->cause_room, policy->causes + 1))
            return NULL;
        policy->causes++;
    } else {
        for (size_t i = policy->causes; i > 0; i--)
            gone = policy->cause[i - 1].open ? gone : i - 1;
        memmove(&policy->cause[gone], &policy->cause[gone + 1],
                (policy->causes - gone - 1) * sizeof(policy->cause[0]));
    }
    policy->cause[policy->causes - 1] = (struct cause){ 0 };
    return &policy->cause[policy->causes - 1];
}

static void causes_take(struct cause *cause, const struct verdict *verdict)
{
    memcpy(cause->id, verdict->id, sizeof(cause->id));
    cause->kind = verdict->kind;
    cause->layer = verdict->layer;
    /* A crash is over when the next attempt has made a step; what was done about it is written all the same. */
    cause->open = verdict->until_real_ns == 0 || verdict->kind == VERDICT_CRASH;
    cause->confidence = verdict->confidence;
    cause->seconds_per_step = verdict->seconds_per_step;
    cause->since_real_ns = verdict->since_real_ns;
    cause->since_step = verdict->since_step;
    cause->decided_real_ns = verdict->decided_real_ns;
    cause->rank_count = MIN(verdict->rank_count, (uint32_t)COUNT(cause->rank));
    memcpy(cause->rank, verdict->rank, cause->rank_count * sizeof(cause->rank[0]));
    cause->node_count = MIN(verdict->node_count, (uint32_t)COUNT(cause->node));
    memcpy(cause->node, verdict->node, cause->node_count * sizeof(cause->node[0]));
    memcpy(cause->text, verdict->cause, sizeof(cause->text));
}

/* Out of memory: one less, and nothing is done about it. */
void causes_verdict(struct policy *policy, const struct verdict *verdict)
{
    struct cause *cause = causes_find(policy, verdict->id);
    bool returns = cause && (!cause->open || verdict->since_real_ns > cause->since_real_ns);

    if (!cause)
        cause = causes_room(policy);
    if (!cause)
        return;
    if (returns) {
        cause->handled = false;
        cause->block = BLOCK_NOT_YET;
    }
    causes_take(cause, verdict);
}

void causes_attempt(struct policy *policy)
{
    for (size_t i = 0; i < policy->causes; i++) {
        struct cause *cause = &policy->cause[i];

        if (cause->kind == VERDICT_CRASH)
            continue;
        cause->handled = false;
        cause->block = BLOCK_NOT_YET;
        /* A hang ends with its attempt; a slow node may be slow again. */
        if (cause->kind == VERDICT_HANG || cause->kind == VERDICT_DESYNC)
            cause->open = false;
    }
}

static bool causes_is_on(const struct cause *cause, const char *node)
{
    for (uint32_t i = 0; i < cause->node_count; i++) {
        if (strcmp(cause->node[i], node) == 0)
            return true;
    }
    return false;
}

unsigned cause_severity(const struct policy *policy, const struct cause *cause)
{
    unsigned severity = verdict_kind_severity(cause->kind);

    if (policy->table->verdict_severity[cause->kind])
        severity = policy->table->verdict_severity[cause->kind];
    for (uint32_t i = 0; i < MIN(policy->observed_count, POLICY_OBSERVED); i++) {
        const struct observed *observed = &policy->observed[i];
        int64_t before_ns = cause->decided_real_ns - observed->real_ns;

        if (before_ns < OBSERVED_NS && before_ns > -OBSERVED_NS &&
            causes_is_on(cause, observed->node))
            severity = MAX(severity, observed->severity);
    }
    return severity;
}

bool causes_are_settled(const struct policy *policy)
{
    for (size_t i = 0; i < policy->causes; i++) {
        const struct cause *cause = &policy->cause[i];

        if (cause->kind == VERDICT_CRASH && cause->since_real_ns >= policy->attempt_real_ns &&
            (cause->handled || cause->block != BLOCK_NOT_YET))
            return true;
    }
    return false;
}

bool causes_suspect(const struct policy *policy, const char *node)
{
    for (uint32_t i = 0; i < MIN(policy->observed_count, POLICY_OBSERVED); i++) {
        const struct observed *observed = &policy->observed[i];

        if (observed->severity >= FINDING_ERROR && strcmp(observed->node, node) == 0 &&
            policy->view->real_ns - observed->real_ns < OBSERVED_NS)
            return true;
    }
    return false;
}

void cause_fill(const struct cause *cause, struct decision *decision)
{
    memcpy(decision->of, cause->id, sizeof(decision->of));
    decision->rank_count = cause->rank_count;
    memcpy(decision->rank, cause->rank, cause->rank_count * sizeof(cause->rank[0]));
    decision->node_count = cause->node_count;
    memcpy(decision->node, cause->node, cause->node_count * sizeof(cause->node[0]));
}
