/* test-flight-memory.c - a reader that gets no more memory lets go of what it has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "read/flight.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "read/jsontext.h"

static int growths_left = -1; /* of arrays; -1: as many as wanted */

/* In the place of the C library's. */
void *reallocarray(void *array, size_t count, size_t size)
{
    if (growths_left == 0) {
        errno = ENOMEM;
        return NULL;
    }
    growths_left -= growths_left > 0;
    return count > SIZE_MAX / size ? NULL : realloc(array, count * size);
}

static const char dump[] = "{\"entries\":[{\"pg_id\":0,\"process_group\":[\"0\",\"default_pg\"],"
                           "\"collective_seq_id\":1,\"profiling_name\":\"nccl:all_reduce\","
                           "\"state\":\"completed\",\"record_id\":0}]}";

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* Two ranks of one group that no configuration names.  0, or what failed. */
static int read_two(int growths)
{
    CLEAN(flight_fini) struct flight flight = { 0 };
    int result = 0;

    for (uint32_t rank = 0; rank < 2 && result == 0; rank++) {
        struct value_tree tree = { .root = VALUE_NIL };
        char text[sizeof(dump)];

        memcpy(text, dump, sizeof(dump));
        assert_int_equal(jsontext_read(text, strlen(dump), &tree, NULL), 0);
        growths_left = growths;
        result = flight_add(&flight, rank, "dump", &tree, NULL);
        growths = growths_left;
        growths_left = -1;
        value_fini(&tree);
    }
    return result;
}

/* Fails at each growth in turn, until there are enough.  Returns how many that are. */
static int read_until_enough(void)
{
    int growths = 0, result;

    do {
        result = read_two(growths++);
        assert_true(result == 0 || result == -ENOMEM);
    } while (result < 0);
    return growths;
}

/* The C library keeps a few pieces of each size: they are there after some rounds. */
static void all_of_it_is_let_go(void **state)
{
    size_t before;

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_true(read_until_enough() > 3);
    before = allocated();
    for (int i = 0; i < 20; i++)
        read_until_enough();
    assert_int_equal(allocated(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_let_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
