/* test-step-places.c - where the log has the steps: read back, and never wrong after damage or another beginning.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/matrix/step_places.h"
#include "core/clean.h"

static char places_file[64];

static int make_place(void **state)
{
    (void)state;
    strcpy(places_file, "/tmp/lockstep-places.XXXXXX");
    close(mkstemp(places_file));
    unlink(places_file);
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    unlink(places_file);
    return 0;
}

static void put(uint32_t ranks, uint64_t from, uint64_t columns)
{
    struct step_places *places;
    struct err err = { "" };
    uint64_t offset[8];

    assert_int_equal(step_places_open(places_file, ranks, from, &places, &err), 0);
    assert_int_equal(step_places_ranks(places), ranks);
    for (uint64_t column = from; column < from + columns; column++) {
        for (uint32_t rank = 0; rank < ranks; rank++)
            offset[rank] = column * 1000 + rank;
        assert_int_equal(step_places_put(places, column, offset, &err), 0);
    }
    step_places_close(places);
}

static int at(uint64_t column, uint32_t rank, uint64_t *ret)
{
    struct err err = { "" };

    return step_places_read(places_file, column, &rank, 1, ret, &err);
}

static void what_was_put_is_read(void **state)
{
    uint64_t offset[2];
    struct err err = { "" };

    (void)state;
    put(4, 0, 300);
    assert_int_equal(
        step_places_read(places_file, 299, (const uint32_t[]){ 3, 9 }, 2, offset, &err), 0);
    assert_int_equal(offset[0], 299003);
    assert_int_equal(offset[1], 0); /* no such rank */
    assert_int_equal(at(300, 0, offset), -ENOENT);
    put(4, 300, 1); /* a later life goes on */
    assert_int_equal(at(300, 0, offset), 0);
    assert_int_equal(offset[0], 300000);
    assert_int_equal(at(5, 1, offset), 0);
    assert_int_equal(offset[0], 5001);
}

static void more_ranks_keep_what_is_there(void **state)
{
    uint64_t offset;

    (void)state;
    put(4, 0, 10);
    put(8, 10, 2);
    assert_int_equal(at(9, 3, &offset), 0);
    assert_int_equal(offset, 9003);
    assert_int_equal(at(9, 7, &offset), 0);
    assert_int_equal(offset, 0); /* not known */
    assert_int_equal(at(10, 7, &offset), 0);
    assert_int_equal(offset, 10007);
}

static void fewer_ranks_begin_anew(void **state)
{
    uint64_t offset;

    (void)state;
    put(8, 0, 10);
    put(4, 10, 2);
    assert_int_equal(at(9, 0, &offset), -ENOENT);
    assert_int_equal(at(10, 3, &offset), 0);
    assert_int_equal(offset, 10003);
}

static void a_column_that_was_skipped_is_not_there(void **state)
{
    uint64_t offset;

    (void)state;
    put(4, 0, 3);
    put(4, 7, 1);
    assert_int_equal(at(5, 0, &offset), -EUCLEAN);
    assert_int_equal(at(7, 0, &offset), 0);
}

static void damage_is_found(void **state)
{
    uint64_t offset;
    int fd;

    (void)state;
    put(4, 0, 3);
    fd = open(places_file, O_RDWR);
    assert_int_equal(pwrite(fd, "x", 1, 4096 + 8 + 3), 1);
    assert_int_equal(at(0, 0, &offset), -EUCLEAN);
    assert_int_equal(at(1, 0, &offset), 0);
    assert_int_equal(pwrite(fd, "x", 1, 9), 1);
    assert_int_equal(at(1, 0, &offset), -EUCLEAN);
    close(fd);
    put(4, 5, 1); /* and the next writer begins anew */
    assert_int_equal(at(5, 0, &offset), 0);
    assert_int_equal(at(1, 0, &offset), -ENOENT);
}

static void nothing_is_nothing(void **state)
{
    uint64_t offset;

    (void)state;
    assert_int_equal(at(0, 0, &offset), -ENOENT);
    put(1, 3, 1);
    assert_int_equal(at(2, 0, &offset), -ENOENT);
    assert_int_equal(at(UINT64_MAX, 0, &offset), -ENOENT);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_is_read, make_place, remove_place),
        cmocka_unit_test_setup_teardown(more_ranks_keep_what_is_there, make_place, remove_place),
        cmocka_unit_test_setup_teardown(fewer_ranks_begin_anew, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_column_that_was_skipped_is_not_there, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(damage_is_found, make_place, remove_place),
        cmocka_unit_test_setup_teardown(nothing_is_nothing, make_place, remove_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
