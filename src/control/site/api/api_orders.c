/* api_orders.c - requests in, orders out (a long poll), and what became of them.
 *
 * Whoever waits for orders costs a connection and a few bytes: no thread, and no timer of its own.  Each turn of a run looks
 * whether its waiters can be answered.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "control/http/reply.h"
#include "control/site/api/api_private.h"
#include "core/clean.h"
#include "core/time.h"
#include "show/style.h"
#include "wire/ring.h"

#define SITE_FAULTS_NS (5 * NS_PER_S)
#define WAIT_NS (25 * NS_PER_S) /* clients and proxies between give up after 30 s or more */

struct order_waiter {
    struct order_waiter *next, **back;
    struct site *site;
    struct site_run *run; /* NULL: of a node */
    char node[64];
    struct http_exchange *exchange;
    uint64_t after;
    int64_t until_ns;
};

/* ---- orders ---- */

static bool api_run_has_ended(const struct site_run *run)
{
    return run->log && runlog_is_closed(run->log);
}

/* False: there is nothing to answer yet. */
static bool orders_answer(struct site_run *run, struct http_exchange *exchange, uint64_t after,
                          bool now)
{
    struct json_object *root;
    size_t count;

    root = run_decisions_orders(&run->decisions, after, time_real_ns(), &count);
    if (!count && !now && !api_run_has_ended(run)) {
        json_object_put(root);
        return false;
    }
    json_object_object_add(root, "run", json_object_new_string(run->dir.run));
    json_object_object_add(root, "ended", json_object_new_boolean(api_run_has_ended(run)));
    http_answer_header(exchange, "Cache-Control", "no-store");
    reply_json(exchange, 200, root);
    return true;
}

static void waiter_unlink(struct order_waiter *waiter)
{
    *waiter->back = waiter->next;
    if (waiter->next)
        waiter->next->back = waiter->back;
    if (waiter->run)
        waiter->run->order_waiter_count--;
    waiter->site->order_waiters--;
    free(waiter);
}

static void waiter_gone(void *arg)
{
    waiter_unlink(arg);
}

/* A job with one launcher on each node has as many more. */
static size_t waiters_max(const struct site_run *run)
{
    const struct policy *policy = run->log ? runlog_policy(run->log) : NULL;

    return SITE_ORDER_WAITERS_RUN + (policy ? policy_members(policy) : 0);
}

/* Whoever sends facts of a run says how many launchers it has: they share half of the places, the other half is for runs with few. */
static bool waiter_is_too_many(const struct site *site, const struct site_run *run)
{
    return run->order_waiter_count >= SITE_ORDER_WAITERS_RUN &&
           (run->order_waiter_count >= waiters_max(run) ||
            site->order_waiters >= site->order_waiters_max / 2);
}

static bool waiter_fits(const struct api_call *call, const struct site_run *run)
{
    if (waiter_is_too_many(call->site, run))
        reply_error(call->exchange, 429, "%zu clients wait for orders of run '%s' already",
                    run->order_waiter_count, run->dir.run);
    else if (call->site->order_waiters >= call->site->order_waiters_max)
        reply_error(call->exchange, 503, "%zu clients wait for orders already",
                    call->site->order_waiters);
    else
        return true;
    return false;
}

static void order_wait(struct api_call *call, struct site_run *run, uint64_t after)
{
    struct order_waiter *waiter;

    if (!waiter_fits(call, run))
        return;
    waiter = calloc(1, sizeof(*waiter));
    if (!waiter) {
        reply_error(call->exchange, 503, "out of memory");
        return;
    }
    *waiter = (struct order_waiter){ .next = run->order_waiters,
                                     .back = &run->order_waiters,
                                     .site = call->site,
                                     .run = run,
                                     .exchange = call->exchange,
                                     .after = after,
                                     .until_ns = time_mono_ns() + WAIT_NS };
    if (waiter->next)
        waiter->next->back = &waiter->next;
    run->order_waiters = waiter;
    run->order_waiter_count++;
    call->site->order_waiters++;
    http_on_gone(call->exchange, waiter_gone, waiter);
}

