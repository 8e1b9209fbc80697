/* backtest.c - replays a log with another table, and keeps the decisions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/report/backtest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/log_replay.h"
#include "control/log/rundir.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "wire/spool.h"

struct backtest_pass {
    struct log_replay replay;
    struct map bad_node; /* hash of the name of a node with an error → 1 */
    struct backtest *backtest;
};

static void backtest_pass_fini(struct backtest_pass *pass)
{
    log_replay_fini(&pass->replay);
    map_fini(&pass->bad_node);
}

void backtest_fini(struct backtest *backtest)
{
    free(backtest->decision);
    *backtest = (struct backtest){ 0 };
}

static uint64_t backtest_node_key(const char *node)
{
    return hash64(0, node, strlen(node));
}

/* ---- what the table is given ---- */

static int backtest_feed(struct backtest_pass *pass, enum frame_type type,
                         const struct buf *payload, struct err *err)
{
    const struct frame frame = { .type = type,
                                 .version = FRAME_VERSION,
                                 .payload = payload->data,
                                 .payload_bytes = payload->size };

    return payload->failed ? err_nomem(err) : log_replay_fact(&pass->replay, &frame, err);
}

/* Everything is allowed, one spare is free, and the end is known. */
static int backtest_begin(struct backtest_pass *pass, const struct policy_table *table,
                          int64_t end_real_ns, struct err *err)
{
    const struct policy_means means = { .mode = POLICY_ACT,
                                        .actions = (1u << ACTION_COUNT) - 1,
                                        .restarts_left = UINT32_MAX,
                                        .restart_hangs = true,
                                        .spares = 1,
                                        .end_real_ns = end_real_ns };
    CLEAN(buf_fini) struct buf table_bytes = { 0 }, means_bytes = { 0 };
    int result;

    policy_table_put(&table_bytes, table);
    policy_means_put(&means_bytes, &means);
    result = backtest_feed(pass, FRAME_POLICY, &table_bytes, err);
    return result < 0 ? result : backtest_feed(pass, FRAME_MEANS, &means_bytes, err);
}

/* ---- what it decides ---- */

static int backtest_keep(struct backtest *backtest, const struct decision *decision)
{
    if (!ARRAY_FIT(backtest->decision, backtest->room, backtest->decisions + 1))
        return -ENOMEM;
    backtest->decision[backtest->decisions++] = *decision;
    return 0;
}

static int backtest_take_output(struct backtest_pass *pass, struct err *err)
{
    const struct output_queue_frame *output;
    struct decision decision;

    while ((output = output_queue_first(&pass->replay.queue))) {
        if (output->type == FRAME_DECISION &&
            decision_get(reader_of(output->payload.data, output->payload.size), &decision) == 0 &&
            backtest_keep(pass->backtest, &decision) < 0)
            return err_nomem(err);
        output_queue_drop(&pass->replay.queue);
    }
    return 0;
}

static int backtest_tick(struct backtest_pass *pass, struct reader in, struct err *err)
{
    struct fact_tick tick;

    if (fact_tick_get(in, &tick) < 0)
        return 0;
    if (log_replay_tick(&pass->replay, &tick) < 0)
        return err_nomem(err);
    return backtest_take_output(pass, err);
}

/* The run's own consents and decisions have no effect here. */
static bool backtest_is_left_out(const struct frame *frame)
{
    return frame->type == FRAME_POLICY || frame->type == FRAME_MEANS ||
           frame->type == FRAME_OUTCOME || frame->type == FRAME_REQUEST;
}

static int backtest_fact(struct backtest_pass *pass, const struct frame *frame, struct err *err)
{
    struct finding finding;

    if (backtest_is_left_out(frame))
        return 0;
    if (frame->type == FRAME_FINDING &&
        finding_get(reader_of(frame->payload, frame->payload_bytes), &finding) == 0 &&
        finding.severity >= FINDING_ERROR &&
        !map_put(&pass->bad_node, backtest_node_key(finding.node), 1))
        return err_nomem(err);
    return log_replay_fact(&pass->replay, frame, err);
}

static int backtest_frame(struct backtest_pass *pass, const struct frame *frame, struct err *err)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);

    if (frame->sender != pass->replay.self)
        return backtest_fact(pass, frame, err);
    switch (frame->type) {
    case FRAME_TICK:
        return backtest_tick(pass, in, err);
    case FRAME_HELLO:
    case FRAME_SETTING:
        return log_replay_frame(&pass->replay, frame, err);
    case FRAME_MERGED:
    case FRAME_COMPACTION:
        return err_set(err, -ENODATA, "its log was compacted, so it cannot be replayed");
    default: /* what was said then */
        return 0;
    }
}

/* ---- the whole ---- */

static void backtest_sum(struct backtest_pass *pass)
{
    struct backtest *backtest = pass->backtest;

    for (size_t i = 0; i < backtest->decisions; i++) {
        const struct decision *decision = &backtest->decision[i];

        if (decision->state != DECISION_ORDERED) {
            backtest->blocked += decision->state == DECISION_DRY_RUN;
            continue;
        }
        backtest->actions++;
        backtest->saves_gpu_seconds += decision->saves_gpu_seconds;
        backtest->costs_gpu_seconds += decision->costs_gpu_seconds;
        for (uint32_t k = 0; k < MIN(decision->node_count, DECISION_NODES); k++)
            backtest->healthy_nodes +=
                decision->target == TARGET_NODES &&
                !map_get(&pass->bad_node, backtest_node_key(decision->node[k]));
    }
}

/* The newest tick of a log; 0: there is none. */
static int64_t backtest_end_ns(struct spool_reader *reader)
{
    struct fact_tick tick;
    struct frame frame;
    int64_t end_ns = 0;

    while (spool_next(reader, &frame, NULL) == 1) {
        if (frame.type == FRAME_TICK &&
            fact_tick_get(reader_of(frame.payload, frame.payload_bytes), &tick) == 0)
            end_ns = MAX(end_ns, tick.real_ns);
    }
    spool_reader_seek(reader, 0);
    return end_ns;
}

static int backtest_read(struct backtest_pass *pass, const char *log,
                         const struct policy_table *table, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    struct frame frame;
    int64_t end_ns;
    int result = spool_reader_open(log, &reader, err);

    if (result < 0)
        return result == -ENOENT ? err_set(err, -ENODATA, "there is no log") : result;
    end_ns = backtest_end_ns(reader);
    if (!end_ns)
        return err_set(err, -ENODATA, "no tick is in its log, so there is nothing to replay");
    result = backtest_begin(pass, table, end_ns, err);
    while (result >= 0 && (result = spool_next(reader, &frame, err)) == 1)
        result = backtest_frame(pass, &frame, err);
    return MIN(result, 0);
}

int backtest_run(const char *run_dir, const struct policy_table *table, struct backtest *ret,
                 struct err *err)
{
    struct backtest backtest = { .decision = NULL };
    CLEAN(backtest_pass_fini) struct backtest_pass pass = { .backtest = &backtest };
    struct rundir dir;
    int result = rundir_open(&dir, run_dir, err);

    if (result < 0)
        return result;
    snprintf(backtest.run, sizeof(backtest.run), "%s", dir.run);
    log_replay_init(&pass.replay, dir.run);
    result = backtest_read(&pass, dir.log.text, table, err);
    if (result < 0) {
        backtest_fini(&backtest);
        return err_wrap(err, result, "%s", dir.log.text);
    }
    backtest_sum(&pass);
    *ret = backtest;
    return 0;
}
