/* matrix.c - offsets in a matrix file, and reading it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/matrix/matrix.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/matrix/matrix_private.h"
#include "core/clean.h"
#include "core/hash.h"

#define TRIES 8 /* a reader may meet the writer in the middle of a tile */

struct matrix {
    int fd;
    struct matrix_header header;
    struct matrix_layout layout;
};

/* ---- cells ---- */

/* A small float: three bits of fraction below a power of two of microseconds. */
uint8_t matrix_code(int64_t excess_ns)
{
    uint64_t us = excess_ns > 0 ? (uint64_t)excess_ns / 1000 : 0;
    unsigned octave, code;

    if (excess_ns == INT64_MIN)
        return 0;
    if (us == 0)
        return 1;
    octave = 63u - (unsigned)__builtin_clzll(us);
    code = octave * 8 + (unsigned)((octave >= 3 ? us >> (octave - 3) : us << (3 - octave)) & 7) + 2;
    return (uint8_t)MIN(code, 255u);
}

/* ---- places ---- */

void matrix_layout(struct matrix_layout *ret, uint32_t ranks)
{
    uint32_t rows = ranks;

    for (unsigned level = 0; level < MATRIX_LEVELS; level++) {
        ret->rows[level] = rows;
        ret->tiles[level] = (rows + MATRIX_TILE - 1) / MATRIX_TILE;
        ret->band_bytes[level] = ret->tiles[level] * MATRIX_SLOT_BYTES;
        if (level == 0)
            ret->band_bytes[level] += MATRIX_STEPS_BYTES;
        if (rows > MATRIX_TILE)
            rows = (rows + 1) / 2;
    }
}

uint64_t matrix_band_at(const struct matrix_layout *layout, unsigned level, uint64_t band)
{
    uint64_t first = band << level; /* the band of level 0 that begins with it */
    uint64_t at = MATRIX_HEADER_BYTES;

    for (unsigned i = 0; i < MATRIX_LEVELS; i++) {
        uint64_t before = (first + (UINT64_C(1) << i) - 1) >> i; /* bands that began earlier */

        at += (before + (i < level)) * layout->band_bytes[i];
    }
    return at;
}

uint64_t matrix_tile_at(const struct matrix_layout *layout, unsigned level, uint64_t band,
                        uint64_t tile)
{
    return matrix_band_at(layout, level, band) + (level == 0 ? MATRIX_STEPS_BYTES : 0) +
           tile * MATRIX_SLOT_BYTES;
}

uint32_t matrix_tile_rows(const struct matrix_layout *layout, unsigned level, uint64_t tile)
{
    return MIN(MATRIX_TILE, layout->rows[level] - (uint32_t)tile * MATRIX_TILE);
}

unsigned matrix_levels_for(uint64_t columns)
{
    unsigned levels = 1;

    while (levels < MATRIX_LEVELS && columns > UINT64_C(256) << (levels - 1))
        levels++;
    return levels;
}

/* ---- reading ---- */

static uint32_t matrix_head_crc(const struct matrix_head *head)
{
    return crc32c(0, head, offsetof(struct matrix_head, crc));
}

static int matrix_header_check(const struct matrix_header *header, ssize_t got, struct err *err)
{
    if (got < 0)
        return err_set(err, -errno, "%m");
    if (got != sizeof(*header) || header->magic != MATRIX_MAGIC)
        return err_set(err, -EUCLEAN, "no matrix");
    if (header->version != MATRIX_VERSION)
        return err_set(err, -EUCLEAN, "version %u, this program reads %u", header->version,
                       MATRIX_VERSION);
    if (header->crc != crc32c(0, header, offsetof(struct matrix_header, crc)))
        return err_set(err, -EUCLEAN, "its header is damaged");
    if (header->ranks < 1 || header->ranks > MATRIX_RANKS_MAX || header->tile != MATRIX_TILE ||
        header->levels != MATRIX_LEVELS || header->columns > MATRIX_COLUMNS_MAX)
        return err_set(err, -EUCLEAN, "its header has invalid values");
    return 0;
}

int matrix_header_read(int fd, struct matrix_header *ret, struct err *err)
{
    struct matrix_header header;
    int result = -EUCLEAN;

    for (int i = 0; i < TRIES && result == -EUCLEAN; i++) {
        ssize_t got = pread(fd, &header, sizeof(header), 0);

        result = matrix_header_check(&header, got, err);
    }
    if (result == 0)
        *ret = header;
    return result;
}

static int matrix_slot_check(const struct matrix_head *head, const struct matrix_head *expect,
                             const void *data, uint32_t row_bytes)
{
    if (head->crc != matrix_head_crc(head) || head->magic != expect->magic ||
        head->level != expect->level || head->band != expect->band || head->tile != expect->tile ||
        head->rows != expect->rows || head->columns > MATRIX_TILE)
        return -EUCLEAN;
    return head->data_crc == crc32c(0, data, (size_t)head->rows * row_bytes) ? 0 : -EUCLEAN;
}

