/* perftest.h - what ib_write_bw and ib_write_lat print.
 *
 * Text of another program: columns are found by the names in the line that begins with "#bytes", because their number and order
 * depend on version and options.  The last line of numbers behind it counts: with -a there is one for each size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_VERIFY_FABRIC_PERFTEST_H
#define LOCKSTEP_VERIFY_FABRIC_PERFTEST_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct perftest {
    uint64_t bytes, iterations; /* of a message; messages */
    double gbps;                /* average; 0: a test of latency */
    double
        latency_us; /* median, or the average where only that is printed; 0: a test of bandwidth */
};

/* -ENODATA with a sentence: there is no result in it, and what the program said instead. */
int perftest_parse(const char *text, size_t size, struct perftest *ret, struct err *err);

#endif
