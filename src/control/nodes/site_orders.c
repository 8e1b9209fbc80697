/* site_orders.c - decides on requests, and follows their orders to the end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/site_orders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/time.h"

#define HOUR_NS (3600 * NS_PER_S)
#define LATE_NS (5 * NS_PER_S) /* an outcome of the last moment is under way */

void site_orders_init(struct site_orders *orders)
{
    *orders = (struct site_orders){ .budget = SITE_BUDGET_DEFAULT };
}

void site_orders_fini(struct site_orders *orders)
{
    free(orders->order);
    *orders = (struct site_orders){ 0 };
}

size_t site_orders_bytes(const struct site_orders *orders)
{
    return orders->room * sizeof(*orders->order);
}

bool site_action_is_controllers(unsigned action)
{
    return action == ACTION_DRAIN || action == ACTION_UNDRAIN || action == ACTION_DOWN ||
           action == ACTION_ALERT;
}

/* ---- facts ---- */

void site_orders_request(struct site_orders *orders, const struct request *request)
{
    if ((request->kind == REQUEST_INSPECT || request->kind == REQUEST_VERIFY) &&
        orders->requests < SITE_REQUESTS)
        orders->request[orders->requests++] = *request;
}

void site_orders_outcome(struct site_orders *orders, const struct outcome *outcome)
{
    char part[FACT_NAME];

    for (size_t i = 0; i < orders->count; i++) {
        struct site_order *order = &orders->order[i];

        if (site_action_is_controllers(order->decision.action))
            snprintf(part, sizeof(part), SITE_CONTROLLER);
        else
            snprintf(part, sizeof(part), "node %.*s", SITE_ORDER_NODE, order->decision.node[0]);
        if (strcmp(order->decision.id, outcome->decision) != 0 || order->ended ||
            strcmp(outcome->part, part) != 0)
            continue;
        order->begun = true;
        order->ended = outcome->ended_real_ns != 0;
        order->outcome = *outcome;
    }
}

void site_orders_budget(struct site_orders *orders, double inspections)
{
    orders->budget = inspections;
}

/* The oldest one that is over makes room; checks first, because budgets count the others. */
static bool orders_make_room(struct site_orders *orders)
{
    if (orders->count < SITE_ORDERS)
        return true;
    for (size_t i = 0; i < 2 * orders->count; i++) {
        size_t at = i % orders->count;
        const struct site_order *order = &orders->order[at];

        if ((!order->ended && order->decision.state == DECISION_ORDERED) ||
            (i < orders->count && order->decision.action != ACTION_VERIFY))
            continue;
        memmove(&orders->order[at], &orders->order[at + 1],
                (orders->count - at - 1) * sizeof(orders->order[0]));
        orders->count--;
        return true;
    }
    return false;
}

static int orders_keep(struct site_orders *orders, const struct decision *decision)
{
    struct site_order *order;

    if (!orders_make_room(orders))
        return 0; /* only one that was not ordered */
    if (!ARRAY_FIT(orders->order, orders->room, orders->count + 1))
        return -ENOMEM;
    order = &orders->order[orders->count++];
    *order = (struct site_order){ .decision = *decision };
    if (decision->state == DECISION_ORDERED)
        order->number = ++orders->numbers;
    return 0;
}

int site_orders_carry(struct site_orders *orders, const struct decision *decision)
{
    return orders_keep(orders, decision);
}

int site_orders_put(struct site_orders *orders, const struct decision *decision)
{
    return orders_keep(orders, decision);
}

/* ---- decisions ---- */

bool site_order_is_open(const struct site_order *order, int64_t real_ns)
{
    return order->number && order->decision.state == DECISION_ORDERED && !order->begun &&
           real_ns <= order->decision.deadline_real_ns;
}

const struct site_order *site_orders_open_of(const struct site_orders *orders, const char *node)
{
    for (size_t i = 0; i < orders->count; i++) {
        const struct site_order *order = &orders->order[i];

        if (order->decision.state == DECISION_ORDERED && !order->ended &&
            !site_action_is_controllers(order->decision.action) &&
            strcmp(order->decision.node[0], node) == 0)
            return order;
    }
    return NULL;
}

/* Also those of another clock: what was decided in the future was decided in the last hour. */
static size_t orders_in_an_hour(const struct site_orders *orders, int64_t real_ns)
{
    size_t count = 0;

    for (size_t i = 0; i < orders->count; i++)
        count += orders->order[i].number && orders->order[i].decision.action == ACTION_INSPECT &&
                 real_ns - orders->order[i].decision.decided_real_ns < HOUR_NS;
    return count;
}

