/* node_lives.c - the transitions of a node, and the decisions to take it out and to give it back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/node_lives.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/nodes/node_evidence.h"
#include "control/nodes/site_core.h"
#include "core/clean.h"
#include "core/time.h"

#define DAY_NS (24 * 3600 * NS_PER_S)
#define HOUR_NS (3600 * NS_PER_S)
#define NAMING_APART_NS (20 * HOUR_NS) /* one bad day is one naming */
#define LEMON_NAMINGS 3
#define LEMON_SPAN_NS                                                                              \
    (7 *                                                                                           \
     DAY_NS) /* between the first and the last of them: over weeks, not in one bad week's night */
#define LEMON_FORGET_NS (56 * DAY_NS)
#define REFAULT_NS (14 * DAY_NS)  /* after it came back */
#define PASSES 2                  /* of the failed stage, before it may come back */
#define AGAIN_NS (600 * NS_PER_S) /* a drain that failed is tried again */
#define SITE_FAULT_NS (600 * NS_PER_S)
#define SITE_FAULT_SHARE 0.05

static const struct site_setting {
    const char *name;
    size_t offset;
    double least, most;
} site_settings[] = {
    { SITE_BUDGET_DRAINS, offsetof(struct site_limits, drains), 0, 1e9 },
    { SITE_BUDGET_SHARE, offsetof(struct site_limits, share), 0, 1 },
    { SITE_REPAIR, offsetof(struct site_limits, repair), 0, 3 },
    { SITE_VERIFY_AGE, offsetof(struct site_limits, verify_age), 0, 1e9 },
    { SITE_VERIFY_STAGE, offsetof(struct site_limits, verify_stage), 1, 4 },
    { SITE_VERIFY_AT_ONCE, offsetof(struct site_limits, verify_at_once), 0, 1e6 },
};

static const struct site_setting *lives_setting(const char *name)
{
    for (size_t i = 0; i < COUNT(site_settings); i++) {
        if (strcmp(site_settings[i].name, name) == 0)
            return &site_settings[i];
    }
    return NULL;
}

double *site_limits_find(struct site_limits *limits, const char *name)
{
    const struct site_setting *setting = lives_setting(name);

    return setting ? (double *)(void *)((char *)limits + setting->offset) : NULL;
}

void site_limits_set(struct site_limits *limits, const char *name, double value)
{
    const struct site_setting *setting = lives_setting(name);

    if (setting)
        *site_limits_find(limits, name) = MIN(MAX(value, setting->least), setting->most);
}

unsigned node_stage_rank(const char *stage)
{
    static const char *const stages[] = { "quick", "prolog", "deep", "burn" };

    for (unsigned i = 0; i < COUNT(stages); i++) {
        if (strcmp(stages[i], stage) == 0)
            return i + 1;
    }
    return 0;
}

bool node_is_out_by_us(const struct site_node *node)
{
    return (node->life.state == NODE_OUT || node->life.state == NODE_VERIFIED) &&
           node->life.reason[0];
}

/* ---- facts ---- */

/* While it is out, whole stages count: one that fails begins anew. */
void node_lives_check(struct site_node *node, const struct check *check)
{
    struct node_life *life = &node->life;
    unsigned rank = node_stage_rank(check->stage);

    node->checked |= rank && check->state == CHECK_OK;
    if ((life->state != NODE_OUT && life->state != NODE_VERIFIED) || !rank ||
        rank < node_stage_rank(life->stage) || strcmp(check->name, CHECK_NAME_ALL) != 0 ||
        check->real_ns <= life->since_real_ns || check->real_ns <= life->pass_real_ns)
        return;
    life->passes = check->state == CHECK_OK ? life->passes + 1 : 0;
    life->pass_real_ns = check->real_ns;
}

