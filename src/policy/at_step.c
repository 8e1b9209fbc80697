/* at_step.c - what all ranks do at the same step: a checkpoint now, another event depth.
 *
 * A request becomes a decision with a step.  It is renewed with a larger margin if a rank was past that step, and for the
 * next attempt if this one ends first.  After too many renewals it fails, and if the run hangs.  There is one open request
 * of each kind, because a ring has one place for each; another one fails at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"
#include "policy/policy_private.h"

#define RENEWALS_MAX 5
#define PATIENCE_NS                                                                                \
    (600 * NS_PER_S)           /* for the first step of a job, or for the answers of its ranks */
#define LATE_NS (5 * NS_PER_S) /* executors report the end of their patience until then */
#define STUCK_NS                                                                                   \
    (30 * NS_PER_S) /* a run that hangs for so long after the request: it is not waited for */

static unsigned at_step_open_request_action(const struct open_request *open)
{
    return open->request.kind == REQUEST_DEPTH ? ACTION_DEPTH : ACTION_CHECKPOINT;
}

static void at_step_open_request_drop(struct policy *policy, size_t at)
{
    memmove(&policy->open[at], &policy->open[at + 1],
            (policy->open_count - at - 1) * sizeof(policy->open[0]));
    policy->open_count--;
}

static void at_step_cancel(struct policy *policy, const struct request *request)
{
    for (size_t i = 0; i < policy->open_count; i++) {
        struct open_request *open = &policy->open[i];

        if (request->of[0] && strcmp(open->request.id, request->of) != 0)
            continue;
        open->cancelled = true;
        snprintf(open->failed, sizeof(open->failed), "cancelled by %.60s",
                 request->who[0] ? request->who : "the run");
    }
}

void at_step_request(struct policy *policy, const struct request *request)
{
    if (request->kind == REQUEST_CANCEL)
        at_step_cancel(policy, request);
    if ((request->kind != REQUEST_CHECKPOINT_NOW && request->kind != REQUEST_DEPTH) ||
        policy->open_count == POLICY_OPEN_REQUESTS || policy_is_open(policy, request->id))
        return;
    policy->open[policy->open_count++] = (struct open_request){ .request = *request, .new = true };
}

void at_step_verdict(struct policy *policy, const struct verdict *verdict)
{
    bool stuck = (verdict->kind == VERDICT_HANG || verdict->kind == VERDICT_DESYNC) &&
                 verdict->until_real_ns == 0 && verdict->decided_real_ns > policy->attempt_real_ns;

    if (stuck)
        policy->stuck = *verdict;
    else if (strcmp(policy->stuck.id, verdict->id) == 0)
        policy->stuck.id[0] = '\0';
}

/* ---- what became of a decision ---- */

static struct open_request *at_step_open_request_of_decision(struct policy *policy,
                                                             const char *decision)
{
    for (size_t i = 0; i < policy->open_count; i++) {
        if (policy->open[i].ordered && strcmp(policy->open[i].decision.id, decision) == 0)
            return &policy->open[i];
    }
    return NULL;
}

/* The word of a launcher or node daemon about its part as a whole. */
static void at_step_executor_outcome(struct policy *policy, struct open_request *open,
                                     const struct outcome *outcome)
{
    if (!outcome->ended_real_ns) { /* it begins */
        progress_delay(&policy->progress, outcome->began_real_ns - open->decision.decided_real_ns);
        return;
    }
    switch (outcome->result) {
    case OUTCOME_DONE:
        if (strcmp(outcome->part, "launcher") == 0) /* of all ranks */
            open->answers = open->decision.rank_count;
        break;
    case OUTCOME_PAST:
        open->past = true;
        break;
    case OUTCOME_NOT_EXECUTED:
    case OUTCOME_UNKNOWN: /* the attempt or the executor ended: the next ones may do it */
        open->least_attempt = open->decision.attempt + 1;
        break;
    default:
        snprintf(open->failed, sizeof(open->failed), "%s: %.120s", outcome->part,
                 outcome->text[0] ? outcome->text : outcome_result_name(outcome->result));
    }
}

