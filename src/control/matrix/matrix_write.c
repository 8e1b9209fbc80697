/* matrix_write.c - columns in, tiles of all levels out.
 *
 * The newest band of every level is kept in memory (9 MB for 16,384 ranks) and written whole: column by
 * column a step would touch every page of it.  Of levels that the file does not need yet, since one
 * tile of the level below still holds everything, nothing is written; whoever goes on with the file makes
 * them from that one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/matrix/matrix_private.h"
#include "core/clean.h"
#include "core/hash.h"

struct matrix_writer {
    int fd;
    uint32_t ranks;
    uint64_t columns, flushed;
    struct matrix_layout layout;
    unsigned char *band[MATRIX_LEVELS]; /* rows one after the other, 256 cells each */
    struct matrix_step step[MATRIX_TILE];
    unsigned char *codes; /* of one column */
};

static void writer_fini(struct matrix_writer *writer)
{
    for (unsigned level = 0; level < MATRIX_LEVELS; level++)
        free(writer->band[level]);
    free(writer->codes);
    if (writer->fd >= 0)
        close(writer->fd);
    free(writer);
}

void matrix_writer_close(struct matrix_writer *writer)
{
    if (!writer)
        return;
    matrix_flush(writer, NULL);
    writer_fini(writer);
}

static void writer_clean(struct matrix_writer **writer)
{
    if (*writer)
        writer_fini(*writer);
}

uint64_t matrix_writer_columns(const struct matrix_writer *writer)
{
    return writer->columns;
}

static int write_at(int fd, const void *data, size_t size, uint64_t at, struct err *err)
{
    ssize_t written = pwrite(fd, data, size, (off_t)at);

    if (written == (ssize_t)size)
        return 0;
    if (written >= 0)
        errno = ENOSPC;
    return err_set(err, -errno, "writing the matrix: %m");
}

static int write_header(struct matrix_writer *writer, struct err *err)
{
    struct matrix_header header = {
        .magic = MATRIX_MAGIC,
        .version = MATRIX_VERSION,
        .ranks = writer->ranks,
        .columns = writer->columns,
        .tile = MATRIX_TILE,
        .levels = MATRIX_LEVELS,
    };

    header.crc = crc32c(0, &header, offsetof(struct matrix_header, crc));
    return write_at(writer->fd, &header, sizeof(header), 0, err);
}

/* Head and rows by one write: readers beside us see both, or their checksums differ. */
static int write_slot(struct matrix_writer *writer, struct matrix_head head, const void *data,
                      uint32_t row_bytes, uint64_t at, struct err *err)
{
    unsigned char slot[MATRIX_SLOT_BYTES];
    size_t size = (size_t)head.rows * row_bytes;

    head.data_crc = crc32c(0, data, size);
    head.crc = crc32c(0, &head, offsetof(struct matrix_head, crc));
    memcpy(slot, &head, sizeof(head));
    memcpy(slot + sizeof(head), data, size);
    return write_at(writer->fd, slot, sizeof(head) + size, at, err);
}

/* The band of a level that the newest column is in. */
static uint64_t matrix_newest_band(const struct matrix_writer *writer, unsigned level)
{
    return (writer->columns - 1) >> (level + 8);
}

static int write_band(struct matrix_writer *writer, unsigned level, struct err *err)
{
    uint64_t band = matrix_newest_band(writer, level);
    struct matrix_head head = {
        .magic = MATRIX_TILE_MAGIC,
        .level = level,
        .band = (uint32_t)band,
        .columns = (uint32_t)(((writer->columns - 1) >> level) % MATRIX_TILE) + 1,
    };
    int result = 0;

    for (uint32_t tile = 0; tile < writer->layout.tiles[level] && result == 0; tile++) {
        head.tile = tile;
        head.rows = matrix_tile_rows(&writer->layout, level, tile);
        result = write_slot(writer, head, writer->band[level] + (size_t)tile * MATRIX_TILE_BYTES,
                            MATRIX_TILE, matrix_tile_at(&writer->layout, level, band, tile), err);
    }
    if (level > 0 || result < 0)
        return result;
    head.magic = MATRIX_STEPS_MAGIC;
    head.tile = 0;
    head.rows = MATRIX_TILE;
    return write_slot(writer, head, writer->step, sizeof(writer->step[0]),
                      matrix_band_at(&writer->layout, 0, band), err);
}

int matrix_flush(struct matrix_writer *writer, struct err *err)
{
    int result = 0;

    if (writer->flushed == writer->columns)
        return 0;
    for (unsigned level = 0; level < matrix_levels_for(writer->columns) && result == 0; level++)
        result = write_band(writer, level, err);
    if (result == 0)
        result = write_header(writer, err);
    if (result == 0)
        writer->flushed = writer->columns;
    return result;
}

/* Codes of the next level's column from this one's, in place. */
static void matrix_codes_fold(unsigned char *codes, uint32_t rows)
{
    for (uint32_t row = 0; row < rows; row += 2) {
        unsigned char low = codes[row], high = row + 1 < rows ? codes[row + 1] : 0;

        codes[row / 2] = MAX(low, high);
    }
}