void node_lives_verdict(struct site_node *node, const struct verdict *verdict)
{
    struct node_verdict *place = &node->verdict[node->verdicts % NODE_VERDICTS];
    bool known = false;

    for (size_t i = 0; i < NODE_VERDICTS && !known; i++) {
        known = strcmp(node->verdict[i].id, verdict->id) == 0;
        if (known)
            place = &node->verdict[i];
    }
    node->verdicts += !known;
    *place = (struct node_verdict){ .kind = verdict->kind,
                                    .layer = verdict->layer,
                                    .confidence = verdict->confidence,
                                    .since_real_ns = verdict->since_real_ns,
                                    .news_real_ns =
                                        MAX(verdict->decided_real_ns, verdict->until_real_ns),
                                    .open = !verdict->until_real_ns };
    snprintf(place->id, sizeof(place->id), "%s", verdict->id);
    snprintf(place->cause, sizeof(place->cause), "%.63s", verdict->cause);
    snprintf(place->run, sizeof(place->run), "%.63s", verdict->run);
}

void node_lives_request(struct site_node *node, const struct request *request)
{
    node->asked = request->kind;
    node->asked_argument = request->argument;
    memcpy(node->asked_id, request->id, sizeof(node->asked_id));
    memcpy(node->asked_who, request->who, sizeof(node->asked_who));
}

void node_lives_carry(struct site_node *node, const struct node_life *life)
{
    node->life = *life;
    node->served = life->state == NODE_IN_SERVICE || life->before == NODE_IN_SERVICE;
    node->checked = life->state != NODE_NEW;
}

/* ---- transitions ---- */

static bool lives_move(struct site_node *node, const struct lives_view *view, unsigned state,
                       const char *why)
{
    struct node_life *life = &node->life;

    life->state = (uint8_t)state;
    life->since_real_ns = view->real_ns;
    snprintf(life->why, sizeof(life->why), "%s", why);
    return true;
}

static int64_t lives_naming(const struct node_life *life, uint32_t back)
{
    return life->naming_real_ns[(life->namings - 1 - back) % NODE_NAMINGS];
}

/* A user's word names no node for good. */
static void lives_name(struct node_life *life, const struct node_evidence *evidence, int64_t now_ns)
{
    uint32_t kept;

    if (!evidence->proven)
        return;
    life->refault |= strcmp(life->cause, evidence->cause) == 0 && life->back_real_ns &&
                     now_ns - life->back_real_ns < REFAULT_NS;
    snprintf(life->cause, sizeof(life->cause), "%s", evidence->cause);
    if (life->namings && now_ns - lives_naming(life, 0) < NAMING_APART_NS)
        return;
    life->naming_real_ns[life->namings++ % NODE_NAMINGS] = now_ns;
    kept = MIN(life->namings, NODE_NAMINGS);
    for (uint32_t i = LEMON_NAMINGS - 1; i < kept; i++) {
        int64_t first = lives_naming(life, i);

        life->lemon |= now_ns - first >= LEMON_SPAN_NS && now_ns - first <= LEMON_FORGET_NS;
    }
}

static bool lives_suspect(struct site_node *node, const struct lives_view *view,
                          const struct node_evidence *evidence)
{
    node->life.before = node->life.state;
    lives_name(&node->life, evidence, view->real_ns);
    return lives_move(node, view, NODE_SUSPECT, evidence->why);
}

/* ---- what became of orders ---- */

static const struct site_order *lives_newest_order(const struct site_orders *orders,
                                                   const struct site_node *node)
{
    for (size_t i = orders->count; i > 0; i--) {
        const struct site_order *order = &orders->order[i - 1];

        if (order->number && site_action_is_controllers(order->decision.action) &&
            strcmp(order->decision.node[0], node->name) == 0)
            return order;
    }
    return NULL;
}

