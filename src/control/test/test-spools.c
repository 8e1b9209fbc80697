/* Spools come as one stream, in the order of time, each frame once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "control/test/fixture.h"

static void put_note(struct spool_writer *writer, int64_t mono_ns)
{
    struct fact_note note = { .mono_ns = mono_ns, .text = "x" };
    struct buf payload = { 0 };

    fact_note_put(&payload, &note);
    assert_int_equal(spool_put(writer, FRAME_NOTE, &payload, NULL), 0);
    buf_fini(&payload);
}

static void frames_come_in_the_order_of_real_time(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *one = fixture_spool(fixture, "agent-n1"),
                        *two = fixture_spool(fixture, "agent-n2");
    struct spools *spools;
    struct frame frame;
    int64_t real_ns, before_ns = 0;
    int count = 0;

    fixture_hello(one, 100, 10100);
    fixture_hello(two, 5100, 10100); /* another machine: its clock began earlier */
    for (int i = 0; i < 1000; i++) {
        put_note(one, 100 + 10 * i);
        put_note(two, 5105 + 10 * i);
    }
    assert_int_equal(spools_create(fixture->dir.spool.text, NULL, &spools), 0);
    assert_int_equal(spools_scan(spools, NULL), 0);
    for (; spools_peek(spools, &frame, &real_ns) == 1; count++) {
        assert_true(real_ns >= before_ns);
        before_ns = real_ns;
        assert_int_equal(spools_take(spools), 0);
    }
    assert_int_equal(count, 2002);
    assert_true(before_ns == 10105 + 9990);
    assert_true(spools_clock_offset(spools) == 10000 || spools_clock_offset(spools) == 5000);
    spools_destroy(spools);
    spool_writer_close(one);
    spool_writer_close(two);
}

static void what_was_marked_does_not_come(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *one = fixture_spool(fixture, "agent-n1");
    struct spools *spools, *later;
    struct spools_counts counts;
    struct frame frame;

    for (int i = 0; i < 10; i++)
        put_note(one, 100 + i);
    assert_int_equal(spools_create(fixture->dir.spool.text, NULL, &spools), 0);
    assert_int_equal(spools_create(fixture->dir.spool.text, NULL, &later), 0);
    assert_int_equal(spools_scan(spools, NULL), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(spools_peek(spools, &frame, NULL), 1);
        assert_int_equal(spools_mark(later, &frame), 0);
        assert_int_equal(spools_take(spools), 0);
    }
    assert_int_equal(spools_scan(later, NULL), 0);
    for (uint64_t number = 4; number < 10; number++) {
        assert_int_equal(spools_peek(later, &frame, NULL), 1);
        assert_int_equal(frame.number, number);
        assert_int_equal(spools_take(later), 0);
    }
    assert_int_equal(spools_peek(later, &frame, NULL), 0);
    put_note(one, 200); /* comes after the next scan */
    assert_int_equal(spools_peek(later, &frame, NULL), 0);
    assert_int_equal(spools_scan(later, NULL), 0);
    assert_int_equal(spools_peek(later, &frame, NULL), 1);
    assert_int_equal(frame.number, 10);
    spools_counts(later, &counts);
    assert_int_equal(counts.doubled, 4);
    assert_int_equal(counts.frames, 6);
    spools_destroy(spools);
    spools_destroy(later);
    spool_writer_close(one);
}

/* A spool that pretends to be the controller's cannot put ticks or verdicts into the log. */
static void the_controllers_name_is_not_taken_from_a_spool(void **state)
{
    struct fixture *fixture = *state;
    struct spool_writer *fake = fixture_spool(fixture, CONTROL_SENDER);
    struct spools_counts counts;
    struct spools *spools;
    struct frame frame;

    put_note(fake, 100);
    assert_int_equal(spools_create(fixture->dir.spool.text, NULL, &spools), 0);
    assert_int_equal(spools_scan(spools, NULL), 0);
    assert_int_equal(spools_peek(spools, &frame, NULL), 0);
    spools_counts(spools, &counts);
    assert_int_equal(counts.foreign, 1);
    spools_destroy(spools);
    spool_writer_close(fake);
}

static void no_directory_is_no_frames(void **state)
{
    struct spools *spools;
    struct frame frame;

    (void)state;
    assert_int_equal(spools_create("/nowhere/at/all", NULL, &spools), 0);
    assert_int_equal(spools_scan(spools, NULL), 0);
    assert_int_equal(spools_peek(spools, &frame, NULL), 0);
    spools_destroy(spools);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(frames_come_in_the_order_of_real_time),
        TEST(what_was_marked_does_not_come),
        TEST(the_controllers_name_is_not_taken_from_a_spool),
        TEST(no_directory_is_no_frames),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
