/* merge.c - frames of a log in, fewer frames out: selects frames and merges the steps of single ranks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/log/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/log/spools.h"
#include "control/matrix/columns.h"
#include "core/clean.h"
#include "core/map.h"
#include "wire/frame.h"
#include "wire/member.h"

#define MERGE_STEPS 64
#define SHAPES_MAX 65536

void merge_fini(struct merge *merge)
{
    columns_destroy(merge->columns);
    for (size_t i = 0; i < merge->shape_count; i++)
        fact_shape_fini(&merge->shapes[i]);
    free(merge->shapes);
    map_fini(&merge->shape);
    map_fini(&merge->clock);
    fact_merged_fini(&merge->merged);
    fact_merged_fini(&merge->former);
    buf_fini(&merge->tick);
    buf_fini(&merge->ledger);
}

int merge_write(struct merge *merge)
{
    struct fact_merged *merged = &merge->merged;
    CLEAN(buf_fini) struct buf payload = { 0 };

    if (merged->steps)
        merged->median_ns = merge->median_sum_ns / merged->steps;
    merged->dropped = merge->dropped;
    fact_merged_put(&payload, merged);
    fact_merged_fini(merged);
    *merged = (struct fact_merged){ 0 };
    merge->median_sum_ns = 0;
    merge->dropped = 0;
    merge->frames++;
    return spool_put(merge->writer, FRAME_MERGED, &payload, merge->err);
}

static int merge_merged_begin(struct merge *merge, const struct column *column)
{
    struct fact_merged *merged = &merge->merged;

    *merged = (struct fact_merged){ .attempt = column->attempt,
                                    .step_from = column->step,
                                    .ranks = column->ranks,
                                    .begin_real_ns = column->begin_real_ns };
    merged->rank = calloc(column->ranks, sizeof(*merged->rank));
    return merged->rank ? 0 : err_nomem(merge->err);
}

static int merge_take_column(void *arg, const struct column *column)
{
    struct merge *merge = arg;
    struct fact_merged *merged = &merge->merged;
    int result = 0;

    if (merged->steps && (merged->steps == MERGE_STEPS || merged->attempt != column->attempt ||
                          merged->ranks != column->ranks))
        result = merge_write(merge);
    if (result == 0 && !merged->steps)
        result = merge_merged_begin(merge, column);
    if (result < 0)
        return result;
    merged->step_to = column->step;
    merged->steps++;
    merged->duration_ns = MAX(merged->duration_ns, column->duration_ns);
    merge->median_sum_ns += column->median_ns;
    for (uint32_t i = 0; i < column->ranks; i++) {
        struct merged_rank *rank = &merged->rank[i];
        int64_t local_ns = column->local_ns[i];

        if (local_ns < 0)
            continue;
        rank->local_ns += (local_ns - rank->local_ns) / (rank->steps + 1); /* the mean so far */
        rank->steps++;
        rank->excess_ns = MAX(rank->excess_ns, local_ns - column->median_ns);
    }
    return 0;
}

/* Columns fail for want of memory, or as merge_take_column() did; ranks beyond COLUMN_RANKS_MAX do not reach them. */
static int merge_columns_result(const struct merge *merge, int result)
{
    return result == -ENOMEM ? err_nomem(merge->err) : result;
}

static int merge_take_shape(struct merge *merge, struct reader in)
{
    CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };
    uint64_t *at;

    if (fact_shape_get(in, &shape) < 0 || merge->shape_count == SHAPES_MAX)
        return 0;
    if (!ARRAY_FIT(merge->shapes, merge->shape_room, merge->shape_count + 1))
        return err_nomem(merge->err);
    at = map_put(&merge->shape, shape.hash, merge->shape_count);
    if (!at)
        return err_nomem(merge->err);
    if (*at == merge->shape_count) {
        merge->shapes[merge->shape_count++] = shape;
        shape.item = NULL;
    }
    return 0;
}

static int merge_take_step(struct merge *merge, const struct frame *frame, struct reader in)
{
    const uint64_t *at = map_get(&merge->shape, fact_step_shape(in));
    const uint64_t *clock = map_get(&merge->clock, frame->sender);
    CLEAN(fact_step_fini) struct fact_step step = { 0 };

    merge->dropped++;
    if (!at || fact_step_get(in, &merge->shapes[*at], &step) < 0 || step.rank >= COLUMN_RANKS_MAX)
        return 0;
    return merge_columns_result(
        merge, columns_step(merge->columns, &step, fact_step_local_ns(&step, &merge->shapes[*at]),
                            clock ? step.begin_ns + (int64_t)*clock : 0, &(struct log_mark){ 0 }));
}