static bool lives_apply_out(struct site_node *node, const struct lives_view *view,
                            const struct site_order *order)
{
    struct node_life *life = &node->life;
    bool ours = order->outcome.result == OUTCOME_DONE;
    char why[sizeof(life->why)];

    snprintf(life->reason, sizeof(life->reason), "%s", ours ? order->decision.why : "");
    snprintf(why, sizeof(why), "%.120s%s%.60s", ours ? order->decision.why : order->outcome.text,
             ours && order->outcome.text[0] ? "; " : "", ours ? order->outcome.text : "");
    life->passes = 0;
    life->pass_real_ns = view->real_ns;
    node->served = false;
    return lives_move(node, view, NODE_OUT, why);
}

static bool lives_apply_back(struct site_node *node, const struct lives_view *view,
                             const struct site_order *order)
{
    struct node_life *life = &node->life;

    life->back_real_ns = view->real_ns;
    life->reason[0] = life->stage[0] = '\0';
    life->before = 0;
    life->by_person = life->refault = false;
    if (life->lemon)
        life->namings = 0; /* stage deep has passed */
    life->lemon = false;
    node->served = false;
    node->worst = (struct finding){ 0 };
    return lives_move(node, view, NODE_BACK, order->outcome.text);
}

/* DONE, or NOT_EXECUTED: somebody else had taken it out already. */
static bool lives_apply(struct site_node *node, const struct lives_view *view)
{
    const struct site_order *order = lives_newest_order(view->orders, node);
    bool out = node->life.state == NODE_OUT || node->life.state == NODE_VERIFIED;

    if (!order || !order->ended || order->outcome.ended_real_ns <= node->life.since_real_ns)
        return false;
    if (order->decision.action == ACTION_UNDRAIN && order->outcome.result == OUTCOME_NOT_EXECUTED)
        return out && lives_apply_out(node, view, order); /* not ours any more */
    if (order->decision.action == ACTION_UNDRAIN)
        return out && order->outcome.result == OUTCOME_DONE && lives_apply_back(node, view, order);
    return !out &&
           (order->outcome.result == OUTCOME_DONE ||
            order->outcome.result == OUTCOME_NOT_EXECUTED) &&
           lives_apply_out(node, view, order);
}

/* ---- decisions ---- */

static bool lives_check_failed_lately(const struct site_node *node, const char *check,
                                      int64_t now_ns)
{
    for (size_t i = 0; i < node->checks; i++) {
        if (node->check[i].state == CHECK_FAILED && strcmp(node->check[i].name, check) == 0 &&
            now_ns - node->check[i].real_ns <= SITE_FAULT_NS)
            return true;
    }
    return false;
}

/* Many nodes that fail the same check at the same time: what they share is at fault. */
static size_t lives_failing(const struct site_core *core, const char *check, int64_t real_ns)
{
    size_t count = 0;

    for (size_t i = 0; i < site_core_nodes(core); i++)
        count += lives_check_failed_lately(site_core_node(core, i), check, real_ns);
    return count;
}

static bool lives_is_site_fault(const struct site_core *core, size_t failing)
{
    return failing > 1 && (double)failing > SITE_FAULT_SHARE * (double)site_core_nodes(core);
}

static bool lives_is_named(const char (*names)[FACT_NAME], size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return false;
}

size_t node_lives_site_faults(const struct site_core *core, int64_t real_ns, char (*ret)[FACT_NAME],
                              size_t room)
{
    char seen[64][FACT_NAME]; /* that were counted already */
    size_t count = 0, known = 0;

    for (size_t i = 0; i < site_core_nodes(core); i++) {
        const struct site_node *node = site_core_node(core, i);

        for (size_t k = 0; k < node->checks && count < room && known < COUNT(seen); k++) {
            const struct check *check = &node->check[k];

            if (check->state != CHECK_FAILED || real_ns - check->real_ns > SITE_FAULT_NS ||
                strcmp(check->name, CHECK_NAME_ALL) == 0 ||
                lives_is_named((const char(*)[FACT_NAME])seen, known, check->name))
                continue;
            memcpy(seen[known++], check->name, FACT_NAME);
            if (lives_is_site_fault(core, lives_failing(core, check->name, real_ns)))
                memcpy(ret[count++], check->name, FACT_NAME);
        }
    }
    return count;
}

