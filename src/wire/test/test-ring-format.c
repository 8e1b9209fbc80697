/* test-ring-format.c - every field that comes out of a ring has its limits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/clean.h"
#include "wire/numbers.h"
#include "wire/test/ring_make.h"

#define FIXED_BYTES (offsetof(struct ring_header, crc) + sizeof(uint32_t))

static void a_header_with_any_bit_changed_is_refused(void **state)
{
    struct ring_header header;

    (void)state;
    make_header(&header, 2, 16);
    assert_int_equal(ring_header_check(&header, header.file_bytes, NULL), 0);
    for (size_t bit = 0; bit < 8 * FIXED_BYTES; bit++) {
        unsigned char *byte = (unsigned char *)&header + bit / 8;

        *byte ^= (unsigned char)(1u << bit % 8);
        assert_int_equal(ring_header_check(&header, UINT64_MAX, NULL), -EPROTO);
        *byte ^= (unsigned char)(1u << bit % 8);
    }
}

/* Whoever can write the file can also make the checksum fit. */
static void a_sealed_header_is_refused_for_each_field_out_of_range(void **state)
{
    static const struct {
        size_t offset;
        uint32_t value;
    } bad[] = {
        { offsetof(struct ring_header, version), 0 },
        { offsetof(struct ring_header, version), RING_VERSION + 1 },
        { offsetof(struct ring_header, header_bytes), 4095 },
        { offsetof(struct ring_header, file_bytes), 1 },
        { offsetof(struct ring_header, lanes), 0 },
        { offsetof(struct ring_header, lanes), RING_LANES_MAX + 1 },
        { offsetof(struct ring_header, lanes), UINT32_MAX },
        { offsetof(struct ring_header, lane_records), 0 },
        { offsetof(struct ring_header, lane_records), 1 },
        { offsetof(struct ring_header, lane_records), 15 },
        { offsetof(struct ring_header, lane_records), RING_RECORDS_MAX * 2 },
        { offsetof(struct ring_header, lane_records), UINT32_C(1) << 31 },
        { offsetof(struct ring_header, rank), 8 },
        { offsetof(struct ring_header, world), 0 },
        { offsetof(struct ring_header, clock_id), 0 },
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct ring_header header;
        struct err err = { "" };

        make_header(&header, 2, 16);
        memcpy((unsigned char *)&header + bad[i].offset, &bad[i].value, sizeof(bad[i].value));
        make_seal(&header);
        assert_int_equal(ring_header_check(&header, UINT64_MAX, &err), -EPROTO);
        assert_int_not_equal(err.text[0], 0);
    }
}

static void headers_of_all_versions_so_far_are_accepted(void **state)
{
    (void)state;
    for (uint32_t version = RING_VERSION_OLDEST; version <= RING_VERSION; version++) {
        struct ring_header header;

        make_header(&header, 2, 16);
        header.version = version;
        make_seal(&header);
        assert_int_equal(ring_header_check(&header, UINT64_MAX, NULL), 0);
    }
}

static void a_request_with_any_bit_changed_has_another_checksum(void **state)
{
    const struct ring_request request = { .id = 1, .step = 2, .argument = 3, .kind = 1 };
    const uint32_t crc = ring_request_crc(&request);

    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        struct ring_request bent[4] = { request, request, request, request };

        bent[0].id ^= UINT64_C(1) << bit;
        bent[1].step ^= UINT64_C(1) << bit;
        bent[2].argument ^= UINT64_C(1) << bit;
        bent[3].kind ^= UINT32_C(1) << bit % 32;
        for (size_t i = 0; i < COUNT(bent); i++)
            assert_int_not_equal(ring_request_crc(&bent[i]), crc);
    }
}

static void a_name_without_an_end_is_refused(void **state)
{
    struct ring_header header;

    (void)state;
    make_header(&header, 2, 16);
    memset(header.run, 'x', sizeof(header.run));
    make_seal(&header);
    assert_int_equal(ring_header_check(&header, UINT64_MAX, NULL), -EPROTO);
}