static int merge_put(struct merge *merge, const struct frame *frame)
{
    int result = spool_put_frame(merge->writer, frame, merge->err);

    if (result == 0 && merge->replay)
        result = log_replay_frame(merge->replay, frame, merge->err);
    return result == -EPROTO ? 0 : result; /* it was so in the old log, too */
}

static int merge_keep(struct merge *merge, const struct frame *frame)
{
    int result = 0;

    merge->kept = true;
    if (merge->has_tick) {
        merge->has_tick = false;
        merge->tick_frame.payload = merge->tick.data;
        result = merge_put(merge, &merge->tick_frame);
    }
    return result < 0 ? result : merge_put(merge, frame);
}

/* A tick without output is not needed; the last one closes the run. */
static int merge_take_tick(struct merge *merge, const struct frame *frame, struct reader in)
{
    struct fact_tick tick;

    if (fact_tick_get(in, &tick) < 0)
        return 0;
    merge->closed = tick.flags & TICK_LAST;
    merge->tick.size = 0;
    buf_put(&merge->tick, frame->payload, frame->payload_bytes);
    merge->tick_frame = *frame;
    merge->has_tick = !merge->tick.failed;
    return merge->tick.failed ? err_nomem(merge->err) : 0;
}

/* The newest ledger replaces all earlier ones. */
static int merge_take_ledger(struct merge *merge, const struct frame *frame)
{
    merge->ledger.size = 0;
    buf_put(&merge->ledger, frame->payload, frame->payload_bytes);
    merge->ledger_frame = *frame;
    merge->has_ledger = !merge->ledger.failed;
    return merge->ledger.failed ? err_nomem(merge->err) : 0;
}

/* Two of them become one, or not: -EXDEV. */
static int merge_merged_join(struct fact_merged *to, const struct fact_merged *from)
{
    uint64_t steps = (uint64_t)to->steps + from->steps;

    if (to->attempt != from->attempt || to->ranks != from->ranks ||
        to->rank_from != from->rank_from || steps > UINT16_MAX || from->step_to < to->step_to)
        return -EXDEV;
    to->median_ns +=
        (int64_t)((double)(from->median_ns - to->median_ns) * from->steps / (double)steps);
    for (uint32_t i = 0; i < to->ranks; i++) {
        struct merged_rank *rank = &to->rank[i];
        uint32_t sum = rank->steps + from->rank[i].steps;

        if (sum)
            rank->local_ns += (int64_t)((double)(from->rank[i].local_ns - rank->local_ns) *
                                        from->rank[i].steps / sum);
        rank->steps = (uint16_t)sum;
        rank->excess_ns = MAX(rank->excess_ns, from->rank[i].excess_ns);
    }
    to->steps = (uint32_t)steps;
    to->step_to = from->step_to;
    to->dropped += from->dropped;
    to->duration_ns = MAX(to->duration_ns, from->duration_ns);
    return 0;
}

static int merge_former_write(struct merge *merge)
{
    CLEAN(buf_fini) struct buf payload = { 0 };

    if (!merge->former.rank)
        return 0;
    fact_merged_put(&payload, &merge->former);
    fact_merged_fini(&merge->former);
    merge->frames++;
    return spool_put(merge->writer, FRAME_MERGED, &payload, merge->err);
}

/* Those of a former compaction: the oldest are joined in pairs each time, so that they do not add up for ever. */
static int merge_take_former(struct merge *merge, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    int result = fact_merged_get(in, &merged);

    if (result < 0)
        return result == -ENOMEM ? err_nomem(merge->err) : 0;
    if (merge->former.rank && merge->formers_to_join > 0 &&
        merge_merged_join(&merge->former, &merged) == 0) {
        merge->formers_to_join--;
        return merge_former_write(merge);
    }
    result = merge_former_write(merge);
    merge->former = merged;
    merged.rank = NULL;
    return result;
}

static int merge_take_own(struct merge *merge, const struct frame *frame, struct reader in)
{
    switch (frame->type) {
    case FRAME_TICK:
        return merge_take_tick(merge, frame, in);
    case FRAME_COMPACTION:
        return 0;
    case FRAME_MERGED:
        if (merge->replay)
            return merge_take_former(merge, in);
        break;
    case FRAME_LEDGER:
        if (merge->replay)
            return merge_take_ledger(merge, frame);
        break;
    default:
        break;
    }
    return merge_keep(merge, frame);
}

