/* A core for tests of what is around it: every tenth step is a verdict, every tick that follows a
 * fact a ledger, and both depend on every frame and tick so far and their order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/core.h"
#include "core/hash.h"
#include "wire/verdict.h"

struct core {
    char run[64];
    uint64_t hash; /* of everything fed */
    uint64_t steps, judged, fed, reported;
    struct core_counts counts;
    struct thresholds limits;
};

int core_create(const char *run, struct core **ret)
{
    struct core *core = calloc(1, sizeof(*core));

    if (!core)
        return -ENOMEM;
    snprintf(core->run, sizeof(core->run), "%s", run);
    thresholds_default(&core->limits);
    *ret = core;
    return 0;
}

size_t core_bytes(const struct core *core)
{
    return sizeof(*core);
}

void core_watch_steps(struct core *core, core_watch *watch, void *arg)
{
    (void)core;
    (void)watch;
    (void)arg;
}

void core_destroy(struct core *core)
{
    free(core);
}

void core_report_open(struct core *core)
{
    (void)core;
}

double core_verdict_cost(const struct core *core, const char *id)
{
    (void)core;
    (void)id;
    return -1;
}

void core_ledger(const struct core *core, struct ledger *ret)
{
    (void)core;
    *ret = (struct ledger){ 0 };
}

const struct thresholds *core_thresholds(const struct core *core)
{
    return &core->limits;
}

int core_feed(struct core *core, const struct frame *frame, struct err *err)
{
    core->counts.frames++;
    core->fed++;
    if (frame->type == FRAME_STEP && frame->payload_bytes < 8) {
        core->counts.malformed++;
        return err_set(err, -EPROTO, "a step of %zu bytes", frame->payload_bytes);
    }
    if (frame->type == FRAME_STEP && frame->payload_bytes == 9) { /* as the real one with shapes */
        core->counts.malformed++;
        return err_set(err, -ENOSPC, "no room for it");
    }
    core->hash = hash64_u64(hash64_u64(core->hash, frame->sender), frame->number);
    core->steps += frame->type == FRAME_STEP;
    return 0;
}

static void emit_verdict(struct core *core, const struct fact_tick *now, int last, core_emit *emit,
                         void *arg)
{
    struct verdict verdict = {
        .kind = VERDICT_STRAGGLER,
        .layer = LAYER_GPU,
        .confidence = 0.9,
        .rank_count = 1,
        .rank[0] = (uint32_t)(core->judged / 10 % 8),
        .since_step = core->judged,
        .decided_step = core->judged,
        .since_real_ns = now->real_ns,
        .decided_real_ns = now->real_ns,
        .until_real_ns = last ? now->real_ns : 0,
    };
    struct buf payload = { 0 };

    snprintf(verdict.run, sizeof(verdict.run), "%s", core->run);
    verdict_because(&verdict, "test", "hash %016llx", (unsigned long long)core->hash);
    verdict_identify(&verdict);
    verdict_put(&payload, &verdict);
    emit(arg, FRAME_VERDICT, &payload);
    buf_fini(&payload);
}

void core_tick(struct core *core, const struct fact_tick *now, int last, core_emit *emit, void *arg)
{
    struct ledger ledger = { .ranks = 8, .steps = core->steps };
    struct buf payload = { 0 };

    core->hash = hash64_u64(core->hash, (uint64_t)now->mono_ns);
    for (; core->judged + 10 <= core->steps; core->judged += 10)
        emit_verdict(core, now, last, emit, arg);
    if (core->reported == core->fed && !last)
        return;
    core->reported = core->fed;
    ledger.wall_seconds = (double)(core->hash >> 20);
    ledger_put(&payload, &ledger);
    emit(arg, FRAME_LEDGER, &payload);
    buf_fini(&payload);
}

void core_counts(const struct core *core, struct core_counts *ret)
{
    *ret = core->counts;
}

bool core_node_clock(const struct core *core, const char *node, int64_t *offset_ns,
                     int64_t *error_ns)
{
    (void)core;
    (void)node;
    (void)offset_ns;
    (void)error_ns;
    return false;
}

void core_follow(struct core *core, bool follow)
{
    (void)core;
    (void)follow;
}

void core_follow_log(struct core *core, const struct decision *decision)
{
    (void)core;
    (void)decision;
}

const struct policy *core_policy(const struct core *core)
{
    (void)core;
    return NULL;
}

enum core_touch core_touch(const struct core *core, struct finding *finding)
{
    (void)core;
    (void)finding;
    return CORE_TOUCH_NONE;
}
