/* shrink.c - two passes over a spool: list its frames, then write those that stay.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "agent/send/shrink.h"

#include <errno.h>
#include <unistd.h>

#include "agent/send/shrink_private.h"
#include "core/clean.h"
#include "core/hash.h"
#include "wire/field.h"
#include "wire/spool.h"

/* ---- the first pass: what is there ---- */

/* What is left of the frame when the ops are gone. */
static uint32_t shrink_bare_bytes(const struct fact_step *step)
{
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct fact_step bare = *step;

    bare.flags |= STEP_BARE;
    fact_step_put(&payload, &bare, NULL);
    return FRAME_HEADER_BYTES + (uint32_t)payload.size;
}

static void shrink_item_numbers(const struct fact_step *step, struct shrink_item *ret)
{
    ret->numbers = step->metric_set || step->digest_parts;
    ret->bare_bytes = step->flags & STEP_BARE ? ret->bytes : shrink_bare_bytes(step);
    for (int i = 0; i < FACT_METRICS; i++)
        ret->odd |= step->metric_set & 1u << i && !field_is_finite(step->metric[i]);
}

/* What may go at all: steps, merged ones, and beats that are not a rank's last word. */
static bool shrink_item_of(const struct frame *frame, struct shrink_item *ret)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    struct fact_step step;
    struct fact_beat beat;

    *ret = (struct shrink_item){ .type = frame->type,
                                 .bytes = FRAME_HEADER_BYTES + (uint32_t)frame->payload_bytes,
                                 .block = SHRINK_NONE };
    switch (frame->type) {
    case FRAME_STEP:
        if (fact_step_head_get(in, &step) < 0)
            return false;
        ret->rank = ret->rank_end = step.rank;
        ret->attempt = step.attempt;
        ret->step = step.step;
        ret->ring = hash64_u64(hash64_u64(step.rank, step.attempt), step.ring);
        shrink_item_numbers(&step, ret);
        return true;
    case FRAME_MERGED:
        if (fact_merged_get(in, &merged) < 0)
            return false;
        ret->rank = merged.rank_from;
        ret->rank_end = merged.rank_from + (merged.ranks ? merged.ranks - 1 : 0);
        ret->attempt = merged.attempt;
        ret->step = merged.step_from;
        ret->mark = merged.ranks == 0;
        return ret->rank_end >= ret->rank;
    case FRAME_BEAT:
        if (fact_beat_get(in, &beat) < 0 || beat.final)
            return false;
        ret->ring = hash64_u64(hash64_u64(beat.rank, beat.attempt), beat.ring);
        ret->still = !beat.advanced;
        return true;
    default:
        return false;
    }
}

static int shrink_item_add(struct shrink *shrink, const struct shrink_item *item)
{
    if (!ARRAY_FIT(shrink->item, shrink->room, shrink->items + 1))
        return -ENOMEM;
    shrink->item[shrink->items++] = *item;
    return 0;
}

static int shrink_list(struct shrink *shrink, const char *path, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    const struct shrink_settings *settings = shrink->settings;
    struct frame frame;
    int result = spool_reader_open(path, &reader, err);

    while (result >= 0 && (result = spool_next(reader, &frame, err)) == 1) {
        struct shrink_item item;

        shrink->frames++;
        if (shrink_item_of(&frame, &item)) {
            item.place = shrink->frames - 1;
            item.acknowledged = frame.number < settings->acknowledged(settings->arg, frame.boot);
            if (shrink_item_add(shrink, &item) < 0)
                return err_nomem(err);
        }
        if (settings->any_sent && frame.number <= settings->sent_number) /* that one may be gone */
            shrink->sent_end = shrink->frames;
    }
    return result;
}

/* ---- the second pass: what stays ---- */

static int shrink_take_shape(struct shrink *shrink, struct reader in)
{
    CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };
    uint64_t *at;

    if (fact_shape_get(in, &shape) < 0)
        return 0;
    at = map_put(&shrink->shape, shape.hash, shrink->shape_count);
    if (!at)
        return -ENOMEM;
    if (*at != shrink->shape_count)
        return 0;
    if (!ARRAY_FIT(shrink->shapes, shrink->shape_room, shrink->shape_count + 1))
        return -ENOMEM;
    shrink->shapes[shrink->shape_count++] = shape;
    shape.item = NULL;
    return 0;
}

static void shrink_take_hello(struct shrink *shrink, struct reader in)
{
    struct fact_hello hello;

    if (fact_hello_get(in, &hello) == 0)
        shrink->clock_ns = hello.real_ns - hello.mono_ns;
}

/* Without its shape only its duration is known, which is more than nothing. */
static int shrink_step_get(const struct shrink *shrink, struct reader in, struct fact_step *ret,
                           int64_t *own_ns)
{
    const uint64_t *at = map_get(&shrink->shape, fact_step_shape(in));
    int result = at ? fact_step_get(in, &shrink->shapes[*at], ret) : -EPROTO;

    if (result == 0)
        *own_ns = fact_step_local_ns(ret, &shrink->shapes[*at]);
    if (result != -EPROTO)
        return result;
    result = fact_step_head_get(in, ret);
    if (result == 0)
        *own_ns = ret->duration_ns;
    return result;
}

