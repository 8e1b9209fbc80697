/* site_core.c - keeps findings and checks by node, and judges what state a node is in.
 *
 * A node is ok only if some check says so and none says otherwise.  Without a valid check it is unknown, however quiet it
 * is.  A fatal finding makes it failed until a later check is ok; an error makes it limited for an hour, or until such
 * a check.  A mere look at the node (the stage "inspect") answers no finding: it tests nothing.  Findings about programs, and lines that a program wrote, say nothing about the node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/site_core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/nodes/node_freshness.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"

#define ERROR_COUNTS_NS (3600 * NS_PER_S)
#define ALL_NS (60 * NS_PER_S) /* so often all nodes are judged: results become old */

#define LIFE_STEPS 4 /* that a node may go in one tick, each written */

struct site_core {
    struct site_node **node;
    size_t nodes, node_room;
    struct map by_name;      /* the first of a hash; names that share one are searched for */
    struct finding *finding; /* a ring, as soon as it is full */
    size_t finding_room;
    uint64_t findings; /* that ever came: the newest is at (findings - 1) % SITE_FINDINGS */
    int64_t
        all_real_ns; /* when all nodes were judged; the monotonic clock begins again after a boot */
    bool dirty;
    struct site_orders orders;
    struct site_limits limits;
    struct finding_counts counts;
};

int site_core_create(struct site_core **ret)
{
    struct site_core *core = calloc(1, sizeof(*core));

    if (!core)
        return -ENOMEM;
    site_orders_init(&core->orders);
    core->limits = (struct site_limits){ .drains = SITE_DRAINS_DEFAULT,
                                         .share = SITE_SHARE_DEFAULT,
                                         .verify_stage = node_stage_rank("deep") };
    *ret = core;
    return 0;
}

void site_core_destroy(struct site_core *core)
{
    if (!core)
        return;
    for (size_t i = 0; i < core->nodes; i++) {
        free(core->node[i]->check);
        node_owners_fini(&core->node[i]->owners);
        free(core->node[i]);
    }
    free(core->node);
    free(core->finding);
    finding_counts_fini(&core->counts);
    site_orders_fini(&core->orders);
    map_fini(&core->by_name);
    free(core);
}

size_t site_core_bytes(const struct site_core *core)
{
    size_t bytes = sizeof(*core) + core->node_room * sizeof(*core->node) +
                   map_bytes(&core->by_name) + core->finding_room * sizeof(*core->finding) +
                   site_orders_bytes(&core->orders) + finding_counts_bytes(&core->counts);

    for (size_t i = 0; i < core->nodes; i++)
        bytes += sizeof(**core->node) + core->node[i]->check_room * sizeof(struct check) +
                 node_owners_bytes(&core->node[i]->owners);
    return bytes;
}

uint64_t site_core_findings(const struct site_core *core)
{
    return core->findings;
}

const struct finding *site_core_finding(const struct site_core *core, uint64_t ordinal)
{
    if (ordinal >= core->findings || core->findings - ordinal > SITE_FINDINGS)
        return NULL;
    return &core->finding[ordinal % SITE_FINDINGS];
}

const struct finding_counts *site_core_counts(const struct site_core *core)
{
    return &core->counts;
}

const struct site_orders *site_core_orders(const struct site_core *core)
{
    return &core->orders;
}

const struct site_limits *site_core_limits(const struct site_core *core)
{
    return &core->limits;
}

size_t site_core_nodes(const struct site_core *core)
{
    return core->nodes;
}

const struct site_node *site_core_node(const struct site_core *core, size_t at)
{
    return at < core->nodes ? core->node[at] : NULL;
}

static uint64_t site_name_key(const char *name)
{
    return hash64(0, name, strlen(name));
}

static struct site_node *site_node_find(const struct site_core *core, const char *name)
{
    const uint64_t *at = map_get(&core->by_name, site_name_key(name));

    if (!at || strcmp(core->node[*at]->name, name) == 0)
        return at ? core->node[*at] : NULL;
    for (size_t i = 0; i < core->nodes; i++) {
        if (strcmp(core->node[i]->name, name) == 0)
            return core->node[i];
    }
    return NULL;
}

const struct site_node *site_core_find(const struct site_core *core, const char *node)
{
    return site_node_find(core, node);
}

