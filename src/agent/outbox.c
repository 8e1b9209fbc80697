/* outbox.c - writes facts as frames to the spool.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/outbox.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "core/time.h"

#define TROUBLE_NS NS_PER_S

bool shape_cache_has(struct shape_cache *cache, uint64_t hash)
{
    uint64_t *way = cache->hash[hash % SHAPE_SETS];

    for (int i = 0; i < SHAPE_WAYS; i++) {
        if (way[i] == hash) {
            memmove(way + 1, way, (size_t)i * sizeof(*way));
            way[0] = hash;
            return true;
        }
    }
    return false;
}

void shape_cache_add(struct shape_cache *cache, uint64_t hash)
{
    uint64_t *way = cache->hash[hash % SHAPE_SETS];

    if (shape_cache_has(cache, hash))
        return;
    memmove(way + 1, way, (SHAPE_WAYS - 1) * sizeof(*way));
    way[0] = hash;
}

void shape_cache_attempt(struct shape_cache *cache, uint32_t attempt)
{
    if (attempt > cache->attempt)
        *cache = (struct shape_cache){ .attempt = attempt };
}

static void outbox_trouble_begin(struct outbox *outbox, const struct err *err, int64_t now_ns)
{
    outbox->failed_ns = now_ns;
    if (outbox->since_ns)
        return;
    outbox->since_ns = now_ns;
    outbox->why = *err;
    if (now_ns < outbox->trouble_again_ns)
        return;
    log_error("cannot write the spool: %s; will retry", err->text);
    outbox->trouble_again_ns = now_ns + 60 * NS_PER_S;
}

/* Says the cause again: our own words may go to the very disk that was full. */
static void outbox_trouble_end(struct outbox *outbox)
{
    log_info("the spool is writable again after %.1f s; the error was: %s",
             (double)(outbox->failed_ns - outbox->since_ns) / 1e9, outbox->why.text);
    outbox->since_ns = 0;
}

void outbox_fini(struct outbox *outbox)
{
    if (outbox->since_ns && !outbox->blocked)
        outbox_trouble_end(outbox);
    spool_writer_close(outbox->writer);
    outbox->writer = NULL;
    buf_fini(&outbox->payload);
}

static struct buf *outbox_payload_begin(struct outbox *outbox)
{
    if (outbox->payload.failed)
        buf_fini(&outbox->payload);
    outbox->payload.size = 0;
    return &outbox->payload;
}

static int outbox_payload_send(struct outbox *outbox, uint16_t type)
{
    struct err err = { 0 };
    int result = spool_put(outbox->writer, type, &outbox->payload, &err);
    int64_t now_ns = result < 0 || outbox->since_ns ? time_mono_ns() : 0;

    /* Small frames fit where larger ones do not: it is over when none has failed for a while. */
    if (result < 0)
        outbox_trouble_begin(outbox, &err, now_ns);
    else if (outbox->since_ns && now_ns - outbox->failed_ns > TROUBLE_NS)
        outbox_trouble_end(outbox);
    outbox->blocked = result < 0;
    return result;
}

int outbox_hello(struct outbox *outbox, const char *run, const char *node)
{
    struct fact_hello fact = { .kind = SENDER_AGENT };

    snprintf(fact.run, sizeof(fact.run), "%s", run);
    snprintf(fact.node, sizeof(fact.node), "%s", node);
    snprintf(fact.version, sizeof(fact.version), "%s", LOCKSTEP_VERSION);
    fact.mono_ns = time_mono_ns() + outbox->skew_ns;
    fact.real_ns = time_real_ns();
    fact_hello_put(outbox_payload_begin(outbox), &fact);
    return outbox_payload_send(outbox, FRAME_HELLO);
}

int outbox_ring(struct outbox *outbox, const struct fact_ring *fact)
{
    struct fact_ring put = *fact;

    put.open_ns += outbox->skew_ns;
    fact_ring_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_RING);
}

int outbox_comm(struct outbox *outbox, const struct fact_comm *fact)
{
    fact_comm_put(outbox_payload_begin(outbox), fact);
    return outbox_payload_send(outbox, FRAME_COMM);
}

int outbox_step(struct outbox *outbox, const struct fact_step *step, const struct fact_shape *shape)
{
    struct fact_step put = *step;

    shape_cache_attempt(&outbox->shapes, step->attempt);
    if (!shape_cache_has(&outbox->shapes, shape->hash)) {
        int result;

        fact_shape_put(outbox_payload_begin(outbox), shape);
        result = outbox_payload_send(outbox, FRAME_SHAPE);
        if (result < 0)
            return result;
        shape_cache_add(&outbox->shapes, shape->hash);
    }
    put.begin_ns += outbox->skew_ns;
    fact_step_put(outbox_payload_begin(outbox), &put, shape);
    return outbox_payload_send(outbox, FRAME_STEP);
}

int outbox_beat(struct outbox *outbox, const struct fact_beat *fact)
{
    struct fact_beat put = *fact;

    put.mono_ns += outbox->skew_ns;
    fact_beat_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_BEAT);
}

int outbox_gap(struct outbox *outbox, const struct fact_gap *fact)
{
    fact_gap_put(outbox_payload_begin(outbox), fact);
    return outbox_payload_send(outbox, FRAME_GAP);
}

int outbox_note(struct outbox *outbox, const struct fact_note *fact)
{
    struct fact_note put = *fact;

    put.mono_ns += outbox->skew_ns;
    fact_note_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_NOTE);
}

int outbox_method(struct outbox *outbox, const struct fact_method *fact)
{
    struct fact_method put = *fact;

    put.mono_ns += outbox->skew_ns;
    fact_method_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_METHOD);
}

int outbox_exit(struct outbox *outbox, const struct fact_exit *fact)
{
    struct fact_exit put = *fact;

    put.mono_ns += outbox->skew_ns;
    fact_exit_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_EXIT);
}

int outbox_outcome(struct outbox *outbox, const struct outcome *outcome)
{
    struct outcome put = *outcome;

    put.mono_ns += outbox->skew_ns;
    outcome_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_OUTCOME);
}

int outbox_traffic(struct outbox *outbox, const struct fact_traffic *fact)
{
    struct fact_traffic put = *fact;

    put.mono_ns += outbox->skew_ns;
    put.since_ns += outbox->skew_ns;
    fact_traffic_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_TRAFFIC);
}

int outbox_stack(struct outbox *outbox, const struct fact_stack *fact)
{
    struct fact_stack put = *fact;

    put.mono_ns += outbox->skew_ns;
    fact_stack_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_STACK);
}

int outbox_finding(struct outbox *outbox, const struct finding *finding)
{
    struct finding put = *finding;

    if (put.mono_ns)
        put.mono_ns += outbox->skew_ns;
    finding_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_FINDING);
}

int outbox_environment(struct outbox *outbox, const struct environment *environment)
{
    struct environment put = *environment;

    put.mono_ns += outbox->skew_ns;
    environment_put(outbox_payload_begin(outbox), &put);
    return outbox_payload_send(outbox, FRAME_ENVIRONMENT);
}
