/* index_fill.c - reads the log of a run from the indexed position to its end, in transactions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "control/index/index_private.h"
#include "control/log/rundir.h"
#include "control/log/spools.h"
#include "core/clean.h"
#include "core/hash.h"
#include "core/time.h"

#define BYTES_AT_ONCE (4u << 20) /* of a log: others wait meanwhile, and a frame may have 1 MiB */
#define FRAMES_AT_ONCE 100000
#define RANKS_NS (5 * NS_PER_S) /* states of ranks are written so often */

void follower_close(struct index_follower *follower)
{
    if (!follower)
        return;
    spool_reader_close(follower->reader);
    columns_destroy(follower->columns);
    matrix_writer_close(follower->matrix);
    step_places_close(follower->places);
    for (size_t i = 0; i < follower->shape_count; i++)
        fact_shape_fini(&follower->shapes[i]);
    free(follower->shapes);
    map_fini(&follower->rank_place);
    free(follower->rank);
    map_fini(&follower->shape);
    map_fini(&follower->clock);
    traffic_fini(&follower->traffic);
    free(follower);
}

static void index_follower_clean(struct index_follower **follower)
{
    follower_close(*follower);
}

/* The first frame tells one log from another that took its place. */
static int index_log_identify(const char *path, uint64_t *ret, struct err *err)
{
    struct spool_reader *reader;
    struct frame frame;
    int result = spool_reader_open(path, &reader, err);

    if (result < 0)
        return result;
    result = spool_next(reader, &frame, err);
    *ret = 0;
    if (result == 1)
        *ret =
            hash64_u64(hash64_u64(hash64_u64(frame.type, frame.sender), frame.boot), frame.number);
    spool_reader_close(reader);
    return result;
}

/* ---- the matrix ---- */

static void index_matrix_trouble(struct index_follower *follower, const struct err *err)
{
    if (!follower->matrix_logged)
        log_error("%s; run %s gets no matrix", err->text, follower->run);
    follower->matrix_logged = true;
}

/* Opened when the first column comes: only then is it known how many ranks there are. */
static int index_matrix_begin(struct index_follower *follower, uint32_t ranks)
{
    struct err err = { "" };
    int result;

    if (follower->matrix || follower->matrix_logged)
        return 0;
    result = matrix_writer_open(follower->matrix_path.text, ranks, &follower->matrix, &err);
    if (result == -EUCLEAN && follower->row.steps == 0) {
        unlink(follower->matrix_path.text);
        result = matrix_writer_open(follower->matrix_path.text, ranks, &follower->matrix, &err);
    }
    if (result == -EUCLEAN ||
        (result == 0 && matrix_writer_columns(follower->matrix) < follower->row.steps)) {
        follower->matrix_behind = true; /* made anew from the log's beginning, with the rows */
        return err_set(follower->err, -ESTALE,
                       "the matrix of run %s is incomplete and will be rebuilt from the log",
                       follower->run);
    }
    if (result < 0)
        index_matrix_trouble(follower, &err);
    return 0;
}

static int index_matrix_put(struct index_follower *follower, const struct column *column)
{
    struct matrix_column at = { .step = column->step,
                                .attempt = column->attempt,
                                .median_ns = column->median_ns };
    CLEAN(free_clean) int64_t *excess = NULL;
    struct err err = { "" };
    int result = index_matrix_begin(follower, column->ranks);

    /* What an earlier life wrote beyond what it committed is the same as what comes now. */
    if (result < 0 || !follower->matrix ||
        matrix_writer_columns(follower->matrix) > follower->row.steps)
        return result;
    if (matrix_writer_ranks(follower->matrix) < column->ranks &&
        matrix_writer_widen(&follower->matrix, follower->matrix_path.text, column->ranks, &err) <
            0) {
        index_matrix_trouble(follower, &err);
        matrix_writer_close(TAKE(follower->matrix));
        return 0;
    }
    excess = malloc(column->ranks * sizeof(*excess));
    if (!excess)
        return err_nomem(follower->err);
    for (uint32_t rank = 0; rank < column->ranks; rank++)
        excess[rank] =
            column->local_ns[rank] < 0 ? INT64_MIN : column->local_ns[rank] - column->median_ns;
    if (matrix_append(follower->matrix, &at, excess, &err) < 0) {
        index_matrix_trouble(follower, &err);
        matrix_writer_close(TAKE(follower->matrix));
    }
    return 0;
}

