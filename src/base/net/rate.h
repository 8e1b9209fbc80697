/* rate.h - rate limits per name, in bounded memory.
 *
 * Buckets are found by hash: two names with the same bucket share its rate.  In return a flood of names cannot fill
 * the table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOCKSTEP_BASE_NET_RATE_H
#define LOCKSTEP_BASE_NET_RATE_H

#include <stdbool.h>
#include <stdint.h>

#define RATE_BUCKETS 4096

struct rate {
    double per_second, burst;
    struct rate_bucket {
        double used; /* drains with time */
        int64_t at_ns;
    } bucket[RATE_BUCKETS];
};

void rate_init(struct rate *rate, double per_second, double burst);
/* True and counted when `who` may take `amount` now.  An amount beyond the burst passes an empty
 * bucket and is paid off later, so nothing is impossible for ever.
 */
bool rate_take(struct rate *rate, uint64_t who, double amount, int64_t now_ns);

#endif
