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

static uint64_t id_key(const struct verdict *verdict)
{
    return hash64(0, verdict->id, strnlen(verdict->id, sizeof(verdict->id)));
}

static struct carried *carried_find(const struct carry *carry, const struct verdict *verdict)
{
    const uint64_t *at = map_get(&carry->id, id_key(verdict));

    return at ? &carry->one[*at] : NULL;
}

static struct carried *carried_get(struct carry *carry, const struct verdict *verdict)
{
    struct carried *one = carried_find(carry, verdict);

    if (one)
        return one;
    if (!ARRAY_FIT(carry->one, carry->room, carry->count + 1) ||
        !map_put(&carry->id, id_key(verdict), carry->count))
        return NULL;
    one = &carry->one[carry->count++];
    memset(one, 0, sizeof(*one));
    return one;
}

/* What the old one counts and the new one does not. */
static void ledger_before(struct carry *carry, const struct ledger *old, const struct core *core)
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
        ledger_before(carry, &ledger, core);
    if (type != FRAME_VERDICT || verdict_get(in, &verdict) < 0)
        return 0;
    one = carried_get(carry, &verdict);
    if (!one)
        return -ENOMEM;
    one->said = verdict;
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
    one = carried_get(carry, &verdict);
    if (!one)
        return -ENOMEM;
    one->warm = verdict;
    one->warm_tick = carry->tick;
    return 0;
}

static bool is_open(const struct verdict *verdict)
{
    return verdict->id[0] && verdict->until_real_ns == 0;
}

bool carry_is_ready(const struct carry *carry)
{
    return carry->has_ledger && carry->told_tick && carry->tick >= carry->told_tick;
}

void carry_speak(struct carry *carry)
{
    carry->active = true;
    for (size_t i = 0; i < carry->count; i++) {
        struct carried *one = &carry->one[i];
        bool old = is_open(&one->said), new = is_open(&one->warm);

        one->goes_on = old && new;
        one->orphan = old && !new;
        one->hidden =
            new && !old && (one->said.id[0] || one->warm.since_real_ns <= carry->whole_real_ns);
        one->untold = new && !old && !one->hidden;
    }
}

static void tell_verdict(const struct verdict *verdict, core_emit *emit, void *arg)
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
    if (one->said.since_real_ns < verdict->since_real_ns) {
        verdict->since_real_ns = one->said.since_real_ns;
        verdict->since_step = one->said.since_step;
    }
    verdict->decided_real_ns = one->said.decided_real_ns;
    verdict->decided_step = one->said.decided_step;
    one->goes_on = is_open(verdict);
}

static void tell_ledger(struct carry *carry, struct ledger *ledger, core_emit *emit, void *arg)
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

void carry_tell(struct carry *carry, uint16_t type, const struct buf *payload, core_emit *emit,
                void *arg)
{
    struct reader in = reader_of(payload->data, payload->size);
    struct verdict verdict;
    struct ledger ledger;
    struct carried *one;

    if (type == FRAME_LEDGER && carry->has_ledger && ledger_get(in, &ledger) == 0) {
        tell_ledger(carry, &ledger, emit, arg);
        return;
    }
    one = type == FRAME_VERDICT && verdict_get(in, &verdict) == 0 ? carried_find(carry, &verdict)
                                                                  : NULL;
    if (!one) {
        emit(arg, type, payload);
        return;
    }
    if (one->hidden) {
        one->hidden = is_open(&verdict);
        return;
    }
    one->untold = one->orphan = false;
    carry_go_on(one, &verdict);
    tell_verdict(&verdict, emit, arg);
}

void carry_tick(struct carry *carry, const struct fact_tick *tick, core_emit *emit, void *arg)
{
    for (size_t i = 0; i < carry->count; i++) {
        struct carried *one = &carry->one[i];

        if (one->untold) {
            tell_verdict(&one->warm, emit, arg);
            one->untold = false;
        }
        if (one->orphan && tick->flags & TICK_LAST) {
            one->said.until_real_ns = tick->real_ns;
            tell_verdict(&one->said, emit, arg);
            one->orphan = false;
        }
    }
}
