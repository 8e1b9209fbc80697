/* shrink.c - two passes over a spool: what is there, then what stays. */
#include "agent/shrink.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clean.h"
#include "core/hash.h"
#include "core/map.h"
#include "wire/spool.h"

struct shrink {
    uint64_t (*acknowledged)(const void *arg, uint64_t boot);
    const void *arg;
    struct map last;     /* ring → number of its last step */
    uint64_t candidates; /* bytes of steps and beats that were not acknowledged */
    uint64_t surplus;    /* of them so many must go, the oldest */
    uint64_t last_number;
};

static void reader_clean(struct spool_reader **reader)
{
    spool_reader_close(*reader);
}

static void writer_clean(struct spool_writer **writer)
{
    spool_writer_close(*writer);
}

static void shrink_clean(struct shrink *shrink)
{
    map_fini(&shrink->last);
}

void shrink_gaps_fini(struct shrink_gaps *gaps)
{
    free(gaps->gap);
    *gaps = (struct shrink_gaps){ 0 };
}

static uint64_t ring_key(uint32_t rank, uint32_t attempt, uint32_t ring)
{
    return hash64_u64(hash64_u64(rank, attempt), ring);
}

static bool is_acknowledged(const struct shrink *shrink, const struct frame *frame)
{
    return frame->number < shrink->acknowledged(shrink->arg, frame->boot);
}

/* Whether it may go at all: a step, or a beat that is not a rank's last word. */
static bool is_candidate(const struct frame *frame, struct fact_step *step)
{
    struct cut in = cut_of(frame->payload, frame->payload_bytes);
    struct fact_beat beat;

    if (frame->type == FRAME_STEP)
        return fact_step_head_get(in, step) == 0;
    return frame->type == FRAME_BEAT && fact_beat_get(in, &beat) == 0 && !beat.final;
}

static int first_pass(struct shrink *shrink, struct spool_reader *reader, struct err *err)
{
    struct fact_step step;
    struct frame frame;
    int result;

    while ((result = spool_next(reader, &frame, err)) == 1) {
        shrink->last_number = frame.number;
        if (!is_candidate(&frame, &step))
            continue;
        if (frame.type == FRAME_STEP) {
            uint64_t *last =
                map_put(&shrink->last, ring_key(step.rank, step.attempt, step.ring), 0);

            if (!last)
                return err_set(err, -ENOMEM, "out of memory");
            *last = frame.number;
        }
        if (!is_acknowledged(shrink, &frame))
            shrink->candidates += FRAME_HEADER_BYTES + frame.payload_bytes;
    }
    return result;
}

static int gap_add(struct shrink_gaps *gaps, const struct fact_step *step)
{
    struct fact_gap *gap = gaps->gap;

    for (size_t i = 0; i < gaps->count; i++, gap++) {
        if (gap->rank == step->rank && gap->attempt == step->attempt && gap->ring == step->ring &&
            step->step == gap->step_to + 1) {
            gap->step_to = step->step;
            return 0;
        }
    }
    if (gaps->count == gaps->room) {
        size_t room = gaps->room ? gaps->room * 2 : 16;

        gap = realloc(gaps->gap, room * sizeof(*gap));
        if (!gap)
            return -ENOMEM;
        gaps->gap = gap;
        gaps->room = room;
    }
    gaps->gap[gaps->count++] = (struct fact_gap){ .rank = step->rank,
                                                  .attempt = step->attempt,
                                                  .ring = step->ring,
                                                  .step_from = step->step,
                                                  .step_to = step->step };
    return 0;
}

/* 1: it stays; 0: it goes, and if it is a step that nobody has, into the gaps; -ENOMEM. */
static int frame_stays(struct shrink *shrink, const struct frame *frame, struct shrink_gaps *gaps)
{
    struct fact_step step;
    uint64_t bytes = FRAME_HEADER_BYTES + frame->payload_bytes;
    const uint64_t *last = NULL;

    if (!is_candidate(frame, &step) || frame->number == shrink->last_number)
        return 1;
    if (frame->type == FRAME_STEP)
        last = map_get(&shrink->last, ring_key(step.rank, step.attempt, step.ring));
    if (last && *last == frame->number)
        return 1;
    if (is_acknowledged(shrink, frame))
        return 0;
    if (shrink->surplus == 0)
        return 1;
    shrink->surplus -= MIN(shrink->surplus, bytes);
    return frame->type == FRAME_STEP ? gap_add(gaps, &step) : 0;
}

static int second_pass(struct shrink *shrink, struct spool_reader *reader,
                       struct spool_writer *writer, struct shrink_gaps *gaps, struct err *err)
{
    struct frame frame;
    int result;

    while ((result = spool_next(reader, &frame, err)) == 1) {
        result = frame_stays(shrink, &frame, gaps);
        if (result == 1)
            result = spool_put_frame(writer, &frame, err);
        if (result < 0)
            return result;
    }
    return result < 0 ? result : spool_sync(writer, err);
}

int shrink_copy(const char *path, const char *to, uint64_t bytes_max,
                uint64_t (*acknowledged)(const void *arg, uint64_t boot), const void *arg,
                struct shrink_gaps *ret, struct err *err)
{
    CLEAN(shrink_clean) struct shrink shrink = { .acknowledged = acknowledged, .arg = arg };
    CLEAN(reader_clean) struct spool_reader *first = NULL;
    CLEAN(reader_clean) struct spool_reader *second = NULL;
    CLEAN(writer_clean) struct spool_writer *writer = NULL;
    int result = spool_reader_open(path, &first, err);

    unlink(to); /* of a former try */
    if (result == 0)
        result = spool_reader_open(path, &second, err);
    if (result == 0)
        result = spool_writer_open(to, "shrink", &writer, err);
    if (result == 0)
        result = first_pass(&shrink, first, err);
    if (result < 0)
        return result;
    if (shrink.candidates > bytes_max)
        shrink.surplus = shrink.candidates - bytes_max;
    result = second_pass(&shrink, second, writer, ret, err);
    if (result < 0)
        unlink(to);
    return result;
}
