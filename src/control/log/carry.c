/* carry.c - joins earlier verdicts with those of new judges.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/carry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "core/hash.h"

void carry_fini(struct carry *carry)
{
    free(carry->one);
    map_fini(&carry->id);
    *carry = (struct carry){ 0 };
}

static uint64_t carry_id_key(const struct verdict *verdict)
{
    return hash64(0, verdict->id, strnlen(verdict->id, sizeof(verdict->id)));
}

static struct carried *carry_carried_find(const struct carry *carry, const struct verdict *verdict)
{
    const uint64_t *at = map_get(&carry->id, carry_id_key(verdict));

    return at ? &carry->one[*at] : NULL;
}

static struct carried *carry_carried_get(struct carry *carry, const struct verdict *verdict)
{
    struct carried *one = carry_carried_find(carry, verdict);

    if (one)
        return one;
    if (!ARRAY_FIT(carry->one, carry->room, carry->count + 1) ||
        !map_put(&carry->id, carry_id_key(verdict), carry->count))
        return NULL;
    one = &carry->one[carry->count++];
    memset(one, 0, sizeof(*one));
    return one;
}

/* What the old one counts and the new one does not. */
static void carry_ledger_before(struct carry *carry, const struct ledger *old,
                                const struct core *core)
{
    struct ledger now;

    core_ledger(core, &now);
    carry->before = *old;
    carry->before.wall_seconds -= now.wall_seconds;
    for (unsigned i = 0; i < LEDGER_BUCKETS; i++)
        carry->before.gpu_seconds[i] -= now.gpu_seconds[i];
    carry->before.steps -= MIN(old->steps, now.steps);
    carry->before.unfit_steps -= MIN(old->unfit_steps, now.unfit_steps);
    carry->has_ledger = true;
}

int carry_output(struct carry *carry, uint16_t type, struct reader in, const struct core *core)
{
    struct carried *one;
    struct ledger ledger;
    struct verdict verdict;

    if (type == FRAME_LEDGER && core && ledger_get(in, &ledger) == 0)
        carry_ledger_before(carry, &ledger, core);
    if (type != FRAME_VERDICT || verdict_get(in, &verdict) < 0)
        return 0;
    one = carry_carried_get(carry, &verdict);
    if (!one)
        return -ENOMEM;
    one->old = verdict;
    if (core && one->warm_tick == carry->tick)
        one->before_seconds = MAX(0.0, verdict.gpu_seconds - one->warm.gpu_seconds);
    return 0;
}

int carry_warm(struct carry *carry, uint16_t type, const struct buf *payload)
{
    struct carried *one;
    struct verdict verdict;

    if (type != FRAME_VERDICT || verdict_get(reader_of(payload->data, payload->size), &verdict) < 0)
        return 0;
    one = carry_carried_get(carry, &verdict);
    if (!one)
        return -ENOMEM;
    one->warm = verdict;
    one->warm_tick = carry->tick;
    return 0;
}

static bool carry_is_open(const struct verdict *verdict)
{
    return verdict->id[0] && verdict->until_real_ns == 0;
}

bool carry_is_ready(const struct carry *carry)
{
    return carry->has_ledger && carry->reported_tick && carry->tick >= carry->reported_tick;
}

void carry_speak(struct carry *carry)
{
    carry->active = true;
    for (size_t i = 0; i < carry->count; i++) {
        struct carried *one = &carry->one[i];
        bool old = carry_is_open(&one->old), new = carry_is_open(&one->warm);

        one->goes_on = old && new;
        one->orphan = old && !new;
        one->hidden =
            new && !old && (one->old.id[0] || one->warm.since_real_ns <= carry->complete_real_ns);
        one->unwritten = new && !old && !one->hidden;
    }
}

static void carry_verdict(const struct verdict *verdict, core_emit *emit, void *arg)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    verdict_put(&payload, verdict);
    emit(arg, FRAME_VERDICT, &payload);
}

static void carry_go_on(struct carried *one, struct verdict *verdict)
{
    verdict->gpu_seconds += one->before_seconds;
    if (!one->goes_on)
        return;
    if (one->old.since_real_ns < verdict->since_real_ns) {
        verdict->since_real_ns = one->old.since_real_ns;
        verdict->since_step = one->old.since_step;
    }
    verdict->decided_real_ns = one->old.decided_real_ns;
    verdict->decided_step = one->old.decided_step;
    one->goes_on = carry_is_open(verdict);
}

static void carry_ledger(struct carry *carry, struct ledger *ledger, core_emit *emit, void *arg)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    double short_by = 0;

    ledger->wall_seconds += carry->before.wall_seconds;
    ledger->steps += carry->before.steps;
    ledger->unfit_steps += carry->before.unfit_steps;
    ledger->host_view |= carry->before.host_view;
    for (unsigned i = 0; i < LEDGER_BUCKETS; i++) {
        double sum = ledger->gpu_seconds[i] + carry->before.gpu_seconds[i];

        /* The new judges put a time that they have not seen elsewhere than they did at first. */
        short_by += MIN(sum, 0.0);
        ledger->gpu_seconds[i] = MAX(sum, 0.0);
    }
    ledger->gpu_seconds[LEDGER_UNATTRIBUTED] =
        MAX(ledger->gpu_seconds[LEDGER_UNATTRIBUTED] + short_by, 0.0);
    ledger_put(&payload, ledger);
    emit(arg, FRAME_LEDGER, &payload);
}

void carry_emit(struct carry *carry, uint16_t type, const struct buf *payload, core_emit *emit,
                void *arg)
{
    struct reader in = reader_of(payload->data, payload->size);
    struct verdict verdict;
    struct ledger ledger;
    struct carried *one;

    if (type == FRAME_LEDGER && carry->has_ledger && ledger_get(in, &ledger) == 0) {
        carry_ledger(carry, &ledger, emit, arg);
        return;
    }
    one = type == FRAME_VERDICT && verdict_get(in, &verdict) == 0
              ? carry_carried_find(carry, &verdict)
              : NULL;
    if (!one) {
        emit(arg, type, payload);
        return;
    }
    if (one->hidden) {
        one->hidden = carry_is_open(&verdict);
        return;
    }
    one->unwritten = one->orphan = false;
    carry_go_on(one, &verdict);
    carry_verdict(&verdict, emit, arg);
}

void carry_tick(struct carry *carry, const struct fact_tick *tick, core_emit *emit, void *arg)
{
    for (size_t i = 0; i < carry->count; i++) {
        struct carried *one = &carry->one[i];

        if (one->unwritten) {
            carry_verdict(&one->warm, emit, arg);
            one->unwritten = false;
        }
        if (one->orphan && tick->flags & TICK_LAST) {
            one->old.until_real_ns = tick->real_ns;
            carry_verdict(&one->old, emit, arg);
            one->orphan = false;
        }
    }
}