/* Where the log has the steps of this column.  Without it only the timelines of single steps are missing. */
static void index_places_put(struct index_follower *follower, const struct column *column)
{
    struct err err = { "" };
    int result = 0;

    if (!column->offset || follower->places_logged)
        return;
    if (!follower->places)
        result = step_places_open(follower->places_path.text, column->ranks, follower->row.steps,
                                  &follower->places, &err);
    else if (step_places_ranks(follower->places) != column->ranks) {
        step_places_close(TAKE(follower->places));
        result = step_places_open(follower->places_path.text, column->ranks, follower->row.steps,
                                  &follower->places, &err);
    }
    if (result == 0)
        result = step_places_put(follower->places, follower->row.steps, column->offset, &err);
    if (result < 0) {
        log_error("%s; run %s gets no timelines of steps", err.text, follower->run);
        follower->places_logged = true;
    }
}

int follower_column(void *arg, const struct column *column)
{
    struct index_follower *follower = arg;
    int result = index_matrix_put(follower, column);

    if (result < 0)
        return result;
    index_places_put(follower, column);
    result = index_execute(
        follower->index, follower->err,
        "INSERT OR REPLACE INTO step VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "iiiiiiiiiiidd", follower->id, (int64_t)follower->row.steps, (int64_t)column->attempt,
        (int64_t)column->step, (int64_t)column->have, column->begin_real_ns, column->duration_ns,
        column->median_ns, column->excess_ns, (int64_t)column->worst,
        (int64_t)column->shape[column->worst], column_mean(&column->loss),
        column_mean(&column->tokens));
    if (result == 0)
        follower->row.steps++;
    return result;
}

/* ---- the log ---- */

static int index_follower_start(struct index_follower *follower, const char *run_dir,
                                struct err *err)
{
    struct rundir dir;
    int result = rundir_open(&dir, run_dir, err);

    if (result < 0)
        return result;
    snprintf(follower->run, sizeof(follower->run), "%s", dir.run);
    follower->log = dir.log;
    follower->self = control_sender();
    result = path_join(&follower->matrix_path, dir.path.text, "matrix.lsm", err);
    if (result == 0)
        result = path_join(&follower->places_path, dir.path.text, STEP_PLACES_FILE, err);
    if (result == 0)
        result =
            columns_create(follower_column, follower, &follower->columns) < 0 ? err_nomem(err) : 0;
    if (result == 0)
        result = index_log_identify(follower->log.text, &follower->log_id, err);
    return result;
}

/* Its rows are of another log, or of one that was longer: they go. */
static bool index_follower_is_stale(const struct index_follower *follower, uint64_t log_id)
{
    struct stat st;

    if (follower->row.log_bytes == 0)
        return false;
    return log_id != follower->log_id || stat(follower->log.text, &st) < 0 ||
           (uint64_t)st.st_size < follower->row.log_bytes;
}

/* Its newest step and the newest cells of each level: a file that was cut has lost them. */
static bool index_matrix_has_its_end(struct matrix *matrix)
{
    unsigned char tile[MATRIX_TILE_BYTES];
    uint64_t columns = matrix_columns(matrix);
    struct matrix_column column;
    int64_t result = matrix_steps(matrix, columns - 1, &column, 1, NULL);

    for (unsigned level = 0; level < matrix_levels(matrix) && result >= 0; level++)
        result = matrix_tile(matrix, level, (columns - 1) >> (level + 8), 0, tile, NULL);
    return result >= 0;
}

/* A matrix that is lost or damaged goes with the rows: both are read again.  One that could not be written, or that
 * is too large to be, is not tried again and again: only a file that lacks columns is.
 */
static bool index_follower_lost_matrix(const struct index_follower *follower)
{
    struct matrix *matrix = NULL;
    bool lost;
    int result;

    if (!follower->row.steps || follower->row.ranks > MATRIX_RANKS_MAX)
        return false;
    result = matrix_open(follower->matrix_path.text, &matrix, NULL);
    lost = result == -EUCLEAN || result == -ENOENT ||
           (result == 0 &&
            (matrix_columns(matrix) < follower->row.steps || !index_matrix_has_its_end(matrix)));
    matrix_close(matrix);
    return lost;
}

int follower_open(struct index *index, const char *run_dir, struct index_follower **ret,
                  struct err *err)
{
    CLEAN(index_follower_clean) struct index_follower *follower = calloc(1, sizeof(*follower));
    uint64_t log_id;
    int result;

    if (!follower)
        return err_nomem(err);
    follower->index = index;
    result = index_follower_start(follower, run_dir, err);
    if (result < 0)
        return result;
    if (result == 0) /* empty, or without a whole frame */
        return err_set(err, -ENOENT, "%s: empty", follower->log.text);
    log_id = follower->log_id;
    result = follower_load(follower, err);
    if (result == 0 &&
        (index_follower_is_stale(follower, log_id) || index_follower_lost_matrix(follower))) {
        unlink(follower->matrix_path.text);
        unlink(follower->places_path.text);
        result = index_forget(index, follower->run, err);
        if (result == 0) /* once: there are no rows any more */
            result = follower_open(index, run_dir, ret, err);
        if (result == 0)
            (*ret)->rebuilding = true;
        return result;
    }
    if (result == 0)
        result = spool_reader_open(follower->log.text, &follower->reader, err);
    if (result < 0)
        return result;
    follower->log_id = log_id;
    spool_reader_seek(follower->reader, follower->start.offset);
    follower->row.frames = follower->start.frames;
    *ret = TAKE(follower);
    return 0;
}

