/* verdict.c - names, ids, and the encoding of verdicts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/verdict.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

static const char *const kind_names[VERDICT_KIND_COUNT] = {
    [VERDICT_STRAGGLER] = "straggler",
    [VERDICT_IMBALANCE] = "imbalance",
    [VERDICT_SYNC_STALL] = "sync-stall",
    [VERDICT_INPUT_STALL] = "input-stall",
    [VERDICT_CHECKPOINT_STALL] = "checkpoint-stall",
    [VERDICT_STARTUP_STALL] = "startup-stall",
    [VERDICT_HANG] = "hang",
    [VERDICT_DESYNC] = "desync",
    [VERDICT_CRASH] = "crash",
    [VERDICT_CORRUPTION] = "corruption",
    [VERDICT_REGRESSION] = "regression",
    [VERDICT_NODE_FAULT] = "node-fault",
};

static const char *const layer_names[LAYER_COUNT] = {
    [LAYER_UNKNOWN] = "unknown",
    [LAYER_GPU] = "gpu",
    [LAYER_GPU_MEMORY] = "gpu-memory",
    [LAYER_THERMAL] = "thermal",
    [LAYER_POWER] = "power",
    [LAYER_PCIE] = "pcie",
    [LAYER_NVLINK] = "nvlink",
    [LAYER_NIC] = "nic",
    [LAYER_FABRIC] = "fabric",
    [LAYER_STORAGE] = "storage",
    [LAYER_CPU] = "cpu",
    [LAYER_HOST_MEMORY] = "host-memory",
    [LAYER_DATA] = "data",
    [LAYER_CHECKPOINT] = "checkpoint",
    [LAYER_FRAMEWORK] = "framework",
    [LAYER_USER_CODE] = "user-code",
};

const char *verdict_kind_name(unsigned kind)
{
    return kind > 0 && kind < VERDICT_KIND_COUNT ? kind_names[kind] : "unknown";
}

const char *verdict_layer_name(unsigned layer)
{
    return layer < LAYER_COUNT ? layer_names[layer] : "unknown";
}

bool verdict_layer_is_device(unsigned layer)
{
    return layer == LAYER_GPU || layer == LAYER_GPU_MEMORY || layer == LAYER_THERMAL ||
           layer == LAYER_POWER || layer == LAYER_PCIE || layer == LAYER_NVLINK;
}

bool verdict_names_rank(const struct verdict *verdict, uint32_t rank)
{
    for (uint32_t i = 0; i < MIN(verdict->rank_count, VERDICT_RANKS); i++) {
        if (verdict->rank[i] == rank)
            return true;
    }
    return false;
}

/* What tells faults apart that concern a node, or of which no rank is known. */
static uint64_t verdict_hash_place(const struct verdict *verdict, uint64_t id)
{
    id = hash64_u64(id, verdict->layer);
    id = hash64(id, verdict->cause, strlen(verdict->cause));
    id = hash64(id, verdict->device, strlen(verdict->device));
    for (uint32_t i = 0; i < verdict->node_count && i < VERDICT_NODES; i++)
        id = hash64(id, verdict->node[i], strlen(verdict->node[i]));
    return id;
}

void verdict_identify(struct verdict *verdict)
{
    uint64_t id = hash64(verdict->kind, verdict->run, strlen(verdict->run));

    /* A rank that crashes at the same step again, also in another attempt, has the same fault. */
    id = hash64_u64(id, verdict->kind == VERDICT_CRASH ? verdict->since_step : 0);
    id = hash64_u64(id, verdict->rank_count);
    for (uint32_t i = 0; i < verdict->rank_count && i < VERDICT_RANKS; i++)
        id = hash64_u64(id, verdict->rank[i]);
    id = hash64(id, verdict->group, strlen(verdict->group));
    if (verdict->kind == VERDICT_NODE_FAULT ||
        (verdict->kind == VERDICT_CRASH && !verdict->rank_count))
        id = verdict_hash_place(verdict, id);
    snprintf(verdict->id, sizeof(verdict->id), "%s-%08x",
             (const char *[]){ "v", "st", "im", "sy", "in", "ck", "su", "ha", "de", "cr", "co",
                               "re", "no" }[verdict->kind < VERDICT_KIND_COUNT ? verdict->kind : 0],
             (unsigned)(id ^ id >> 32));
}

static void __attribute__((format(printf, 4, 0)))
verdict_line_put(struct verdict_line *line, uint32_t *count, const char *source, const char *format,
                 va_list args)
{
    if (*count >= VERDICT_LINES)
        return;
    vsnprintf(line[*count].what, sizeof(line->what), format, args);
    snprintf(line[*count].source, sizeof(line->source), "%s", source);
    (*count)++;
}

void verdict_because(struct verdict *verdict, const char *source, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    verdict_line_put(verdict->because, &verdict->because_count, source, format, args);
    va_end(args);
}

