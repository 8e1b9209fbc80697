/* run_decisions.c - collects decisions and outcomes from a run's log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/orders/run_decisions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "core/time.h"
#include "show/record_view.h"
#include "show/style.h"

#define OUTCOMES_MAX 20000 /* of a decision: one of each rank of a large node group */
#define NO_RANK UINT32_MAX

struct part_outcome {
    uint32_t rank; /* NO_RANK: a launcher or node daemon, with name and text */
    uint8_t result;
    uint64_t step;
    char *name, *text; /* NULL: none */
};

struct run_decision {
    uint64_t order; /* its number; 0: it was never ordered */
    struct decision decision;
    struct part_outcome *outcome;
    size_t outcomes, room;
    struct map by_part; /* → place in `outcome` */
};

static size_t decisions_text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static size_t part_bytes(const struct part_outcome *part)
{
    return sizeof(*part) + sizeof(struct map_slot) + decisions_text_bytes(part->name) +
           decisions_text_bytes(part->text);
}

static void decisions_outcomes_free(struct run_decisions *decisions, struct run_decision *one)
{
    for (size_t i = 0; i < one->outcomes; i++) {
        decisions->outcome_bytes -= part_bytes(&one->outcome[i]);
        free(one->outcome[i].name);
        free(one->outcome[i].text);
    }
    free(TAKE(one->outcome));
    one->outcomes = one->room = 0;
    map_fini(&one->by_part);
}

static void decision_free(struct run_decisions *decisions, struct run_decision *one)
{
    decisions_outcomes_free(decisions, one);
    free(one);
}

void run_decisions_fini(struct run_decisions *decisions)
{
    for (size_t i = 0; i < decisions->count; i++)
        decision_free(decisions, decisions->kept[i]);
    *decisions = (struct run_decisions){ 0 };
}

static struct run_decision *decision_find(struct run_decisions *decisions, const char *id)
{
    for (size_t i = decisions->count; i > 0; i--) {
        if (strcmp(decisions->kept[i - 1]->decision.id, id) == 0)
            return decisions->kept[i - 1];
    }
    return NULL;
}

static struct run_decision *decision_add(struct run_decisions *decisions)
{
    struct run_decision *one = calloc(1, sizeof(*one));

    if (!one)
        return NULL;
    if (decisions->count == RUN_DECISIONS_KEPT) {
        decision_free(decisions, decisions->kept[0]);
        memmove(decisions->kept, decisions->kept + 1,
                (RUN_DECISIONS_KEPT - 1) * sizeof(decisions->kept[0]));
        decisions->count--;
    }
    decisions->kept[decisions->count++] = one;
    return one;
}

static void take_decision(struct run_decisions *decisions, const struct decision *decision)
{
    struct run_decision *one = decision_find(decisions, decision->id);

    if (decision->state == DECISION_ORDERED)
        decisions->orders += !one || !one->order;
    if (!one)
        one = decision_add(decisions);
    if (!one)
        return;
    one->decision = *decision;
    if (!one->order && decision->state == DECISION_ORDERED)
        one->order = decisions->orders;
}

/* The last word of a part counts.  Of two names with one hash only the first is kept. */
static struct part_outcome *part_find(struct run_decisions *decisions, struct run_decision *one,
                                      uint32_t rank, const char *name)
{
    uint64_t key = rank == NO_RANK ? hash64(1, name, strlen(name)) : hash64_u64(0, rank);
    const uint64_t *at = map_get(&one->by_part, key);
    struct part_outcome *part = at ? &one->outcome[*at] : NULL;

    if (part)
        return rank == part->rank && (rank != NO_RANK || strcmp(part->name, name) == 0) ? part
                                                                                        : NULL;
    if (one->outcomes == OUTCOMES_MAX ||
        !ARRAY_FIT_ZERO(one->outcome, one->room, one->outcomes + 1))
        return NULL;
    part = &one->outcome[one->outcomes];
    *part = (struct part_outcome){ .rank = rank, .name = rank == NO_RANK ? strdup(name) : NULL };
    if ((rank == NO_RANK && !part->name) || !map_put(&one->by_part, key, one->outcomes)) {
        free(part->name);
        return NULL;
    }
    one->outcomes++;
    decisions->outcome_bytes += part_bytes(part);
    return part;
}

/* The newest decision keeps what it has: its own number of parts is limited. */
static void decisions_outcomes_limit(struct run_decisions *decisions)
{
    for (size_t i = 0; i + 1 < decisions->count && decisions->outcome_bytes > RUN_OUTCOMES_BYTES;
         i++)
        decisions_outcomes_free(decisions, decisions->kept[i]);
}

static void take_outcome(struct run_decisions *decisions, const struct outcome *outcome)
{
    struct run_decision *one = decision_find(decisions, outcome->decision);
    struct part_outcome *part;
    unsigned rank = NO_RANK;
    char again[32] = "";

    if (sscanf(outcome->part, "rank %u", &rank) == 1)
        snprintf(again, sizeof(again), "rank %u", rank);
    if (strcmp(again, outcome->part) != 0)
        rank = NO_RANK;
    part = one ? part_find(decisions, one, rank, outcome->part) : NULL;
    if (!part)
        return;
    decisions->outcome_bytes -= decisions_text_bytes(part->text);
    free(part->text);
    part->text = outcome->text[0] ? strdup(outcome->text) : NULL;
    decisions->outcome_bytes += decisions_text_bytes(part->text);
    part->result = outcome->result;
    part->step = outcome->step;
    decisions_outcomes_limit(decisions);
}

