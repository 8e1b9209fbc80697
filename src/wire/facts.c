/* facts.c - encodes and decodes the small facts; steps and shapes are in steps.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "wire/facts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/clean.h"
#include "wire/field.h"
#include "wire/frame.h"

#define LAYOUT_FIELDS 10

void fact_hello_put(struct buf *out, const struct fact_hello *fact)
{
    buf_put_u8(out, fact->kind);
    buf_put_str(out, fact->run);
    buf_put_str(out, fact->node);
    buf_put_str(out, fact->version);
    field_put_i64(out, fact->mono_ns);
    field_put_i64(out, fact->real_ns);
}

int fact_hello_get(struct reader in, struct fact_hello *ret)
{
    struct fact_hello fact = { .kind = reader_get_u8(&in) };

    reader_get_str(&in, fact.run, sizeof(fact.run));
    reader_get_str(&in, fact.node, sizeof(fact.node));
    reader_get_str(&in, fact.version, sizeof(fact.version));
    fact.mono_ns = field_get_mono(&in);
    fact.real_ns = field_get_real(&in);
    if (fact.kind < SENDER_AGENT || fact.kind > SENDER_CONTROL)
        in.bad = true;
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

void fact_ring_put(struct buf *out, const struct fact_ring *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->world);
    buf_put_u32(out, fact->attempt);
    buf_put_u32(out, fact->ring);
    buf_put_u32(out, fact->pid);
    buf_put_str(out, fact->node);
    field_put_i64(out, fact->open_ns);
    field_put_bool(out, fact->has_layout);
    for (int i = 0; i < LAYOUT_FIELDS; i++)
        buf_put_u16(out, fact->layout[i]);
}

int fact_ring_get(struct reader in, struct fact_ring *ret)
{
    struct fact_ring fact = { .rank = reader_get_u32(&in) };

    fact.world = reader_get_u32(&in);
    fact.attempt = reader_get_u32(&in);
    fact.ring = reader_get_u32(&in);
    fact.pid = reader_get_u32(&in);
    reader_get_str(&in, fact.node, sizeof(fact.node));
    fact.open_ns = field_get_mono(&in);
    fact.has_layout = field_get_bool(&in);
    for (int i = 0; i < LAYOUT_FIELDS; i++)
        fact.layout[i] = reader_get_u16(&in);
    for (int i = 0; fact.has_layout && i < LAYOUT_FIELDS / 2; i++) {
        if (fact.layout[i + LAYOUT_FIELDS / 2] >= fact.layout[i])
            in.bad = true;
    }
    if (fact.world && fact.rank >= fact.world)
        in.bad = true;
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

void fact_comm_put(struct buf *out, const struct fact_comm *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    buf_put_u64(out, fact->id);
    buf_put_u32(out, fact->size);
    buf_put_u32(out, fact->index);
    buf_put_u32(out, fact->kind);
    buf_put_str(out, fact->name);
}

int fact_comm_get(struct reader in, struct fact_comm *ret)
{
    struct fact_comm fact = { .rank = reader_get_u32(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.id = reader_get_u64(&in);
    fact.size = reader_get_u32(&in);
    fact.index = reader_get_u32(&in);
    fact.kind = reader_get_u32(&in);
    reader_get_str(&in, fact.name, sizeof(fact.name));
    if (fact.index >= fact.size || fact.id == 0)
        in.bad = true;
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

static bool facts_beat_has_dtypes(const struct fact_beat *fact)
{
    bool any = false;

    for (uint32_t i = 0; i < fact->ops && i < BEAT_OPS_MAX; i++)
        any |= fact->op[i].dtype != 0;
    return any;
}

static bool facts_beat_has_storage(const struct fact_beat *fact)
{
    bool any = false;

    for (int i = 0; i < BEAT_STORAGE_COUNT; i++)
        any |= fact->storage[i].looks != 0;
    return any;
}

/* What was appended to beats later is written only where there is something to say. */
static bool facts_beat_has_more(const struct fact_beat *fact)
{
    bool more = fact->phases || fact->oom_kills || fact->channels || facts_beat_has_storage(fact) ||
                facts_beat_has_dtypes(fact);

    for (uint32_t i = 0; i < fact->ops && i < BEAT_OPS_MAX; i++)
        more |=
            fact->op[i].bytes || fact->op[i].peer || fact->op[i].ordinal || fact->op[i].queued_ns;
    return more;
}

