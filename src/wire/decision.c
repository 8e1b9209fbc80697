/* decision.c - names, ids, and the encoding of requests, decisions, outcomes and places.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/decision.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"
#include "wire/field.h"

static const char *const action_names[ACTION_COUNT] = {
    [ACTION_NONE] = "none",
    [ACTION_ALERT] = "alert",
    [ACTION_CHECKPOINT] = "checkpoint",
    [ACTION_DEPTH] = "depth",
    [ACTION_RESTART] = "restart",
    [ACTION_RESTART_WITHOUT] = "restart-without",
    [ACTION_SWAP] = "swap",
    [ACTION_REPLACE] = "replace",
    [ACTION_RESET_GPU] = "reset-gpu",
    [ACTION_REBOOT] = "reboot",
    [ACTION_DRAIN] = "drain",
    [ACTION_REQUEUE] = "requeue",
    [ACTION_GIVE_UP] = "give-up",
    [ACTION_INSPECT] = "inspect",
    [ACTION_REPAIR] = "repair",
    [ACTION_START] = "start",
    [ACTION_STOP] = "stop",
    [ACTION_END] = "end",
    [ACTION_UNDRAIN] = "undrain",
    [ACTION_DOWN] = "down",
    [ACTION_VERIFY] = "verify",
};

static const char *const target_names[TARGET_KIND_COUNT] = {
    [TARGET_RUN] = "run",
    [TARGET_NODES] = "nodes",
    [TARGET_RANKS] = "ranks",
};

static const char *const state_names[DECISION_STATE_COUNT] = {
    [DECISION_DRY_RUN] = "dry-run",
    [DECISION_ORDERED] = "ordered",
    [DECISION_SUPERSEDED] = "superseded",
    [DECISION_EXPIRED] = "expired",
};

static const char *const request_names[REQUEST_KIND_COUNT] = {
    [REQUEST_CHECKPOINT_NOW] = "checkpoint-now",
    [REQUEST_DEPTH] = "depth",
    [REQUEST_RESTART_ON_HANG] = "restart-on-hang",
    [REQUEST_CANCEL] = "cancel",
    [REQUEST_INSPECT] = "inspect",
    [REQUEST_NODE_OUT] = "node-out",
    [REQUEST_NODE_IN] = "node-in",
    [REQUEST_VERIFY] = "verify",
};

static const char *const result_names[OUTCOME_RESULT_COUNT] = {
    [OUTCOME_DONE] = "done",
    [OUTCOME_PAST] = "past",
    [OUTCOME_REFUSED] = "refused",
    [OUTCOME_FAILED] = "failed",
    [OUTCOME_NOT_EXECUTED] = "not-executed",
    [OUTCOME_UNKNOWN] = "unknown",
};

const char *action_name(unsigned action)
{
    return field_name(action_names, COUNT(action_names), action);
}

const char *target_kind_name(unsigned kind)
{
    return field_name(target_names, COUNT(target_names), kind);
}

const char *decision_state_name(unsigned state)
{
    return field_name(state_names, COUNT(state_names), state);
}

unsigned action_of(const char *name)
{
    return field_number(action_names, COUNT(action_names), name);
}

unsigned target_kind_of(const char *name)
{
    return field_number(target_names, COUNT(target_names), name);
}

void decision_identify(struct decision *decision, const char *run)
{
    uint64_t id = hash64(decision->action, run, strlen(run));

    id = hash64(id, decision->of, strlen(decision->of));
    id = hash64_u64(id, (uint64_t)decision->target << 32 | decision->attempt);
    id = hash64_u64(id, decision->rank_count);
    for (uint32_t i = 0; i < decision->rank_count && i < DECISION_RANKS; i++)
        id = hash64_u64(id, decision->rank[i]);
    id = hash64_u64(id, decision->node_count);
    for (uint32_t i = 0; i < decision->node_count && i < DECISION_NODES; i++)
        id = hash64(id, decision->node[i], strlen(decision->node[i]));
    id = hash64_u64(id, decision->step);
    id = hash64_u64(id, (uint64_t)decision->argument);
    id = hash64_u64(id, (uint64_t)decision->decided_real_ns);
    snprintf(decision->id, sizeof(decision->id), "d-%016llx", (unsigned long long)id);
}

static uint32_t decision_nodes(const struct decision *decision)
{
    return MIN(decision->node_count, (uint32_t)DECISION_NODES);
}

static void decision_start_put(struct buf *out, const struct decision *decision)
{
    const struct decision_start *start = &decision->start;

    buf_put_str(out, start->host);
    buf_put_u32(out, start->port);
    buf_put_u32(out, start->world);
    buf_put_u32(out, start->spare);
    buf_put_u32(out, start->down);
    field_put_i64(out, start->clock_ns);
    buf_put_u64(out, start->resume);
    for (uint32_t i = 0; i < decision_nodes(decision); i++) {
        buf_put_u32(out, start->first[i]);
        buf_put_u32(out, start->life[i]);
    }
}

static void decision_start_get(struct reader *in, struct decision *decision)
{
    struct decision_start *start = &decision->start;
    uint32_t port;

    reader_get_str(in, start->host, sizeof(start->host));
    port = reader_get_u32(in);
    start->port = (uint16_t)port;
    start->world = reader_get_u32(in);
    start->spare = reader_get_u32(in);
    start->down = reader_get_u32(in);
    start->clock_ns = field_get_real(in);
    start->resume = reader_get_u64(in);
    for (uint32_t i = 0; i < decision_nodes(decision); i++) {
        start->first[i] = reader_get_u32(in);
        start->life[i] = reader_get_u32(in);
    }
    if (!port || port > UINT16_MAX || !start->world || !start->host[0])
        in->bad = true;
}

void decision_put(struct buf *out, const struct decision *decision)
{
    buf_put_str(out, decision->id);
    buf_put_str(out, decision->of);
    buf_put_u8(out, decision->action);
    buf_put_u8(out, decision->state);
    buf_put_u8(out, decision->target);
    buf_put_u32(out, decision->attempt);
    buf_put_u32(out, decision->rank_count);
    for (uint32_t i = 0; i < decision->rank_count && i < DECISION_RANKS; i++)
        buf_put_u32(out, decision->rank[i]);
    buf_put_u32(out, decision->node_count);
    for (uint32_t i = 0; i < decision->node_count && i < DECISION_NODES; i++)
        buf_put_str(out, decision->node[i]);
    buf_put_u64(out, decision->step);
    field_put_i64(out, decision->argument);
    field_put_i64(out, decision->decided_real_ns);
    field_put_i64(out, decision->deadline_real_ns);
    buf_put_f64(out, decision->saves_gpu_seconds);
    buf_put_f64(out, decision->costs_gpu_seconds);
    buf_put_str(out, decision->why);
    if (decision->action == ACTION_START)
        decision_start_put(out, decision);
}

int decision_get(struct reader in, struct decision *ret)
{
    struct decision decision = { 0 };

    reader_get_str(&in, decision.id, sizeof(decision.id));
    reader_get_str(&in, decision.of, sizeof(decision.of));
    decision.action = field_get_enum(&in, 0, ACTION_COUNT);
    decision.state = field_get_enum(&in, 1, DECISION_STATE_COUNT);
    decision.target = field_get_enum(&in, 1, TARGET_KIND_COUNT);
    decision.attempt = reader_get_u32(&in);
    decision.rank_count = reader_get_u32(&in);
    for (uint32_t i = 0; i < decision.rank_count && i < DECISION_RANKS; i++)
        decision.rank[i] = reader_get_u32(&in);
    decision.node_count = reader_get_u32(&in);
    for (uint32_t i = 0; i < decision.node_count && i < DECISION_NODES; i++)
        reader_get_str(&in, decision.node[i], sizeof(decision.node[i]));
    decision.step = reader_get_u64(&in);
    decision.argument = field_get_i64(&in);
    decision.decided_real_ns = field_get_real(&in);
    decision.deadline_real_ns = field_get_real(&in);
    decision.saves_gpu_seconds = field_get_finite(&in);
    decision.costs_gpu_seconds = field_get_finite(&in);
    reader_get_str(&in, decision.why, sizeof(decision.why));
    if (decision.action == ACTION_START)
        decision_start_get(&in, &decision);
    if (in.bad || !decision.id[0])
        return -EPROTO;
    *ret = decision;
    return 0;
}

/* ---- requests ---- */