static int shrink_fold_step(struct shrink *shrink, struct shrink_block *block, struct reader in)
{
    CLEAN(fact_step_fini) struct fact_step step = { 0 };
    struct shrink_part part;
    int result = shrink_step_get(shrink, in, &step, &part.local_ns);

    if (result < 0)
        return result == -ENOMEM ? result : 0;
    part.most_ns = part.local_ns;
    part.rank = step.rank;
    part.steps = 1;
    shrink->counts.merged++;
    shrink->counts.numbers_merged += step.metric_set || step.digest_parts;
    return shrink_fold(
        block,
        &(struct fact_merged){ .attempt = step.attempt,
                               .step_from = step.step,
                               .step_to = step.step,
                               .duration_ns = step.duration_ns,
                               .begin_real_ns =
                                   shrink->clock_ns ? step.begin_ns + shrink->clock_ns : 0 },
        &part, 1);
}

static int shrink_fold_merged(struct shrink *shrink, struct shrink_block *block, struct reader in)
{
    CLEAN(fact_merged_fini) struct fact_merged merged = { 0 };
    int result = fact_merged_get(in, &merged);

    for (uint32_t i = 0; i < merged.ranks && result == 0; i++) {
        const struct merged_rank *rank = &merged.rank[i];
        struct shrink_part part = { .rank = merged.rank_from + i,
                                    .steps = rank->steps,
                                    .local_ns = rank->local_ns,
                                    .most_ns = rank->local_ns + rank->excess_ns };

        if (rank->steps)
            result = shrink_fold(block, &merged, &part, 1);
    }
    shrink->dropped += merged.dropped;
    return result;
}

/* In the place and with the number of the last frame that went into it. */
static int shrink_write_block(struct shrink *shrink, struct spool_writer *writer,
                              const struct frame *last, struct shrink_block *block, struct err *err)
{
    static const struct shrink_block nothing;
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = *last;
    struct fact_merged merged = block ? block->merged : nothing.merged;

    merged.dropped = shrink->dropped;
    shrink->dropped = 0;
    fact_merged_put(&payload, &merged);
    if (payload.failed)
        return err_nomem(err);
    frame.type = FRAME_MERGED;
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    return spool_put_frame(writer, &frame, err);
}

/* Its ops go; it stays what it was in all else, and has its own number. */
static int shrink_write_bare(struct shrink *shrink, struct spool_writer *writer,
                             const struct frame *from, struct err *err)
{
    CLEAN(fact_step_fini) struct fact_step step = { 0 };
    CLEAN(buf_fini) struct buf payload = { 0 };
    struct frame frame = *from;
    int result =
        shrink_step_get(shrink, reader_of(from->payload, from->payload_bytes), &step, &step.own_ns);

    if (result == -ENOMEM)
        return err_nomem(err);
    if (result < 0)
        return spool_put_frame(writer, from, err);
    step.flags |= STEP_BARE;
    fact_step_put(&payload, &step, NULL);
    if (payload.failed)
        return err_nomem(err);
    shrink->counts.bared++;
    frame.payload = payload.data;
    frame.payload_bytes = payload.size;
    return spool_put_frame(writer, &frame, err);
}

static int shrink_copy_item(struct shrink *shrink, struct spool_writer *writer,
                            const struct frame *frame, const struct shrink_item *item,
                            struct err *err)
{
    struct reader in = reader_of(frame->payload, frame->payload_bytes);
    struct shrink_block *block = item->block == SHRINK_NONE ? NULL : &shrink->block[item->block];
    int result = 0;

    if (item->fate == SHRINK_STAYS)
        return spool_put_frame(writer, frame, err);
    if (item->fate == SHRINK_BARE)
        return shrink_write_bare(shrink, writer, frame, err);
    if (item->fate == SHRINK_KNOWN) /* the controller has it */
        return 0;
    if (item->type == FRAME_STEP)
        result = shrink_fold_step(shrink, block, in);
    else if (item->type == FRAME_MERGED)
        result = shrink_fold_merged(shrink, block, in);
    if (result == -ENOMEM)
        return err_nomem(err);
    if (result < 0)
        return err_set(err, result, "frame %llu is damaged", (unsigned long long)frame->number);
    if (item->closes)
        return shrink_write_block(shrink, writer, frame, block, err);
    shrink->dropped++;
    return 0;
}

static int shrink_rewrite(struct shrink *shrink, const char *path, const char *to, struct err *err)
{
    CLEAN(spool_reader_clean) struct spool_reader *reader = NULL;
    CLEAN(spool_writer_clean) struct spool_writer *writer = NULL;
    uint64_t place = 0;
    size_t at = 0;
    struct frame frame;
    int result = spool_reader_open(path, &reader, err);

    if (result == 0)
        result = spool_writer_open(to, "shrink", &writer, err);
    /* It may have grown since it was looked at. */
    while (result >= 0 && (result = spool_next(reader, &frame, err)) == 1) {
        struct reader in = reader_of(frame.payload, frame.payload_bytes);

        if (frame.type == FRAME_SHAPE)
            result = shrink_take_shape(shrink, in);
        else if (frame.type == FRAME_HELLO)
            shrink_take_hello(shrink, in);
        if (result < 0)
            return err_nomem(err);
        if (at < shrink->items && shrink->item[at].place == place)
            result = shrink_copy_item(shrink, writer, &frame, &shrink->item[at++], err);
        else
            result = spool_put_frame(writer, &frame, err);
        place++;
    }
    return result < 0 ? result : spool_sync(writer, err);
}

int shrink_copy(const char *path, const char *to, const struct shrink_settings *settings,
                struct shrink_counts *ret, struct err *err)
{
    CLEAN(shrink_fini) struct shrink shrink = { .settings = settings };
    int result;

    unlink(to); /* of a former try */
    result = shrink_list(&shrink, path, err);
    if (result == 0 && shrink_plan(&shrink) < 0)
        result = err_nomem(err);
    if (result == 0)
        result = shrink_rewrite(&shrink, path, to, err);
    if (result < 0)
        unlink(to);
    else
        *ret = shrink.counts;
    return result;
}