/* Digits only: strtoull() would take signs and spaces. */
static bool api_number_parse(const char *text, uint64_t *ret)
{
    char *end;

    if (!text) {
        *ret = 0;
        return true;
    }
    if (!text[0] || strlen(text) > 19 || strspn(text, "0123456789") != strlen(text))
        return false;
    *ret = strtoull(text, &end, 10);
    return *end == '\0';
}

/* ---- orders of nodes ---- */

/* What every node asks for need not be counted for every node. */
static struct json_object *api_site_faults_json(struct site *site)
{
    struct json_object *list = json_object_new_array();
    int64_t now_ns = time_mono_ns();

    if (!site->site_faults_ns || now_ns - site->site_faults_ns >= SITE_FAULTS_NS) {
        site->site_faults = site->nodes
                                ? node_lives_site_faults(site_log_core(site->nodes), time_real_ns(),
                                                         site->site_fault, CHECK_SITE_FAULTS)
                                : 0;
        site->site_faults_ns = now_ns;
    }
    for (size_t i = 0; i < site->site_faults; i++)
        json_object_array_add(list, show_string(site->site_fault[i]));
    return list;
}

/* Those after that number which are on disk and still to be carried out; a number that was never given counts as 0. */
static struct json_object *api_node_orders_json(const struct site *site, const char *node,
                                                uint64_t after, size_t *ret_count)
{
    const struct site_orders *orders =
        site->nodes ? site_core_orders(site_log_core(site->nodes)) : NULL;
    uint64_t on_disk = site->nodes ? site_log_on_disk(site->nodes) : 0;
    struct json_object *root = json_object_new_object(), *list = json_object_new_array();

    if (after > on_disk)
        after = 0;
    *ret_count = 0;
    for (size_t i = 0; orders && i < orders->count; i++) {
        const struct site_order *order = &orders->order[i];

        if (order->number <= after || order->number > on_disk ||
            site_action_is_controllers(order->decision.action) ||
            !site_order_is_open(order, time_real_ns()) ||
            strcmp(order->decision.node[0], node) != 0)
            continue;
        json_object_array_add(list, run_decisions_order_json(&order->decision, order->number));
        ++*ret_count;
    }
    json_object_object_add(root, "orders", list);
    json_object_object_add(root, "next", json_object_new_uint64(on_disk));
    return root;
}

/* False: there is nothing to answer yet. */
static bool api_node_answer(struct site *site, struct http_exchange *exchange, const char *node,
                            uint64_t after, bool now)
{
    size_t count;
    struct json_object *root = api_node_orders_json(site, node, after, &count);

    if (!count && !now) {
        json_object_put(root);
        return false;
    }
    json_object_object_add(root, "node", show_string(node));
    json_object_object_add(root, "site_faults", api_site_faults_json(site));
    json_object_object_add(root, "ended", json_object_new_boolean(false));
    http_answer_header(exchange, "Cache-Control", "no-store");
    reply_json(exchange, 200, root);
    return true;
}

static bool node_waiter_fits(const struct api_call *call)
{
    size_t count = 0;

    for (const struct order_waiter *one = call->site->node_waiters; one; one = one->next)
        count += strcmp(one->node, call->run) == 0;
    if (count >= SITE_ORDER_WAITERS_RUN)
        reply_error(call->exchange, 429, "%zu clients wait for orders of node '%s' already", count,
                    call->run);
    else if (call->site->order_waiters >= call->site->order_waiters_max)
        reply_error(call->exchange, 503, "%zu clients wait for orders already",
                    call->site->order_waiters);
    else
        return true;
    return false;
}

