/* site_act.c - carries out the decisions on nodes that are the controller's own: drain, undrain, down.
 *
 * One at a time, in a child (lockstep site-act), so that a scheduler that hangs delays nothing else.  The site's log is the journal: an outcome
 * says that an order is begun before the child starts, and another one how it ended.  A controller that was killed in between does not
 * begin the order again: its successor only looks at the node, and reports what it sees, or that it is not known.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act/table/kill_switch.h"
#include "base/log.h"
#include "control/site/site_private.h"
#include "core/clean.h"
#include "core/text.h"
#include "core/time.h"

#define ACT_LIMIT_NS (90 * NS_PER_S) /* several calls of scontrol, each with its own */
#define ACT_MODE_NS NS_PER_S

extern char **environ;

void site_act_fini(struct site_act *act)
{
    if (act->pid) { /* it sees that we are gone before it changes anything */
        kill(act->pid, SIGKILL);
        waitpid(act->pid, NULL, 0);
        close(act->fd);
    }
    *act = (struct site_act){ .pid = 0 };
}

/* ---- the journal ---- */

static int act_write(struct site *site, const char *id, unsigned result, bool ended,
                     const char *text)
{
    struct outcome outcome = { .mono_ns = time_mono_ns(),
                               .result = (uint8_t)result,
                               .step = DECISION_NO_STEP };
    struct err err = { "" };
    int r;

    snprintf(outcome.decision, sizeof(outcome.decision), "%s", id);
    snprintf(outcome.part, sizeof(outcome.part), SITE_CONTROLLER);
    snprintf(outcome.text, sizeof(outcome.text), "%s", text);
    if (ended)
        outcome.ended_real_ns = time_real_ns();
    else
        outcome.began_real_ns = time_real_ns();
    r = site_log_outcome(site->nodes, &outcome, &err);
    if (r < 0)
        site_nodes_failed(site, r, &err);
    return r;
}

/* ---- the child ---- */

static int act_spawn(struct site_act *act, char *const argv[], struct err *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    int fd[2], r;

    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_set(err, -errno, "pipe: %m");
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, fd[1], STDOUT_FILENO);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    r = posix_spawn(&act->pid, "/proc/self/exe", &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    close(fd[1]);
    if (r) {
        close(fd[0]);
        act->pid = 0;
        return err_set(err, -r, "cannot start lockstep site-act: %s", strerror(r));
    }
    act->fd = fd[0];
    act->size = 0;
    act->until_ns = time_mono_ns() + ACT_LIMIT_NS;
    return 0;
}

static uint64_t act_job_of(const struct decision *decision)
{
    return decision->argument > 0 ? (uint64_t)decision->argument : 0;
}

/* Whose run lost the node, as root's daemon there has seen; 0: nobody's, and root's jobs are not ended either. */
static uint32_t act_user_of(const struct site *site, const struct decision *decision)
{
    const struct site_node *node = site_core_find(site_log_core(site->nodes), decision->node[0]);
    uint32_t user = 0;

    for (size_t i = 0; node && i < NODE_VERDICTS; i++) {
        if (strcmp(node->verdict[i].id, decision->of) == 0)
            node_owners_user(&node->owners, node->verdict[i].run, &user);
    }
    return user;
}

static int act_start(struct site *site, const struct site_order *order, bool look, struct err *err)
{
    const struct decision *decision = &order->decision;
    char parent[16], job[24], user[16];
    uint32_t uid = act_user_of(site, decision);
    char program[] = "lockstep", command[] = "site-act", opt_action[] = "--action",
         opt_node[] = "--node", opt_reason[] = "--reason", opt_state[] = "--state",
         opt_parent[] = "--parent", opt_job[] = "--job", opt_user[] = "--user",
         opt_look[] = "--look";
    char action[24], node[FACT_NAME], reason[sizeof(decision->why)];
    char *argv[] = { program,
                     command,
                     opt_action,
                     action,
                     opt_node,
                     node,
                     opt_reason,
                     reason,
                     opt_state,
                     site->state.text,
                     opt_parent,
                     parent,
                     opt_job,
                     job,
                     opt_user,
                     user,
                     look ? opt_look : NULL,
                     NULL };

    snprintf(action, sizeof(action), "%s", action_name(decision->action));
    snprintf(node, sizeof(node), "%s", decision->node[0]);
    snprintf(reason, sizeof(reason), "%s", decision->why);
    snprintf(parent, sizeof(parent), "%d", getpid());
    snprintf(job, sizeof(job), "%llu", (unsigned long long)(uid ? act_job_of(decision) : 0));
    snprintf(user, sizeof(user), "%u", uid);
    memcpy(site->act.id, decision->id, sizeof(site->act.id));
    return act_spawn(&site->act, argv, err);
}

/* "done n3 is IDLE+DRAIN" */
static unsigned act_result(struct site_act *act, int status, char *ret, size_t room)
{
    unsigned result;
    char *text;
    size_t size;

    act->text[act->size] = '\0';
    act->text[strcspn(act->text, "\n")] = '\0';
    text = strchr(act->text, ' ');
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !text) {
        snprintf(ret, room, "the child that did it %s %d",
                 WIFEXITED(status) ? "exited with" : "was killed by signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
        return OUTCOME_UNKNOWN;
    }
    *text++ = '\0';
    size = text_clean(text, strlen(text), false);
    snprintf(ret, room, "%.*s", (int)size, text);
    result = outcome_result_of(act->text);
    return result ? result : OUTCOME_UNKNOWN;
}

