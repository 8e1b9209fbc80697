/* A spool survives its writer: torn tails are cut, damage is skipped, numbers never repeat.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/spool.h"

#define FRAME_SIZE (FRAME_HEADER_BYTES + 27) /* of what put_numbers() writes */

static char path[64];

static int setup(void **state)
{
    int fd;

    (void)state;
    strcpy(path, "/tmp/lockstep-spool-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void put_numbers(unsigned from, unsigned count)
{
    struct spool_writer *writer;
    struct err err;

    assert_int_equal(spool_writer_open(path, "agent-n1", &writer, &err), 0);
    for (unsigned i = from; i < from + count; i++) {
        struct buf payload = { 0 };

        assert_int_equal(spool_writer_number(writer), i);
        buf_put_u32(&payload, i);
        buf_put(&payload, "some more bytes to tear", 23);
        assert_int_equal(spool_put(writer, FRAME_NOTE, &payload, &err), 0);
        buf_fini(&payload);
    }
    spool_writer_close(writer);
}

/* Reads all frames; returns how many, and in *missing those that did not come. */
static unsigned get_numbers(unsigned *missing, uint64_t *damaged)
{
    struct spool_reader *reader;
    struct frame frame;
    unsigned count = 0, expect = 0;

    *missing = 0;
    assert_int_equal(spool_reader_open(path, &reader, NULL), 0);
    while (spool_next(reader, &frame, NULL) == 1) {
        struct reader cut = reader_of(frame.payload, frame.payload_bytes);
        unsigned number = reader_get_u32(&cut);

        assert_true(number >= expect); /* in order, none twice */
        *missing += number - expect;
        expect = number + 1;
        count++;
    }
    *damaged = spool_reader_damaged(reader);
    spool_reader_close(reader);
    return count;
}

static void frames_come_back_in_order(void **state)
{
    unsigned missing;
    uint64_t damaged;

    (void)state;
    put_numbers(0, 10000);
    assert_int_equal(get_numbers(&missing, &damaged), 10000);
    assert_int_equal(missing, 0);
    assert_int_equal(damaged, 0);
}

static void a_torn_tail_is_cut_and_counting_goes_on(void **state)
{
    unsigned missing;
    uint64_t damaged;

    (void)state;
    for (off_t torn = 1; torn < FRAME_SIZE; torn++) {
        assert_int_equal(truncate(path, 0), 0);
        put_numbers(0, 5);
        assert_int_equal(truncate(path, 4 * FRAME_SIZE + torn), 0);
        put_numbers(4, 3);
        assert_int_equal(get_numbers(&missing, &damaged), 7);
        assert_int_equal(damaged, 0);
    }
}

static void flip_bit(off_t at)
{
    unsigned char byte;
    int fd = open(path, O_RDWR);

    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= (unsigned char)(1 << (at % 8));
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_flipped_bit_costs_one_frame(void **state)
{
    (void)state;
    for (off_t at = 0; at < FRAME_SIZE; at++) {
        unsigned missing;
        uint64_t damaged;

        assert_int_equal(truncate(path, 0), 0);
        put_numbers(0, 10);
        flip_bit(3 * FRAME_SIZE + at);
        assert_int_equal(get_numbers(&missing, &damaged), 9);
        assert_int_equal(missing, 1);
        assert_int_equal(damaged, FRAME_SIZE);
        put_numbers(10, 1); /* a writer goes on after it */
        assert_int_equal(get_numbers(&missing, &damaged), 10);
    }
}

/* A frame whose end is missing looks like a torn tail when it claims to go on beyond the end of the
 * file; the whole frames after it say that it is none.
 */
static void damage_is_named_by_its_place(void **state)
{
    struct spool_reader *reader;
    struct frame frame;
    uint64_t offset, bytes;

    (void)state;
    put_numbers(0, 40);
    flip_bit(3 * FRAME_SIZE + 50); /* a payload: its frame goes */
    flip_bit(7 * FRAME_SIZE + 2);  /* a header */
    assert_int_equal(spool_reader_open(path, &reader, NULL), 0);
    while (spool_next(reader, &frame, NULL) == 1)
        ;
    assert_int_equal(spool_reader_places(reader), 2);
    assert_true(spool_reader_place(reader, 0, &offset, &bytes));
    assert_int_equal(offset, 3 * FRAME_SIZE);
    assert_int_equal(bytes, FRAME_SIZE);
    assert_true(spool_reader_place(reader, 1, &offset, &bytes));
    assert_int_equal(offset, 7 * FRAME_SIZE);
    assert_int_equal(bytes, FRAME_SIZE);
    assert_false(spool_reader_place(reader, 2, &offset, &bytes));
    spool_reader_seek(reader, 10 * FRAME_SIZE);
    assert_int_equal(spool_next(reader, &frame, NULL), 1);
    assert_int_equal(frame.number, 10);
    spool_reader_close(reader);
    for (int i = 10; i < 40; i += 1 + (i % 2)) /* more places than are kept */
        flip_bit(i * FRAME_SIZE + 45);
    assert_int_equal(spool_reader_open(path, &reader, NULL), 0);
    while (spool_next(reader, &frame, NULL) == 1)
        ;
    assert_true(spool_reader_place(reader, SPOOL_PLACES - 1, &offset, &bytes) ||
                spool_reader_places(reader) < SPOOL_PLACES);
    assert_false(spool_reader_place(reader, SPOOL_PLACES, &offset, &bytes));
    spool_reader_close(reader);
}

static void a_frame_without_an_end_hides_none_after_it(void **state)
{
    static const unsigned char zero[1000];
    const struct frame big = { FRAME_NOTE, FRAME_VERSION, 1, 2, 3, zero, sizeof(zero) };
    const size_t kept = FRAME_HEADER_BYTES + 10;
    unsigned char rest[7 * FRAME_SIZE];
    struct buf torn = { 0 };
    unsigned missing;
    uint64_t damaged;
    int fd;

    (void)state;
    put_numbers(0, 10);
    frame_put(&torn, &big);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, rest, sizeof(rest), 3 * FRAME_SIZE), sizeof(rest));
    assert_int_equal(pwrite(fd, torn.data, kept, 3 * FRAME_SIZE), kept);
    assert_int_equal(pwrite(fd, rest, sizeof(rest), 3 * FRAME_SIZE + (off_t)kept), sizeof(rest));
    close(fd);
    buf_fini(&torn);
    assert_int_equal(get_numbers(&missing, &damaged), 10);
    assert_int_equal(missing, 0);
    assert_int_equal(damaged, kept);
    put_numbers(10, 1); /* nor does it cost the writer's count */
    assert_int_equal(get_numbers(&missing, &damaged), 11);
}

static void a_second_writer_is_refused(void **state)
{
    struct spool_writer *first, *second;
    struct err err;

    (void)state;
    assert_int_equal(spool_writer_open(path, "a", &first, &err), 0);
    assert_int_equal(spool_writer_open(path, "a", &second, &err), -EBUSY);
    assert_non_null(strstr(err.text, "another process"));
    spool_writer_close(first);
}

/* A reader that has seen half a frame, whose writer dies and is followed by another. */
static void a_reader_forgets_a_torn_tail(void **state)
{
    struct spool_reader *reader;
    struct frame frame;

    (void)state;
    for (off_t torn = 1; torn < FRAME_SIZE; torn++) {
        assert_int_equal(truncate(path, 0), 0);
        put_numbers(0, 2);
        assert_int_equal(truncate(path, FRAME_SIZE + torn), 0);
        assert_int_equal(spool_reader_open(path, &reader, NULL), 0);
        assert_int_equal(spool_next(reader, &frame, NULL), 1);
        assert_int_equal(spool_next(reader, &frame, NULL), 0);
        put_numbers(1, 2); /* with another boot: other bytes in the same place */
        for (unsigned number = 1; number < 3; number++) {
            assert_int_equal(spool_next(reader, &frame, NULL), 1);
            assert_int_equal(frame.number, number);
        }
        assert_int_equal(spool_next(reader, &frame, NULL), 0);
        assert_int_equal(spool_reader_damaged(reader), 0);
        spool_reader_close(reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_come_back_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_torn_tail_is_cut_and_counting_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_flipped_bit_costs_one_frame, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_is_named_by_its_place, setup, teardown),
        cmocka_unit_test_setup_teardown(a_reader_forgets_a_torn_tail, setup, teardown),
        cmocka_unit_test_setup_teardown(a_frame_without_an_end_hides_none_after_it, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_second_writer_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
