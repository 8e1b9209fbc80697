/* log_replay.c - feeds the core from a log and compares its output with the log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/log_replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "core/clean.h"

static bool log_output_queue_grow(struct output_queue *queue)
{
    if (queue->first > 0) { /* use what has been dropped before */
        memmove(queue->frame, queue->frame + queue->first, queue->count * sizeof(*queue->frame));
        queue->first = 0;
        return true;
    }
    return ARRAY_FIT(queue->frame, queue->room, queue->count + 1);
}

static void log_output_queue_put(void *arg, uint16_t type, const struct buf *payload)
{
    struct output_queue *queue = arg;
    struct output_queue_frame frame = { .type = type };

    buf_put(&frame.payload, payload->data, payload->size);
    if (payload->failed || frame.payload.failed ||
        (queue->first + queue->count == queue->room && !log_output_queue_grow(queue))) {
        buf_fini(&frame.payload);
        queue->failed = true;
        return;
    }
    queue->frame[queue->first + queue->count++] = frame;
}

const struct output_queue_frame *output_queue_first(const struct output_queue *queue)
{
    return queue->count ? &queue->frame[queue->first] : NULL;
}

void output_queue_drop(struct output_queue *queue)
{
    buf_fini(&queue->frame[queue->first].payload);
    queue->first++;
    queue->count--;
    if (queue->count == 0)
        queue->first = 0;
}

static void log_output_queue_fini(struct output_queue *queue)
{
    while (queue->count)
        output_queue_drop(queue);
    free(queue->frame);
    *queue = (struct output_queue){ 0 };
}

void log_replay_init(struct log_replay *replay, const char *run)
{
    *replay = (struct log_replay){ .self = control_sender() };
    snprintf(replay->run, sizeof(replay->run), "%s", run);
    thresholds_default(&replay->filed);
}

void log_replay_fini(struct log_replay *replay)
{
    log_output_queue_fini(&replay->queue);
    carry_fini(&replay->carry);
    if (replay->core)
        core_destroy(replay->core);
    replay->core = NULL;
}

static int log_replay_begin(struct log_replay *replay, struct err *err)
{
    int result = 0;

    if (!replay->core) {
        result = core_create(replay->run, &replay->core);
        if (result == 0)
            core_watch_steps(replay->core, replay->watch, replay->watch_arg);
    }
    return result < 0 ? err_set(err, result, "run %s: out of memory while judging it", replay->run)
                      : 0;
}

/* The log goes on: what it did not take of the last tick is not there. */
static void log_replay_close_tick(struct log_replay *replay)
{
    while (replay->queue.count) {
        output_queue_drop(&replay->queue);
        replay->missing++;
    }
}

int log_replay_fact(struct log_replay *replay, const struct frame *frame, struct err *err)
{
    int result = log_replay_begin(replay, err);

    if (result < 0)
        return result;
    log_replay_close_tick(replay);
    replay->facts++;
    replay->last = false;
    /* Only the controller changes thresholds; an agent that tries is not heard. */
    if (frame->type == FRAME_SETTING && frame->sender != replay->self)
        return 0;
    core_follow(replay->core, replay->part != LOG_REPLAY_SPEAKS);
    result = core_feed(replay->core, frame, err);
    /* Anything else is the fact's fault and was counted.  It is in the log already: if it stopped us, it
     * would stop every later start, too.
     */
    return result == -ENOMEM ? result : 0;
}

/* The output of the core, to the log or dropped. */
static void log_replay_feed(void *arg, uint16_t type, const struct buf *payload)
{
    struct log_replay *replay = arg;

    if (replay->part == LOG_REPLAY_WARM)
        replay->queue.failed |= carry_warm(&replay->carry, type, payload) < 0;
    else if (replay->carry.active)
        carry_emit(&replay->carry, type, payload, log_output_queue_put, &replay->queue);
    else
        log_output_queue_put(&replay->queue, type, payload);
}

int log_replay_tick(struct log_replay *replay, const struct fact_tick *tick)
{
    int result = log_replay_begin(replay, NULL);

    if (result < 0)
        return result;
    log_replay_close_tick(replay);
    replay->tick = *tick;
    replay->last = tick->flags & TICK_LAST;
    replay->ticks++;
    replay->carry.tick += replay->part == LOG_REPLAY_WARM;
    core_follow(replay->core, replay->part != LOG_REPLAY_SPEAKS);
    if (replay->part != LOG_REPLAY_OLD)
        core_tick(replay->core, tick, replay->last, log_replay_feed, replay);
    if (replay->carry.active)
        carry_tick(&replay->carry, tick, log_output_queue_put, &replay->queue);
    return replay->queue.failed ? -ENOMEM : 0;
}