void verdict_rule_out(struct verdict *verdict, unsigned layer, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    verdict_line_put(verdict->ruled_out, &verdict->ruled_out_count, verdict_layer_name(layer),
                     format, args);
    va_end(args);
}

static void verdict_lines_put(struct buf *out, const struct verdict_line *line, uint32_t count)
{
    buf_put_u32(out, count);
    for (uint32_t i = 0; i < count; i++) {
        buf_put_str(out, line[i].what);
        buf_put_str(out, line[i].source);
    }
}

void verdict_put(struct buf *out, const struct verdict *verdict)
{
    uint32_t ranks = MIN(verdict->rank_count, VERDICT_RANKS);
    uint32_t nodes = MIN(verdict->node_count, VERDICT_NODES);

    assert(verdict->because_count > 0);
    buf_put_str(out, verdict->id);
    buf_put_str(out, verdict->run);
    buf_put_u8(out, verdict->kind);
    buf_put_u8(out, verdict->layer);
    buf_put_str(out, verdict->cause);
    buf_put_u32(out, verdict->rank_count);
    for (uint32_t i = 0; i < ranks; i++)
        buf_put_u32(out, verdict->rank[i]);
    buf_put_u32(out, verdict->node_count);
    for (uint32_t i = 0; i < nodes; i++)
        buf_put_str(out, verdict->node[i]);
    buf_put_str(out, verdict->device);
    buf_put_str(out, verdict->group);
    buf_put_f64(out, verdict->confidence);
    buf_put_u64(out, verdict->since_step);
    buf_put_u64(out, verdict->decided_step);
    buf_put_u64(out, (uint64_t)verdict->since_real_ns);
    buf_put_u64(out, (uint64_t)verdict->decided_real_ns);
    buf_put_u64(out, (uint64_t)verdict->until_real_ns);
    buf_put_f64(out, verdict->seconds_per_step);
    buf_put_f64(out, verdict->gpu_seconds);
    verdict_lines_put(out, verdict->because, verdict->because_count);
    verdict_lines_put(out, verdict->ruled_out, verdict->ruled_out_count);
    verdict_lines_put(out, verdict->echo, verdict->echo_count);
    buf_put_str(out, verdict->plan);
    buf_put_str(out, verdict->plan_state);
}

static uint32_t verdict_lines_get(struct reader *in, struct verdict_line *line)
{
    uint32_t count = reader_get_u32(in);

    if (count > VERDICT_LINES) {
        in->bad = true;
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        reader_get_str(in, line[i].what, sizeof(line[i].what));
        reader_get_str(in, line[i].source, sizeof(line[i].source));
    }
    return count;
}

int verdict_get(struct reader in, struct verdict *ret)
{
    struct verdict verdict = { 0 };

    reader_get_str(&in, verdict.id, sizeof(verdict.id));
    reader_get_str(&in, verdict.run, sizeof(verdict.run));
    verdict.kind = reader_get_u8(&in);
    verdict.layer = reader_get_u8(&in);
    reader_get_str(&in, verdict.cause, sizeof(verdict.cause));
    verdict.rank_count = reader_get_u32(&in);
    for (uint32_t i = 0; i < MIN(verdict.rank_count, VERDICT_RANKS) && !in.bad; i++)
        verdict.rank[i] = reader_get_u32(&in);
    verdict.node_count = reader_get_u32(&in);
    for (uint32_t i = 0; i < MIN(verdict.node_count, VERDICT_NODES) && !in.bad; i++)
        reader_get_str(&in, verdict.node[i], sizeof(verdict.node[i]));
    reader_get_str(&in, verdict.device, sizeof(verdict.device));
    reader_get_str(&in, verdict.group, sizeof(verdict.group));
    verdict.confidence = reader_get_f64(&in);
    verdict.since_step = reader_get_u64(&in);
    verdict.decided_step = reader_get_u64(&in);
    verdict.since_real_ns = (int64_t)reader_get_u64(&in);
    verdict.decided_real_ns = (int64_t)reader_get_u64(&in);
    verdict.until_real_ns = (int64_t)reader_get_u64(&in);
    verdict.seconds_per_step = reader_get_f64(&in);
    verdict.gpu_seconds = reader_get_f64(&in);
    verdict.because_count = verdict_lines_get(&in, verdict.because);
    verdict.ruled_out_count = verdict_lines_get(&in, verdict.ruled_out);
    verdict.echo_count = verdict_lines_get(&in, verdict.echo);
    reader_get_str(&in, verdict.plan, sizeof(verdict.plan));
    reader_get_str(&in, verdict.plan_state, sizeof(verdict.plan_state));
    if (in.bad || verdict.because_count == 0 || !(verdict.confidence >= 0) ||
        verdict.confidence > 1 || verdict.kind == 0 || verdict.kind >= VERDICT_KIND_COUNT ||
        verdict.layer >= LAYER_COUNT)
        return -EPROTO;
    *ret = verdict;
    return 0;
}