static bool lives_takes_out(unsigned action)
{
    return action == ACTION_DRAIN || action == ACTION_DOWN;
}

/* What was refused, or was somebody else's doing, took no node out: a run that cries wolf does not use up the budget of the site. */
static bool lives_may_have_taken(const struct site_order *order)
{
    return order->number && lives_takes_out(order->decision.action) &&
           (!order->ended || order->outcome.result == OUTCOME_DONE ||
            order->outcome.result == OUTCOME_UNKNOWN);
}

static size_t lives_taken_in_an_hour(const struct lives_view *view)
{
    size_t count = 0;

    for (size_t i = 0; i < view->orders->count; i++) {
        const struct site_order *order = &view->orders->order[i];

        count += lives_may_have_taken(order) &&
                 view->real_ns - order->decision.decided_real_ns < HOUR_NS;
    }
    return count;
}

static size_t lives_being_taken(const struct lives_view *view)
{
    size_t count = 0;

    for (size_t i = 0; i < view->orders->count; i++)
        count += lives_takes_out(view->orders->order[i].decision.action) &&
                 view->orders->order[i].decision.state == DECISION_ORDERED &&
                 !view->orders->order[i].ended;
    return count;
}

static enum life_block lives_check_mode(const struct lives_view *view, char *why, size_t room)
{
    if (view->limits->mode == POLICY_OFF) {
        snprintf(why, room, "the kill switch is on");
        return LIFE_BLOCK_OFF;
    }
    if (view->limits->mode != POLICY_ACT) {
        snprintf(why, room, "--act was not given");
        return LIFE_BLOCK_DRY_RUN;
    }
    return LIFE_BLOCK_NONE;
}

static enum life_block lives_check_budgets(const struct lives_view *view,
                                           const struct node_evidence *evidence, char *why,
                                           size_t room)
{
    size_t failing =
        evidence->check[0] ? lives_failing(view->core, evidence->check, view->real_ns) : 0;
    size_t out = view->out + lives_being_taken(view), hour = lives_taken_in_an_hour(view);
    double share = view->limits->share * (double)view->nodes;

    if (lives_is_site_fault(view->core, failing)) {
        snprintf(why, room,
                 "%zu of %zu nodes failed check %.40s within 10 min: a fault of the site", failing,
                 view->nodes, evidence->check);
        return LIFE_BLOCK_SITE;
    }
    if ((double)hour >= view->limits->drains) {
        snprintf(why, room, "the budget is used up: %g drains in an hour", view->limits->drains);
        return LIFE_BLOCK_BUDGET;
    }
    if ((double)(out + 1) > MAX(share, 1)) {
        snprintf(why, room, "%zu of %zu nodes are out, the limit is %g %%", out, view->nodes,
                 100 * view->limits->share);
        return LIFE_BLOCK_SHARE;
    }
    return LIFE_BLOCK_NONE;
}

/* "job-4211", as `lockstep run` calls a run in Slurm; 0: another name.  Whose job it is the controller asks before it does anything. */
static int64_t lives_job(const struct site_node *node, const char *of)
{
    for (size_t i = 0; i < NODE_VERDICTS; i++) {
        uint32_t job = 0;

        if (strcmp(node->verdict[i].id, of) == 0 &&
            sscanf(node->verdict[i].run, "job-%9" SCNu32, &job) == 1)
            return job;
    }
    return 0;
}

/* "0000:3b:00" as a number: an order has no text.  -1: it is no such address. */
static int64_t lives_device(const char *device)
{
    unsigned domain, bus, slot;
    char colon;

    if (sscanf(device, "%8x:%2x:%2x%c", &domain, &bus, &slot, &colon) < 3 || domain > 0xffffffu ||
        slot > 31)
        return -1;
    return (int64_t)domain << 16 | bus << 8 | slot;
}