static void facts_beat_more_put(struct buf *out, const struct fact_beat *fact)
{
    /* What comes last needs all before it. */
    bool typed = facts_beat_has_dtypes(fact), storage = typed || facts_beat_has_storage(fact),
         queued = storage;

    buf_put_u32(out, fact->phases);
    buf_put_u32(out, fact->oom_kills);
    for (uint32_t i = 0; i < fact->ops && i < BEAT_OPS_MAX; i++) {
        buf_put_u64(out, fact->op[i].bytes);
        buf_put_u32(out, fact->op[i].peer);
        buf_put_u64(out, fact->op[i].ordinal);
    }
    buf_put_u32(out, fact->channels);
    for (uint32_t i = 0; i < fact->channels && i < BEAT_CHANNELS_MAX; i++) {
        const struct beat_channel *channel = &fact->channel[i];

        buf_put_u64(out, channel->comm);
        buf_put_u8(out, channel->what);
        buf_put_u32(out, channel->peer);
        buf_put_u64(out, channel->enqueued);
        buf_put_u64(out, channel->started);
        buf_put_u64(out, channel->ended);
    }
    for (uint32_t i = 0; i < fact->ops && i < BEAT_OPS_MAX; i++)
        queued |= fact->op[i].queued_ns != 0;
    for (uint32_t i = 0; queued && i < fact->ops && i < BEAT_OPS_MAX; i++)
        field_put_i64(out, fact->op[i].queued_ns);
    for (int i = 0; storage && i < BEAT_STORAGE_COUNT; i++) {
        buf_put_u16(out, fact->storage[i].looks);
        buf_put_u16(out, fact->storage[i].waits);
    }
    for (uint32_t i = 0; typed && i < fact->ops && i < BEAT_OPS_MAX; i++)
        buf_put_u8(out, fact->op[i].dtype);
}

void fact_beat_put(struct buf *out, const struct fact_beat *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    buf_put_u32(out, fact->ring);
    field_put_i64(out, fact->mono_ns);
    buf_put_u8(out, (uint8_t)fact->state);
    buf_put_u8(out, fact->phase);
    field_put_i64(out, fact->phase_age_ns);
    buf_put_u64(out, fact->step);
    field_put_i64(out, fact->step_age_ns);
    field_put_bool(out, fact->advanced);
    field_put_bool(out, fact->final);
    field_put_i64(out, fact->cpu_ns);
    field_put_i64(out, fact->run_delay_ns);
    field_put_i64(out, fact->throttled_ns);
    buf_put_u32(out, fact->dropped);
    buf_put_u32(out, fact->ops);
    for (uint32_t i = 0; i < fact->ops && i < BEAT_OPS_MAX; i++) {
        const struct beat_op *op = &fact->op[i];

        buf_put_u16(out, op->stream);
        buf_put_u8(out, op->kind);
        buf_put_u8(out, op->what);
        buf_put_u64(out, op->comm);
        buf_put_u64(out, op->key);
        field_put_i64(out, op->age_ns);
        field_put_bool(out, op->started);
        field_put_bool(out, op->advanced);
    }
    if (facts_beat_has_more(fact))
        facts_beat_more_put(out, fact);
}

static void facts_beat_op_get(struct reader *in, struct beat_op *op)
{
    op->stream = reader_get_u16(in);
    op->kind = reader_get_u8(in);
    op->what = reader_get_u8(in);
    op->comm = reader_get_u64(in);
    op->key = reader_get_u64(in);
    op->age_ns = field_get_mono(in);
    op->started = field_get_bool(in);
    op->advanced = field_get_bool(in);
}

static void facts_beat_more_get(struct reader *in, struct fact_beat *fact)
{
    fact->phases = reader_get_u32(in);
    fact->oom_kills = reader_get_u32(in);
    for (uint32_t i = 0; i < fact->ops; i++) {
        fact->op[i].bytes = reader_get_u64(in);
        fact->op[i].peer = reader_get_u32(in);
        fact->op[i].ordinal = reader_get_u64(in);
    }
    fact->channels = reader_get_u32(in);
    if (fact->channels > BEAT_CHANNELS_MAX) {
        in->bad = true;
        return;
    }
    for (uint32_t i = 0; i < fact->channels; i++) {
        struct beat_channel *channel = &fact->channel[i];

        channel->comm = reader_get_u64(in);
        channel->what = reader_get_u8(in);
        channel->peer = reader_get_u32(in);
        channel->enqueued = reader_get_u64(in);
        channel->started = reader_get_u64(in);
        channel->ended = reader_get_u64(in);
    }
    for (uint32_t i = 0; reader_left(in) && i < fact->ops; i++)
        fact->op[i].queued_ns = field_get_mono(in);
    for (int i = 0; reader_left(in) && i < BEAT_STORAGE_COUNT; i++) {
        fact->storage[i].looks = reader_get_u16(in);
        fact->storage[i].waits = reader_get_u16(in);
        if (fact->storage[i].waits > fact->storage[i].looks)
            in->bad = true;
    }
    for (uint32_t i = 0; reader_left(in) && i < fact->ops; i++)
        fact->op[i].dtype = reader_get_u8(in);
}

