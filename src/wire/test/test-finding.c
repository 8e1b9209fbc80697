/* test-finding.c - ids, names and bounds of findings, checks and environments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/clean.h"
#include "wire/finding.h"
#include "wire/frame.h"

static const struct finding sample = {
    .id = "fi-1",
    .mono_ns = 5,
    .real_ns = 7,
    .kind = FINDING_XID,
    .class = FINDING_CLASS_HARDWARE,
    .severity = FINDING_ERROR,
    .origin = FINDING_FROM_KERNEL,
    .code = 79,
    .count = 1,
    .node = "n1",
    .raw = "NVRM: Xid (PCI:0000:3b:00): 79",
};

static void every_number_has_a_name_that_leads_back_to_it(void **state)
{
    (void)state;
    for (unsigned i = 1; i < FINDING_KIND_COUNT; i++)
        assert_int_equal(finding_kind_of(finding_kind_name(i)), i);
    for (unsigned i = 1; i < FINDING_CLASS_COUNT; i++)
        assert_string_not_equal(finding_class_name(i), "unknown");
    for (unsigned i = 1; i < FINDING_SEVERITY_COUNT; i++)
        assert_string_not_equal(finding_severity_name(i), "unknown");
    for (unsigned i = 1; i < FINDING_ORIGIN_COUNT; i++)
        assert_string_not_equal(finding_origin_name(i), "unknown");
    for (unsigned i = 1; i < CHECK_STATE_COUNT; i++)
        assert_string_not_equal(check_state_name(i), check_state_name(i - 1));
    assert_string_equal(finding_kind_name(0), "unknown");
    assert_string_equal(finding_kind_name(FINDING_KIND_COUNT), "unknown");
    assert_int_equal(finding_kind_of("no such kind"), 0);
}

static void a_line_that_is_read_twice_is_one_finding(void **state)
{
    struct finding first = sample, again = sample, other = sample;

    (void)state;
    again.real_ns += 12345; /* computed again from another offset */
    again.count = 9;
    again.severity = FINDING_FATAL;
    again.rank_count = 1;
    other.mono_ns++;
    finding_identify(&first);
    finding_identify(&again);
    finding_identify(&other);
    assert_string_equal(first.id, again.id);
    assert_string_not_equal(first.id, other.id);
    again.mono_ns = first.mono_ns = 0; /* only the time of the day tells them apart */
    finding_identify(&first);
    finding_identify(&again);
    assert_string_not_equal(first.id, again.id);
}

static int finding_read(const struct finding *finding, size_t cut, struct finding *ret)
{
    CLEAN(buf_fini) struct buf out = { 0 };

    finding_put(&out, finding);
    return finding_get(reader_of(out.data, out.size - cut), ret);
}

static void a_finding_out_of_range_is_refused(void **state)
{
    struct finding bad, got;

    (void)state;
    assert_int_equal(finding_read(&sample, 0, &got), 0);
    assert_int_equal(finding_read(&sample, 1, &got), -EPROTO);
    bad = sample;
    bad.kind = FINDING_KIND_COUNT;
    assert_int_equal(finding_read(&bad, 0, &got), -EPROTO);
    bad = sample;
    bad.severity = 0;
    assert_int_equal(finding_read(&bad, 0, &got), -EPROTO);
    bad = sample;
    bad.error_ns = -1;
    assert_int_equal(finding_read(&bad, 0, &got), -EPROTO);
    bad = sample;
    bad.count = 0;
    assert_int_equal(finding_read(&bad, 0, &got), -EPROTO);
    bad = sample;
    bad.node[0] = 0;
    assert_int_equal(finding_read(&bad, 0, &got), -EPROTO);
    bad = sample;
    bad.action = 255;
    assert_int_equal(finding_read(&bad, 0, &got), -EPROTO);
}

static void ranks_beyond_the_bound_are_counted_and_not_kept(void **state)
{
    struct finding many = sample, got;

    (void)state;
    many.rank_count = 16384;
    for (uint32_t i = 0; i < FINDING_RANKS; i++)
        many.rank[i] = i * 3;
    assert_int_equal(finding_read(&many, 0, &got), 0);
    assert_int_equal(got.rank_count, 16384);
    assert_memory_equal(got.rank, many.rank, sizeof(got.rank));
}

/* Forty bytes that tell of 512 pairs, and of more than there may be. */
static void a_count_without_its_pairs_allocates_nothing(void **state)
{
    const uint32_t counts[] = { 1, ENVIRONMENT_PAIRS, ENVIRONMENT_PAIRS + 1, UINT32_MAX };
    struct environment empty = { .node = "n1" }, got = { 0 };

    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++) {
        CLEAN(buf_fini) struct buf out = { 0 };

        environment_put(&out, &empty);
        out.size -= 4;
        buf_put_u32(&out, counts[i]);
        assert_int_equal(environment_get(reader_of(out.data, out.size), &got), -EPROTO);
        assert_null(got.pair);
    }
}

static void an_unknown_check_stays_unknown(void **state)
{
    struct check check = { .state = CHECK_UNKNOWN, .node = "n1", .name = "gemm" }, got;
    CLEAN(buf_fini) struct buf out = { 0 };

    (void)state;
    check_put(&out, &check);
    assert_int_equal(check_get(reader_of(out.data, out.size), &got), 0);
    assert_string_equal(check_state_name(got.state), "unknown");
    out.data[16] = 0; /* a state that nobody wrote is not ok, it is malformed */
    assert_int_equal(check_get(reader_of(out.data, out.size), &got), -EPROTO);
    out.data[16] = CHECK_STATE_COUNT;
    assert_int_equal(check_get(reader_of(out.data, out.size), &got), -EPROTO);
}

static void a_finding_tells_its_time_without_being_decoded(void **state)
{
    CLEAN(buf_fini) struct buf out = { 0 };

    (void)state;
    finding_put(&out, &sample);
    assert_int_equal(fact_when(FRAME_FINDING, reader_of(out.data, out.size)), sample.mono_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_a_name_that_leads_back_to_it),
        cmocka_unit_test(a_line_that_is_read_twice_is_one_finding),
        cmocka_unit_test(a_finding_out_of_range_is_refused),
        cmocka_unit_test(ranks_beyond_the_bound_are_counted_and_not_kept),
        cmocka_unit_test(a_count_without_its_pairs_allocates_nothing),
        cmocka_unit_test(an_unknown_check_stays_unknown),
        cmocka_unit_test(a_finding_tells_its_time_without_being_decoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
