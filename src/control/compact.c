/* compact.c - one log without the steps of single ranks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/tree.h"
#include "control/columns.h"
#include "control/retention.h"
#include "control/rundir.h"
#include "control/spools.h"
#include "core/clean.h"
#include "core/map.h"
#include "wire/frame.h"
#include "wire/spool.h"

#define MERGE_STEPS 64
#define SHAPES_MAX 65536

struct compact {
    struct rundir dir;
    struct path beside; /* the new log */
    struct spool_reader *reader;
    struct spool_writer *writer;
    struct columns *columns;
    struct map shape; /* hash → place */
    struct fact_shape *shapes;
    size_t shape_count, shape_room;
    struct map clock;          /* sender → real minus monotonic time */
    struct fact_merged merged; /* in the making; steps 0: none */
    int64_t median_sum_ns;
    uint64_t dropped;
    struct buf tick; /* the newest, while nothing was said at it */
    struct frame tick_frame;
    bool has_tick, closed;
    uint64_t self;
    struct err *err;
};

static void compact_fini(struct compact *compact)
{
    spool_reader_close(compact->reader);
    spool_writer_close(compact->writer);
    columns_destroy(compact->columns);
    for (size_t i = 0; i < compact->shape_count; i++)
        fact_shape_fini(&compact->shapes[i]);
    free(compact->shapes);
    map_fini(&compact->shape);
    map_fini(&compact->clock);
    fact_merged_fini(&compact->merged);
    buf_fini(&compact->tick);
}

static int merged_write(struct compact *compact)
{
    struct fact_merged *merged = &compact->merged;
    CLEAN(buf_fini) struct buf payload = { 0 };

    if (merged->steps)
        merged->median_ns = compact->median_sum_ns / merged->steps;
    merged->dropped = compact->dropped;
    fact_merged_put(&payload, merged);
    fact_merged_fini(merged);
    *merged = (struct fact_merged){ 0 };
    compact->median_sum_ns = 0;
    compact->dropped = 0;
    return spool_put(compact->writer, FRAME_MERGED, &payload, compact->err);
}

static int merged_begin(struct compact *compact, const struct column *column)
{
    struct fact_merged *merged = &compact->merged;

    *merged = (struct fact_merged){ .attempt = column->attempt,
                                    .step_from = column->step,
                                    .ranks = column->ranks,
                                    .begin_real_ns = column->begin_real_ns };
    merged->rank = calloc(column->ranks, sizeof(*merged->rank));
    return merged->rank ? 0 : -ENOMEM;
}

static int take_column(void *arg, const struct column *column)
{
    struct compact *compact = arg;
    struct fact_merged *merged = &compact->merged;
    int result = 0;

    if (merged->steps && (merged->steps == MERGE_STEPS || merged->attempt != column->attempt ||
                          merged->ranks != column->ranks))
        result = merged_write(compact);
    if (result == 0 && !merged->steps)
        result = merged_begin(compact, column);
    if (result < 0)
        return result;
    merged->step_to = column->step;
    merged->steps++;
    merged->duration_ns = MAX(merged->duration_ns, column->duration_ns);
    compact->median_sum_ns += column->median_ns;
    for (uint32_t i = 0; i < column->ranks; i++) {
        struct merged_rank *rank = &merged->rank[i];
        int64_t local_ns = column->local_ns[i];

        if (local_ns < 0)
            continue;
        rank->local_ns += (local_ns - rank->local_ns) / (rank->told + 1); /* the mean so far */
        rank->told++;
        rank->excess_ns = MAX(rank->excess_ns, local_ns - column->median_ns);
    }
    return 0;
}

