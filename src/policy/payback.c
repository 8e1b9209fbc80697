/* payback.c - what an action costs and what it saves, in GPU-seconds.
 *
 * A restart costs what starts have cost in this run, by its ledger, and the work since the newest checkpoint.  It saves what the
 * fault takes from now on until the expected end: all ranks if the job stands still, else the delay of each step.  A start that
 * was never finished is taken to cost as long as it has lasted already.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/clean.h"
#include "core/time.h"
#include "policy/policy_private.h"

bool action_stops_job(unsigned action)
{
    switch (action) {
    case ACTION_RESTART:
    case ACTION_RESTART_WITHOUT:
    case ACTION_SWAP:
    case ACTION_REPLACE:
    case ACTION_RESET_GPU:
    case ACTION_REBOOT:
    case ACTION_DRAIN:
    case ACTION_REQUEUE:
        return true;
    default:
        return false;
    }
}

bool action_takes_nodes(unsigned action)
{
    return action == ACTION_RESTART_WITHOUT || action == ACTION_SWAP || action == ACTION_REPLACE ||
           action == ACTION_DRAIN || action == ACTION_REBOOT;
}

/* The ledger counts the seconds of checkpoints: when they grow, one was made. */
void payback_tick(struct policy *policy)
{
    double seconds;

    if (!policy->view->ledger)
        return;
    seconds = policy->view->ledger->gpu_seconds[LEDGER_CHECKPOINT];
    if (seconds > policy->checkpoint_seconds)
        policy->checkpoint_real_ns = policy->view->real_ns;
    policy->checkpoint_seconds = seconds;
}

static double payback_start_s(const struct policy *policy)
{
    const struct ledger *ledger = policy->view->ledger;
    double since_s = (double)(policy->view->real_ns - policy->attempt_real_ns) / 1e9, starts_s = 0;

    if (ledger && ledger->ranks)
        starts_s = (ledger->gpu_seconds[LEDGER_START_UP] + ledger->gpu_seconds[LEDGER_RESTART]) /
                   ledger->ranks / (policy->attempt + 1);
    return starts_s > 0 ? starts_s : MAX(since_s, 0);
}

static bool payback_is_standstill(const struct cause *cause)
{
    return cause->kind == VERDICT_HANG || cause->kind == VERDICT_DESYNC ||
           cause->kind == VERDICT_CRASH;
}

/* Work that is done again: since the newest checkpoint, or since the attempt began; of a job that stands still, until then. */
static double payback_lost_s(const struct policy *policy, const struct cause *cause)
{
    int64_t since_ns =
        policy->checkpoint_real_ns ? policy->checkpoint_real_ns : policy->attempt_real_ns;
    int64_t until_ns = payback_is_standstill(cause) ? cause->since_real_ns : policy->view->real_ns;

    return policy->progress.any ? MAX((double)(until_ns - since_ns) / 1e9, 0) : 0;
}

static double payback_step_s(const struct policy *policy)
{
    return policy->progress.window[0] ? (double)policy->progress.window[0] / 1e9 : 0;
}

static double payback_left_s(const struct policy *policy)
{
    const struct policy_means *means = &policy->means;
    double step_s = payback_step_s(policy), left_s;

    if (means->end_real_ns)
        left_s = (double)(means->end_real_ns - policy->view->real_ns) / 1e9;
    else if (means->steps && policy->progress.any && step_s > 0)
        left_s = (double)(means->steps - MIN(policy->progress.newest, means->steps)) * step_s;
    else
        left_s = (double)policy->table->horizon_ns / 1e9;
    return MAX(left_s, 0);
}

/* GPU-seconds that the fault takes in a second. */
static double payback_rate(const struct policy *policy, const struct cause *cause)
{
    double ranks = policy->view->ranks, step_s = payback_step_s(policy);

    /* What is computed from wrong numbers is lost. */
    if (payback_is_standstill(cause) || cause->kind == VERDICT_CORRUPTION)
        return ranks;
    return step_s > 0 ? ranks * MIN(cause->seconds_per_step / step_s, 1) : 0;
}

struct payback payback_of(const struct policy *policy, const struct cause *cause)
{
    double rate = payback_rate(policy, cause);
    struct payback payback = { .saves = rate * payback_left_s(policy),
                               .costs = policy->view->ranks *
                                        (payback_start_s(policy) + payback_lost_s(policy, cause)) };

    payback.after_s = rate > 0 ? payback.costs / rate : 0;
    return payback;
}
