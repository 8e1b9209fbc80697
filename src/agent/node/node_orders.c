/* node_orders.c - the long poll of a node, and what it orders.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/node/node_orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "act/orders/order_poll.h"
#include "act/orders/orders.h"
#include "base/log.h"
#include "base/net/token.h"
#include "base/paths.h"
#include "core/clean.h"
#include "core/time.h"
#include "verify/check_report.h"
#include "verify/inspection.h"

#define TOKEN_NS NS_PER_S

struct node_orders {
    struct node_orders_settings settings;
    struct path token_file;
    struct token token; /* "": not there yet */
    int64_t token_at_ns;
    struct orders *orders;
    struct order_poll *poll;
    struct inspection *inspection; /* NULL: none */
    char inspects[DECISION_ID];    /* the order that it is for */
    size_t written;                /* checks of it */
    struct node_verify *verify;    /* NULL: checks are refused */
    char verifies[DECISION_ID];    /* the order that it is for; "": none */
    bool verified;                 /* it is over, and that is to be written: */
    enum outcome_result verify_result;
    char verify_text[200];
    struct node_repair repair;
    char repairs[DECISION_ID]; /* the order that it is for; "": none */
    bool repaired;             /* it is over, and that is to be written: */
    enum outcome_result repair_result;
    char repair_text[200];
};

static struct orders_now node_orders_now(void)
{
    return (
        struct orders_now){ .mono_ns = time_mono_ns(), .real_ns = time_real_ns(), .rings_fd = -1 };
}

static int node_orders_write(void *arg, const struct outcome *outcome)
{
    struct node_orders *mine = arg;
    struct err err = { "" };
    int result = node_facts_outcome(mine->settings.facts, outcome, &err);

    if (result < 0)
        log_error("order %s: its outcome cannot be kept: %s; will try again", outcome->decision,
                  err.text);
    return result;
}

/* ---- inspect ---- */

static void node_orders_end(struct node_orders *mine)
{
    inspection_destroy(TAKE(mine->inspection));
    mine->written = 0;
}

/* The checks first: an order that is done has its results in the spool.  What cannot be written is tried again. */
static void node_orders_report(struct node_orders *mine)
{
    struct orders_now now = node_orders_now();
    size_t count = inspection_checks(mine->inspection);
    char text[80];

    for (; mine->written < count; mine->written++) {
        struct check check;

        inspection_check(mine->inspection, mine->written, &check);
        if (node_facts_check(mine->settings.facts, &check, NULL) < 0)
            return;
    }
    snprintf(text, sizeof(text), count ? "%zu sensors were read" : "no sensor works on this node",
             count);
    if (orders_finish(mine->orders, mine->inspects, count ? OUTCOME_DONE : OUTCOME_FAILED, text,
                      &now) == 0)
        node_orders_end(mine);
}

static int node_orders_inspect(struct node_orders *mine, const struct decision *order,
                               const struct orders_now *now)
{
    const struct sense_place place = { .root = "",
                                       .kmsg = mine->settings.kmsg,
                                       .node = mine->settings.node };
    int result = orders_begin(mine->orders, order, now);

    if (result != 1)
        return result;
    log_info("order %s: inspecting this node", order->id);
    if (!mine->settings.sense)
        return orders_finish(mine->orders, order->id, OUTCOME_REFUSED,
                             "the sensors of this node are off (--no-node-sensors)", now);
    mine->inspection = inspection_begin(&place, now->mono_ns);
    if (!mine->inspection)
        return orders_finish(mine->orders, order->id, OUTCOME_FAILED, "out of memory", now);
    memcpy(mine->inspects, order->id, sizeof(mine->inspects));
    return 1;
}

/* ---- verify ---- */

