/* test-buf.c - what is put comes out again, and nothing beyond the end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void what_is_put_comes_out_again(void **state)
{
    struct buf buf = { 0 };
    struct reader in;
    char text[8];

    (void)state;
    buf_put_u8(&buf, 0xab);
    buf_put_u16(&buf, 0x1234);
    buf_put_u32(&buf, 0x89abcdef);
    buf_put_u64(&buf, UINT64_C(0x0123456789abcdef));
    buf_put_f64(&buf, -0.1);
    buf_put_str(&buf, "rank 7");
    assert_false(buf.failed);
    in = reader_of(buf.data, buf.size);
    assert_int_equal(reader_get_u8(&in), 0xab);
    assert_int_equal(reader_get_u16(&in), 0x1234);
    assert_true(reader_get_u32(&in) == 0x89abcdef);
    assert_true(reader_get_u64(&in) == UINT64_C(0x0123456789abcdef));
    assert_true(reader_get_f64(&in) == -0.1);
    reader_get_str(&in, text, sizeof(text));
    assert_string_equal(text, "rank 7");
    assert_false(in.bad);
    assert_int_equal(reader_left(&in), 0);
    buf_fini(&buf);
}

static void bytes_are_little_endian(void **state)
{
    struct buf buf = { 0 };

    (void)state;
    buf_put_u32(&buf, 0x04030201);
    assert_memory_equal(buf.data, "\1\2\3\4", 4);
    buf_fini(&buf);
}

static void a_get_beyond_the_end_is_zero_and_marks_the_cut(void **state)
{
    static const unsigned char bytes[] = { 1, 2, 3 };
    struct reader in = reader_of(bytes, sizeof(bytes));

    (void)state;
    assert_int_equal(reader_get_u32(&in), 0);
    assert_true(in.bad);
    assert_int_equal(reader_get_u8(&in), 0); /* bad stays bad, also where bytes are left */
    assert_null(reader_get(&in, 1));
}

static void a_text_longer_than_its_field_is_refused(void **state)
{
    struct buf buf = { 0 };
    struct reader in;
    char text[4];

    (void)state;
    buf_put_str(&buf, "abcd");
    in = reader_of(buf.data, buf.size);
    reader_get_str(&in, text, sizeof(text));
    assert_true(in.bad);
    assert_string_equal(text, "");
    in = reader_of(buf.data, buf.size - 1); /* its end is missing */
    reader_get_str(&in, text, sizeof(text));
    assert_true(in.bad);
    buf_fini(&buf);
}

static void it_grows_and_drops_from_the_front(void **state)
{
    struct buf buf = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 10000; i++)
        buf_put_u32(&buf, i);
    assert_int_equal(buf.size, 40000);
    buf_drop_front(&buf, 4 * 9999);
    assert_int_equal(buf.size, 4);
    struct reader in = reader_of(buf.data, buf.size);
    assert_int_equal(reader_get_u32(&in), 9999);
    buf_drop_front(&buf, 100); /* more than there is: all of it */
    assert_int_equal(buf.size, 0);
    buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_comes_out_again),
        cmocka_unit_test(bytes_are_little_endian),
        cmocka_unit_test(a_get_beyond_the_end_is_zero_and_marks_the_cut),
        cmocka_unit_test(a_text_longer_than_its_field_is_refused),
        cmocka_unit_test(it_grows_and_drops_from_the_front),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