static int64_t lives_argument(const struct site_node *node, unsigned action, const char *of)
{
    return action == ACTION_DOWN        ? lives_job(node, of)
           : action == ACTION_RESET_GPU ? lives_device(node->worst.device)
                                        : 0;
}

static void lives_order(struct lives_view *view, const struct site_node *node, unsigned action,
                        const char *of, unsigned state, const char *why)
{
    struct decision decision = { .action = (uint8_t)action,
                                 .state = (uint8_t)state,
                                 .target = TARGET_NODES,
                                 .node_count = 1,
                                 .step = DECISION_NO_STEP,
                                 .argument = lives_argument(node, action, of),
                                 .decided_real_ns = view->real_ns };
    int result;

    if (state == DECISION_ORDERED)
        decision.deadline_real_ns = view->real_ns + SITE_ORDER_NS;
    snprintf(decision.of, sizeof(decision.of), "%s", of);
    memcpy(decision.node[0], node->name, sizeof(decision.node[0]));
    snprintf(decision.why, sizeof(decision.why), "%s", why);
    decision_identify(&decision, "site");
    result = site_orders_put(view->orders, &decision);
    if (result == 0)
        view->emit(view->arg, &decision);
    else
        view->result = result;
}

/* Written once for each cause and reason. */
static void lives_refuse(struct lives_view *view, struct site_node *node, unsigned action,
                         const char *of, enum life_block block, const char *text)
{
    if (node->block == block && strcmp(node->blocked_id, of) == 0)
        return;
    node->block = (uint8_t)block;
    snprintf(node->blocked_id, sizeof(node->blocked_id), "%s", of);
    lives_order(view, node, action, of, DECISION_DRY_RUN, text);
    if (block == LIFE_BLOCK_SITE)
        lives_order(view, node, ACTION_ALERT, of, DECISION_ORDERED, text);
}

static bool lives_may_order(const struct lives_view *view, const struct site_node *node,
                            unsigned action)
{
    const struct site_order *order = lives_newest_order(view->orders, node);

    if (!order)
        return true;
    if (action == ACTION_DOWN && order->decision.action == ACTION_DOWN &&
        view->real_ns - order->decision.decided_real_ns < HOUR_NS)
        return false; /* it was looked at */
    if (order->decision.state == DECISION_ORDERED && !order->ended)
        return false;
    return order->outcome.result == OUTCOME_DONE ||
           view->real_ns - order->decision.decided_real_ns >= AGAIN_NS;
}

static void lives_drain(struct lives_view *view, struct site_node *node,
                        const struct node_evidence *evidence)
{
    struct node_life *life = &node->life;
    char reason[NODE_REASON], why[100], text[sizeof(why) + sizeof(reason) + 8];
    enum life_block block = lives_check_mode(view, why, sizeof(why));
    unsigned action = evidence->dead ? ACTION_DOWN : ACTION_DRAIN;

    if (!lives_may_order(view, node, action))
        return;
    node_evidence_reason(evidence, reason);
    if (block == LIFE_BLOCK_NONE)
        block = lives_check_budgets(view, evidence, why, sizeof(why));
    if (block != LIFE_BLOCK_NONE) {
        snprintf(text, sizeof(text), "%s; %s", why, reason);
        lives_refuse(view, node, action, evidence->id, block, text);
        return;
    }
    snprintf(life->stage, sizeof(life->stage), "%s",
             life->lemon || life->refault           ? "deep"
             : node_stage_rank(evidence->stage) > 0 ? evidence->stage
                                                    : "prolog");
    life->by_person = false;
    node->block = LIFE_BLOCK_NONE;
    lives_order(view, node, action, evidence->id, DECISION_ORDERED, reason);
}