/* NOLINTNEXTLINE(readability-function-size): seven parameters */
int matrix_slot_read(int fd, uint64_t at, const struct matrix_head *expect, void *data,
                     uint32_t row_bytes, struct matrix_head *ret, struct err *err)
{
    size_t size = (size_t)expect->rows * row_bytes;

    for (int i = 0; i < TRIES; i++) {
        ssize_t got = pread(fd, ret, sizeof(*ret), (off_t)at);

        if (got == sizeof(*ret))
            got = pread(fd, data, size, (off_t)(at + sizeof(*ret)));
        if (got < 0)
            return err_set(err, -errno, "reading a tile: %m");
        if ((size_t)got == size && matrix_slot_check(ret, expect, data, row_bytes) == 0)
            return 0;
    }
    return err_set(err, -EUCLEAN, "damaged at offset %" PRIu64 "; it can be rebuilt from the log",
                   at);
}

int matrix_open(const char *path, struct matrix **ret, struct err *err)
{
    CLEAN(fd_clean) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct matrix_header header;
    struct matrix *matrix;
    int result;

    if (fd < 0)
        return err_set(err, -errno, "%s: %m", path);
    result = matrix_header_read(fd, &header, err);
    if (result < 0)
        return err_wrap(err, result, "%s", path);
    matrix = malloc(sizeof(*matrix));
    if (!matrix)
        return err_nomem(err);
    matrix->fd = TAKE_FD(fd);
    matrix->header = header;
    matrix_layout(&matrix->layout, header.ranks);
    *ret = matrix;
    return 0;
}

void matrix_close(struct matrix *matrix)
{
    if (!matrix)
        return;
    close(matrix->fd);
    free(matrix);
}

uint32_t matrix_ranks(const struct matrix *matrix)
{
    return matrix->header.ranks;
}

uint64_t matrix_columns(const struct matrix *matrix)
{
    return matrix->header.columns;
}

unsigned matrix_levels(const struct matrix *matrix)
{
    return matrix_levels_for(matrix->header.columns);
}

int matrix_tile(struct matrix *matrix, unsigned level, uint64_t x, uint64_t y,
                unsigned char tile[static MATRIX_TILE_BYTES], struct err *err)
{
    uint64_t columns = matrix->header.columns;
    struct matrix_head head, expect = { .magic = MATRIX_TILE_MAGIC, .level = level };
    size_t used;

    if (level >= matrix_levels(matrix) || y >= matrix->layout.tiles[level] ||
        x > (MATRIX_COLUMNS_MAX >> 8) || (x << (level + 8)) >= columns)
        return err_set(err, -ENOENT, "no tile %" PRIu64 ", %" PRIu64 " at level %u", x, y, level);
    expect.band = (uint32_t)x;
    expect.tile = (uint32_t)y;
    expect.rows = matrix_tile_rows(&matrix->layout, level, y);
    used = (size_t)expect.rows * MATRIX_TILE;
    memset(tile + used, 0, MATRIX_TILE_BYTES - used);
    return matrix_slot_read(matrix->fd, matrix_tile_at(&matrix->layout, level, x, y), &expect, tile,
                            MATRIX_TILE, &head, err);
}

static int matrix_steps_read(struct matrix *matrix, uint64_t band, struct matrix_step *step,
                             struct err *err)
{
    struct matrix_head head,
        expect = { .magic = MATRIX_STEPS_MAGIC, .band = (uint32_t)band, .rows = MATRIX_TILE };

    return matrix_slot_read(matrix->fd, matrix_band_at(&matrix->layout, 0, band), &expect, step,
                            sizeof(*step), &head, err);
}

int64_t matrix_steps(struct matrix *matrix, uint64_t first, struct matrix_column *ret, size_t count,
                     struct err *err)
{
    struct matrix_step step[MATRIX_TILE];
    uint64_t end = first < matrix->header.columns
                       ? MIN(matrix->header.columns, first + MIN(count, MATRIX_COLUMNS_MAX))
                       : first;
    uint64_t band = UINT64_MAX;

    for (uint64_t at = first; at < end; at++) {
        const struct matrix_step *from = &step[at % MATRIX_TILE];

        if (at / MATRIX_TILE != band) {
            int result = matrix_steps_read(matrix, at / MATRIX_TILE, step, err);

            if (result < 0)
                return result;
            band = at / MATRIX_TILE;
        }
        ret[at - first] = (struct matrix_column){ .step = from->step,
                                                  .attempt = from->attempt,
                                                  .median_ns = from->median_ns };
    }
    return (int64_t)(end - first);
}
