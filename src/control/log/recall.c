/* recall.c - feeds the core from a log and compares what it says with what was said. */
#include "control/log/recall.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "core/clean.h"

static bool said_grow(struct said *said)
{
    if (said->first > 0) { /* use what has been dropped before */
        memmove(said->frame, said->frame + said->first, said->count * sizeof(*said->frame));
        said->first = 0;
        return true;
    }
    return ARRAY_FIT(said->frame, said->room, said->count + 1);
}

static void said_put(void *arg, uint16_t type, const struct buf *payload)
{
    struct said *said = arg;
    struct said_frame frame = { .type = type };

    buf_put(&frame.payload, payload->data, payload->size);
    if (payload->failed || frame.payload.failed ||
        (said->first + said->count == said->room && !said_grow(said))) {
        buf_fini(&frame.payload);
        said->failed = true;
        return;
    }
    said->frame[said->first + said->count++] = frame;
}

const struct said_frame *said_first(const struct said *said)
{
    return said->count ? &said->frame[said->first] : NULL;
}

void said_drop(struct said *said)
{
    buf_fini(&said->frame[said->first].payload);
    said->first++;
    said->count--;
    if (said->count == 0)
        said->first = 0;
}

static void said_fini(struct said *said)
{
    while (said->count)
        said_drop(said);
    free(said->frame);
    *said = (struct said){ 0 };
}

void recall_init(struct recall *recall, const char *run)
{
    *recall = (struct recall){ .self = control_sender() };
    snprintf(recall->run, sizeof(recall->run), "%s", run);
    thresholds_default(&recall->filed);
}

void recall_fini(struct recall *recall)
{
    said_fini(&recall->said);
    carry_fini(&recall->carry);
    if (recall->core)
        core_destroy(recall->core);
    recall->core = NULL;
}

static int recall_begin(struct recall *recall, struct err *err)
{
    int result = 0;

    if (!recall->core) {
        result = core_create(recall->run, &recall->core);
        if (result == 0)
            core_watch_steps(recall->core, recall->watch, recall->watch_arg);
    }
    return result < 0 ? err_set(err, result, "run %s: no memory to judge it", recall->run) : 0;
}

/* The log goes on: what it did not take of the last tick is not there. */
static void recall_close_tick(struct recall *recall)
{
    while (recall->said.count) {
        said_drop(&recall->said);
        recall->missing++;
    }
}

int recall_fact(struct recall *recall, const struct frame *frame, struct err *err)
{
    int result = recall_begin(recall, err);

    if (result < 0)
        return result;
    recall_close_tick(recall);
    recall->facts++;
    recall->last = false;
    /* Only the controller changes thresholds; an agent that tries is not heard. */
    if (frame->type == FRAME_SETTING && frame->sender != recall->self)
        return 0;
    result = core_feed(recall->core, frame, err);
    /* Anything else is the fact's fault and was counted.  It is in the log already: if it stopped us, it
     * would stop every later start, too.
     */
    return result == -ENOMEM ? result : 0;
}

/* What the core says, on its way to the log or to nobody. */
static void recall_hear(void *arg, uint16_t type, const struct buf *payload)
{
    struct recall *recall = arg;

    if (recall->part == RECALL_WARM)
        recall->said.failed |= carry_warm(&recall->carry, type, payload) < 0;
    else if (recall->carry.active)
        carry_tell(&recall->carry, type, payload, said_put, &recall->said);
    else
        said_put(&recall->said, type, payload);
}

int recall_tick(struct recall *recall, const struct fact_tick *tick)
{
    int result = recall_begin(recall, NULL);

    if (result < 0)
        return result;
    recall_close_tick(recall);
    recall->tick = *tick;
    recall->last = tick->flags & TICK_LAST;
    recall->ticks++;
    recall->carry.tick += recall->part == RECALL_WARM;
    if (recall->part != RECALL_OLD)
        core_tick(recall->core, tick, recall->last, recall_hear, recall);
    if (recall->carry.active)
        carry_tick(&recall->carry, tick, said_put, &recall->said);
    return recall->said.failed ? -ENOMEM : 0;
}

static int recall_anew(struct recall *recall, struct reader in, struct err *err)
{
    CLEAN(fact_anew_fini) struct fact_anew fact = { 0 };
    int result = fact_anew_get(in, &fact);

    if (result < 0)
        return err_set(err, result, "a mark of compaction is malformed");
    recall_close_tick(recall);
    switch (fact.kind) {
    case ANEW_BEGIN:
        recall->part = RECALL_OLD;
        break;
    case ANEW_WHOLE:
        recall->part = RECALL_WARM;
        recall->carry.whole_real_ns = recall->tick.real_ns;
        break;
    case ANEW_SPEAKS:
        recall->part = RECALL_SPEAKS;
        carry_speak(&recall->carry);
        break;
    default:
        result = recall_begin(recall, err);
        if (result == 0)
            core_tell(recall->core);
        recall->carry.told_tick = recall->carry.tick + 1;
        break;
    }
    return result;
}

static int recall_said(struct recall *recall, const struct frame *frame)
{
    const struct said_frame *said = said_first(&recall->said);

    if (recall->part != RECALL_SPEAKS)
        return carry_said(&recall->carry, frame->type,
                          reader_of(frame->payload, frame->payload_bytes),
                          recall->part == RECALL_WARM ? recall->core : NULL);
    if (said && said->type == frame->type && said->payload.size == frame->payload_bytes &&
        memcmp(said->payload.data, frame->payload, frame->payload_bytes) == 0)
        recall->equal++;
    else
        recall->different++;
    if (said)
        said_drop(&recall->said);
    return 0;
}

static void recall_hello(struct recall *recall, struct reader in)
{
    struct fact_hello hello;

    if (!recall->core && fact_hello_get(in, &hello) == 0 && hello.run[0])
        snprintf(recall->run, sizeof(recall->run), "%s", hello.run);
}

static int recall_setting(struct recall *recall, const struct frame *frame, struct err *err)
{
    struct fact_setting fact;

    if (fact_setting_get(reader_of(frame->payload, frame->payload_bytes), &fact) == 0 &&
        strcmp(fact.who, RECALL_FILE) == 0)
        thresholds_set(&recall->filed, fact.name, fact.value, NULL);
    return recall_fact(recall, frame, err);
}

int recall_frame(struct recall *recall, const struct frame *frame, struct err *err)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_tick tick;

    if (frame->sender != recall->self)
        return recall_fact(recall, frame, err);
    switch (frame->type) {
    case FRAME_HELLO:
        recall_hello(recall, in);
        return 0;
    case FRAME_TICK:
        if (fact_tick_get(in, &tick) < 0)
            return err_set(err, -EPROTO, "tick %llu of the log is malformed",
                           (unsigned long long)frame->number);
        if (recall_tick(recall, &tick) < 0)
            return err_set(err, -ENOMEM, "run %s: no memory to judge it", recall->run);
        return 0;
    case FRAME_SETTING:
        return recall_setting(recall, frame, err);
    case FRAME_VERDICT:
    case FRAME_LEDGER:
        if (recall_said(recall, frame) < 0)
            return err_set(err, -ENOMEM, "run %s: no memory to judge it", recall->run);
        return 0;
    case FRAME_ANEW:
        return recall_anew(recall, in, err);
    default:
        return 0;
    }
}
