/* test-seal.c - seals as bytes, headers of safetensors files, numbers that are NaN.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ckpt/seal/safetensors.h"
#include "ckpt/seal/seal.h"
#include "core/clean.h"

static void a_flipped_bit_anywhere_in_a_seal_is_found(void **state)
{
    struct seal seal = { .step = 9, .sealed_ns = 5 }, read = { .step = 0 };
    struct buf bytes = { .data = NULL };

    (void)state;
    assert_int_equal(seal_add(&seal, "a/b.pt", 3, NULL), 0);
    assert_int_equal(seal_add(&seal, "c.safetensors", 0, NULL), 0);
    seal.file[0].crc = calloc(1, sizeof(*seal.file[0].crc));
    assert_non_null(seal.file[0].crc);
    seal.file[0].crc[0] = 77;
    seal_encode(&seal, &bytes);
    assert_int_equal(seal_parse(bytes.data, bytes.size, &read, NULL), 0);
    assert_int_equal(read.files, 2);
    assert_int_equal(read.file[0].crc[0], 77);
    assert_int_equal(seal_compare(&seal, &read, true, NULL), 0);
    seal_fini(&read);
    for (size_t bit = 0; bit < bytes.size * 8; bit++) {
        bytes.data[bit / 8] ^= (unsigned char)(1 << (bit % 8));
        assert_int_equal(seal_parse(bytes.data, bytes.size, &read, NULL), -EPROTO);
        bytes.data[bit / 8] ^= (unsigned char)(1 << (bit % 8));
    }
    buf_fini(&bytes);
    seal_fini(&seal);
}

static void paths_that_leave_the_directory_are_refused(void **state)
{
    static const char *const bad[] = { "",   "/a",    "a//b",  "..",   "a/../b", "./a",  "a/.",
                                       "a/", "a\033", "a\xff", "a\nb", ".",      "../a", "a/.." };

    (void)state;
    assert_true(seal_path_ok(".metadata"));
    assert_true(seal_path_ok("...a/__0_0.distcp"));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(seal_path_ok(bad[i]));
    assert_false(seal_path_ok("1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"));
}

static int header_parse(const char *json, uint64_t data_bytes, struct err *err)
{
    struct safetensors file = { .text = NULL };
    int result =
        safetensors_parse(strdup(json), strlen(json), 8 + strlen(json) + data_bytes, &file, err);

    safetensors_fini(&file);
    return result;
}

static void a_header_that_contradicts_its_file_is_refused(void **state)
{
    static const char good[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[2,1],\"data_offsets\":[0,4]}}  ";
    struct err err = { "" };

    (void)state;
    assert_int_equal(header_parse(good, 12, &err), 0);
    assert_int_equal(header_parse(good, 11, &err), -EPROTO);
    assert_non_null(strstr(err.text, "truncated"));
    assert_int_equal(header_parse(good, 13, &err), -EPROTO);
    assert_non_null(strstr(err.text, "too long"));
    assert_int_equal(
        header_parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, &err),
        -EPROTO);
    assert_non_null(strstr(err.text, "shape"));
    assert_int_equal(
        header_parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, &err),
        -EPROTO);
    assert_non_null(strstr(err.text, "hole"));
    assert_int_equal(header_parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                                  "\"a\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8]}}",
                                  8, &err),
                     -EPROTO);
    assert_non_null(strstr(err.text, "one name"));
    assert_int_equal(
        header_parse("{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296,4294967296],"
                     "\"data_offsets\":[0,8]}}",
                     8, &err),
        -EPROTO);
    assert_int_equal(header_parse("[]", 0, &err), -EPROTO);
    assert_int_equal(header_parse("", 0, &err), -EPROTO);
}

static void a_header_longer_than_its_file_is_refused(void **state)
{
    static const unsigned char giant[8] = { 255, 255, 255, 255, 255, 255, 255, 255 },
                               small[8] = { 100 };
    uint64_t size = 0;

    (void)state;
    assert_int_equal(safetensors_header(giant, UINT64_MAX, &size, NULL), -EPROTO);
    assert_int_equal(safetensors_header(small, 107, &size, NULL), -EPROTO);
    assert_int_equal(safetensors_header(small, 108, &size, NULL), 0);
    assert_int_equal(size, 100);
}

static void floats_are_counted_by_their_bits(void **state)
{
    static const struct {
        enum floats floats;
        unsigned char byte[8];
        uint64_t nan, inf;
    } cases[] = {
        { FLOATS_F64, { 0, 0, 0, 0, 0, 0, 0xf0, 0x7f }, 0, 1 },
        { FLOATS_F64, { 1, 0, 0, 0, 0, 0, 0xf0, 0xff }, 1, 0 },
        { FLOATS_F64, { 255, 255, 255, 255, 255, 255, 0xef, 0x7f }, 0, 0 },
        { FLOATS_F32, { 0, 0, 0x80, 0x7f, 0, 0, 0xc0, 0x7f }, 1, 1 },
        { FLOATS_F32, { 0, 0, 0x80, 0xff, 255, 255, 0x7f, 0x7f }, 0, 1 },
        { FLOATS_F16, { 0, 0x7c, 1, 0x7c, 0, 0xfc, 255, 0x7b }, 1, 2 },
        { FLOATS_BF16, { 0x80, 0x7f, 0x81, 0x7f, 0xc0, 0xff, 0x7f, 0x7f }, 2, 1 },
        { FLOATS_E5M2, { 0x7c, 0xfc, 0x7d, 0x7f, 0x7b, 0, 0, 0 }, 2, 2 },
        { FLOATS_E4M3, { 0x7f, 0xff, 0x7e, 0xfe, 0, 0, 0, 0 }, 2, 0 },
        { FLOATS_FNUZ, { 0x80, 0x7f, 0xff, 0, 0, 0, 0, 0 }, 1, 0 },
        { FLOATS_E8M0, { 0xff, 0x7f, 0xfe, 0, 0, 0, 0, 0 }, 1, 0 },
        { FLOATS_NONE, { 255, 255, 255, 255, 255, 255, 255, 255 }, 0, 0 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t nan = 0, inf = 0;

        floats_count(cases[i].floats, cases[i].byte, 8, &nan, &inf);
        assert_int_equal(nan, cases[i].nan);
        assert_int_equal(inf, cases[i].inf);
    }
}

static void a_step_is_taken_from_known_names_only(void **state)
{
    (void)state;
    assert_int_equal(seal_step_of("checkpoint-500"), 500);
    assert_int_equal(seal_step_of("iter_0001200"), 1200);
    assert_int_equal(seal_step_of("global_step7"), 7);
    assert_int_equal(seal_step_of("model--val_loss=2.50-step=900-last"), 900);
    assert_int_equal(seal_step_of("llama-7b"), SEAL_NO_STEP);
    assert_int_equal(seal_step_of("step-99999999999999999999999"), SEAL_NO_STEP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flipped_bit_anywhere_in_a_seal_is_found),
        cmocka_unit_test(paths_that_leave_the_directory_are_refused),
        cmocka_unit_test(a_header_that_contradicts_its_file_is_refused),
        cmocka_unit_test(a_header_longer_than_its_file_is_refused),
        cmocka_unit_test(floats_are_counted_by_their_bits),
        cmocka_unit_test(a_step_is_taken_from_known_names_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