/* A node that failed again after it was verified needs a person, whatever its checks say. */
static void lives_undrain(struct lives_view *view, struct site_node *node, const char *of)
{
    char why[100], text[200];
    enum life_block block = lives_check_mode(view, why, sizeof(why));

    if (!node->life.reason[0] || !lives_may_order(view, node, ACTION_UNDRAIN))
        return;
    if (block == LIFE_BLOCK_NONE) {
        lives_order(view, node, ACTION_UNDRAIN, of, DECISION_ORDERED, node->life.reason);
        return;
    }
    snprintf(text, sizeof(text), "%s; %s", why, node->life.reason);
    lives_refuse(view, node, ACTION_UNDRAIN, of, block, text);
}

/* ---- repairs ---- */

static bool lives_is_repair(unsigned action)
{
    return action == ACTION_RESET_GPU || action == ACTION_REBOOT;
}

/* The newest order of a repair of this node because of that; NULL: none. */
static const struct site_order *lives_repair_of(const struct site_orders *orders,
                                                const struct site_node *node, const char *of)
{
    for (size_t i = orders->count; i > 0; i--) {
        const struct site_order *order = &orders->order[i - 1];

        if (order->number && lives_is_repair(order->decision.action) &&
            strcmp(order->decision.node[0], node->name) == 0 && strcmp(order->decision.of, of) == 0)
            return order;
    }
    return NULL;
}

/* Nothing was done, because it was in use or not allowed, and that was a while ago. */
static bool lives_may_repair_again(const struct site_order *order, int64_t real_ns)
{
    return order->ended && real_ns - order->decision.decided_real_ns >= AGAIN_NS &&
           (order->outcome.result == OUTCOME_REFUSED ||
            order->outcome.result == OUTCOME_NOT_EXECUTED);
}

static size_t lives_repaired_in_an_hour(const struct lives_view *view)
{
    size_t count = 0;

    for (size_t i = 0; i < view->orders->count; i++) {
        const struct decision *decision = &view->orders->order[i].decision;

        count += view->orders->order[i].number && lives_is_repair(decision->action) &&
                 view->real_ns - decision->decided_real_ns < HOUR_NS;
    }
    return count;
}

static enum life_block lives_check_repair(const struct lives_view *view,
                                          const struct site_node *node, char *why, size_t room)
{
    unsigned action = node->worst.action, bits = (unsigned)view->limits->repair;
    enum life_block block = lives_check_mode(view, why, room);

    if (block != LIFE_BLOCK_NONE)
        return block;
    if (!(bits & (action == ACTION_REBOOT ? SITE_REPAIR_REBOOT : SITE_REPAIR_RESET_GPU))) {
        snprintf(why, room, "--repair %s was not given", action_name(action));
        return LIFE_BLOCK_DRY_RUN;
    }
    if (action == ACTION_RESET_GPU && lives_device(node->worst.device) < 0) {
        snprintf(why, room, "which GPU it is, is not known");
        return LIFE_BLOCK_PAUSE;
    }
    if ((double)lives_repaired_in_an_hour(view) >= view->limits->drains) {
        snprintf(why, room, "the budget is used up: %g repairs in an hour", view->limits->drains);
        return LIFE_BLOCK_BUDGET;
    }
    return LIFE_BLOCK_NONE;
}

static bool lives_wants_repair(const struct site_orders *orders, const struct site_node *node,
                               int64_t real_ns)
{
    const struct finding *worst = &node->worst;
    const struct site_order *before = lives_repair_of(orders, node, worst->id);

    return node->life.state == NODE_OUT && worst->id[0] && lives_is_repair(worst->action) &&
           worst->origin != FINDING_FROM_USER && node_is_out_by_us(node) && !node->life.by_person &&
           !node->life.passes && !site_orders_open_of(orders, node->name) &&
           (!before || lives_may_repair_again(before, real_ns));
}