static int log_replay_compaction(struct log_replay *replay, struct reader in, struct err *err)
{
    CLEAN(fact_compaction_fini) struct fact_compaction fact = { 0 };
    int result = fact_compaction_get(in, &fact);

    if (result < 0)
        return err_set(err, result, "a compaction mark in the log is malformed");
    log_replay_close_tick(replay);
    switch (fact.kind) {
    case COMPACTION_BEGIN:
        replay->part = LOG_REPLAY_OLD;
        break;
    case COMPACTION_COMPLETE:
        replay->part = LOG_REPLAY_WARM;
        replay->carry.complete_real_ns = replay->tick.real_ns;
        break;
    case COMPACTION_OUTPUT:
        replay->part = LOG_REPLAY_SPEAKS;
        carry_speak(&replay->carry);
        break;
    default:
        result = log_replay_begin(replay, err);
        if (result == 0)
            core_report_open(replay->core);
        replay->carry.reported_tick = replay->carry.tick + 1;
        break;
    }
    return result;
}

/* In a part without the ticks that led to it: what was decided is learnt. */
static int log_replay_decision(struct log_replay *replay, struct reader in)
{
    struct decision decision;
    int result = log_replay_begin(replay, NULL);

    if (result == 0 && decision_get(in, &decision) == 0)
        core_follow_log(replay->core, &decision);
    return result;
}

static int log_replay_output(struct log_replay *replay, const struct frame *frame)
{
    const struct output_queue_frame *queue = output_queue_first(&replay->queue);

    if (replay->part != LOG_REPLAY_SPEAKS && frame->type == FRAME_DECISION)
        return log_replay_decision(replay, reader_of(frame->payload, frame->payload_bytes));
    if (replay->part != LOG_REPLAY_SPEAKS)
        return carry_output(&replay->carry, frame->type,
                            reader_of(frame->payload, frame->payload_bytes),
                            replay->part == LOG_REPLAY_WARM ? replay->core : NULL);
    if (queue && queue->type == frame->type && queue->payload.size == frame->payload_bytes &&
        memcmp(queue->payload.data, frame->payload, frame->payload_bytes) == 0)
        replay->equal++;
    else
        replay->different++;
    if (queue)
        output_queue_drop(&replay->queue);
    return 0;
}

static void log_replay_hello(struct log_replay *replay, struct reader in)
{
    struct fact_hello hello;

    if (!replay->core && fact_hello_get(in, &hello) == 0 && hello.run[0])
        snprintf(replay->run, sizeof(replay->run), "%s", hello.run);
}

static int log_replay_setting(struct log_replay *replay, const struct frame *frame, struct err *err)
{
    struct fact_setting fact;

    if (fact_setting_get(reader_of(frame->payload, frame->payload_bytes), &fact) == 0 &&
        strcmp(fact.who, LOG_REPLAY_FILE) == 0)
        thresholds_set(&replay->filed, fact.name, fact.value, NULL);
    return log_replay_fact(replay, frame, err);
}

int log_replay_frame(struct log_replay *replay, const struct frame *frame, struct err *err)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_tick tick;

    if (frame->sender != replay->self)
        return log_replay_fact(replay, frame, err);
    switch (frame->type) {
    case FRAME_HELLO:
        log_replay_hello(replay, in);
        return 0;
    case FRAME_TICK:
        if (fact_tick_get(in, &tick) < 0)
            return err_set(err, -EPROTO, "tick %llu of the log is malformed",
                           (unsigned long long)frame->number);
        if (log_replay_tick(replay, &tick) < 0)
            return err_set(err, -ENOMEM, "run %s: out of memory while judging it", replay->run);
        return 0;
    case FRAME_SETTING:
        return log_replay_setting(replay, frame, err);
    case FRAME_REQUEST:
        return log_replay_fact(replay, frame, err);
    case FRAME_VERDICT:
    case FRAME_DECISION:
    case FRAME_LEDGER:
        if (log_replay_output(replay, frame) < 0)
            return err_set(err, -ENOMEM, "run %s: out of memory while judging it", replay->run);
        return 0;
    case FRAME_COMPACTION:
        return log_replay_compaction(replay, in, err);
    default:
        return 0;
    }
}
