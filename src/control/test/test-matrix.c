/* test-matrix.c - tiles against a slow and obvious reference, over restarts, and damaged files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/matrix/matrix.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/clean.h"
#include "core/rand.h"

struct world {
    char path[64];
    uint32_t ranks;
    uint64_t columns;
    unsigned char *cell; /* [rank * columns + column] */
};

static struct world world_make(uint32_t ranks, uint64_t columns)
{
    struct world world = { .path = "/tmp/lockstep-matrix-XXXXXX",
                           .ranks = ranks,
                           .columns = columns };
    int fd = mkstemp(world.path);

    assert_true(fd >= 0);
    close(fd);
    world.cell = malloc(ranks * columns);
    assert_non_null(world.cell);
    return world;
}

static void world_fini(struct world *world)
{
    unlink(world->path);
    free(world->cell);
}

/* Columns [from, to), as a rule without excess, here and there with much. */
static void append(struct world *world, struct matrix_writer *writer, struct rand *rand,
                   uint64_t from, uint64_t to)
{
    CLEAN(free_clean) int64_t *excess = malloc(world->ranks * sizeof(*excess));

    for (uint64_t column = from; column < to; column++) {
        struct matrix_column at = { .step = column * 3,
                                    .attempt = (uint32_t)(column / 100),
                                    .median_ns = (int64_t)column };

        for (uint32_t rank = 0; rank < world->ranks; rank++) {
            excess[rank] = rand_below(rand, 50) ? 0 : (int64_t)rand_below(rand, 1u << 30);
            if (rand_below(rand, 40) == 0)
                excess[rank] = INT64_MIN;
            world->cell[rank * world->columns + column] = matrix_code(excess[rank]);
        }
        assert_int_equal(matrix_append(writer, &at, excess, NULL), 0);
    }
}

/* The largest of the cells below one of a level. */
static unsigned char reference(const struct world *world, unsigned level, uint64_t column,
                               uint32_t row)
{
    uint32_t rows = world->ranks, first = row, last = row;
    unsigned halved = 0;
    unsigned char most = 0;

    for (unsigned i = 0; i < level && rows > MATRIX_TILE; i++, halved++)
        rows = (rows + 1) / 2;
    first = row << halved;
    last = ((row + 1) << halved) - 1;
    for (uint32_t rank = first; rank <= last && rank < world->ranks; rank++) {
        for (uint64_t at = column << level; at < (column + 1) << level && at < world->columns; at++)
            most = MAX(most, world->cell[rank * world->columns + at]);
    }
    return most;
}

static void check_tiles(const struct world *world)
{
    static unsigned char tile[MATRIX_TILE_BYTES];
    struct matrix *matrix;
    struct rand rand = { 7 };

    assert_int_equal(matrix_open(world->path, &matrix, NULL), 0);
    assert_int_equal(matrix_columns(matrix), world->columns);
    assert_int_equal(matrix_ranks(matrix), world->ranks);
    for (unsigned level = 0; level < matrix_levels(matrix); level++) {
        uint64_t x = 0, y;

        for (; (x << (level + 8)) < world->columns; x++) {
            for (y = 0; matrix_tile(matrix, level, x, y, tile, NULL) == 0; y++) {
                for (int i = 0; i < 200; i++) {
                    uint32_t row = (uint32_t)rand_below(&rand, MATRIX_TILE);
                    uint32_t column = (uint32_t)rand_below(&rand, MATRIX_TILE);

                    assert_int_equal(tile[row * MATRIX_TILE + column],
                                     reference(world, level, x * MATRIX_TILE + column,
                                               (uint32_t)y * MATRIX_TILE + row));
                }
            }
            assert_true(y > 0);
        }
        assert_int_equal(matrix_tile(matrix, level, x, 0, tile, NULL), -ENOENT);
    }
    matrix_close(matrix);
}

