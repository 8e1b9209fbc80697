/* matrix_private.h - the matrix file's layout, for its reader and its writer.
 *
 * A band is 256 columns of a level, all its tiles one after the other.  Bands lie in the order in which
 * their first column comes: a band of level n begins together with the bands of all levels below it that
 * begin at that column, lower levels first.  So every place is known by arithmetic, and a file that
 * grows never moves anything.  Parts that were not written yet are holes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_CONTROL_MATRIX_MATRIX_PRIVATE_H
#define LOCKSTEP_CONTROL_MATRIX_MATRIX_PRIVATE_H

#include <stdint.h>

#include "control/matrix/matrix.h"

#define MATRIX_MAGIC UINT64_C(0x31585254414d534c) /* "LSMATRX1" */
#define MATRIX_TILE_MAGIC UINT32_C(0x4c54534c)    /* "LSTL" */
#define MATRIX_STEPS_MAGIC UINT32_C(0x5453534c)   /* "LSST" */
#define MATRIX_VERSION 1
#define MATRIX_HEADER_BYTES 4096 /* of which the first 40 are used */
#define MATRIX_SLOT_BYTES (sizeof(struct matrix_head) + MATRIX_TILE_BYTES)
#define MATRIX_STEPS_BYTES (sizeof(struct matrix_head) + MATRIX_TILE * sizeof(struct matrix_step))

/* All little-endian: read and written as they are on the machines that we run on. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a byte order of its own");

struct matrix_header {
    uint64_t magic;
    uint32_t version, ranks;
    uint64_t columns;
    uint32_t tile, levels;
    uint32_t zero, crc; /* of all before */
};
_Static_assert(sizeof(struct matrix_header) == 40, "file format");

/* Before each tile, and before the steps of a band of level 0. */
struct matrix_head {
    uint32_t magic, level, band, tile; /* tile: along the ranks */
    uint32_t columns, rows;            /* that are filled; only these rows are written */
    uint32_t data_crc, crc;            /* of the rows; of all before */
};
_Static_assert(sizeof(struct matrix_head) == 32, "file format");

struct matrix_step {
    uint64_t step;
    int64_t median_ns;
    uint32_t attempt, zero;
};
_Static_assert(sizeof(struct matrix_step) == 24, "file format");

struct matrix_layout {
    uint32_t rows[MATRIX_LEVELS];  /* of the whole level */
    uint32_t tiles[MATRIX_LEVELS]; /* along the ranks */
    uint64_t band_bytes[MATRIX_LEVELS];
};

void matrix_layout(struct matrix_layout *ret, uint32_t ranks);
uint64_t matrix_band_at(const struct matrix_layout *layout, unsigned level, uint64_t band);
uint64_t matrix_tile_at(const struct matrix_layout *layout, unsigned level, uint64_t band,
                        uint64_t tile);
uint32_t matrix_tile_rows(const struct matrix_layout *layout, unsigned level, uint64_t tile);
unsigned matrix_levels_for(uint64_t columns); /* that a file with so many columns has */

int matrix_header_read(int fd, struct matrix_header *ret, struct err *err);
/* A slot's head and its data, checked against where it lies.  `bytes`: of the data, set by rows. */
int matrix_slot_read(int fd, uint64_t at, const struct matrix_head *expect, void *data,
                     uint32_t row_bytes, struct matrix_head *ret, struct err *err);

#endif
