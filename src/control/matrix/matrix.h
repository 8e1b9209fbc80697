/* matrix.h - rank × step: by how much each rank's own work exceeded the step's median, at every zoom.
 *
 * Columns are steps in the order in which they were trained, rows are ranks.  A tile is 256 × 256 cells
 * of a level; a cell of level n holds the largest of the cells of level n−1 below it, so a single bad
 * cell is seen from any distance.  A level halves the steps, and the ranks while they are more than
 * one tile.  docs/matrix-format.md has the file byte by byte.
 *
 * The file is derived from the log and may be removed at any time.  One writer appends; readers read
 * beside it and see what it has flushed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_MATRIX_MATRIX_H
#define LOCKSTEP_CONTROL_MATRIX_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

#define MATRIX_TILE 256 /* cells along both sides */
#define MATRIX_TILE_BYTES (MATRIX_TILE * MATRIX_TILE)
#define MATRIX_RANKS_MAX 262144
#define MATRIX_LEVELS 24
#define MATRIX_COLUMNS_MAX (UINT64_C(256) << (MATRIX_LEVELS - 1))

/* A cell: 0 nothing known, 1 no excess, else an excess of a microsecond to nearly an hour, eight
 * values an octave.
 */
uint8_t matrix_code(int64_t excess_ns);

struct matrix_column {
    uint64_t step;
    uint32_t attempt;
    int64_t median_ns;
};

struct matrix; /* to read */

/* -EUCLEAN: not a matrix, another version, or damaged: rebuild it from the log. */
int matrix_open(const char *path, struct matrix **ret, struct err *err);
void matrix_close(struct matrix *matrix); /* NULL is fine */
uint32_t matrix_ranks(const struct matrix *matrix);
uint64_t matrix_columns(const struct matrix *matrix);
/* Levels that there are: at the last one all steps are in one tile. */
unsigned matrix_levels(const struct matrix *matrix);

/* The tile x along the steps, y along the ranks, row by row: tile[row * 256 + column].  Cells beyond the
 * last rank or column are 0.  -ENOENT: no such tile; -EUCLEAN: damaged.
 */
int matrix_tile(struct matrix *matrix, unsigned level, uint64_t x, uint64_t y,
                unsigned char tile[static MATRIX_TILE_BYTES], struct err *err);
/* Which steps the columns are.  Returns how many of `count` there are from `first` on. */
int64_t matrix_steps(struct matrix *matrix, uint64_t first, struct matrix_column *ret, size_t count,
                     struct err *err);

struct matrix_writer;

/* Goes on with the file, or makes one.  -EUCLEAN: what is there cannot be gone on with (damaged, or made
 * for another number of ranks); remove it and begin anew.
 */
int matrix_writer_open(const char *path, uint32_t ranks, struct matrix_writer **ret,
                       struct err *err);
void matrix_writer_close(struct matrix_writer *writer); /* flushes; NULL is fine */
uint64_t matrix_writer_columns(const struct matrix_writer *writer);
uint32_t matrix_writer_ranks(const struct matrix_writer *writer);
/* Makes room for ranks that were heard later: the file is written anew beside the old one, which it then replaces.  On failure the
 * old one goes on.
 */
int matrix_writer_widen(struct matrix_writer **writer, const char *path, uint32_t ranks,
                        struct err *err);
/* By rank the excess in ns; INT64_MIN: not known.  Kept in memory until its band is full, or flushed. */
int matrix_append(struct matrix_writer *writer, const struct matrix_column *column,
                  const int64_t *excess_ns, struct err *err);
int matrix_flush(struct matrix_writer *writer, struct err *err);

#endif
