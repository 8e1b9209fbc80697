/* api_nodes.c - the states of nodes, their findings and their checks, from the site's log; what is asked of them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/site/api/api_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "control/http/reply.h"
#include "core/clean.h"
#include "show/record_view.h"
#include "show/style.h"

#define FINDINGS_MAX 100

/* Where it is in its life; the controller remembers. */
static struct json_object *api_life_json(const struct site_node *node)
{
    const struct node_life *life = &node->life;
    struct json_object *root = json_object_new_object();

    json_object_object_add(
        root, "state",
        json_object_new_string(node_life_name(life->state ? life->state : NODE_NEW)));
    json_object_object_add(root, "since_time", show_time(life->since_real_ns));
    json_object_object_add(root, "why", show_string_or_null(life->why));
    json_object_object_add(root, "reason", show_string_or_null(life->reason));
    json_object_object_add(root, "lemon", json_object_new_boolean(life->lemon));
    json_object_object_add(root, "refault", json_object_new_boolean(life->refault));
    json_object_object_add(root, "maintenance",
                           json_object_new_boolean(life->by_person && life->reason[0]));
    json_object_object_add(root, "named", json_object_new_uint64(life->namings));
    json_object_object_add(root, "stage", show_string_or_null(life->stage));
    json_object_object_add(root, "passes", json_object_new_uint64(life->passes));
    return root;
}

static struct json_object *api_checks_json(const struct site_node *node)
{
    struct json_object *checks = json_object_new_array();

    for (size_t i = 0; i < node->checks; i++)
        json_object_array_add(checks, check_json(&node->check[i]));
    return checks;
}

static struct json_object *api_state_json(const struct site_node *node)
{
    struct json_object *root = json_object_new_object();

    json_object_object_add(root, "node", show_string(node->name));
    json_object_object_add(
        root, "state",
        json_object_new_string(check_state_name(node->state ? node->state : CHECK_UNKNOWN)));
    json_object_object_add(root, "why", show_string_or_null(node->why));
    json_object_object_add(root, "since_time", show_time(node->since_real_ns));
    json_object_object_add(root, "heard_time", show_time(node->newest_real_ns));
    json_object_object_add(root, "version", show_string_or_null(node->version));
    json_object_object_add(root, "life", api_life_json(node));
    return root;
}

/* Newest first. */
static struct json_object *api_findings_json(const struct site_core *core, const char *node)
{
    struct json_object *list = json_object_new_array();
    const struct finding *finding;

    for (uint64_t ordinal = site_core_findings(core);
         ordinal > 0 && (finding = site_core_finding(core, ordinal - 1)) &&
         json_object_array_length(list) < FINDINGS_MAX;
         ordinal--) {
        if (strcmp(finding->node, node) == 0)
            json_object_array_add(list, finding_json(finding));
    }
    return list;
}

static bool nodes_are_known(struct api_call *call)
{
    if (!call->site->nodes)
        reply_error(call->exchange, call->site->local ? 404 : 503, "%s",
                    call->site->local ? "this controller serves one run and has no log of nodes"
                                      : "the site's log cannot be used now; try again");
    return call->site->nodes;
}

static struct json_object *api_node_order_json(const struct site_order *order)
{
    struct json_object *root = decision_json(&order->decision), *list = json_object_new_array();

    if (order->begun) {
        struct json_object *part = json_object_new_object();

        json_object_object_add(part, "part", show_string(order->outcome.part));
        json_object_object_add(part, "result",
                               json_object_new_string(outcome_result_name(order->outcome.result)));
        json_object_object_add(part, "step", NULL);
        json_object_object_add(part, "text", show_string(order->outcome.text));
        json_object_array_add(list, part);
    }
    json_object_object_add(root, "order",
                           order->number ? json_object_new_uint64(order->number) : NULL);
    json_object_object_add(root, "outcomes", list);
    return root;
}

