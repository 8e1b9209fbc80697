/* site_log.c - writes the site's log and feeds its core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/nodes/site_log.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/time.h"
#include "wire/spool.h"

#define LOOK_NS                                                                                    \
    (10 * NS_PER_S) /* if nothing comes: results become old, and nodes are to be checked */

struct site_output {
    uint16_t type;
    struct buf payload;
};

struct site_log {
    char path[PATH_MAX];
    struct spool_writer *writer;
    struct site_core *core;
    struct seen seen;
    struct site_output *output; /* of the newest tick that is not in the log yet; from `first` on */
    size_t first, outputs, output_room;
    bool failed; /* out of memory: some output is missing */
    uint64_t id;
    uint64_t on_disk;  /* the number of the newest order that is */
    int64_t looked_ns; /* by our clock */
    bool waiting;      /* facts have come since */
    struct site_log_counts counts;
};

static void site_output_clear(struct site_log *log)
{
    for (size_t i = log->first; i < log->outputs; i++)
        buf_fini(&log->output[i].payload);
    log->first = log->outputs = 0;
}

void site_log_close(struct site_log *log)
{
    if (!log)
        return;
    site_output_clear(log);
    free(log->output);
    spool_writer_close(log->writer);
    site_core_destroy(log->core);
    seen_fini(&log->seen);
    free(log);
}

static void site_log_clean(struct site_log **log)
{
    site_log_close(*log);
}

const struct site_core *site_log_core(const struct site_log *log)
{
    return log->core;
}

struct seen *site_log_seen(struct site_log *log)
{
    return &log->seen;
}

uint64_t site_log_id(const struct site_log *log)
{
    return log->id;
}

void site_log_counts(const struct site_log *log, struct site_log_counts *ret)
{
    *ret = log->counts;
    ret->bytes = spool_writer_bytes(log->writer);
}

/* ---- the core, with frames of a log or of now ---- */

static void site_output_put(void *arg, uint16_t type, const struct buf *payload)
{
    struct site_log *log = arg;
    struct buf copy = { 0 };

    buf_put(&copy, payload->data, payload->size);
    if (payload->failed || copy.failed ||
        !ARRAY_FIT(log->output, log->output_room, log->outputs + 1)) {
        buf_fini(&copy);
        log->failed = true;
        return;
    }
    log->output[log->outputs++] = (struct site_output){ type, copy };
}

/* The log goes on: what it does not have of the newest tick is missing. */
static void site_output_close(struct site_log *log)
{
    log->counts.different += log->outputs - log->first;
    site_output_clear(log);
}

static void log_tick(struct site_log *log, const struct fact_tick *tick)
{
    site_output_close(log);
    log->counts.ticks++;
    if (site_core_tick(log->core, tick, site_output_put, log) < 0)
        log->failed = true;
}

static void log_output(struct site_log *log, const struct frame *frame)
{
    const struct site_output *due = log->first < log->outputs ? &log->output[log->first] : NULL;

    if (due && due->type == frame->type && due->payload.size == frame->payload_bytes &&
        memcmp(due->payload.data, frame->payload, frame->payload_bytes) == 0)
        log->counts.equal++;
    else
        log->counts.different++;
    if (due)
        buf_fini(&log->output[log->first++].payload);
}

/* What is malformed has no effect; it is in the log, and must not stop a later start. */
static int log_fact(struct site_log *log, const struct frame *frame)
{
    int result;

    site_output_close(log);
    log->counts.facts++;
    if (frame->sender == site_sender())
        return site_core_carry(log->core, frame) == -ENOMEM ? -ENOMEM : 0;
    result = seen_mark(&log->seen, frame);
    if (result == 0)
        result = site_core_feed(log->core, frame);
    return result == -ENOMEM ? result : 0;
}

/* What had come before this log was begun. */
static int log_origins(struct site_log *log, struct reader in)
{
    CLEAN(fact_compaction_fini) struct fact_compaction fact = { 0 };
    int result = fact_compaction_get(in, &fact);

    for (uint32_t i = 0; result == 0 && i < fact.count; i++)
        result =
            seen_set(&log->seen, fact.origin[i].sender, fact.origin[i].boot, fact.origin[i].next);
    return result == -ENOMEM ? result : 0;
}

