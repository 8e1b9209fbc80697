/* node_lives.h - new, checked, in service, suspect, out, verified, back: where each node is, and what leads it on.
 *
 * PURE, a part of the site's core.  Evidence makes a node suspect.  What is proven by root's side takes it out: that is a decision for
 * the controller, within budgets, and the node is out when its outcome says so.  A node that is out comes back after the stage that failed
 * has passed twice; one that was named again and again over weeks (a lemon) only after stage deep, and one that failed again in the same way
 * after it came back (a refault) only when a person says so.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_NODES_NODE_LIVES_H
#define LOCKSTEP_CONTROL_NODES_NODE_LIVES_H

#include <stddef.h>
#include <stdint.h>

#include "control/nodes/site_orders.h"
#include "wire/finding.h"
#include "wire/node_life.h"
#include "wire/policy_table.h"

struct site_core;
struct site_node;

#define SITE_MODE "site.mode"              /* enum policy_mode */
#define SITE_BUDGET_DRAINS "budget.drains" /* nodes taken out in an hour */
#define SITE_BUDGET_SHARE "budget.share"   /* of all nodes that may be out by us */
#define SITE_VERIFY_AGE                                                                            \
    "verify.age" /* seconds that a whole check counts; 0: only nodes that are out */
#define SITE_VERIFY_STAGE "verify.stage"     /* 1 to 4 */
#define SITE_VERIFY_AT_ONCE "verify.at-once" /* nodes; 0: none at all */
#define SITE_REPAIR "repair"                 /* sum of: 1 reset-gpu, 2 reboot; 0: neither */
#define SITE_REPAIR_RESET_GPU 1
#define SITE_REPAIR_REBOOT 2
#define SITE_VERIFY_AT_ONCE_DEFAULT 4
#define SITE_DRAINS_DEFAULT 4
#define SITE_SHARE_DEFAULT 0.05

struct site_limits {
    uint8_t mode; /* enum policy_mode; 0: none came, a dry run */
    double drains, share;
    double verify_age, verify_stage, verify_at_once; /* node_freshness.h */
    double repair;
};

/* All but the mode, each in a range that it can be used with.  Without effect where no limit has this name. */
void site_limits_set(struct site_limits *limits, const char *name, double value);
double *site_limits_find(struct site_limits *limits, const char *name); /* NULL */

enum life_block { /* why a node is not taken out */
    LIFE_BLOCK_NONE,
    LIFE_BLOCK_OFF,
    LIFE_BLOCK_DRY_RUN,
    LIFE_BLOCK_SITE,
    LIFE_BLOCK_BUDGET,
    LIFE_BLOCK_SHARE,
    LIFE_BLOCK_PAUSE,
};

struct lives_view { /* of one tick */
    const struct site_core *core;
    struct site_orders *orders;
    const struct site_limits *limits;
    size_t nodes, out; /* out: by us */
    int64_t real_ns;
    site_orders_emit *emit;
    void *arg;
    int result;
};

/* Facts. */
void node_lives_check(struct site_node *node, const struct check *check);
void node_lives_verdict(struct site_node *node, const struct verdict *verdict);
void node_lives_request(struct site_node *node, const struct request *request);
void node_lives_carry(struct site_node *node, const struct node_life *life);

/* Names of checks that more than 5 % of the nodes, and at least two, failed within 10 minutes: what they share is at fault. */
size_t node_lives_site_faults(const struct site_core *core, int64_t real_ns, char (*ret)[FACT_NAME],
                              size_t room);

bool node_is_out_by_us(const struct site_node *node);
/* Stages by how much they test; 0: no stage that tests something. */
unsigned node_stage_rank(const char *stage);
/* Time alone may lead it on. */
bool node_lives_is_due(const struct site_core *core, const struct site_node *node, int64_t real_ns);
/* True: something changed, and is to be written. */
bool node_lives_tick(struct lives_view *view, struct site_node *node);

#endif
