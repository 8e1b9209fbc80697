/* order_json.c - the answer of GET /api/v1/orders as decisions.
 *
 * Only what an executor needs is there: a decision's id and its arguments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "act/orders/order_json.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_member.h"
#include "core/clean.h"
#include "core/time.h"

#define BODY_MAX (1u << 20)
#define ORDER_CLOCK_MAX_NS INT64_C(4000000000000000000)
#define DEADLINE_MAX_MS INT64_C(4000000000000) /* in the year 2096; frames have no later times */

static bool order_text_get(struct json_object *root, const char *name, char *ret, size_t room)
{
    struct json_object *value = json_member(root, name, json_type_string);
    size_t size = value ? (size_t)json_object_get_string_len(value) : 0;

    if (!value || size >= room || strlen(json_object_get_string(value)) != size)
        return false;
    memcpy(ret, json_object_get_string(value), size + 1);
    return true;
}

static bool order_number_get(struct json_object *root, const char *name, int64_t least,
                             int64_t most, int64_t *ret)
{
    struct json_object *value = json_member(root, name, json_type_int);

    if (!value)
        return false;
    *ret = json_object_get_int64(value);
    return *ret >= least && *ret <= most;
}

/* The first ones, where there are many. */
static bool order_ranks_get(struct json_object *root, struct decision *ret)
{
    struct json_object *ranks = json_member(root, "ranks", json_type_array);
    size_t count = ranks ? json_object_array_length(ranks) : 0;

    for (size_t i = 0; i < count && i < DECISION_RANKS; i++) {
        struct json_object *rank = json_object_array_get_idx(ranks, i);
        int64_t number =
            json_object_is_type(rank, json_type_int) ? json_object_get_int64(rank) : -1;

        if (number < 0 || number > UINT32_MAX)
            return false;
        ret->rank[ret->rank_count++] = (uint32_t)number;
    }
    return ranks && count <= DECISION_RANKS;
}

/* Of an older controller there are none. */
static bool order_nodes_get(struct json_object *root, struct decision *ret)
{
    struct json_object *nodes = json_member(root, "nodes", json_type_array);
    size_t count = nodes ? json_object_array_length(nodes) : 0;

    for (size_t i = 0; i < count && i < DECISION_NODES; i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        const char *name =
            json_object_is_type(node, json_type_string) ? json_object_get_string(node) : "";

        if (!name[0] || strlen(name) >= sizeof(ret->node[i]))
            return false;
        strcpy(ret->node[ret->node_count++], name);
    }
    return count <= DECISION_NODES;
}

static bool order_start_node_get(struct json_object *node, struct decision_start *start, size_t i)
{
    int64_t life, first;

    if (!json_object_is_type(node, json_type_object) ||
        !order_number_get(node, "life", 1, UINT32_MAX, &life) ||
        !order_number_get(node, "first", 0, UINT32_MAX, &first))
        return false;
    start->life[i] = (uint32_t)life;
    start->first[i] = (uint32_t)first;
    return true;
}

static bool order_start_get(struct json_object *root, struct decision *ret)
{
    struct json_object *object = json_member(root, "start", json_type_object),
                       *nodes = object ? json_member(object, "nodes", json_type_array) : NULL;
    struct decision_start *start = &ret->start;
    int64_t port, world, spare, down, resume = -1;

    if (!nodes || json_object_array_length(nodes) != ret->node_count ||
        !order_text_get(object, "host", start->host, sizeof(start->host)) || !start->host[0] ||
        !order_number_get(object, "port", 1, UINT16_MAX, &port) ||
        !order_number_get(object, "world", 1, UINT32_MAX, &world) ||
        !order_number_get(object, "spare", 0, UINT32_MAX, &spare) ||
        !order_number_get(object, "down", 0, UINT32_MAX, &down) ||
        !order_number_get(object, "clock_ns", -ORDER_CLOCK_MAX_NS, ORDER_CLOCK_MAX_NS,
                          &start->clock_ns))
        return false;
    if (json_object_object_get(object, "resume") &&
        !order_number_get(object, "resume", 0, INT64_MAX - 1, &resume))
        return false;
    start->resume = resume < 0 ? UINT64_MAX : (uint64_t)resume;
    start->port = (uint16_t)port;
    start->world = (uint32_t)world;
    start->spare = (uint32_t)spare;
    start->down = (uint32_t)down;
    for (uint32_t i = 0; i < ret->node_count; i++) {
        if (!order_start_node_get(json_object_array_get_idx(nodes, i), start, i))
            return false;
    }
    return true;
}

