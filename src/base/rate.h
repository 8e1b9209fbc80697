/* rate.h - how much each of many may take per second; memory is bounded and nobody is listed.
 *
 * Buckets are found by hash: two names that share one also share what they may take, which is the
 * price of a table that a flood of names cannot fill.
 */
#ifndef LOCKSTEP_BASE_RATE_H
#define LOCKSTEP_BASE_RATE_H

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