static void api_node_wait(struct api_call *call, uint64_t after)
{
    struct order_waiter *waiter;

    if (api_node_answer(call->site, call->exchange, call->run, after, false) ||
        !node_waiter_fits(call))
        return;
    waiter = calloc(1, sizeof(*waiter));
    if (!waiter) {
        reply_error(call->exchange, 503, "out of memory");
        return;
    }
    *waiter = (struct order_waiter){ .next = call->site->node_waiters,
                                     .back = &call->site->node_waiters,
                                     .site = call->site,
                                     .exchange = call->exchange,
                                     .after = after,
                                     .until_ns = time_mono_ns() + WAIT_NS };
    snprintf(waiter->node, sizeof(waiter->node), "%s", call->run);
    if (waiter->next)
        waiter->next->back = &waiter->next;
    call->site->node_waiters = waiter;
    call->site->order_waiters++;
    http_on_gone(call->exchange, waiter_gone, waiter);
}

void node_orders_turn(struct site *site, int64_t now_ns)
{
    for (struct order_waiter *waiter = site->node_waiters, *next; waiter; waiter = next) {
        struct http_exchange *exchange = waiter->exchange;

        next = waiter->next;
        if (!api_node_answer(site, exchange, waiter->node, waiter->after,
                             now_ns >= waiter->until_ns))
            continue;
        http_on_gone(exchange, NULL, NULL);
        waiter_unlink(waiter);
    }
}

/* ---- orders of runs ---- */

void api_get_orders(struct api_call *call)
{
    bool node = http_query(call->exchange, "node") != NULL;
    struct site_run *run = node ? NULL : call_open_run(call);
    uint64_t after;

    if (node && api_number_parse(http_query(call->exchange, "after"), &after))
        api_node_wait(call, after);
    else if (node)
        reply_error(call->exchange, 400, "after: expected a number");
    if (!run)
        return;
    if (!api_number_parse(http_query(call->exchange, "after"), &after))
        reply_error(call->exchange, 400, "after: expected a number");
    else if (!orders_answer(run, call->exchange, after, false))
        order_wait(call, run, after);
}

void orders_turn(struct site_run *run, int64_t now_ns)
{
    for (struct order_waiter *waiter = run->order_waiters, *next; waiter; waiter = next) {
        struct http_exchange *exchange = waiter->exchange;

        next = waiter->next;
        if (!orders_answer(run, exchange, waiter->after, now_ns >= waiter->until_ns))
            continue;
        http_on_gone(exchange, NULL, NULL);
        waiter_unlink(waiter);
    }
}

/* ---- requests ---- */

static bool api_request_read(struct json_object *root, struct request *ret, struct err *err)
{
    struct json_object *kind = NULL, *argument = NULL, *of = NULL;

    if (!root || !json_object_is_type(root, json_type_object) ||
        !json_object_object_get_ex(root, "kind", &kind) ||
        !json_object_is_type(kind, json_type_string) ||
        (json_object_object_get_ex(root, "argument", &argument) &&
         !json_object_is_type(argument, json_type_int)) ||
        (json_object_object_get_ex(root, "of", &of) &&
         (!json_object_is_type(of, json_type_string) ||
          json_object_get_string_len(of) >= DECISION_ID))) {
        err_set(err, 0,
                "expected {\"kind\": \"checkpoint-now\"}, {\"kind\": \"depth\", \"argument\": 1} "
                "or {\"kind\": \"cancel\", \"of\": REQUEST}");
        return false;
    }
    ret->kind = (uint8_t)request_kind_of(json_object_get_string(kind));
    ret->argument = argument ? json_object_get_int64(argument) : 0;
    snprintf(ret->of, sizeof(ret->of), "%s",
             of && ret->kind == REQUEST_CANCEL ? json_object_get_string(of) : "");
    if (ret->kind != REQUEST_CHECKPOINT_NOW && ret->kind != REQUEST_DEPTH &&
        ret->kind != REQUEST_CANCEL)
        err_set(err, 0, "kind: expected checkpoint-now, depth or cancel");
    else if (ret->kind != REQUEST_DEPTH && ret->argument != 0)
        err_set(err, 0, "argument: %s has none", request_kind_name(ret->kind));
    else if (ret->kind == REQUEST_DEPTH && ret->argument != 0 && ret->argument != 1 &&
             ret->argument != RING_REQUEST_DEPTH_OFF)
        err_set(err, 0, "argument: expected 0 (all events), 1 (no phases) or %d (none)",
                RING_REQUEST_DEPTH_OFF);
    else
        return true;
    return false;
}