static int64_t index_follower_frames(struct index_follower *follower, size_t frames_max,
                                     struct err *err)
{
    uint64_t from = spool_reader_offset(follower->reader);
    struct frame frame;
    int64_t count = 0;
    int result = 0;

    while ((size_t)count < frames_max &&
           spool_reader_offset(follower->reader) - from < BYTES_AT_ONCE &&
           (result = spool_next(follower->reader, &frame, err)) == 1) {
        follower->frame_at = (struct log_mark){
            .offset =
                spool_reader_offset(follower->reader) - FRAME_HEADER_BYTES - frame.payload_bytes,
            .frames = follower->row.frames,
            .damaged = follower->start.damaged + spool_reader_damaged(follower->reader),
        };
        result = follower_frame(follower, &frame, err);
        if (result < 0)
            return result;
        follower->row.frames++;
        follower->row.log_bytes = spool_reader_offset(follower->reader);
        follower->row.damaged_bytes = follower->frame_at.damaged;
        count++;
    }
    return result < 0 ? result : count;
}

/* Rows and place change together, or not at all. */
int64_t follower_read(struct index_follower *follower, size_t frames_max, struct err *err)
{
    struct index *index = follower->index;
    int64_t count, now_ns = time_mono_ns();
    int result = index_execute(index, err, "BEGIN IMMEDIATE", "");

    if (result < 0)
        return result;
    follower->err = err;
    count = index_follower_frames(follower, frames_max, err);
    result = (int)MIN(count, 0);
    if (result == 0 && follower->matrix) {
        struct err trouble = { "" };

        if (matrix_flush(follower->matrix, &trouble) < 0) {
            index_matrix_trouble(follower, &trouble);
            matrix_writer_close(TAKE(follower->matrix));
        }
    }
    if (result == 0)
        result = follower_write(follower,
                                count == 0 || follower->row.closed || follower->urgent ||
                                    now_ns - follower->ranks_written_ns >= RANKS_NS,
                                err);
    if (result == 0)
        result = index_execute(index, err, "COMMIT", "");
    if (result < 0) {
        bool behind = follower->matrix_behind;

        index_execute(index, NULL, "ROLLBACK", "");
        if (behind && index_execute(index, NULL, "BEGIN IMMEDIATE", "") == 0) {
            /* The file goes with the rows, and both are made anew from the beginning of the log. */
            unlink(follower->matrix_path.text);
            unlink(follower->places_path.text);
            follower_forget(index, follower->run, NULL);
            index_execute(index, NULL, "COMMIT", "");
            return err_set(err, -EAGAIN, "rebuilding the matrix of run %s", follower->run);
        }
        return result;
    }
    return count;
}

/* To the end of the log that was, which its reader still has open. */
static int index_shift_read(struct index_follower *follower, struct err *err)
{
    int64_t count;

    while ((count = follower_read(follower, FRAMES_AT_ONCE, err)) > 0)
        ;
    return (int)count;
}

int index_shift(struct index *index, const char *run_dir, uint64_t old_from, uint64_t new_from,
                struct err *err)
{
    struct index_follower *follower = index->follower;
    int64_t shift = (int64_t)(new_from - old_from);
    char run[FACT_NAME];
    uint64_t log_id;
    int result = -ENOENT;

    snprintf(run, sizeof(run), "%s", strrchr(run_dir, '/') + 1);
    while (follower && strcmp(follower->run, run) != 0)
        follower = follower->next;
    if (follower)
        result = index_shift_read(follower, err);
    if (result == 0)
        result = MIN(index_log_identify(follower->log.text, &log_id, err), 0);
    if (result < 0)
        return index_forget(index, run, err);
    unlink(follower->places_path.text); /* of a log that is no more; it begins anew */
    index_leave(index, run);
    result = index_execute(index, err,
                           "UPDATE run SET position = position + ?, log_bytes = log_bytes + ?,"
                           " log_id = ? WHERE name = ? AND position >= ?",
                           "iiiti", shift, shift, (int64_t)log_id, run, (int64_t)old_from);
    /* A column that has waited since before that place: nothing tells where it is now. */
    if (result < 0 || sqlite3_changes(index->db) == 0)
        return index_forget(index, run, err);
    return index_execute(
        index, err, "UPDATE ledger SET at = -id WHERE run = (SELECT id FROM run WHERE name = ?)",
        "t", run);
}
