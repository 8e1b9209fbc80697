/* fuzz-matrix.c - a matrix file with anything in it: whatever is shown of it was checked.
 *
 * The first byte says how many ranks (up to 19), the second how many columns a good file has; what follows bends
 * it, three bytes a time: where (16 bits, in 64ths of a tile), and what is put there.  With zero ranks
 * the rest is the file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/matrix/matrix.h"
#include "core/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int good)
{
    if (!good)
        abort();
}

/* Excess of a cell in a good file. */
static int64_t excess_of(uint64_t column, uint32_t rank)
{
    return (int64_t)((column * 7 + rank * 13) % 97) * 1000000;
}

static void write_good(const char *path, uint32_t ranks, uint64_t columns)
{
    struct matrix_writer *writer;
    int64_t excess[256];

    must(matrix_writer_open(path, ranks, &writer, NULL) == 0);
    for (uint64_t column = 0; column < columns; column++) {
        for (uint32_t rank = 0; rank < ranks; rank++)
            excess[rank] = excess_of(column, rank);
        must(matrix_append(writer, &(struct matrix_column){ .step = column }, excess, NULL) == 0);
    }
    matrix_writer_close(writer);
}

/* Tiles of a file that was good once are right, or refused. */
static void read_all(const char *path, uint32_t ranks, uint64_t columns)
{
    static unsigned char tile[MATRIX_TILE_BYTES];
    struct matrix_column step[16];
    struct matrix *matrix;

    if (matrix_open(path, &matrix, NULL) < 0)
        return;
    for (unsigned level = 0; level < matrix_levels(matrix); level++) {
        for (uint64_t x = 0; x < 4; x++) {
            if (matrix_tile(matrix, level, x, 0, tile, NULL) < 0)
                continue;
            if (ranks && level == 0 && matrix_ranks(matrix) == ranks && x * 256 < columns)
                must(tile[0] == matrix_code(excess_of(x * 256, 0)));
        }
    }
    matrix_steps(matrix, 0, step, 16, NULL);
    matrix_steps(matrix, UINT64_MAX - 3, step, 16, NULL);
    matrix_close(matrix);
}

static void go_on(const char *path, uint32_t ranks)
{
    struct matrix_writer *writer;
    int64_t excess[256] = { 0 };

    if (matrix_writer_open(path, ranks, &writer, NULL) < 0)
        return;
    matrix_append(writer, &(struct matrix_column){ .step = 1 }, excess, NULL);
    matrix_writer_close(writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64] = "/dev/shm/lockstep-fuzz-matrix-XXXXXX";
    struct reader in = reader_of(data, size);
    uint32_t ranks =
        reader_get_u8(&in) % 20; /* few: what is wrong is found by the bytes, not by their number */
    uint64_t columns = ranks ? reader_get_u8(&in) * 3u : 0;
    int fd = mkstemp(path);

    if (fd < 0) {
        strcpy(path, "/tmp/lockstep-fuzz-matrix-XXXXXX");
        fd = mkstemp(path);
    }
    must(fd >= 0);
    if (ranks)
        write_good(path, ranks, columns);
    else if (reader_left(&in))
        must(write(fd, in.at, reader_left(&in)) == (ssize_t)reader_left(&in));
    while (ranks && reader_left(&in) >= 3) {
        off_t at = (off_t)reader_get_u16(&in) * 64;
        uint8_t byte = reader_get_u8(&in);

        must(pwrite(fd, &byte, 1, at + byte % 64) == 1);
    }
    close(fd);
    read_all(path, ranks, columns);
    go_on(path, ranks ? ranks : 8);
    unlink(path);
    return 0;
}