static int log_frame(struct site_log *log, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct fact_hello hello;
    struct fact_tick tick;

    if (frame->sender != control_sender())
        return log_fact(log, frame);
    if (frame->type == FRAME_HELLO && !log->id && fact_hello_get(in, &hello) == 0)
        log->id = (uint64_t)hello.real_ns;
    if (frame->type == FRAME_TICK && fact_tick_get(in, &tick) == 0)
        log_tick(log, &tick);
    if (frame->type == FRAME_CHECK || frame->type == FRAME_DECISION ||
        frame->type == FRAME_NODE_LIFE)
        log_output(log, frame);
    if (frame->type == FRAME_REQUEST || frame->type == FRAME_SETTING ||
        frame->type == FRAME_VERDICT || frame->type == FRAME_OUTCOME) {
        site_output_close(log);
        site_core_ask(log->core, frame);
    }
    if (frame->type == FRAME_COMPACTION)
        return log_origins(log, in);
    return log->failed ? -ENOMEM : 0;
}

/* ---- writing ---- */

static int site_write_output(struct site_log *log, struct err *err)
{
    while (log->first < log->outputs) {
        const struct site_output *output = &log->output[log->first];
        int result = spool_put(log->writer, output->type, &output->payload, err);

        if (result < 0)
            return result;
        buf_fini(&log->output[log->first++].payload);
    }
    return 0;
}

static int site_write_hello(struct site_log *log, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_hello hello = { .kind = SENDER_CONTROL,
                                .version = LOCKSTEP_VERSION,
                                .mono_ns = time_mono_ns(),
                                .real_ns = time_real_ns() };

    if (gethostname(hello.node, sizeof(hello.node) - 1) < 0)
        hello.node[0] = '\0';
    if (!log->id)
        log->id = (uint64_t)hello.real_ns;
    fact_hello_put(&payload, &hello);
    return spool_put(log->writer, FRAME_HELLO, &payload, err);
}

static int site_read_again(struct site_log *log, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct frame frame;
    int result = spool_reader_open(log->path, &reader, err);

    while (result == 0 && (result = spool_next(reader, &frame, err)) == 1) {
        spool_writer_learn(log->writer, &frame, spool_reader_offset(reader));
        result = log_frame(log, &frame);
        if (result < 0)
            err_nomem(err);
    }
    if (result < 0)
        return result;
    if (spool_reader_damaged(reader))
        log_error("%s: damaged in %llu places, skipped %llu bytes", log->path,
                  (unsigned long long)spool_reader_places(reader),
                  (unsigned long long)spool_reader_damaged(reader));
    if (log->counts.different)
        log_error("%s: this version computes %llu states of nodes differently", log->path,
                  (unsigned long long)log->counts.different);
    return 0;
}

/* Orders are given out once they are on disk: after a crash no other decision can have their numbers. */
static int site_log_sync(struct site_log *log, struct err *err)
{
    int result = spool_sync(log->writer, err);

    if (result < 0)
        return spool_was_truncated(log->writer) ? -ESTALE : result;
    log->on_disk = site_core_orders(log->core)->numbers;
    return 0;
}

int site_log_open(const char *path, struct site_log **ret, struct err *err)
{
    CLEAN(site_log_clean) struct site_log *log = calloc(1, sizeof(*log));
    int result;

    if (!log || site_core_create(&log->core) < 0)
        return err_nomem(err);
    snprintf(log->path, sizeof(log->path), "%s", path);
    result = spool_writer_lock(log->path, CONTROL_SENDER, &log->writer, err);
    if (result == 0)
        result = site_read_again(log, err);
    if (result == 0)
        result = spool_writer_begin(log->writer, log->path, err);
    if (result == 0)
        result = site_write_output(log, err);
    if (result == 0)
        result = site_write_hello(log, err);
    if (result == 0)
        result = site_log_sync(log, err);
    if (result < 0)
        return result;
    *ret = TAKE(log);
    return 0;
}

int site_log_take(struct site_log *log, const struct frame *frame, size_t count, struct err *err)
{
    int result = site_write_output(log, err);

    if (result == 0)
        result = spool_put_frames(log->writer, frame, count, err);
    if (result == 0)
        result = spool_sync(log->writer, err);
    if (result < 0)
        return spool_was_truncated(log->writer) ? -ESTALE : result;
    for (size_t i = 0; i < count && result == 0; i++)
        result = log_fact(log, &frame[i]);
    log->waiting = true;
    if (result < 0) /* the log has more than the core */
        return err_set(err, -ESTALE, "out of memory for the facts of nodes");
    return 0;
}