int fact_beat_get(struct reader in, struct fact_beat *ret)
{
    struct fact_beat fact = { .rank = reader_get_u32(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.ring = reader_get_u32(&in);
    fact.mono_ns = field_get_mono(&in);
    fact.state = (char)reader_get_u8(&in);
    fact.phase = reader_get_u8(&in);
    fact.phase_age_ns = field_get_mono(&in);
    fact.step = reader_get_u64(&in);
    fact.step_age_ns = field_get_mono(&in);
    fact.advanced = field_get_bool(&in);
    fact.final = field_get_bool(&in);
    fact.cpu_ns = field_get_i64(&in);
    fact.run_delay_ns = field_get_i64(&in);
    fact.throttled_ns = field_get_i64(&in);
    fact.dropped = reader_get_u32(&in);
    fact.ops = reader_get_u32(&in);
    if (fact.ops > BEAT_OPS_MAX)
        return -EPROTO;
    for (uint32_t i = 0; i < fact.ops; i++)
        facts_beat_op_get(&in, &fact.op[i]);
    if (reader_left(&in)) /* of a writer that knows of it */
        facts_beat_more_get(&in, &fact);
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

void fact_exit_put(struct buf *out, const struct fact_exit *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    field_put_i64(out, fact->mono_ns);
    buf_put_u32(out, (uint32_t)fact->status);
    field_put_bool(out, fact->ended_by_launcher);
    buf_put_str(out, fact->text);
    if (fact->words[0])
        buf_put_str(out, fact->words);
}

int fact_exit_get(struct reader in, struct fact_exit *ret)
{
    struct fact_exit fact = { .rank = reader_get_u32(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.mono_ns = field_get_mono(&in);
    fact.status = (int32_t)reader_get_u32(&in);
    fact.ended_by_launcher = field_get_bool(&in);
    reader_get_str(&in, fact.text, sizeof(fact.text));
    if (reader_left(&in))
        reader_get_str(&in, fact.words, sizeof(fact.words));
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

void fact_gap_put(struct buf *out, const struct fact_gap *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    buf_put_u32(out, fact->ring);
    buf_put_u64(out, fact->records);
    buf_put_u64(out, fact->step_from);
    buf_put_u64(out, fact->step_to);
}

int fact_gap_get(struct reader in, struct fact_gap *ret)
{
    struct fact_gap fact = { .rank = reader_get_u32(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.ring = reader_get_u32(&in);
    fact.records = reader_get_u64(&in);
    fact.step_from = reader_get_u64(&in);
    fact.step_to = reader_get_u64(&in);
    if (fact.step_to < fact.step_from)
        in.bad = true;
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

void fact_note_put(struct buf *out, const struct fact_note *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    buf_put_u64(out, fact->step);
    field_put_i64(out, fact->mono_ns);
    buf_put_str(out, fact->text);
}

int fact_note_get(struct reader in, struct fact_note *ret)
{
    struct fact_note fact = { .rank = reader_get_u32(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.step = reader_get_u64(&in);
    fact.mono_ns = field_get_mono(&in);
    reader_get_str(&in, fact.text, sizeof(fact.text));
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

void fact_stack_put(struct buf *out, const struct fact_stack *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    field_put_i64(out, fact->mono_ns);
    buf_put_u8(out, (uint8_t)fact->state);
    buf_put_str(out, fact->channel);
    buf_put_str(out, fact->kernel);
    buf_put_str(out, fact->native);
    buf_put_str(out, fact->python);
    buf_put_str(out, fact->why_not);
    if (fact->ras[0])
        buf_put_str(out, fact->ras);
}

int fact_stack_get(struct reader in, struct fact_stack *ret)
{
    struct fact_stack fact = { .rank = reader_get_u32(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.mono_ns = field_get_mono(&in);
    fact.state = (char)reader_get_u8(&in);
    reader_get_str(&in, fact.channel, sizeof(fact.channel));
    reader_get_str(&in, fact.kernel, sizeof(fact.kernel));
    reader_get_str(&in, fact.native, sizeof(fact.native));
    reader_get_str(&in, fact.python, sizeof(fact.python));
    reader_get_str(&in, fact.why_not, sizeof(fact.why_not));
    if (reader_left(&in))
        reader_get_str(&in, fact.ras, sizeof(fact.ras));
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

void fact_run_put(struct buf *out, const struct fact_run *fact)
{
    buf_put_u8(out, fact->event);
    buf_put_u32(out, fact->attempt);
    buf_put_u32(out, fact->ranks);
    buf_put_u32(out, (uint32_t)fact->culprit);
    buf_put_u32(out, (uint32_t)fact->status);
    field_put_i64(out, fact->mono_ns);
    field_put_i64(out, fact->real_ns);
    buf_put_str(out, fact->text);
}

int fact_run_get(struct reader in, struct fact_run *ret)
{
    struct fact_run fact = { .event = reader_get_u8(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.ranks = reader_get_u32(&in);
    fact.culprit = (int32_t)reader_get_u32(&in);
    fact.status = (int32_t)reader_get_u32(&in);
    fact.mono_ns = field_get_mono(&in);
    fact.real_ns = field_get_real(&in);
    reader_get_str(&in, fact.text, sizeof(fact.text));
    if (fact.event < RUN_BEGIN || fact.event > RUN_END)
        in.bad = true;
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

void fact_tick_put(struct buf *out, const struct fact_tick *fact)
{
    field_put_i64(out, fact->mono_ns);
    field_put_i64(out, fact->real_ns);
    buf_put_u8(out, fact->flags);
}

int fact_tick_get(struct reader in, struct fact_tick *ret)
{
    struct fact_tick fact = { .mono_ns = field_get_mono(&in) };

    fact.real_ns = field_get_real(&in);
    fact.flags = reader_get_u8(&in);
    if (in.bad)
        return -EPROTO;
    *ret = fact;
    return 0;
}

#define LEDGER_FIRST_BUCKETS LEDGER_DOWN /* that a ledger always has */

/* A ledger without later buckets has the bytes that it always had, so old logs replay. */
void ledger_put(struct buf *out, const struct ledger *ledger)
{
    buf_put_u32(out, ledger->ranks);
    buf_put_u32(out, LEDGER_FIRST_BUCKETS);
    buf_put_f64(out, ledger->wall_seconds);
    for (int i = 0; i < LEDGER_FIRST_BUCKETS; i++)
        buf_put_f64(out, ledger->gpu_seconds[i]);
    buf_put_u64(out, ledger->steps);
    buf_put_u64(out, ledger->unfit_steps);
    field_put_bool(out, ledger->host_view);
    if (ledger->gpu_seconds[LEDGER_DOWN] != 0)
        buf_put_f64(out, ledger->gpu_seconds[LEDGER_DOWN]);
}

int ledger_get(struct reader in, struct ledger *ret)
{
    struct ledger ledger = { .ranks = reader_get_u32(&in) };

    if (reader_get_u32(&in) != LEDGER_FIRST_BUCKETS)
        return -EPROTO;
    ledger.wall_seconds = field_get_finite(&in);
    for (int i = 0; i < LEDGER_FIRST_BUCKETS; i++)
        ledger.gpu_seconds[i] = field_get_finite(&in);
    ledger.steps = reader_get_u64(&in);
    ledger.unfit_steps = reader_get_u64(&in);
    ledger.host_view = field_get_bool(&in);
    if (reader_left(&in))
        ledger.gpu_seconds[LEDGER_DOWN] = field_get_finite(&in);
    if (in.bad)
        return -EPROTO;
    *ret = ledger;
    return 0;
}

static const char *const bucket_names[LEDGER_BUCKETS] = {
    "productive", "straggler-wait", "imbalance", "transfer", "input",
    "checkpoint", "start-up",       "hang",      "restart",  "lost",
    "spare",      "unattributed",   "down",
};

const char *ledger_bucket_name(unsigned bucket)
{
    return bucket < LEDGER_BUCKETS ? bucket_names[bucket] : "unknown";
}

double ledger_total(const struct ledger *ledger)
{
    double sum = 0;

    for (int i = 0; i < LEDGER_BUCKETS; i++)
        sum += ledger->gpu_seconds[i];
    return sum;
}

double ledger_goodput(const struct ledger *ledger)
{
    double all = ledger_total(ledger);

    return all > 0 ? ledger->gpu_seconds[LEDGER_PRODUCTIVE] / all : 0;
}

/* ---- how a communication library moves a collective. ---- */

#define MONO_NS_MAX (10 * INT64_C(31557600000000000))

void fact_method_put(struct buf *out, const struct fact_method *fact)
{
    buf_put_u32(out, fact->rank);
    buf_put_u32(out, fact->attempt);
    buf_put_u64(out, fact->step);
    buf_put_u64(out, (uint64_t)fact->mono_ns);
    buf_put_u64(out, fact->comm);
    buf_put_u8(out, fact->op);
    buf_put_u64(out, fact->bytes);
    buf_put_u32(out, fact->channels);
    buf_put_str(out, fact->text);
}

int fact_method_get(struct reader in, struct fact_method *ret)
{
    struct fact_method fact = { .rank = reader_get_u32(&in) };

    fact.attempt = reader_get_u32(&in);
    fact.step = reader_get_u64(&in);
    fact.mono_ns = (int64_t)reader_get_u64(&in);
    fact.comm = reader_get_u64(&in);
    fact.op = reader_get_u8(&in);
    fact.bytes = reader_get_u64(&in);
    fact.channels = reader_get_u32(&in);
    reader_get_str(&in, fact.text, sizeof(fact.text));
    if (in.bad || fact.mono_ns > MONO_NS_MAX || fact.mono_ns < -MONO_NS_MAX || fact.comm == 0 ||
        fact.op == 0 || fact.op >= LOCKSTEP_OP_SEND || fact.channels > FACT_CHANNELS_MAX)
        return -EPROTO;
    *ret = fact;
    return 0;
}

/* ---- a threshold of the judges that somebody changed. ---- */

#define REAL_NS_MAX (150 * INT64_C(31557600000000000))

void fact_setting_put(struct buf *out, const struct fact_setting *fact)
{
    buf_put_u64(out, (uint64_t)fact->real_ns);
    buf_put_f64(out, fact->value);
    buf_put_str(out, fact->name);
    buf_put_str(out, fact->who);
}

int fact_setting_get(struct reader in, struct fact_setting *ret)
{
    struct fact_setting fact = { .real_ns = (int64_t)reader_get_u64(&in) };

    fact.value = reader_get_f64(&in);
    reader_get_str(&in, fact.name, sizeof(fact.name));
    reader_get_str(&in, fact.who, sizeof(fact.who));
    if (in.bad || !isfinite(fact.value) || !fact.name[0] || fact.real_ns > REAL_NS_MAX ||
        fact.real_ns < -REAL_NS_MAX)
        return -EPROTO;
    *ret = fact;
    return 0;
}

/* ---- what an agent says about its own sending. ---- */

#define MONO_NS_MAX (10 * INT64_C(31557600000000000))

void fact_traffic_put(struct buf *out, const struct fact_traffic *fact)
{
    buf_put_u64(out, (uint64_t)fact->mono_ns);
    buf_put_u64(out, (uint64_t)fact->since_ns);
    buf_put_u64(out, fact->bodies);
    buf_put_u64(out, fact->frames);
    buf_put_u64(out, fact->steps);
    buf_put_u64(out, fact->bytes);
    buf_put_u64(out, fact->wire_bytes);
    buf_put_u64(out, fact->failures);
    buf_put_u64(out, fact->refused);
    buf_put_u64(out, fact->backlog_bytes);
    buf_put_u64(out, fact->spool_bytes);
}

int fact_traffic_get(struct reader in, struct fact_traffic *ret)
{
    struct fact_traffic fact = { .mono_ns = (int64_t)reader_get_u64(&in) };

    fact.since_ns = (int64_t)reader_get_u64(&in);
    fact.bodies = reader_get_u64(&in);
    fact.frames = reader_get_u64(&in);
    fact.steps = reader_get_u64(&in);
    fact.bytes = reader_get_u64(&in);
    fact.wire_bytes = reader_get_u64(&in);
    fact.failures = reader_get_u64(&in);
    fact.refused = reader_get_u64(&in);
    fact.backlog_bytes = reader_get_u64(&in);
    fact.spool_bytes = reader_get_u64(&in);
    if (in.bad || fact.mono_ns > MONO_NS_MAX || fact.mono_ns < -MONO_NS_MAX ||
        fact.since_ns > fact.mono_ns || fact.since_ns < -MONO_NS_MAX)
        return -EPROTO;
    *ret = fact;
    return 0;
}

/* ---- the marks in a log that was compacted while its run was active. ---- */

#define ORIGIN_BYTES 32

void fact_compaction_put(struct buf *out, const struct fact_compaction *fact)
{
    buf_put_u8(out, fact->kind);
    buf_put_u32(out, fact->count);
    for (uint32_t i = 0; i < fact->count; i++) {
        buf_put_u64(out, fact->origin[i].sender);
        buf_put_u64(out, fact->origin[i].boot);
        buf_put_u64(out, fact->origin[i].next);
        buf_put_u64(out, fact->origin[i].dropped);
    }
}

void fact_compaction_fini(struct fact_compaction *fact)
{
    free(fact->origin);
    fact->origin = NULL;
    fact->count = 0;
}

int fact_compaction_get(struct reader in, struct fact_compaction *ret)
{
    struct fact_compaction fact = { .kind = reader_get_u8(&in) };

    fact.count = reader_get_u32(&in);
    if (in.bad || fact.kind < COMPACTION_BEGIN || fact.kind > COMPACTION_VERDICTS ||
        fact.count > reader_left(&in) / ORIGIN_BYTES)
        return -EPROTO;
    fact.origin = calloc(MAX(1, fact.count), sizeof(*fact.origin));
    if (!fact.origin)
        return -ENOMEM;
    for (uint32_t i = 0; i < fact.count; i++) {
        fact.origin[i].sender = reader_get_u64(&in);
        fact.origin[i].boot = reader_get_u64(&in);
        fact.origin[i].next = reader_get_u64(&in);
        fact.origin[i].dropped = reader_get_u64(&in);
    }
    *ret = fact;
    return 0;
}

/* ---- the time of a fact, without decoding the rest ---- */

#define STEP_BEGIN_AT 28 /* shape u64, rank, attempt, ring u32, step u64 come before */
#define BEAT_TIME_AT 12
#define EXIT_TIME_AT 8
#define NOTE_TIME_AT 16
#define STACK_TIME_AT 8
#define RUN_TIME_AT 17

static int64_t fact_time_at(struct reader in, size_t offset)
{
    reader_get(&in, offset);
    return (int64_t)reader_get_u64(&in); /* 0 when the payload is short */
}

static int64_t fact_step_end(struct reader in)
{
    uint64_t begin_ns = (uint64_t)fact_time_at(in, STEP_BEGIN_AT);
    uint64_t duration_ns = (uint64_t)fact_time_at(in, STEP_BEGIN_AT + 8);

    return (int64_t)(begin_ns + duration_ns); /* untrusted: must not overflow as signed */
}

int64_t fact_when(uint16_t type, struct reader in)
{
    struct fact_hello hello;
    struct fact_ring ring;

    switch (type) {
    case FRAME_HELLO:
        return fact_hello_get(in, &hello) < 0 ? 0 : hello.mono_ns;
    case FRAME_RING:
        return fact_ring_get(in, &ring) < 0 ? 0 : ring.open_ns;
    case FRAME_STEP:
        return fact_step_end(in);
    case FRAME_BEAT:
        return fact_time_at(in, BEAT_TIME_AT);
    case FRAME_EXIT:
        return fact_time_at(in, EXIT_TIME_AT);
    case FRAME_NOTE:
    case FRAME_METHOD: /* behind the same fields */
        return fact_time_at(in, NOTE_TIME_AT);
    case FRAME_STACK:
        return fact_time_at(in, STACK_TIME_AT);
    case FRAME_RUN:
        return fact_time_at(in, RUN_TIME_AT);
    case FRAME_TICK:
    case FRAME_TRAFFIC:
    case FRAME_FINDING:
    case FRAME_OUTCOME:
    case FRAME_PLACES:
    case FRAME_CHECK:
    case FRAME_ENVIRONMENT:
    case FRAME_REQUEST:
    case FRAME_POLICY:
    case FRAME_MEANS:
    case FRAME_MEMBER:
        return fact_time_at(in, 0);
    default:
        return 0;
    }
}