const char *request_kind_name(unsigned kind)
{
    return field_name(request_names, COUNT(request_names), kind);
}

unsigned request_kind_of(const char *name)
{
    return field_number(request_names, COUNT(request_names), name);
}

void request_identify(struct request *request)
{
    uint64_t id = hash64(request->kind, request->who, strlen(request->who));

    id = hash64(id, request->of, strlen(request->of));
    id = hash64_u64(id, (uint64_t)request->argument);
    id = hash64_u64(id, (uint64_t)request->mono_ns);
    id = hash64_u64(id, (uint64_t)request->real_ns);
    snprintf(request->id, sizeof(request->id), "q-%016llx", (unsigned long long)id);
}

void request_put(struct buf *out, const struct request *request)
{
    field_put_i64(out, request->mono_ns); /* first, for fact_when() */
    field_put_i64(out, request->real_ns);
    buf_put_str(out, request->id);
    buf_put_u8(out, request->kind);
    field_put_i64(out, request->argument);
    buf_put_str(out, request->of);
    buf_put_str(out, request->who);
    buf_put_str(out, request->text);
}

int request_get(struct reader in, struct request *ret)
{
    struct request request = { .mono_ns = field_get_mono(&in) };

    request.real_ns = field_get_real(&in);
    reader_get_str(&in, request.id, sizeof(request.id));
    request.kind = field_get_enum(&in, 1, REQUEST_KIND_COUNT);
    request.argument = field_get_i64(&in);
    reader_get_str(&in, request.of, sizeof(request.of));
    reader_get_str(&in, request.who, sizeof(request.who));
    reader_get_str(&in, request.text, sizeof(request.text));
    if (in.bad || !request.id[0])
        return -EPROTO;
    *ret = request;
    return 0;
}