/* What was decided for it, oldest first. */
static struct json_object *api_node_decisions_json(const struct site_core *core, const char *node)
{
    const struct site_orders *orders = site_core_orders(core);
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < orders->count; i++) {
        if (strcmp(orders->order[i].decision.node[0], node) == 0)
            json_object_array_add(list, api_node_order_json(&orders->order[i]));
    }
    return list;
}

/* Whether nodes are drained now. */
static const char *api_mode_name(const struct site_core *core)
{
    static const char *const names[POLICY_MODE_COUNT] = {
        [0] = "dry-run", [POLICY_DRY_RUN] = "dry-run", [POLICY_ACT] = "act", [POLICY_OFF] = "off"
    };

    return names[site_core_limits(core)->mode];
}

void api_get_node_states(struct api_call *call)
{
    struct json_object *root, *list;
    const struct site_core *core;
    bool checks = false;

    if (!call_flag(call, "checks", &checks) || !nodes_are_known(call))
        return;
    core = site_log_core(call->site->nodes);
    root = json_object_new_object();
    list = json_object_new_array();
    for (size_t i = 0; i < site_core_nodes(core); i++) {
        const struct site_node *node = site_core_node(core, i);
        struct json_object *state = api_state_json(node);

        if (checks)
            json_object_object_add(state, "checks", api_checks_json(node));
        json_object_array_add(list, state);
    }
    json_object_object_add(root, "nodes", list);
    json_object_object_add(root, "mode", json_object_new_string(api_mode_name(core)));
    reply_cached(call->exchange, root);
}

void api_get_node(struct api_call *call)
{
    const struct site_node *node;
    struct json_object *root;

    if (!nodes_are_known(call))
        return;
    node = site_core_find(site_log_core(call->site->nodes), call->run);
    if (!node) {
        reply_error(call->exchange, 404, "node '%s' has sent nothing with a token of its own",
                    call->run);
        return;
    }
    root = api_state_json(node);
    json_object_object_add(root, "checks", api_checks_json(node));
    json_object_object_add(root, "findings",
                           api_findings_json(site_log_core(call->site->nodes), node->name));
    json_object_object_add(root, "decisions",
                           api_node_decisions_json(site_log_core(call->site->nodes), node->name));
    reply_cached(call->exchange, root);
}

/* ---- what is asked of a node ---- */

static bool api_node_request_read(struct json_object *root, struct request *ret)
{
    struct json_object *kind = NULL, *when = NULL, *stage = NULL;
    const char *word = "idle";

    if (!root || !json_object_is_type(root, json_type_object) ||
        !json_object_object_get_ex(root, "kind", &kind) ||
        !json_object_is_type(kind, json_type_string))
        return false;
    ret->kind = (uint8_t)request_kind_of(json_object_get_string(kind));
    if (json_object_object_get_ex(root, "when", &when))
        word = json_object_is_type(when, json_type_string) ? json_object_get_string(when) : "";
    if (ret->kind == REQUEST_NODE_OUT)
        ret->argument = strcmp(word, "idle") == 0         ? NODE_OUT_IDLE
                        : strcmp(word, "checkpoint") == 0 ? NODE_OUT_CHECKPOINT
                        : strcmp(word, "now") == 0        ? NODE_OUT_NOW
                                                          : 0;
    if (json_object_object_get_ex(root, "stage", &stage) != (ret->kind == REQUEST_VERIFY))
        return false;
    if (ret->kind == REQUEST_VERIFY && json_object_is_type(stage, json_type_string))
        ret->argument = node_stage_rank(json_object_get_string(stage));
    return ret->kind == REQUEST_NODE_OUT || ret->kind == REQUEST_VERIFY
               ? ret->argument > 0
               : !when && (ret->kind == REQUEST_INSPECT || ret->kind == REQUEST_NODE_IN);
}