static bool order_get(struct json_object *root, struct decision *ret)
{
    struct decision order = { .state = DECISION_ORDERED, .step = DECISION_NO_STEP };
    int64_t attempt, deadline_ms, step = -1;
    char action[32], target[32];

    if (!json_object_is_type(root, json_type_object) ||
        !order_text_get(root, "id", order.id, sizeof(order.id)) || !order.id[0] ||
        !order_text_get(root, "of", order.of, sizeof(order.of)) ||
        !order_text_get(root, "why", order.why, sizeof(order.why)) ||
        !order_text_get(root, "action", action, sizeof(action)) ||
        !order_text_get(root, "target", target, sizeof(target)) ||
        !order_number_get(root, "attempt", 0, UINT32_MAX, &attempt) ||
        !order_number_get(root, "argument", INT64_MIN, INT64_MAX, &order.argument) ||
        !order_number_get(root, "deadline_ms", 0, DEADLINE_MAX_MS, &deadline_ms))
        return false;
    if (json_object_object_get(root, "step") &&
        !order_number_get(root, "step", 0, INT64_MAX - 1, &step))
        return false;
    if (!order_ranks_get(root, &order) || !order_nodes_get(root, &order))
        return false;
    order.action = (uint8_t)action_of(action);
    order.target = (uint8_t)target_kind_of(target);
    if (!order.action || !order.target)
        return false; /* of a later version */
    if (order.action == ACTION_START && !order_start_get(root, &order))
        return false;
    order.attempt = (uint32_t)attempt;
    order.step = step < 0 ? DECISION_NO_STEP : (uint64_t)step;
    order.deadline_real_ns = deadline_ms * NS_PER_MS;
    *ret = order;
    return true;
}

/* A controller that does not know of them gives none. */
static bool order_site_faults_get(struct json_object *root, struct order_list *list)
{
    struct json_object *names = json_member(root, "site_faults", json_type_array);
    size_t count = names ? json_object_array_length(names) : 0;

    for (size_t i = 0; i < count && i < CHECK_SITE_FAULTS; i++) {
        struct json_object *name = json_object_array_get_idx(names, i);
        size_t size = json_object_is_type(name, json_type_string)
                          ? (size_t)json_object_get_string_len(name)
                          : 0;

        if (!size || size >= FACT_NAME || strlen(json_object_get_string(name)) != size ||
            strchr(json_object_get_string(name), '\n'))
            return false;
        memcpy(list->site_fault[list->site_faults++], json_object_get_string(name), size + 1);
    }
    return true;
}

static int order_list_get(struct json_object *root, struct order_list *list, struct err *err)
{
    struct json_object *orders, *ended;
    int64_t next;

    if (!root || !json_object_is_type(root, json_type_object))
        return err_set(err, -EPROTO, "the controller's answer is no JSON object");
    orders = json_member(root, "orders", json_type_array);
    ended = json_member(root, "ended", json_type_boolean);
    if (!orders || !order_number_get(root, "next", 0, INT64_MAX, &next))
        return err_set(err, -EPROTO, "the controller's answer has no orders");
    if (json_object_array_length(orders) > ORDERS_MAX)
        return err_set(err, -EPROTO, "the controller's answer has more than %d orders", ORDERS_MAX);
    for (size_t i = 0; i < json_object_array_length(orders); i++) {
        if (!order_get(json_object_array_get_idx(orders, i), &list->order[list->count]))
            return err_set(err, -EPROTO, "order %zu of the controller's answer is malformed", i);
        list->count++;
    }
    if (!order_site_faults_get(root, list))
        return err_set(err, -EPROTO, "the controller's answer names faults that are no checks");
    list->next = (uint64_t)next;
    list->ended = ended && json_object_get_boolean(ended);
    return 0;
}

int order_list_parse(const void *data, size_t size, struct order_list *ret, struct err *err)
{
    CLEAN(free_clean) struct order_list *list = calloc(1, sizeof(*list)); /* large for a stack */
    CLEAN(json_clean) struct json_object *root = NULL;
    struct json_tokener *tokener = list ? json_tokener_new_ex(8) : NULL;
    int result;

    if (!tokener)
        return err_nomem(err);
    if (size && size <= BODY_MAX)
        root = json_tokener_parse_ex(tokener, data, (int)size);
    json_tokener_free(tokener);
    result = order_list_get(root, list, err);
    if (result == 0)
        *ret = *list;
    return result;
}