static void matrix_put_column(struct matrix_writer *writer)
{
    unsigned char *codes = writer->codes;

    for (unsigned level = 0; level < MATRIX_LEVELS; level++) {
        uint32_t rows = writer->layout.rows[level];
        unsigned char *cell =
            writer->band[level] + ((writer->columns >> level) & (MATRIX_TILE - 1));

        for (uint32_t row = 0; row < rows; row++, cell += MATRIX_TILE)
            *cell = MAX(*cell, codes[row]);
        if (level + 1 < MATRIX_LEVELS && writer->layout.rows[level + 1] < rows)
            matrix_codes_fold(codes, rows);
    }
}

/* Bands that end with the newest column begin anew with the next.  All of a level's band was flushed. */
static void matrix_begin_bands(struct matrix_writer *writer)
{
    for (unsigned level = 0; level < MATRIX_LEVELS; level++) {
        if (writer->columns & ((UINT64_C(256) << level) - 1))
            break;
        memset(writer->band[level], 0, (size_t)writer->layout.tiles[level] * MATRIX_TILE_BYTES);
    }
}

/* The codes are in the writer. */
static int matrix_append_codes(struct matrix_writer *writer, const struct matrix_column *column,
                               struct err *err)
{
    int result = 0;

    if (writer->columns == MATRIX_COLUMNS_MAX)
        return err_set(err, -EFBIG, "a matrix has at most %llu columns",
                       (unsigned long long)MATRIX_COLUMNS_MAX);
    if (writer->columns && writer->columns % MATRIX_TILE == 0) {
        result = matrix_flush(writer, err);
        if (result < 0)
            return result;
        matrix_begin_bands(writer);
    }
    writer->step[writer->columns % MATRIX_TILE] = (struct matrix_step){
        .step = column->step, .attempt = column->attempt, .median_ns = column->median_ns
    };
    matrix_put_column(writer);
    writer->columns++;
    return 0;
}

int matrix_append(struct matrix_writer *writer, const struct matrix_column *column,
                  const int64_t *excess_ns, struct err *err)
{
    for (uint32_t rank = 0; rank < writer->ranks; rank++)
        writer->codes[rank] = matrix_code(excess_ns[rank]);
    return matrix_append_codes(writer, column, err);
}

/* ---- going on with a file ---- */

static int matrix_read_band(struct matrix_writer *writer, unsigned level, struct err *err)
{
    uint64_t band = matrix_newest_band(writer, level);
    struct matrix_head head,
        expect = { .magic = MATRIX_TILE_MAGIC, .level = level, .band = (uint32_t)band };
    int result = 0;

    for (uint32_t tile = 0; tile < writer->layout.tiles[level] && result == 0; tile++) {
        expect.tile = tile;
        expect.rows = matrix_tile_rows(&writer->layout, level, tile);
        result = matrix_slot_read(writer->fd, matrix_tile_at(&writer->layout, level, band, tile),
                                  &expect, writer->band[level] + (size_t)tile * MATRIX_TILE_BYTES,
                                  MATRIX_TILE, &head, err);
    }
    if (level > 0 || result < 0)
        return result;
    expect.magic = MATRIX_STEPS_MAGIC;
    expect.tile = 0;
    expect.rows = MATRIX_TILE;
    return matrix_slot_read(writer->fd, matrix_band_at(&writer->layout, 0, band), &expect,
                            writer->step, sizeof(writer->step[0]), &head, err);
}

/* A level that is not in the file, from the one below: both have only their first band. */
static void matrix_make_band(struct matrix_writer *writer, unsigned level)
{
    const unsigned char *below = writer->band[level - 1];
    uint32_t rows = writer->layout.rows[level - 1];
    uint32_t ratio = writer->layout.rows[level] < rows ? 2 : 1;

    for (uint32_t row = 0; row < rows; row++) {
        unsigned char *to = writer->band[level] + (size_t)(row / ratio) * MATRIX_TILE;

        for (uint32_t column = 0; column < MATRIX_TILE; column++) {
            unsigned char code = below[(size_t)row * MATRIX_TILE + column];

            to[column / 2] = MAX(to[column / 2], code);
        }
    }
}

static int writer_resume(struct matrix_writer *writer, struct err *err)
{
    unsigned levels = matrix_levels_for(writer->columns);
    int result = 0;

    for (unsigned level = 0; level < MATRIX_LEVELS && result == 0; level++) {
        if (writer->columns && level < levels)
            result = matrix_read_band(writer, level, err);
        else if (writer->columns)
            matrix_make_band(writer, level);
    }
    if (result == 0 && writer->columns % MATRIX_TILE == 0)
        return 0; /* full bands are begun anew when the next column comes */
    return result;
}