/* Runs that root's daemon has seen on the node are asked to leave it. */
static void api_node_runs_leave(struct site *site, const struct request *request)
{
    const struct site_node *node = site_core_find(site_log_core(site->nodes), request->text);

    for (size_t i = 0; node && i < site->runs; i++) {
        struct site_run *run = site->run[i];
        struct request leave = *request;
        struct err err = { "" };

        if (!run->log || run->ended || !node_owners_has_run(&node->owners, run->dir.run))
            continue;
        if (runlog_request(run->log, &leave, &err) < 0)
            log_error("run %s is not asked to leave node %s: %s", run->dir.run, request->text,
                      err.text);
        else
            log_info("run %s is asked to leave node %s", run->dir.run, request->text);
    }
}

static void api_node_request_file(struct api_call *call, struct request *request)
{
    struct err err = { "" };
    struct json_object *answer;
    int result;

    http_note_what(call->exchange, request_kind_name(request->kind));
    if (!nodes_are_known(call))
        return;
    if (!site_core_find(site_log_core(call->site->nodes), call->run)) {
        reply_error(call->exchange, 404, "node '%s' has sent nothing with a token of its own",
                    call->run);
        return;
    }
    snprintf(request->text, sizeof(request->text), "%s", call->run);
    snprintf(request->who, sizeof(request->who), "%s", call->who);
    result = site_log_request(call->site->nodes, request, &err);
    if (result < 0) {
        reply_error(call->exchange, result == -EAGAIN ? 429 : 503, "%s", err.text);
        return;
    }
    log_info("node %s: %s requested by %s", call->run, request_kind_name(request->kind),
             request->who);
    if (request->kind == REQUEST_NODE_OUT && request->argument != NODE_OUT_IDLE)
        api_node_runs_leave(call->site, request);
    answer = json_object_new_object();
    json_object_object_add(answer, "node", show_string(call->run));
    json_object_object_add(answer, "request", json_object_new_string(request->id));
    reply_json(call->exchange, 202, answer);
}

void api_post_node_requests(struct api_call *call)
{
    struct json_object *root = call_body(call);
    struct request request = { 0 };

    if (!api_node_request_read(root, &request))
        reply_error(call->exchange, 400,
                    "expected {\"kind\": \"inspect\"}, node-in, "
                    "node-out with when: idle, checkpoint or now, or "
                    "verify with stage: quick, prolog, deep or burn");
    else
        api_node_request_file(call, &request);
    json_object_put(root);
}

/* The decisions for one request of this node, with the outcome of each. */
void api_get_node_request(struct api_call *call)
{
    const char *id = http_query(call->exchange, "id");
    struct json_object *root, *list;
    const struct site_orders *orders;
    const struct site_node *node;
    bool open;

    if (!nodes_are_known(call))
        return;
    if (!id || !id[0] || strlen(id) >= DECISION_ID) {
        reply_error(call->exchange, 400, "id: expected the id of a request");
        return;
    }
    orders = site_core_orders(site_log_core(call->site->nodes));
    node = site_core_find(site_log_core(call->site->nodes), call->run);
    open = site_orders_wait(orders, id);
    list = json_object_new_array();
    for (size_t i = 0; i < orders->count; i++) {
        const struct site_order *order = &orders->order[i];

        if (strcmp(order->decision.of, id) != 0 || strcmp(order->decision.node[0], call->run) != 0)
            continue;
        /* It is over when the state of the node follows from it, too: that comes with the next tick. */
        open |=
            order->decision.state == DECISION_ORDERED && (!order->ended || (node && node->dirty));
        json_object_array_add(list, api_node_order_json(order));
    }
    root = json_object_new_object();
    json_object_object_add(root, "node", show_string(call->run));
    json_object_object_add(root, "request", show_string(id));
    json_object_object_add(root, "open", json_object_new_boolean(open));
    json_object_object_add(root, "decisions", list);
    reply_json(call->exchange, 200, root);
}
