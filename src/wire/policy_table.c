/* policy_table.c - the encoding of a policy's table and means.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/policy_table.h"

#include <errno.h>

#include "core/clean.h"
#include "wire/field.h"

#define KIND_BITS ((1u << VERDICT_KIND_COUNT) - 2)
#define LAYER_BITS ((1u << LAYER_COUNT) - 1)
#define ACTION_BITS ((1u << ACTION_COUNT) - 1)
_Static_assert(VERDICT_KIND_COUNT < 32 && LAYER_COUNT < 32 && ACTION_COUNT < 32, "bits of 32");

unsigned verdict_kind_severity(unsigned kind)
{
    switch (kind) {
    case VERDICT_HANG:
    case VERDICT_DESYNC:
    case VERDICT_CRASH:
    case VERDICT_CORRUPTION:
        return FINDING_FATAL;
    case VERDICT_IMBALANCE:
        return FINDING_INFO;
    default:
        return FINDING_WARN;
    }
}

static uint32_t policy_get_bits(struct reader *in, uint32_t most)
{
    uint32_t bits = reader_get_u32(in);

    if (bits & ~most)
        in->bad = true;
    return bits;
}

static uint32_t policy_get_count(struct reader *in, uint32_t least, uint32_t most)
{
    uint32_t count = reader_get_u32(in);

    if (count < least || count > most) {
        in->bad = true;
        return 0;
    }
    return count;
}

static double policy_get_share(struct reader *in)
{
    double share = field_get_finite(in);

    if (share < 0 || share > 1)
        in->bad = true;
    return share;
}

static int64_t policy_get_duration(struct reader *in)
{
    int64_t duration_ns = field_get_mono(in);

    if (duration_ns < 0)
        in->bad = true;
    return duration_ns;
}

static void policy_row_put(struct buf *out, const struct policy_row *row)
{
    buf_put_str(out, row->name);
    buf_put_u32(out, row->kinds);
    buf_put_u32(out, row->layers);
    buf_put_u8(out, row->severity);
    buf_put_f64(out, row->confidence);
    buf_put_u32(out, row->action_count);
    for (uint32_t i = 0; i < row->action_count; i++)
        buf_put_u8(out, row->action[i]);
    buf_put_str(out, row->reason);
}

static void policy_row_get(struct reader *in, struct policy_row *ret)
{
    reader_get_str(in, ret->name, sizeof(ret->name));
    ret->kinds = policy_get_bits(in, KIND_BITS);
    ret->layers = policy_get_bits(in, LAYER_BITS);
    ret->severity = field_get_enum(in, FINDING_INFO, FINDING_SEVERITY_COUNT);
    ret->confidence = policy_get_share(in);
    ret->action_count = policy_get_count(in, 1, POLICY_ACTIONS);
    for (uint32_t i = 0; i < ret->action_count; i++)
        ret->action[i] = field_get_enum(in, ACTION_NONE, ACTION_COUNT);
    reader_get_str(in, ret->reason, sizeof(ret->reason));
}

static void policy_severities_put(struct buf *out, const uint8_t *severity, uint32_t count)
{
    buf_put_u32(out, count);
    for (uint32_t i = 0; i < count; i++)
        buf_put_u8(out, severity[i]);
}

/* A later version may have more kinds; those are not ours. */
static void policy_severities_get(struct reader *in, uint8_t *ret, uint32_t room)
{
    uint32_t count = policy_get_count(in, 0, UINT8_MAX);

    for (uint32_t i = 0; i < count; i++) {
        uint8_t severity = field_get_enum(in, 0, FINDING_SEVERITY_COUNT);

        if (i < room)
            ret[i] = severity;
    }
}