static int site_node_get(struct site_core *core, const char *name, struct site_node **ret)
{
    CLEAN(free_clean) struct site_node *made = NULL;
    struct site_node *node = site_node_find(core, name);

    if (!node) {
        if (core->nodes == SITE_NODES)
            return -E2BIG;
        made = calloc(1, sizeof(*made));
        if (!made || !ARRAY_FIT(core->node, core->node_room, core->nodes + 1) ||
            !map_put(&core->by_name, site_name_key(name), core->nodes))
            return -ENOMEM;
        snprintf(made->name, sizeof(made->name), "%s", name);
        node = core->node[core->nodes++] = TAKE(made);
    }
    *ret = node;
    return 0;
}

static void site_node_seen_at(struct site_core *core, struct site_node *node, int64_t real_ns)
{
    node->newest_real_ns = MAX(node->newest_real_ns, real_ns);
    node->dirty = core->dirty = true;
}

/* ---- facts ---- */

static bool site_finding_is_of_node(const struct finding *finding)
{
    return finding->severity >= FINDING_ERROR && finding->class != FINDING_CLASS_APP &&
           finding->origin != FINDING_FROM_USER && !finding_is_of_image(finding);
}

static int site_feed_finding(struct site_core *core, struct reader in, bool carried)
{
    struct finding finding;
    struct site_node *node;
    int result = finding_get(in, &finding);

    if (result == 0)
        result = site_node_get(core, finding.node, &node);
    if (result < 0)
        return result;
    if (!carried &&
        !ARRAY_FIT(core->finding, core->finding_room, MIN(core->findings + 1, SITE_FINDINGS)))
        return -ENOMEM;
    if (!carried)
        core->finding[core->findings++ % SITE_FINDINGS] = finding;
    finding_counts_add(&core->counts, &finding);
    if (site_finding_is_of_node(&finding) && finding.severity >= node->worst.severity)
        node->worst = finding;
    site_node_seen_at(core, node, finding.real_ns);
    return 0;
}

/* A whole stage replaces what earlier checks of it, or of a smaller one, found. */
static void site_checks_replaced(struct site_node *node, const struct check *all)
{
    int64_t began_ns = all->real_ns - (int64_t)(MIN(all->seconds, 1e6) * 1e9) - NS_PER_S;
    unsigned rank = node_stage_rank(all->stage);
    size_t kept = 0;

    if (!rank || strcmp(all->name, CHECK_NAME_ALL) != 0)
        return;
    for (size_t i = 0; i < node->checks; i++) {
        unsigned before = node_stage_rank(node->check[i].stage);

        if (!before || before > rank || node->check[i].real_ns >= began_ns)
            node->check[kept++] = node->check[i];
    }
    node->checks = kept;
}

/* A good result makes room before a bad one, then the oldest. */
static bool site_check_goes_before(const struct check *check, const struct check *other)
{
    bool ok = check->state == CHECK_OK, other_ok = other->state == CHECK_OK;

    return ok != other_ok ? ok : check->real_ns < other->real_ns;
}

static struct check *site_check_place(struct site_node *node, const struct check *check)
{
    struct check *oldest = node->check;

    for (size_t i = 0; i < node->checks; i++) {
        struct check *at = &node->check[i];

        if (strcmp(at->name, check->name) == 0 && strcmp(at->stage, check->stage) == 0 &&
            strcmp(at->device, check->device) == 0)
            return at;
        if (site_check_goes_before(at, oldest))
            oldest = at;
    }
    if (node->checks == SITE_NODE_CHECKS)
        return oldest;
    if (!ARRAY_FIT(node->check, node->check_room, node->checks + 1))
        return NULL;
    return &node->check[node->checks++];
}

static int site_feed_check(struct site_core *core, struct reader in)
{
    struct check check, *place;
    struct site_node *node;
    int result = check_get(in, &check);

    if (result == 0)
        result = site_node_get(core, check.node, &node);
    if (result < 0)
        return result;
    site_checks_replaced(node, &check);
    place = site_check_place(node, &check);
    if (!place)
        return -ENOMEM;
    *place = check;
    if (check.state == CHECK_OK && check.real_ns > node->worst.real_ns &&
        strcmp(check.stage, CHECK_STAGE_INSPECT) != 0)
        node->worst = (struct finding){ 0 };
    node_lives_check(node, &check);
    node_freshness_check(node, &check);
    site_node_seen_at(core, node, check.real_ns);
    return 0;
}

