/* launch_policy.c - what the launcher tells the policy, and what it prints of its decisions.
 *
 * The table is sent once, the means (consent, kill switch, restarts that are left, expected end) whenever they change: the
 * policy decides in the controller, from facts alone.  The kill switch is looked at again right before anything is done.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <sys/wait.h>

#include "act/launch/launch_private.h"
#include "act/table/kill_switch.h"
#include "core/time.h"

void launch_policy_open(struct launch *launch)
{
    struct policy_table table;

    if (!launch->plan->table || !launch->orders)
        return;
    table = *launch->plan->table;
    table.mono_ns = time_mono_ns();
    table.real_ns = time_real_ns();
    launcher_log_policy(launch->log, &table, NULL);
}

/* Of the scheduler, in seconds since 1970; 0: it does not say. */
static int64_t launch_policy_time(const char *variable)
{
    const char *text = getenv(variable);
    long long seconds = text ? strtoll(text, NULL, 10) : 0;

    return seconds > 0 && seconds < INT64_C(4102444800) ? seconds * NS_PER_S : 0;
}

static struct policy_means launch_policy_now(const struct launch *launch)
{
    const struct launch_plan *plan = launch->plan;
    uint32_t restarts = launch->run_dir.file.restarts;
    char path[PATH_MAX];

    return (struct policy_means){
        .mode = kill_switch_is_on(path, sizeof(path)) ? POLICY_OFF
                : plan->act                           ? POLICY_ACT
                                                      : POLICY_DRY_RUN,
        .actions =
            1u << ACTION_CHECKPOINT | 1u << ACTION_RESTART | 1u << ACTION_GIVE_UP |
            (plan->alert ? 1u << ACTION_ALERT : 0) |
            (launch->crew ? 1u << ACTION_SWAP | 1u << ACTION_RESTART_WITHOUT | 1u << ACTION_REPLACE
                          : 0) |
            (launch->crew && plan->rejoin_ns ? 1u << ACTION_REQUEUE : 0),
        .restarts_left = plan->max_restarts > restarts ? plan->max_restarts - restarts : 0,
        .restart_hangs = plan->restart_hangs,
        .end_real_ns = launch_policy_time("SLURM_JOB_END_TIME"),
        .steps = plan->steps,
        .submit_real_ns = launch_policy_time("LOCKSTEP_JOB_SUBMIT_TIME"),
        .start_real_ns = launch_policy_time("SLURM_JOB_START_TIME"),
    };
}

static void launch_policy_switch_print(struct launch *launch, uint8_t mode)
{
    char path[PATH_MAX];

    if (mode == POLICY_OFF && kill_switch_is_on(path, sizeof(path)))
        output_message(launch->output, "%s exists: no action is carried out", path);
    else if (launch->means.mode == POLICY_OFF)
        output_message(launch->output, "the kill switch is off: actions are carried out again");
}

static bool launch_policy_is_same(const struct policy_means *now, const struct policy_means *sent)
{
    return now->mode == sent->mode && now->actions == sent->actions &&
           now->restarts_left == sent->restarts_left && now->restart_hangs == sent->restart_hangs &&
           now->end_real_ns == sent->end_real_ns && now->steps == sent->steps;
}

void launch_policy_means(struct launch *launch)
{
    struct policy_means now;

    if (!launch->plan->table || !launch->orders)
        return;
    now = launch_policy_now(launch);
    if (launch_policy_is_same(&now, &launch->means))
        return;
    if (now.mode != launch->means.mode && launch->plan->act)
        launch_policy_switch_print(launch, now.mode);
    now.mono_ns = time_mono_ns();
    now.real_ns = time_real_ns();
    if (launcher_log_means(launch->log, &now, NULL) == 0)
        launch->means = now;
}

bool launch_policy_allows(struct launch *launch, char *ret, size_t room)
{
    char path[PATH_MAX];

    if (!launch->plan->table || !kill_switch_is_on(path, sizeof(path)))
        return true;
    snprintf(ret, room, "the kill switch %.120s is on", path);
    return false;
}

bool launch_policy_is_off(const struct launch *launch)
{
    char path[PATH_MAX];

    return launch->plan->act && kill_switch_is_on(path, sizeof(path));
}

bool launch_policy_ends(const struct launch *launch, int status)
{
    const struct policy_table *table = launch->plan->table;

    for (uint32_t i = 0; table && WIFEXITED(status) && i < table->exit_count; i++) {
        if (table->exit[i] == WEXITSTATUS(status))
            return true;
    }
    return false;
}

/* What would be done, for who considers --act.  What is done prints itself; a restart that nobody asked for is no news. */
void launch_policy_print(struct launch *launch, const struct decision *decision)
{
    const struct launch_plan *plan = launch->plan;

    if (decision->state != DECISION_DRY_RUN || plan->quiet ||
        !verdict_follow_is_new(launch->follow))
        return;
    if (!plan->act && (!(launch->means.actions >> decision->action & 1) ||
                       (decision->action == ACTION_RESTART && !plan->max_restarts)))
        return;
    output_message(launch->output, "dry run: %s%s%s is not done: %s", action_name(decision->action),
                   decision->of[0] ? " because of " : "", decision->of, decision->why);
}