/* ---- outcomes ---- */

const char *outcome_result_name(unsigned result)
{
    return field_name(result_names, COUNT(result_names), result);
}

unsigned outcome_result_of(const char *name)
{
    return field_number(result_names, COUNT(result_names), name);
}

void outcome_put(struct buf *out, const struct outcome *outcome)
{
    field_put_i64(out, outcome->mono_ns); /* first, for fact_when() */
    buf_put_str(out, outcome->decision);
    buf_put_str(out, outcome->part);
    buf_put_u8(out, outcome->result);
    field_put_i64(out, outcome->began_real_ns);
    field_put_i64(out, outcome->ended_real_ns);
    buf_put_u64(out, outcome->step);
    buf_put_str(out, outcome->text);
}

int outcome_get(struct reader in, struct outcome *ret)
{
    struct outcome outcome = { .mono_ns = field_get_mono(&in) };

    reader_get_str(&in, outcome.decision, sizeof(outcome.decision));
    reader_get_str(&in, outcome.part, sizeof(outcome.part));
    outcome.result = field_get_enum(&in, 1, OUTCOME_RESULT_COUNT);
    outcome.began_real_ns = field_get_real(&in);
    outcome.ended_real_ns = field_get_real(&in);
    outcome.step = reader_get_u64(&in);
    reader_get_str(&in, outcome.text, sizeof(outcome.text));
    if (in.bad || !outcome.decision[0] || !outcome.part[0])
        return -EPROTO;
    *ret = outcome;
    return 0;
}

/* ---- places ---- */

#define PLACES_MAX 1048576

void places_put(struct buf *out, const struct places *places)
{
    field_put_i64(out, places->mono_ns); /* first, for fact_when() */
    field_put_i64(out, places->real_ns);
    buf_put_u32(out, places->allocated);
    buf_put_u32(out, places->spare);
    buf_put_u32(out, places->down);
}

int places_get(struct reader in, struct places *ret)
{
    struct places places = { .mono_ns = field_get_mono(&in) };

    places.real_ns = field_get_real(&in);
    places.allocated = reader_get_u32(&in);
    places.spare = reader_get_u32(&in);
    places.down = reader_get_u32(&in);
    if (in.bad || places.allocated > PLACES_MAX || places.spare > places.allocated ||
        places.down > places.allocated - places.spare)
        return -EPROTO;
    *ret = places;
    return 0;
}
