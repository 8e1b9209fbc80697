/* assemble_ops.c - the operations of an incomplete step: launch, start and end, read in any order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/ring/assemble_private.h"

#include <string.h>

#include "core/clean.h"
#include "lockstep/probe.h"
#include "wire/ring_format.h"

static bool assemble_is_p2p(uint8_t kind)
{
    return kind == RING_P2P_ENQUEUE || kind == RING_P2P_START || kind == RING_P2P_END;
}

static struct open_op *assemble_op_for(struct assemble *assemble, const struct ring_event *event)
{
    struct open_op *op =
        optable_put(&assemble->ops, event->comm, assemble_is_p2p(event->kind), event->a);

    if (op && !op->enqueued && !op->started && !op->ended)
        op->since = assemble->serial;
    return op;
}

/* Copies what is known of an op into its item; forgets the op once all of it is known. */
static void assemble_op_settle(struct assemble *assemble, struct open_op *op)
{
    struct build *build = build_by_serial(assemble, op->build);
    struct item *item = build ? &build->item[op->item] : NULL;

    if (item) {
        item->start_ns = op->started ? op->start_ns : item->enqueue_ns;
        if (op->ended && !item->ended) {
            item->ended = true;
            build->open_ops--;
        }
        item->end_ns = op->ended ? MAX(op->end_ns, item->start_ns) : item->start_ns;
    }
    if (op->enqueued && op->ended && (op->started || !item))
        optable_remove(&assemble->ops, op);
}

/* NULL: the table is full; these are not recorded. */
static struct channel *assemble_channel_for(struct assemble *assemble, const struct open_op *op)
{
    uint8_t what = op->p2p ? op->what : 0;
    uint32_t peer = op->p2p ? op->peer : 0;

    for (unsigned i = 0; i < assemble->channels; i++) {
        struct channel *channel = &assemble->channel[i];

        if (channel->comm == op->comm && channel->what == what && channel->peer == peer)
            return channel;
    }
    if (assemble->channels == BEAT_CHANNELS_MAX)
        return NULL;
    assemble->channel[assemble->channels] =
        (struct channel){ .comm = op->comm, .what = what, .peer = peer };
    return &assemble->channel[assemble->channels++];
}

/* Collectives have numbers of their own; messages are counted. */
static void assemble_channel_count(struct assemble *assemble, struct open_op *op, uint8_t kind)
{
    struct channel *channel = op->enqueued ? assemble_channel_for(assemble, op) : NULL;

    if (!channel)
        return;
    if (kind == RING_COLL_ENQUEUE || kind == RING_P2P_ENQUEUE) {
        op->ordinal = op->p2p ? channel->enqueued : op->key;
        channel->enqueued = MAX(channel->enqueued, op->ordinal + 1);
        channel->launches = false;
    }
    if (op->started)
        channel->started = MAX(channel->started, op->ordinal + 1);
    if (op->ended)
        channel->ended = MAX(channel->ended, op->ordinal + 1);
}

/* Where the device stamps its waits, one of them may tell when it was over (device_line.c). */
static void assemble_launch_keep(struct assemble *assemble, struct build *build,
                                 const struct ring_event *event)
{
    struct item *item;

    if (!build || !assemble->stamped || event->comm < 0 || event->comm >= RING_COMMS)
        return;
    item = item_add(assemble, build, (int64_t)event->time_ns);
    if (!item)
        return;
    item->kind = ITEM_LAUNCH;
    item->what = event->detail;
    item->stream = event->stream;
    item->comm = event->comm;
    item->bytes = event->b;
    item->dtype = event->d <= UINT8_MAX ? (uint8_t)event->d : LOCKSTEP_DTYPE_UNKNOWN;
    item->key = event->a;
    item->peer = assemble_is_p2p(event->kind);
}

