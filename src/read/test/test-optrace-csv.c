/* test-optrace-csv.c - columns in any order, and a line number for everything that is wrong.
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

#include "read/optrace_csv.h"

#define HEAD "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n"

static void columns_are_found_by_name(void **state)
{
    const char text[] = "step,extra,optype,start_ts,duration,seq_id,dp_rank,stage,rank\r\n"
                        "23,x y,forward-compute,1.5,0.25,3,1,2,5\r\n"
                        "-1,,gc,1e-3,0,0,0,0,0\n\n";
    struct optrace trace;

    (void)state;
    assert_int_equal(optrace_csv_read(text, strlen(text), &trace, NULL), 0);
    assert_int_equal(trace.count, 2);
    assert_int_equal(trace.row[0].step, 23);
    assert_int_equal(trace.row[0].kind, OPTRACE_FORWARD);
    assert_int_equal(trace.row[0].start_ns, 1500000000);
    assert_int_equal(trace.row[0].duration_ns, 250000000);
    assert_int_equal(trace.row[0].seq, 3);
    assert_int_equal(trace.row[0].dp, 1);
    assert_int_equal(trace.row[0].stage, 2);
    assert_int_equal(trace.row[0].rank, 5);
    assert_int_equal(trace.row[0].chunk, -1);
    assert_int_equal(trace.row[1].step, -1);
    assert_int_equal(trace.row[1].start_ns, 1000000);
    optrace_fini(&trace);
}

static void chunks_may_be_empty_or_written_as_fractions(void **state)
{
    const char text[] = HEAD "0,0,0,1,gc,0,0,0,,,\n0,0,0,1,optimizer,0,0,0,1.0,0,nan\n";
    struct optrace trace;

    (void)state;
    assert_int_equal(optrace_csv_read(text, strlen(text), &trace, NULL), 0);
    assert_int_equal(trace.row[0].chunk, -1);
    assert_int_equal(trace.row[1].chunk, 1);
    assert_int_equal(trace.row[1].gchunk, -1);
    optrace_fini(&trace);
}

static void what_is_wrong_is_said_with_its_line(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        { "", "no column dp_rank" },
        { "a,b\n", "line 1: no column dp_rank" },
        { "rank,rank\n", "line 1: column rank appears twice" },
        { HEAD, "it contains no op" },
        { HEAD "0,0,0,1,gc,0,0,0,0,0\n", "line 2: 10 values, expected 11 as in line 1" },
        { HEAD "0,0,0,1,gc,0,0,0,0,0,0,0\n", "line 2: 12 values" },
        { HEAD "0,0,0,1,gc,0,0,0,0,0,0\n0,0,0,1,nap,0,0,0,0,0,0\n", "line 3: optype is 'nap'" },
        { HEAD "-1,0,0,1,gc,0,0,0,0,0,0\n", "line 2: dp_rank is '-1'" },
        { HEAD "0,0,0,1.5,gc,0,0,0,0,0,0\n", "line 2: step is '1.5'" },
        { HEAD "0,0,0,1,gc,inf,0,0,0,0,0\n", "line 2: start_ts is 'inf'" },
        { HEAD "0,0,0,1,gc,0,-1,0,0,0,0\n", "line 2: duration is '-1'" },
        { HEAD "0,0,0,1,gc,0,0x10,0,0,0,0\n", "line 2: duration is '0x10'" },
        { HEAD "0,0,0,1,gc,1e99,0,0,0,0,0\n", "line 2: start_ts is '1e99'" },
        { HEAD "0,0,9999999,1,gc,0,0,0,0,0,0\n", "line 2: rank is '9999999'" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct optrace trace;
        struct err err = { "" };

        assert_int_equal(optrace_csv_read(bad[i].text, strlen(bad[i].text), &trace, &err), -EPROTO);
        if (!strstr(err.text, bad[i].words))
            fail_msg("'%s' does not say '%s'", err.text, bad[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_found_by_name),
        cmocka_unit_test(chunks_may_be_empty_or_written_as_fractions),
        cmocka_unit_test(what_is_wrong_is_said_with_its_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
