/* site_orders.h - what is asked of nodes: requests, the decisions on them, their outcomes, and the budget.
 *
 * PURE, a part of the site's core.  A request is decided at the next tick: it is ordered, or it expires at once with the
 * reason.  An order that its node does not report the end of expires after its deadline.  A node has one open order; the
 * budget limits how many a site gives in an hour, and is itself a fact of the log.
 *
 * Only requests of the site's own people come in here, and only outcomes that the node's root daemon sent: nothing that a user
 * of a node could write leads to an order for root.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_NODES_SITE_ORDERS_H
#define LOCKSTEP_CONTROL_NODES_SITE_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/decision.h"

#define SITE_ORDERS 256                 /* newest decisions that are kept */
#define SITE_REQUESTS 64                /* that wait for a tick */
#define SITE_BUDGET "budget.inspect"    /* inspections in an hour, of all nodes */
#define SITE_BUDGET_DEFAULT 60          /* one a minute disturbs no site */
#define SITE_ORDER_NODE (FACT_NAME - 6) /* "node " and a name fit into the part of an outcome */
#define SITE_CONTROLLER "controller" /* the part of outcomes of what the controller does itself */
#define SITE_ORDER_NS (600 * INT64_C(1000000000)) /* from a decision to its deadline */
#define SITE_VERIFY_NS                                                                             \
    (3600 * INT64_C(1000000000)) /* the same of checks, which may wait for a job of the scheduler */

struct site_order {
    uint64_t number; /* from 1 on, in the order of the log; 0: it was never ordered */
    struct decision decision;
    bool begun, ended;      /* by the word of its executor, which is: */
    struct outcome outcome; /* the newest */
};

struct site_orders {
    struct site_order *order; /* oldest first */
    size_t count, room;
    uint64_t numbers; /* that were given */
    struct request request[SITE_REQUESTS];
    size_t requests;
    double budget;
};

/* Drain, undrain, down: the controller does them, for the scheduler; nodes do the others. */
bool site_action_is_controllers(unsigned action);

typedef void site_orders_emit(void *arg, const struct decision *decision);

void site_orders_init(struct site_orders *orders);
void site_orders_fini(struct site_orders *orders);
size_t site_orders_bytes(const struct site_orders *orders);

/* ---- facts ---- */
void site_orders_request(struct site_orders *orders, const struct request *request);
void site_orders_outcome(struct site_orders *orders, const struct outcome *outcome);
int site_orders_carry(struct site_orders *orders, const struct decision *decision); /* -ENOMEM */
void site_orders_budget(struct site_orders *orders, double inspections);

/* ---- decisions ---- */
/* One that a node itself carries out, and has not ended; NULL: none. */
const struct site_order *site_orders_open_of(const struct site_orders *orders, const char *node);
int site_orders_put(struct site_orders *orders, const struct decision *decision); /* -ENOMEM */
/* `is_known`: whether a node has ever sent something.  -ENOMEM: some decision is missing. */
int site_orders_tick(struct site_orders *orders, int64_t real_ns,
                     bool (*is_known)(const void *arg, const char *node), const void *known_arg,
                     site_orders_emit *emit, void *arg);
bool site_orders_are_due(const struct site_orders *orders, int64_t real_ns);

/* ---- questions ---- */
/* The order is to be given out: its node has not begun it, and it is in time. */
bool site_order_is_open(const struct site_order *order, int64_t real_ns);
bool site_orders_wait(const struct site_orders *orders, const char *request); /* not decided yet */

#endif