/* Only the launch of it will ever be known: it is counted, and has no times that a step could show. */
static void assemble_launch_count(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build = build_for(assemble, event);
    const struct open_op op = { .comm = event->comm,
                                .p2p = assemble_is_p2p(event->kind),
                                .what = event->detail,
                                .peer = (uint32_t)event->c };
    struct channel *channel = assemble_channel_for(assemble, &op);

    if (build)
        build->untimed = true;
    assemble_launch_keep(assemble, build, event);
    assemble->ends++; /* it goes on */
    if (!channel)
        return;
    channel->enqueued = MAX(channel->enqueued, op.p2p ? channel->enqueued + 1 : event->a + 1);
    channel->launches = true;
}

void op_on_enqueue(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build;
    struct open_op *op;
    struct item *item;

    if (stream_has_launches_only(event->stream)) {
        assemble_launch_count(assemble, event);
        return;
    }
    build = build_for(assemble, event);
    op = assemble_op_for(assemble, event);
    if (!op) {
        assemble->late++;
        return;
    }
    if (op->enqueued)
        return;
    op->enqueued = true;
    op->what = event->detail;
    op->stream = event->stream;
    op->bytes = event->b;
    op->dtype = event->d <= UINT8_MAX ? (uint8_t)event->d : LOCKSTEP_DTYPE_UNKNOWN;
    op->peer = op->p2p ? (uint32_t)event->c : 0;
    op->enqueue_ns = (int64_t)event->time_ns;
    assemble_channel_count(assemble, op, event->kind);
    item = build ? item_add(assemble, build, op->enqueue_ns) : NULL;
    if (item) {
        item->kind = op->p2p ? ITEM_P2P : ITEM_COLL;
        item->what = event->detail;
        item->stream = event->stream;
        item->comm = event->comm;
        item->bytes = event->b;
        item->dtype = op->dtype;
        item->key = event->a;
        item->peer = op->p2p ? (uint32_t)event->c : 0;
        build->open_ops++;
        build->device_ops |= stream_has_ops_only(item->stream);
        op->build = build->serial;
        op->item = build->count - 1;
    }
    assemble_op_settle(assemble, op);
}

void op_on_start(struct assemble *assemble, const struct ring_event *event)
{
    struct open_op *op = assemble_op_for(assemble, event);

    if (!op || op->started)
        return;
    op->started = true;
    op->start_ns = (int64_t)event->time_ns;
    assemble_channel_count(assemble, op, event->kind);
    assemble_op_settle(assemble, op);
}

void op_on_end(struct assemble *assemble, const struct ring_event *event)
{
    struct open_op *op = assemble_op_for(assemble, event);

    if (!op || op->ended)
        return;
    op->ended = true;
    op->end_ns = (int64_t)event->time_ns;
    assemble->ends++;
    assemble_channel_count(assemble, op, event->kind);
    assemble_op_settle(assemble, op);
}

/* A span is told after the fact, maybe a step later: the time of its launch says where it belongs.
 * Once that is seen to happen, steps are held back that long.
 */
void op_on_span(struct assemble *assemble, const struct ring_event *event)
{
    struct build *build = NULL;
    struct item *item;

    if (event->a > STEP_TIME_MAX || event->b > STEP_TIME_MAX || event->c > STEP_TIME_MAX ||
        event->detail >= LOCKSTEP_PHASE_COUNT)
        return;
    for (unsigned i = 0; i < assemble->builds; i++) {
        if (assemble->build[i]->begun && assemble->build[i]->begin_ns <= (int64_t)event->a)
            build = assemble->build[i];
    }
    if (!build) {
        if (assemble->sent_any) {
            assemble->late++;
            assemble->hold = MIN(assemble->hold + 1, HOLD_MAX);
        }
        return;
    }
    assemble->hold = (unsigned)MAX(assemble->hold, MIN(assemble->serial - build->serial, HOLD_MAX));
    item = item_add(assemble, build, (int64_t)event->a);
    if (!item)
        return;
    item->kind = ITEM_SPAN;
    item->what = event->detail;
    item->stream = event->stream;
    item->start_ns = (int64_t)event->b;
    item->end_ns = MAX((int64_t)event->c, (int64_t)event->b);
    item->ended = build->spans = true;
}