void run_decisions_frame(struct run_decisions *decisions, const struct frame *frame, bool own)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct decision decision;
    struct outcome outcome;

    if (own && frame->type == FRAME_DECISION && decision_get(in, &decision) == 0)
        take_decision(decisions, &decision);
    else if (!own && frame->type == FRAME_OUTCOME && outcome_get(in, &outcome) == 0)
        take_outcome(decisions, &outcome);
}

void run_decisions_synced(struct run_decisions *decisions)
{
    decisions->on_disk = decisions->orders;
}

bool run_decisions_need_sync(const struct run_decisions *decisions)
{
    return decisions->on_disk < decisions->orders;
}

/* ---- as JSON ---- */

#define ADD(name, value) json_object_object_add(root, name, value)

static struct json_object *part_json(const struct part_outcome *part)
{
    struct json_object *root = json_object_new_object();
    char name[32];

    snprintf(name, sizeof(name), "rank %u", part->rank);
    ADD("part", show_string(part->name ? part->name : name));
    ADD("result", json_object_new_string(outcome_result_name(part->result)));
    ADD("step", record_step_json(part->step));
    ADD("text", show_string(part->text ? part->text : ""));
    return root;
}

static struct json_object *decisions_ranks_json(const struct decision *decision)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < decision->rank_count && i < DECISION_RANKS; i++)
        json_object_array_add(list, json_object_new_int64(decision->rank[i]));
    return list;
}

/* Which launcher starts which ranks. */
static struct json_object *decisions_start_json(const struct decision *decision)
{
    struct json_object *root = json_object_new_object(), *nodes = json_object_new_array();
    const struct decision_start *start = &decision->start;

    ADD("host", show_string(start->host));
    ADD("port", json_object_new_int64(start->port));
    ADD("world", json_object_new_int64(start->world));
    ADD("spare", json_object_new_int64(start->spare));
    ADD("down", json_object_new_int64(start->down));
    ADD("clock_ns", json_object_new_int64(start->clock_ns));
    ADD("resume", record_step_json(start->resume));
    for (uint32_t i = 0; i < MIN(decision->node_count, (uint32_t)DECISION_NODES); i++) {
        struct json_object *node = json_object_new_object();

        json_object_object_add(node, "life", json_object_new_int64(start->life[i]));
        json_object_object_add(node, "first", json_object_new_int64(start->first[i]));
        json_object_array_add(nodes, node);
    }
    ADD("nodes", nodes);
    return root;
}

static struct json_object *decisions_nodes_json(const struct decision *decision)
{
    struct json_object *list = json_object_new_array();

    for (uint32_t i = 0; i < MIN(decision->node_count, (uint32_t)DECISION_NODES); i++)
        json_object_array_add(list, show_string(decision->node[i]));
    return list;
}

struct json_object *run_decisions_order_json(const struct decision *decision, uint64_t number)
{
    struct json_object *root = json_object_new_object();

    ADD("order", json_object_new_uint64(number));
    ADD("id", show_string(decision->id));
    ADD("of", show_string(decision->of));
    ADD("action", json_object_new_string(action_name(decision->action)));
    ADD("target", json_object_new_string(target_kind_name(decision->target)));
    ADD("attempt", json_object_new_int64(decision->attempt));
    ADD("step", record_step_json(decision->step));
    ADD("ranks", decisions_ranks_json(decision));
    ADD("nodes", decisions_nodes_json(decision));
    if (decision->action == ACTION_START)
        ADD("start", decisions_start_json(decision));
    ADD("argument", json_object_new_int64(decision->argument));
    ADD("deadline_ms", json_object_new_int64(decision->deadline_real_ns / NS_PER_MS));
    ADD("why", show_string(decision->why));
    return root;
}

struct json_object *run_decisions_orders(const struct run_decisions *decisions, uint64_t after,
                                         int64_t now_real_ns, size_t *ret_count)
{
    struct json_object *root = json_object_new_object(), *list = json_object_new_array();

    if (after > decisions->orders)
        after = 0;
    *ret_count = 0;
    for (size_t i = 0; i < decisions->count; i++) {
        const struct run_decision *one = decisions->kept[i];

        if (one->order <= after || one->order > decisions->on_disk ||
            one->decision.state != DECISION_ORDERED ||
            (one->decision.deadline_real_ns && one->decision.deadline_real_ns < now_real_ns))
            continue;
        json_object_array_add(list, run_decisions_order_json(&one->decision, one->order));
        ++*ret_count;
    }
    ADD("orders", list);
    ADD("next", json_object_new_uint64(decisions->on_disk));
    return root;
}

struct json_object *run_decisions_json(const struct run_decisions *decisions, const char *of)
{
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < decisions->count; i++) {
        const struct run_decision *one = decisions->kept[i];
        struct json_object *root, *outcomes;

        if (of && strcmp(one->decision.of, of) != 0)
            continue;
        root = decision_json(&one->decision);
        outcomes = json_object_new_array();
        for (size_t k = 0; k < one->outcomes; k++)
            json_object_array_add(outcomes, part_json(&one->outcome[k]));
        ADD("order", one->order ? json_object_new_uint64(one->order) : NULL);
        ADD("outcomes", outcomes);
        json_object_array_add(list, root);
    }
    return list;
}
#undef ADD