static int node_orders_verify(struct node_orders *mine, const struct decision *order,
                              const struct orders_now *now)
{
    int result = orders_begin(mine->orders, order, now);

    if (result != 1)
        return result;
    if (!mine->verify)
        return orders_finish(mine->orders, order->id, OUTCOME_REFUSED,
                             "this node is not put to the test (--no-verify)", now);
    if (node_verify_begin(mine->verify, order->argument, now->mono_ns) < 0)
        return orders_finish(mine->orders, order->id, OUTCOME_REFUSED, "there is no such stage",
                             now);
    log_info("order %s: checking this node", order->id);
    memcpy(mine->verifies, order->id, sizeof(mine->verifies));
    mine->verified = false;
    return 1;
}

/* What cannot be written is tried again. */
static void node_orders_verify_turn(struct node_orders *mine, int64_t now_ns)
{
    struct orders_now now = node_orders_now();

    if (!mine->verified)
        mine->verified = node_verify_turn(mine->verify, now_ns, &mine->verify_result,
                                          mine->verify_text, sizeof(mine->verify_text));
    if (mine->verified && orders_finish(mine->orders, mine->verifies, mine->verify_result,
                                        mine->verify_text, &now) == 0)
        mine->verifies[0] = '\0';
}

/* ---- reset-gpu, reboot ---- */

static int node_orders_repair(struct node_orders *mine, const struct decision *order,
                              const struct orders_now *now)
{
    char why[120] = "";
    int result = orders_begin(mine->orders, order, now);

    if (result != 1)
        return result;
    if (!(mine->settings.repair >> order->action & 1)) {
        snprintf(why, sizeof(why), "this node does not allow it (--repair %s)",
                 action_name(order->action));
        return orders_finish(mine->orders, order->id, OUTCOME_REFUSED, why, now);
    }
    if (mine->settings.is_used && mine->settings.is_used(mine->settings.arg, why, sizeof(why)))
        return orders_finish(mine->orders, order->id, OUTCOME_NOT_EXECUTED, why, now);
    log_info("order %s: %s", order->id, action_name(order->action));
    result = node_repair_begin(&mine->repair, mine->settings.node, order, now->mono_ns);
    if (result < 0)
        return orders_finish(mine->orders, order->id, OUTCOME_FAILED, strerror(-result), now);
    memcpy(mine->repairs, order->id, sizeof(mine->repairs));
    mine->repaired = false;
    return 1;
}

static void node_orders_repair_turn(struct node_orders *mine, int64_t now_ns)
{
    struct orders_now now = node_orders_now();

    if (!mine->repaired) {
        mine->repaired = node_repair_turn(&mine->repair, now_ns, &mine->repair_result,
                                          mine->repair_text, sizeof(mine->repair_text));
        if (mine->repaired)
            log_info("order %s: %s: %s", mine->repairs, outcome_result_name(mine->repair_result),
                     mine->repair_text);
    }
    if (mine->repaired && orders_finish(mine->orders, mine->repairs, mine->repair_result,
                                        mine->repair_text, &now) == 0)
        mine->repairs[0] = '\0';
}

void node_orders_reaped(struct node_orders *mine, pid_t pid, int status)
{
    node_repair_reaped(&mine->repair, pid, status);
    if (mine->verify)
        node_verify_reaped(mine->verify, pid, status);
}

void node_orders_checked(struct node_orders *mine, const struct check *check)
{
    if (mine->verify)
        node_verify_checked(mine->verify, check);
}

/* ---- orders ---- */

static int node_orders_take(void *arg, const struct decision *order)
{
    struct node_orders *mine = arg;
    struct orders_now now = node_orders_now();
    int result;

    if (mine->inspection)
        return strcmp(mine->inspects, order->id) == 0 ? 0 : -EBUSY;
    if (mine->verifies[0])
        return strcmp(mine->verifies, order->id) == 0 ? 0 : -EBUSY;
    if (mine->repairs[0])
        return strcmp(mine->repairs, order->id) == 0 ? 0 : -EBUSY;
    if ((order->action == ACTION_RESET_GPU || order->action == ACTION_REBOOT) &&
        order->target == TARGET_NODES)
        return node_orders_repair(mine, order, &now);
    if (order->action == ACTION_INSPECT && order->target == TARGET_NODES)
        return node_orders_inspect(mine, order, &now);
    if (order->action == ACTION_VERIFY && order->target == TARGET_NODES)
        return node_orders_verify(mine, order, &now);
    result = orders_begin(mine->orders, order, &now);
    return result != 1 ? result
                       : orders_finish(mine->orders, order->id, OUTCOME_REFUSED,
                                       "this node daemon cannot do that", &now);
}

