/* crash_loop.c - a job that fails again and again without getting further is not restarted for ever.
 *
 * Attempts in a row that did not get beyond the newest step of all before are a crash loop.  If they failed at one step on
 * different nodes, the step is poison: the job is at fault, and no other node will help.  An attempt without any step counts as
 * one that got nowhere.  If they all failed first on one node and a spare is at hand, the node may be at fault although nothing says so: the
 * spare takes its place once before the run is given up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/policy_private.h"

#define SETTLE_NS (300 * NS_PER_MS) /* agents report the last steps of an attempt until then */
#define GIVE_UP_DEADLINE_NS (600 * NS_PER_S)

void crash_loop_failed(struct policy *policy, int64_t real_ns)
{
    policy->crash_loop.pending = true;
    policy->crash_loop.pending_real_ns = real_ns;
}

static struct failure *crash_loop_add(struct crash_loop *loop)
{
    if (loop->failures == POLICY_FAILURES) {
        memmove(loop->failure, loop->failure + 1, (POLICY_FAILURES - 1) * sizeof(loop->failure[0]));
        loop->failures--;
    }
    loop->failure[loop->failures] = (struct failure){ 0 };
    return &loop->failure[loop->failures++];
}

void crash_loop_settle(struct policy *policy)
{
    struct crash_loop *loop = &policy->crash_loop;
    uint64_t newest = policy->progress.any ? policy->progress.newest + 1 : 0;
    struct failure *failure;

    if (!loop->pending)
        return;
    loop->pending = false;
    failure = crash_loop_add(loop);
    failure->attempt = policy->attempt;
    failure->step = newest ? newest - 1 : DECISION_NO_STEP;
    loop->stuck = newest > loop->best || loop->failures == 1 ? 1 : loop->stuck + 1;
    loop->best = MAX(loop->best, newest);
}

/* Which node the rank was on that failed first.  The verdict may come after the next attempt has begun. */
void crash_loop_verdict(struct policy *policy, const struct verdict *verdict)
{
    struct crash_loop *loop = &policy->crash_loop;
    struct failure *newest = loop->failures ? &loop->failure[loop->failures - 1] : NULL;

    if (verdict->kind != VERDICT_CRASH || !newest || !verdict->node_count || newest->node[0] ||
        newest->attempt + 1 < policy->attempt)
        return;
    memcpy(newest->node, verdict->node[0], sizeof(newest->node));
}

/* How many of the newest failures were at the step of the newest one, on nodes that all differ. */
static uint32_t crash_loop_poison(const struct crash_loop *loop)
{
    const struct failure *newest = &loop->failure[loop->failures - 1];
    uint32_t count = 0;

    for (uint32_t i = loop->failures; i > 0; i--) {
        const struct failure *failure = &loop->failure[i - 1];

        if (failure->step != newest->step || failure->step == DECISION_NO_STEP || !failure->node[0])
            break;
        for (uint32_t k = i; k < loop->failures; k++) {
            if (strcmp(loop->failure[k].node, failure->node) == 0)
                return count;
        }
        count++;
    }
    return count;
}

static bool crash_loop_is_over(const struct policy *policy, char *ret, size_t room)
{
    const struct crash_loop *loop = &policy->crash_loop;
    const struct policy_table *table = policy->table;
    uint32_t poison = loop->failures ? crash_loop_poison(loop) : 0;

    if (table->poison_step && poison >= table->poison_step)
        snprintf(ret, room,
                 "poison step: step %llu failed %u times on %u different nodes; the job is at "
                 "fault, not a node",
                 (unsigned long long)loop->failure[loop->failures - 1].step, poison, poison);
    else if (table->crash_loop && loop->stuck >= table->crash_loop && loop->best)
        snprintf(ret, room,
                 "crash loop: the last %u attempts failed and did not get beyond step %llu",
                 loop->stuck, (unsigned long long)loop->best - 1);
    else if (table->crash_loop && loop->stuck >= table->crash_loop)
        snprintf(ret, room, "crash loop: the last %u attempts failed before any step was observed",
                 loop->stuck);
    else
        return false;
    return true;
}

/* The node on which all attempts of the loop failed first; NULL: there were several, or it is not known.  The verdict about the newest one may still come. */
static const char *crash_loop_node(const struct crash_loop *loop, uint32_t most)
{
    const char *node = NULL;
    uint32_t known = 0;

    for (uint32_t i = loop->failures; i > 0 && loop->failures - i < most; i--) {
        const char *one = loop->failure[i - 1].node;

        if (!one[0] && i == loop->failures)
            continue;
        if (!one[0] || (node && strcmp(node, one) != 0))
            return NULL;
        node = one;
        known++;
    }
    return known + 1 >= most && known > 1 ? node : NULL;
}

static bool crash_loop_swaps(struct policy *policy)
{
    struct crash_loop *loop = &policy->crash_loop;
    struct decision decision = { .action = ACTION_SWAP,
                                 .state = DECISION_ORDERED,
                                 .target = TARGET_NODES,
                                 .attempt = policy->attempt,
                                 .node_count = 1,
                                 .step = DECISION_NO_STEP };
    const char *node = crash_loop_node(loop, policy->table->crash_loop);

    if (loop->swapped == policy->attempt + 1)
        return true; /* the next attempt tells */
    if (!node || policy_mode(policy) != POLICY_ACT || policy->view->last ||
        !(policy->means.actions >> ACTION_SWAP & 1) || !crew_has_node(policy, node) ||
        !crew_spares(policy))
        return false;
    loop->swapped = policy->attempt + 1;
    memcpy(decision.node[0], node, sizeof(decision.node[0]));
    snprintf(decision.why, sizeof(decision.why),
             "crash loop: %u attempts failed first on node %.63s and got no further; a spare takes "
             "its place",
             loop->stuck, node);
    policy_decide_of_attempt(policy, &decision, GIVE_UP_DEADLINE_NS);
    limits_order(policy, &decision);
    return true;
}

void crash_loop_tick(struct policy *policy)
{
    struct crash_loop *loop = &policy->crash_loop;
    struct decision decision = { .action = ACTION_GIVE_UP,
                                 .target = TARGET_RUN,
                                 .step = DECISION_NO_STEP };
    bool act = policy_mode(policy) == POLICY_ACT;

    if (!policy->table || !policy_mode(policy))
        return;
    if (loop->pending && policy->view->real_ns - loop->pending_real_ns > SETTLE_NS)
        crash_loop_settle(policy);
    if (loop->given_up || !crash_loop_is_over(policy, decision.why, sizeof(decision.why)) ||
        crash_loop_swaps(policy))
        return;
    loop->given_up = true;
    decision.state = act && !policy->view->last ? DECISION_ORDERED : DECISION_DRY_RUN;
    policy_decide(policy, &decision, act ? GIVE_UP_DEADLINE_NS : 0);
}

void crash_loop_follow_log(struct policy *policy, const struct decision *decision)
{
    if (decision->action == ACTION_GIVE_UP)
        policy->crash_loop.given_up = true;
    if (decision->action == ACTION_SWAP && !decision->of[0])
        policy->crash_loop.swapped = decision->attempt + 1;
}