/* the method of collectives: recorded once, and again when it changes.
 *
 * A library that alternates between methods would report one with every collective.  So the last method is kept for
 * each communicator, op and class of sizes: a repeated one is not recorded, and after a number of changes none is.
 * Dropped ones are counted. */

#define METHOD_CHANGES_MAX 32

static bool assemble_method_is_same(const struct ring_method *left, const struct ring_method *right)
{
    return left->channels == right->channels && strcmp(left->text, right->text) == 0;
}

/* Where this one is kept; NULL: there are too many others. */
static struct sent_method *assemble_method_place(struct assemble *assemble,
                                                 const struct ring_method *method)
{
    struct sent_method *at;

    for (unsigned i = 0; i < assemble->methods_sent; i++) {
        at = &assemble->sent_method[i];
        if (at->method.comm == method->comm && at->method.op == method->op &&
            bytes_round(at->method.bytes) == bytes_round(method->bytes))
            return at;
    }
    if (assemble->methods_sent == METHODS_SENT)
        return NULL;
    at = &assemble->sent_method[assemble->methods_sent++];
    *at = (struct sent_method){ 0 };
    return at;
}

static void assemble_method_read(const struct ring_event *event, struct ring_method *ret)
{
    const uint64_t words[] = { event->b, event->c, event->d };
    const uint64_t below = (UINT64_C(1) << RING_METHOD_BYTES_BITS) - 1;

    *ret = (struct ring_method){ .comm = event->comm,
                                 .op = event->detail,
                                 .bytes = event->a & below,
                                 .channels = (uint32_t)(event->a >> RING_METHOD_BYTES_BITS),
                                 .step = event->step,
                                 .time_ns = (int64_t)event->time_ns };
    _Static_assert(sizeof(words) == RING_METHOD_TEXT && sizeof(ret->text) > RING_METHOD_TEXT,
                   "it fits");
    memcpy(ret->text, words, sizeof(words));
    for (char *at = ret->text; *at; at++) { /* people will read it */
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

void method_on(struct assemble *assemble, const struct ring_event *event)
{
    struct ring_method method;
    struct sent_method *sent;

    if (event->comm < 0 || event->comm >= RING_COMMS || event->detail == 0 ||
        event->detail >= LOCKSTEP_OP_SEND)
        return;
    assemble_method_read(event, &method);
    sent = assemble_method_place(assemble, &method);
    if (sent && sent->changes && assemble_method_is_same(&sent->method, &method))
        return;
    if (!sent || sent->changes == METHOD_CHANGES_MAX || assemble->method_count == METHODS_QUEUED) {
        assemble->methods_dropped++;
        return;
    }
    sent->method = method;
    sent->changes++;
    assemble->method[assemble->method_count++] = method;
}

uint64_t assemble_methods_dropped(const struct assemble *assemble)
{
    return assemble->methods_dropped;
}

static void assemble_method_remove(struct assemble *assemble, unsigned at)
{
    assemble->method_count--;
    memmove(&assemble->method[at], &assemble->method[at + 1],
            (assemble->method_count - at) * sizeof(*assemble->method));
}

/* One whose communicator is not known yet waits until it is. */
bool method_take(struct assemble *assemble, struct fact_method *ret)
{
    for (unsigned i = 0; i < assemble->method_count;) {
        const struct ring_method *method = &assemble->method[i];
        uint64_t comm = assemble->comm_known[method->comm] ? assemble->comm_id[method->comm] : 0;

        if (comm) {
            *ret = (struct fact_method){ .rank = assemble->id.rank,
                                         .attempt = assemble->id.attempt,
                                         .step = method->step,
                                         .mono_ns = method->time_ns,
                                         .comm = comm,
                                         .op = method->op,
                                         .bytes = method->bytes,
                                         .channels = method->channels };
            memcpy(ret->text, method->text, sizeof(method->text));
            assemble_method_remove(assemble, i);
            return true;
        }
        if (!assemble->final) {
            i++;
            continue;
        }
        assemble_method_remove(assemble, i);
        assemble->methods_dropped++;
    }
    return false;
}
