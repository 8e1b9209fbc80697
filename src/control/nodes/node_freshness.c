/* node_freshness.c - at most one order every ten seconds, to the node that has waited longest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/node_freshness.h"

#include <stdio.h>
#include <string.h>

#include "control/nodes/site_core.h"
#include "core/clean.h"
#include "core/time.h"

#define EVERY_NS (10 * NS_PER_S)              /* the table of orders holds some hundred */
#define OUT_PAUSE_NS (600 * NS_PER_S)         /* between two checks of a node that is out */
#define PAUSE_NS (3600 * NS_PER_S)            /* of another one: a job was on it, perhaps */
#define SILENT_PAUSE_NS (6 * 3600 * NS_PER_S) /* of one whose daemon did not answer */
#define DAY_S 86400.0

struct freshness_wish {
    unsigned stage;
    bool out;
    char why[120];
};

/* ---- facts ---- */

void node_freshness_check(struct site_node *node, const struct check *check)
{
    unsigned rank = node_stage_rank(check->stage);

    if (strcmp(check->name, CHECK_NAME_ALL) != 0 || check->state == CHECK_UNKNOWN)
        return;
    for (unsigned i = 0; i < rank; i++) /* a stage does what those before it do */
        node->whole_real_ns[i] = MAX(node->whole_real_ns[i], check->real_ns);
}

void node_freshness_ordered(struct site_node *node, const struct decision *decision)
{
    if (decision->action != ACTION_VERIFY)
        return;
    if (decision->state == DECISION_ORDERED)
        node->verify_real_ns = decision->decided_real_ns;
    if (!decision->of[0]) /* a request may be refused as well */
        node->verify_expired = decision->state == DECISION_EXPIRED;
}

/* ---- which node ---- */

static bool freshness_wants_out(const struct site_node *node, struct freshness_wish *wish)
{
    const struct node_life *life = &node->life;

    if (life->state != NODE_OUT || life->by_person || !node_is_out_by_us(node))
        return false;
    wish->out = true;
    wish->stage = node_stage_rank(life->stage);
    if (!wish->stage)
        wish->stage = node_stage_rank("prolog");
    snprintf(wish->why, sizeof(wish->why), "it is out; stage %s passed %u times since", life->stage,
             life->passes);
    return true;
}

static bool freshness_wants_usable(const struct site_node *node, const struct site_limits *limits,
                                   int64_t real_ns, struct freshness_wish *wish)
{
    int64_t whole_ns = node->whole_real_ns[(unsigned)limits->verify_stage - 1];
    bool suspect = node->life.state == NODE_SUSPECT && whole_ns < node->life.since_real_ns;
    double age_s = (double)(real_ns - whole_ns) / 1e9;

    if (limits->verify_age <= 0 || node->life.state == NODE_OUT ||
        node->life.state == NODE_VERIFIED || !node->life.state)
        return false;
    if (!suspect && whole_ns && age_s < limits->verify_age)
        return false;
    wish->stage = (unsigned)limits->verify_stage;
    if (suspect)
        snprintf(wish->why, sizeof(wish->why), "it is suspect");
    else if (!whole_ns)
        snprintf(wish->why, sizeof(wish->why), "it never had a complete check");
    else
        snprintf(wish->why, sizeof(wish->why), "its last complete check was %.1f days ago",
                 age_s / DAY_S);
    return true;
}

static bool freshness_wants(const struct site_core *core, const struct site_node *node,
                            int64_t real_ns, struct freshness_wish *wish)
{
    int64_t since_ns = real_ns - node->verify_real_ns, pause_ns;

    *wish = (struct freshness_wish){ .stage = 0 };
    if (strlen(node->name) > SITE_ORDER_NODE ||
        (!freshness_wants_out(node, wish) &&
         !freshness_wants_usable(node, site_core_limits(core), real_ns, wish)))
        return false;
    pause_ns = node->verify_expired ? SILENT_PAUSE_NS : wish->out ? OUT_PAUSE_NS : PAUSE_NS;
    return !node->verify_real_ns || since_ns < 0 || since_ns >= pause_ns;
}

static bool freshness_has_room(const struct site_core *core, int64_t real_ns)
{
    const struct site_limits *limits = site_core_limits(core);
    const struct site_orders *orders = site_core_orders(core);
    unsigned open = 0;

    if (limits->verify_at_once < 1 || limits->mode == POLICY_OFF)
        return false;
    for (size_t i = 0; i < orders->count; i++) {
        const struct decision *decision = &orders->order[i].decision;

        if (decision->action != ACTION_VERIFY || decision->state != DECISION_ORDERED)
            continue;
        open += !orders->order[i].ended && real_ns <= decision->deadline_real_ns;
        if (real_ns - decision->decided_real_ns < EVERY_NS && real_ns >= decision->decided_real_ns)
            return false;
    }
    return open < (unsigned)limits->verify_at_once;
}

/* Those that are out go first: the site lacks them.  -1: none. */
static int64_t freshness_next(const struct site_core *core, int64_t real_ns,
                              struct freshness_wish *ret)
{
    int64_t next = -1, oldest_ns = 0;
    struct freshness_wish wish;

    if (!freshness_has_room(core, real_ns))
        return -1;
    for (size_t i = 0; i < site_core_nodes(core); i++) {
        const struct site_node *node = site_core_node(core, i);

        if (!freshness_wants(core, node, real_ns, &wish) ||
            (next >= 0 && (ret->out > wish.out ||
                           (ret->out == wish.out && oldest_ns <= node->verify_real_ns))) ||
            site_orders_open_of(site_core_orders(core), node->name))
            continue;
        next = (int64_t)i;
        oldest_ns = node->verify_real_ns;
        *ret = wish;
    }
    return next;
}

bool node_freshness_is_due(const struct site_core *core, int64_t real_ns)
{
    struct freshness_wish wish;

    return freshness_next(core, real_ns, &wish) >= 0;
}

void node_freshness_tick(struct lives_view *view)
{
    struct freshness_wish wish;
    int64_t next = freshness_next(view->core, view->real_ns, &wish);
    struct decision decision = { .action = ACTION_VERIFY,
                                 .state = DECISION_ORDERED,
                                 .target = TARGET_NODES,
                                 .node_count = 1,
                                 .step = DECISION_NO_STEP,
                                 .argument = wish.stage,
                                 .decided_real_ns = view->real_ns,
                                 .deadline_real_ns = view->real_ns + SITE_VERIFY_NS };
    int result;

    if (next < 0)
        return;
    if (wish.out)
        decision.argument |= VERIFY_NODE_IS_OUT;
    snprintf(decision.node[0], sizeof(decision.node[0]), "%s",
             site_core_node(view->core, (size_t)next)->name);
    snprintf(decision.why, sizeof(decision.why), "%s", wish.why);
    decision_identify(&decision, "site");
    result = site_orders_put(view->orders, &decision);
    if (result == 0)
        view->emit(view->arg, &decision);
    else
        view->result = result;
}