int site_log_turn(struct site_log *log, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_tick tick = { .mono_ns = time_mono_ns(), .real_ns = time_real_ns() };
    int result;

    if (!log->waiting) {
        if (log->looked_ns && tick.mono_ns - log->looked_ns < LOOK_NS)
            return 0;
        log->looked_ns = tick.mono_ns;
        if (!site_core_is_due(log->core, tick.real_ns))
            return 0;
    }
    result = site_write_output(log, err);
    fact_tick_put(&payload, &tick);
    if (result == 0)
        result = spool_put(log->writer, FRAME_TICK, &payload, err);
    if (result < 0)
        return result;
    log->waiting = false;
    log_tick(log, &tick);
    if (log->failed)
        return err_set(err, -ESTALE, "out of memory for the states of nodes");
    result = site_write_output(log, err);
    if (result == 0 && site_core_orders(log->core)->numbers > log->on_disk)
        result = site_log_sync(log, err);
    return result;
}

/* ---- what the site's own people ask for ---- */

static int site_log_ask(struct site_log *log, uint16_t type, const struct buf *payload,
                        struct err *err)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .sender = control_sender(),
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };
    int result = payload->failed ? err_nomem(err) : site_write_output(log, err);

    if (result == 0)
        result = spool_put(log->writer, type, payload, err);
    if (result < 0)
        return result;
    site_core_ask(log->core, &frame);
    log->waiting = true;
    return site_log_sync(log, err);
}

int site_log_request(struct site_log *log, struct request *request, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    if (site_core_orders(log->core)->requests == SITE_REQUESTS)
        return err_set(err, -EAGAIN, "%d requests wait already; try again", SITE_REQUESTS);
    request->mono_ns = time_mono_ns();
    request->real_ns = time_real_ns();
    request_identify(request);
    request_put(&payload, request);
    return site_log_ask(log, FRAME_REQUEST, &payload, err);
}

static double site_log_setting_now(const struct site_log *log, const char *name)
{
    struct site_limits limits = *site_core_limits(log->core);
    const double *limit = site_limits_find(&limits, name);

    return limit                          ? *limit
           : strcmp(name, SITE_MODE) == 0 ? limits.mode
                                          : site_core_orders(log->core)->budget;
}

int site_log_set(struct site_log *log, const char *name, double value, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_setting setting = { .real_ns = time_real_ns(),
                                    .value = value,
                                    .who = "the controller's settings" };
    double now = site_log_setting_now(log, name);

    if (!(value < now) && !(value > now))
        return 0;
    snprintf(setting.name, sizeof(setting.name), "%s", name);
    fact_setting_put(&payload, &setting);
    return site_log_ask(log, FRAME_SETTING, &payload, err);
}

int site_log_verdict(struct site_log *log, const struct verdict *verdict, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    verdict_put(&payload, verdict);
    return site_log_ask(log, FRAME_VERDICT, &payload, err);
}

int site_log_outcome(struct site_log *log, const struct outcome *outcome, struct err *err)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    outcome_put(&payload, outcome);
    return site_log_ask(log, FRAME_OUTCOME, &payload, err);
}

uint64_t site_log_on_disk(const struct site_log *log)
{
    return log->on_disk;
}

/* ---- another log in its place ---- */

static int site_rotate_origins(struct spool_writer *writer, const struct seen *seen,
                               struct err *err)
{
    struct compaction_origin origin[256];
    int result = 0;

    for (size_t at = 0; at < seen->count && result == 0; at += COUNT(origin)) {
        CLEAN(buf_fini) struct buf payload = { 0 };
        struct fact_compaction fact = { .kind = COMPACTION_BEGIN, .origin = origin };

        for (; fact.count < COUNT(origin) && at + fact.count < seen->count; fact.count++) {
            const struct seen_origin *from = &seen->origin[at + fact.count];

            origin[fact.count] = (struct compaction_origin){ .sender = from->sender,
                                                             .boot = from->boot,
                                                             .next = from->next };
        }
        fact_compaction_put(&payload, &fact);
        result = spool_put(writer, FRAME_COMPACTION, &payload, err);
    }
    return result;
}

static int site_rotate_fact(struct spool_writer *writer, uint16_t type, const struct buf *payload,
                            struct err *err)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .sender = site_sender(),
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    return payload->failed ? err_nomem(err) : spool_put_frame(writer, &frame, err);
}