static int take_shape(struct compact *compact, struct cut in)
{
    CLEAN(fact_shape_fini) struct fact_shape shape = { 0 };
    uint64_t *at;

    if (fact_shape_get(in, &shape) < 0 || compact->shape_count == SHAPES_MAX)
        return 0;
    if (compact->shape_count == compact->shape_room) {
        size_t room = compact->shape_room ? compact->shape_room * 2 : 16;
        struct fact_shape *grown = realloc(compact->shapes, room * sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        compact->shapes = grown;
        compact->shape_room = room;
    }
    at = map_put(&compact->shape, shape.hash, compact->shape_count);
    if (!at)
        return -ENOMEM;
    if (*at == compact->shape_count) {
        compact->shapes[compact->shape_count++] = shape;
        shape.item = NULL;
    }
    return 0;
}

static int take_step(struct compact *compact, const struct frame *frame, struct cut in)
{
    const uint64_t *at = map_get(&compact->shape, fact_step_shape(in));
    const uint64_t *clock = map_get(&compact->clock, frame->sender);
    CLEAN(fact_step_fini) struct fact_step step = { 0 };

    compact->dropped++;
    if (!at || fact_step_get(in, &compact->shapes[*at], &step) < 0 || step.rank >= COLUMN_RANKS_MAX)
        return 0;
    return columns_step(compact->columns, &step, fact_step_local_ns(&step, &compact->shapes[*at]),
                        clock ? step.begin_ns + (int64_t)*clock : 0, &(struct log_mark){ 0 });
}

static int keep(struct compact *compact, const struct frame *frame)
{
    if (compact->has_tick) {
        compact->has_tick = false;
        compact->tick_frame.payload = compact->tick.data;
        if (spool_put_frame(compact->writer, &compact->tick_frame, compact->err) < 0)
            return -EIO;
    }
    return spool_put_frame(compact->writer, frame, compact->err);
}

/* A tick at which nothing was said tells nobody anything; the last one closes the books. */
static int take_tick(struct compact *compact, const struct frame *frame, struct cut in)
{
    struct fact_tick tick;

    if (fact_tick_get(in, &tick) < 0)
        return 0;
    compact->closed = tick.flags & TICK_LAST;
    compact->tick.size = 0;
    buf_put(&compact->tick, frame->payload, frame->payload_bytes);
    compact->tick_frame = *frame;
    compact->has_tick = !compact->tick.failed;
    return compact->tick.failed ? -ENOMEM : 0;
}

static int take_own(struct compact *compact, const struct frame *frame, struct cut in)
{
    if (frame->type == FRAME_TICK)
        return take_tick(compact, frame, in);
    return keep(compact, frame);
}

static int take_frame(struct compact *compact, const struct frame *frame)
{
    struct cut in = cut_of(frame->payload, frame->payload_bytes);
    struct fact_hello hello;
    struct fact_beat beat;
    struct fact_ring ring;
    uint64_t *clock;
    int result = 0;

    if (frame->sender == compact->self)
        return take_own(compact, frame, in);
    compact->closed = compact->has_tick = false;
    switch (frame->type) {
    case FRAME_STEP:
        return take_step(compact, frame, in);
    case FRAME_BEAT:
        if (fact_beat_get(in, &beat) < 0 || !beat.final) {
            compact->dropped++;
            return 0;
        }
        break;
    case FRAME_SHAPE:
        result = take_shape(compact, in);
        break;
    case FRAME_HELLO:
        if (fact_hello_get(in, &hello) == 0) {
            clock = map_put(&compact->clock, frame->sender, 0);
            if (!clock)
                return -ENOMEM;
            *clock = (uint64_t)(hello.real_ns - hello.mono_ns);
        }
        break;
    case FRAME_RING:
        if (fact_ring_get(in, &ring) == 0 && ring.world <= COLUMN_RANKS_MAX)
            result = columns_world(compact->columns, ring.world);
        break;
    default:
        break;
    }
    return result < 0 ? result : keep(compact, frame);
}

static int write_beside(struct compact *compact)
{
    struct frame frame;
    int result = merged_write(compact); /* of no steps: the mark of a compacted log */

    while (result == 0 && (result = spool_next(compact->reader, &frame, compact->err)) == 1)
        result = take_frame(compact, &frame);
    if (result == 0)
        result = columns_flush(compact->columns);
    if (result == 0 && (compact->merged.steps || compact->dropped))
        result = merged_write(compact);
    if (result == 0 && !compact->closed)
        return err_set(compact->err, -EBUSY, "its books are not closed");
    if (result == 0 && compact->has_tick) {
        compact->tick_frame.payload = compact->tick.data;
        result = spool_put_frame(compact->writer, &compact->tick_frame, compact->err);
    }
    return result < 0 ? result : spool_sync(compact->writer, compact->err);
}

static int compact_open(struct compact *compact, const char *run_dir)
{
    struct frame frame;
    int result = rundir_open(&compact->dir, run_dir, compact->err);

    if (result == 0)
        result =
            path_join(&compact->beside, compact->dir.path.text, "log.lsf.compact", compact->err);
    if (result == 0)
        result = spool_reader_open(compact->dir.log.text, &compact->reader, compact->err);
    if (result == 0)
        result = spool_next(compact->reader, &frame, compact->err);
    if (result <= 0)
        return result < 0 ? result : err_set(compact->err, -EBUSY, "nothing in its log yet");
    if (frame.type == FRAME_MERGED && frame.sender == compact->self)
        return 0;
    spool_reader_seek(compact->reader, 0);
    unlink(compact->beside.text);
    result = columns_create(take_column, compact, &compact->columns);
    if (result == 0)
        result =
            spool_writer_open(compact->beside.text, CONTROL_SENDER, &compact->writer, compact->err);
    return result < 0 ? result : 1;
}

/* Nobody may begin to write the old log while the new one is made. */
static int lock_log(const struct rundir *dir, struct err *err)
{
    CLEAN(fd_clean) int fd = open(dir->log.text, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", dir->log.text);
    if (rundir_is_written(dir->launcher.text) || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, -EBUSY, "somebody is at work on it");
    return TAKE_FD(fd);
}

static int put_in_place(const struct compact *compact)
{
    CLEAN(fd_clean) int fd = open(compact->dir.path.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 || rename(compact->beside.text, compact->dir.log.text) < 0 || fsync(fd) < 0)
        return err_set(compact->err, -errno, "%s: %m", compact->dir.log.text);
    tree_remove(compact->dir.spool.text); /* the log had all of it */
    return 0;
}

int retention_compact(const char *run_dir, struct err *err)
{
    CLEAN(compact_fini) struct compact compact = { .self = control_sender(), .err = err };
    CLEAN(fd_clean) int lock = -1;
    int result = compact_open(&compact, run_dir);

    if (result <= 0)
        return result;
    lock = lock_log(&compact.dir, err);
    result = lock < 0 ? lock : write_beside(&compact);
    if (result == 0)
        result = put_in_place(&compact);
    if (result < 0)
        unlink(compact.beside.text);
    return result < 0 ? result : 1;
}