static void every_tile_of_every_level_is_right(void **state)
{
    static const struct {
        uint32_t ranks;
        uint64_t columns;
    } worlds[] = { { 1, 1 },    { 8, 255 },   { 8, 256 },    { 8, 257 },
                   { 3, 3000 }, { 257, 700 }, { 1030, 1300 } };

    (void)state;
    for (size_t i = 0; i < COUNT(worlds); i++) {
        struct world world = world_make(worlds[i].ranks, worlds[i].columns);
        struct matrix_writer *writer;
        struct rand rand = { i };

        assert_int_equal(matrix_writer_open(world.path, world.ranks, &writer, NULL), 0);
        append(&world, writer, &rand, 0, world.columns);
        matrix_writer_close(writer);
        check_tiles(&world);
        world_fini(&world);
    }
}

static void a_writer_goes_on_where_the_last_one_ended(void **state)
{
    struct world world = world_make(600, 1500);
    struct rand rand = { 3 };
    uint64_t at = 0;

    (void)state;
    while (at < world.columns) {
        uint64_t to = MIN(world.columns, at + 1 + rand_below(&rand, 300));
        struct matrix_writer *writer;

        assert_int_equal(matrix_writer_open(world.path, world.ranks, &writer, NULL), 0);
        assert_int_equal(matrix_writer_columns(writer), at);
        append(&world, writer, &rand, at, to);
        matrix_writer_close(writer);
        at = to;
    }
    check_tiles(&world);
    world_fini(&world);
}

/* Ranks that are heard later than the first steps: cells that were there stay, and all levels fold as if they had been made so. */
static void ranks_that_come_later_get_rows(void **state)
{
    static const uint32_t ranks[] = { 200, 300, 1030 };
    struct world world = world_make(1030, 900);
    struct matrix_writer *writer;
    struct rand rand = { 5 };
    uint64_t at = 0;

    (void)state;
    memset(world.cell, 0, 1030 * world.columns);
    assert_int_equal(matrix_writer_open(world.path, ranks[0], &writer, NULL), 0);
    for (size_t i = 0; i < COUNT(ranks); i++) {
        assert_int_equal(matrix_writer_widen(&writer, world.path, ranks[i], NULL), 0);
        assert_int_equal(matrix_writer_ranks(writer), ranks[i]);
        world.ranks = ranks[i];
        append(&world, writer, &rand, at, at + 300);
        at += 300;
    }
    assert_int_equal(matrix_writer_widen(&writer, world.path, 8, NULL), 0); /* never fewer */
    assert_int_equal(matrix_writer_ranks(writer), 1030);
    matrix_writer_close(writer);
    check_tiles(&world);
    world_fini(&world);
}

static void columns_say_which_steps_they_are(void **state)
{
    struct world world = world_make(4, 600);
    struct matrix_column column[300];
    struct matrix_writer *writer;
    struct matrix *matrix;
    struct rand rand = { 1 };

    (void)state;
    assert_int_equal(matrix_writer_open(world.path, world.ranks, &writer, NULL), 0);
    append(&world, writer, &rand, 0, 500);
    assert_int_equal(matrix_flush(writer, NULL), 0);
    assert_int_equal(matrix_open(world.path, &matrix, NULL), 0);
    append(&world, writer, &rand, 500, 600);
    matrix_writer_close(writer);
    assert_int_equal(matrix_columns(matrix), 500);
    matrix_close(matrix);
    assert_int_equal(matrix_open(world.path, &matrix, NULL), 0);
    assert_int_equal(matrix_columns(matrix), 600);
    assert_int_equal(matrix_steps(matrix, 200, column, 300, NULL), 300);
    for (uint64_t i = 0; i < 300; i++) {
        assert_int_equal(column[i].step, (200 + i) * 3);
        assert_int_equal(column[i].attempt, (200 + i) / 100);
        assert_int_equal(column[i].median_ns, 200 + i);
    }
    assert_int_equal(matrix_steps(matrix, 590, column, 300, NULL), 10);
    assert_int_equal(matrix_steps(matrix, 601, column, 300, NULL), 0);
    matrix_close(matrix);
    world_fini(&world);
}