static int site_rotate_owner(struct spool_writer *writer, const char *node,
                             const struct owned_run *run, struct err *err)
{
    CLEAN(environment_fini) struct environment environment = { 0 };
    CLEAN(buf_fini) struct buf payload = { 0 };

    if (node_owners_environment(node, run, &environment) < 0)
        return err_nomem(err);
    environment_put(&payload, &environment);
    return site_rotate_fact(writer, FRAME_ENVIRONMENT, &payload, err);
}

/* The finding last: a check that is newer has answered it already. */
static int site_rotate_node(struct spool_writer *writer, const struct site_node *node,
                            struct err *err)
{
    CLEAN(buf_fini) struct buf hello = { 0 };
    struct fact_hello fact = { .kind = SENDER_AGENT, .real_ns = node->newest_real_ns };
    int result;

    memcpy(fact.node, node->name, sizeof(fact.node));
    memcpy(fact.version, node->version, sizeof(fact.version));
    fact_hello_put(&hello, &fact);
    result = site_rotate_fact(writer, FRAME_HELLO, &hello, err);
    for (size_t i = 0; i < node->checks && result == 0; i++) {
        CLEAN(buf_fini) struct buf payload = { 0 };

        check_put(&payload, &node->check[i]);
        result = site_rotate_fact(writer, FRAME_CHECK, &payload, err);
    }
    for (size_t i = 0; i < node->owners.runs && result == 0; i++)
        result = site_rotate_owner(writer, node->name, &node->owners.run[i], err);
    if (result == 0 && node->life.state) { /* behind the checks, which it has counted */
        CLEAN(buf_fini) struct buf payload = { 0 };

        node_life_put(&payload, &node->life);
        result = site_rotate_fact(writer, FRAME_NODE_LIFE, &payload, err);
    }
    if (result == 0 && node->worst.id[0]) {
        CLEAN(buf_fini) struct buf payload = { 0 };

        finding_put(&payload, &node->worst);
        result = site_rotate_fact(writer, FRAME_FINDING, &payload, err);
    }
    return result;
}

static int site_rotate_order(struct spool_writer *writer, const struct site_order *order,
                             struct err *err)
{
    CLEAN(buf_fini) struct buf decision = { 0 };
    CLEAN(buf_fini) struct buf outcome = { 0 };
    int result;

    decision_put(&decision, &order->decision);
    result = site_rotate_fact(writer, FRAME_DECISION, &decision, err);
    if (result < 0 || !order->begun)
        return result;
    outcome_put(&outcome, &order->outcome);
    return site_rotate_fact(writer, FRAME_OUTCOME, &outcome, err);
}

static int site_rotate_write(struct site_log *log, const char *beside, struct err *err)
{
    CLEAN(spool_writer_clean) struct spool_writer *writer = NULL;
    struct site_log next = { .id = 0 };
    int result;

    unlink(beside);
    result = spool_writer_open(beside, CONTROL_SENDER, &writer, err);
    next.writer = writer;
    if (result == 0)
        result = site_write_hello(&next, err);
    if (result == 0)
        result = site_rotate_origins(writer, &log->seen, err);
    for (size_t i = 0; i < site_core_nodes(log->core) && result == 0; i++)
        result = site_rotate_node(writer, site_core_node(log->core, i), err);
    for (size_t i = 0; i < site_core_orders(log->core)->count && result == 0; i++)
        result = site_rotate_order(writer, &site_core_orders(log->core)->order[i], err);
    return result < 0 ? result : spool_sync(writer, err);
}

int site_log_rotate(struct site_log *log, uint64_t bytes_max, struct err *err)
{
    char beside[PATH_MAX + 8], old[PATH_MAX + 8];
    int result;

    if (spool_writer_bytes(log->writer) <= bytes_max || log->waiting)
        return 0;
    snprintf(beside, sizeof(beside), "%s.new", log->path);
    snprintf(old, sizeof(old), "%s.old", log->path);
    result = site_rotate_write(log, beside, err);
    if (result < 0)
        return result;
    unlink(old);
    if (link(log->path, old) < 0 || rename(beside, log->path) < 0)
        return err_set(err, -errno, "%s: %m", log->path);
    return err_set(err, -ESTALE, "it had %llu bytes; starting a new one, the old one is %s",
                   (unsigned long long)spool_writer_bytes(log->writer), old);
}