static void act_end(struct site *site, unsigned result, const char *text)
{
    struct site_act *act = &site->act;

    log_info("order %s: %s: %s", act->id, outcome_result_name(result), text);
    if (site->nodes)
        act_write(site, act->id, result, true, text);
    close(act->fd);
    act->pid = 0;
}

static void act_look(struct site *site, int64_t now_ns)
{
    struct site_act *act = &site->act;
    char text[200];
    int status;
    ssize_t got;

    while (act->size + 1 < sizeof(act->text) &&
           (got = read(act->fd, act->text + act->size, sizeof(act->text) - 1 - act->size)) > 0)
        act->size += (size_t)got;
    if (waitpid(act->pid, &status, WNOHANG) == act->pid) {
        unsigned result = act_result(act, status, text, sizeof(text));

        act_end(site, result, text);
    } else if (now_ns >= act->until_ns) {
        kill(act->pid, SIGKILL);
        waitpid(act->pid, &status, 0);
        act_end(site, OUTCOME_UNKNOWN, "it took too long and was killed");
    }
}

/* ---- which order is next ---- */

static void act_begin(struct site *site, const struct site_order *order)
{
    struct err err = { "" };
    bool look = order->begun;
    char id[DECISION_ID];

    memcpy(id, order->decision.id, sizeof(id));
    log_info("order %s: %s %s%s", id, action_name(order->decision.action), order->decision.node[0],
             look ? ": an earlier controller had begun it; checking how it ended" : "");
    if (!look && act_write(site, id, OUTCOME_UNKNOWN, false, "") < 0)
        return; /* not begun: the next turn tries again */
    if (act_start(site, order, look, &err) < 0) {
        log_error("order %s: %s", id, err.text);
        act_write(site, id, look ? OUTCOME_UNKNOWN : OUTCOME_FAILED, true, err.text);
    }
}

/* There is nobody else to tell: whoever follows the controller's log, its events or its metrics hears of it. */
static void act_alert(struct site *site, const struct site_order *order)
{
    char id[DECISION_ID];

    memcpy(id, order->decision.id, sizeof(id));
    log_error("alert: %s", order->decision.why);
    act_write(site, id, OUTCOME_DONE, true, "written to the controller's log");
}

static void act_next(struct site *site)
{
    const struct site_orders *orders = site_core_orders(site_log_core(site->nodes));
    uint64_t on_disk = site_log_on_disk(site->nodes);

    for (size_t i = 0; i < orders->count; i++) {
        const struct site_order *order = &orders->order[i];

        if (!order->number || order->number > on_disk || order->ended ||
            order->decision.state != DECISION_ORDERED ||
            !site_action_is_controllers(order->decision.action) ||
            (!order->begun && !site_order_is_open(order, time_real_ns())))
            continue;
        if (order->decision.action == ACTION_ALERT)
            act_alert(site, order);
        else
            act_begin(site, order);
        return; /* the table may have changed */
    }
}

/* ---- the mode ---- */

static bool act_switch_is_on(const struct site *site)
{
    char path[4096];
    struct path own;

    return kill_switch_is_on(path, sizeof(path)) ||
           path_join(&own, site->state.text, KILL_SWITCH_NAME, NULL) < 0 ||
           access(own.text, F_OK) == 0;
}

/* Facts of the log, so that it replays. */
static void act_settings(struct site *site, int64_t now_ns)
{
    unsigned mode = site->settings.act ? POLICY_ACT : POLICY_DRY_RUN;
    struct err err = { "" };
    int r;

    if (now_ns < site->act.mode_at_ns)
        return;
    site->act.mode_at_ns = now_ns + ACT_MODE_NS;
    if (act_switch_is_on(site))
        mode = POLICY_OFF;
    r = site_log_set(site->nodes, SITE_MODE, mode, &err);
    if (r == 0)
        r = site_log_set(site->nodes, SITE_BUDGET_DRAINS, site->settings.drains, &err);
    if (r == 0)
        r = site_log_set(site->nodes, SITE_BUDGET_SHARE, site->settings.drain_share, &err);
    if (r == 0)
        r = site_log_set(site->nodes, SITE_VERIFY_STAGE, site->settings.verify_stage, &err);
    if (r == 0)
        r = site_log_set(site->nodes, SITE_VERIFY_AGE, (double)site->settings.verify_age_ns / 1e9,
                         &err);
    if (r == 0)
        r = site_log_set(site->nodes, SITE_VERIFY_AT_ONCE, site->settings.verify_at_once, &err);
    if (r == 0)
        r = site_log_set(site->nodes, SITE_REPAIR, site->settings.repair, &err);
    if (r < 0)
        site_nodes_failed(site, r, &err);
}

void site_act_turn(struct site *site, int64_t now_ns)
{
    if (site->act.pid) {
        act_look(site, now_ns);
        return;
    }
    if (site->nodes)
        act_settings(site, now_ns);
    if (site->nodes)
        act_next(site);
}