/* What the finding that took it out calls for: once for each finding.  Its checks say afterwards whether it helped. */
static void lives_repair(struct lives_view *view, struct site_node *node)
{
    const struct finding *worst = &node->worst;
    char why[100], text[200];
    enum life_block block;

    if (!lives_wants_repair(view->orders, node, view->real_ns))
        return;
    block = lives_check_repair(view, node, why, sizeof(why));
    snprintf(text, sizeof(text), "%s%s%.80s%s%.40s: %.60s", block == LIFE_BLOCK_NONE ? "" : why,
             block == LIFE_BLOCK_NONE ? "" : "; ", finding_kind_name(worst->kind),
             worst->device[0] ? " of " : "", worst->device, worst->text);
    if (block == LIFE_BLOCK_NONE)
        lives_order(view, node, worst->action, worst->id, DECISION_ORDERED, text);
    else
        lives_refuse(view, node, worst->action, worst->id, block, text);
}

/* It is allowed now, or forbidden for another reason. */
static bool lives_repair_is_due(const struct site_core *core, const struct site_node *node,
                                int64_t real_ns)
{
    const struct site_orders *orders = site_core_orders(core);
    const struct lives_view view = { .core = core,
                                     .orders = (struct site_orders *)(uintptr_t)orders,
                                     .limits = site_core_limits(core),
                                     .real_ns = real_ns };
    enum life_block block;
    char why[100];

    if (!lives_wants_repair(orders, node, real_ns))
        return false;
    block = lives_check_repair(&view, node, why, sizeof(why));
    return block == LIFE_BLOCK_NONE || block != node->block;
}

/* ---- what a person asks for ---- */

static void lives_refuse_request(struct lives_view *view, struct site_node *node, unsigned action,
                                 const char *why)
{
    lives_order(view, node, action, node->asked_id, DECISION_EXPIRED, why);
}

static void lives_ask_out(struct lives_view *view, struct site_node *node)
{
    struct node_evidence evidence = { .kind = "maintenance" };
    char reason[NODE_REASON], why[100];

    snprintf(evidence.cause, sizeof(evidence.cause), "%s", node->asked_who);
    snprintf(evidence.id, sizeof(evidence.id), "%s", node->asked_id);
    node_evidence_reason(&evidence, reason);
    if (node_is_out_by_us(node)) {
        lives_refuse_request(view, node, ACTION_DRAIN, "it is out already");
    } else if (lives_check_mode(view, why, sizeof(why)) != LIFE_BLOCK_NONE) {
        lives_refuse_request(view, node, ACTION_DRAIN, why);
    } else {
        node->life.by_person = true;
        snprintf(node->life.stage, sizeof(node->life.stage), "quick");
        lives_order(view, node, ACTION_DRAIN, node->asked_id, DECISION_ORDERED, reason);
    }
}

static void lives_ask_in(struct lives_view *view, struct site_node *node)
{
    const struct node_life *life = &node->life;
    uint32_t least = life->by_person ? 1 : PASSES;
    char why[160];

    if (!node_is_out_by_us(node))
        lives_refuse_request(view, node, ACTION_UNDRAIN, "it is not out by lockstep's doing");
    else if (lives_check_mode(view, why, sizeof(why)) != LIFE_BLOCK_NONE)
        lives_refuse_request(view, node, ACTION_UNDRAIN, why);
    else if (life->passes < least) {
        snprintf(why, sizeof(why), "stage %s passed %u of %u times since it is out", life->stage,
                 life->passes, least);
        lives_refuse_request(view, node, ACTION_UNDRAIN, why);
    } else {
        lives_undrain(view, node, node->asked_id);
    }
}

static void lives_asked(struct lives_view *view, struct site_node *node)
{
    const struct site_order *order = lives_newest_order(view->orders, node);

    if (order && order->decision.state == DECISION_ORDERED && !order->ended)
        lives_refuse_request(view, node,
                             node->asked == REQUEST_NODE_OUT ? ACTION_DRAIN : ACTION_UNDRAIN,
                             "another order for this node is open");
    else if (node->asked == REQUEST_NODE_OUT)
        lives_ask_out(view, node);
    else
        lives_ask_in(view, node);
    node->asked = 0;
}

/* ---- one node, one tick ---- */