static int site_feed_hello(struct site_core *core, struct reader in)
{
    struct fact_hello hello;
    struct site_node *node;
    int result = fact_hello_get(in, &hello);

    if (result == 0 && !hello.node[0])
        result = -EPROTO;
    if (result == 0)
        result = site_node_get(core, hello.node, &node);
    if (result < 0)
        return result;
    memcpy(node->version, hello.version, sizeof(node->version));
    site_node_seen_at(core, node, hello.real_ns);
    return 0;
}

static int site_feed_environment(struct site_core *core, struct reader in)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    struct site_node *node;
    int result = environment_get(in, &environment);

    if (result == 0)
        result = site_node_get(core, environment.node, &node);
    if (result < 0)
        return result;
    node->served |= environment.count > 1 && strcmp(environment.pair[1].name, NODE_OWNS_RUN) == 0;
    node->dirty = core->dirty = true;
    return node_owners_take(&node->owners, &environment);
}

static int site_feed_outcome(struct site_core *core, struct reader in)
{
    struct outcome outcome;
    int result = outcome_get(in, &outcome);

    if (result == 0)
        site_orders_outcome(&core->orders, &outcome);
    return result;
}

/* Only a former log has decisions as facts. */
static int site_feed_decision(struct site_core *core, struct reader in, bool carried)
{
    struct decision decision;
    struct site_node *node;
    int result = carried ? decision_get(in, &decision) : -EPROTO;

    if (result < 0)
        return result;
    node = site_node_find(core, decision.node[0]);
    if (node)
        node_freshness_ordered(node, &decision);
    return site_orders_carry(&core->orders, &decision);
}

/* The same of lives. */
static int site_feed_life(struct site_core *core, struct reader in, bool carried)
{
    struct site_node *node;
    struct node_life life;
    int result = carried ? node_life_get(in, &life) : -EPROTO;

    if (result == 0)
        result = site_node_get(core, life.node, &node);
    if (result == 0)
        node_lives_carry(node, &life);
    return result;
}

static int site_feed(struct site_core *core, const struct frame *frame, bool carried)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);

    switch (frame->type) {
    case FRAME_FINDING:
        return site_feed_finding(core, in, carried);
    case FRAME_CHECK:
        return site_feed_check(core, in);
    case FRAME_ENVIRONMENT:
        return site_feed_environment(core, in);
    case FRAME_OUTCOME:
        return site_feed_outcome(core, in);
    case FRAME_DECISION:
        return site_feed_decision(core, in, carried);
    case FRAME_NODE_LIFE:
        return site_feed_life(core, in, carried);
    case FRAME_HELLO:
        return site_feed_hello(core, in);
    default:
        return 0;
    }
}

int site_core_feed(struct site_core *core, const struct frame *frame)
{
    return site_feed(core, frame, false);
}

int site_core_carry(struct site_core *core, const struct frame *frame)
{
    return site_feed(core, frame, true);
}

static void site_ask_request(struct site_core *core, const struct request *request)
{
    struct site_node *node = site_node_find(core, request->text);

    if (request->kind == REQUEST_INSPECT)
        site_orders_request(&core->orders, request);
    if (request->kind == REQUEST_VERIFY &&
        VERIFY_STAGE_OF(request->argument) == request->argument) {
        struct request verify = *request;

        if (node && (node->life.state == NODE_OUT || node->life.state == NODE_VERIFIED))
            verify.argument |= VERIFY_NODE_IS_OUT;
        site_orders_request(&core->orders, &verify);
    }
    if (node && (request->kind == REQUEST_NODE_OUT || request->kind == REQUEST_NODE_IN)) {
        node_lives_request(node, request);
        node->dirty = core->dirty = true;
    }
}

static void site_ask_setting(struct site_core *core, const struct fact_setting *setting)
{
    if (strcmp(setting->name, SITE_BUDGET) == 0)
        site_orders_budget(&core->orders, setting->value);
    else if (strcmp(setting->name, SITE_MODE) == 0)
        core->limits.mode = setting->value > 0 && setting->value < POLICY_MODE_COUNT
                                ? (uint8_t)setting->value
                                : POLICY_OFF;
    else
        site_limits_set(&core->limits, setting->name, setting->value);
    core->all_real_ns = 0; /* all nodes are judged by it */
}