static int writer_alloc(struct matrix_writer *writer, struct err *err)
{
    matrix_layout(&writer->layout, writer->ranks);
    writer->codes = malloc(writer->ranks);
    if (!writer->codes)
        return err_nomem(err);
    for (unsigned level = 0; level < MATRIX_LEVELS; level++) {
        writer->band[level] = calloc(writer->layout.tiles[level], MATRIX_TILE_BYTES);
        if (!writer->band[level])
            return err_nomem(err);
    }
    return 0;
}

static int writer_begin(struct matrix_writer *writer, struct err *err)
{
    struct matrix_header header;
    struct stat st;
    int result;

    if (fstat(writer->fd, &st) < 0)
        return err_set(err, -errno, "%m");
    if (st.st_size == 0)
        return write_header(writer, err);
    result = matrix_header_read(writer->fd, &header, err);
    if (result < 0)
        return result;
    if (header.ranks != writer->ranks)
        return err_set(err, -EUCLEAN, "made for %u ranks, not %u", header.ranks, writer->ranks);
    writer->columns = writer->flushed = header.columns;
    return writer_resume(writer, err);
}

int matrix_writer_open(const char *path, uint32_t ranks, struct matrix_writer **ret,
                       struct err *err)
{
    CLEAN(writer_clean) struct matrix_writer *writer = calloc(1, sizeof(*writer));
    int result;

    if (!writer)
        return err_nomem(err);
    writer->fd = -1;
    if (ranks < 1 || ranks > MATRIX_RANKS_MAX)
        return err_set(err, -EINVAL, "a matrix of %u ranks: expected 1 to %d", ranks,
                       MATRIX_RANKS_MAX);
    writer->ranks = ranks;
    writer->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (writer->fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    if (flock(writer->fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno,
                       "%s: another process is writing it", path);
    result = writer_alloc(writer, err);
    if (result == 0)
        result = writer_begin(writer, err);
    if (result < 0)
        return err_wrap(err, result, "%s", path);
    *ret = TAKE(writer);
    return 0;
}

/* ---- more ranks ---- */

uint32_t matrix_writer_ranks(const struct matrix_writer *writer)
{
    return writer->ranks;
}

/* Up to 256 columns of a matrix, all tiles of a band side by side: cells[rank * 256 + column]. */
static int matrix_copy_band(struct matrix *from, uint64_t band, unsigned char *cells,
                            struct matrix_writer *to, struct err *err)
{
    struct matrix_column column[MATRIX_TILE];
    uint32_t ranks = matrix_ranks(from);
    int64_t count = matrix_steps(from, band * MATRIX_TILE, column, MATRIX_TILE, err);
    int result = (int)MIN(count, 0);

    for (uint32_t tile = 0; tile * MATRIX_TILE < ranks && result == 0; tile++)
        result = matrix_tile(from, 0, band, tile, cells + (size_t)tile * MATRIX_TILE_BYTES, err);
    for (int64_t i = 0; i < count && result == 0; i++) {
        memset(to->codes, 0, to->ranks); /* nothing is known of the new ones */
        for (uint32_t rank = 0; rank < ranks; rank++)
            to->codes[rank] = cells[(size_t)rank * MATRIX_TILE + (size_t)i];
        result = matrix_append_codes(to, &column[i], err);
    }
    return result;
}

static int matrix_copy(const char *path, struct matrix_writer *to, struct err *err)
{
    CLEAN(free_clean) unsigned char *cells = NULL;
    struct matrix *from = NULL;
    uint64_t bands;
    int result = matrix_open(path, &from, err);

    if (result < 0)
        return result;
    bands = (matrix_columns(from) + MATRIX_TILE - 1) / MATRIX_TILE;
    cells = malloc(((size_t)matrix_ranks(from) + MATRIX_TILE) * MATRIX_TILE);
    if (!cells)
        result = err_nomem(err);
    for (uint64_t band = 0; band < bands && result == 0; band++)
        result = matrix_copy_band(from, band, cells, to, err);
    matrix_close(from);
    return result;
}

int matrix_writer_widen(struct matrix_writer **writer, const char *path, uint32_t ranks,
                        struct err *err)
{
    CLEAN(writer_clean) struct matrix_writer *wider = NULL;
    char beside[PATH_MAX];
    int result = matrix_flush(*writer, err);

    if (result < 0 || ranks <= (*writer)->ranks)
        return result;
    if ((size_t)snprintf(beside, sizeof(beside), "%s.wider", path) >= sizeof(beside))
        return err_set(err, -ENAMETOOLONG, "%s: its name is too long", path);
    unlink(beside); /* of a life that was killed */
    result = matrix_writer_open(beside, ranks, &wider, err);
    if (result == 0)
        result = matrix_copy(path, wider, err);
    if (result == 0)
        result = matrix_flush(wider, err);
    if (result == 0 && rename(beside, path) < 0)
        result = err_set(err, -errno, "%s: %m", path);
    if (result < 0) {
        unlink(beside);
        return result;
    }
    writer_fini(*writer);
    *writer = TAKE(wider);
    return 0;
}
