/* test-ring-race.c - the writer acts exactly between two reads of the reader.
 *
 * Real races are rare and differ between machines, so this program has a pread() of its own,
 * which lets the writer go on at the worst moment, or tears the 8 bytes of a head.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "lockstep/probe.h"
#include "wire/test/ring_make.h"

#define RECORDS 16u
#define ROOM 64u

static struct race {
    struct ring_make make;
    char path[64];
    uint64_t after_block; /* records to write after the next block was copied */
    int tear_at;          /* which of the coming reads of a head is torn; 0: none */
    uint64_t torn;        /* what it gives */
    int heads, blocks;
} race;

ssize_t pread(int fd, void *out, size_t size, off_t offset)
{
    ssize_t got = syscall(SYS_pread64, fd, out, size, offset);

    if (size == 8 && (uint64_t)offset == make_lane_offset(&race.make, 0)) {
        race.heads++;
        if (race.tear_at && --race.tear_at == 0)
            memcpy(out, &race.torn, sizeof(race.torn));
    }
    if ((uint64_t)offset > make_lane_offset(&race.make, 0) && size >= 64) {
        race.blocks++;
        for (; race.after_block; race.after_block--)
            make_tick(&race.make, 0, 1000, race.make.head[0]);
    }
    return got;
}

static int race_setup(void **state)
{
    int fd;

    memset(&race, 0, sizeof(race));
    snprintf(race.path, sizeof(race.path), "/tmp/lockstep-race-XXXXXX");
    fd = mkstemp(race.path);
    if (fd < 0)
        return -1;
    make_begin(&race.make, fd, 1, RECORDS);
    *state = &race;
    return 0;
}

static int race_teardown(void **state)
{
    (void)state;
    close(race.make.fd);
    return unlink(race.path);
}

static struct ring_reader *race_open(uint64_t written)
{
    struct ring_reader *reader = NULL;

    for (uint64_t i = 0; i < written; i++)
        make_tick(&race.make, 0, i, i);
    assert_int_equal(ring_reader_open(race.path, &reader, NULL), 0);
    return reader;
}

/* They were copied whole, or were they?  Nobody can tell, so they are lost. */
static void records_that_may_have_been_overwritten_during_the_copy_are_dropped(void **state)
{
    struct ring_reader *reader = race_open(RECORDS - 4);
    struct ring_event event[ROOM];
    uint64_t lost = 0;

    (void)state;
    race.after_block = 7; /* 19 written: number 3 may be under the pen, 4 is the oldest sure one */
    assert_int_equal(ring_reader_next(reader, event, ROOM, &lost, NULL), RECORDS - 4 - 4);
    assert_true(race.blocks > 0);
    assert_int_equal(event[0].a, 4);
    assert_int_equal(lost, 4);
    assert_int_equal(ring_reader_next(reader, event, ROOM, &lost, NULL), 7);
    assert_int_equal(event[0].a, RECORDS - 4);
    assert_int_equal(lost, 4);
    ring_reader_close(reader);
}

static void a_writer_that_laps_the_reader_during_the_copy_loses_it_all(void **state)
{
    struct ring_reader *reader = race_open(8);
    struct ring_event event[ROOM];
    uint64_t lost = 0;

    (void)state;
    race.after_block = 100;
    assert_int_equal(ring_reader_next(reader, event, ROOM, &lost, NULL), 0);
    assert_int_equal(lost, 8);
    assert_int_equal(ring_reader_next(reader, event, ROOM, &lost, NULL), RECORDS - 1);
    assert_int_equal(lost, 108 - (RECORDS - 1));
    assert_int_equal(event[RECORDS - 2].a, 107);
    ring_reader_close(reader);
}

/* A head of 0x0ff → 0x100, read byte by byte, may come out as 0x1ff or as 0. */
static void one_torn_read_of_a_head_changes_nothing(void **state)
{
    static const uint64_t torn[] = { 0, 0x1ff, UINT64_MAX, 1 };

    (void)state;
    for (size_t i = 0; i < sizeof(torn) / sizeof(torn[0]); i++)
        for (int at = 1; at <= 7; at++) {
            struct ring_reader *reader;
            struct ring_event event[ROOM];
            uint64_t lost = 0;
            int got;

            make_begin(&race.make, race.make.fd, 1, RECORDS);
            reader = race_open(10);
            race.heads = 0;
            race.torn = torn[i];
            race.tear_at = at;
            got = ring_reader_next(reader, event, ROOM, &lost, NULL);
            if (got == 0) /* the first glance said "nothing new": then in the next call */
                got = ring_reader_next(reader, event, ROOM, &lost, NULL);
            assert_int_equal(got, 10);
            assert_int_equal(lost, 0);
            assert_int_equal(race.tear_at, 0);
            ring_reader_close(reader);
        }
}

#define RACE_TEST(function) cmocka_unit_test_setup_teardown(function, race_setup, race_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RACE_TEST(records_that_may_have_been_overwritten_during_the_copy_are_dropped),
        RACE_TEST(a_writer_that_laps_the_reader_during_the_copy_loses_it_all),
        RACE_TEST(one_torn_read_of_a_head_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