void at_step_outcome(struct policy *policy, const struct outcome *outcome)
{
    struct open_request *open = at_step_open_request_of_decision(policy, outcome->decision);

    if (!open)
        return;
    if (strncmp(outcome->part, "rank ", 5) != 0)
        at_step_executor_outcome(policy, open, outcome);
    else if (outcome->result == OUTCOME_DONE)
        open->answers++;
    else if (outcome->result == OUTCOME_PAST)
        open->past = true;
    if (open->answers >= open->decision.rank_count && !open->past && !open->failed[0])
        at_step_open_request_drop(policy, (size_t)(open - policy->open));
}

/* ---- deciding ---- */

static struct unsettled *at_step_unsettled(struct policy *policy, unsigned action)
{
    return &policy->unsettled[action == ACTION_DEPTH];
}

/* Ranks that have not answered may still do it. */
static void at_step_unsettle(struct policy *policy, const struct decision *decision)
{
    if (decision->step != DECISION_NO_STEP)
        *at_step_unsettled(policy, decision->action) =
            (struct unsettled){ true, decision->attempt, decision->step };
}

static bool at_step_is_settled(struct policy *policy, unsigned action)
{
    struct unsettled *left = at_step_unsettled(policy, action);

    if (left->any && (left->attempt != policy->attempt ||
                      (policy->progress.any && policy->progress.newest > left->step + 1)))
        left->any = false;
    return !left->any;
}

static void at_step_open_request_fail(struct policy *policy, size_t at, const char *why)
{
    struct open_request *open = &policy->open[at];

    departures_unsaved(policy, open->request.id, why);
    if (!open->ordered &&
        !open->decision.id[0]) { /* never: the reason needs a decision all the same */
        open->decision = (struct decision){ .action = (uint8_t)at_step_open_request_action(open),
                                            .state = DECISION_EXPIRED,
                                            .target = TARGET_RUN,
                                            .step = DECISION_NO_STEP,
                                            .argument = open->request.argument };
        memcpy(open->decision.of, open->request.id, sizeof(open->decision.of));
        snprintf(open->decision.why, sizeof(open->decision.why), "%s", why);
        policy_decide(policy, &open->decision, 0);
    } else {
        at_step_unsettle(policy, &open->decision);
        policy_change(policy, &open->decision, DECISION_EXPIRED, why);
    }
    at_step_open_request_drop(policy, at);
}

/* A run that hangs begins no step.  The reason is the verdict's. */
static bool at_step_is_stuck(const struct policy *policy, const struct open_request *open,
                             char *ret, size_t room)
{
    const struct verdict *stuck = &policy->stuck;
    char rank[32] = "";

    if (!stuck->id[0] || policy->view->real_ns - open->since_real_ns < STUCK_NS)
        return false;
    if (stuck->rank_count)
        snprintf(rank, sizeof(rank), ", rank %u", stuck->rank[0]);
    snprintf(ret, room, "the run hangs (verdict %s%s: %.80s): no step has begun for %lld s",
             stuck->id, rank, stuck->cause,
             (long long)((policy->view->mono_ns - policy->progress.seen_ns) / NS_PER_S));
    return true;
}

