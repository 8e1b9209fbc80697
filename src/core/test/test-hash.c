/* test-hash.c - checksums as others compute them; ids that must never change.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The vectors of RFC 3720, appendix B.4, and the check value of the CRC catalogue. */
static void crc32c_gives_the_published_values(void **state)
{
    unsigned char bytes[32];

    (void)state;
    memset(bytes, 0, sizeof(bytes));
    assert_true(crc32c(0, bytes, sizeof(bytes)) == 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_true(crc32c(0, bytes, sizeof(bytes)) == 0x62a8ab43);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)i;
    assert_true(crc32c(0, bytes, sizeof(bytes)) == 0x46dd794e);
    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(31 - i);
    assert_true(crc32c(0, bytes, sizeof(bytes)) == 0x113fdb5c);
    assert_true(crc32c(0, "123456789", 9) == 0xe3069283);
    assert_true(crc32c(0, "", 0) == 0);
}

static void crc32c_of_much_is_that_of_its_bytes_one_by_one(void **state)
{
    static unsigned char bytes[3 * 3 * 4096 + 77];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)(i * 131 + i / 251);
    for (size_t size = sizeof(bytes) - 3; size <= sizeof(bytes); size++) {
        uint32_t crc = 0;

        for (size_t i = 0; i < size; i++)
            crc = crc32c(crc, bytes + i, 1);
        assert_true(crc32c(0, bytes, size) == crc);
    }
}

static void crc32c_goes_on_where_it_ended(void **state)
{
    (void)state;
    assert_true(crc32c(crc32c(0, "12345", 5), "6789", 4) == 0xe3069283);
}

static void lengths_and_zeros_make_different_ids(void **state)
{
    static const unsigned char zero[16];

    (void)state;
    for (size_t i = 0; i < 16; i++) {
        for (size_t j = 0; j < i; j++)
            assert_true(hash64(0, zero, i) != hash64(0, zero, j));
    }
    assert_true(hash64(0, "ab", 2) != hash64(0, "ba", 2));
    assert_true(hash64(1, "ab", 2) != hash64(2, "ab", 2));
}

/* These numbers are in files on people's disks. */
static void ids_are_what_they_were(void **state)
{
    (void)state;
    assert_true(hash64(0, "lockstep", 8) == UINT64_C(0x0584575712222f8f));
    assert_true(hash64(0, "agent-n1", 8) == UINT64_C(0x9cec17a55c73d80f));
    assert_true(hash64(0, "thirteen byte", 13) == UINT64_C(0x02de2d5e27d0d550));
    assert_true(hash64_u64(1, 2) == UINT64_C(0xce9987a8598840f3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_gives_the_published_values),
        cmocka_unit_test(crc32c_of_much_is_that_of_its_bytes_one_by_one),
        cmocka_unit_test(crc32c_goes_on_where_it_ended),
        cmocka_unit_test(lengths_and_zeros_make_different_ids),
        cmocka_unit_test(ids_are_what_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