bool node_lives_is_due(const struct site_core *core, const struct site_node *node, int64_t real_ns)
{
    const struct site_order *order;
    struct node_evidence evidence;

    if (lives_repair_is_due(core, node, real_ns))
        return true;
    if (node->life.state != NODE_SUSPECT)
        return !node->life.state;
    order = lives_newest_order(site_core_orders(core), node);
    if (order && order->ended && order->outcome.result != OUTCOME_DONE)
        return real_ns - order->decision.decided_real_ns >= AGAIN_NS;
    node_evidence_of(core, node, real_ns, &evidence);
    return !evidence.any || node->block >= LIFE_BLOCK_SITE; /* a budget has room again, perhaps */
}

static bool lives_tick_usable(struct lives_view *view, struct site_node *node,
                              const struct node_evidence *evidence)
{
    struct node_life *life = &node->life;

    if (evidence->any)
        return lives_suspect(node, view, evidence);
    if (life->state == NODE_IN_SERVICE)
        return false;
    if (node->served)
        return lives_move(node, view, NODE_IN_SERVICE, "a user's run is on it");
    if (life->state == NODE_NEW && node->checked)
        return lives_move(node, view, NODE_CHECKED, "a health check passed");
    return false;
}

static bool lives_tick_suspect(struct lives_view *view, struct site_node *node,
                               struct node_evidence *evidence)
{
    struct node_life *life = &node->life;
    bool changed = false;

    if (!evidence->any)
        return lives_move(node, view, life->before ? life->before : NODE_NEW,
                          "the findings against it are over, or a check refuted them");
    if (strcmp(life->why, evidence->why) != 0) {
        lives_name(life, evidence, view->real_ns);
        snprintf(life->why, sizeof(life->why), "%s", evidence->why);
        changed = true;
    }
    if (evidence->proven && !evidence->strong && life->lemon) {
        evidence->strong = true;
        snprintf(evidence->kind, sizeof(evidence->kind), "lemon");
    }
    if (evidence->strong)
        lives_drain(view, node, evidence);
    return changed;
}

static bool lives_tick_out(struct lives_view *view, struct site_node *node)
{
    struct node_life *life = &node->life;
    char why[sizeof(life->why)];

    if (life->state == NODE_OUT)
        lives_repair(view, node);
    if (life->state == NODE_OUT && life->passes >= (life->by_person ? 1 : PASSES)) {
        snprintf(why, sizeof(why), "stage %s passed %u times since it is out%s", life->stage,
                 life->passes,
                 life->refault ? "; it failed again after an earlier return: a person decides"
                               : "");
        return lives_move(node, view, NODE_VERIFIED, why);
    }
    if (life->state == NODE_VERIFIED && !life->passes)
        return lives_move(node, view, NODE_OUT, "its checks failed again");
    if (life->state == NODE_VERIFIED && !life->by_person && !life->refault)
        lives_undrain(view, node, "");
    /* Somebody else took it out, and gave it back. */
    if (!life->reason[0] && node->served)
        return lives_move(node, view, NODE_IN_SERVICE, "a user's run is on it");
    return false;
}

bool node_lives_tick(struct lives_view *view, struct site_node *node)
{
    struct node_life *life = &node->life;
    struct node_evidence evidence;
    bool changed = false;

    if (!life->state) {
        memcpy(life->node, node->name, sizeof(life->node));
        return lives_move(node, view, NODE_NEW, "it has sent facts with its own token");
    }
    if (lives_apply(node, view))
        return true;
    if (node->asked)
        lives_asked(view, node);
    node_evidence_of(view->core, node, view->real_ns, &evidence);
    if (life->state == NODE_OUT || life->state == NODE_VERIFIED)
        changed |= lives_tick_out(view, node);
    else if (life->state == NODE_SUSPECT)
        changed |= lives_tick_suspect(view, node, &evidence);
    else
        changed |= lives_tick_usable(view, node, &evidence);
    return changed;
}