void policy_table_put(struct buf *out, const struct policy_table *table)
{
    field_put_i64(out, table->mono_ns); /* first, for fact_when() */
    field_put_i64(out, table->real_ns);
    buf_put_str(out, table->name);
    buf_put_u32(out, table->restarts_per_hour);
    buf_put_u32(out, table->restarts_per_cause);
    buf_put_u32(out, table->drains_per_hour);
    buf_put_f64(out, table->fleet_share);
    field_put_i64(out, table->cool_down_ns);
    buf_put_u32(out, table->breaker);
    buf_put_u32(out, table->crash_loop);
    buf_put_u32(out, table->poison_step);
    field_put_i64(out, table->horizon_ns);
    buf_put_u32(out, table->exit_count);
    for (uint32_t i = 0; i < table->exit_count; i++)
        buf_put_u8(out, table->exit[i]);
    policy_severities_put(out, table->verdict_severity, VERDICT_KIND_COUNT);
    policy_severities_put(out, table->finding_severity, FINDING_KIND_COUNT);
    buf_put_u32(out, table->rows);
    for (uint32_t i = 0; i < table->rows; i++)
        policy_row_put(out, &table->row[i]);
}

int policy_table_get(struct reader in, struct policy_table *ret)
{
    struct policy_table table = { .mono_ns = field_get_mono(&in) };

    table.real_ns = field_get_real(&in);
    reader_get_str(&in, table.name, sizeof(table.name));
    table.restarts_per_hour = reader_get_u32(&in);
    table.restarts_per_cause = reader_get_u32(&in);
    table.drains_per_hour = reader_get_u32(&in);
    table.fleet_share = policy_get_share(&in);
    table.cool_down_ns = policy_get_duration(&in);
    table.breaker = reader_get_u32(&in);
    table.crash_loop = reader_get_u32(&in);
    table.poison_step = reader_get_u32(&in);
    table.horizon_ns = policy_get_duration(&in);
    table.exit_count = policy_get_count(&in, 0, POLICY_EXITS);
    for (uint32_t i = 0; i < table.exit_count; i++)
        table.exit[i] = reader_get_u8(&in);
    policy_severities_get(&in, table.verdict_severity, VERDICT_KIND_COUNT);
    policy_severities_get(&in, table.finding_severity, FINDING_KIND_COUNT);
    table.rows = policy_get_count(&in, 0, POLICY_ROWS);
    for (uint32_t i = 0; i < table.rows; i++)
        policy_row_get(&in, &table.row[i]);
    if (in.bad)
        return -EPROTO;
    *ret = table;
    return 0;
}

/* ---- means ---- */

void policy_means_put(struct buf *out, const struct policy_means *means)
{
    field_put_i64(out, means->mono_ns); /* first, for fact_when() */
    field_put_i64(out, means->real_ns);
    buf_put_u8(out, means->mode);
    buf_put_u32(out, means->actions);
    buf_put_u32(out, means->restarts_left);
    field_put_bool(out, means->restart_hangs);
    buf_put_u32(out, means->spares);
    field_put_i64(out, means->end_real_ns);
    buf_put_u64(out, means->steps);
    field_put_i64(out, means->submit_real_ns);
    field_put_i64(out, means->start_real_ns);
}

int policy_means_get(struct reader in, struct policy_means *ret)
{
    struct policy_means means = { .mono_ns = field_get_mono(&in) };

    means.real_ns = field_get_real(&in);
    means.mode = field_get_enum(&in, 1, POLICY_MODE_COUNT);
    means.actions = policy_get_bits(&in, ACTION_BITS);
    means.restarts_left = reader_get_u32(&in);
    means.restart_hangs = field_get_bool(&in);
    means.spares = reader_get_u32(&in);
    means.end_real_ns = field_get_real(&in);
    means.steps = reader_get_u64(&in);
    if (reader_left(&in)) { /* earlier ones have none */
        means.submit_real_ns = field_get_real(&in);
        means.start_real_ns = field_get_real(&in);
    }
    if (in.bad)
        return -EPROTO;
    *ret = means;
    return 0;
}