/* Why it is not ordered; "": it is. */
static void orders_refusal(const struct site_orders *orders, const struct decision *decision,
                           bool known, char *ret, size_t room)
{
    const struct site_order *open = site_orders_open_of(orders, decision->node[0]);

    ret[0] = '\0';
    if (!known)
        snprintf(ret, room, "node '%s' has sent nothing with a token of its own",
                 decision->node[0]);
    else if (strlen(decision->node[0]) > SITE_ORDER_NODE)
        snprintf(ret, room, "orders need a node name of at most %d characters", SITE_ORDER_NODE);
    else if (open)
        snprintf(ret, room, "order %s of this node is open", open->decision.id);
    else if (decision->action == ACTION_INSPECT &&
             (double)orders_in_an_hour(orders, decision->decided_real_ns) >= orders->budget)
        snprintf(ret, room, "the budget is used up: %g inspections in an hour", orders->budget);
}

static int orders_decide(struct site_orders *orders, const struct request *request, bool known,
                         int64_t real_ns, site_orders_emit *emit, void *arg)
{
    bool verify = request->kind == REQUEST_VERIFY;
    struct decision decision = { .action = verify ? ACTION_VERIFY : ACTION_INSPECT,
                                 .state = DECISION_ORDERED,
                                 .target = TARGET_NODES,
                                 .node_count = 1,
                                 .step = DECISION_NO_STEP,
                                 .argument = request->argument,
                                 .decided_real_ns = real_ns,
                                 .deadline_real_ns =
                                     real_ns + (verify ? SITE_VERIFY_NS : SITE_ORDER_NS) };
    int result;

    memcpy(decision.of, request->id, sizeof(decision.of));
    snprintf(decision.node[0], sizeof(decision.node[0]), "%.63s", request->text);
    orders_refusal(orders, &decision, known, decision.why, sizeof(decision.why));
    if (!decision.why[0] && !orders_make_room(orders))
        snprintf(decision.why, sizeof(decision.why), "%d orders are open", SITE_ORDERS);
    if (decision.why[0])
        decision.state = DECISION_EXPIRED;
    else
        snprintf(decision.why, sizeof(decision.why), "requested by %.60s", request->who);
    decision_identify(&decision, "site");
    result = orders_keep(orders, &decision);
    if (result == 0)
        emit(arg, &decision);
    return result;
}

/* What the controller itself has begun, it looks at when it is back, however late: the node may be out by it. */
static bool order_is_late(const struct site_order *order, int64_t real_ns)
{
    if (order->begun && site_action_is_controllers(order->decision.action))
        return false;
    return order->decision.state == DECISION_ORDERED && !order->ended &&
           real_ns > order->decision.deadline_real_ns + LATE_NS;
}

static void orders_expire(struct site_orders *orders, int64_t real_ns, site_orders_emit *emit,
                          void *arg)
{
    for (size_t i = 0; i < orders->count; i++) {
        struct site_order *order = &orders->order[i];

        if (!order_is_late(order, real_ns))
            continue;
        order->decision.state = DECISION_EXPIRED;
        snprintf(order->decision.why, sizeof(order->decision.why), "%s",
                 order->begun ? "it began, and no end was reported before the deadline"
                              : "no executor began it before the deadline");
        emit(arg, &order->decision);
    }
}

int site_orders_tick(struct site_orders *orders, int64_t real_ns,
                     bool (*is_known)(const void *arg, const char *node), const void *known_arg,
                     site_orders_emit *emit, void *arg)
{
    int result = 0;

    orders_expire(orders, real_ns, emit, arg);
    for (size_t i = 0; i < orders->requests && result == 0; i++)
        result = orders_decide(orders, &orders->request[i],
                               is_known(known_arg, orders->request[i].text), real_ns, emit, arg);
    orders->requests = 0;
    return result;
}

bool site_orders_are_due(const struct site_orders *orders, int64_t real_ns)
{
    for (size_t i = 0; i < orders->count; i++) {
        if (order_is_late(&orders->order[i], real_ns))
            return true;
    }
    return orders->requests > 0;
}

bool site_orders_wait(const struct site_orders *orders, const char *request)
{
    for (size_t i = 0; i < orders->requests; i++) {
        if (strcmp(orders->request[i].id, request) == 0)
            return true;
    }
    return false;
}