static void a_file_shorter_than_its_header_says_is_refused(void **state)
{
    struct ring_header header;
    struct err err = { "" };

    (void)state;
    make_header(&header, 2, 16);
    assert_int_equal(ring_header_check(&header, header.file_bytes - 1, &err), -EPROTO);
    assert_non_null(strstr(err.text, "truncated"));
}

static bool unpacks(uint8_t kind, uint8_t detail, int32_t comm)
{
    const uint64_t word[7] = { 5, 1, ring_pack(kind, detail, 7, comm), 1, 2, 3, 4 };
    struct ring_event event;

    return ring_event_unpack(word, &event);
}

static void events_out_of_range_are_not_unpacked(void **state)
{
    (void)state;
    assert_false(unpacks(0, 0, -1));
    assert_false(unpacks(RING_KIND_COUNT, 0, -1));
    assert_false(unpacks(255, 0, -1));
    assert_true(unpacks(RING_PHASE_BEGIN, LOCKSTEP_PHASE_COUNT - 1, -1));
    assert_false(unpacks(RING_PHASE_BEGIN, LOCKSTEP_PHASE_COUNT, -1));
    assert_false(unpacks(RING_PHASE_BEGIN, 0, -1));
    assert_true(unpacks(RING_COLL_ENQUEUE, LOCKSTEP_OP_OTHER, RING_COMMS - 1));
    assert_false(unpacks(RING_COLL_ENQUEUE, LOCKSTEP_OP_SEND, 0));
    assert_false(unpacks(RING_COLL_ENQUEUE, LOCKSTEP_OP_OTHER, RING_COMMS));
    assert_false(unpacks(RING_COLL_ENQUEUE, LOCKSTEP_OP_OTHER, -1));
    assert_false(unpacks(RING_P2P_ENQUEUE, LOCKSTEP_OP_ALL_REDUCE, 0));
    assert_true(unpacks(RING_P2P_ENQUEUE, LOCKSTEP_OP_RECV, 0));
    assert_false(unpacks(RING_METRIC, LOCKSTEP_METRIC_COUNT, -1));
    assert_true(unpacks(RING_COLL_METHOD, LOCKSTEP_OP_ALL_REDUCE, 0));
    assert_false(unpacks(RING_COLL_METHOD, LOCKSTEP_OP_SEND, 0));
    assert_false(unpacks(RING_COLL_METHOD, LOCKSTEP_OP_ALL_REDUCE, -1));
    assert_false(unpacks(RING_STEP_BEGIN, 0, 0));
    assert_false(unpacks(RING_STEP_BEGIN, 1, -1));
    assert_true(unpacks(RING_NOTE, 9, -1));
    assert_true(unpacks(RING_NOTE, 8 | RING_NOTE_MORE, -1));
    assert_false(unpacks(RING_NOTE, 9 | RING_NOTE_MORE, -1));
    assert_false(unpacks(RING_NOTE, 10, -1));
}

static void what_is_packed_comes_out_again(void **state)
{
    const uint64_t word[7] = { 9, RING_NO_STEP, ring_pack(RING_COLL_END, 0, 65535, 63), 1, 2,
                               3, UINT64_MAX };
    struct ring_event event;

    (void)state;
    assert_true(ring_event_unpack(word, &event));
    assert_int_equal(event.time_ns, 9);
    assert_int_equal(event.step, RING_NO_STEP);
    assert_int_equal(event.kind, RING_COLL_END);
    assert_int_equal(event.stream, 65535);
    assert_int_equal(event.comm, 63);
    assert_int_equal(event.a, 1);
    assert_int_equal(event.d, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_with_any_bit_changed_is_refused),
        cmocka_unit_test(a_sealed_header_is_refused_for_each_field_out_of_range),
        cmocka_unit_test(headers_of_all_versions_so_far_are_accepted),
        cmocka_unit_test(a_request_with_any_bit_changed_has_another_checksum),
        cmocka_unit_test(a_name_without_an_end_is_refused),
        cmocka_unit_test(a_file_shorter_than_its_header_says_is_refused),
        cmocka_unit_test(events_out_of_range_are_not_unpacked),
        cmocka_unit_test(what_is_packed_comes_out_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