/* "": it goes on. */
static void at_step_open_request_failure(const struct policy *policy, size_t at, char *ret,
                                         size_t room)
{
    const struct open_request *open = &policy->open[at];
    int64_t until_ns = open->ordered ? open->decision.deadline_real_ns + LATE_NS
                                     : open->since_real_ns + PATIENCE_NS;

    ret[0] = '\0';
    for (size_t i = 0; i < at; i++) {
        if (policy->open[i].request.kind == open->request.kind)
            snprintf(ret, room, "request %s of the same kind is open", policy->open[i].request.id);
    }
    if (ret[0])
        return;
    if (open->cancelled && open->ordered)
        snprintf(ret, room, "%.90s; the ranks were asked already, and may do it at step %llu",
                 open->failed, (unsigned long long)open->decision.step);
    else if (open->failed[0])
        snprintf(ret, room, "%s", open->failed);
    else if (policy->view->last)
        snprintf(ret, room, "the run ended before it was done");
    else if (open->renewals > RENEWALS_MAX)
        snprintf(ret, room, "renewed %d times, and a rank was past the step each time",
                 RENEWALS_MAX);
    else if (at_step_is_stuck(policy, open, ret, room))
        return;
    else if (policy->view->real_ns > until_ns && open->ordered)
        snprintf(ret, room, "%u of %u ranks did it before the deadline", open->answers,
                 open->decision.rank_count);
    else if (policy->view->real_ns > until_ns)
        snprintf(ret, room, "no step was observed");
}

/* Takes a decision back that cannot be carried out any more. */
static void at_step_open_request_withdraw(struct policy *policy, struct open_request *open)
{
    char why[160];

    if (!open->ordered || (!open->past && open->decision.attempt == policy->attempt))
        return;
    if (open->past)
        snprintf(why, sizeof(why), "a rank was past step %llu",
                 (unsigned long long)open->decision.step);
    else
        snprintf(why, sizeof(why), "attempt %u ended", open->decision.attempt);
    policy_change(policy, &open->decision, DECISION_SUPERSEDED, why);
    open->renewals++;
    open->ordered = open->past = false;
    open->since_real_ns = policy->view->real_ns;
}

/* The ranks are those of the run; the record has room for the first ones. */
static void at_step_open_request_order(struct policy *policy, struct open_request *open)
{
    struct decision decision = { .action = (uint8_t)at_step_open_request_action(open),
                                 .target = TARGET_RANKS,
                                 .rank_count = policy->view->ranks,
                                 .argument = open->request.argument };
    int64_t until_ns;

    if (open->ordered || policy->attempt < open->least_attempt || !policy->view->ranks ||
        !at_step_is_settled(policy, decision.action) ||
        !progress_target(&policy->progress, policy->view->mono_ns, open->renewals, &decision.step,
                         &until_ns))
        return;
    for (uint32_t i = 0; i < decision.rank_count && i < DECISION_RANKS; i++)
        decision.rank[i] = i;
    memcpy(decision.of, open->request.id, sizeof(decision.of));
    snprintf(decision.why, sizeof(decision.why), "requested by %.60s",
             open->request.who[0] ? open->request.who : "the run");
    policy_decide(policy, &decision, PATIENCE_NS + 4 * until_ns);
    open->decision = decision;
    open->ordered = true;
    open->answers = 0;
}

void at_step_tick(struct policy *policy)
{
    for (size_t i = 0; i < policy->open_count;) {
        struct open_request *open = &policy->open[i];
        char why[160];

        if (open->new)
            open->since_real_ns = policy->view->real_ns;
        open->new = false;
        at_step_open_request_withdraw(policy, open);
        at_step_open_request_failure(policy, i, why, sizeof(why));
        if (why[0]) {
            at_step_open_request_fail(policy, i, why);
            continue;
        }
        at_step_open_request_order(policy, open);
        i++;
    }
}

/* ---- the log ---- */

void at_step_follow_log(struct policy *policy, const struct decision *decision)
{
    for (size_t i = 0; i < policy->open_count; i++) {
        struct open_request *open = &policy->open[i];

        if (strcmp(open->request.id, decision->of) != 0)
            continue;
        open->new = false;
        open->since_real_ns = decision->decided_real_ns;
        open->decision = *decision;
        open->ordered = decision->state == DECISION_ORDERED;
        open->past = false;
        open->answers = open->ordered ? 0 : open->answers;
        open->renewals += decision->state == DECISION_SUPERSEDED;
        if (decision->state == DECISION_EXPIRED) {
            at_step_unsettle(policy, decision);
            at_step_open_request_drop(policy, i);
        }
        return;
    }
}