/* A run says itself on which nodes its ranks are; it may name only those on which root's daemon has seen it. */
static void site_ask_verdict(struct site_core *core, const struct verdict *verdict)
{
    for (uint32_t i = 0; i < MIN(verdict->node_count, VERDICT_NODES); i++) {
        struct site_node *node = site_node_find(core, verdict->node[i]);

        if (!node || !node_owners_has_run(&node->owners, verdict->run))
            continue;
        node_lives_verdict(node, verdict);
        node->dirty = core->dirty = true;
    }
}

/* Of what the controller did itself. */
static void site_ask_outcome(struct site_core *core, const struct outcome *outcome)
{
    site_orders_outcome(&core->orders, outcome);
    for (size_t i = 0; i < core->orders.count; i++) {
        const struct decision *decision = &core->orders.order[i].decision;
        struct site_node *node = strcmp(decision->id, outcome->decision) == 0
                                     ? site_node_find(core, decision->node[0])
                                     : NULL;

        if (node)
            node->dirty = core->dirty = true;
    }
}

void site_core_ask(struct site_core *core, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_setting setting;
    struct request request;
    struct outcome outcome;
    struct verdict verdict;

    if (frame->type == FRAME_REQUEST && request_get(in, &request) == 0)
        site_ask_request(core, &request);
    else if (frame->type == FRAME_SETTING && fact_setting_get(in, &setting) == 0)
        site_ask_setting(core, &setting);
    else if (frame->type == FRAME_VERDICT && verdict_get(in, &verdict) == 0)
        site_ask_verdict(core, &verdict);
    else if (frame->type == FRAME_OUTCOME && outcome_get(in, &outcome) == 0 &&
             strcmp(outcome.part, SITE_CONTROLLER) == 0)
        site_ask_outcome(core, &outcome);
}

/* "node n1" */
static const char *site_part_node(const struct outcome *outcome)
{
    return strncmp(outcome->part, "node ", 5) == 0 ? outcome->part + 5 : NULL;
}

bool site_core_node_of(const struct frame *frame, char ret[static FACT_NAME])
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    CLEAN(environment_fini) struct environment environment = { 0 };
    struct finding finding;
    struct check check;
    struct outcome outcome;
    struct fact_hello hello;
    const char *node = NULL;

    if (frame->type == FRAME_FINDING && finding_get(in, &finding) == 0)
        node = finding.node;
    else if (frame->type == FRAME_CHECK && check_get(in, &check) == 0)
        node = check.node;
    else if (frame->type == FRAME_OUTCOME && outcome_get(in, &outcome) == 0)
        node = site_part_node(&outcome);
    else if (frame->type == FRAME_ENVIRONMENT && environment_get(in, &environment) == 0)
        node = environment.node;
    else if (frame->type == FRAME_HELLO && fact_hello_get(in, &hello) == 0)
        node = hello.node;
    if (node)
        snprintf(ret, FACT_NAME, "%s", node);
    return node;
}

/* ---- states ---- */

struct judged {
    uint8_t state;
    char why[200];
};

static void judged_set(struct judged *judged, uint8_t state, const char *what, const char *of)
{
    judged->state = state;
    snprintf(judged->why, sizeof(judged->why), "%s%s%s", what, of[0] ? ": " : "", of);
}

/* How bad: a result that is not known is worse than a good one, and a known fault is worse still. */
static unsigned site_rank_of(uint8_t state)
{
    static const unsigned char worse[CHECK_STATE_COUNT] = {
        [CHECK_OK] = 0, [CHECK_UNKNOWN] = 1, [CHECK_LIMITED] = 2, [CHECK_FAILED] = 3
    };

    return worse[state];
}

static void site_judge_checks(const struct site_node *node, int64_t now_ns, struct judged *judged)
{
    bool any = false;

    judged_set(judged, CHECK_OK, "", "");
    for (size_t i = 0; i < node->checks; i++) {
        const struct check *check = &node->check[i];
        char what[2 * FACT_NAME + 16];

        if (now_ns - check->real_ns > NODE_CHECK_VALID_NS)
            continue;
        any = true;
        snprintf(what, sizeof(what), "check %s%s%s", check->name, check->device[0] ? " of " : "",
                 check->device);
        if (site_rank_of(check->state) > site_rank_of(judged->state))
            judged_set(judged, check->state, what, check->why);
    }
    if (!any)
        judged_set(judged, CHECK_UNKNOWN, "no health check in the last 24 hours", "");
}