/* The request that a cancellation names, or the only one that is open; false: it was answered. */
static bool api_request_cancels(struct api_call *call, const struct policy *policy,
                                struct request *request)
{
    static const unsigned kinds[] = { REQUEST_CHECKPOINT_NOW, REQUEST_DEPTH };
    const char *one = "";
    size_t count = 0;

    if (request->of[0] && policy && policy_is_open(policy, request->of))
        return true;
    for (size_t i = 0; i < COUNT(kinds) && policy; i++) {
        const char *open = policy_open_request(policy, kinds[i]);

        count += open[0] != '\0';
        one = open[0] ? open : one;
    }
    if (request->of[0])
        reply_error(call->exchange, 404, "request %s is not open", request->of);
    else if (!count)
        reply_error(call->exchange, 404, "no request of run '%s' is open", call->run);
    else if (count > 1)
        reply_error(call->exchange, 409, "%zu requests are open; name one of them, such as %s",
                    count, one);
    if (request->of[0] || count != 1)
        return false;
    snprintf(request->of, sizeof(request->of), "%s", one);
    return true;
}

static void api_request_file(struct api_call *call, struct site_run *run, struct request *request)
{
    const struct policy *policy = runlog_policy(run->log);
    const char *open = policy ? policy_open_request(policy, request->kind) : "";
    struct err err = { "" };
    struct json_object *answer;
    int result;

    if (open[0]) {
        reply_error(call->exchange, 409, "request %s of the same kind is open; cancel it first",
                    open);
        return;
    }
    if (request->kind == REQUEST_CANCEL && !api_request_cancels(call, policy, request))
        return;
    snprintf(request->who, sizeof(request->who), "%s",
             call->who[0] ? call->who : "the token of the run");
    result = runlog_request(run->log, request, &err);
    if (result < 0) {
        reply_error(call->exchange, result == -EALREADY ? 409 : run_status(result), "%s", err.text);
        return;
    }
    log_info("run %s: %s requested by %s", run->dir.run, request_kind_name(request->kind),
             request->who);
    answer = json_object_new_object();
    json_object_object_add(answer, "run", json_object_new_string(run->dir.run));
    json_object_object_add(
        answer, "request",
        json_object_new_string(request->kind == REQUEST_CANCEL ? request->of : request->id));
    reply_json(call->exchange, 202, answer);
}

static struct site_run *api_request_run(struct api_call *call, const struct request *request)
{
    http_note_what(call->exchange, request_kind_name(request->kind));
    return call_open_run(call);
}

void api_post_requests(struct api_call *call)
{
    struct json_object *root = call_body(call);
    struct request request = { 0 };
    struct err err = { "" };
    struct site_run *run;

    if (!api_request_read(root, &request, &err))
        reply_error(call->exchange, 400, "%s", err.text);
    else if ((run = api_request_run(call, &request)))
        api_request_file(call, run, &request);
    json_object_put(root);
}

/* The decisions for one request, with the outcome of each part. */
void api_get_request(struct api_call *call)
{
    struct site_run *run = call_open_run(call);
    const char *id = http_query(call->exchange, "id");
    const struct policy *policy = run ? runlog_policy(run->log) : NULL;
    struct json_object *root;

    if (!run)
        return;
    if (!id || !id[0] || strlen(id) >= DECISION_ID) {
        reply_error(call->exchange, 400, "id: expected the id of a request");
        return;
    }
    root = json_object_new_object();
    json_object_object_add(root, "run", json_object_new_string(run->dir.run));
    json_object_object_add(root, "request", show_string(id));
    json_object_object_add(root, "open",
                           json_object_new_boolean(policy && policy_is_open(policy, id)));
    json_object_object_add(root, "ended", json_object_new_boolean(api_run_has_ended(run)));
    json_object_object_add(root, "decisions", run_decisions_json(&run->decisions, id));
    reply_json(call->exchange, 200, root);
}