/* Of a fact that is not the controller's: whether it says anything beside the steps that are merged.  Frames of types that
 * nobody here knows go, too: a later version may know them, but until then they only fill the disk.
 */
static bool merge_is_kept(const struct frame *frame)
{
    struct fact_beat beat;
    struct member member;

    switch (frame->type) {
    case FRAME_HELLO:
    case FRAME_RING:
    case FRAME_COMM:
    case FRAME_SHAPE:
    case FRAME_EXIT:
    case FRAME_GAP:
    case FRAME_NOTE:
    case FRAME_RUN:
    case FRAME_STACK:
    case FRAME_MERGED:
    case FRAME_METHOD:
    case FRAME_FINDING:
    case FRAME_OUTCOME:
    case FRAME_PLACES:
    case FRAME_CHECK:
    case FRAME_ENVIRONMENT:
    case FRAME_REQUEST:
    case FRAME_POLICY:
    case FRAME_MEANS:
        return true;
    case FRAME_MEMBER:
        return member_get(reader_of(frame->payload, frame->payload_bytes), &member) == 0 &&
               member.news;
    case FRAME_BEAT:
        return fact_beat_get(reader_of(frame->payload, frame->payload_bytes), &beat) == 0 &&
               beat.final;
    default: /* steps, and traffic: not needed for old steps */
        return false;
    }
}

uint64_t merge_stays(const struct frame *frame)
{
    bool own = frame->sender == control_sender();

    if (own ? frame->type == FRAME_TICK || frame->type == FRAME_LEDGER ||
                  frame->type == FRAME_COMPACTION
            : !merge_is_kept(frame))
        return 0;
    return FRAME_HEADER_BYTES + frame->payload_bytes;
}

static int merge_take_ring(struct merge *merge, struct reader in)
{
    struct fact_ring ring;
    int result;

    if (fact_ring_get(in, &ring) < 0 || ring.world > COLUMN_RANKS_MAX ||
        ring.rank >= COLUMN_RANKS_MAX)
        return 0;
    result = columns_world(merge->columns, ring.world);
    if (result == 0)
        result = columns_feed(merge->columns, ring.rank);
    return merge_columns_result(merge, result);
}

static int merge_take_hello(struct merge *merge, const struct frame *frame, struct reader in)
{
    struct fact_hello hello;
    uint64_t *clock;

    if (fact_hello_get(in, &hello) < 0)
        return 0;
    clock = map_put(&merge->clock, frame->sender, 0);
    if (!clock)
        return err_nomem(merge->err);
    *clock = (uint64_t)(hello.real_ns - hello.mono_ns);
    return 0;
}

int merge_frame(struct merge *merge, const struct frame *frame)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    int result = 0;

    merge->kept = false;
    if (frame->sender == merge->self)
        return merge_take_own(merge, frame, in);
    merge->closed = merge->has_tick = false;
    if (frame->type == FRAME_STEP)
        return merge_take_step(merge, frame, in);
    if (!merge_is_kept(frame)) {
        merge->dropped++;
        return 0;
    }
    if (frame->type == FRAME_SHAPE)
        result = merge_take_shape(merge, in);
    else if (frame->type == FRAME_HELLO)
        result = merge_take_hello(merge, frame, in);
    else if (frame->type == FRAME_RING)
        result = merge_take_ring(merge, in);
    return result < 0 ? result : merge_keep(merge, frame);
}

int merge_init(struct merge *merge)
{
    merge->self = control_sender();
    return merge_columns_result(merge, columns_create(merge_take_column, merge, &merge->columns));
}

int merge_flush(struct merge *merge)
{
    int result = merge_former_write(merge);

    if (result == 0)
        result = merge_columns_result(merge, columns_flush(merge->columns));
    if (result == 0 && (merge->merged.steps || merge->dropped))
        result = merge_write(merge);
    if (result == 0 && merge->has_ledger) {
        merge->has_ledger = false;
        merge->ledger_frame.payload = merge->ledger.data;
        result = merge_keep(merge, &merge->ledger_frame);
    }
    if (result == 0 && merge->replay && merge->tick.size) { /* the next reader must know the time */
        merge->tick_frame.payload = merge->tick.data;
        result = merge_put(merge, &merge->tick_frame);
    }
    return result;
}