static void site_judge_node(const struct site_node *node, int64_t now_ns, struct judged *judged)
{
    const struct finding *worst = &node->worst;

    site_judge_checks(node, now_ns, judged);
    if (!worst->id[0])
        return;
    if (worst->severity == FINDING_FATAL)
        judged_set(judged, CHECK_FAILED, finding_kind_name(worst->kind), worst->text);
    else if (site_rank_of(judged->state) < site_rank_of(CHECK_LIMITED) &&
             now_ns - worst->real_ns <= ERROR_COUNTS_NS)
        judged_set(judged, CHECK_LIMITED, finding_kind_name(worst->kind), worst->text);
}

static void site_life_emit(const struct site_node *node, site_core_emit *emit, void *arg)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    node_life_put(&payload, &node->life);
    emit(arg, FRAME_NODE_LIFE, &payload);
}

static void site_node_emit(struct site_node *node, const struct judged *judged,
                           const struct fact_tick *now, site_core_emit *emit, void *arg)
{
    struct check check = { .mono_ns = now->mono_ns,
                           .real_ns = now->real_ns,
                           .state = judged->state,
                           .stage = SITE_CHECK_STAGE,
                           .name = SITE_CHECK_NAME };
    CLEAN(buf_fini) struct buf payload = { 0 };

    if (node->state != judged->state)
        node->since_real_ns = now->real_ns;
    node->state = judged->state;
    memcpy(node->why, judged->why, sizeof(node->why));
    memcpy(check.node, node->name, sizeof(check.node));
    memcpy(check.why, judged->why, sizeof(check.why));
    check_put(&payload, &check);
    emit(arg, FRAME_CHECK, &payload);
}

static bool judged_is_new(const struct site_node *node, const struct judged *judged)
{
    return judged->state != node->state || strcmp(judged->why, node->why) != 0;
}

bool site_core_is_due(const struct site_core *core, int64_t real_ns)
{
    for (size_t i = 0; i < core->nodes; i++) {
        struct judged judged = { 0 };

        site_judge_node(core->node[i], real_ns, &judged);
        if (judged_is_new(core->node[i], &judged) ||
            node_lives_is_due(core, core->node[i], real_ns))
            return true;
    }
    return site_orders_are_due(&core->orders, real_ns) || node_freshness_is_due(core, real_ns);
}

struct site_decision_sink {
    struct site_core *core;
    site_core_emit *emit;
    void *arg;
};

static void site_emit_decision(void *arg, const struct decision *decision)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct site_decision_sink *output = arg;
    struct site_node *node = site_node_find(output->core, decision->node[0]);

    if (node)
        node_freshness_ordered(node, decision);
    decision_put(&payload, decision);
    output->emit(output->arg, FRAME_DECISION, &payload);
}

static bool site_core_knows(const void *arg, const char *node)
{
    return site_core_find(arg, node) != NULL;
}

static struct lives_view site_lives_view(struct site_core *core, const struct fact_tick *now,
                                         struct site_decision_sink *output)
{
    struct lives_view view = { .core = core,
                               .orders = &core->orders,
                               .limits = &core->limits,
                               .nodes = core->nodes,
                               .real_ns = now->real_ns,
                               .emit = site_emit_decision,
                               .arg = output };

    for (size_t i = 0; i < core->nodes; i++)
        view.out += node_is_out_by_us(core->node[i]);
    return view;
}

int site_core_tick(struct site_core *core, const struct fact_tick *now, site_core_emit *emit,
                   void *arg)
{
    struct site_decision_sink output = { .core = core, .emit = emit, .arg = arg };
    struct lives_view view = site_lives_view(core, now, &output);
    int result;
    bool all = now->real_ns - core->all_real_ns >= ALL_NS || now->real_ns < core->all_real_ns;

    if (all)
        core->all_real_ns = now->real_ns;
    for (size_t i = 0; i < core->nodes && (all || core->dirty); i++) {
        struct site_node *node = core->node[i];
        struct judged judged = { 0 };

        if (!all && !node->dirty)
            continue;
        node->dirty = false;
        site_judge_node(node, now->real_ns, &judged);
        if (judged_is_new(node, &judged))
            site_node_emit(node, &judged, now, emit, arg);
        for (int step = 0; step < LIFE_STEPS && node_lives_tick(&view, node); step++)
            site_life_emit(node, emit, arg);
    }
    core->dirty = false;
    result = site_orders_tick(&core->orders, now->real_ns, site_core_knows, core,
                              site_emit_decision, &output);
    if (result == 0)
        node_freshness_tick(&view);
    return result < 0 ? result : view.result;
}