static void node_orders_site_faults(void *arg, const char (*name)[FACT_NAME], size_t count)
{
    struct node_orders *mine = arg;
    int result = check_site_faults_keep(mine->settings.state, name, count);

    if (result < 0)
        log_error("faults of the site are not kept: %s", strerror(-result));
}

static void node_orders_replay(void *arg, const struct outcome *outcome)
{
    struct node_orders *mine = arg;

    if (mine->orders && orders_replay(mine->orders, outcome) < 0)
        orders_destroy(TAKE(mine->orders)); /* out of memory: no orders rather than one twice */
}

void node_orders_close(struct node_orders *mine)
{
    if (!mine)
        return;
    order_poll_destroy(mine->poll);
    node_orders_end(mine);
    node_verify_destroy(mine->verify);
    node_repair_fini(&mine->repair);
    orders_destroy(mine->orders);
    free(mine);
}

static void node_orders_clean(struct node_orders **mine)
{
    node_orders_close(*mine);
}

/* What a former life began and did not end is reported as unknown: it is not begun again. */
static int node_orders_resume(struct node_orders *mine)
{
    struct orders_now now = node_orders_now();
    char part[FACT_NAME + 8];
    int result;

    snprintf(part, sizeof(part), "node %s", mine->settings.node);
    result = orders_create(part, node_orders_write, mine, &mine->orders);
    if (result == 0)
        result = node_facts_outcomes(mine->settings.facts, node_orders_replay, mine);
    if (result == 0)
        result = mine->orders ? orders_resume(mine->orders, &now) : -ENOMEM;
    return result;
}

int node_orders_open(const struct node_orders_settings *settings, struct node_orders **ret,
                     struct err *err)
{
    CLEAN(node_orders_clean) struct node_orders *mine = calloc(1, sizeof(*mine));
    int result;

    if (!mine)
        return err_nomem(err);
    mine->settings = *settings;
    mine->settings.verify = NULL; /* the caller's for this call */
    result = path_join(&mine->token_file, settings->state, "node.token", err);
    if (result < 0)
        return result;
    result = node_orders_resume(mine);
    if (result == 0 && settings->verify)
        result = node_verify_create(settings->verify, &mine->verify);
    if (result == 0)
        result =
            order_poll_create(&(struct order_poll_settings){ .loop = settings->loop,
                                                             .client = settings->client,
                                                             .node = settings->node,
                                                             .token = &mine->token,
                                                             .take = node_orders_take,
                                                             .site_faults = node_orders_site_faults,
                                                             .arg = mine },
                              &mine->poll);
    if (result < 0)
        return err_set(err, result, "%s", strerror(-result));
    *ret = TAKE(mine);
    return 0;
}

/* The file may come later, and be replaced. */
static void node_orders_token(struct node_orders *mine, int64_t now_ns)
{
    struct token token;

    if (now_ns < mine->token_at_ns ||
        (mine->token.text[0] && !order_poll_trouble(mine->poll)->text[0]))
        return;
    mine->token_at_ns = now_ns + TOKEN_NS;
    if (token_read(mine->token_file.text, &token, NULL) == 0)
        mine->token = token;
}

void node_orders_step(struct node_orders *mine, int64_t now_ns)
{
    node_orders_token(mine, now_ns);
    if (mine->inspection && inspection_turn(mine->inspection, now_ns))
        node_orders_report(mine);
    if (mine->verifies[0])
        node_orders_verify_turn(mine, now_ns);
    if (mine->repairs[0])
        node_orders_repair_turn(mine, now_ns);
}