/* The least excess that has this code, as the page computes it (docs/openapi.json). */
static int64_t code_ns(uint8_t code)
{
    return code < 2 ? 0 : (int64_t)(((UINT64_C(8) + (code - 2u) % 8) << (code - 2u) / 8) * 125);
}

static void codes_grow_with_what_they_stand_for(void **state)
{
    int64_t last = -1;

    (void)state;
    assert_int_equal(matrix_code(INT64_MIN), 0);
    assert_int_equal(matrix_code(-5), 1);
    assert_int_equal(matrix_code(999), 1);
    assert_int_equal(matrix_code(INT64_MAX), 255);
    for (unsigned code = 2; code < 256; code++) {
        int64_t ns = code_ns((uint8_t)code);

        assert_true(ns > last);
        last = ns;
    }
    for (int64_t ns = 8000; ns < INT64_C(3000000000000);
         ns += ns / 50) { /* an eighth at most is lost */
        int64_t back = code_ns(matrix_code(ns));

        assert_true(back <= ns && back > ns - ns / 8 - 1000);
    }
}

static void damage_is_found_and_never_shown(void **state)
{
    static unsigned char tile[MATRIX_TILE_BYTES];
    struct world world = world_make(8, 600);
    struct matrix_writer *writer;
    struct matrix *matrix;
    struct rand rand = { 5 };
    struct stat st;
    unsigned found = 0;
    int fd;

    (void)state;
    assert_int_equal(matrix_writer_open(world.path, world.ranks, &writer, NULL), 0);
    append(&world, writer, &rand, 0, 600);
    matrix_writer_close(writer);
    fd = open(world.path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    for (off_t at = 0; at < st.st_size; at += at < 200000 ? 97 : 9973) {
        unsigned char was, bent;
        bool refused;

        assert_int_equal(pread(fd, &was, 1, at), 1);
        bent = was ^ 0x10;
        assert_int_equal(pwrite(fd, &bent, 1, at), 1);
        matrix = NULL;
        refused = matrix_open(world.path, &matrix, NULL) < 0;
        for (unsigned level = 0; matrix && level < matrix_levels(matrix); level++) {
            for (uint64_t x = 0; (x << (level + 8)) < 600; x++) {
                if (matrix_tile(matrix, level, x, 0, tile, NULL) < 0)
                    refused = true;
                else
                    assert_int_equal(tile[5], reference(&world, level, x * 256 + 5, 0));
            }
        }
        matrix_close(matrix);
        found += refused;
        assert_int_equal(pwrite(fd, &was, 1, at), 1);
    }
    assert_true(found > 20);
    assert_int_equal(ftruncate(fd, 30), 0);
    assert_int_equal(matrix_open(world.path, &matrix, NULL), -EUCLEAN);
    assert_int_equal(matrix_writer_open(world.path, 8, &writer, NULL), -EUCLEAN);
    close(fd);
    world_fini(&world);
}

static void other_ranks_need_another_file(void **state)
{
    struct world world = world_make(8, 10);
    struct matrix_writer *writer, *second;
    struct rand rand = { 5 };

    (void)state;
    assert_int_equal(matrix_writer_open(world.path, 8, &writer, NULL), 0);
    assert_int_equal(matrix_writer_open(world.path, 8, &second, NULL), -EBUSY);
    append(&world, writer, &rand, 0, 10);
    matrix_writer_close(writer);
    assert_int_equal(matrix_writer_open(world.path, 9, &writer, NULL), -EUCLEAN);
    assert_int_equal(matrix_writer_open(world.path, 0, &writer, NULL), -EINVAL);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_of_every_level_is_right),
        cmocka_unit_test(a_writer_goes_on_where_the_last_one_ended),
        cmocka_unit_test(ranks_that_come_later_get_rows),
        cmocka_unit_test(columns_say_which_steps_they_are),
        cmocka_unit_test(codes_grow_with_what_they_stand_for),
        cmocka_unit_test(damage_is_found_and_never_shown),
        cmocka_unit_test(other_ranks_need_another_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
